"""Cleaning as facts: stated rules that recognise rows nobody can have measured as stated, and mark them.

A row that a rule catches is kept, with the rule's name and what it saw as a reason of its verdict; rows that were made up or
simulated get the origin `simulated`, so that they never train and never answer. That a file calls a row real proves
nothing, and no rule asks. docs/importers.md states every rule with its threshold.

What rules read from `Draft.claims`; an importer gives what its format says, and leaves out the rest:

* `flags`: {name: value} of members that say that something was simulated or mocked;
* `answer`: the text that the model is said to have given, or a list of them;
* `start`: what is said of an initialization that failed and was followed by an answer all the same;
* `fallback`: what is said of work that was done elsewhere than asked;
* `clock`: figures as written, of tools that write what the clock gave with all its digits;
* `any_code`: True where what was timed need not be a model, but any function: it may be quick, and many alike;
* `python_call`: True where the time is that of a whole call in Python: preparing the input, the model, reading the output;
* `counters`: whether the file has counters of the device for this row, or {name: bytes} of its memory; None where not known;
* `samples_ms`: the single times, in the order in which they were taken;
* `zeros`: names of figures that are 0 in the file and cannot be;
* `averaged_over`: members of the configuration over which a figure is a mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ingest.importers.draft import Draft, Finding
from ingest.importers.rules import across_rows, rows

__all__ = ["ROW_RULES", "TOGETHER_RULES", "judge", "judge_together"]

ROW_RULES: dict[str, Callable[[Draft], Finding | None]] = {
    "simulated-flag": rows.simulated_flag,
    "canned-answer": rows.canned_answer,
    "failed-start": rows.failed_start,
    "typed-figures": rows.typed_figures,
    "round-spread": rows.round_spread,
    "impossible-speed": rows.impossible_speed,
    "inconsistent-rate": rows.inconsistent_rate,
    "no-device-counters": rows.no_device_counters,
    "fell-back": rows.fell_back,
    "warm-up-inside": rows.warm_up_inside,
    "zero-means-missing": rows.zero_means_missing,
    "averaged-over": rows.averaged_over,
}
"""Rules that look at one row."""
TOGETHER_RULES: dict[str, Callable[[Sequence[Draft]], Iterator[tuple[Draft, Finding]]]] = {
    "constant-across-models": across_rows.constant_across_models,
    "equal-to-cpu": across_rows.equal_to_cpu,
    "slower-elsewhere": across_rows.slower_elsewhere,
    "identical-rows": across_rows.identical_rows,
}
"""Rules that compare the rows of a file."""

_OF_CLAIMS = frozenset(
    (
        "simulated-flag",
        "canned-answer",
        "failed-start",
        "typed-figures",
        "no-device-counters",
        "fell-back",
        "warm-up-inside",
        "zero-means-missing",
        "averaged-over",
    )
)
"""Rules that have nothing to say of a row without claims; most rows have none, and there are millions."""
_OF_FIGURES = tuple(name for name in ROW_RULES if name not in _OF_CLAIMS)


def judge(draft: Draft) -> None:
    """Add what the rules that look at one row find."""
    for name in ROW_RULES if draft.claims else _OF_FIGURES:
        finding = ROW_RULES[name](draft)
        if finding is not None:
            draft.findings.append(finding)


def judge_together(drafts: Sequence[Draft]) -> None:
    """Add what the rules that compare the rows of a file find."""
    for rule in TOGETHER_RULES.values():
        for draft, finding in list(rule(drafts)):
            draft.findings.append(finding)
