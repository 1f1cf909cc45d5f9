"""A row on its way to becoming an event: what an importer read, and what the cleaning rules said of it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

__all__ = ["Draft", "Finding", "PreparedFact"]


class Finding(NamedTuple):
    """A cleaning rule that caught a row: what is wrong, how bad it is, and whether the row was never measured."""

    rule: str
    verdict: Literal["suspect", "invalid"]
    reason: str
    simulated: bool = False


class Draft(msgspec.Struct, kw_only=True):
    """One row of a file. Its members are those of the event's data; an importer leaves out what the file does not say.

    `kind` says which event: a measurement, a failure (a configuration that gave none) or a test. `row` is its line or
    record in the file, from 1. `original` keeps values whose unit or name was changed, by the file's own field names.
    `claims` is what a file says about itself and no event has room for, for the cleaning rules (`ingest.importers.rules`
    names them). `key` is what else makes this row another one than a row with the same figures.
    """

    model: dict[str, Any]
    workload: dict[str, Any]
    execution: dict[str, Any]
    hardware: dict[str, Any]
    metrics: dict[str, Any] = msgspec.field(default_factory=dict)
    kind: Literal["measurement", "failure", "test"] = "measurement"
    outcome: str | None = None
    stage: str = "run"
    test: str | None = None
    error: str | None = None
    message: str | None = None
    remedy: str | None = None
    checks: dict[str, Any] | None = None
    observed: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None
    time: str | None = None
    row: int | None = None
    original: dict[str, Any] = msgspec.field(default_factory=dict)
    claims: dict[str, Any] = msgspec.field(default_factory=dict)
    key: Any = None
    findings: list[Finding] = msgspec.field(default_factory=list)

    def latency_ms(self) -> float | None:
        """Return the median latency, or else the mean."""
        latency = self.metrics.get("latency_ms") or {}
        return latency.get("p50") or latency.get("mean")


class PreparedFact(msgspec.Struct, kw_only=True):
    """An event's data that its importer has judged itself, without the run and the provenance: a table of timings.

    `identity` is the JSON value that its id is made of, `timings` how many rows of the file it holds.
    """

    type: str
    data: dict[str, Any]
    identity: Any
    timings: int
