"""The accuracy report: what held-out measurements say of the shipped predictor, in tables and pictures.

`python -m assay.accuracy --out docs` writes `accuracy.md` and the pictures in `accuracy/`.
"""

from assay.accuracy.report import report
from assay.accuracy.results import Result, of_benchmarks, of_card

__all__ = ["Result", "of_benchmarks", "of_card", "report"]
