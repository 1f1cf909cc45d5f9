"""How well tails, outcomes and power are predicted of models that were left out, beside the simplest guess.

    python -m research.other_targets tails data/*.ndjson.gz
    python -m research.other_targets outcomes FILE.ndjson… FOLDER…
    python -m research.other_targets power ../shared/data/mlperf

Files of events, or files and folders that `assay import` takes. Power is also asked of devices that were left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.first_party import events_of
from domain.catalogues import hardware
from domain.events import MEASUREMENT_FAILED, MEASUREMENT_RECORDED, TEST_REPORTED
from ingest.importers import Refused, import_paths
from predictor.artifact.energy import Draw, draw_from_row, fit_energy
from predictor.artifact.tails import PERCENTILES, fit_tails
from predictor.failure_rates.cases import ENDS, TriedConfiguration, cases_of
from predictor.failure_rates.cases import row_from_event as case_row
from predictor.failure_rates.shares import Shares
from predictor.features.dataset import Row, row_from_event, training_rows
from predictor.features.table import Array

FACTS = (MEASUREMENT_RECORDED, MEASUREMENT_FAILED, TEST_REPORTED)
FOLDS = 10


def read(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the measurements, failures and tests of event files and of what importers take."""
    written = [path for path in paths if ".ndjson" in path.name]
    yield from (event for event in events_of(written) if event["type"] in FACTS)
    others = [path for path in paths if path not in written]
    for item in import_paths("auto", others) if others else ():
        if not isinstance(item, Refused) and item["type"] in FACTS:
            yield item


def tails(events: Iterator[dict[str, Any]]) -> None:
    """Print, by percentile, the error of the ratio to the median with each family left out, and of one constant."""
    recorded = [row_from_event(event) for event in events if event["type"] == MEASUREMENT_RECORDED]
    rows = training_rows(recorded, mode=None)
    for name in PERCENTILES:
        found = [
            told for family in sorted({row.family or "" for row in rows}) for told in _tails_of(rows, family, name)
        ]
        if found:
            ratio, told, one, inside = np.array(found).T
            print(
                f"{name}: {len(found)} rows; error of the ratio {_share(told / ratio)}, of one constant "
                f"{_share(one / ratio)}, of none {_share(1 / ratio)}; 80 % intervals cover {inside.mean():.1%}"
            )


def _tails_of(rows: list[Row], family: str, name: str) -> Iterator[tuple[float, float, float, bool]]:
    """Measured ratio, predicted ratio, the constant's, and whether the interval held, of the rows of a family."""
    train = [row for row in rows if (row.family or "") != family]
    fitted, constant = fit_tails(train), float(np.median([*_ratios(train, name), 1.0]))
    for row in rows:
        if (row.family or "") == family and fitted is not None and fit_tails([row]) is not None:
            for ratio in _ratios([row], name):
                told = fitted.of(row, row.latency_ms or 1.0, name)
                yield ratio, told.ratio, constant, told.low <= ratio <= told.high


def _ratios(rows: Sequence[Row], name: str) -> list[float]:
    percentiles = [(getattr(row, f"latency_{name}_ms"), row.latency_ms) for row in rows]
    return [value / median for value, median in percentiles if value and median]


def _share(ratios: Array) -> str:
    return f"{np.mean(np.abs(ratios - 1)):.1%}"


def outcomes(events: Iterator[dict[str, Any]]) -> None:
    """Print log loss, Brier score and calibration with each tenth of the models left out, beside the base rate."""
    cases = cases_of(case_row(event) for event in events)
    ends = np.array([ENDS.index(case.end or "runs") for case in cases])
    folds = _folds([case.model for case in cases])
    told, base = np.zeros((len(cases), len(ENDS))), np.zeros((len(cases), len(ENDS)))
    for fold in range(FOLDS):
        out = np.flatnonzero(folds == fold)
        train = [case for case, here in zip(cases, folds, strict=True) if here != fold]
        shares = Shares.fitted(train)
        told[out] = [_chances(shares, cases[index]) for index in out]
        counts = np.array([sum(case.end == end for case in train) + 0.5 for end in ENDS])
        base[out] = counts / counts.sum()
    print(f"{len(cases)} cases of {len({case.model for case in cases})} models: ", end="")
    print(", ".join(f"{int((ends == index).sum())} {end}" for index, end in enumerate(ENDS)))
    for name, chances in (("shares", told), ("base rate", base)):
        loss = -np.log(np.maximum(chances[np.arange(len(ends)), ends], 1e-9)).mean()
        brier = ((chances - np.eye(len(ENDS))[ends]) ** 2).sum(axis=1).mean()
        print(f"{name}: log loss {loss:.3f}, Brier score {brier:.3f}")
    for low, high in ((0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 0.95), (0.95, 1.01)):
        here = (told[:, 0] >= low) & (told[:, 0] < high)
        if here.any():
            ran = float((ends[here] == 0).mean())
            print(f"  said to run {told[here, 0].mean():.2f}, ran {ran:.2f} ({int(here.sum())} cases)")


def _chances(shares: Shares, case: TriedConfiguration) -> list[float]:
    found = shares.chances(case)
    return [getattr(found, end) for end in ENDS]


def _folds(groups: Sequence[str]) -> NDArray[np.intp]:
    names, inverse = np.unique(np.array(groups, dtype=str), return_inverse=True)
    return np.asarray(np.random.default_rng(0).permutation(len(names))[inverse] % FOLDS, dtype=np.intp)


def power(events: Iterator[dict[str, Any]]) -> None:
    """Print the error of power with each model left out of a device, and with each device left out."""
    drawn = list(_draws(events))
    draws = [draw for draw, _ in drawn]
    for what, groups in (
        (
            "a model left out, on a device that was measured with others",
            [f"{draw.hardware} {model}" for draw, model in drawn],
        ),
        ("a device left out", [draw.hardware for draw in draws]),
    ):
        _power_without(what, draws, groups)


def _draws(events: Iterator[dict[str, Any]]) -> Iterator[tuple[Draw, str]]:
    """Yield what is known of power, a figure that stands twice once, of devices whose rating is known."""
    seen: set[tuple[Any, ...]] = set()
    for event in events:
        metrics = event["data"].get("metrics") or {}
        latency = metrics.get("latency_ms") or {}
        workload = event["data"]["workload"]
        row = case_row(event) | {
            **{name: metrics.get(name) for name in ("power_w", "energy_j")},
            **{f"latency_{name}_ms": latency.get(name) for name in ("mean", "p50", "p90")},
            "energy_verdict": (event["data"].get("validity") or {}).get("verdict"),
            "scenario": workload.get("scenario"),
            "hardware_count": event["data"]["hardware"].get("count"),
        }
        draw = draw_from_row(row)
        spec = None if draw is None else hardware.find(draw.hardware)
        if draw is None or spec is None or spec.power_w is None:
            continue
        key = (draw.hardware, draw.count, draw.scenario, row["model_id"], round(draw.power_w, 4))
        if key not in seen:
            seen.add(key)
            yield draw, row["model_id"]


def _power_without(what: str, draws: Sequence[Draw], groups: Sequence[str]) -> None:
    found: list[tuple[float, float, bool]] = []
    for group in sorted(set(groups)):
        model = fit_energy([draw for draw, name in zip(draws, groups, strict=True) if name != group], hardware.find)
        for draw in (draw for draw, name in zip(draws, groups, strict=True) if name == group):
            spec = hardware.find(draw.hardware)
            told = model and model.power(draw.hardware, hardware.find, count=draw.count, scenario=draw.scenario)
            if told and spec and spec.power_w:
                rated = draw.count * float(spec.power_w.value)
                inside = told.low_w <= draw.power_w <= told.high_w
                found.append((told.power_w / draw.power_w, rated / draw.power_w, inside))
    told_ratio, rated_ratio, inside_all = np.array(found).T
    print(
        f"{what}: {len(found)} rows; error {_share(told_ratio)} (median {np.median(np.abs(told_ratio - 1)):.1%}), of the "
        f"rating {_share(rated_ratio)}; 80 % intervals cover {inside_all.mean():.1%}"
    )


WHAT: dict[str, Callable[[Iterator[dict[str, Any]]], None]] = {"tails": tails, "outcomes": outcomes, "power": power}


def main() -> int:
    """Print what is asked."""
    parser = argparse.ArgumentParser(
        prog="python -m research.other_targets",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=tuple(WHAT))
    parser.add_argument("files", type=Path, nargs="+")
    options = parser.parse_args()
    WHAT[options.what](read(options.files))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
