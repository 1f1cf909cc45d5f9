"""What a calibration shows: a table of kernels, a picture of them under the roof, and what the device reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from assay.cli.output import answers, grid, say
from domain.catalogues.hardware import HardwareSpec, fill, find, spec_from_event
from domain.events import HARDWARE_DESCRIBED, KERNEL_MEASURED
from domain.payloads import KernelMeasured
from domain.performance.kernel_figures import KernelFigure, Reached, kernel_figures, reached
from domain.performance.roofline import limits_of
from presentation import formatting
from presentation.text_roofline import Place, text_roofline

__all__ = ["Calibrated", "calibrated_in", "show_calibration", "show_refused"]

Event = Mapping[str, Any]
_LETTERS = {
    "gemm": "g",
    "bmm": "b",
    "convolution": "c",
    "attention": "a",
    "softmax": "s",
    "norm": "n",
    "elementwise": "e",
}
_SIZES = {
    "gemm": "{m} × {n} × {k}",
    "bmm": "{batch} × ({m} × {n} × {k})",
    "convolution": "{batch} × {in_channels}→{out_channels}, {height}², {kernel_height}×{kernel_width}",
    "attention": "{batch} × {heads} × {query_tokens} (+{cached_tokens})",
}


class Calibrated(msgspec.Struct, frozen=True, kw_only=True):
    """The kernels of one device under one software in one precision, with the limits that they are held against."""

    hardware: str
    platform: str
    runtime: str
    precision: str
    peak_flops: float | None
    bandwidth_bytes_per_s: float | None
    reached: Reached
    kernels: list[KernelFigure]


def calibrated_in(events: Sequence[Event]) -> list[Calibrated]:
    """Return what the kernel events among these hold, software by software and precision by precision."""
    specs = {
        event["data"]["hardware"]["id"]: spec_from_event(event["data"])
        for event in events
        if event["type"] == HARDWARE_DESCRIBED
    }
    parts: dict[tuple[str, str, str, str], list[KernelMeasured]] = {}
    for event in events:
        if event["type"] != KERNEL_MEASURED:
            continue
        data = msgspec.convert(event["data"], KernelMeasured)
        runtime = data.execution.runtime.name if data.execution.runtime else ""
        key = (data.hardware.id, data.execution.platform, runtime, data.execution.precision or "fp32")
        parts.setdefault(key, []).append(data)
    return [_calibrated(key, tables, specs.get(key[0])) for key, tables in parts.items()]


def _calibrated(
    key: tuple[str, str, str, str], tables: Sequence[KernelMeasured], spec: HardwareSpec | None
) -> Calibrated:
    hardware, platform, runtime, precision = key
    existing = find(hardware)
    whole = fill(spec, existing) if spec is not None and existing is not None else spec or existing
    limits = None if whole is None else limits_of(whole, precision, platform)
    peak, bandwidth = (None, None) if limits is None else (limits.peak_flops, limits.bandwidth_bytes_per_s)
    figures = [figure for data in tables for figure in kernel_figures(data, peak, bandwidth)]
    return Calibrated(
        hardware=hardware,
        platform=platform,
        runtime=runtime,
        precision=precision,
        peak_flops=peak,
        bandwidth_bytes_per_s=bandwidth,
        reached=reached(figures, peak, bandwidth),
        kernels=figures,
    )


def show_calibration(parts: Sequence[Calibrated]) -> None:
    """Print the table, the roofline and the shares of each part."""
    for part in parts:
        software = part.runtime if part.runtime in ("", part.platform) else f"{part.runtime} on {part.platform}"
        title = f"{part.hardware}, {software or part.platform}, {part.precision}"
        heads: list[str | tuple[str, str]] = [("kernel", "fixed"), "sizes", ("time", "right"), ("reached", "right")]
        heads += [("of its limit", "right"), ("verdict", "fixed")]
        answers().print(grid(title, heads, [_row(figure) for figure in part.kernels]))
        for line in _picture(part):
            answers().print(line, highlight=False, markup=False, no_wrap=True, crop=True)
        for line in _sentences(part):
            answers().print(line, highlight=False, markup=False)
        answers().print()


def _row(figure: KernelFigure) -> list[str]:
    arithmetic = figure.bound == "arithmetic" or (figure.bound is None and not figure.moving)
    rate = (figure.flops_per_s, "FLOP/s") if arithmetic else (figure.bytes_per_s, "B/s")
    return [
        figure.name,
        _SIZES.get(figure.operator, "{rows} × {row_size}").format(**figure.sizes),
        formatting.plain(formatting.latency(figure.latency_ms)),
        formatting.plain(formatting.si(*rate)),
        formatting.plain(formatting.share(figure.share)),
        figure.verdict,
    ]


def _picture(part: Calibrated) -> list[str]:
    used = [figure for figure in part.kernels if figure.verdict != "invalid"]
    if not used or part.peak_flops is None or part.bandwidth_bytes_per_s is None:
        return []
    places = [Place(figure.intensity, figure.flops_per_s, _LETTERS[figure.operator]) for figure in used]
    lines = text_roofline(places, part.peak_flops, part.bandwidth_bytes_per_s)
    named = {_LETTERS[figure.operator]: figure.operator for figure in used}
    legend = ", ".join(f"{letter} {operator}" for letter, operator in named.items())
    return ["", *lines, f"  {legend}, * several, · roof"]


def _sentences(part: Calibrated) -> Iterator[str]:
    """Yield what the device reached, and what is wrong with the timings."""
    whole = part.reached
    said = []
    for value, share, limit, unit, word in (
        (whole.flops_per_s, whole.arithmetic_share, part.peak_flops, "FLOP/s", "arithmetic"),
        (whole.bytes_per_s, whole.bandwidth_share, part.bandwidth_bytes_per_s, "B/s", "bandwidth"),
    ):
        if value is not None:
            of = f", {formatting.share(share)} of {formatting.si(limit, unit)}" if share is not None else ""
            said.append(formatting.plain(f"{word} {formatting.si(value, unit)}{of}"))
    if whole.floor_us is not None:
        said.append(f"floor {formatting.significant(whole.floor_us)} µs")
    if said:
        yield f"Reached in {part.precision}: {'; '.join(said)}."
    if whole.invalid:
        yield f"{whole.invalid} of {len(part.kernels)} timings are invalid and correct nothing. {_first(part, 'invalid')}."
        yield "Free the machine of other work and calibrate again."
    if whole.doubtful:
        yield f"{whole.doubtful} of {len(part.kernels)} timings are suspect. {_first(part, 'suspect')}."


def _first(part: Calibrated, verdict: str) -> str:
    first = next(figure for figure in part.kernels if figure.verdict == verdict)
    return f"{first.name}: {(first.reason or 'not explained').split('; ')[0]}"


def show_refused(refused: Sequence[Any]) -> None:
    """Name what was not measured, each reason once with what it is the reason of."""
    reasons: dict[str, list[str]] = {}
    for each in refused:
        what = " ".join(filter(None, (each.platform, each.precision, each.kernel)))
        why = " ".join(filter(None, (each.why.message, each.why.remedy)))
        reasons.setdefault(why, []).append(what)
    for why, named in reasons.items():
        say(f"not measured: {', '.join(named)}: {why}")
