"""The checks of a test file: what ran, what it gave and how fast, each compared with what the log has of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from unittest import SkipTest

import msgspec

from assay.testing.cases import Case, Expected, Output, Ran, Time, measure, require_platform, verify, weights_name
from assay.testing.findings import Finding, keep, with_cause
from domain.conditions import Conditions
from domain.errors import AssayError
from domain.payloads import Failure, MeasurementRecorded, TestReported

__all__ = ["check_device", "check_outputs", "check_runs", "check_time", "ran", "thinned", "verdict_on"]

VALUES = 3
"""Values of an output that a test file keeps."""
_SHARE = 0.05
"""How much more of the work than recorded (0–1) may be done elsewhere."""
_TRIES = 3
_OF_PLATFORM = ("Fallback",)
_OF_OUTPUTS = ("Mismatch", "NotFinite", "ShapeMismatch", "MissingOutput")
_QUIET = 0.05
"""Below this share of other work and lost speed a machine is quiet."""
_BUSY = 0.1
"""From which share of the processors on, other work is named as a condition."""
Verdict = Literal["as expected", "faster", "slower", "cannot tell"]


def check_device(expected: Expected) -> None:
    """Check that the device, the precision and the share of work that did not run there are those of the log."""
    __tracebackhide__ = True
    test = _verified(expected, "device")
    if expected.ran is None:
        raise SkipTest("the log does not say what ran; `assay verify` does.")
    now = ran(test, expected.case)
    then = expected.ran
    precision = then.precision or expected.case.precision
    same = (
        test.execution.platform == _platform_of(expected.case)
        and now.device.partition(":")[0] == then.device.partition(":")[0]
        and (now.precision or expected.case.precision) == precision
        and now.fallback_share <= then.fallback_share + _SHARE
    )
    _settle(
        expected,
        "device",
        passed=same,
        wanted=_work(then, expected.case, _platform_of(expected.case)),
        collected=_work(now, expected.case, test.execution.platform),
        changed=_changes(then, now),
        evidence=expected.tested or expected.measured,
    )


def check_outputs(expected: Expected) -> None:
    """Check that the outputs agree with fp32 on the processor, and with those of the log within their tolerance."""
    __tracebackhide__ = True
    test = _verified(expected, "outputs")
    now = ran(test, expected.case)
    failure = test.failure
    if failure is None and not expected.gave:
        keep(_finding(expected, "outputs", "skipped", collected="no outputs in the log"))
        raise SkipTest("the log has no outputs of this case; `assay verify` records them.")
    different = [failure.message] if failure and failure.error in _OF_OUTPUTS else differences(expected, test)
    _settle(
        expected,
        "outputs",
        passed=not different,
        wanted="the outputs of the log",
        collected="; ".join(different) or "the same",
        changed=_changes(expected.ran, now) if expected.ran else [],
        evidence=expected.tested,
    )


def check_time(expected: Expected) -> None:
    """Check that the median time is not longer than the log allows; a slower one is measured again before it fails.

    On other hardware the time is reported only, unless the expectation says `anywhere`. Where a busy machine hides
    what is true, the test is skipped with the reason.
    """
    __tracebackhide__ = True
    _ready(expected, "time")
    took = expected.took
    if took is None:
        keep(_finding(expected, "time", "skipped", collected="no time in the log"))
        raise SkipTest("the log has no time of this case; `assay bench` measures it.")
    row, verdicts = measure(expected.case), []
    for attempt in range(_TRIES):
        row = row if attempt == 0 else measure(expected.case)
        verdicts.append(verdict_on(took, row))
        if row.hardware.id != took.on and not took.anywhere:
            note = f"{_milliseconds(row)} on {row.hardware.id}, not {took.on}: reported, not judged"
            keep(_finding(expected, "time", "other machine", wanted=_wanted(took), collected=note))
            print(f"{expected.case.model} {expected}: {note}")
            return
        if verdicts[-1] in ("as expected", "faster"):
            break
    verdict = verdicts[-1] if verdicts[-1] in ("as expected", "faster") else _over(verdicts)
    conditions = _conditions(row.conditions)
    if verdict == "cannot tell":
        note = f"{_milliseconds(row)}, which this machine's other work may explain: {'; '.join(conditions) or 'the times scatter'}"
        keep(_finding(expected, "time", "cannot tell", wanted=_wanted(took), collected=note))
        raise SkipTest(f"cannot tell how fast it is: {note}. Run it on a machine that is not busy.")
    runtime = row.execution.runtime
    version = f"{runtime.name} {runtime.version}" if runtime else None
    then = expected.ran.runtime if expected.ran else None
    _settle(
        expected,
        "time",
        passed=verdict != "slower",
        wanted=_wanted(took),
        collected=_milliseconds(row) + (": faster, worth a --refresh" if verdict == "faster" else ""),
        changed=[f"runtime: {then} then, {version} now"] if then and version and then != version else [],
        conditions=conditions,
        evidence=expected.measured,
    )


def check_runs(case: Case) -> None:
    """Check that the case runs and gives right outputs: for what is known to fail, inside `pytest.mark.xfail`."""
    __tracebackhide__ = True
    expected = Expected(case)
    _ready(expected, "failure")
    try:
        failure = verify(case).failure
    except AssayError as error:
        failure = Failure(error=type(error).__name__, message=str(error))
    if failure is not None:
        note = f"{failure.error}: {failure.message}"
        keep(_finding(expected, "failure", "as expected", wanted="a failure", collected=note))
        raise AssertionError(note)
    keep(with_cause(_finding(expected, "failure", "different", wanted="a failure", collected="it passed"), {}))


def differences(expected: Expected, test: TestReported) -> list[str]:
    """Return what differs from the outputs of the log by more than the tolerance of the case's precision."""
    from runner.campaign.expectations import Expectation, Expectations, compare_tests
    from runner.measure.output_comparison import tolerance_for

    checks = dict(test.checks or {})
    collected = {name: _kept(name, checks.get("values", {}).get(name)) for name in expected.gave}
    reduced = msgspec.structs.replace(
        test, checks={**checks, "values": {name: value for name, value in collected.items() if value is not None}}
    )
    asked = _expectation_of(reduced).asked
    values = {name: _recorded(output, collected[name]) for name, output in expected.gave.items()}
    wanted = Expectation(asked=asked, outcome="passed", kind=checks.get("kind"), values=values)
    different = [line for each in compare_tests(Expectations(expectations=[wanted]), [reduced]) for line in each.found]
    allowed = tolerance_for(expected.case.precision).relative
    for name, output in expected.gave.items():
        now = collected[name]
        if isinstance(output, Output) and now is not None and not _near(now["norm"], output.norm, allowed):
            different.append(f"{name}: its norm is {now['norm']:.6g}, and was {output.norm:.6g}")
    return different


def _expectation_of(test: TestReported) -> Any:
    from runner.campaign.expectations import expectations_of

    return expectations_of([test]).expectations[0]


def _near(now: float, then: float, allowed: float) -> bool:
    return math.isfinite(now) and abs(now - then) <= allowed * abs(then) + 1e-12


def thinned(values: Sequence[Any]) -> list[Any]:
    """Return a few values at even distances, both ends with them."""
    if len(values) <= VALUES:
        return list(values)
    return [values[round(place * (len(values) - 1) / (VALUES - 1))] for place in range(VALUES)]


def _kept(name: str, value: Any) -> Any:
    """Return the part of a collected value that a test file keeps."""
    if value is None:
        return None
    if name == "tokens":
        return [item[:8] for item in value[:1]]
    return value[:VALUES] if name == "losses" else {**value, "sample": thinned(value["sample"])}


def _recorded(output: Output | list[Any], now: Any) -> Any:
    """Return what was kept of an output, in the form that `compare_tests` reads."""
    if not isinstance(output, Output):
        return output
    shape = now["shape"] if isinstance(now, Mapping) else []
    largest = now["largest"] if isinstance(now, Mapping) else None
    scale = max([largest or 0.0, *(abs(value) for value in output.values if value is not None)])
    return {"shape": shape, "sample": output.values, "largest": scale}


def ran(test: TestReported, case: Case) -> Ran:
    """Return what did the work of a test, as a test file keeps it."""
    observed, runtime = test.observed, test.execution.runtime
    precision = test.execution.precision
    return Ran(
        device=(observed and observed.device) or test.execution.platform,
        runtime=f"{runtime.name} {runtime.version}" if runtime else None,
        weights=weights_name(case.model, case.weights, test.model.weights),
        precision=precision if precision != case.precision else None,
        fallback_share=(observed and observed.fallback_share) or 0.0,
    )


def verdict_on(took: Time, row: MeasurementRecorded) -> Verdict:
    """Return how a new measurement stands to what is expected.

    Slower: the whole interval of the median lies above what is accepted, and further than other work on the machine
    and its clocks explain; where they do explain it, nobody can tell.
    """
    latency = row.metrics.latency_ms
    assert latency is not None
    assert latency.p50 is not None
    low, high = (latency.ci95 or {}).get("p50") or (latency.p50, latency.p50)
    if low <= took.most_ms:
        return "faster" if high * took.most_ms / took.p50_ms < took.p50_ms else "as expected"
    return "slower" if low > took.most_ms * _slowed_by_others(row) else "cannot tell"


def _slowed_by_others(row: MeasurementRecorded) -> float:
    """Return how many times as long a call may take because of what else the machine did; 1 where it was quiet.

    What has a share d of the processors leaves 1 - d of each to two threads that wait for each other, at worst one
    after the other. It slows only the part of a call that computes.
    """
    conditions = row.conditions
    if conditions is None:
        return 1.0
    slowed = max(0.0, 1 - (conditions.speed_ratio if conditions.speed_ratio is not None else 1.0))
    disturbed = min(0.9, (conditions.other_load or 0.0) + (conditions.steal_share or 0.0) + slowed)
    if disturbed < _QUIET:
        return 1.0
    used = conditions.utilisation
    computing = 1.0 if used is None else min(1.0, used * (row.execution.threads or 1))
    return 1 + computing * (1 / (1 - disturbed) ** 2 - 1)


def _over(verdicts: Sequence[Verdict]) -> Verdict:
    """Return what several measurements that were all too long come to: most of them decide."""
    return "slower" if verdicts.count("slower") * 2 > len(verdicts) else "cannot tell"


def _ready(expected: Expected, check: Any) -> None:
    try:
        require_platform(expected.case)
    except SkipTest as absent:
        keep(_finding(expected, check, "skipped", collected=str(absent)))
        raise
    except AssertionError as absent:
        finding = _finding(expected, check, "different", wanted="the platform", collected=str(absent))
        keep(msgspec.structs.replace(finding, conditions=["the platform is absent here"]))
        raise


def _verified(expected: Expected, check: Any) -> TestReported:
    """Return the test of the case; AssertionError where it could not run at all."""
    __tracebackhide__ = True
    _ready(expected, check)
    try:
        test = verify(expected.case)
    except AssayError as error:
        raise AssertionError(_not_run(expected, check, type(error).__name__, str(error)).sentence()) from error
    if test.failure and test.failure.error not in (*_OF_PLATFORM, *_OF_OUTPUTS):
        note = f"{test.failure.message} {test.remedy or ''}".strip()
        raise AssertionError(_not_run(expected, check, f"{test.failure.error} at {test.stage}", note).sentence())
    return test


def _not_run(expected: Expected, check: Any, name: str, note: str) -> Finding:
    finding = _finding(expected, check, "different", wanted="that it runs", collected=note.rstrip("."))
    finding = msgspec.structs.replace(finding, conditions=[f"it does not run here: {name}"])
    return keep(with_cause(finding, {"device": finding}))


def _settle(
    expected: Expected,
    check: Any,
    *,
    passed: bool,
    wanted: str,
    collected: str,
    changed: list[str],
    evidence: str | None,
    conditions: Sequence[str] = (),
) -> None:
    """Keep the finding, and raise AssertionError with its likely cause where the check did not pass."""
    __tracebackhide__ = True
    finding = Finding(
        model=expected.case.model,
        case=str(expected),
        check=check,
        state="as expected" if passed else "different",
        expected=wanted,
        collected=collected,
        changed=changed,
        conditions=list(conditions),
        evidence=[evidence] if evidence else [],
    )
    if passed:
        keep(finding)
        return
    raise AssertionError(keep(with_cause(finding, {})).sentence())


def _finding(expected: Expected, check: Any, state: Any, *, wanted: str = "", collected: str = "") -> Finding:
    evidence = [event for event in (expected.tested, expected.measured) if event]
    return Finding(
        model=expected.case.model,
        case=str(expected),
        check=check,
        state=state,
        expected=wanted,
        collected=collected,
        evidence=evidence,
    )


def _platform_of(case: Case) -> str:
    from runner.platforms.registry import word

    return word(case.platform)


def _work(what: Ran, case: Case, platform: str) -> str:
    away = f", {what.fallback_share:.0%} of it elsewhere" if what.fallback_share else ""
    return f"{platform} on {what.device} in {what.precision or case.precision}{away}"


def _changes(then: Ran, now: Ran) -> list[str]:
    """Return a phrase for the weights and the runtime where they are not those of the log."""
    pairs = (("weights", then.weights, now.weights), ("runtime", then.runtime, now.runtime))
    return [f"{name}: {old} then, {new} now" for name, old, new in pairs if old and new and old != new]


def _wanted(took: Time) -> str:
    return f"a median of {took.p50_ms:g} ms, at most {took.most_ms:g} ms"


def _milliseconds(row: MeasurementRecorded) -> str:
    latency = row.metrics.latency_ms
    assert latency is not None
    assert latency.p50 is not None
    return f"{latency.p50:.3g} ms"


def _conditions(conditions: Conditions | None) -> list[str]:
    """Return what of the machine's state can make a call slow."""
    if conditions is None:
        return []
    before, after = conditions.clock_before_hz, conditions.clock_after_hz
    phrases = {
        f"other work used {conditions.other_load or 0:.0%} of the processors": (conditions.other_load or 0) > _BUSY,
        f"other guests took {conditions.steal_share or 0:.0%} of the time": (conditions.steal_share or 0) > 0.01,
        f"a loop ran at {conditions.speed_ratio or 1:.0%} of its speed afterwards": (conditions.speed_ratio or 1) < 0.9,
        "the clock fell": bool(before and after and after < 0.9 * before),
        "the processor was throttled": bool(conditions.thermal_events),
    }
    return [phrase for phrase, holds in phrases.items() if holds]
