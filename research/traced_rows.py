"""Of how many published rows is the work known, and how many may teach the predictor? Count those that ship.

    python -m research.traced_rows [--left N]

Answer: a table by source: rows, rows whose model has an operator trace at the row's size (own traces, or those of
`predictor/shipped/traced_names.json`), rows that are single calls with a time and may train (`training_rows`), those of them
that `tabulate` keeps, and those that it would keep if their device had figures; then why the rest stay out. `--left` lists
the N models without a trace that have the most rows. Served language models have a route of their own and need no trace.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from domain.catalogues import hardware
from domain.events import MEASUREMENT_RECORDED
from ingest import evidence
from predictor.answering.facts import trace_from_row
from predictor.features.dataset import Row, row_from_event, training_rows
from predictor.features.operators_route import tabulate
from predictor.features.shipped_traces import shipped_rows
from predictor.features.traces import TraceBook

__all__ = ["book_of", "main", "published"]

NO_FIGURES = "no peak or bandwidth"
"""Why `tabulate` leaves a row out whose device has no figures."""


def published() -> dict[str, list[Row]]:
    """Return the rows that ship, by source."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for source in evidence.sources():
        for batch in evidence.events([source.name]):
            events = [event for text in batch if (event := json.loads(text))["type"] == MEASUREMENT_RECORDED]
            rows[source.name] += [row for event in events if (row := row_from_event(event)) is not None]
    return rows


def book_of(rows: Iterable[Row]) -> TraceBook:
    """Return the shipped traces of the models of some rows."""
    return TraceBook(trace_from_row(row) for row in shipped_rows(sorted({row.model for row in rows})))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and the models that are left."""
    parser = argparse.ArgumentParser(prog="python -m research.traced_rows", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--left", type=int, default=0, help="list so many models without a trace")
    options = parser.parse_args(arguments)
    left: Counter[str] = Counter()
    print("source                    rows  traced  teach    kept  no device figures   kept out otherwise")
    for source, rows in sorted(published().items()):
        book = book_of(rows)
        untraced = [row.model for row in rows if book.find_for(row) is None]
        left.update(untraced)
        teach = training_rows(rows, mode=None)
        table = tabulate(teach, book, hardware.find)
        dropped = dict(table.dropped)
        unknown = dropped.pop(NO_FIGURES, 0)
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(dropped.items()))
        print(
            f"{source:23} {len(rows):6,} {len(rows) - len(untraced):7,} {len(teach):6,} {len(table.rows):7,} "
            f"{unknown:18,}   {reasons}"
        )
    for model, count in left.most_common(options.left):
        print(f"{count:6,}  {model}")


if __name__ == "__main__":
    main()
