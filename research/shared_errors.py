"""How much of the error of an estimate from specifications do two devices share, so that it cancels when they are compared?

    python -m research.shared_errors

Answer: most of it. Of published rows of the same model, sizes, batch and software on two devices, the log of measured time
over the roofline spreads by 0.3 to 0.8, and the log of the ratio of both devices' times over that of their rooflines by
0.2 to 0.8. Ranking devices by specifications is therefore far surer than either estimate (`predictor.answering.objective`).
The rows are those that ship (`ingest.evidence`).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from domain.catalogues import hardware
from domain.events import MEASUREMENT_RECORDED
from ingest import evidence
from predictor.answering.facts import trace_from_row
from predictor.features.dataset import Row, row_from_event, training_rows
from predictor.features.operators_route import tabulate
from predictor.features.shipped_traces import shipped_models, shipped_rows
from predictor.features.traces import TraceBook

__all__ = ["main", "published_rows"]


def published_rows() -> Iterator[tuple[str, Row]]:
    """Yield the source and the row of every shipped measurement."""
    for source in evidence.sources():
        for batch in evidence.events([source.name]):
            for text in batch:
                event: dict[str, Any] = msgspec.json.decode(text)
                row = row_from_event(event) if event["type"] == MEASUREMENT_RECORDED else None
                if row is not None:
                    yield source.name, row


def main() -> None:
    """Print, by source, how far estimates and ratios of estimates are off."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for source, row in published_rows():
        rows[source].append(row)
    book = TraceBook(map(trace_from_row, shipped_rows(sorted(shipped_models()))))
    print(f"{'source':24} {'pairs':>8} {'spread':>8} {'of ratios':>10} {'shared':>8}")
    for source, its in rows.items():
        table = tabulate(training_rows(its, mode=None), book, hardware.find)
        if not len(table):
            continue
        residual = table.residual - np.median(table.residual)
        alike: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for index, row in enumerate(table.rows):
            work = (row.model, row.mode, row.platform, row.runtime, row.precision, row.compiled, row.batch_size)
            alike[*work, row.sizes].append(index)
        pairs = [
            (first, second)
            for members in alike.values()
            for first, second in itertools.combinations(members, 2)
            if table.rows[first].hardware != table.rows[second].hardware
        ]
        if len(pairs) < 10:
            continue
        one, other = residual[[pair[0] for pair in pairs]], residual[[pair[1] for pair in pairs]]
        spread = float(np.sqrt(np.mean(np.square(np.concatenate([one, other])))))
        apart = float(np.sqrt(np.mean(np.square(one - other))))
        print(f"{source:24} {len(pairs):8,} {spread:8.2f} {apart:10.2f} {1 - apart**2 / (2 * spread**2):8.2f}")


if __name__ == "__main__":
    main()
