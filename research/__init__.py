"""One-off studies. Each module states its question and its answer at the top: `python -m research.NAME`."""
