"""What to ask of an endpoint: which sizes, under which loads, for how long; checked before anything is sent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from domain.canonical import digest, drop_nulls
from domain.configuration import Workload
from domain.errors import UsageError
from runner.endpoint.figures import Objective
from runner.endpoint.load import Stop
from runner.endpoint.target import Stated, Target
from runner.measure.scenarios import Rule
from runner.protocol.tasks import Case

__all__ = ["EndpointPlan", "Sizes", "case_of", "key_of", "plan_of"]

DEFAULT_TOKENS = 128
DEFAULT_QUERIES = 100
"""Queries of an offline run where nobody says: there is no time that would end it."""
AT_ONCE = 256
"""Requests of an offline run that are under way, where nobody says: servers refuse more than they have room for."""


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """Lists of which every combination is measured. Rates are requests a second of a Poisson process."""

    scenario: str = "serving"
    input_tokens: tuple[int, ...] = ()
    output_tokens: tuple[int, ...] = ()
    batch_sizes: tuple[int, ...] = (1,)
    sequence_lengths: tuple[int, ...] = ()
    concurrency: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()


class EndpointPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Workloads as they are asked for, and how each is measured. `body` is the request of the plain API.

    `patience_s` is how long nothing may come; `tokenizer` the path of one; `streams` is false for whole answers.
    """

    target: Target
    stated: Stated
    workloads: tuple[Workload, ...]
    stop: Stop
    rule: Rule | None = None
    objective: Objective | None = None
    patience_s: float = 60.0
    seed: int = 0
    tokenizer: str | None = None
    streams: bool = True
    body: bytes | None = None
    content_type: str = "application/json"

    @property
    def speaks(self) -> bool:
        """Whether it is a language model that is asked, token by token or not."""
        return self.body is None and any(each.output_tokens for each in self.workloads)


def plan_of(target: Target, stated: Stated, sizes: Sizes, stop: Stop, **how: Any) -> EndpointPlan:
    """Return the plan; raises UsageError, naming the field, where its parts contradict each other."""
    _check(target, sizes, how.get("body"))
    plan = EndpointPlan(target=target, stated=stated, workloads=tuple(_workloads(target, sizes)), stop=stop, **how)
    if sizes.scenario == "offline" and stop.method.iterations is None:
        method = msgspec.structs.replace(stop.method, iterations=max(stop.min_queries, DEFAULT_QUERIES))
        plan = msgspec.structs.replace(plan, stop=msgspec.structs.replace(stop, method=method))
    return plan


def _workloads(target: Target, sizes: Sizes) -> Iterator[Workload]:
    speaks = target.api in ("openai", "tgi") or bool(sizes.output_tokens)
    inputs: Sequence[int | None] = sizes.input_tokens or ((DEFAULT_TOKENS,) if speaks else (None,))
    outputs: Sequence[int | None] = sizes.output_tokens or ((DEFAULT_TOKENS,) if speaks else (None,))
    loads: list[dict[str, Any]] = [{"arrival_rate_per_s": rate} for rate in sizes.rates]
    loads = loads or [{"concurrency": streams} for streams in sizes.concurrency or _streams(sizes.scenario)]
    for document, made, batch, length, load in itertools.product(
        inputs, outputs, sizes.batch_sizes, sizes.sequence_lengths or (None,), loads
    ):
        yield Workload(
            mode="inference",
            scenario=sizes.scenario,
            batch_size=batch,
            sequence_length=length,
            input_tokens=document,
            output_tokens=made,
            **load,
        )


def _streams(scenario: str) -> tuple[int, ...]:
    return (AT_ONCE,) if scenario == "offline" else (1,)


def _check(target: Target, sizes: Sizes, body: bytes | None) -> None:
    if target.api == "http" and body is None:
        raise UsageError("the plain API has no request of its own.", field="body", remedy="Give it with --body FILE.")
    if target.api != "http" and body is not None:
        raise UsageError(
            f"{target.api} writes its own requests.", field="body", remedy="Leave it out, or say --api http."
        )
    if target.api == "http" and (sizes.input_tokens or sizes.output_tokens):
        raise UsageError(
            "nothing is known of tokens in the plain API.",
            field="output_tokens",
            remedy="Leave them out, or name an API.",
        )
    if sizes.scenario == "server" and not sizes.rates:
        raise UsageError("the server scenario has a rate.", field="target_qps", remedy="Say --target-qps 4.")
    if sizes.rates and sizes.scenario not in ("server", "serving"):
        raise UsageError(
            f"{sizes.scenario} has no rate: its queries do not arrive by themselves.",
            field="target_qps",
            remedy="Leave it out, or say --scenario server.",
        )
    if sizes.rates and sizes.concurrency:
        raise UsageError("contradicts a rate: it follows from it.", field="concurrency", remedy="Give one of them.")
    if sizes.scenario == "single_stream" and set(sizes.concurrency) - {1}:
        raise UsageError("is 1 in single_stream.", field="concurrency", remedy="Leave it out, or leave out --scenario.")
    if any(streams > 4096 for streams in sizes.concurrency):
        raise UsageError("more than 4096 streams at once.", field="concurrency", remedy="Use several machines.")


def case_of(plan: EndpointPlan, workload: Workload) -> Case:
    """Return a workload as a case of any run, for progress and reports."""
    stated = plan.stated
    return Case(model=stated.model, platform=stated.platform, precision=stated.precision, workload=workload)


def key_of(plan: EndpointPlan, workload: Workload) -> str:
    """Return the name of what is asked for, by which a run that was interrupted knows what is done."""
    documents = [msgspec.to_builtins(plan.stated), plan.target.api, msgspec.to_builtins(workload), plan.streams]
    return digest(drop_nulls(documents))
