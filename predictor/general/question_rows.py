"""What the general route says of the rows of one question, worked out for all that will ask at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array, Matrix, Table
from predictor.general.method import FittedGeneral
from predictor.learning.siblings import Matched, Siblings

__all__ = ["GeneralRoute"]


class GeneralRoute:
    """Log residuals, features and siblings of the rows of a question by the general route, each worked out once.

    One call for all rows takes a fifth of one for each device.
    """

    def __init__(
        self, table: Table, general: FittedGeneral | None, siblings: Siblings | None, asking: NDArray[np.bool_]
    ) -> None:
        """Take the rows of a question, the route, the measurements of the model, and which rows will ask the route."""
        self._table, self._general, self._siblings, self._asking = table, general, siblings, asking
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
