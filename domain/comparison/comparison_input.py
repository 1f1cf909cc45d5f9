"""Rows and events put together into one side of a comparison: the newest of each configuration, and the runs before it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from domain.comparison.comparison_sides import RUNS_KEPT, NewestMeasurement, NewestOutcome, Side
from domain.configuration import Configuration, canonical_part, configuration_key
from domain.errors import InvalidInput, UsageError
from domain.events import MEASUREMENT_FAILED, MEASUREMENT_RECORDED, TEST_REPORTED
from domain.figures import FIGURES, described, figure_of, row_of
from domain.payloads import MeasurementFailed, MeasurementRecorded, TestReported
from domain.vocabulary import NO_EVIDENCE

__all__ = ["COLUMNS", "OUTCOME_COLUMNS", "ComparisonInput", "alike_of", "contents_of", "is_wanted", "row_of_event"]

Row = Mapping[str, Any]
_SUBJECT = (
    "position",
    "event_id",
    "run_id",
    "configuration",
    "model_id",
    "hardware_id",
    "hardware_count",
    "mode",
    "batch_size",
    "sequence_length",
    "image_size",
    "images",
    "audio_seconds",
    "frames",
    "input_tokens",
    "output_tokens",
    "steps",
    "concurrency",
    "arrival_rate_per_s",
    "platform",
    "precision",
    "runtime_name",
    "runtime_version",
    "compiled",
    "threads",
    "workload",
    "execution",
    "environment_fingerprint",
    "origin",
)
COLUMNS = (
    *_SUBJECT,
    "verdict",
    "verdict_reasons",
    "metric_verdicts",
    "latency_n",
    "latency_stddev_ms",
    *FIGURES,
    *(name for figure in FIGURES.values() for name in figure.interval or ()),
)
"""What is read of the view `measurements`."""
OUTCOME_COLUMNS = (*_SUBJECT, "outcome", "stage", "message")
"""What is read of the views `tests` (with `test`) and `failures`."""
_ENVIRONMENT = ("driver", "os", "kernel", "python", "cpu", "machine", "hypervisor", "memory_bytes", "libraries")
_DATA: dict[str, type[msgspec.Struct]] = {
    MEASUREMENT_RECORDED: MeasurementRecorded,
    MEASUREMENT_FAILED: MeasurementFailed,
    TEST_REPORTED: TestReported,
}


class ComparisonInput:
    """Takes rows in the order of their recording and gives a side; what is simulated, invalid or not asked for is left out.

    `wanted`: by `model`, `hardware`, `platform`, `precision` the values that are taken; a model also by the last part of
    its id.
    """

    def __init__(self, name: str, position: int | None = None, wanted: Mapping[str, Any] | None = None) -> None:
        self._name = name
        self._position = position
        self._wanted = {key: set(_many(value)) for key, value in (wanted or {}).items() if value}
        self._rows: dict[str, Row] = {}
        self._runs: dict[str, dict[str, list[float]]] = {}
        self._alike: dict[str, str] = {}
        self._cases: dict[tuple[str, str | None], NewestOutcome] = {}
        self._environments: dict[str, dict[str, Any]] = {}

    def measured(self, row: Row) -> None:
        """Take a row of the view `measurements`."""
        if row.get("origin") in NO_EVIDENCE or row.get("verdict") == "invalid" or not is_wanted(row, self._wanted):
            return
        key = row["configuration"]
        before = self._rows.pop(key, None)
        if before is not None and (before["origin"], row["origin"]) == ("measured", "imported"):
            self._rows[key] = before
            return
        same = before is not None and all(
            before.get(name) == row.get(name) for name in ("environment_fingerprint", "origin")
        )
        runs = self._runs.setdefault(key, {}) if same else {}
        for column in FIGURES:
            if row.get(column) is not None:
                runs[column] = [*runs.get(column, [])[1 - RUNS_KEPT :], float(row[column])]
        self._rows[key], self._runs[key] = row, runs
        self._keep(row, None, "passed")

    def outcome(self, row: Row, test: str | None) -> None:
        """Take a row of the view `tests`, or where `test` is None of `failures`."""
        if row.get("origin") not in NO_EVIDENCE and is_wanted(row, self._wanted):
            self._keep(row, test, str(row["outcome"]))

    def environment(self, fingerprint: str | None, contents: Row) -> None:
        """Take the contents of an environment; the first that are said of a fingerprint hold."""
        if fingerprint and fingerprint not in self._environments:
            self._environments[fingerprint] = contents_of(contents)

    def side(self) -> Side:
        """Return what was gathered."""
        used = {row.get("environment_fingerprint") for row in self._rows.values()}
        used |= {case.environment for case in self._cases.values()}
        return Side(
            name=self._name,
            position=self._position,
            measured=[self._measured(key, row) for key, row in self._rows.items()],
            cases=list(self._cases.values()),
            environments={name: each for name, each in self._environments.items() if name in used},
        )

    def _measured(self, key: str, row: Row) -> NewestMeasurement:
        figures = {}
        for column in FIGURES:
            figure = figure_of(row, column)
            if figure is not None:
                runs = self._runs[key].get(column, [])
                figures[column] = msgspec.structs.replace(figure, runs=runs if len(runs) > 1 else [])
        runtime = " ".join(filter(None, (row.get("runtime_name"), row.get("runtime_version"))))
        return NewestMeasurement(
            key=key,
            alike=self._alike[key],
            title=described(row),
            hardware=row["hardware_id"],
            origin=row["origin"],
            event_id=str(row["event_id"]),
            figures=figures,
            runtime=runtime or None,
            environment=row.get("environment_fingerprint"),
            model=row.get("model_id"),
            platform=row.get("platform"),
            precision=row.get("precision"),
        )

    def _keep(self, row: Row, test: str | None, outcome: str) -> None:
        key = row["configuration"]
        alike = self._alike.get(key) or self._alike.setdefault(key, alike_of(row))
        self._cases.pop((alike, test), None)
        self._cases[alike, test] = NewestOutcome(
            key=key,
            alike=alike,
            title=described(row),
            hardware=row["hardware_id"],
            outcome=outcome,
            event_id=str(row["event_id"]),
            test=test,
            stage=None if outcome == "passed" else row.get("stage"),
            message=None if outcome == "passed" else row.get("message"),
            environment=row.get("environment_fingerprint"),
            model=row.get("model_id"),
            platform=row.get("platform"),
            precision=row.get("precision"),
        )


def is_wanted(row: Row, wanted: Mapping[str, Any]) -> bool:
    """Whether a row has one of the values wanted of `model`, `hardware`, `platform` and `precision`."""
    for name, values in wanted.items():
        value = row.get(name if name in ("platform", "precision") else f"{name}_id")
        short = str(value).rpartition("/")[2] if name == "model" else value
        if not {value, short} & values:
            return False
    return True


def contents_of(environment: Row) -> dict[str, Any]:
    """Return what is said in a row of the view `environments`, or in an event's environment."""
    jsons = {name: _json(environment.get(name)) for name in _ENVIRONMENT}
    return {name: value for name, value in jsons.items() if value is not None}


def _many(value: Any) -> Iterable[Any]:
    return [value] if isinstance(value, str) else value


def _json(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, str) and value[:1] in ("{", "[") else value


def alike_of(row: Row) -> str:
    """Return the name of a row's configuration without the version of the runtime, and of the browser that it ran in."""
    parts = _said(row["workload"]), _unversioned(row["execution"])
    return configuration_key(*parts, str(row["model_id"]), str(row["hardware_id"]), int(row["hardware_count"] or 1))[1]


def _said(workload: Any) -> str:
    return _said_in(workload) if isinstance(workload, str) else canonical_part(workload)


def _unversioned(execution: Any) -> str:
    if isinstance(execution, str):
        return _unversioned_in(execution)
    runtime = execution.get("runtime")
    document = {"runtime": {name: value for name, value in runtime.items() if name != "version"}} if runtime else {}
    options = execution.get("options")
    if options and "browser_version" in options:
        document["options"] = {name: value for name, value in options.items() if name != "browser_version"}
    return canonical_part({**execution, **document})


# The same few parts are in thousands of configurations, and canonical JSON is slow to write.
@functools.lru_cache(maxsize=4096)
def _said_in(text: str) -> str:
    return canonical_part(_json(text))


@functools.lru_cache(maxsize=4096)
def _unversioned_in(text: str) -> str:
    return _unversioned(_json(text))


def row_of_event(event: Mapping[str, Any], field: str = "baseline") -> dict[str, Any] | None:
    """Return a fact as a row of its view, under the ids that it was posted with; None for an event of another type.

    `environment` holds the contents of its environment. Raises UsageError for data that are not of their type.
    """
    shape = _DATA.get(str(event.get("type")))
    if shape is None:
        return None
    try:
        data: Any = msgspec.convert(event.get("data"), shape)
        observed = data.observed
        execution = msgspec.structs.replace(
            data.execution,
            platform=(observed and observed.platform) or data.execution.platform,
            precision=(observed and observed.precision) or data.execution.precision,
        )
        whole = Configuration(model=data.model, workload=data.workload, execution=execution, hardware=data.hardware)
        key = whole.key
    except (msgspec.ValidationError, InvalidInput) as error:
        raise UsageError(
            f"the event {event.get('id')} is not one of its type: {error}.",
            field=field,
            remedy="`assay post --check FILE` names the line.",
        ) from error
    runtime = execution.runtime
    row: dict[str, Any] = {
        "event_id": event.get("id"),
        "run_id": data.run_id,
        "configuration": key,
        "model_id": data.model.id,
        "hardware_id": data.hardware.id,
        "hardware_count": data.hardware.count,
        **{name: getattr(data.workload, name) for name in data.workload.__struct_fields__},
        **{name: getattr(execution, name) for name in ("platform", "precision", "compiled", "threads")},
        "runtime_name": runtime and runtime.name,
        "runtime_version": runtime and runtime.version,
        "workload": msgspec.to_builtins(data.workload),
        "execution": msgspec.to_builtins(execution),
        "environment_fingerprint": data.environment and data.environment.fingerprint,
        "environment": msgspec.to_builtins(data.environment) if data.environment else {},
        "origin": data.provenance.origin,
    }
    if isinstance(data, MeasurementRecorded):
        return row | row_of(data)
    row |= {"outcome": data.outcome, "stage": data.stage, "message": data.failure.message if data.failure else None}
    return row | ({"test": data.test} if isinstance(data, TestReported) else {})
