"""Pieces of work, and which of them several devices did: the table that the reference route learns from.

A piece is everything about a configuration but the device: model, sizes, batch, software with its version and options.
Nothing about a model has to be traced and nothing about a device has to be known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from domain.catalogues.hardware import HardwareSpec
from domain.performance.roofline import Limits, limits_of
from predictor.features.dataset import Row, measured_target
from predictor.features.table import Table

__all__ = ["Option", "Piece", "copied_hardware", "options_of", "piece_of", "tabulate", "without"]

_TIMES = ("latency", "throughput", "tpot", "ttft")
Piece = tuple[object, ...]
Option = tuple[str, str]
"""The name of an option of a runtime and its value as text."""
_OPTIONS = -2
"""Where a piece holds its options."""
SpecOf = Callable[[str], HardwareSpec | None]

COMMON = 20
COPIED_SHARE = 0.9
"""Two devices whose figures are the same to the last digit on this share of at least `COMMON` pieces are one device
under two names: measured apart, not one figure in twenty agrees."""


def piece_of(row: Row) -> Piece:
    """Return what a row says was run, without the device and its threads; two rows of one piece are software-matched."""
    return (
        row.model,
        *row.software[1:],
        row.mode,
        row.scenario,
        row.batch_size,
        *row.sizes,
        row.concurrency,
        row.optimizer,
        row.gradient_checkpointing,
        repr(sorted(row.parallelism.items())),
        tuple(sorted((name, repr(value)) for name, value in row.options.items())),
        row.count,
    )


def options_of(piece: Piece) -> tuple[Option, ...]:
    """Return the options of the runtime that a piece was run with, by name."""
    options = piece[_OPTIONS]
    assert isinstance(options, tuple)
    return options


def without(piece: Piece, name: str) -> Piece:
    """Return a piece without one of its options, whose value is then open."""
    rest = tuple(option for option in options_of(piece) if option[0] != name)
    return (*piece[:_OPTIONS], rest, *piece[_OPTIONS + 1 :])


def tabulate(rows: Sequence[Row], spec_of: SpecOf, target: str = "latency") -> Table:
    """Return the table of those rows whose piece another device did as well.

    There is no physics here: the prior of every row is 1 in the target's unit (seconds, bytes, joules), so a residual
    is the log of the figure itself. Rows of a device whose figures repeat another's to the last digit stay out,
    because they would let a device be predicted from itself.
    """
    dropped: Counter[str] = Counter()
    document: list[tuple[Row, float]] = []
    for row in rows:
        value = measured_target(row, target)
        if value is None:
            dropped["no figure of the target"] += 1
        else:
            document.append((row, value))
    copies = copied_hardware([row for row, _ in document])
    devices: dict[Piece, set[str]] = {}
    for row, _ in document:
        if row.hardware not in copies:
            devices.setdefault(piece_of(row), set()).add(row.hardware)
    kept: list[Row] = []
    measured: list[float] = []
    for row, value in document:
        if row.hardware in copies:
            dropped["copy of another device's figures"] += 1
        elif len(devices[piece_of(row)]) < 2:
            dropped["no sibling"] += 1
        else:
            kept.append(row)
            measured.append(value)
    counts = np.array([len(devices[piece_of(row)]) - 1 for row in kept], dtype=np.float64)
    return Table(
        target=target,
        rows=kept,
        names=("siblings",),
        values=counts[:, None],
        prior=np.ones(len(kept)),
        measured=np.array(measured, dtype=np.float64),
        subjects=[None] * len(kept),
        limits=_limits(kept, spec_of),
        architecture=np.array([row.model for row in kept], dtype=str),
        family=np.array([row.family or row.model for row in kept], dtype=str),
        dropped=dict(dropped),
    )


def copied_hardware(rows: Sequence[Row]) -> dict[str, str]:
    """Return the devices whose times are another's, and whose: of two alike the one with fewer rows is the copy.

    Times tell, whatever the target: the same work may well need the same memory on two devices.
    """
    figures: dict[str, dict[Piece, float]] = {}
    for row in rows:
        time = next((value for target in _TIMES if (value := measured_target(row, target)) is not None), None)
        if time is not None:
            figures.setdefault(row.hardware, {})[piece_of(row)] = time
    order = sorted(figures, key=lambda name: (-len(figures[name]), name))
    copies: dict[str, str] = {}
    for place, name in enumerate(order):
        for other in order[:place]:
            if other in copies:
                continue
            common = figures[name].keys() & figures[other].keys()
            same = sum(figures[name][piece] == figures[other][piece] for piece in common)
            if len(common) >= COMMON and same >= COPIED_SHARE * len(common):
                copies[name] = other
                break
    return copies


def _limits(rows: Sequence[Row], spec_of: SpecOf) -> list[Limits | None]:
    limits: dict[tuple[str, str, str], Limits | None] = {}
    for row in rows:
        key = (row.hardware, row.precision, row.platform)
        if key not in limits:
            spec = spec_of(row.hardware)
            limits[key] = None if spec is None else limits_of(spec, row.precision, row.platform)
    return [limits[(row.hardware, row.precision, row.platform)] for row in rows]
