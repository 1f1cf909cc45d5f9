"""What became of an import: the answer of `assay import`, as one object and as tables of 100 columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from assay.cli.output import answers, grid, say
from presentation import formatting

if TYPE_CHECKING:
    from ingest.importers import Summary

__all__ = ["Files", "Outcome", "show"]

_PREFIX = "urn:assay:importer:"
_COLUMNS = {
    "measurements": "assay.measurement.recorded.v1",
    "failures": "assay.measurement.failed.v1",
    "tests": "assay.test.reported.v1",
}
_NAMES_SHOWN = 10


class Files(msgspec.Struct, kw_only=True):
    """How many files were read, and how many of a folder were passed over because nobody recognised them."""

    read: int = 0
    passed_over: int = 0


class Outcome(msgspec.Struct, kw_only=True):
    """The answer; `accepted` and `duplicate` are null where nothing was sent.

    `duplicate` is what the log had: the same event, or the same row out of another file. `read` counts events by type,
    `formats` the same for each format, `timings` the timings of kernels, of which an event holds many. `caught`,
    `reasons` and `names` hold the most frequent first, each with its rows.
    """

    format: str
    dry_run: bool
    files: Files = msgspec.field(default_factory=Files)
    read: dict[str, int] = {}
    formats: dict[str, dict[str, int]] = {}
    timings: dict[str, int] = {}
    accepted: int | None = None
    duplicate: int | None = None
    origins: dict[str, int] = {}
    caught: list[dict[str, Any]] = []
    refused: int = 0
    reasons: list[dict[str, Any]] = []
    names: list[Any] = []

    def count(self, summary: Summary, names: Mapping[str, Collection[str]]) -> None:
        """Take over what went by; `known` are the names by kind that the service has heard of."""
        from ingest.importers.unknown_names import unresolved

        self.read = dict(summary.taken)
        self.formats = {source.removeprefix(_PREFIX): dict(taken) for source, taken in sorted(summary.formats.items())}
        self.timings = {source.removeprefix(_PREFIX): count for source, count in sorted(summary.timings.items())}
        self.origins = dict(summary.origins)
        self.caught = [
            {"rule": rule, "rows": rows, "example": summary.caught_examples[rule]._asdict()}
            for rule, rows in summary.caught.most_common()
        ]
        self.refused = summary.refused.total()
        self.reasons = [
            {"reason": reason, "rows": rows, "example": summary.examples[reason]}
            for reason, rows in summary.refused.most_common()
        ]
        self.names = unresolved(summary.names, names)


def show(outcome: Outcome) -> None:
    """Print the answer."""
    tables = [_taken(outcome), _caught(outcome), _refused(outcome), _names(outcome)]
    for table in tables:
        if table is not None:
            answers().print(table)
            answers().print()
    if outcome.names:
        verbs = " or ".join(f"[bold]assay {kind} alias NAME CANONICAL[/bold]" for kind in _kinds(outcome))
        answers().print(f"Say once for all, and backwards, what a name means: {verbs}")
        answers().print("Many at once: --names FILE writes them down, to be filled in for `assay model alias --file`.")
        if any(name.remedy for name in outcome.names):
            answers().print(
                "A device that the catalogue lacks: add it to domain/data/hardware.json (docs/hardware-catalogue.md)."
            )
        answers().print()
    _tell(outcome)


def _kinds(outcome: Outcome) -> list[str]:
    return sorted({name.kind for name in outcome.names}, reverse=True)


def _tell(outcome: Outcome) -> None:
    origins = ", ".join(f"{formatting.count(n)} {origin}" for origin, n in sorted(outcome.origins.items()))
    passed = f", {formatting.count(outcome.files.passed_over)} passed over" if outcome.files.passed_over else ""
    files = "file" if outcome.files.read == 1 else "files"
    say(f"{formatting.count(outcome.files.read)} {files} read{passed}; rows: {origins or 'none'}")
    if not outcome.files.read and not outcome.read:
        say("no file was recognised; `assay import --list` shows the formats")
    if outcome.dry_run:
        say("nothing was sent (--dry-run)")
    else:
        say(f"{formatting.count(outcome.accepted)} events new, {formatting.count(outcome.duplicate)} already there")


def _taken(outcome: Outcome) -> Any:
    if not outcome.formats:
        return None
    rows = []
    for name, taken in outcome.formats.items():
        others = sum(taken.values()) - sum(taken.get(type_, 0) for type_ in _COLUMNS.values())
        counts = [taken.get(type_, 0) for type_ in _COLUMNS.values()] + [outcome.timings.get(name, 0), others]
        rows.append([name, *map(_figure, counts)])
    columns = [("format", "fixed"), *((name, "right") for name in (*_COLUMNS, "kernel timings", "other events"))]
    return grid("Taken", columns, rows)


def _figure(n: int) -> str:
    return formatting.count(n) if n else formatting.MISSING


def _caught(outcome: Outcome) -> Any:
    rows = [
        [formatting.count(item["rows"]), item["rule"], f"{_place(item['example'])}: {item['example']['why']}"]
        for item in outcome.caught
    ]
    return (
        grid("Caught by a rule, taken and marked", [("rows", "right"), "rule", "for example"], rows) if rows else None
    )


def _refused(outcome: Outcome) -> Any:
    rows = []
    for reason in outcome.reasons:
        example = reason["example"]
        why = f"{example.field}: {example.reason}" if example.field else example.reason
        rows.append([formatting.count(reason["rows"]), why, _place({"file": example.path, "row": example.row})])
    return grid("Refused", [("n", "right"), "why", "for example"], rows) if rows else None


def _place(example: Mapping[str, Any]) -> str:
    return f"{example['file']} row {example['row']}" if example["row"] else str(example["file"])


def _names(outcome: Outcome) -> Any:
    shown = [
        [formatting.count(name.rows), name.kind, name.name, ", ".join(name.nearest) or formatting.MISSING]
        for name in outcome.names[:_NAMES_SHOWN]
    ]
    more = len(outcome.names) - len(shown)
    title = f"{formatting.count(len(outcome.names))} names that resolve to nothing" + (
        f", first {len(shown)}" if more else ""
    )
    return grid(title, [("rows", "right"), ("what", "fixed"), "name", "nearest"], shown) if shown else None
