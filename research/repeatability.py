"""How well do published tables repeat themselves? That is the floor of any prediction that is held against them.

    python -m research.repeatability FILE… [--out docs/repeatability.md]

Answer: docs/repeatability.md. Every file is imported twice: the second reading must give the ids of the first, so that a
second import adds nothing. Rows agree in model, workload, execution and hardware; of each such group with two rows or
more the spread is the largest figure over the smallest, less one: of the median or mean latency where there is one, else
of the first metric that all of them have. Rows that a rule called invalid are left out. The error of a perfect predictor is
how far a repeated row is off the median of its group.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from domain.kernels import LATENCY, expanded
from domain.payloads import KernelMeasured
from ingest.importers import Refused, import_paths

__all__ = ["Source", "kernel_times", "main", "read", "repeated_figures"]

_METRICS = ("ttft_ms", "tpot_ms", "throughput_per_s", "tokens_per_s")
_JSON = msgspec.json.Encoder(order="deterministic")
_ABOUT = """# How published tables repeat themselves

Nobody can predict a source better than it agrees with itself. A configuration is model, workload, software with its
version and options, and device; where a source has it twice or more, the spread is the largest figure over the smallest,
less one. Half of the repeated configurations spread by less than the median, one in ten by more than the last column.
Versions that the source does not give are not part of the configuration: releases are then counted as repetitions.
Of kernels a configuration is device, software, operator and all sizes; a row is one timing.

*Perfect predictor* is the error, mean and median over the repeated rows, of one that knew the median of every configuration.
A row that a source carries over unchanged from an earlier file counts as a repetition here;
[accuracy.md](accuracy.md#what-bounds-each-line) has the same of each line's own rows without those.

*new on a second import* is the number of rows that a second reading would add to the log.

"""
_HEAD = (
    "source", "format", "licence", "rows", "refused", "suspect", "invalid", "new on a second import",
    "configurations", "repeated", "spread: median", "nine of ten below", "perfect predictor: mean", "median",
)  # fmt: skip


class Source(NamedTuple):
    """What a file gave: its format and licence, counts of rows, and the figures of repeated configurations."""

    name: str
    format: str
    licence: str
    counts: Counter[str]
    again: int
    configurations: int
    repeated: list[Sequence[float]]

    @property
    def spreads(self) -> list[float]:
        """The largest figure over the smallest, less one, of each repeated configuration."""
        return [max(figures) / min(figures) - 1 for figures in self.repeated]

    @property
    def errors(self) -> list[float]:
        """How far each repeated row is off the median of its configuration, as a share of the row."""
        errors: list[float] = []
        for figures in self.repeated:
            middle = statistics.median(figures)
            errors += (abs(middle / figure - 1) for figure in figures)
        return errors


def read(path: Path) -> Source:
    """Import a file twice and compare its rows."""
    counts: Counter[str] = Counter()
    groups: dict[bytes, list[Mapping[str, Any]]] = defaultdict(list)
    kernels: dict[tuple[Any, ...], array[float]] = defaultdict(lambda: array("f"))
    ids: set[str] = set()
    format_, licence = "", ""
    for item in import_paths("auto", [path]):
        if isinstance(item, Refused):
            counts["refused"] += 1
            format_ = format_ or item.format or ""
            continue
        data = item["data"]
        ids.add(item["id"])
        format_ = format_ or item["source"].rpartition(":")[2]
        licence = licence or (data.get("provenance") or {}).get("licence", "")
        if "columns" in data:
            counts["rows"] += data["timings"]
            counts.update({mark["verdict"]: mark["timings"] for mark in data.get("marks", {}).values()})
            for sizes, times in kernel_times(data):
                kernels[sizes].extend(times)
        if "metrics" not in data:
            continue
        verdict = (data.get("validity") or {}).get("verdict")
        counts["rows"] += 1
        counts[verdict or ""] += 1
        if verdict != "invalid":
            parts = [data["model"]["id"], data["workload"], data["execution"], data["hardware"]]
            groups[_JSON.encode(parts)].append(data["metrics"])
    again = sum(item["id"] not in ids for item in import_paths("auto", [path]) if not isinstance(item, Refused))
    repeated: list[Sequence[float]] = [figures for rows in groups.values() if (figures := repeated_figures(rows))]
    repeated += [times for times in kernels.values() if len(times) > 1]
    return Source(path.name, format_, licence or "not said", counts, again, len(groups) + len(kernels), repeated)


_SOFTWARE = ("hardware", "execution", "operator", "name", "phase", "types", "kernel", "fixed")


def kernel_times(data: Mapping[str, Any]) -> Iterator[tuple[tuple[Any, ...], list[float]]]:
    """Yield the configuration and the time of each kernel of an event; those whose mark says invalid are left out."""
    payload = msgspec.convert(data, KernelMeasured)
    columns = {name: expanded(values) for name, values in payload.columns.items()}
    times, marks = columns.pop(LATENCY), columns.pop("mark", [None] * payload.timings)
    software = _JSON.encode([data.get(name) for name in _SOFTWARE])
    invalid = {name for name, mark in payload.marks.items() if mark.verdict == "invalid"}
    rows = zip(*columns.values(), strict=True) if columns else [()] * payload.timings
    for sizes, time, mark in zip(rows, times, marks, strict=True):
        if mark not in invalid:
            yield (software, *sizes), [float(time or 0.0)]


def repeated_figures(rows: Iterable[Mapping[str, Any]]) -> list[float]:
    """Return the figures of rows that say the same thing; empty where there are no two to compare."""
    figures: dict[str, list[float]] = defaultdict(list)
    for metrics in rows:
        latency = metrics.get("latency_ms") or {}
        for name, value in (("latency", latency.get("p50") or latency.get("mean")), *_named(metrics)):
            if value:
                figures[name].append(float(value))
    return next((values for name in ("latency", *_METRICS) if len(values := figures[name]) > 1), [])


def _named(metrics: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return ((name, metrics.get(name)) for name in _METRICS)


def page(sources: Iterable[Source]) -> str:
    """Return the sources as a page of Markdown."""
    lines = [_ABOUT + _line(_HEAD), _line(["---"] * len(_HEAD))]
    for source in sources:
        spread, errors = sorted(source.spreads), source.errors
        ninth = statistics.quantiles(spread, n=10, method="inclusive")[-1] if len(spread) > 1 else None
        last = "–" if ninth is None else f"{ninth:.1%}"
        lines.append(
            _line(
                [
                    f"`{source.name}`",
                    f"`{source.format}`",
                    source.licence,
                    *(f"{source.counts[name]:,}" for name in ("rows", "refused", "suspect", "invalid")),
                    f"{source.again:,}",
                    f"{source.configurations:,}",
                    f"{len(spread):,}",
                    f"{statistics.median(spread):.1%}" if spread else "–",
                    last,
                    *(f"{kind(errors):.1%}" if errors else "–" for kind in (statistics.fmean, statistics.median)),
                ]
            )
        )
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Read the files, write the page or print it; exit code 1 where a second import would add rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sources = []
    for path in options.files:
        sources.append(read(path))
        print(f"{path.name}: {sources[-1].counts['rows']:,} rows", file=sys.stderr, flush=True)
    made = page(sources)
    if options.out:
        options.out.write_text(made)
    else:
        print(made)
    return int(any(source.again for source in sources))


if __name__ == "__main__":
    raise SystemExit(main())
