"""Do the cleaning rules find what was made up, and nothing else? Rows that a person labelled, against what the rules say.

    python -m research.cleaning FOLDER [--missed]

FOLDER holds the earlier framework's result files. `cleaning_labels.csv` has a file, the place of a record in it (as
`imported.original.record` says it), the label (`simulated`, or `genuine`: a figure or an outcome that came from a run, under whatever
name) and why a person thinks so. Rows that reading alone does not decide have no label. What is counted is the origin of the event:
`simulated` or not. Prints precision and recall with their bars, labels without an event, and how many rows each rule caught, of all and of
those with a label. Exit 1 below a bar, 3 where the files are not there.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ingest.importers import Refused, import_paths

BAR = 0.95
LABELS = Path(__file__).with_name("cleaning_labels.csv")


class Label(NamedTuple):
    """What a person says of a record."""

    path: str
    record: str
    simulated: bool
    why: str


class Row(NamedTuple):
    """What the rules say of a record."""

    simulated: bool
    rules: tuple[str, ...]


class Score(NamedTuple):
    """How often the rules and the person agree; `missed` and `blamed` are the labels where they do not."""

    found: int
    missed: list[Label]
    blamed: list[Label]
    cleared: int
    absent: list[Label]

    @property
    def precision(self) -> float:
        """Of what the rules call simulated, the share that is."""
        return self.found / ((self.found + len(self.blamed)) or 1)

    @property
    def recall(self) -> float:
        """Of what is simulated, the share that the rules find."""
        return self.found / ((self.found + len(self.missed)) or 1)


def labels(path: Path = LABELS) -> list[Label]:
    """Return the labelled records; ValueError where a label is neither of the two, or a record has two."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    wrong = [row for row in rows if row["label"] not in ("simulated", "genuine")]
    places = Counter((row["path"], row["record"]) for row in rows)
    twice = [place for place, count in places.items() if count > 1]
    if wrong or twice:
        raise ValueError(f"labels that cannot be used: {wrong[:3] or twice[:3]}")
    return [Label(row["path"], row["record"], row["label"] == "simulated", row["why"]) for row in rows]


def judged(folder: Path) -> tuple[dict[tuple[str, str], Row], Counter[str], int]:
    """Return what the rules say of each record by file and place, how many rows each rule caught, and all rows."""
    found: dict[tuple[str, str], Row] = {}
    caught: Counter[str] = Counter()
    rows = 0
    for event in _facts(folder):
        rows += 1
        data = event["data"]
        imported = data.get("imported") or {}
        rules = tuple(imported.get("rules") or ())
        caught.update(rules)
        path = data["provenance"]["reference"].removeprefix(f"{folder.name}/")
        record = (imported.get("original") or {}).get("record", "")
        found[path, record] = Row(data["provenance"]["origin"] == "simulated", rules)
    return found, caught, rows


def _facts(folder: Path) -> Iterator[dict[str, Any]]:
    for item in import_paths("auto", [folder]):
        if not isinstance(item, Refused) and "model" in item["data"]:
            yield item


def score(labelled: list[Label], rows: Mapping[tuple[str, str], Row]) -> Score:
    """Compare labels with rows."""
    found = cleared = 0
    missed: list[Label] = []
    blamed: list[Label] = []
    absent: list[Label] = []
    for label in labelled:
        row = rows.get((label.path, label.record))
        if row is None:
            absent.append(label)
        elif label.simulated:
            found += row.simulated
            missed += [] if row.simulated else [label]
        else:
            cleared += not row.simulated
            blamed += [label] if row.simulated else []
    return Score(found, missed, blamed, cleared, absent)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--missed", action="store_true", help="Print the labels on which rules and person disagree.")
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        print(f"there is no folder {arguments.folder}.", file=sys.stderr)
        return 3
    labelled = labels()
    rows, caught, total = judged(arguments.folder.resolve())
    result = score(labelled, rows)
    compared = len(labelled) - len(result.absent)
    print(f"{compared} of {len(labelled)} labels have an event; {total} rows in all")
    print(
        f"precision | {result.precision:.3f} | {result.found} found, {len(result.blamed)} blamed wrongly | ≥ {BAR:.2f}"
    )
    print(f"recall    | {result.recall:.3f} | {result.found} found, {len(result.missed)} missed | ≥ {BAR:.2f}")
    of_labels: Counter[str] = Counter()
    for label in labelled:
        row = rows.get((label.path, label.record))
        of_labels.update(row.rules if row else ())
    for rule, count in caught.most_common():
        print(f"  {count:5} rows, {of_labels[rule]:4} with a label: {rule}")
    if arguments.missed:
        for what, listed in (("missed", result.missed), ("blamed", result.blamed), ("absent", result.absent)):
            for label in listed:
                print(f"{what}: {label.path} {label.record}: {label.why}")
    return 0 if min(result.precision, result.recall) >= BAR and not result.absent else 1


if __name__ == "__main__":
    sys.exit(main())
