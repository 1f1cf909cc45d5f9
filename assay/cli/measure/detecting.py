"""`assay detect`, `assay noise`: what this machine is, what works on it, and whether it is quiet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import rich_click as click
from rich.markup import escape

from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, notes, print_json, say
from domain.errors import PartMissing, UsageError
from presentation import formatting

__all__ = ["detect", "noise"]

_IN_BROWSERS = ("wasm", "webgpu", "webnn")


@click.command(epilog="Examples: assay detect --json\n\nassay detect --post")
@click.option(
    "--post", is_flag=True, help="Send what was found to the service: this machine is one of your own from then on."
)
@served
@as_json
def detect(post: bool, server: str | None, token: str | None, as_json: bool) -> int:
    """Say what hardware this machine has and which platforms work on it, each tried and not assumed.

    With --post answers know this machine before anything is measured on it: --hardware own includes it.
    """
    import msgspec

    from runner.machine.detect import describe
    from runner.machine.detect import detect as look
    from runner.platforms.registry import create

    with notes().status("trying each platform"):
        result = describe(look())
    _tell_identity(result[0]["environment"])
    if post:
        _post(result, server, token)
    if as_json:
        print_json(result)
        return 0
    for item in result:
        spec = item.get("spec") or {}
        answers().print(
            grid(
                f"{item['hardware']['id']}  ({item.get('name') or item['hardware']['kind']})",
                ["figure", ("value", "right"), "how we know"],
                list(_figures(spec)),
            )
        )
        answers().print()
        rows = [_row(probe) for probe in item.get("platforms", [])]
        if item["hardware"]["kind"] == "cpu" and rows:
            probe = create("onnxruntime").probe()
            rows.append(_row({"platform": "onnxruntime", **msgspec.to_builtins(probe)}))
        if rows:
            answers().print(grid(None, ["platform", "here", "devices", "evidence, or why not"], rows))
            answers().print()
    return 0


def _post(described: Sequence[dict[str, Any]], server: str | None, token: str | None) -> None:
    """Send one description a device, as a run of `assay bench` does at its start."""
    from assay.cli.measure.destination import destination
    from domain.events import HARDWARE_DESCRIBED
    from runner.campaign.event_payloads import runner_source, stamped

    source = runner_source(described[0]["environment"])
    with destination(None, False, server, token) as take:
        for item in described:
            take(stamped(HARDWARE_DESCRIBED, item, source, item["hardware"]["id"]))


def _row(probe: dict[str, Any]) -> list[str]:
    """Return a platform's row; `assay bench` needs onnxruntime-web for what works in a browser."""
    evidence = (probe.get("evidence") if probe["available"] else probe.get("reason")) or "—"
    here = "yes" if probe["available"] else "no"
    if probe["available"] and probe["platform"] in _IN_BROWSERS and not _has_browser_runtime():
        here, evidence = "in a browser", f"{evidence}; `assay bench` needs onnxruntime-web: assay browser install"
    return [probe["platform"], here, ", ".join(probe.get("devices") or []) or "—", evidence]


def _has_browser_runtime() -> bool:
    from runner.browser.locations import onnxruntime_web

    try:
        onnxruntime_web()
    except PartMissing:
        return False
    return True


def _tell_identity(environment: dict[str, Any]) -> None:
    """Say as whom this machine's events are sent, and with which key they are signed; the key is made here."""
    from assay.home import find_home
    from runner.campaign.event_payloads import runner_source
    from runner.machine.signing import PublicKey, make_key

    say(f"events from here have the source {escape(runner_source(environment))}")
    try:
        key = PublicKey(make_key(find_home().path))
    except UsageError as error:
        say(f"they are not signed: {escape(str(error))}")
    else:
        say(f"they are signed by {key.id}")
        say(f"its public key, for `assay token create --public-key`: {key.text}")


def _figures(spec: dict[str, Any]) -> Iterator[list[str]]:
    for name, figure in spec.items():
        if not figure:
            continue
        nested = figure if "value" not in figure else {"": figure}
        for part, value in nested.items():
            how = value.get("formula") or value.get("source") or ""
            yield [f"{name} {part}".strip(), _amount(name, value["value"]), f"{value['status']}: {how}".rstrip(": ")]


def _amount(name: str, value: float) -> str:
    if "bytes_per_s" in name:
        return f"{formatting.significant(value / 1e9)} GB/s"
    if "bytes" in name:
        return formatting.memory(value)
    if "flops" in name:
        return f"{formatting.significant(value / 1e12)} TFLOP/s"
    if name.endswith("_hz"):
        return f"{formatting.significant(value / 1e9)} GHz"
    if name.endswith("_w"):
        return f"{formatting.significant(value)} W"
    return formatting.count(value)


@click.command(epilog="Example: assay noise --seconds 10 --json")
@click.option("--seconds", type=click.FloatRange(min=1), default=3.0, show_default=True, metavar="S")
@as_json
def noise(seconds: float, as_json: bool) -> int:
    """Score this moment on this machine: is it quiet enough to measure?

    Exit code 1 where measurements would be noisy; the reasons come with what would help.
    """
    from runner.measure.noise import LIMITS
    from runner.measure.noise import noise as listen

    with notes().status("listening"):
        score = listen(seconds)
    if as_json:
        print_json(score)
        return 0 if score.verdict == "pass" else 1
    rows = [
        [name, formatting.significant(value), *(_limits(LIMITS[name]) if name in LIMITS else ("", ""))]
        for name, value in score.figures.items()
    ]
    answers().print(
        grid(
            f"Noise: {score.verdict}",
            ["figure", ("value", "right"), ("noisy above", "right"), ("unusable above", "right")],
            rows,
        )
    )
    for sentence in (*score.reasons, *score.remedies):
        say(sentence)
    return 0 if score.verdict == "pass" else 1


def _limits(limit: Any) -> tuple[str, str]:
    return formatting.significant(limit.noisy), formatting.significant(limit.unusable)
