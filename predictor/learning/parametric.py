"""Few rows: how many times its time at the limits each kind of work really takes, learned in layers.

time = Σ work × multiple. The logarithm of a multiple is the sum of what holds everywhere, for a precision, for a
platform, for a software on it, and for one device with exactly this software; each layer is a small correction of the
ones before, so what was never measured takes over what is nearest. What is left of a family, an architecture and an
architecture on a platform is an offset of each, and rows that spend their time alike are left with alike errors where
the software is the same. That is one Gaussian process over the logarithm of time, linearised at
its own solution; its variance says where few or unlike rows speak.

The spreads below were chosen on half of the families of our own rows and confirmed on the other half
(`python -m benchmarks.first_party`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.performance.roofline import ARITHMETIC_CLASSES
from predictor.features.dataset import Row
from predictor.features.table import Array, Matrix, Table
from predictor.features.work import MULTIPLES, TERMS, work_of_many
from predictor.learning.method import Prediction
from predictor.learning.single_thread import single_threaded

__all__ = ["LAYERS", "MOST_ROWS", "OFFSETS", "ParametricMethod", "ParametricModel", "SolvedInputs"]

Codes = NDArray[np.intp]
MOST_ROWS = 1000
"""Solving takes the cube of the rows: the newest ones count."""
ROUNDS = 30
CLOSE = 1e-3
"""The solution has been found when no expected time moves by more than this share of itself."""
LARGEST_STEP = 1.5
DAMPING = 0.7
"""Full steps overshoot to and fro where multiples of like work trade places."""
NOISE = 0.05
"""Spread of one measurement about another of the same configuration, in log units."""
ALIKE = 0.5
"""Variance that multiples of one kind (arithmetic, traffic, launches) share, beside 1 for each of its own."""
CALL = 0.5
"""That of entering the runtime, beside 1 for everything else: no runtime needs many milliseconds for it."""
ODD = 4.0
"""A row this many times the noise off its neighbours counts half."""


MIX = 0.25
"""Spread of what is left of rows that spend their time in exactly the same way with the same software, in log units."""
MIX_REACH = 0.1
"""How far apart the shares of two rows may lie, as a Euclidean distance, to still be left with like errors."""


class Layer(NamedTuple):
    """Corrections that rows with the same key share: their spread in log units, and what the key is."""

    spread: float
    key: Callable[[Row], tuple[Any, ...]]


LAYERS: dict[str, Layer] = {
    "everywhere": Layer(0.4, lambda _: ()),
    "precision": Layer(1.0, lambda row: (row.precision,)),
    "platform": Layer(0.3, lambda row: (row.platform, row.runtime)),
    "software": Layer(0.5, lambda row: (row.platform, row.runtime, row.precision, row.compiled, row.mode)),
    "device": Layer(0.3, lambda row: (row.hardware, row.platform, row.runtime, row.precision)),
    "exact": Layer(0.1, lambda row: (*row.software, row.mode, row.threads)),
}
_SOFTWARE = list(LAYERS).index("software")
OFFSETS = {"family": 0.05, "architecture": 0.08, "architecture on a platform": 0.04}
"""Spread of what is left of each, in log units."""


_ARCHITECTURE = len(LAYERS) + list(OFFSETS).index("architecture")


def _identity(keys: Sequence[str], log_time: float) -> tuple[str, float]:
    """Return what two equal rows have in common: software, model, and the time to nine digits."""
    return "|".join(keys), round(log_time, 9)


class SolvedInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is solved from, as it is kept: work in seconds (`TERMS`), keys of layers and offsets, and log time."""

    terms: list[str]
    work: list[list[float]]
    keys: list[list[str]]
    log_time: list[float]
    noise: float


class ParametricMethod(msgspec.Struct, frozen=True, kw_only=True):
    """Fit multiples of work; `noise` is the spread of repeated measurements in log units."""

    noise: float = NOISE
    name: str = "parametric"

    def fit(self, table: Table) -> ParametricModel:
        """Return the multiples that a traced table with at least one row teaches; the same rows teach the same."""
        order = sorted(range(len(table)), key=lambda index: (table.rows[index].time or "", table.rows[index].position))
        newest = table.take(sorted(order[-MOST_ROWS:]))
        return ParametricModel(_Seen.of(newest), np.log(newest.measured), self.noise)


class _Seen(NamedTuple):
    """Rows as amounts of work, and by which keys they belong together: a column a layer, then one an offset."""

    work: Matrix
    keys: NDArray[np.str_]

    @classmethod
    def of(cls, table: Table) -> _Seen:
        limits = [limit for limit in table.limits if limit is not None]
        keys = [
            [
                *(repr(layer.key(row)) for layer in LAYERS.values()),
                family,
                architecture,
                f"{architecture} {row.platform}",
            ]
            for row, family, architecture in zip(table.rows, table.family, table.architecture, strict=True)
        ]
        shape = (len(keys), len(LAYERS) + len(OFFSETS))
        return cls(work_of_many(table.subjects, limits, table.rows), np.array(keys, dtype=str).reshape(shape))

    def codes(self, existing: Sequence[Mapping[str, int]]) -> Codes:
        """Return the keys as numbers, one dictionary a column; one that is not known is -1."""
        columns = [
            [names.get(key, -1) for key in keys] for names, keys in zip(existing, self.keys.T.tolist(), strict=True)
        ]
        return np.array(columns, dtype=np.intp).T.reshape(self.keys.shape)


class _Likeness(NamedTuple):
    """What rows share: variance of each multiple and of their offsets, and whether the software; (rows, other rows)."""

    multiples: Matrix
    offsets: Matrix
    software: NDArray[np.bool_]

    @classmethod
    def of(cls, some: Codes, others: Codes) -> _Likeness:
        shared = [np.zeros((len(some), len(others))) for _ in range(2)]
        software = np.ones(shared[0].shape, dtype=np.bool_)
        for column, spread in enumerate((*(layer.spread for layer in LAYERS.values()), *OFFSETS.values())):
            same = some[:, column, None] == others[None, :, column]
            shared[column >= len(LAYERS)] += spread**2 * same
            if column == _SOFTWARE:
                software = same
        return cls(shared[0], shared[1], software)

    def of_log_time(self, shares: Matrix, others: Matrix) -> Matrix:
        """Return the variance that log times share, given which share of them each kind of work is."""
        return np.asarray(
            self.multiples * (shares @ TOGETHER @ others.T) + self.beside(shares, others), dtype=np.float64
        )

    def beside(self, shares: Matrix, others: Matrix) -> Matrix:
        """Return the part of it that is not the multiples': offsets, and what is left of those that spend time alike."""
        products = -2 * shares @ others.T
        apart = products + (shares**2).sum(axis=1)[:, None] + (others**2).sum(axis=1)[None, :]
        alike = MIX**2 * np.exp(-np.maximum(apart, 0.0) / (2 * MIX_REACH**2))
        return np.asarray(self.offsets + np.where(self.software, alike, 0.0), dtype=np.float64)

    def log_multiples(self, shares: Matrix, pull: Array) -> Matrix:
        """Return the multiples of each row: those expected beforehand, and what the other rows add."""
        return np.asarray(BEFOREHAND + self.multiples @ (shares * pull[:, None]) @ TOGETHER, dtype=np.float64)


class ParametricModel:
    """What was learned: rows in work and time, and how each pulls the multiples."""

    def __init__(self, seen: _Seen, log_time: Array, noise: float) -> None:
        """Solve for the multiples of these rows."""
        self._seen, self._log_time, self._noise = seen, log_time, noise
        self._names = [{key: code for code, key in enumerate(sorted(set(keys)))} for keys in seen.keys.T.tolist()]
        self._codes = seen.codes(self._names)
        with single_threaded():
            self._solve(_Likeness.of(self._codes, self._codes))

    def _solve(self, like: _Likeness) -> None:
        multiples = np.tile(BEFOREHAND, (len(self._log_time), 1))
        variance = np.full(len(self._log_time), self._noise**2)
        before = np.full(len(self._log_time), np.inf)
        for _ in range(ROUNDS):
            shares, expected = _shares(self._seen.work, multiples)
            wanted = self._log_time - expected + (shares * (multiples - BEFOREHAND)).sum(axis=1)
            covariance = like.of_log_time(shares, shares) + np.diag(variance)
            pull = np.linalg.solve(covariance, wanted)
            if np.abs(expected - before).max() < CLOSE:
                break
            step = np.clip(like.log_multiples(shares, pull) - multiples, -LARGEST_STEP, LARGEST_STEP)
            multiples, before = multiples + DAMPING * step, expected
            # Cauchy's weights: a row that its neighbours contradict must not drag them.
            variance = self._noise**2 * (1 + (variance * pull / (ODD * self._noise)) ** 2)
        self._shares, self._pull = shares, pull
        self._inverse = np.linalg.inv(np.linalg.cholesky(covariance))
        # The variance of a row given all others is the reciprocal of its element in the inverse's diagonal.
        self._usual = float(np.median((self._inverse**2).sum(axis=0) ** -0.5))

    @property
    def usual(self) -> float:
        """Return the standard deviation, in log units, of a usual row given all the others: a difficulty of 1."""
        return self._usual

    def predict(self, table: Table) -> Prediction:
        """Return log(time / prior) of each row, and how unsure it is beside a usual row of those that taught."""
        with single_threaded():
            return self._predicted(table)

    def _predicted(self, table: Table) -> Prediction:
        request = _Seen.of(table)
        like = _Likeness.of(request.codes(self._names), self._codes)
        shares, log_time = _shares(request.work, like.log_multiples(self._shares, self._pull))
        log_time = log_time + like.beside(shares, self._shares) @ self._pull
        towards = self._inverse @ like.of_log_time(shares, self._shares).T
        alone = _VARIANCE * ((shares @ TOGETHER) * shares).sum(axis=1) + _OFFSET_VARIANCE
        variance = np.maximum(alone - (towards**2).sum(axis=0), 0.0)
        return Prediction(
            residual=np.asarray(log_time - np.log(table.prior), dtype=np.float64),
            difficulty=np.sqrt(variance + self._noise**2) / self._usual,
        )

    def shares(self, table: Table) -> Matrix:
        """Return which share of its predicted time each kind of work (`TERMS`) takes, one row a row."""
        request = _Seen.of(table)
        like = _Likeness.of(request.codes(self._names), self._codes)
        return _shares(request.work, like.log_multiples(self._shares, self._pull))[0]

    def left_out(self, table: Table) -> Array:
        """Return the log error of each row that taught with all rows of its architecture left out; NaN for others."""
        existing = {_identity(keys, value): index for index, (keys, value) in enumerate(self._rows())}
        seen = _Seen.of(table)
        places = [
            existing.get(_identity(keys, value))
            for keys, value in zip(seen.keys.tolist(), np.log(table.measured).tolist(), strict=True)
        ]
        errors = np.full(len(table), np.nan)
        for name in {int(self._codes[place, _ARCHITECTURE]) for place in places if place is not None}:
            out = np.flatnonzero(self._codes[:, _ARCHITECTURE] == name)
            block = self._inverse[:, out].T @ self._inverse[:, out]
            missed = dict(zip(out.tolist(), np.linalg.solve(block, self._pull[out]).tolist(), strict=True))
            for index, place in enumerate(places):
                if place in missed:
                    errors[index] = missed[place]
        return errors

    def _rows(self) -> Iterator[tuple[list[str], float]]:
        yield from zip(self._seen.keys.tolist(), self._log_time.tolist(), strict=True)

    def adapted(self, shots: Table) -> ParametricModel:
        """Return the model that knows these rows as well; the sums are solved again, no trees are grown."""
        new = _Seen.of(shots)
        both = _Seen(np.vstack([self._seen.work, new.work]), np.concatenate([self._seen.keys, new.keys]))
        return ParametricModel(both, np.concatenate([self._log_time, np.log(shots.measured)]), self._noise)

    def known(self) -> SolvedInputs:
        """Return what to keep; `restored` gives the same model again."""
        return SolvedInputs(
            terms=list(TERMS),
            work=self._seen.work.tolist(),
            keys=self._seen.keys.tolist(),
            log_time=self._log_time.tolist(),
            noise=self._noise,
        )

    @classmethod
    def restored(cls, context: SolvedInputs) -> ParametricModel:
        """Return the model that was kept. Raises ValueError where it was kept in other terms."""
        if tuple(context.terms) != TERMS:
            raise ValueError("made with other kinds of work")
        seen = _Seen(np.array(context.work, dtype=np.float64), np.array(context.keys, dtype=str))
        return cls(seen, np.array(context.log_time, dtype=np.float64), context.noise)


def _together() -> Matrix:
    """Return how multiples go together: a device or a precision that is slow at one product is so at the others."""
    kinds = np.array([_kind(name) for name in TERMS])
    own = np.array([CALL if name == "call" else 1.0 for name in TERMS])
    return np.asarray(np.diag(own) + ALIKE * own * (kinds[:, None] == kinds[None, :]), dtype=np.float64)


def _kind(term: str) -> str:
    name = term.partition(".")[0]
    if name in ARITHMETIC_CLASSES:
        return "arithmetic"
    return name if name in ("launch", "call", "optimizer") else "traffic"


TOGETHER = _together()
BEFOREHAND: Array = np.log(np.array([MULTIPLES[name] for name in TERMS]))
_VARIANCE = sum(layer.spread**2 for layer in LAYERS.values())
_OFFSET_VARIANCE = sum(spread**2 for spread in OFFSETS.values()) + MIX**2


def _shares(work: Matrix, log_multiples: Matrix) -> tuple[Matrix, Array]:
    """Return which share of the time each kind of work takes, and the logarithm of the time."""
    times = work * np.exp(log_multiples)
    total = times.sum(axis=1)
    return times / total[:, None], np.asarray(np.log(total), dtype=np.float64)
