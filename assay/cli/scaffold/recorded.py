"""What the log, or a file of events, has of a model: the cases that a test file can expect something of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from domain.configuration import Workload
from domain.errors import AssayError, UsageError
from domain.events import MEASUREMENT_RECORDED, TEST_REPORTED
from domain.measured import Latency
from domain.payloads import MeasurementRecorded, TestReported
from domain.vocabulary import asked_name

if TYPE_CHECKING:
    from assay.client import Client
    from assay.testing import Case, Expected, Ran, Time

__all__ = ["Cell", "KnownFailure", "Recorded", "expected_of", "from_client", "from_events", "ids_in", "time_of"]

NARROWEST, WIDEST = 0.10, 0.22
"""The least and the most (0–1) that a median may be longer than the recorded one; below +30 % in any case."""
_NOTHING_OF_THE_MODEL = ("PlatformUnavailable", "PartMissing", "Interrupted")


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A test or a measurement of one configuration: enough to choose by, and `data` where its event is at hand."""

    event_id: str
    type: str
    platform: str
    precision: str
    workload: bytes
    hardware: str
    compiled: bool
    good: bool
    at: str
    data: dict[str, Any] | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What a case is called by."""
        return self.platform, self.precision, self.workload, self.compiled


class KnownFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that failed: platform and precision, why, and the event that says so."""

    platform: str
    precision: str
    reason: str
    event_id: str
    data: dict[str, Any] | None = None


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration that passed: its newest good test and its newest good measurement, of one hardware."""

    tested: Fact | None = None
    measured: Fact | None = None

    @property
    def fact(self) -> Fact:
        """Either of them: they are of the same configuration."""
        fact = self.tested or self.measured
        assert fact is not None
        return fact


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one model: cells that passed, those to keep first, and failures where they were asked for."""

    model: str
    cells: list[Cell]
    failures: list[KnownFailure] = []


def ids_in(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the ids of the models that the events test or measure, each once."""
    chosen = (event for event in events if event["type"] in (MEASUREMENT_RECORDED, TEST_REPORTED))
    return list(dict.fromkeys(event["data"]["model"]["id"] for event in chosen))


def from_events(
    model: str, events: Iterable[Mapping[str, Any]], own: str, *, platforms: Sequence[str] | None, failures: bool
) -> Recorded:
    """Return what events have of a model; `own` is the hardware that is preferred."""
    chosen = [event for event in events if event["data"].get("model", {}).get("id") == model]
    facts = [_fact_of_event(event) for event in chosen if event["type"] in (MEASUREMENT_RECORDED, TEST_REPORTED)]
    cells, failed = _cells(facts, own, platforms)
    known = [_failure_of(fact) for fact in failed] if failures else []
    return Recorded(model=model, cells=cells, failures=[each for each in known if each])


def from_client(client: Client, model: str, own: str, *, platforms: Sequence[str] | None, matrix: bool) -> Recorded:
    """Return what the log has of a model; with `matrix` the cells of the compatibility matrix that passed, and failures."""
    rows = [(MEASUREMENT_RECORDED, row) for row in client.measurements(model=model)]
    rows += [(TEST_REPORTED, row) for row in client.tests(model=model)]
    facts = [_fact_of_row(type_, row) for type_, row in rows if row.get("origin") == "measured"]
    cells, _ = _cells([fact for fact in facts if fact], own, platforms)
    if not matrix:
        return Recorded(model=model, cells=cells)
    states = client.compatibility(model=model)
    passed = {(row["platform"], row["precision"]) for row in states if row["verified"] or row["measured"]}
    kept = [cell for cell in cells if (_plain(cell.fact.platform), cell.fact.precision) in passed]
    failures = [_failure_of_cell(client, row) for row in states if row["ran"] is False or row["verified"] is False]
    wanted = [each for each in failures if each and (not platforms or each.platform in platforms)]
    return Recorded(model=model, cells=kept, failures=wanted)


def _plain(platform: str) -> str:
    """Return the platform as the matrix names it."""
    from domain.vocabulary import SECOND_RUNTIMES

    return SECOND_RUNTIMES.get(platform, platform)


def _cells(facts: Iterable[Fact], own: str, platforms: Sequence[str] | None) -> tuple[list[Cell], list[Fact]]:
    """Return a cell for each configuration that passed, best first, and the newest fact of each that did not."""
    groups: dict[tuple[Any, ...], list[Fact]] = {}
    for fact in facts:
        if not platforms or fact.platform in platforms:
            groups.setdefault(fact.key, []).append(fact)
    cells, failed = [], []
    for group in groups.values():
        tests = sorted((fact for fact in group if fact.type == TEST_REPORTED), key=lambda fact: fact.at)
        if tests and not tests[-1].good:
            failed.append(tests[-1])
            continue
        measured = max((fact for fact in group if fact.type == MEASUREMENT_RECORDED), key=_rank(own), default=None)
        good = [fact for fact in tests if fact.good]
        tested = max(good, key=_rank(measured.hardware if measured else own), default=None)
        cells.append(Cell(tested=tested, measured=measured))
    return _first_of_each_platform(sorted(cells, key=lambda cell: _simplest(cell, own))), failed


def _rank(own: str) -> Any:
    return lambda fact: (fact.hardware == own, fact.good, fact.at)


def _simplest(cell: Cell, own: str) -> tuple[Any, ...]:
    """Order cells: those with both facts, of this hardware, in fp32, with the smallest batch first."""
    fact = cell.fact
    work = msgspec.json.decode(fact.workload, type=Workload)
    whole = cell.tested is not None and cell.measured is not None
    return (not whole, fact.hardware != own, work.mode, fact.precision != "fp32", work.batch_size or 1, fact.key)


def _first_of_each_platform(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells so that each platform has had its first before any has its second."""
    counts: dict[str, int] = {}
    ranked = []
    for cell in cells:
        turn = counts[cell.fact.platform] = counts.get(cell.fact.platform, -1) + 1
        ranked.append((turn, cell))
    return [cell for _, cell in sorted(ranked, key=lambda pair: pair[0])]


def _fact_of_event(event: Mapping[str, Any]) -> Fact:
    type_ = event["type"]
    shape: Any = MeasurementRecorded if type_ == MEASUREMENT_RECORDED else TestReported
    data: MeasurementRecorded | TestReported = msgspec.convert(event["data"], shape)
    requested = data.observed.requested if data.observed else None
    runtime = data.execution.runtime.name if data.execution.runtime else ""
    platform = (requested and requested.platform) or data.execution.platform
    return Fact(
        event_id=event["id"],
        type=type_,
        platform=asked_name(platform, runtime),
        precision=(requested and requested.precision) or data.execution.precision or "fp32",
        workload=_work(data.workload),
        hardware=data.hardware.id,
        compiled=bool(data.execution.compiled),
        good=_good(data),
        at=str(event.get("time") or ""),
        data=event["data"],
    )


def _good(data: MeasurementRecorded | TestReported) -> bool:
    if isinstance(data, TestReported):
        return data.outcome == "passed"
    return data.validity is not None and data.validity.verdict == "valid"


def _fact_of_row(type_: str, row: Mapping[str, Any]) -> Fact | None:
    """Return the fact of a row of the tables; None of one that no case can repeat: served, or under arrivals."""
    if row.get("scenario") not in (None, "single_stream") or row.get("concurrency") is not None:
        return None
    document = row["workload"]
    work = (
        msgspec.json.decode(document, type=Workload)
        if isinstance(document, str)
        else msgspec.convert(document, Workload)
    )
    at = row.get("time") or row.get("recorded_at")
    measured = type_ == MEASUREMENT_RECORDED
    return Fact(
        event_id=row["event_id"],
        type=type_,
        platform=asked_name(row.get("platform_asked") or row["platform"], row.get("runtime_name") or ""),
        precision=row.get("precision_asked") or row["precision"] or "fp32",
        workload=_work(work),
        hardware=row["hardware_id"],
        compiled=bool(row.get("compiled")),
        good=row.get("verdict") == "valid" if measured else row["outcome"] == "passed",
        at=at.isoformat() if isinstance(at, datetime) else str(at or ""),
    )


def _work(workload: Workload) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(workload, scenario=None))


def _failure_of(fact: Fact) -> KnownFailure | None:
    assert fact.data is not None
    failure = fact.data.get("failure") or {}
    if failure.get("error") in _NOTHING_OF_THE_MODEL:
        return None
    reason = f"{failure.get('error')}: {failure.get('message')}"
    return KnownFailure(
        platform=fact.platform, precision=fact.precision, reason=reason, event_id=fact.event_id, data=fact.data
    )


def _failure_of_cell(client: Client, row: Mapping[str, Any]) -> KnownFailure | None:
    """Return a failing cell of the matrix with its newest event; None where it says nothing of the model."""
    if row.get("error") in (None, *_NOTHING_OF_THE_MODEL) or not row.get("evidence"):
        return None
    reason = f"{row['error']}: {row.get('message') or row.get('why_not')}"
    data = client.event(str(row["evidence"]))["data"]
    runtime = (data["execution"].get("runtime") or {}).get("name") or ""
    platform = asked_name(str(row["platform"]), runtime)
    return KnownFailure(
        platform=platform, precision=row["precision"], reason=reason, event_id=str(row["evidence"]), data=data
    )


def expected_of(cell: Cell, name: str, fetch: Any, *, own: str, threads: int, trust: bool) -> Expected:
    """Return what a test file expects of a cell; `name` is what the file calls the model, `fetch` gives an event by its id."""
    from assay.testing import Expected, Output
    from assay.testing.checks import ran

    tested, measured = (_whole(fact, fetch) for fact in (cell.tested, cell.measured))
    of = tested or measured
    case = case_of(of, name, own=own, threads=threads, trust=trust)
    what: Ran | None = None
    gave: dict[str, Output | list[Any]] = {}
    if tested is not None:
        test = msgspec.convert(tested, TestReported)
        what = ran(test, case)
        gave = _outputs((test.checks or {}).get("values", {}))
    took: Time | None = None
    if measured is not None:
        row = msgspec.convert(measured, MeasurementRecorded)
        took = time_of(row.metrics.latency_ms, row.hardware.id)
    return Expected(
        case,
        ran=what,
        gave=gave,
        took=took,
        tested=cell.tested.event_id if cell.tested else None,
        measured=cell.measured.event_id if cell.measured and took else None,
    )


def _whole(fact: Fact | None, fetch: Any) -> dict[str, Any] | None:
    if fact is None:
        return None
    data: dict[str, Any] = fact.data if fact.data is not None else fetch(fact.event_id)["data"]
    return data


def case_of(data: Mapping[str, Any] | None, name: str, *, own: str, threads: int, trust: bool) -> Case:
    """Return the case that an event was of, under the name of the test file."""
    from assay.testing import Case

    assert data is not None
    work, execution = data["workload"], data["execution"]
    requested = (data.get("observed") or {}).get("requested") or {}
    runtime = (execution.get("runtime") or {}).get("name") or ""
    sizes = {member: work[member] for member in Case.__struct_fields__ if work.get(member) is not None}
    used = execution.get("threads")
    # Threads are named where they were chosen: on the hardware at hand others would be taken by default.
    named = used if data["hardware"]["id"] == own and used not in (None, threads) else None
    kind = data["model"].get("weights")
    return Case(
        name,
        asked_name(requested.get("platform") or execution["platform"], runtime),
        requested.get("precision") or execution["precision"],
        weights=kind if kind in ("random", "pretrained") else "auto",
        compiled=bool(execution.get("compiled")),
        threads=named,
        options=tuple(requested.get("options") or ()),
        trust_remote_code=trust,
        **sizes,
    )


def _outputs(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file keeps of recorded outputs: of many the first and the last, the tokens, or the losses."""
    from assay.testing import Output
    from assay.testing.checks import VALUES, thinned

    kept: dict[str, Any] = {}
    names = list(values)
    for name in dict.fromkeys([*names[:1], *names[-1:]]):
        value = values[name]
        if name == "tokens":
            kept[name] = [item[:8] for item in value[:1]]
        elif name == "losses":
            kept[name] = [_short(loss) for loss in value[:VALUES]]
        else:
            kept[name] = Output(_short(value["norm"]), [_short(each, 4) for each in thinned(value["sample"])])
    return kept


def _short(value: Any, digits: int = 5) -> Any:
    """Return a figure with as many digits as a tolerance can tell apart."""
    return None if value is None else float(f"{value:.{digits}g}")


def time_of(latency: Latency | None, hardware: str) -> Time | None:
    """Return what a median may come to: 10 % more than its interval, 22 % more than itself at most.

    None where the interval alone is as wide as that: a median that was measured under noise bounds nothing.
    """
    from assay.testing import Time

    if latency is None or latency.p50 is None:
        return None
    _, high = (latency.ci95 or {}).get("p50") or (latency.p50, latency.p50)
    if high > latency.p50 * (1 + WIDEST):
        return None
    margin = min(max(high / latency.p50 - 1 + NARROWEST, NARROWEST), WIDEST)
    return Time(
        _short(latency.p50, 4),
        most_ms=_short(latency.p50 * (1 + margin), 4),
        on=hardware,
    )


def read_events(path: Path) -> list[dict[str, Any]]:
    """Return the events of a file that `assay bench --out` or `assay verify --out` wrote; UsageError where it holds none."""
    from runner.spool.event_file import read_lines

    try:
        events = [msgspec.json.decode(line) for line in read_lines(path, whole_only=True)]
    except (OSError, msgspec.DecodeError, AssayError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}.", field="events", remedy="Name a file of `assay bench --out`."
        ) from error
    if not all(isinstance(event, dict) and {"id", "type", "data"} <= event.keys() for event in events):
        raise UsageError(f"{path} holds no events.", field="events", remedy="Name a file of `assay bench --out`.")
    return events
