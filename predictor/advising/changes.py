"""The changes that a configuration may take, one at a time: precision, compilation, batch, attention, runtime, platform."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from domain.compatibility.rules import Work, why_unsupported
from domain.performance.roofline import limits_of
from predictor.answering.candidates import ASKED_ONLY_PLATFORMS, Candidate, general_knows, software_of
from predictor.answering.context import AnswerContext
from predictor.artifact.artifact import Predictor
from predictor.features.dataset import version_key
from predictor.features.operators_route import FUSED_SINCE
from predictor.general.inputs import TRACED_RUNTIMES

__all__ = ["ATTENTION", "BATCH", "COMPILED", "PLATFORM", "PRECISION", "RUNTIME", "Change", "changes_of", "has_trained"]

PRECISION, COMPILED, BATCH, ATTENTION, RUNTIME, PLATFORM = (
    "precision",
    "compiled",
    "batch",
    "attention",
    "runtime",
    "platform",
)
WIDE = ("fp32", "tf32", "fp16", "bf16", "amp-fp16", "amp-bf16")
"""Precisions that hardware multiplies as it does others of their width; narrower ones depend on what software makes of them."""
LARGEST_BATCH = 128
DOUBLINGS = 6


class Change(NamedTuple):
    """One change: its kind, in words, and the configuration that comes of it."""

    kind: str
    words: str
    candidate: Candidate


def changes_of(base: Candidate, context: AnswerContext, mode: str) -> list[Change]:
    """Return the changes that the platform supports, that are not known to fail, and of which enough is known.

    What never was measured under its software on devices of the maker would be a guess. Whether they fit is not looked at.
    """
    every = [
        *_precisions(base, context),
        *_compiled(base),
        *_batches(base),
        *_attention(base, context.predictor),
        *_runtimes(base, mode),
        *_platforms(base, context, mode),
    ]
    trace = context.trace
    work = None if trace is None else Work(family=trace.family, operators=trace.operators, mode=mode)
    return [
        change
        for change in every
        if (base.spec.id, change.candidate.platform, change.candidate.precision) not in context.failures
        and (work is None or why_unsupported(work, *_software(change.candidate)) is None)
        and (_needs_no_rows(change) or has_trained(change.candidate, context.predictor, mode))
    ]


def _needs_no_rows(change: Change) -> bool:
    """Whether physics says enough of a change: another batch, or 16 bits in the place of 32 and the reverse."""
    return change.kind == BATCH or (change.kind == PRECISION and change.candidate.precision in WIDE)


def has_trained(candidate: Candidate, predictor: Predictor, mode: str) -> bool:
    """Return whether rows of this software on devices of the maker trained the predictor, or the device has some itself."""
    card = predictor.card
    software = (candidate.platform, candidate.runtime, candidate.precision, candidate.compiled, mode)
    if card.coverage.knows_software(*software) and card.coverage.knows_maker(candidate.spec):
        return True
    place = None
    if card.few is not None:
        place = card.few.place(candidate.spec.id, candidate.platform, candidate.precision, mode)
    if place is not None and place.hardware == candidate.spec.id:
        return True
    return general_knows(
        card, candidate.spec, candidate.platform, candidate.precision, candidate.runtime, candidate.compiled
    )


def _software(candidate: Candidate) -> tuple[str, str, str]:
    return candidate.platform, candidate.runtime, candidate.precision


def _under(base: Candidate, **changed: object) -> Candidate | None:
    """Return the candidate with the limits of its platform and precision; None where the device has no such figures."""
    candidate = replace(base, **changed)
    limits = limits_of(candidate.spec, candidate.precision, candidate.platform)
    return None if limits is None else replace(candidate, limits=limits)


def _precisions(base: Candidate, context: AnswerContext) -> Iterator[Change]:
    able = dict.fromkeys(("fp32", *base.spec.platforms.get(base.platform, ())))
    near = context.predictor.card.coverage.near_software
    if base.runtime == "torch":
        able |= {
            name: None
            for name in ("amp-fp16", "amp-bf16")
            if name.removeprefix("amp-") in able and near(base.platform, "torch", name)
        }
    for precision in able:
        candidate = _under(base, precision=precision)
        if precision != base.precision and candidate is not None:
            yield Change(PRECISION, f"{precision} in place of {base.precision}", candidate)


def _compiled(base: Candidate) -> Iterator[Change]:
    if base.runtime == "torch":
        words = "eager in place of compiled" if base.compiled else "compiled in place of eager"
        yield Change(COMPILED, words, replace(base, compiled=not base.compiled))


def _batches(base: Candidate) -> Iterator[Change]:
    sizes = (base.batch_size << power for power in range(1, DOUBLINGS + 1))
    for size in sizes:
        if size <= LARGEST_BATCH:
            yield Change(BATCH, f"batches of {size} in place of {base.batch_size}", replace(base, batch_size=size))


def _attention(base: Candidate, predictor: Predictor) -> Iterator[Change]:
    """Torch before 2.0 moved the scores of attention through memory."""
    newest = predictor.card.newest_version.get(base.platform)
    old = base.runtime == "torch" and base.runtime_version and version_key(base.runtime_version) < FUSED_SINCE
    if old and newest and version_key(newest) >= FUSED_SINCE:
        words = f"torch {newest}, which fuses attention, in place of {base.runtime_version}"
        yield Change(ATTENTION, words, replace(base, runtime_version=newest))


def _runtimes(base: Candidate, mode: str) -> Iterator[Change]:
    for runtime, platforms in TRACED_RUNTIMES.items():
        if mode != "inference" or runtime == base.runtime or base.platform not in platforms:
            continue
        candidate = replace(base, runtime=runtime, runtime_version="", compiled=False, layout=None, threads=None)
        yield Change(RUNTIME, f"{runtime} in place of {base.runtime}", candidate)


def _platforms(base: Candidate, context: AnswerContext, mode: str) -> Iterator[Change]:
    for platform, precisions in base.spec.platforms.items():
        if platform == base.platform or platform in ASKED_ONLY_PLATFORMS:
            continue
        if base.precision not in ("fp32", *precisions):
            continue
        usual = software_of(base.spec, platform, base.precision, mode, context.predictor)
        plain = {"layout": None, "threads": None}
        candidate = _under(base, platform=platform, **(plain | usual))
        if candidate is not None:
            yield Change(PLATFORM, f"{platform} in place of {base.platform}", candidate)
