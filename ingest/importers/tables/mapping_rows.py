"""Rows of a table, made drafts as a mapping says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from domain.vocabulary import OUTCOMES, STAGES
from ingest.importers.document import environment
from ingest.importers.draft import Draft
from ingest.importers.identity import hardware_of, model_of, precision_of, runtime_of
from ingest.importers.reading import BadFile, number, text, whole
from ingest.importers.refusals import BadRow
from ingest.importers.tables.csv_drafts import hardware_named, in_bytes, model_named
from ingest.importers.tables.mapping import Source, TableMapping, Target, target_of

__all__ = ["RowMaker"]

_TRUTHS = {
    "true": True,
    "yes": True,
    "y": True,
    "1": True,
    "1.0": True,
    "on": True,
    "false": False,
    "no": False,
    "n": False,
    "0": False,
    "0.0": False,
    "off": False,
}
_SECTIONS = ("model", "workload", "execution", "runtime", "hardware", "metrics", "environment", "observed", "row")

Sections = dict[str, dict[str, Any]]


class _Step(NamedTuple):
    """One source with the place where its value goes."""

    source: Source
    target: Target


class RowMaker:
    """Makes drafts of rows. `mapping` is what it follows."""

    def __init__(self, mapping: TableMapping) -> None:
        self.mapping = mapping
        steps = [
            _Step(source, target) for source in mapping.sources if (target := target_of(source.target)) is not None
        ]
        self._steps = [step for step in steps if step.source.column is not None]
        self._constant: Sections = {section: {} for section in _SECTIONS}
        for step in steps:
            if step.source.column is None:
                self._put_constant(step)

    def _put_constant(self, step: _Step) -> None:
        source = step.source
        try:
            _put(self._constant, step.target, _value({source.target: source.value}, source.target, step))
        except BadRow as bad:
            where = f"{self.mapping.name}, line {source.line}"
            raise BadFile(f"its mapping is wrong: {where}: {bad.field} {bad.reason}") from bad

    def draft(self, line: int, row: Mapping[str, Any]) -> Draft:
        """Return the draft of a row; BadRow, naming its column, where a value cannot be what the mapping says."""
        parts: Sections = {name: _copied(section) if section else {} for name, section in self._constant.items()}
        original: dict[str, Any] = {}
        for step in self._steps:
            column = step.source.column or ""
            value = _value(row, column, step)
            if value is None:
                continue
            _put(parts, step.target, value)
            if step.source.factor != 1.0 and step.target.kind != "moment":
                original[f"{column} ({step.source.unit})"] = row[column]
            elif step.source.rename and str(row[column]).strip() in step.source.rename:
                original[column] = row[column]
        return _draft(line, parts, original)


def _copied(section: dict[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if type(value) is dict else value for name, value in section.items()}


def _put(parts: Sections, target: Target, value: Any) -> None:
    place, path = parts[target.section], target.path
    if len(path) > 1:
        place = place.setdefault(path[0], {})
    place[path[-1]] = value


def _value(row: Mapping[str, Any], column: str, step: _Step) -> Any:
    """Return a field as what it should be, None where it is missing."""
    source = step.source
    if source.missing or source.rename:
        said = str(row.get(column)).strip()
        if said in source.missing:
            return None
        if said in source.rename:
            row = {column: source.rename[said]}
    reader: Callable[[Mapping[str, Any], str, Source], Any] = _READERS.get(step.target.kind, _text)
    return reader(row, column, source)


def _text(row: Mapping[str, Any], column: str, source: Source) -> str | None:  # noqa: ARG001 - as all readers
    return text(row, column)


def _word_of(row: Mapping[str, Any], column: str, source: Source) -> str | None:
    said = _text(row, column, source)
    return None if said is None else said.lower()


def _number(row: Mapping[str, Any], column: str, source: Source) -> float | None:
    value = number(row, column)
    return None if value is None else value * source.factor


def _share(row: Mapping[str, Any], column: str, source: Source) -> float | None:
    value = number(row, column, zero=True)
    return None if value is None else value * source.factor


def _whole(row: Mapping[str, Any], column: str, source: Source) -> int | None:
    return whole(row, column) if source.unit is None else _bytes(row, column, source)


def _bytes(row: Mapping[str, Any], column: str, source: Source) -> int | None:
    return in_bytes(row, column, source.factor)


def _precision(row: Mapping[str, Any], column: str, source: Source) -> str | None:
    return precision_of(_text(row, column, source))


def _any(row: Mapping[str, Any], column: str, source: Source) -> Any:
    value = row.get(column)
    return value if isinstance(value, bool | int | float) else _text(row, column, source)


def _truth(row: Mapping[str, Any], column: str, source: Source) -> bool | None:
    value = row.get(column)
    if isinstance(value, bool):
        return value
    said = _text(row, column, source)
    if said is None:
        return None
    truth = _TRUTHS.get(said.lower())
    if truth is None:
        raise BadRow(column, f"{said[:40]!r} is neither true nor false")
    return truth


def _moment(row: Mapping[str, Any], column: str, source: Source) -> str | None:
    value = row.get(column)
    try:
        if source.unit is not None:
            since = number(row, column)
            return None if since is None else datetime.fromtimestamp(since * source.factor, UTC).isoformat()
        if isinstance(value, datetime):
            moment = value
        elif isinstance(value, date):
            moment = datetime(value.year, value.month, value.day)  # noqa: DTZ001 - its zone is the mapping's
        else:
            said = text(row, column)
            if said is None:
                return None
            moment = datetime.fromisoformat(said)
    except (ValueError, OverflowError, OSError):
        raise BadRow(column, "is no moment in ISO 8601") from None
    if moment.tzinfo is None:
        if source.zone is None:
            raise BadRow(column, "has no offset from UTC: say `zone` in the mapping")
        moment = moment.replace(tzinfo=source.zone)
    return moment.isoformat()


_READERS: dict[str, Callable[[Mapping[str, Any], str, Source], Any]] = {
    "word": _word_of,
    "number": _number,
    "share": _share,
    "bytes": _bytes,
    "whole": _whole,
    "truth": _truth,
    "moment": _moment,
    "precision": _precision,
    "any": _any,
}
"""How a field is read by the kind of its target; as text where it has none of these."""


def _draft(line: int, parts: Sections, original: dict[str, Any]) -> Draft:
    row = parts["row"]
    execution = parts["execution"] | {
        "runtime": runtime_of(parts["runtime"].get("name"), parts["runtime"].get("version"))
    }
    draft = Draft(
        row=line,
        model=_model(parts["model"]),
        workload=parts["workload"],
        execution=execution,
        hardware=_hardware(parts["hardware"]),
        metrics=parts["metrics"],
        environment=_environment(parts["environment"]) if parts["environment"] else None,
        observed=parts["observed"] or None,
        time=row.get("time"),
        original=original,
        claims={"flags": {"simulated": True}} if row.get("simulated") else {},
    )
    for name, section in (("mode", draft.workload), ("platform", execution)):
        if name not in section:
            raise BadRow(name, "is missing")
    _add_outcome(draft, row)
    if draft.kind == "measurement" and not _has_figures(draft.metrics):
        raise BadRow("columns", "none of the figures that the mapping names is there")
    return draft


def _add_outcome(draft: Draft, row: dict[str, Any]) -> None:
    """Make a draft a failure or a test where the row says so."""
    outcome = str(row.get("outcome") or "passed").lower()
    if outcome not in OUTCOMES:
        raise BadRow("outcome", f"{outcome[:40]!r} is none of {', '.join(OUTCOMES)}: `rename` it in the mapping")
    if outcome == "passed" and "test" not in row:
        return
    draft.kind = "test" if "test" in row else "failure"
    draft.outcome, draft.remedy = outcome, row.get("remedy")
    draft.test = _word(row["test"]) if "test" in row else None
    draft.stage = str(row.get("stage") or ("verify" if "test" in row else "run")).lower()
    if draft.stage not in STAGES:
        raise BadRow("stage", f"{draft.stage[:40]!r} is none of {', '.join(STAGES)}: `rename` it in the mapping")
    if outcome not in ("passed", "skipped") or row.get("error") or row.get("message"):
        draft.error = _word(row.get("error") or outcome)
        draft.message = row.get("message") or row.get("error") or f"the table says {outcome}"


def _has_figures(metrics: dict[str, Any]) -> bool:
    latency = metrics.get("latency_ms")
    return len(metrics) > (latency is not None) or bool(latency and latency.keys() - {"n"})


def _environment(said: dict[str, Any]) -> dict[str, Any] | None:
    libraries = said.pop("libraries", None) or {}
    return environment({name: str(version) for name, version in libraries.items()}, **said)


def _model(said: dict[str, Any]) -> dict[str, Any]:
    if "id" not in said:
        raise BadRow("model", "is missing")
    return (
        model_named(said["id"])
        if len(said) == 1
        else model_of(said["id"], **{k: v for k, v in said.items() if k != "id"})
    )


def _hardware(said: dict[str, Any]) -> dict[str, Any]:
    if "id" not in said:
        raise BadRow("hardware", "is missing")
    kind, count = said.get("kind"), said.get("count") or 1
    if said.get("cores") is not None:
        return hardware_of(said["id"], kind=kind or "cpu", count=count, cores=said["cores"])
    return hardware_named(said["id"], kind, count)


def _word(said: str) -> str:
    """Return a name as a term: letters, digits, and marks between them."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", said).strip("._+-")[:64] or "unknown"
