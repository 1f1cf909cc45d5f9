"""What tests of models found, and the likely cause of each discrepancy with the command that mends it."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

__all__ = ["FINDINGS", "Finding", "State", "as_markdown", "as_text", "explained", "keep", "read_findings"]

FINDINGS = "ASSAY_TEST_FINDINGS"
"""Names a file to which each check appends what it found, a line of JSON each; `assay scaffold check` reads it."""
State = Literal["as expected", "different", "skipped", "cannot tell", "other machine", "broken"]
_RED = ("different", "broken")
_WORDS = {"device": "what ran", "outputs": "outputs", "time": "time", "failure": "known failure", "file": "file"}


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one check found. `changed` is what else is not as it was, `conditions` what the machine was like.

    `broken` is a file that could not be run, `cannot tell` a time on a machine that was too busy, `other machine` a
    time on hardware that did not measure the expectation. `evidence` are ids of events.
    """

    model: str
    case: str
    check: Literal["device", "outputs", "time", "failure", "file"]
    state: State
    expected: str = ""
    collected: str = ""
    changed: list[str] = []
    conditions: list[str] = []
    evidence: list[str] = []
    file: str = ""
    cause: str = ""
    mend: str = ""

    @property
    def red(self) -> bool:
        """Whether its test failed."""
        return self.state in _RED

    def sentence(self) -> str:
        """Return it as a failed test says it."""
        parts = [f"{self.model} {self.case}: expected {self.expected}, collected {self.collected}."]
        parts += [f"Likely cause: {self.cause}."] if self.cause else []
        parts += [f"Mend: {self.mend}"] if self.mend else []
        parts += [f"Events: {', '.join(self.evidence)}."] if self.evidence else []
        return " ".join(parts)


def keep(finding: Finding) -> Finding:
    """Append the finding to the file that ASSAY_TEST_FINDINGS names, if any, and return it."""
    if path := os.environ.get(FINDINGS):
        with Path(path).open("ab") as file:
            # One write a line: processes of pytest-xdist append to the same file.
            file.write(msgspec.json.encode(finding) + b"\n")
    return finding


def read_findings(path: Path) -> list[Finding]:
    """Return the findings of a file; none where no check ran."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=Finding) for line in lines]


def explained(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings with causes: what one check of a case found tells why another did not find what it expected."""
    beside: dict[tuple[str, str, str], dict[str, Finding]] = {}
    for finding in findings:
        beside.setdefault((finding.file, finding.model, finding.case), {})[finding.check] = finding
    return [
        with_cause(each, beside[each.file, each.model, each.case]) if each.red and each.check != "file" else each
        for each in findings
    ]


def with_cause(finding: Finding, others: dict[str, Finding]) -> Finding:
    """Return a discrepancy with its likely cause and the command that mends it."""
    refresh = f"assay scaffold test {shlex.quote(finding.model)} --refresh"
    device = others.get("device")
    if finding.check == "failure":
        return _replaced(
            finding, "it was mended, or this machine has what the other lacked", f"{refresh} --from-matrix"
        )
    if finding.check == "device":
        return _replaced(
            finding, _of_device(finding), "`assay detect` says what each platform is here and what it lacks."
        )
    if device is not None and device.red:
        return _replaced(finding, f"the same as of what ran: {_of_device(device)}", "Mend what ran first.")
    if finding.check == "outputs":
        cause = _of_outputs(finding, others.get("time"))
        return _replaced(
            finding, cause, f"Bring the weights and versions back; where the change is wanted: `{refresh}`."
        )
    cause = _of_time(finding)
    return _replaced(
        finding, cause, f"Take back what slowed it (`assay bisect` finds the commit); where it is wanted: `{refresh}`."
    )


def _replaced(finding: Finding, cause: str, mend: str) -> Finding:
    return msgspec.structs.replace(finding, cause=cause, mend=mend)


def _of_device(finding: Finding) -> str:
    if finding.conditions:
        return finding.conditions[0]
    return "a silent fallback: the runtime did the work on another device or in another precision, and raised no error"


def _of_outputs(finding: Finding, time: Finding | None) -> str:
    if weights := [word for word in finding.changed if word.startswith("weights")]:
        return f"other weights ({weights[0]})"
    if finding.changed:
        return f"another version ({'; '.join(finding.changed)})"
    same = "device, precision and runtime are as they were"
    if time is not None and time.state == "as expected":
        return f"wrong weights: {same}, and so is the speed"
    return f"other weights, or other code of the model: {same}"


def _of_time(finding: Finding) -> str:
    if finding.changed:
        return f"another version ({'; '.join(finding.changed)})"
    if finding.conditions:
        return f"the state of this machine ({'; '.join(finding.conditions)}), or more work in the model"
    return "more work in the model or its configuration: device, precision, runtime and this machine's state are as they were"


def as_text(findings: Sequence[Finding]) -> Iterable[str]:
    """Yield the report for a terminal: a line of counts, then each finding that is not as expected."""
    yield _counted(findings)
    for each in _shown(findings):
        yield ""
        yield f"{each.state}: {each.model} {each.case}, {_WORDS[each.check]}"
        for name in ("expected", "collected", "cause", "mend"):
            if value := getattr(each, name):
                yield f"  {name}: {value}"
        if each.evidence:
            yield f"  events: {', '.join(each.evidence)}"


def as_markdown(findings: Sequence[Finding]) -> str:
    """Return the report as Markdown, for the summary of a CI job."""
    shown = _shown(findings)
    lines = ["## Model tests", "", _counted(findings), ""]
    if shown:
        lines += ["| model | case | check | state | expected | collected | likely cause | mend |", f"|{' --- |' * 8}"]
    for each in shown:
        cells = (
            each.model,
            each.case,
            _WORDS[each.check],
            each.state,
            each.expected,
            each.collected,
            each.cause,
            each.mend,
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines).rstrip()


def _shown(findings: Sequence[Finding]) -> list[Finding]:
    return sorted((each for each in findings if each.state != "as expected"), key=lambda each: not each.red)


def _counted(findings: Sequence[Finding]) -> str:
    counts = Counter(each.state for each in findings)
    models = len({each.model for each in findings})
    named = ", ".join(f"{count} {state}" for state, count in sorted(counts.items(), key=lambda item: item[0]))
    return f"Expected against collected: {models} model{'s' * (models != 1)}, {len(findings)} checks: {named or 'none'}"
