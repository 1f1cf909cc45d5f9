"""How well our own measurements predict a class of models that was left out, by method.

    python -m benchmarks.first_party data/*.ndjson.gz [--by family|kin|model|platform] [--method all] [--json]

Every group in turn is left out wholly (on every platform and in every precision) and predicted from the others. `kin`
leaves out what is built alike together: the encoders after BERT, the decoders after GPT, and so on; `platform` leaves
out a family on one platform alone, where its rows on the other one stay. There is one machine
in data/, so what a machine left out would give cannot be told from it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.offsets import fit_offset
from domain.catalogues import hardware as catalogue
from domain.catalogues.hardware import HardwareSpec
from domain.events import HARDWARE_DESCRIBED, MEASUREMENT_RECORDED, MODEL_TRACED
from predictor.features.dataset import by_software, row_from_event, training_rows
from predictor.features.operators_route import tabulate
from predictor.features.table import Array, Names, Table
from predictor.features.traces import TraceBook, trace_from_data
from predictor.learning.method import Method, Prediction
from predictor.learning.parametric import ParametricMethod

KIN = {
    "encoders": "bert roberta distilbert electra albert mobilebert mpnet squeezebert layoutlm xlm-roberta camembert deberta",
    "decoders": "gpt2 opt gpt_neo codegen qwen2 bloom llama",
    "encoder-decoders": "t5 mt5 bart blenderbot blenderbot-small led",
    "audio": "wav2vec2 hubert whisper clap",
    "vision transformers": "vit deit swin videomae dpt mobilevit",
    "convolutions": "resnet convnext upernet detr unet",
    "pairs": "clip xclip blip",
}
_KIN = {family: kin for kin, families in KIN.items() for family in families.split()}


def read(paths: Sequence[Path]) -> Table:
    """Return every valid row of the files, of inference, generation and training, with its trace."""
    rows, traces, specs = [], [], dict[str, HardwareSpec]()
    for event in events_of(paths):
        if event["type"] == MEASUREMENT_RECORDED:
            rows.append(row_from_event(event))
        elif event["type"] == MODEL_TRACED:
            traces.append(trace_from_data(event["data"]))
        elif event["type"] == HARDWARE_DESCRIBED:
            spec = catalogue.spec_from_event(event["data"])
            known = catalogue.find(spec.id)
            specs[spec.id] = spec if known is None else catalogue.fill(spec, known)
    return tabulate(training_rows(rows, mode=None), TraceBook(traces), specs.get)


def events_of(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the events of NDJSON files, compressed or not."""
    for path in paths:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            yield from map(json.loads, lines)


class Offsets:
    """What there was before: the roofline, corrected by an offset and a slope a software configuration."""

    name = "roofline and offset"

    def fit(self, table: Table) -> _OffsetsFitted:
        """Fit each software configuration on its own rows."""
        return _OffsetsFitted(table)


class _OffsetsFitted:
    def __init__(self, table: Table) -> None:
        self._table = table

    def predict(self, table: Table) -> Prediction:
        residual = np.full(len(table), float(np.median(self._table.residual)))
        known = by_software(self._table.rows)
        for software, members in by_software(table.rows).items():
            seen = self._table.take(known.get(software, []))
            if not len(seen):
                continue
            centre = float(np.median(self._table.residual))
            names = [row.model for row in seen.rows]
            fit = fit_offset(seen.residual - centre, seen.column("balance"), names, between=0.5, within=0.5)
            residual[members] = centre + fit.correction(table.column("balance")[members])
        return Prediction.plain(residual)

    def adapted(self, shots: Table) -> _OffsetsFitted:
        """Return the offsets of these rows and the known ones together."""
        return _OffsetsFitted(self._table.joined(shots))


METHODS: dict[str, Method] = {"offset": Offsets(), "parametric": ParametricMethod()}


def groups_of(table: Table, by: str) -> Names:
    """Return what each row is left out with."""
    if by == "kin":
        return np.array([_KIN.get(family, family) for family in table.family], dtype=str)
    if by == "model":
        return np.array([row.model for row in table.rows], dtype=str)
    if by == "platform":
        pairs = zip(table.family, table.rows, strict=True)
        return np.array([f"{family} {row.platform}" for family, row in pairs], dtype=str)
    return table.family


def left_out(table: Table, method: Method, groups: Names) -> tuple[Array, Array]:
    """Return log(measured / predicted) of every row with its group left out, and its difficulty."""
    errors, difficulty = np.zeros(len(table)), np.ones(len(table))
    for name in np.unique(groups):
        out = groups == name
        told = method.fit(table.take(~out)).predict(table.take(out))
        errors[out] = table.residual[out] - told.residual
        difficulty[out] = told.difficulty
    return errors, difficulty


def scores(errors: Array, difficulty: Array, groups: Names) -> dict[str, Any]:
    """Return errors of latency as shares: pooled, as the mean and the median over groups, and each group's median."""
    relative = np.abs(np.expm1(-errors))
    medians = {str(name): float(np.median(relative[groups == name])) for name in np.unique(groups)}
    told = {
        "rows": len(errors),
        "groups": len(medians),
        "median_ape": float(np.median(relative)),
        "mape": float(np.mean(relative)),
        "within_10": float(np.mean(relative <= 0.1)),
        "within_20": float(np.mean(relative <= 0.2)),
        "median_of_groups": float(np.median(list(medians.values()))),
        "mean_of_groups": float(np.mean(list(medians.values()))),
        "by_group": medians,
    }
    told |= {
        name: _covered(errors / difficulty, groups, share)
        for name, share in (("coverage_80", 0.8), ("coverage_90", 0.9))
    }
    return told


def _covered(scaled: Array, groups: Names, share: float) -> float:
    """The share of rows within a width that the other groups' errors give: a group never sets its own width."""
    inside = np.zeros(len(scaled), dtype=bool)
    for name in np.unique(groups):
        out = groups == name
        others = np.sort(np.abs(scaled[~out]))
        rank = min(len(others) - 1, math.ceil((len(others) + 1) * share) - 1)
        inside[out] = np.abs(scaled[out]) <= others[rank]
    return float(np.mean(inside))


def main() -> int:
    """Print the scores of each method."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.first_party",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--by", choices=("family", "kin", "model", "platform"), default="family")
    parser.add_argument("--method", choices=(*METHODS, "all"), default="all")
    parser.add_argument("--mode", choices=("all", "inference", "training"), default="all")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    table = read(options.files)
    if options.mode != "all":
        table = table.take(np.array([row.mode == options.mode for row in table.rows]))
    groups = groups_of(table, options.by)
    chosen = METHODS if options.method == "all" else {options.method: METHODS[options.method]}
    told = {name: scores(*left_out(table, method, groups), groups) for name, method in chosen.items()}
    if options.json:
        print(json.dumps({"by": options.by, "left_out": table.dropped, "methods": told}, indent=1))
        return 0
    print(f"{len(table)} rows of {len(set(table.family.tolist()))} families; left out of the table: {table.dropped}")
    for name, one in told.items():
        numbers = " ".join(f"{key} {value:.3f}" for key, value in one.items() if isinstance(value, float))
        print(f"{name}: {numbers}")
        for group, value in sorted(one["by_group"].items(), key=lambda item: -item[1]):
            print(f"  {group:24} {value:.3f}  ({int((groups == group).sum())} rows)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
