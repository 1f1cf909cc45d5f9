"""Rows that an earlier import refused, mended: the file that `assay import --rejects FILE` writes, imported again.

One JSON object a line, a `Refused`: `path` and `row` say where the row stood, `reason` and `field` why it was refused,
`format` which importer refused it, and `content` is a file of that format that holds the row alone: mend it there. Each
content is given to its importer under the file's own name, so a mended row gets the id that it would have had in its
file, and is known where that file was mended and imported instead. All rows of the file are one run. What is refused
again keeps its path and its row. A line without content cannot be mended here: mend the file that it names.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from domain.events import RUN_FINISHED, RUN_STARTED
from domain.scrub import scrub
from ingest.importers.base import Importer
from ingest.importers.files import File
from ingest.importers.identity import row_id
from ingest.importers.reading import BadFile, json_lines
from ingest.importers.refusals import BadRow, Refused

__all__ = ["Rejects"]

_COUNTED = {
    "assay.measurement.recorded.v1": "measured",
    "assay.kernel.measured.v1": "measured",
    "assay.measurement.failed.v1": "failed",
    "assay.test.reported.v1": "tests",
}


class Rejects:
    """Refused rows, mended (NDJSON)."""

    name = "rejects"
    title = "rows that an earlier import refused, mended (`--rejects`)"

    def __init__(self, importers: Mapping[str, Importer]) -> None:
        self._importers = importers

    def sniff(self, file: File) -> bool:
        """Return whether the file was named and its first line is a refusal: in a folder it lies beside what it tells of."""
        if not file.given or file.suffix not in (".ndjson", ".jsonl"):
            return False
        try:
            msgspec.json.decode(file.head().partition("\n")[0], type=Refused)
        except (msgspec.DecodeError, UnicodeError):
            return False
        return True

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, what the mended rows are, and the end of the run; see Importer."""
        with file.path.open("rb") as opened:
            run_id = f"rejects:{hashlib.file_digest(opened, 'sha256').hexdigest()[:24]}"
        provenance = {"origin": "imported", "source": "rows mended after a refusal", "reference": scrub(file.name)}
        yield _run(RUN_STARTED, {"run_id": run_id, "kind": "import", "provenance": provenance})
        counts = {"measured": 0, "failed": 0, "tests": 0}
        for line, value in json_lines(file):
            for item in _again(self._importers, file, line, value):
                if isinstance(item, Refused):
                    counts["failed"] += 1
                    yield item
                elif item["type"] not in (RUN_STARTED, RUN_FINISHED):
                    if counted := _COUNTED.get(item["type"]):
                        counts[counted] += item["data"].get("timings", 1)
                    yield _moved(item, run_id)
        yield _run(RUN_FINISHED, {"run_id": run_id, "outcome": "completed", **counts})


def _again(importers: Mapping[str, Importer], file: File, line: int, value: Any) -> Iterator[dict[str, Any] | Refused]:
    """Yield what the importer of a line makes of its content, each with the place where the row stood."""
    if isinstance(value, BadFile):
        yield Refused(path=file.name, row=line, format="rejects", reason=value.reason)
        return
    try:
        refused = msgspec.convert(value, Refused)
    except msgspec.ValidationError as error:
        yield Refused(path=file.name, row=line, format="rejects", reason=f"is no refusal: {error}")
        return
    importer = importers.get(refused.format or "")
    if importer is None or refused.content is None:
        yield refused
        return
    name = refused.path.replace("\\", "/").rstrip("/").rpartition("/")[2] or "content"
    with tempfile.TemporaryDirectory(prefix="assay-import-") as folder:
        place = Path(folder) / "content"
        place.write_text(refused.content, encoding="utf-8", errors="replace", newline="")
        try:
            for item in importer.rows(File(place, name, given=True)):
                yield _placed(item, refused)
        except BadFile as error:
            yield _still(refused, error.reason, None)
        except BadRow as error:
            yield _still(refused, error.reason, error.field)


def _placed(item: dict[str, Any] | Refused, refused: Refused) -> dict[str, Any] | Refused:
    """Return the item with the path and the row of the refusal that it came from."""
    if isinstance(item, Refused):
        return msgspec.structs.replace(item, path=refused.path, row=refused.row)
    if refused.row is not None and "imported" in item["data"]:
        item["data"]["imported"] = {**item["data"]["imported"], "row": refused.row}
    return item


def _still(refused: Refused, reason: str, field: str | None) -> Refused:
    return msgspec.structs.replace(refused, reason=reason, field=field)


def _moved(event: dict[str, Any], run_id: str) -> dict[str, Any]:
    """Return an event as one of this run; its id, which says what the row says, stays."""
    if "run_id" not in event["data"]:
        return event
    return {**event, "subject": run_id, "data": {**event["data"], "run_id": run_id}}


def _run(type_: str, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": row_id("rejects", 1, type_, data),
        "source": "urn:assay:importer:rejects",
        "type": type_,
        "subject": data["run_id"],
        "datacontenttype": "application/json",
        "data": data,
    }
