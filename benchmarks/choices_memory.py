"""Does it fit? Asked where somebody tried, of model families that took no part.

timm's benchmark halves the batch (by way of three quarters) until a model fits its device: the batch of a row fitted, and
where it is smaller than the run's first the one above it did not. So did no larger one, and so did every smaller one. What
just fits says what is needed, to a quarter or so; that teaches, from other families, with activations in proportion to the
batch. First-party peaks are asked about at the sizes of memory that devices have, and close to what was needed.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy import book_of, rows_of
from domain.catalogues import hardware
from domain.events import MEASUREMENT_RECORDED, MODEL_TRACED
from predictor.features.dataset import Row, row_from_event, training_rows
from predictor.features.table import Array, Table
from predictor.features.traces import TraceBook, trace_from_data
from predictor.memory.facts import tabulate
from predictor.memory.method import MemoryMethod

__all__ = ["CLOSE", "EDGE", "OWN", "USUAL", "fits"]

USUAL = "timm: batches of 1, 8, 32, 128 and 512"
EDGE = "timm: the batch that just fitted, and the next, which did not"
OWN = "first-party peaks, asked at the sizes devices have"
CLOSE = "first-party peaks, asked at 0.5 to 2 times the need"

FOLDS = 5
SIZES_GB = (0.25, 0.5, 1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 80)
"""What devices have."""
BATCHES = (1, 8, 32, 128, 512)
SURE = 0.95
SPARED = 0.5
"""Share of the room that a careful answer counts on."""
LEAST_BATCH = 2
"""A run that fell to one item may have failed for another reason than memory."""


class Tried(NamedTuple):
    """Configurations somebody tried: one entry a row in each."""

    table: Table
    room: Array
    fits: NDArray[np.bool_]


def fits(data: Path, traces: Path | None, own: Sequence[Path]) -> dict[str, Any]:
    """Return how right the answers are, by where the outcomes are from; those of timm need its models' traces."""
    events = list(_events(own))
    book = TraceBook(trace_from_data(event["data"]) for event in events if event["type"] == MODEL_TRACED)
    rows = training_rows([row_from_event(one) for one in events if one["type"] == MEASUREMENT_RECORDED], "memory", None)
    measured = tabulate(rows, book)
    return {
        **({} if traces is None else _tried(data, book_of(traces))),
        OWN: _asked(measured, fixed=True),
        CLOSE: _asked(measured, fixed=False),
    }


def _events(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        with gzip.open(path, "rt") as lines:
            yield from map(json.loads, lines)


def _tried(data: Path, book: TraceBook) -> dict[str, dict[str, Any]]:
    just, ladders = shrunk(data)
    taught = tabulate(smaller(tabulate(just, book)), book)
    found: dict[str, dict[str, Any]] = {}
    for name, tried in ladders.items():
        asked = tabulate([msgspec.structs.replace(row, peak_memory_bytes=1.0) for row, _ in tried], book)
        outcomes = {(row.event_id, row.batch_size): fitted for row, fitted in tried}
        fitted = np.array([outcomes[row.event_id, row.batch_size] for row in asked.rows])
        room = np.array([_room(row) for row in asked.rows])
        chances, careful = np.zeros(len(asked)), np.zeros(len(asked))
        for train, test in _folds(taught.family, asked.family):
            method = MemoryMethod().fit(taught.take(train))
            here = np.flatnonzero(test)
            for part in np.array_split(here, max(len(here) // 1000, 1)):
                chances[part] = method.chance(asked.take(part), room[part])
                careful[part] = method.chance(asked.take(part), room[part] * SPARED)
        floor = (asked.prior <= room).astype(np.float64)
        found[name] = _told(chances, fitted, asked.family) | {
            "floor_right": _told(floor, fitted, asked.family)["right"],
            "always_right": round(float(fitted.mean()), 6),
            "sure_in_half": int((careful > SURE).sum()),
            "sure_in_half_wrong": int(((careful > SURE) & ~fitted).sum()),
        }
    return found


def smaller(table: Table) -> list[Row]:
    """Return the rows of a table at smaller batches, by turns from all to a thirty-second of their activations.

    All were seen just where they filled their device: without this nothing tells a byte of activations from a constant.
    """
    rows: list[Row] = []
    for index, (row, need, log) in enumerate(
        zip(table.rows, table.measured.tolist(), table.column("weights"), strict=True)
    ):
        batch = max((row.batch_size or 1) >> (index % 6), 1)
        weights = min(float(np.exp(log)), 0.9 * need)
        peak = weights + (need - weights) * batch / (row.batch_size or 1)
        rows.append(msgspec.structs.replace(row, batch_size=batch, peak_memory_bytes=peak))
    return rows


def shrunk(data: Path) -> tuple[list[Row], dict[str, list[tuple[Row, bool]]]]:
    """Return rows with the memory they need where that is known, and what was tried with how it ended, asked two ways.

    One run stands for each device, mode and software. A batch one step up did not fit, so what fits needs the room
    divided by half a step, as nearly as can be told.
    """
    just: list[Row] = []
    close: list[tuple[Row, bool]] = []
    usual: list[tuple[Row, bool]] = []
    for rows in _runs(data):
        steps = sorted({row.batch_size or 0 for row in rows})
        for row in rows:
            batch = row.batch_size or 0
            if batch < LEAST_BATCH:
                continue
            above = next((step for step in steps if step > batch), None)
            usual += [
                (msgspec.structs.replace(row, batch_size=asked), asked <= batch)
                for asked in BATCHES
                if asked <= batch or (above is not None and asked >= above)
            ]
            if above is not None:
                close += [(row, True), (msgspec.structs.replace(row, batch_size=above), False)]
                just.append(msgspec.structs.replace(row, peak_memory_bytes=_room(row) * (batch / above) ** 0.5))
    return just, {
        USUAL: usual,
        EDGE: close,
    }


def _runs(data: Path) -> Iterator[list[Row]]:
    runs: dict[tuple[Any, ...], dict[str, list[Row]]] = {}
    for row in rows_of(data, "timm"):
        if row is not None and row.platform == "cuda" and row.batch_size:
            runs.setdefault((row.mode, row.software), {}).setdefault(row.run_id, []).append(row)
    for by_run in runs.values():
        yield max(by_run.items(), key=lambda one: (len(one[1]), one[0]))[1]


def _room(row: Row) -> float:
    spec = hardware.find(row.hardware)
    if spec is None or spec.memory_bytes is None:
        raise ValueError(f"memory of {row.hardware} is not known")
    return spec.memory_bytes.value


def _folds(known: NDArray[Any], asked: NDArray[Any]) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Yield masks of what teaches and of what is asked, families apart."""
    names = np.unique(np.concatenate([known, asked]))
    fold = dict(zip(names.tolist(), (np.random.default_rng(0).permutation(len(names)) % FOLDS).tolist(), strict=True))
    of_known, of_asked = (np.array([fold[name] for name in one.tolist()]) for one in (known, asked))
    for one in range(FOLDS):
        yield of_known != one, of_asked == one


def _asked(table: Table, *, fixed: bool) -> dict[str, Any]:
    chances: list[Array] = []
    fitted: list[NDArray[np.bool_]] = []
    families: list[NDArray[Any]] = []
    for train, test in _folds(table.family, table.family):
        method, part = MemoryMethod().fit(table.take(train)), table.take(test)
        rooms = [np.full(len(part), size * 1e9) for size in SIZES_GB] if fixed else [
            part.measured * factor for factor in np.geomspace(0.5, 2.0, 10)
        ]  # fmt: skip
        for room in rooms:
            chances.append(method.chance(part, room))
            fitted.append(part.measured <= room)
            families.append(part.family)
    return _told(np.concatenate(chances), np.concatenate(fitted), np.concatenate(families))


def _told(chances: Array, fitted: NDArray[np.bool_], families: NDArray[Any]) -> dict[str, Any]:
    """Scores of saying "fits" above a half; `sure_wrong` are answers above 95 % that did not fit."""
    right = (chances >= 0.5) == fitted
    sure = chances > SURE
    edges = (0.0, 0.05, 0.35, 0.65, 0.95, 1.000001)
    return {
        "questions": len(fitted),
        "families": len(np.unique(families)),
        "did_not_fit": int((~fitted).sum()),
        "right": round(float(right.mean()), 6),
        "right_macro": round(float(np.mean([right[families == name].mean() for name in np.unique(families)])), 6),
        "sure_fits": int(sure.sum()),
        "sure_wrong": int((sure & ~fitted).sum()),
        "decided": round(float(np.mean((chances > SURE) | (chances < 1 - SURE))), 6),
        "decided_right": _share(right[(chances > SURE) | (chances < 1 - SURE)]),
        "bins": [
            {
                "from": low,
                "to": min(high, 1.0),
                "times": int(here.sum()),
                "promised": round(float(chances[here].mean()), 4),
                "kept": round(float(fitted[here].mean()), 4),
            }
            for low, high in itertools.pairwise(edges)
            if (here := (chances >= low) & (chances < high)).any()
        ],
    }


def _share(right: NDArray[np.bool_]) -> float | None:
    return round(float(right.mean()), 6) if len(right) else None
