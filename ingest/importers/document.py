"""A file that is imported as a run: it makes the events of its rows, each with an id that says what the row says.

The id of a row is made of the format, of what the row says once units and names are settled, and of its time: not of the
file. So the same row in a copy, in a longer export, or imported again is the same event, and the log keeps the first.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from domain.canonical import digest, drop_nulls
from domain.checks import check
from domain.errors import InvalidInput
from domain.events import (
    MEASUREMENT_FAILED,
    MEASUREMENT_RECORDED,
    RUN_FINISHED,
    RUN_STARTED,
    TEST_REPORTED,
    decode_event,
    encode_event,
)
from domain.payloads import MeasurementFailed, MeasurementRecorded, TestReported
from domain.scrub import scrub
from ingest.importers.draft import Draft, Finding, PreparedFact
from ingest.importers.files import File
from ingest.importers.identity import row_id
from ingest.importers.reading import BadFile
from ingest.importers.refusals import BadRow, Refused
from ingest.importers.rules import judge, judge_together

__all__ = ["Document", "environment"]

TOGETHER = 20_000
"""So many rows of a file are looked at together by the rules that compare rows; more are taken in such portions."""
ORIGINAL_CHARACTERS = 2000
"""An original value that is longer is cut: it is there to be recognised, and an event has a limit."""
_TYPES: dict[str, tuple[str, type[msgspec.Struct]]] = {
    "measurement": (MEASUREMENT_RECORDED, MeasurementRecorded),
    "failure": (MEASUREMENT_FAILED, MeasurementFailed),
    "test": (TEST_REPORTED, TestReported),
}
_COUNTED = {"measurement": "measured", "failure": "failed", "test": "tests"}
_MOMENT = Annotated[datetime, msgspec.Meta(tz=True)]
_YEARS = range(1970, 2262)
_MISSING = re.compile(r"missing required field `(.+?)`")


def environment(libraries: dict[str, str] | None = None, **said: Any) -> dict[str, Any] | None:
    """Return an environment with its fingerprint, or None where nothing is said of it."""
    document = drop_nulls({**said, "libraries": libraries or None})
    return {"fingerprint": digest(document).removeprefix("sha256:")[:16], **document} if document else None


class Document:
    """One file. `version` is the importer's: raise it when its rows become other events than before.

    `source` says in words what was read, `reference` is the file's own address where it has one (else its name), `licence`
    an SPDX name. `time` (ISO 8601 with offset) is that of every row that says none.
    """

    def __init__(
        self,
        file: File,
        format: str,  # noqa: A002 - the word that users type
        *,
        version: int = 1,
        source: str | None = None,
        reference: str | None = None,
        licence: str | None = None,
        time: str | None = None,
        hardware: Iterable[dict[str, Any]] = (),
        environment: dict[str, Any] | None = None,
    ) -> None:
        self.file = file
        self.format = format
        self._version = version
        self._time = time
        self._hardware = [drop_nulls(item) for item in hardware]
        self._environment = drop_nulls(environment) if environment else None
        self._counts: Counter[str] = Counter()
        self._broken: str | None = None
        provenance = drop_nulls(
            {
                "source": source or f"{format} file",
                "reference": reference or scrub(file.name),
                "licence": licence,
            }
        )
        self._provenance = {origin: {"origin": origin, **provenance} for origin in ("imported", "simulated")}
        with file.path.open("rb") as opened:
            self.run_id = f"{format}:{hashlib.file_digest(opened, 'sha256').hexdigest()[:24]}"

    def events(self, rows: Iterable[Draft | PreparedFact | Refused]) -> Iterator[dict[str, Any] | Refused]:
        """Yield the run, its rows as the rules judge them, refusals as they come, and the end of the run.

        Where the reading of `rows` breaks off (BadFile, BadRow, an error of the file system), what was read before is
        taken, and the run ends as stopped. BadFile where what is said of the whole file makes no event.
        """
        yield self._started()
        portion: list[Draft] = []
        for row in self._until_broken(rows):
            if isinstance(row, Refused):
                self._counts["refused"] += 1
                yield row if row.format else msgspec.structs.replace(row, format=self.format)
                continue
            if isinstance(row, PreparedFact):
                yield self._prepared(row)
                continue
            judge(row)
            portion.append(row)
            if len(portion) >= TOGETHER:
                yield from self._portion(portion)
                portion = []
        yield from self._portion(portion)
        counted = {name: self._counts[kind] for kind, name in _COUNTED.items()}
        counted["failed"] += self._counts["refused"]
        ended = {"outcome": "stopped", "reason": self._broken} if self._broken else {"outcome": "completed"}
        yield self._event(RUN_FINISHED, {"run_id": self.run_id, **ended, **counted})

    def refused(
        self, reason: str, *, row: int | None = None, field: str | None = None, content: str | None = None
    ) -> Refused:
        """Return a refusal of a row, or of the file."""
        return Refused(path=self.file.name, reason=reason, row=row, field=field, format=self.format, content=content)

    def _started(self) -> dict[str, Any]:
        data = drop_nulls(
            {
                "run_id": self.run_id,
                "kind": "import",
                "hardware": self._hardware,
                "environment": self._environment,
                "provenance": self._provenance["imported"],
            }
        )
        try:
            event = self._event(RUN_STARTED, data)
            decode_event(encode_event(event))
        except (InvalidInput, UnicodeError) as error:
            raise BadFile(f"says what no run can say: {error}") from error
        return event

    def _until_broken(self, rows: Iterable[Draft | PreparedFact | Refused]) -> Iterator[Draft | PreparedFact | Refused]:
        try:
            yield from rows
        except BadFile as error:
            refused = self.refused(error.reason, row=error.row)
        except BadRow as error:
            refused = self.refused(error.reason, field=error.field)
        except (OSError, UnicodeError) as error:
            refused = self.refused(f"cannot be read on: {type(error).__name__}")
        else:
            return
        self._broken = refused.reason
        yield refused

    def _prepared(self, fact: PreparedFact) -> dict[str, Any] | Refused:
        """Return the event of a prepared fact, or a refusal where it is none."""
        data = {"run_id": self.run_id, **fact.data, "provenance": self._provenance["imported"]}
        identity = row_id(self.format, self._version, fact.type, fact.identity, self._time)
        event = self._event(fact.type, data, identity=identity)
        try:
            decode_event(encode_event(event))
        except InvalidInput as error:
            self._counts["refused"] += 1
            return self.refused(error.detail, field=error.field)
        self._counts["measurement"] += fact.timings
        return event

    def _portion(self, drafts: list[Draft]) -> Iterator[dict[str, Any] | Refused]:
        judge_together(drafts)
        for draft in drafts:
            try:
                event = self._row(draft)
            except msgspec.ValidationError as error:
                refused = self._misshapen(error, draft)
            except InvalidInput as error:
                refused = self.refused(error.detail, row=draft.row, field=error.field)
            except (UnicodeError, RecursionError) as error:
                refused = self.refused(f"cannot be written as JSON: {type(error).__name__}", row=draft.row)
            else:
                self._counts[draft.kind] += 1
                yield event
                continue
            self._counts["refused"] += 1
            yield refused

    def _misshapen(self, error: msgspec.ValidationError, draft: Draft) -> Refused:
        reason, _, path = str(error).partition(" - at `$.")
        path = path.rstrip("`")
        if missing := _MISSING.search(reason):
            reason, path = "required, and missing", f"{path}.{missing[1]}" if path else missing[1]
        return self.refused(reason.lower(), row=draft.row, field=path or None)

    def _row(self, draft: Draft) -> dict[str, Any]:
        """Return the event of a row, which passes the gate; ValidationError or InvalidInput says why there is none."""
        type_, shape = _TYPES[draft.kind]
        time = draft.time or self._time
        if time is not None:
            _require_moment(time)
        said = _said(draft)
        simulated = any(finding.simulated for finding in draft.findings)
        data = {"run_id": self.run_id, **said, "provenance": self._provenance["simulated" if simulated else "imported"]}
        about = drop_nulls(draft.environment) if draft.environment else self._environment
        if about:
            data["environment"] = about
        if imported := _imported(draft):
            data["imported"] = imported
        check(msgspec.convert(data, shape))
        named = {**said, "metrics": _whole(said["metrics"])} if "metrics" in said else said
        event = self._event(
            type_, data, identity=row_id(self.format, self._version, type_, named, time, draft.key), time=draft.time
        )
        if draft.environment or _open(said):
            decode_event(encode_event(event))
        return event

    def _event(
        self, type_: str, data: dict[str, Any], *, identity: str | None = None, time: str | None = None
    ) -> dict[str, Any]:
        event: dict[str, Any] = {
            "specversion": "1.0",
            "id": identity or row_id(self.format, self._version, type_, data),
            "source": f"urn:assay:importer:{self.format}",
            "type": type_,
            "subject": self.run_id,
        }
        when = time or self._time
        if when:
            event["time"] = when
        event["datacontenttype"] = "application/json"
        event["data"] = data
        return event


def _said(draft: Draft) -> dict[str, Any]:
    """Return what the row says, without nulls: what its id is made of."""
    said: dict[str, Any] = {
        "model": _dense(draft.model),
        "workload": _dense(draft.workload),
        "execution": _dense(draft.execution),
        "hardware": _dense(draft.hardware),
    }
    if draft.observed and (observed := _dense(draft.observed)):
        said["observed"] = observed
    if draft.kind == "measurement":
        said["metrics"] = _dense(draft.metrics)
        if draft.findings:
            said["validity"] = _validity(draft.findings)
        return said
    said |= drop_nulls({"outcome": draft.outcome, "stage": draft.stage, "remedy": draft.remedy})
    if draft.error or draft.message:
        message = scrub(draft.message or draft.error or "", limit=4000)
        said["failure"] = {"error": draft.error or "error", "message": message}
    if draft.kind == "test":
        said |= drop_nulls({"test": draft.test, "checks": draft.checks})
    elif draft.metrics:
        said["metrics"] = _dense(draft.metrics)
    return said


def _dense(part: dict[str, Any]) -> dict[str, Any]:
    """Return an object as `drop_nulls` does; of a million rows this is a third of the time."""
    kept = {}
    for name, value in part.items():
        if value is None:
            continue
        if type(value) is dict:
            value = _dense(value)
            if not value:
                continue
        elif type(value) is list:
            value = drop_nulls(value)
        kept[name] = value
    return kept


def _whole(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics with 640.0 as 640: equal numbers, and those that canonical JSON writes most quickly."""
    return {
        name: _whole(value)
        if type(value) is dict
        else int(value)
        if type(value) is float and value.is_integer()
        else value
        for name, value in metrics.items()
    }


def _open(said: dict[str, Any]) -> bool:
    """Return whether a row has members that may hold anything, so that only the gate can tell what is wrong with them."""
    observed = said.get("observed")
    return "options" in said["execution"] or "checks" in said or (observed is not None and "details" in observed)


def _imported(draft: Draft) -> dict[str, Any]:
    imported: dict[str, Any] = {}
    if draft.row:
        imported["row"] = draft.row
    if draft.findings:
        imported["rules"] = [finding.rule for finding in draft.findings]
    if draft.original:
        original = {str(name)[:200]: _bounded(value) for name, value in draft.original.items() if value is not None}
        if original:
            imported["original"] = original
    return imported


def _bounded(value: Any) -> Any:
    """Return an original value as it stood, but for what no event can hold: that becomes text, and is cut."""
    if isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, int) and -(2**53) < value < 2**53:
        return value
    written = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=True)
    if not written.isascii():
        written = written.encode("utf-8", "replace").decode()
    return written if len(written) <= ORIGINAL_CHARACTERS else written[: ORIGINAL_CHARACTERS - 1] + "…"


@lru_cache(maxsize=4096)
def _require_moment(time: str) -> None:
    """Raise InvalidInput unless it is a moment that an event may have."""
    try:
        moment = msgspec.convert(time, _MOMENT)
    except msgspec.ValidationError:
        raise InvalidInput(f"{time[:60]!r} is no moment with an offset from UTC.", field="time") from None
    if moment.year not in _YEARS:
        raise InvalidInput(f"{time[:60]!r} is not between 1970 and 2261.", field="time")


def _validity(findings: list[Finding]) -> dict[str, Any]:
    """Return the verdict of the rules; nothing is said of a row that none caught, because nobody saw it measured."""
    worst = "invalid" if any(finding.verdict == "invalid" for finding in findings) else "suspect"
    return {"verdict": worst, "reasons": [f"{finding.rule}: {finding.reason}" for finding in findings]}
