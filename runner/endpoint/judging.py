"""How far to believe what an endpoint's answers showed: the rules of every series, and those that only served rows need."""

from __future__ import annotations

import statistics
from collections import Counter as Counts
from collections.abc import Iterable, Sequence
from typing import Literal

from domain.measured import Validity, Verdict
from domain.statistics import median
from domain.verdicts import Circumstances, combine, judge
from runner.endpoint.exchange import Exchange
from runner.endpoint.load import Course
from runner.endpoint.prompts import Counter

__all__ = ["judged", "token_doubts"]

TOKENS_OFF = 0.02
RETOKENIZED_OFF = 0.10
AT_ONCE = 0.01
LATE_MS = 1.0
LATE_SHARE = 0.05
BUSY = 0.90
_FEW_TOKENS = 8
_OF_TOKENS = ("tokens_per_s", "tpot_ms")


def judged(
    course: Course,
    metrics: Sequence[str],
    asked_tokens: int | None,
    count: Counter | None,
    *,
    due: Literal["arrival", "start"] | None,
) -> Validity:
    """Return the verdict on each of the named metrics and on the row.

    `due` says from when requests are timed, see `domain.conditions`.
    """
    samples = [each.latency_ms for each in course.exchanges]
    own = judge(samples, metrics, Circumstances(stopped_by=course.stopped_by, due=due))
    all_ = combine(*_suspicions([*_failures(course), *_client(course)]))
    tokens = combine(*_suspicions(token_doubts(course.exchanges, asked_tokens, count)))
    stream = combine(*_suspicions(_at_once(course.exchanges)))
    each = {
        name: combine(
            own.metrics[name], all_, *([tokens] if name in _OF_TOKENS else []),
            *([stream] if name in ("ttft_ms", "tpot_ms") else []),
        )
        for name in metrics
    }  # fmt: skip
    whole = combine(*each.values())
    return Validity(verdict=whole.verdict, reasons=whole.reasons, metrics=each)


def _failures(course: Course) -> Iterable[str]:
    total = len(course.faults) + len(course.exchanges)
    for (error, message), times in Counts((fault.error, fault.message) for fault in course.faults).items():
        yield f"{times} of {total} requests failed ({error}): {message}"


def _client(course: Course) -> Iterable[str]:
    """Say where the client may have been what was measured.

    Where the kernel stamps what comes, a client that looks late changes no time of a token; it is late with the next request.
    """
    finest = [each.latency_ms if course.stamped else each.tpot_ms or each.latency_ms for each in course.exchanges]
    between = statistics.median(finest)
    for what, late in (("looked", course.late_ms), ("sent", course.dispatch_late_ms)):
        if late is not None and late > max(LATE_MS, LATE_SHARE * between):
            yield f"this client {what} {late:.1f} ms late at the 99th percentile: it was busy, or others on this machine were"
    if course.cpu_share > BUSY:
        yield f"this client used {course.cpu_share:.0%} of a core: it may have been the limit"


def _at_once(done: Sequence[Exchange]) -> Iterable[str]:
    shares = [
        (each.tokens[-1] - each.tokens[0]) / max(each.ended - each.arrived, 1)
        for each in done
        if len(each.tokens) >= _FEW_TOKENS
    ]
    if shares and median(shares) < AT_ONCE:
        yield "all tokens of an answer come at once: something on the way collects the stream, and times of tokens are its own"


def token_doubts(done: Sequence[Exchange], wanted_value: int | None, count: Counter | None) -> Iterable[str]:
    """Say where the server's count of output tokens cannot be true, or is not what was seen to come.

    A tokenizer decides where one was given and the texts were kept: servers may put several tokens into one event.
    """
    matching_done = [each for each in done if each.output_tokens is not None and each.tokens]
    if not matching_done:
        if any(each.tokens for each in done):
            yield "the server does not say how many tokens it made: each event of the stream was counted as one"
        return
    said = statistics.fmean(each.output_tokens or 0 for each in matching_done)
    if wanted_value is not None and any((each.output_tokens or 0) > wanted_value for each in matching_done):
        yield f"the server says it made more tokens than the {wanted_value} that it was allowed"
    if count is not None and all(each.text is not None for each in matching_done):
        fmean = statistics.fmean(count("".join(each.text or [])) for each in matching_done)
        if abs(fmean - said) > RETOKENIZED_OFF * max(said, 1):
            yield f"the server says {said:.4g} tokens an answer, and by the tokenizer its text has {fmean:.4g}"
        return
    seen = statistics.fmean(len(each.tokens) for each in matching_done)
    if abs(seen - said) > TOKENS_OFF * max(said, 1):
        yield f"the server says {said:.4g} tokens an answer, and {seen:.4g} events with text came"


def _suspicions(reasons: Iterable[str]) -> list[Verdict]:
    return [Verdict(verdict="suspect", reasons=[reason]) for reason in reasons]
