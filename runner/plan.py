"""What to measure: the cartesian product of models, platforms, precisions and sizes, checked before anything runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from domain.configuration import Workload
from domain.errors import UnsupportedPrecision, UsageError
from domain.vocabulary import PRECISIONS
from runner.platforms.registry import create, names
from runner.sources import hub_problem, resolve
from runner.stopping import MAXIMUM_SAMPLES, PERCENTILE_SAMPLES, Method
from runner.tasks import Case

__all__ = ["Plan", "make_plan"]

Item = TypeVar("Item")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Cases in the order in which they run, how long each is measured, and whether platforms were named.

    `memory_limit_bytes` bounds the resident memory of a child, `timeout_s` the wall time of one in s.
    """

    cases: tuple[Case, ...]
    method: Method = Method()
    platforms_named: bool = True
    timeout_s: float = 600.0
    memory_limit_bytes: int | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """The models in order, each once."""
        return tuple(dict.fromkeys(case.model for case in self.cases))

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms in order, each once."""
        return tuple(dict.fromkeys(case.platform for case in self.cases))


def make_plan(
    models: Sequence[str],
    *,
    platforms: Sequence[str] | None = None,
    precisions: Sequence[str] = ("fp32",),
    batch_sizes: Sequence[int] = (1,),
    sequence_lengths: Sequence[int] | None = None,
    image_size: int | None = None,
    mode: str = "inference",
    weights: str = "auto",
    method: Method | None = None,
    threads: int | None = None,
    device: str | None = None,
    compiled: bool = False,
    limit: int | None = None,
    timeout_s: float = 600.0,
    memory_limit_bytes: int | None = None,
    trust_remote_code: bool = False,
) -> Plan:
    """Return the plan, or raise UsageError, UnknownModel, UnknownPlatform or UnsupportedPrecision, naming the field.

    Without `platforms` every platform is taken that this version can run; those that are not present here are left
    out when the plan runs. `limit` keeps the first models. Nothing heavy is imported.
    """
    method = method or Method()
    _check_numbers(batch_sizes, sequence_lengths, image_size, threads, limit, timeout_s)
    _check_method(method)
    if mode != "inference":
        raise UsageError(
            f"this version does not measure {mode!r}.",
            field="mode",
            remedy="Ask for --mode inference, or leave it out.",
        )
    for precision in precisions:
        if precision not in PRECISIONS:
            raise UnsupportedPrecision(
                f"no precision is known as {precision!r}.",
                field="precision",
                remedy=f"Known precisions: {', '.join(PRECISIONS)}.",
            )
    for platform in platforms or ():
        create(platform)
    if not models:
        raise UsageError("no model is named.", field="model", remedy="Name a model, a category or a set of models.")
    if not (platforms is None or platforms) or not precisions or not batch_sizes:
        raise UsageError("an empty list.", field="platform", remedy="Name at least one of each.")
    chosen = _unique(models)[:limit]
    sources = [resolve(name, weights, trust_remote_code=trust_remote_code) for name in chosen]
    lengths: Sequence[int | None] = sequence_lengths or (None,)
    cases = [
        Case(
            model=name,
            platform=platform,
            precision=precision,
            workload=Workload(
                mode=mode,
                scenario="single_stream",
                batch_size=batch,
                sequence_length=length,
                image_size=image_size,
            ),
            weights=_effective_weights(weights, source.location is not None),
            threads=threads,
            device=device,
            compiled=compiled,
            trust_remote_code=trust_remote_code,
        )
        for (name, source), batch, length, platform, precision in itertools.product(
            zip(chosen, sources, strict=True),
            _unique(batch_sizes),
            _unique(lengths),
            _unique(platforms or names()),
            _unique(precisions),
        )
    ]
    return Plan(
        cases=tuple(cases),
        method=method,
        platforms_named=platforms is not None,
        timeout_s=timeout_s,
        memory_limit_bytes=memory_limit_bytes,
    )


def _effective_weights(weights: str, here: bool) -> str:
    """Return `random` where `auto` could find nothing: asked once here, not again by every child."""
    return "random" if weights == "auto" and not here and hub_problem() else weights


def _unique(values: Sequence[Item]) -> list[Item]:
    return list(dict.fromkeys(values))


def _check_numbers(
    batch_sizes: Sequence[int],
    sequence_lengths: Sequence[int] | None,
    image_size: int | None,
    threads: int | None,
    limit: int | None,
    timeout_s: float,
) -> None:
    named: list[tuple[str, float | None]] = [
        *(("batch_sizes", size) for size in batch_sizes),
        *(("sequence_lengths", length) for length in sequence_lengths or ()),
        ("image_size", image_size),
        ("threads", threads),
        ("limit", limit),
        ("timeout", timeout_s),
    ]
    for field, value in named:
        if value is not None and value <= 0:
            raise UsageError(f"{value:g} is not a size.", field=field, remedy="Give 1 or more.")


def _check_method(method: Method) -> None:
    if method.percentile not in PERCENTILE_SAMPLES:
        raise UsageError(
            f"no percentile is known as {method.percentile!r}.",
            field="percentile",
            remedy=f"Choose one of {', '.join(PERCENTILE_SAMPLES)}.",
        )
    if method.iterations is not None and not 1 <= method.iterations <= MAXIMUM_SAMPLES:
        raise UsageError(
            f"{method.iterations} iterations cannot be kept.",
            field="iterations",
            remedy=f"Give 1 to {MAXIMUM_SAMPLES}.",
        )
    if not method.budget_s > 0:
        raise UsageError(f"a budget of {method.budget_s:g} s.", field="budget", remedy="Give more than 0 s.")
