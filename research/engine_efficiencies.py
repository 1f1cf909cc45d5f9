"""How much of a device's bandwidth and peak engines reach, by platform and by how narrow the weights are.

Answer: `domain/data/engine_efficiencies.json`, which this writes; the table in docs/prediction.md is its output. Decoding
reaches 50 to 90 % of the bandwidth, the less the narrower the weights are; prompts 15 to 75 % of the 16-bit peak.

    python -m research.engine_efficiencies --data DATA [--write]

DATA holds `aiconfigurator/silicon_sample.csv`, `argonne/All_results.csv`, `openvino/*.csv` and `models/sgl_cookbook.csv`
as published; `research/engine_rows.csv` holds single figures from discussions and tables that people published, each with
its source. Tokens count of single requests on one device, prompts of up to four. A share is the median over devices of each device's median; what a
device reaches follows from the devices most like it (`predictor.llm_serving.efficiency`), and the width holds four of five rows on devices that were left out. Where an engine has no row on a platform, `AS_ANOTHER` says whose
figures stand for it.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import median

import msgspec

from domain.catalogues import engines, hardware, language_models
from domain.catalogues.engines import BANDS, DeviceShare, Efficiency, Share, band_of
from domain.catalogues.language_models import LanguageModel
from domain.performance.roofline import DEFAULT_LAUNCH_S, LAUNCH_S
from ingest.importers import Refused, import_paths
from predictor.features.dataset import Row, row_from_event
from predictor.llm_serving.deployment import Deployment, deployment_of
from predictor.llm_serving.efficiency import LEAST, MOST, DeviceShares
from predictor.llm_serving.physics import Device, device_of, estimate

OWN_ROWS = Path(__file__).with_name("engine_rows.csv")
PUBLISHED = (
    "aiconfigurator/silicon_sample.csv",
    "argonne/All_results.csv",
    "openvino/llm_core_ultra.csv",
    "openvino/openvino_benchmarks.csv",
    "models/sgl_cookbook.csv",
)
AS_ANOTHER = {
    ("sglang", "cuda"): ("vllm", "cuda"),
    ("sglang", "rocm"): ("vllm", "rocm"),
    ("llama.cpp-vulkan", "xpu"): ("llama.cpp", "xpu"),
    ("transformers", "cuda"): ("vllm", "cuda"),
    ("transformers", "rocm"): ("vllm", "rocm"),
    ("transformers", "xpu"): ("vllm", "xpu"),
    ("transformers", "mps"): ("llama.cpp", "mps"),
    ("transformers", "cpu"): ("llama.cpp", "cpu"),
}
"""Engines without rows on a platform, and the ones whose figures they take; their width is that of engines without rows."""
EAGER = "transformers"
"""It calls the same kernels one by one: what a call costs follows from its own row."""
MOST_REQUESTS = 4
ENOUGH = 10
"""Rows with which an engine has figures of its own where another one's could stand for them."""
SHORTEST = 128
"""Tokens of a prompt that say something of arithmetic."""
USUAL_TOKENS = (1024, 128)
"""Of rows that do not say how long their requests are."""
SPREAD = 0.5
"""The width where fewer than three devices tell of one: a factor of 1.65."""
LAUNCHES = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Times the platform's usual launch that are tried."""
ALIKE = 0.015
"""Errors (log) that differ by less tell nothing of a launch."""
FEW = 6
"""So many of them where fewer than three devices tell."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One published time: of a token (`decode`) or of a prompt, in seconds."""

    engine: str
    platform: str
    kind: str | None
    device: str
    band: str
    phase: str
    seconds: float
    model: LanguageModel
    deployment: Deployment
    full: Device
    source: str

    def made(self, share: float, prefill: float, launch_s: float) -> float:
        """Return the seconds at shares of the bandwidth and the peak."""
        device = msgspec.structs.replace(
            self.full,
            bandwidth=self.full.bandwidth * share,
            dense_flops=self.full.dense_flops * prefill,
            expert_flops=self.full.expert_flops * prefill,
            attention_flops=self.full.attention_flops * prefill,
            launch_s=launch_s,
        )
        result = estimate(self.model, self.deployment, device)
        return result.ttft_s if self.phase == "prefill" else result.tpot_s

    def at(self, share: float, launch_s: float) -> float:
        """Return the seconds at a share of what bounds its phase."""
        return self.made(1.0, share, launch_s) if self.phase == "prefill" else self.made(share, 1.0, launch_s)


def main() -> None:
    """Fit, print the table, and write the file where that is asked."""
    parser = argparse.ArgumentParser(prog="python -m research.engine_efficiencies", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    points = [*own_points(), *(point for name in PUBLISHED for point in published_points(options.data / name))]
    fitted = fit(points)
    print(table(fitted))
    if options.write:
        path = Path(str(files("domain").joinpath("data/engine_efficiencies.json")))
        lines = [msgspec.json.encode(item).decode() for item in fitted]
        path.write_text("[\n  " + ",\n  ".join(lines) + "\n]\n")


def table(fitted: Sequence[Efficiency]) -> str:
    """Return the shares as a table of Markdown."""
    lines = ["| engine | platform | decoding, of the bandwidth | prompt, of the peak | rows | source |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for item in fitted:
        where = item.platform + (f" ({item.kind})" if item.kind else "")
        rows = sum(share.rows for share in (*item.decode.values(), *item.prefill.values()))
        cells = [item.engine, where, _said(item.decode), _said(item.prefill), f"{rows}", item.source]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _said(shares: Mapping[str, Share]) -> str:
    bits = {"wide": "16 bits", "middle": "8", "narrow": "4"}
    return ", ".join(
        f"{bits[name]}: {shares[name].value:.0%} ÷× {math.exp(shares[name].width):.2g}"
        for name in reversed(BANDS)
        if name in shares
    )


def fit(points: Sequence[Point]) -> list[Efficiency]:
    """Return what each engine reaches on each platform, those without rows after the others."""
    groups: dict[tuple[str, str, str | None], list[Point]] = defaultdict(list)
    for point in points:
        groups[point.engine, point.platform, point.kind if point.platform == "openvino" else None].append(point)
    result = {key: found for key, items in groups.items() if (found := fitted_engine(key, items)) is not None}
    typical = _typical(list(result.values()))
    result = {
        key: item if item.prefill else msgspec.structs.replace(item, prefill=typical) for key, item in result.items()
    }
    for (engine, platform), other in AS_ANOTHER.items():
        as_other = result.get((*other, None))
        if as_other is not None and _rows(result.get((engine, platform, None))) < ENOUGH:
            result[engine, platform, None] = _borrowed(engine, platform, as_other)
    if (EAGER, "cuda", None) in result:
        launch_s = _launch(result[EAGER, "cuda", None], groups[EAGER, "cuda", None])
        for key in [key for key in result if key[0] == EAGER]:
            result[key] = msgspec.structs.replace(result[key], launch_s=launch_s)
    return [result[key] for key in sorted(result, key=str)]


def _rows(item: Efficiency | None) -> int:
    return 0 if item is None else sum(share.rows for share in item.decode.values())


def _typical(fitted: Sequence[Efficiency]) -> dict[str, Share]:
    """What engines with rows of prompts reach in the mean, for those without."""
    shares = [share.value for item in fitted for share in item.prefill.values()]
    width = 2 * float(median(abs(math.log(share / median(shares))) for share in shares))
    return {"wide": Share(value=float(f"{median(shares):.3g}"), width=float(f"{width:.3g}"), rows=0, devices=0)}


def _launch(item: Efficiency, points: Sequence[Point]) -> float:
    """What a call costs by the rows of an engine that calls kernel after kernel, its shares being those of another."""
    share = item.decode["wide"].value
    each = [
        (point.seconds - point.at(share, 0.0)) / (point.at(share, 1.0) - point.at(share, 0.0))
        for point in points
        if point.phase == "decode"
    ]
    return float(f"{median(each):.3g}") if each else item.launch_s


def _borrowed(engine: str, platform: str, other: Efficiency) -> Efficiency:
    def wider(shares: Mapping[str, Share]) -> dict[str, Share]:
        return {
            band: msgspec.structs.replace(share, width=max(share.width, SPREAD), rows=0, devices=0)
            for band, share in shares.items()
        }

    return msgspec.structs.replace(
        other,
        engine=engine,
        platform=platform,
        decode=wider(other.decode),
        prefill=wider(other.prefill),
        source=f"no published row: as {other.engine} on {other.platform}",
    )


def fitted_engine(key: tuple[str, str, str | None], points: Sequence[Point]) -> Efficiency | None:
    """Fit the launch under which shares of decoding explain most, then the shares."""
    engine, platform, kind = key
    prompts = [point for point in points if point.phase == "prefill"]
    tokens = [point for point in points if point.phase == "decode"]
    if not tokens:
        return None
    base = LAUNCH_S.get(platform, DEFAULT_LAUNCH_S)
    factors = LAUNCHES if len({point.device for point in tokens}) > 2 else LAUNCHES[:FEW]
    tried = {factor: device_shares(tokens, base * factor) for factor in factors}
    off = {factor: left_out(tokens, tried[factor], base * factor) for factor in factors}
    alike = ALIKE if factors is LAUNCHES else 0.0
    launch = _usual_where_alike({factor: _off(tokens, off[factor]) for factor in factors}, alike)
    launch_s = base * launch
    asked = device_shares(prompts, launch_s)
    return Efficiency(
        engine=engine,
        platform=platform,
        kind=kind,
        decode=_shares(tokens, tried[launch], off[launch]),
        prefill=_shares(prompts, asked, left_out(prompts, asked, launch_s)),
        launch_s=float(f"{launch_s:.3g}"),
        source="; ".join(sorted({point.source for point in points})),
        decode_devices=tried[launch],
        prefill_devices=asked,
    )


def _usual_where_alike(off: Mapping[float, float], alike: float) -> float:
    """Return the factor with the least error; of those that are hardly worse, the nearest to the platform's usual launch."""
    best = min(off.values())
    kept = [factor for factor, value in off.items() if value <= best + alike]
    return min(kept, key=lambda factor: abs(math.log(max(factor, LAUNCHES[1] / 2))))


def _off(points: Sequence[Point], errors: Sequence[float]) -> float:
    """The mean error (log) of the times, each device counting once."""
    by_device: dict[str, list[float]] = defaultdict(list)
    for point, error in zip(points, errors, strict=True):
        by_device[point.device].append(abs(error))
    return sum(median(each) for each in by_device.values()) / len(by_device)


def device_shares(points: Sequence[Point], launch_s: float) -> tuple[DeviceShare, ...]:
    """Return the median share of each device with weights of each band."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for point in points:
        groups[point.device, point.band].append(_solved(point, launch_s))
    return tuple(
        DeviceShare(device=device, band=band, value=float(f"{median(each):.3g}"), rows=len(each))
        for (device, band), each in sorted(groups.items())
    )


def left_out(points: Sequence[Point], shares: Sequence[DeviceShare], launch_s: float) -> list[float]:
    """Return log(predicted / measured) of each point, from the shares of the other devices."""
    others: dict[str, DeviceShares | None] = {}
    errors: list[float] = []
    for point in points:
        rest = [share for share in shares if share.device != point.device]
        if point.device not in others:
            others[point.device] = DeviceShares.fit(rest, point.platform)
        share = predicted(others[point.device], rest or shares, point)
        errors.append(math.log(point.at(share, launch_s) / point.seconds))
    return errors


def predicted(process: DeviceShares | None, shares: Sequence[DeviceShare], point: Point) -> float:
    """Return the share of a point's device: what the process says, else the median of the devices that are known."""
    value = None if process is None else process.predict(hardware.require(point.device), point.platform, point.band)
    return value or median(share.value for share in shares)


def _shares(points: Sequence[Point], shares: Sequence[DeviceShare], errors: Sequence[float]) -> dict[str, Share]:
    """The shares by band of weights, as wide as what was left out lay off."""
    result: dict[str, Share] = {}
    for band in BANDS:
        here = [share for share in shares if share.band == band]
        if not here:
            continue
        width = SPREAD
        if len(here) > 2:
            off = sorted(abs(error) for point, error in zip(points, errors, strict=True) if point.band == band)
            width = off[math.ceil(0.8 * len(off)) - 1]
        result[band] = Share(
            value=float(f"{median(share.value for share in here):.3g}"),
            width=float(f"{max(width, 0.1):.3g}"),
            rows=sum(share.rows for share in here),
            devices=len(here),
        )
    return result


def _solved(point: Point, launch_s: float) -> float:
    """The share at which the estimate is what was measured, by halving; the nearest that is believed where none is."""
    low, high = math.log(LEAST), math.log(MOST)
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if point.at(math.exp(middle), launch_s) > point.seconds else (low, middle)
    return math.exp((low + high) / 2)


def own_points() -> Iterator[Point]:
    """Yield the figures of `engine_rows.csv`."""
    with OWN_ROWS.open(newline="") as lines:
        for entry in csv.DictReader(lines):
            for phase, tokens in (("prefill", "prompt"), ("decode", "output")):
                rate, length = entry[f"{tokens}_tokens_per_s"], entry[f"{tokens}_tokens"]
                if not rate or not length:
                    continue
                number = int(length)
                row = Row(
                    model=entry["model"],
                    hardware=entry["device"],
                    platform=entry["platform"],
                    precision=entry["precision"],
                    batch_size=1,
                    input_tokens=number if phase == "prefill" else 1,
                    output_tokens=1 if phase == "prefill" else number,
                    runtime=entry["engine"],
                )
                seconds = number / float(rate) if phase == "prefill" else 1 / float(rate)
                yield from _point(row, phase, seconds, "published discussions (research/engine_rows.csv)")


def published_points(path: Path) -> Iterator[Point]:
    """Yield the figures of single requests in a published table."""
    for event in import_paths("auto", [path]):
        row = None if isinstance(event, Refused) or "measurement" not in event["type"] else row_from_event(event)
        requests = 0 if row is None else row.concurrency or row.batch_size or 1
        if row is None or row.verdict == "invalid" or requests > MOST_REQUESTS:
            continue
        lengths = (row.input_tokens or USUAL_TOKENS[0], row.output_tokens or USUAL_TOKENS[1])
        row = msgspec.structs.replace(
            row, input_tokens=lengths[0], output_tokens=lengths[1], batch_size=row.batch_size or 1
        )
        if requests > 1:
            pass
        elif row.tpot_ms:
            yield from _point(row, "decode", row.tpot_ms / 1e3, row.source or path.name)
        elif row.tokens_per_s and row.runtime.startswith("openvino"):
            yield from _point(row, "decode", 1 / row.tokens_per_s, row.source or path.name)
        elif row.tokens_per_s and row.batch_size == 1 and row.latency_ms and lengths[1] >= lengths[0]:
            # Requests whose prompts are short beside their answers.
            yield from _point(row, "decode", row.latency_ms / 1e3 / lengths[1], row.source or path.name)
        if row.ttft_ms and lengths[0] >= SHORTEST:
            yield from _point(row, "prefill", row.ttft_ms / 1e3, row.source or path.name)


def _point(row: Row, phase: str, seconds: float, source: str) -> Iterator[Point]:
    model, spec, engine = language_models.find(row.model), hardware.find(row.hardware), engines.find(row.runtime)
    if model is None or spec is None or engine is None or row.platform not in engine.platforms:
        return
    row = msgspec.structs.replace(row, runtime=engine.name)
    deployment = deployment_of(row, model.heads, mixture=bool(model.experts))
    if isinstance(deployment, str) or row.count > 1 or deployment.decode.devices > 1:
        return
    full = device_of(spec, row.platform, deployment.storage, LAUNCH_S.get(row.platform, DEFAULT_LAUNCH_S))
    if full is None:
        return
    yield Point(
        engine=engine.name,
        platform=row.platform,
        kind=spec.kind,
        device=spec.id,
        band=band_of(8 * deployment.storage.expert_bytes),
        phase=phase,
        seconds=seconds,
        model=model,
        deployment=deployment,
        full=full,
        source=source,
    )


if __name__ == "__main__":
    main()
