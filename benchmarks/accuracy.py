"""How accurate the predictor is on the published measurements of others, split by split, beside the bars it was built for.

    python -m benchmarks.accuracy --data DATA [--traces TRACES.ndjson.gz] [names…] [--list] [--bars]

DATA holds the folders timm, aiconfigurator, argonne, ai_hub, openvino, kernels and models with the files that docs/importers.md
names. The work of timm's models comes from the traces that ship, or from --traces (`python research/trace_timm.py`). Whole models
of other sources come from the rows that ship, kernels from their tables (`benchmarks.published`, `benchmarks.kernel_lines`). Every
other line is `predictor.learning.evaluation` over rows as the importers give them, as `assay evaluate` runs it over a log. The
result goes to benchmarks/results/accuracy/. `--bars` measures nothing: it writes the titles, bars and reaches of today into the
results that are there.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import kernel_lines, published, served_lines
from domain.catalogues import hardware
from domain.events import MEASUREMENT_RECORDED
from ingest.importers import Refused, import_paths
from predictor import general
from predictor.answering.facts import trace_from_row
from predictor.features.dataset import Row, row_from_event, training_rows
from predictor.features.shipped_traces import shipped_rows
from predictor.features.table import Table
from predictor.features.traces import TraceBook
from predictor.general.own_rows import ANY, WIDTHS
from predictor.learning.evaluation import hold_out, pooled, summarise
from predictor.learning.method import Method
from predictor.learning.routes import chosen, routed
from predictor.shipped.building import read_traces

__all__ = ["LINES", "Line", "main"]

RESULTS = Path(__file__).parent / "results" / "accuracy"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation; `bars` say, by device or `all`, what an error must be at the most (shares), `reach` what would be good.

    With few rows the shots are drawn `draws` times and all errors count.
    """

    title: str
    data: str
    split: str
    target: str = "throughput"
    shots: int = 0
    draws: int = 1
    mode: str = "inference"
    platform: str | None = None
    hardware: str | None = None
    route: str | None = None
    figure: str = "mape"
    precisions: tuple[str, ...] = ()
    bars: dict[str, float] = {}
    reach: dict[str, float] = {}


# Bars and reaches are those of issue 22 where its table has the line. Other bars are older; their reach is about four fifths.
LINES: dict[str, Line] = {
    "interpolation": Line(title="interpolation: random rows of timm", data="timm", split="random", bars={"all": 0.035}, reach={"all": 0.03}),
    "architecture": Line(
        title="unseen architecture, timm inference", data="timm", split="architecture", bars={"all": 0.06}, reach={"all": 0.05}
    ),
    "family": Line(title="unseen family, timm inference", data="timm", split="family", bars={"all": 0.10}, reach={"all": 0.09}),
    "gpu-0": Line(
        title="unseen GPU, no measurement of it",
        data="timm",
        split="hardware",
        platform="cuda",
        bars={"nvidia-rtx-4090": 0.10, "nvidia-rtx-5090": 0.10, "nvidia-rtx-3090": 0.20},
        reach={"nvidia-rtx-4090": 0.08, "nvidia-rtx-5090": 0.08, "nvidia-rtx-3090": 0.16},
    ),
    "gpu-10": Line(
        title="unseen GPU, 10 measurements a software configuration",
        data="timm",
        split="hardware",
        shots=10,
        platform="cuda",
        bars={"nvidia-rtx-4090": 0.065, "nvidia-rtx-5090": 0.055, "nvidia-rtx-3090": 0.11},
        reach={"nvidia-rtx-4090": 0.05, "nvidia-rtx-5090": 0.05, "nvidia-rtx-3090": 0.09},
    ),
    "gpu-family-10": Line(
        title="unseen GPU and unseen family, 10 measurements",
        data="timm",
        split="hardware+family",
        shots=10,
        platform="cuda",
        bars={"all": 0.14},
        reach={"all": 0.12},
    ),
    "cpu-10": Line(
        title="unseen CPU, 10 measurements",
        data="timm",
        split="hardware",
        shots=10,
        platform="cpu",
        bars={"intel-core-i9-10940x": 0.13, "intel-core-i7-12700h": 0.11},
        reach={"intel-core-i9-10940x": 0.11, "intel-core-i7-12700h": 0.09},
    ),
    "training": Line(
        title="training throughput, unseen architecture", data="timm", split="architecture", mode="training",
        bars={"all": 0.09}, reach={"all": 0.08},
    ),
    "tpot": Line(
        title="time per output token, unseen configuration", data="aiconfigurator", split="configuration", target="tpot",
        bars={"all": 0.07}, reach={"all": 0.06},
    ),
    "ttft": Line(
        title="time to first token, unseen configuration", data="aiconfigurator", split="configuration", target="ttft",
        bars={"all": 0.15}, reach={"all": 0.12},
    ),
    "tpot-model-10": Line(
        title="time per output token, unseen model, 10 measurements", data="aiconfigurator", split="architecture",
        target="tpot", shots=10, bars={"all": 0.14}, reach={"all": 0.12},
    ),
    "tpot-gpu-10": Line(
        title="time per output token, unseen GPU, 10 measurements", data="aiconfigurator", split="hardware", target="tpot",
        shots=10, bars={"all": 0.08}, reach={"all": 0.06},
    ),
    "ttft-gpu-10": Line(
        title="time to first token, unseen GPU, 10 measurements", data="aiconfigurator", split="hardware", target="ttft",
        shots=10, bars={"all": 0.25}, reach={"all": 0.20},
    ),
    "argonne-10": Line(
        title="throughput of language models on an unseen accelerator, 10 measurements", data="argonne", split="hardware",
        shots=10, route="serving",
        bars={"amd-instinct-mi300x": 0.2, "amd-instinct-mi250": 0.2, "intel-gaudi2": 0.2, "intel-data-center-gpu-max-1550": 0.2},
        reach={"amd-instinct-mi300x": 0.16, "amd-instinct-mi250": 0.16, "intel-gaudi2": 0.16, "intel-data-center-gpu-max-1550": 0.16},
    ),
    "ai-hub-10": Line(
        title="AI-Hub latency, unseen device, seen model, 10 measurements", data="ai_hub", split="hardware",
        target="latency", shots=10, route="reference", bars={"all": 0.09}, reach={"all": 0.07},
    ),
    "whisper-3": Line(
        title="whisper.cpp encoders, chip left out, 3 measurements", data="whisper", split="hardware", target="latency",
        shots=3, draws=10, route="reference", bars={"all": 0.15}, reach={"all": 0.10},
    ),
    "openvino-5": Line(
        title="OpenVINO throughput, Intel platform left out, 5 measurements, int8 and fp16 or fp32", data="openvino",
        split="hardware", target="throughput", shots=5, route="reference", precisions=("int8", "fp16", "fp32"),
        bars={"all": 0.15}, reach={"all": 0.11},
    ),
}  # fmt: skip


@functools.cache
def rows_of(folder: Path, kind: str) -> tuple[Row | None, ...]:
    """Return the rows of one folder as their importer gives them."""
    name, files = {
        "ai_hub": ("ai-hub", "ai_hub"),
        "openvino": ("openvino-platforms", "openvino/openvino_benchmarks.csv"),
        "whisper": ("whisper-cpp", "models/whisper_cpp.csv"),
    }.get(kind, (kind, kind))
    events = (item for item in import_paths(name, [folder / files]) if not isinstance(item, Refused))
    return tuple(row_from_event(event) for event in events if event["type"] == MEASUREMENT_RECORDED)


@functools.cache
def book_of(traces: Path | None, models: frozenset[str]) -> TraceBook:
    """Return the traces of a compressed NDJSON file; without one those that ship of these models."""
    if traces is None:
        return TraceBook(trace_from_row(row) for row in shipped_rows(sorted(models)))
    return read_traces(traces)


def table_of(line: Line, data: Path, traces: Path | None) -> tuple[Table, Method]:
    """Return the rows of a line as its route understands them, and its method."""
    rows = training_rows(rows_of(data, line.data), line.target, line.mode, served=True)
    rows = [
        row
        for row in rows
        if line.platform in (None, row.platform) and (not line.precisions or row.precision in line.precisions)
    ]
    route = chosen(line.route, line.target)
    book = TraceBook() if route != "operators" else book_of(traces, frozenset(row.model for row in rows))
    return routed(route, rows, book, hardware.find, line.target)


def run(line: Line, data: Path, traces: Path | None, seed: int = 0) -> dict[str, Any]:
    """Return the evaluation of one line, with the seconds it took. It holds no row of other people's data."""
    began = time.monotonic()
    table, method = table_of(line, data, traces)
    draws = [hold_out(table, method, line.split, shots=line.shots, seed=seed + draw) for draw in range(line.draws)]
    document = summarise(table, pooled(draws), line.split, line.target, line.shots)
    return {
        **document,
        "method": method.name,
        "route": chosen(line.route, line.target),
        "line": msgspec.to_builtins(line),
        "seconds": round(time.monotonic() - began, 1),
    }


_KERNELS = {**kernel_lines.LINES, **served_lines.LINES}
OTHERS = (*published.LINES, *_KERNELS)
"""Lines that need published rows of whole models or kernels, the shipped predictor's kernels, or the rows of engines."""


def shaped(name: str) -> Line:
    """Return a line by name; one of OTHERS in the shape of a line."""
    if name in LINES:
        return LINES[name]
    line: published.PublishedLine | kernel_lines.KernelLine = published.LINES.get(name) or _KERNELS[name]
    return Line(
        title=line.title,
        data="published",
        split="hardware",
        target="latency",
        bars={"all": line.bar},
        reach={"all": line.reach},
        figure="mape" if isinstance(line, published.PublishedLine) else line.figure,
    )


def run_other(name: str, data: Path, seed: int) -> dict[str, Any]:
    """Return the evaluation of a line of OTHERS."""
    began = time.monotonic()
    document = (
        published.run(published.LINES[name], seed)
        if name in published.LINES
        else kernel_lines.run(_KERNELS[name], data)
    )
    line = msgspec.to_builtins(shaped(name))
    return {**document, "line": line, "seconds": round(time.monotonic() - began, 1)}


def write_bars(folder: Path) -> list[str]:
    """Write the titles, bars and reaches of today into the results of a folder, and return the names of their lines."""
    names = [name for name in (*LINES, *OTHERS) if (folder / f"{name}.json").exists()]
    for name in names:
        path = folder / f"{name}.json"
        _write(path, {**json.loads(path.read_text()), "line": msgspec.to_builtins(shaped(name))})
    return names


def write_own_rows(folder: Path) -> dict[str, dict[str, float]]:
    """Write what the results say of intervals after ten rows of a device to where the predictor reads it, and return it.

    Software that several lines measured gets the geometric mean, and software that none measured that of all, where it is
    wider: nothing says that its intervals may be narrower.
    """
    measured = [json.loads(path.read_text()).get("own_row_widths", {}) for path in sorted(folder.glob("*.json"))]
    names = sorted({name for factors in measured for name in factors})
    every: dict[str, dict[str, float]] = {}
    for name in (*names, ANY):
        for nominal in ("0.8", "0.9"):
            values = [
                by_nominal[nominal]
                for factors in measured
                for other, by_nominal in factors.items()
                if name in (other, ANY) and nominal in by_nominal
            ]
            if values:
                factor = round(statistics.geometric_mean(values), 4)
                every.setdefault(name, {})[nominal] = max(1.0, factor) if name == ANY else factor
    _write(Path(general.__file__).parent / WIDTHS, every)
    return every


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, sort_keys=True, indent=1) + "\n")


def verdicts(line: Line, document: dict[str, Any]) -> list[tuple[str, float | None, float]]:
    """Return for each bar its name, what was measured, and the bar."""
    parts = {"all": document["overall"], **document["by_hardware"]}
    return [(name, parts.get(name, {}).get(line.figure), bar) for name, bar in line.bars.items()]


def main(arguments: Sequence[str] | None = None, say: Callable[[str], None] = print) -> int:
    """Run the lines that are named; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="name", help="lines to run; all by default")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--traces", type=Path, help="traces of timm's models; those that ship by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true")
    parser.add_argument(
        "--bars", action="store_true", help="write the bars of today into the results, and measure nothing"
    )
    parser.add_argument(
        "--own-rows", action="store_true", help="write what results say of intervals after ten rows into the predictor"
    )
    options = parser.parse_args(arguments)
    if options.list:
        for name in (*LINES, *OTHERS):
            say(f"{name:18} {shaped(name).title}")
        return 0
    if options.bars:
        say(", ".join(write_bars(RESULTS)))
        return 0
    if options.own_rows:
        say(json.dumps(write_own_rows(RESULTS), indent=1))
        return 0
    if options.data is None:
        parser.error("--data is needed: the folder of published measurements")
    every = (*LINES, *OTHERS)
    unknown = set(options.names) - set(every)
    if unknown:
        parser.error(f"no line {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    good = True
    for name in options.names or every:
        line = shaped(name)
        document = (
            run(line, options.data, options.traces, options.seed)
            if name in LINES
            else run_other(name, options.data, options.seed)
        )
        _write(RESULTS / f"{name}.json", document)
        for part, value, bar in verdicts(line, document):
            met = value is not None and value <= bar
            good &= met
            shown = "–" if value is None else f"{value:.3f}"
            overall = document["overall"]
            say(
                f"{name:18} {part:24} {line.figure} {shown} (bar {bar:g}: {'yes' if met else 'no'}) within 10 % "
                f"{overall['within_10']:.3f} covers {overall['coverage_80']} {overall['coverage_90']} in {document['seconds']} s"
            )
        sys.stdout.flush()
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
