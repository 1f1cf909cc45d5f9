"""What the general route says of the rows of one question, worked out for all that will ask at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from predictor.answering.bases import Base
from predictor.artifact.artifact import Predictor
from predictor.features.table import Array, Matrix, Table
from predictor.learning.siblings import Matched, Siblings

__all__ = ["GeneralRoute"]


class GeneralRoute:
    """Log residuals, features and siblings of the rows of a question by the general route, each worked out once.

    One call for all rows takes a fifth of one for each device.
    """

    def __init__(self, table: Table, predictor: Predictor, siblings: Siblings | None, bases: Sequence[Base]) -> None:
        """Take the rows of a question, the measurements of its model, and the bases that say which rows ask this route."""
        self._table, self._general, self._siblings = table, predictor.general, siblings
        self._asking = np.array([_asks(base) for base in bases], dtype=bool)
        self._residual = np.full(len(table), np.nan)
        self._values: Matrix | None = None
        self._matched: Matched | None = None

    def of(self, here: NDArray[np.intp]) -> tuple[Array, Matrix]:
        """Return the log residuals of some rows, and the features that they were predicted from."""
        assert self._general is not None
        wanted = np.zeros(len(self._table), dtype=bool)
        wanted[here] = True
        missing = np.flatnonzero((wanted | self._asking) & np.isnan(self._residual))
        if len(missing):
            residual, values = self._general.predicted(self._table.take(missing))
            if self._values is None:
                self._values = np.zeros((len(self._table), values.shape[1]))
            self._residual[missing], self._values[missing] = residual, values
        assert self._values is not None
        return self._residual[here], self._values[here]

    def siblings(self, here: NDArray[np.intp]) -> Matched | None:
        """Return the siblings of some rows that ask this route, None where the model was not measured."""
        if self._siblings is None or self._general is None:
            return None
        if self._matched is None:
            every = np.flatnonzero(self._asking)
            found = self._siblings.matched(self._table.take(every), self._general, self.of(every)[0])
            self._matched = found.spread(every, len(self._table))
        return self._matched.take(here)


def _asks(base: Base) -> bool:
    """Say whether the general route has a part in what a base says, or in what bounds its interval."""
    if base.method == "general":
        return True
    return any(_asks(part) for _, part in base.parts) or (base.before is not None and _asks(base.before))
