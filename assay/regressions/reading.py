"""One side of a comparison: from a service at a position or snapshot, from a file of events or rows, or as it was saved."""

from __future__ import annotations

import csv
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assay.exports.places import position_of
from assay.staging import Staged
from domain.comparison.comparison_input import COLUMNS, OUTCOME_COLUMNS, ComparisonInput, row_of_event
from domain.comparison.comparison_sides import Side
from domain.comparison.thresholds import Thresholds, decode_thresholds
from domain.errors import NotFound, UsageError
from domain.events import MEASUREMENT_FAILED, MEASUREMENT_RECORDED, MEASUREMENT_RETRACTED

if TYPE_CHECKING:
    from assay.client import Client

__all__ = ["read_side", "read_thresholds", "write_side"]

Row = dict[str, Any]
Wanted = Mapping[str, Any]
FORMAT = 1
_HEAD = b'{"assay_regressions":'
LINES = (".ndjson", ".jsonl")
SUFFIXES = (*LINES, ".parquet", ".pq", ".csv", ".json")
JSON_BYTES = 256 << 20
"""A JSON document beyond this is refused: it has to be in memory at once."""
YAML_LETTERS = 1_000_000
NEEDED = ("event_id", "configuration", "model_id", "hardware_id", "mode", "platform", "workload", "execution", "origin")


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A file that `assay regressions --save` writes; `format` grows where a reader of before would misread it."""

    assay_regressions: int
    side: Side


def read_side(named: str | None, connect: Callable[[], Client], wanted: Wanted, *, field: str) -> Side:
    """Return the side that is named by a file, a position, a snapshot or a baseline; None is all that the service knows now.

    `connect` is called where a service is needed, and only then. UsageError for a file that holds nothing of the kind.
    """
    if named is not None and _is_file(named):
        return _of_file(Path(named), wanted, field)
    if named is not None and ("/" in named or Path(named).suffix.lower() in (*SUFFIXES, ".gz")):
        raise UsageError(
            f"there is no file {named}.",
            field=field,
            remedy="Name a file of events or measurements, a position, or a snapshot; --save FILE writes one.",
        )
    return _of_service(connect(), named, wanted, field)


def _is_file(named: str) -> bool:
    """Whether a word names a file, or a folder of Parquet files; a bare word may be a snapshot beside a folder of its name."""
    return Path(named).is_file() or ("/" in named and Path(named).is_dir())


def is_baseline(path: Path) -> bool:
    """Return whether `write_side` wrote a file: its first member tells."""
    with path.open("rb") as file:
        return file.read(len(_HEAD)) == _HEAD


def read_thresholds(path: Path) -> Thresholds:
    """Return the thresholds of a YAML file; UsageError that names the file, the member and the remedy."""
    import yaml

    def refuse(what: str, remedy: str) -> UsageError:
        return UsageError(f"{path} {what}", field="thresholds", remedy=remedy)

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise refuse(f"cannot be read: {why}.", "Name a YAML file with `thresholds:`.") from error
    if len(text) > YAML_LETTERS:
        raise refuse(f"has more than {YAML_LETTERS:,} characters.", "Use globs in place of many rules.")
    try:
        # An alias of an alias of an alias … is a bomb, and no thresholds need one.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise refuse("has an alias (*).", "Write the value out, and put globs in quotes.")
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        what = " ".join(str(error).split())
        raise refuse(f"is not YAML: {what}.", "Check indentation, and put globs in quotes.") from error
    try:
        return decode_thresholds(document)
    except UsageError as error:
        error.detail = f"{path.name}: {error.detail}"
        raise


def write_side(path: Path, side: Side) -> None:
    """Keep a side in a file, whole or not at all; what the file held before is replaced."""
    with Staged(force=True) as staged:
        staged.file(path).write_bytes(msgspec.json.encode(Saved(assay_regressions=FORMAT, side=side)) + b"\n")


def _of_service(client: Client, named: str | None, wanted: Wanted, field: str) -> Side:
    from assay.exports.views import read_view

    position, hardware = (None, None) if named is None else _named_position(client, named, field)
    if position is None:
        position = client.ready()["log_position"]
        client.wait_for(position)
    if hardware is not None:
        wanted = {"hardware": hardware, **wanted}
    name = f"position {position}" if named is None or named.isdecimal() else named
    gathered = ComparisonInput(name, position)
    request: dict[str, Any] = {"as_of": position, **wanted}

    def rows(view: str, columns: Iterable[str]) -> Iterator[Row]:
        for page in read_view(client, view, columns=tuple(columns), **request).pages:
            yield from page.to_pylist()

    measurements = (({"kind": "measurement", **row}) for row in rows("measurements", COLUMNS))
    failures = (({"kind": "failure", **row}) for row in rows("failures", OUTCOME_COLUMNS))
    for row in heapq.merge(measurements, failures, key=lambda row: int(row["position"])):
        if row["kind"] == "measurement":
            gathered.measured(row)
        else:
            gathered.outcome(row, None)
    for row in rows("tests", (*OUTCOME_COLUMNS, "test")):
        gathered.outcome(row, str(row["test"]))
    for page in read_view(client, "environments", as_of=position).pages:
        for row in page.to_pylist():
            gathered.environment(row["fingerprint"], row)
    return msgspec.structs.replace(gathered.side(), for_hardware=hardware)


def _named_position(client: Client, named: str, field: str) -> tuple[int, str | None]:
    """Return the position of a number, a snapshot, or a named baseline, and the only hardware that this is for."""
    try:
        return position_of(client, named), None
    except NotFound as error:
        if field != "baseline":
            raise
        with suppress(NotFound):
            baseline = client.baseline(named)
            return baseline.position, baseline.hardware
        raise NotFound(
            f"neither a snapshot nor a baseline is called {named!r}.",
            field=field,
            remedy="`assay snapshot list` and `assay baseline list` have the names.",
        ) from error


def _of_file(path: Path, wanted: Wanted, field: str) -> Side:
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix in LINES:
        return _of_records(json_lines(path, field), path, wanted, field)
    if path.is_dir() or suffix in (".parquet", ".pq"):
        return _of_records(_parquet(path), path, wanted, field)
    if suffix == ".csv":
        from ingest.importers.reading import text_lines

        try:
            with path.open(newline="", encoding="utf-8-sig") as text:
                return _of_records(map(_typed, csv.DictReader(text_lines(text))), path, wanted, field)
        except (csv.Error, UnicodeError) as error:
            raise UsageError(f"{path} is not CSV: {error}.", field=field, remedy="Export it again.") from error
    if suffix != ".json":
        raise UsageError(
            f"{path} is no file that can be compared with.",
            field=field,
            remedy="Give .ndjson(.gz) of events, .parquet, .csv or .json of measurements, or a file of --save.",
        )
    return _of_json(path, wanted, field)


def json_lines(path: Path, field: str) -> Iterator[Any]:
    """Yield the values of a file with one a line, packed or not; UsageError where it cannot be read."""
    from runner.spool.event_file import read_lines

    try:
        for line in read_lines(path):
            yield msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is not JSON: {error}.", field=field, remedy="One object a line.") from error


def _of_json(path: Path, wanted: Wanted, field: str) -> Side:
    if path.stat().st_size > JSON_BYTES:
        raise UsageError(
            f"{path} is a JSON document of more than {JSON_BYTES >> 20} MiB.",
            field=field,
            remedy="Write its rows one a line, as .ndjson.",
        )
    try:
        document = msgspec.json.decode(path.read_bytes())
        if isinstance(document, dict) and "assay_regressions" in document:
            if document["assay_regressions"] != FORMAT:
                raise UsageError(
                    f"{path} has format {document['assay_regressions']}, and this version reads {FORMAT}.",
                    field=field,
                    remedy="Use the version that wrote it, or save it again.",
                )
            return msgspec.structs.replace(msgspec.convert(document, Saved).side, name=path.name)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is not JSON: {error}.", field=field, remedy="Save it again with --save.") from error
    rows = document.get("items", document.get("rows")) if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise UsageError(
            f"{path} holds no measurements.", field=field, remedy="Give a list of rows, or a file of --save."
        )
    return _of_records(rows, path, wanted, field)


def _of_records(records: Iterable[Any], path: Path, wanted: Wanted, field: str) -> Side:
    """Return the side in a file of events or of rows of measurements; a retraction voids what it names, unless it is undone."""
    kept: dict[str, Row] = {}
    retractions: list[Row] = []
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict):
            raise UsageError(f"record {number} of {path} is no object.", field=field, remedy="One object a record.")
        if record.get("type") == MEASUREMENT_RETRACTED:
            retractions.append(record)
        elif (row := _row(record, number, path, field)) is not None:
            kept[str(row["event_id"])] = row
    events, runs = _void(retractions)
    gathered = ComparisonInput(path.name, wanted=wanted)
    for row in kept.values():
        if row["event_id"] in events or row.get("run_id") in runs:
            continue
        if row["kind"] == MEASUREMENT_RECORDED:
            gathered.measured(row)
        else:
            gathered.outcome(row, None if row["kind"] == MEASUREMENT_FAILED else str(row["test"]))
        gathered.environment(row.get("environment_fingerprint"), row.get("environment") or {})
    return gathered.side()


def _void(retractions: Iterable[Row]) -> tuple[set[Any], set[Any]]:
    """Return the events and the runs that retractions void, without those that are retracted themselves."""
    by_id = {str(record.get("id")): record.get("data") or {} for record in retractions}
    targets = {data.get("event_id") for data in by_id.values()}
    standing = [data for name, data in by_id.items() if name not in targets]
    return {data.get("event_id") for data in standing} - {None}, {data.get("run_id") for data in standing} - {None}


def in_force(records: Sequence[Row]) -> Iterator[Row]:
    """Yield the events that no retraction among them voids, each once."""
    events, runs = _void(record for record in records if record.get("type") == MEASUREMENT_RETRACTED)
    seen: set[str] = set()
    for record in records:
        data = record.get("data")
        run = data.get("run_id") if isinstance(data, dict) else None
        if record.get("id") not in events and run not in runs and str(record.get("id")) not in seen:
            seen.add(str(record.get("id")))
            yield record


def _row(record: Row, number: int, path: Path, field: str) -> Row | None:
    if "type" in record and "data" in record:
        row = row_of_event(record)
        return None if row is None else {"kind": record["type"], **row}
    missing = [name for name in NEEDED if record.get(name) is None]
    if missing:
        raise UsageError(
            f"record {number} of {path} is neither an event nor a row of measurements: it has no {', '.join(missing)}.",
            field=field,
            remedy="`assay export FILE --what measurements` writes such files.",
        )
    return {"kind": MEASUREMENT_RECORDED, **record}


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow.dataset as dataset

    for batch in dataset.dataset(path, partitioning="hive").to_batches():
        for row in batch.to_pylist():
            if isinstance(row.get("data"), str):
                row["data"] = msgspec.json.decode(row["data"])
            yield row


_TEXTS = frozenset(
    (
        "event_id",
        "run_id",
        "configuration",
        "model_id",
        "hardware_id",
        "mode",
        "platform",
        "precision",
        "runtime_name",
        "runtime_version",
        "environment_fingerprint",
        "origin",
        "verdict",
        "workload",
        "execution",
        "verdict_reasons",
        "metric_verdicts",
        "scenario",
        "type",
        "data",
    )
)


def _typed(row: Mapping[str, str | None]) -> Row:
    """Return a row of CSV with numbers as numbers, empty cells as null, and texts as they were before they were defused."""
    from domain.cells import restored

    return {name: _value(name, restored(text)) for name, text in row.items() if text}


def _value(name: str, text: str) -> Any:
    if name in _TEXTS:
        return msgspec.json.decode(text) if name == "data" else text
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text) if any(mark in text for mark in ".eEn") else int(text)
    except ValueError:
        return text
