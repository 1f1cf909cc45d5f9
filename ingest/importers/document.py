"""A file that is imported as a run: it makes the events of its rows, each with an id that says what the row says.

The id of a row is made of the format, of what the row says once units and names are settled, and of its time: not of the
file. So the same row in a copy, in a longer export, or imported again is the same event, and the log keeps the first.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from domain.canonical import digest, drop_nulls
from domain.checks import check
from domain.errors import InvalidInput
from domain.events import MEASUREMENT_FAILED, MEASUREMENT_RECORDED, RUN_FINISHED, RUN_STARTED, TEST_REPORTED
from domain.payloads import MeasurementFailed, MeasurementRecorded, TestReported
from domain.scrub import scrub
from ingest.importers.draft import Draft, Finding
from ingest.importers.files import File
from ingest.importers.identity import row_id
from ingest.importers.refusals import Refused
from ingest.importers.rules import judge, judge_together

__all__ = ["Document", "environment"]

TOGETHER = 20_000
"""So many rows of a file are looked at together by the rules that compare rows; more are taken in such portions."""
_TYPES: dict[str, tuple[str, type[msgspec.Struct]]] = {
    "measurement": (MEASUREMENT_RECORDED, MeasurementRecorded),
    "failure": (MEASUREMENT_FAILED, MeasurementFailed),
    "test": (TEST_REPORTED, TestReported),
}
_COUNTED = {"measurement": "measured", "failure": "failed", "test": "tests"}


def environment(libraries: dict[str, str] | None = None, **said: Any) -> dict[str, Any] | None:
    """Return an environment with its fingerprint, or None where nothing is said of it."""
    told = drop_nulls({**said, "libraries": libraries or None})
    return {"fingerprint": digest(told).removeprefix("sha256:")[:16], **told} if told else None


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
        self._licence = licence
        self._time = time
        self._source = source or f"{format} file"
        self._reference = reference or scrub(file.name)
        self._hardware = list(hardware)
        self._environment = environment
        self._counts: Counter[str] = Counter()
        with file.path.open("rb") as opened:
            self.run_id = f"{format}:{hashlib.file_digest(opened, 'sha256').hexdigest()[:24]}"

    def events(self, rows: Iterable[Draft | Refused]) -> Iterator[dict[str, Any] | Refused]:
        """Yield the run, its rows as the rules judge them, refusals as they come, and the end of the run."""
        yield self._event(RUN_STARTED, drop_nulls({
            "run_id": self.run_id, "kind": "import", "hardware": self._hardware, "environment": self._environment,
            "provenance": self._provenance("imported"),
        }))  # fmt: skip
        portion: list[Draft] = []
        for row in rows:
            if isinstance(row, Refused):
                self._counts["refused"] += 1
                yield row if row.format else msgspec.structs.replace(row, format=self.format)
                continue
            judge(row)
            portion.append(row)
            if len(portion) >= TOGETHER:
                yield from self._portion(portion)
                portion = []
        yield from self._portion(portion)
        counted = {name: self._counts[kind] for kind, name in _COUNTED.items()}
        counted["failed"] += self._counts["refused"]
        yield self._event(RUN_FINISHED, {"run_id": self.run_id, "outcome": "completed", **counted})

    def refused(
        self, reason: str, *, row: int | None = None, field: str | None = None, content: str | None = None
    ) -> Refused:
        """Return a refusal of a row, or of the file."""
        return Refused(path=self.file.name, reason=reason, row=row, field=field, format=self.format, content=content)

    def _portion(self, drafts: list[Draft]) -> Iterator[dict[str, Any] | Refused]:
        judge_together(drafts)
        for draft in drafts:
            type_, shape = _TYPES[draft.kind]
            data = self._data(draft)
            try:
                check(msgspec.convert(data, shape))
            except msgspec.ValidationError as error:
                self._counts["refused"] += 1
                reason, _, path = str(error).partition(" - at `$.")
                yield self.refused(reason.lower(), row=draft.row, field=path.rstrip("`") or None)
            except InvalidInput as error:
                self._counts["refused"] += 1
                yield self.refused(error.detail, row=draft.row, field=error.field)
            else:
                self._counts[draft.kind] += 1
                said = {
                    name: value for name, value in data.items() if name not in ("run_id", "imported", "environment")
                }
                said.pop("provenance")
                identity = row_id(self.format, self._version, type_, said, draft.time or self._time, draft.key)
                yield self._event(type_, data, identity=identity, time=draft.time)

    def _data(self, draft: Draft) -> dict[str, Any]:
        simulated = any(finding.simulated for finding in draft.findings)
        data: dict[str, Any] = {
            "run_id": self.run_id,
            "model": draft.model,
            "workload": draft.workload,
            "execution": draft.execution,
            "hardware": draft.hardware,
            "environment": draft.environment or self._environment,
            "observed": draft.observed,
            "provenance": self._provenance("simulated" if simulated else "imported"),
            "imported": {
                "row": draft.row,
                "rules": [finding.rule for finding in draft.findings] or None,
                "original": draft.original or None,
            },
        }
        if draft.kind == "measurement":
            data |= {"metrics": draft.metrics, "validity": _validity(draft.findings)}
        else:
            data |= {"outcome": draft.outcome, "stage": draft.stage, "remedy": draft.remedy}
            if draft.error or draft.message:
                message = scrub(draft.message or draft.error or "", limit=4000)
                data["failure"] = {"error": draft.error or "error", "message": message}
            if draft.kind == "test":
                data |= {"test": draft.test, "checks": draft.checks}
            elif draft.metrics:
                data["metrics"] = draft.metrics
        found = drop_nulls(data)
        for needed in ("workload", "execution", "metrics"):
            if needed in data:
                found.setdefault(needed, {})
        assert isinstance(found, dict)
        return found

    def _provenance(self, origin: str) -> dict[str, Any]:
        told = {"origin": origin, "source": self._source, "reference": self._reference, "licence": self._licence}
        return {name: value for name, value in told.items() if value is not None}

    def _event(
        self, type_: str, data: dict[str, Any], *, identity: str | None = None, time: str | None = None
    ) -> dict[str, Any]:
        event: dict[str, Any] = {
            "specversion": "1.0",
            "id": identity or row_id(self.format, self._version, type_, data),
            "source": f"urn:assay:importer:{self.format}",
            "type": type_,
            "subject": self.run_id,
            "datacontenttype": "application/json",
            "data": data,
        }
        when = time or self._time
        return event | {"time": when} if when else event


def _validity(findings: list[Finding]) -> dict[str, Any] | None:
    """Return the verdict of the rules; nothing is said of a row that none caught, because nobody saw it measured."""
    if not findings:
        return None
    worst = "invalid" if any(finding.verdict == "invalid" for finding in findings) else "suspect"
    return {"verdict": worst, "reasons": [f"{finding.rule}: {finding.reason}" for finding in findings]}
