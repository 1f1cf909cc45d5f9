"""Charts as pure functions of answers: rows in, a Vega-Lite specification out.

A row is one ranked option or one compared configuration, with the keys of the API's answer. In the page a
chart names only the domain of its colours, so that the browser swaps light for dark by itself; a saved picture
names the range too. No chart has more than `MAX_MARKS` marks, and a value that is missing has no mark.
"""

from presentation.charts.accuracy_charts import calibration, errors, parity
from presentation.charts.axes import needs_log
from presentation.charts.coverage_chart import coverage
from presentation.charts.decisions_chart import decided
from presentation.charts.frame import MAX_MARKS
from presentation.charts.interval_chart import intervals
from presentation.charts.metrics import (
    COMPARED,
    COST,
    ENERGY,
    LATENCY,
    MEMORY,
    METRICS,
    SPEEDUP,
    THROUGHPUT,
    TOKEN_ENERGY,
    Metric,
    Row,
    name_of,
)
from presentation.charts.modes_chart import modes
from presentation.charts.scaling_chart import PANELS, Drawn, scaling, scalings
from presentation.charts.tradeoff_chart import Limit, can_be_drawn, tradeoff
from presentation.charts.variants_chart import variants, variants_drawn

__all__ = [
    "COMPARED",
    "COST",
    "ENERGY",
    "LATENCY",
    "MAX_MARKS",
    "MEMORY",
    "METRICS",
    "PANELS",
    "SPEEDUP",
    "THROUGHPUT",
    "TOKEN_ENERGY",
    "Drawn",
    "Limit",
    "Metric",
    "Row",
    "calibration",
    "can_be_drawn",
    "coverage",
    "decided",
    "errors",
    "intervals",
    "modes",
    "name_of",
    "needs_log",
    "parity",
    "scaling",
    "scalings",
    "tradeoff",
    "variants",
    "variants_drawn",
]
