"""Timings of single kernels, published as tables: rows by the million, which become a few hundred events."""
