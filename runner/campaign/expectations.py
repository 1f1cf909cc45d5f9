"""Expected against collected: what verification found once, kept in a file and compared with what it finds later.

A file of expectations is JSON with one entry a case: what was run, with what, and the values that came out. A
difference is explained by what else differs between the two days: versions, precision, hardware, weights.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from domain.canonical import canonical
from domain.errors import UsageError
from domain.payloads import TestReported
from domain.vocabulary import asked_name
from runner.measure.output_comparison import tolerance_for

__all__ = [
    "Difference",
    "Expectation",
    "Expectations",
    "compare_tests",
    "comparison_lines",
    "expectations_of",
    "read",
    "write",
]

FORMAT = 1


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """One case: `asked` is what names it, `with_` what it ran with, `values` what came out of it."""

    asked: dict[str, Any]
    outcome: str
    values: dict[str, Any]
    kind: str | None = None
    with_: dict[str, Any] = msgspec.field(name="with", default_factory=dict)


class Expectations(msgspec.Struct, frozen=True, kw_only=True):
    """A file of them."""

    format: int = FORMAT
    expectations: list[Expectation] = []


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """How one case stands to what was expected.

    `same`: equal within the tolerance of its precision. `new`: not in the file. `missing`: in the file and not
    collected. `explained` holds what else is not as it was, as sentences; empty where nothing else differs.
    """

    asked: dict[str, Any]
    state: Literal["same", "different", "new", "missing"]
    found: list[str] = []
    explained: list[str] = []


def expectations_of(tests: Iterable[TestReported]) -> Expectations:
    """Return what the reported tests found, one entry a case, the last where one was tested twice."""
    kept = {_name(each): each for each in map(_expectation, tests)}
    return Expectations(expectations=[kept[name] for name in sorted(kept)])


def compare_tests(expected: Expectations, tests: Iterable[TestReported]) -> list[Difference]:
    """Return one difference for each case expected or collected, in the order collected."""
    before = {_name(each): each for each in expected.expectations}
    collected = {_name(each): each for each in map(_expectation, tests)}
    differences = [_difference(before.get(name), each) for name, each in collected.items()]
    absent = [each for name, each in before.items() if name not in collected]
    return [*differences, *(Difference(asked=each.asked, state="missing", found=["not collected"]) for each in absent)]


def write(path: Path, expectations: Expectations) -> None:
    """Write the file, readable and in a fixed order; raises UsageError where that is not possible."""
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(expectations, order="sorted"), indent=1) + b"\n")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}.", field="record", remedy="Name another file."
        ) from error


def read(path: Path) -> Expectations:
    """Read a file; raises UsageError where it is none of these or of a newer format."""
    try:
        document = msgspec.json.decode(path.read_bytes(), type=Expectations)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.", field="expect", remedy="Record one with --record."
        ) from error
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{path} holds no expectations: {error}.", field="expect", remedy="Record one with --record."
        ) from error
    if document.format != FORMAT:
        raise UsageError(
            f"{path} has format {document.format}, and this version reads {FORMAT}.",
            field="expect",
            remedy="Use the version that wrote it, or record again.",
        )
    return document


def _expectation(test: TestReported) -> Expectation:
    """Return a test as it is kept: what was asked, not what came of it, names it."""
    checks = test.checks or {}
    requested = test.observed.requested if test.observed else None
    environment = test.environment
    runtime = test.execution.runtime.name if test.execution.runtime else None
    return Expectation(
        asked={
            "model": test.model.id,
            "workload": msgspec.to_builtins(test.workload),
            "platform": asked_name((requested and requested.platform) or test.execution.platform, runtime or ""),
            "precision": (requested and requested.precision) or test.execution.precision,
        },
        outcome=test.outcome,
        kind=checks.get("kind"),
        values=checks.get("values") or {},
        with_={
            "precision": test.execution.precision,
            "runtime": msgspec.to_builtins(test.execution.runtime),
            "options": test.execution.options,
            "hardware": test.hardware.id,
            "weights": test.model.weights,
            "revision": test.model.revision,
            "libraries": dict(environment.libraries or {}) if environment else {},
        },
    )


def _name(each: Expectation) -> bytes:
    return canonical(each.asked)


def _difference(before: Expectation | None, now: Expectation) -> Difference:
    if before is None:
        return Difference(asked=now.asked, state="new")
    outcomes = list(_outcomes(before, now))
    if not outcomes and before.kind == now.kind:
        outcomes = list(_values(before, now))
    if not outcomes:
        return Difference(asked=now.asked, state="same")
    return Difference(
        asked=now.asked, state="different", found=outcomes, explained=_explanations(before.with_, now.with_)
    )


def _outcomes(before: Expectation, now: Expectation) -> Iterable[str]:
    if before.outcome != now.outcome:
        yield f"expected {before.outcome}, collected {now.outcome}"
    elif before.kind != now.kind:
        yield f"expected values of {before.kind}, collected those of {now.kind}"


def _values(before: Expectation, now: Expectation) -> Iterable[str]:
    tolerance = tolerance_for(str(now.asked["precision"]))
    for name, expected in before.values.items():
        collected = now.values.get(name)
        if collected is None:
            yield f"{name}: expected, and not collected"
        elif name == "tokens":
            yield from _tokens(expected, collected)
        elif name == "losses":
            yield from _apart("first loss", expected[:1], collected[:1], tolerance.loss, None)
        else:
            if expected["shape"] != collected["shape"]:
                yield f"{name}: expected the shape {expected['shape']}, collected {collected['shape']}"
            else:
                yield from _apart(
                    name, expected["sample"], collected["sample"], tolerance.relative, expected.get("largest")
                )
    for name in now.values.keys() - before.values.keys():
        yield f"{name}: collected, and not expected"


def _tokens(expected: Sequence[Sequence[int]], collected: Sequence[Sequence[int]]) -> Iterable[str]:
    for item, (entry, other) in enumerate(zip(expected, collected, strict=False)):
        step = next((index for index, pair in enumerate(zip(entry, other, strict=False)) if pair[0] != pair[1]), None)
        if step is not None:
            yield f"tokens: item {item} differs from step {step} on: expected {entry[step]}, collected {other[step]}"
            return


def _apart(
    name: str,
    expected: Sequence[float | None],
    collected: Sequence[float | None],
    allowed: float,
    largest: float | None,
) -> Iterable[str]:
    """Tell where the largest difference, over the largest expected value, is above what is allowed."""
    scale = largest or max((abs(value) for value in expected if value is not None), default=0.0)
    apart = 0.0
    for item, other in zip(expected, collected, strict=True):
        if (item is None) != (other is None):
            apart = math.inf
        elif item is not None and other is not None:
            apart = max(apart, abs(item - other))
    relative = apart / scale if scale else (0.0 if apart == 0 else math.inf)
    if relative > allowed:
        yield f"{name}: {relative:.3g} of the largest value apart (at most {allowed:g})"


def _explanations(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each thing that was not the same on both days."""
    texts = [
        f"{name}: {before.get(name)} then, {now.get(name)} now"
        for name in ("weights", "revision", "precision", "hardware", "options")
        if before.get(name) != now.get(name)
    ]
    if before.get("runtime") != now.get("runtime"):
        texts.append(f"runtime: {_runtime(before)} then, {_runtime(now)} now")
    old, new = before.get("libraries") or {}, now.get("libraries") or {}
    texts += [
        f"{name}: {old.get(name, 'absent')} then, {new.get(name, 'absent')} now"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    return texts


def _runtime(what: Mapping[str, Any]) -> str:
    runtime = what.get("runtime") or {}
    return " ".join(str(runtime[name]) for name in ("name", "version") if runtime.get(name))


def comparison_lines(differences: Sequence[Difference]) -> Iterable[str]:
    """Yield a line on all cases, and one on each that is not the same with what else was not as it was."""
    counts = Counter(each.state for each in differences)
    yield "Expected against collected: " + ", ".join(
        f"{counts[state]} {state}" for state in ("same", "different", "new", "missing")
    )
    for each in differences:
        if each.state == "same":
            continue
        why = f" What else changed: {'; '.join(each.explained)}." if each.explained else ""
        if each.state == "different" and not each.explained:
            why = " Nothing else that is recorded has changed."
        yield f"{each.state}: {_case(each.asked)}" + (f": {'; '.join(each.found)}." if each.found else "") + why


def _case(request: dict[str, Any]) -> str:
    sizes = ", ".join(f"{name} {value}" for name, value in request["workload"].items() if name not in _NAMED_APART)
    return f"{request['model']} {request['platform']} {request['precision']} {request['workload']['mode']} ({sizes})"


_NAMED_APART = frozenset({"mode", "scenario"})
