"""Correct the general route by rows of a device: its peak, bandwidth and launches, and what is left by kinship.

The sum of kernels says which share of a row's time is arithmetic, traffic and launches. Rows of several sizes tell the three
apart, so that large batches mend the peak and small ones the launches; how a correction is carried over beyond that is
`predictor.artifact.calibrated`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from predictor.artifact.calibrated import LearnedBase, PeakLimits
from predictor.features.dataset import Row
from predictor.features.table import Array, Table
from predictor.general.inputs import Parts, runtime_of
from predictor.general.method import FittedGeneral
from predictor.learning.single_thread import single_threaded

__all__ = ["FittedLimits", "GeneralBase"]

FITTED = "limits"
SPREADS = {"peak": 0.25, "bandwidth": 0.15, "launch": 0.5}
"""How far a device lies off what its data sheet and its runtime's usual launch say, in log units; judgements."""
OFFSET = 0.2
"""How far all of its rows lie off together, in log units; kinship corrects that, and no limit is moved for it."""
NOISE = 0.15
"""How far one row lies off the others of its device, in log units."""
ODD = 2.0
"""Errors beyond as many times the noise count linearly."""
FITTING = 1.0
"""What the fitted limits must explain the rows better by, in log units of their likelihood, to weigh as much as stated ones."""
FEWEST = 3
"""Fewer rows than this do not tell arithmetic, traffic and launches apart."""


class FittedLimits(PeakLimits):
    """Several peaks, and beside them fitted shares of the stated peak and bandwidth, and how many times the usual time a launch takes by runtime."""

    def __init__(self, fitted: FittedGeneral, shots: Table, learned: Array) -> None:
        """Fit the limits on measured rows of one device; `learned` is what the general route says of them."""
        super().__init__(fitted)
        self._general = fitted
        self.bandwidth = self._peak = 1.0
        self.launch: dict[str, float] = {}
        if len(shots) < FEWEST:
            return
        from scipy.optimize import least_squares  # Half a second of an import that few questions need.

        runtimes = sorted({runtime_of(row) for row in shots.rows})
        place = np.array([runtimes.index(runtime_of(row)) for row in shots.rows], dtype=np.intp)
        spreads = np.array([OFFSET, SPREADS["peak"], SPREADS["bandwidth"], *[SPREADS["launch"]] * len(runtimes)])
        parts, left = fitted.parts(shots), shots.residual - learned
        usual = np.log(parts.seconds())

        def errors(values: Array) -> Array:
            peak, bandwidth, *launch = np.exp(values[1:])
            moved = np.log(parts.seconds(peak, bandwidth, np.array(launch)[place])) - usual
            return np.concatenate([(left - values[0] - moved) / NOISE, values / spreads])

        with single_threaded():
            values = least_squares(errors, np.zeros(len(spreads)), loss="soft_l1", f_scale=ODD).x
        self._peak, self.bandwidth, *launch = np.exp(values[1:]).tolist()
        self.launch = dict(zip(runtimes, launch, strict=True))
        doubt = -0.5 * float(np.square(values[1:] / spreads[1:]).sum()) - FITTING
        self.guesses = {**self.guesses, FITTED: doubt}

    def peak(self, name: str) -> float:
        """Return the share of the stated peak in a guess."""
        return self._peak if name == FITTED else super().peak(name)

    def residuals(self, names: Sequence[str], table: Table, learned: Array) -> dict[str, Array]:
        """Return the log residuals of the rows under each guess."""
        made = super().residuals([name for name in names if name != FITTED], table, learned)
        if FITTED in names:
            made[FITTED] = np.asarray(learned + self._moved(table.rows, self._general.parts(table)), dtype=np.float64)
        return {name: made[name] for name in names if name in made}

    def _moved(self, rows: list[Row], parts: Parts) -> Array:
        launch = np.array([self.launch.get(runtime_of(row), 1.0) for row in rows])
        return np.asarray(np.log(parts.seconds(self._peak, self.bandwidth, launch) / parts.seconds()), dtype=np.float64)


class GeneralBase(LearnedBase):
    """What the general route learned, ready to be corrected by rows of a device."""

    def __init__(
        self,
        fitted: FittedGeneral,
        table: Table,
        devices: Collection[str] | None = None,
        models: Collection[str] | None = None,
    ) -> None:
        """Take the route and the rows among which siblings are looked for; see `LearnedBase`."""
        super().__init__(fitted, table, devices, models)
        self._general = fitted

    def limits(self, shots: Table, learned: Array) -> FittedLimits:
        """Return the limits that the rows of a device fit."""
        return FittedLimits(self._general, shots, learned)
