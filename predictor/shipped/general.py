"""Make the general route of the shipped predictor again, from the published rows and the traces that ship.

    python -m predictor.shipped.general --measurements data/*.ndjson.gz --out predictor/shipped

The published rows are those of `ingest.evidence`, the parameters of kernels those of the shipped predictor
(`python -m predictor.kernels`); nothing else is read. About twenty minutes on one core, nearly all of it for the errors on what is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from domain.catalogues import hardware
from domain.events import MEASUREMENT_RECORDED
from ingest import evidence
from predictor import kernels
from predictor.answering.facts import trace_from_row
from predictor.artifact.artifact import Card, load_shipped, write_folder
from predictor.features.dataset import Row, row_from_event, training_rows
from predictor.features.operators_route import tabulate
from predictor.features.shipped_traces import shipped_rows
from predictor.features.table import Table
from predictor.features.traces import Trace, TraceBook
from predictor.general.building import build_general
from predictor.general.method import GENERAL
from predictor.learning.training import Trees
from predictor.shipped.first_party import measured_in

__all__ = ["general_table", "main", "shipped_book", "with_general"]


def published() -> Iterator[Row]:
    """Yield the rows of the published measurements that ship."""
    for batch in evidence.events():
        for text in batch:
            event: dict[str, Any] = msgspec.json.decode(text)
            row = row_from_event(event) if event["type"] == MEASUREMENT_RECORDED else None
            if row is not None:
                yield row


def general_table(measurements: Sequence[Path] = ()) -> Table:
    """Return the table of published rows, and of the measurements in these files, whose model is traced."""
    own = measured_in(measurements)
    rows = training_rows([*published(), *own.rows], mode=None)
    book = shipped_book(rows, own.traces)
    return tabulate(rows, book, lambda name: own.specs.get(name) or hardware.find(name))


def shipped_book(rows: Sequence[Row], traces: Sequence[Trace] = ()) -> TraceBook:
    """Return the shipped traces of the models of some rows, also of those whose work ships under another name, and `traces`."""
    names = sorted({row.model for row in rows})
    return TraceBook([*map(trace_from_row, shipped_rows(names)), *traces])


def with_general(
    card: Card, others: Mapping[str, Trees], table: Table, say: Callable[[str], None]
) -> tuple[Card, dict[str, Trees]]:
    """Return the card and the trees with the general route of a table, in the place of what was there.

    Raises ValueError for a card without kernels.
    """
    if card.kernels is None:
        raise ValueError("the general route rests on kernels: make those first")
    say(f"{len(table):,} rows; left out: {table.dropped}")
    general, trees = build_general(table, card.kernels.parameters, say=say)
    kept = {name: item for name, item in others.items() if not name.startswith(GENERAL)}
    return msgspec.structs.replace(card, general=general), {**kept, **trees}


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, measure, and write the shipped predictor with this general route."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}.general",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--measurements", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    shipped = load_shipped()
    if shipped.card.kernels is None:
        parser.error(f"the shipped predictor has no kernels; run python -m {kernels.__name__} first")
    card, others = with_general(shipped.card, shipped.others, general_table(options.measurements), print)
    print(write_folder(options.out, card, shipped.base, others))


if __name__ == "__main__":
    main()
