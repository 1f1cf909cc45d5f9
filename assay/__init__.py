"""Assay: which hardware should run this model? Measured where we measured, predicted where we did not."""

from __future__ import annotations

from assay.client import Client

__all__ = ["Client", "__version__"]

__version__ = "0.1.0"
