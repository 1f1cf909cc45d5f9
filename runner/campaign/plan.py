"""What to measure: cartesian products of models, platforms, precisions and sizes, checked before anything runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from domain.catalogues.models import of_same_design
from domain.configuration import Workload
from domain.errors import PartMissing, UnknownModel, UnsupportedPrecision, UnsupportedWorkload, UsageError
from domain.vocabulary import IN_BROWSERS, MODES, PRECISIONS, precision_named
from runner.browser.locations import choose_browser
from runner.compression.folder import own_precision
from runner.measure.stopping import MAXIMUM_SAMPLES, PERCENTILE_SAMPLES, Method
from runner.models.sources import ModelSource, hub_problem, resolve
from runner.models.weights import unreachable
from runner.platforms.execution_options import read_options
from runner.platforms.registry import create, names
from runner.protocol.nodes import Nodes
from runner.protocol.ranks import require_divisible
from runner.protocol.tasks import Case

__all__ = ["OPTIMIZERS", "SIZES", "Plan", "Sweep", "in_browsers", "make_plan", "takes"]

SIZES = {
    "batch_sizes": "batch_size",
    "sequence_lengths": "sequence_length",
    "image_sizes": "image_size",
    "images": "images",
    "audio_seconds": "audio_seconds",
    "frames": "frames",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
}
"""Lists of a sweep that say how large the work is, and the member of a workload that each of them fills."""
_OF_ITEMS = ("sequence_length", "image_size", "images", "audio_seconds", "frames")
"""Sizes of an item that a model has or has not."""
OPTIMIZERS = ("adamw", "sgd", "adamw-8bit")
SCENARIOS_HERE = ("single_stream", "offline", "server")
"""What a machine of one's own is measured in; `serving` is of endpoints."""


class Sweep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cartesian product of its lists. An empty list leaves a size to the model; no platforms means all there are.

    No precisions mean fp32, or of a variant the one of its form.

    `audio_seconds` in s, `image_sizes` the side in pixels; `optimizers` and `gradient_checkpointing` vary training only.
    `target_qps` are rates of the server scenario. `options` are lists of further options of a platform (`runner.platforms.execution_options`).
    """

    models: tuple[str, ...] = ()
    platforms: tuple[str, ...] | None = None
    precisions: tuple[str, ...] | None = None
    modes: tuple[str, ...] = ("inference",)
    batch_sizes: tuple[int, ...] = (1,)
    sequence_lengths: tuple[int, ...] = ()
    image_sizes: tuple[int, ...] = ()
    images: tuple[int, ...] = ()
    audio_seconds: tuple[float, ...] = ()
    frames: tuple[int, ...] = ()
    input_tokens: tuple[int, ...] = ()
    output_tokens: tuple[int, ...] = ()
    optimizers: tuple[str, ...] = ("adamw",)
    gradient_checkpointing: tuple[bool, ...] = (False,)
    compiled: tuple[bool, ...] = (False,)
    options: tuple[tuple[str, ...], ...] = ((),)
    threads: tuple[int, ...] = ()
    scenario: str = "single_stream"
    target_qps: tuple[float, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Cases in the order in which they run, how long each is measured, and whether platforms were named.

    `memory_limit_bytes` bounds the resident memory of a child, `timeout_s` the wall time of one in s. `low_memory` says
    that weights are made in 16 bits from the start, and never in fp32. `nodes` are the machines that train together. `notes` say what is measured in place of what was asked.
    """

    cases: tuple[Case, ...]
    method: Method = Method()
    platforms_named: bool = True
    timeout_s: float = 600.0
    memory_limit_bytes: int | None = None
    low_memory: bool = False
    notes: tuple[str, ...] = ()
    nodes: Nodes | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """The models in order, each once."""
        return tuple(dict.fromkeys(case.model for case in self.cases))

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms in order, each once."""
        return tuple(dict.fromkeys(case.platform for case in self.cases))

    def part(self, number: int, count: int) -> Plan:
        """Return part `number`, from 1, of `count` parts of about equal size that together are the plan.

        Cases of a model stay in one part where its border can move to theirs by a quarter of a part. Every machine that
        reads the same plan deals it out alike. UsageError where the plan has fewer cases than parts.
        """
        if not 1 <= number <= count:
            raise UsageError(f"there is no part {number} of {count}.", field="part", remedy="Give 1/N to N/N.")
        total = len(self.cases)
        if count > total:
            raise UsageError(
                f"the plan has {total} cases, which cannot be dealt out to {count} parts.",
                field="part",
                remedy=f"Give at most {total} parts.",
            )
        order = {model: place for place, model in enumerate(self.models)}
        cases = sorted(self.cases, key=lambda case: order[case.model])
        inner = [place for place in range(1, total) if cases[place].model != cases[place - 1].model]
        borders = [0, *inner, total]
        begin, end = (_border(share, total, count, borders) for share in (number - 1, number))
        return msgspec.structs.replace(self, cases=tuple(cases[begin:end]))


def _border(share: int, total: int, count: int, borders: Sequence[int]) -> int:
    """Return where the first `share` of `count` parts end: at a border between models if one is near enough."""
    even, near = share * total / count, total / count / 4
    nearest = min(borders, key=lambda place: abs(place - even))
    # Parts of one or two cases have no room to move: one of them could be left without any.
    return nearest if total >= 2 * count and abs(nearest - even) <= near else share * total // count


def make_plan(
    *sweeps: Sweep,
    weights: str = "auto",
    method: Method | None = None,
    device: str | None = None,
    limit: int | None = None,
    timeout_s: float = 600.0,
    memory_limit_bytes: int | None = None,
    low_memory: bool = False,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    nodes: Nodes | None = None,
) -> Plan:
    """Return the plan, or raise UsageError, UnknownModel, UnknownPlatform or UnsupportedPrecision, naming the field.

    Without platforms every one is taken that this version can run; those that are not present here are left out when
    the plan runs. `limit` keeps the first models of each sweep. A case that two sweeps name runs once. `low_memory`
    turns fp32 into bf16. Code and pickled weights that come with a checkpoint are opened only where
    `trust_remote_code` and `allow_pickle` say so. Nothing heavy is imported.
    """
    method = method or Method()
    _check_method(method)
    for field, value in (("limit", limit), ("timeout", timeout_s), ("memory_limit", memory_limit_bytes)):
        _check_size(field, value)
    cases: dict[Case, None] = {}
    notes: dict[str, None] = {}
    for named in sweeps:
        sweep = named
        if named.precisions is not None:
            words = tuple(dict.fromkeys(map(precision_named, named.precisions)))
            sweep = msgspec.structs.replace(named, precisions=words)
        _check(sweep)
        if low_memory:
            sweep = msgspec.structs.replace(sweep, precisions=tuple(map(_sixteen_bits, sweep.precisions or ("fp32",))))
        models = list(dict.fromkeys(sweep.models))[:limit]
        chosen = [_chosen(name, weights, trust_remote_code, allow_pickle) for name in models]
        notes |= dict.fromkeys(note for *_, note in chosen if note)
        for case in _cases(sweep, [each[:3] for each in chosen], trust_remote_code, allow_pickle):
            cases[msgspec.structs.replace(case, device=device, nodes=nodes)] = None
    _check_ranks(list(cases))
    return Plan(
        cases=tuple(cases),
        method=method,
        platforms_named=all(sweep.platforms is not None for sweep in sweeps),
        timeout_s=timeout_s,
        memory_limit_bytes=memory_limit_bytes,
        low_memory=low_memory,
        notes=tuple(notes),
        nodes=nodes,
    )


def _check_ranks(cases: Sequence[Case]) -> None:
    """Refuse a batch or nodes that no ranks can divide, and ranks that none of the cases can have."""
    refused: list[UnsupportedWorkload] = []
    for case in cases:
        options = read_options(case.options, platform=case.platform, names=create(case.platform).known_options)
        try:
            require_divisible(case, options)
        except UnsupportedWorkload as error:
            refused.append(error)
    if refused and len(refused) == len(cases):
        raise refused[0]


def in_browsers(sweep: Sweep, browsers: Sequence[str], *, headed: bool) -> list[Sweep]:
    """Return the sweep in each of these browsers, and apart from it what runs in none; without platforms all in browsers.

    Raises UsageError for what is no browser.
    """
    web = tuple(name for name in sweep.platforms or IN_BROWSERS if name in IN_BROWSERS)
    if not web:
        raise UsageError(
            "none of the platforms runs in a browser.",
            field="browser" if browsers else "headed",
            remedy=f"Add one of {', '.join(IN_BROWSERS)} to --platform.",
        )
    for browser in browsers:
        # One that is merely not installed is an outcome of its cases.
        with suppress(PartMissing):
            choose_browser(browser, headed=headed)
    named: list[tuple[str, ...]] = [(f"browser={browser}",) for browser in browsers] or [()]
    shown = ("headed",) if headed else ()
    options = tuple((*plain, *browser, *shown) for plain in sweep.options for browser in named)
    others = tuple(name for name in sweep.platforms or () if name not in IN_BROWSERS)
    inside = msgspec.structs.replace(sweep, platforms=web, options=options)
    return [msgspec.structs.replace(sweep, platforms=others), inside] if others else [inside]


def _sixteen_bits(precision: str) -> str:
    """Return the precision that low-memory mode measures in place of one that was asked for."""
    if precision in ("fp32", "tf32"):
        return "bf16"
    if precision in ("bf16", "fp16"):
        return precision
    raise UsageError(
        f"{precision} begins with weights in fp32, which low-memory mode never makes.",
        field="low_memory",
        remedy="Ask for fp32, bf16 or fp16 with it, or leave it out.",
    )


def _chosen(name: str, weights: str, code: bool, pickles: bool) -> tuple[str, ModelSource, str, str | None]:
    """Return a model's name, source and weights, and a note where it stands for one that cannot be fetched.

    What neither the catalogue nor the cache knows has its config on the hub. Without the hub, the catalogue's model of
    the design that the id names is built with random weights; it is measured under its own id.
    """
    try:
        return name, resolve(name, weights, trust_remote_code=code, allow_pickle=pickles), weights, None
    except UnknownModel:
        instead = of_same_design(name) if name.count("/") == 1 and weights != "pretrained" else None
        if instead is None or (problem := hub_problem()) is None:
            raise
        note = (
            f"{name} is not in the catalogue. {problem} {instead.id}, of the same design ({instead.family}), is measured in its "
            "place, with random weights."
        )
        return instead.id, resolve(instead.id, "random"), "random", note


def _cases(sweep: Sweep, chosen: Sequence[tuple[str, ModelSource, str]], code: bool, pickles: bool) -> Iterator[Case]:
    _check_taken(sweep, [source for _, source, _ in chosen])
    for (name, source, weights), workload, compiled, options, threads, platform in itertools.product(
        chosen,
        list(_workloads(sweep)),
        sweep.compiled,
        sweep.options,
        sweep.threads or (None,),
        sweep.platforms or names(),
    ):
        for precision in sweep.precisions or (_default_precision(source, platform),):
            yield Case(
                model=name,
                platform=platform,
                precision=precision,
                workload=workload,
                weights=weights,
                threads=threads,
                compiled=compiled,
                options=options,
                unreachable=unreachable(source),
                trust_remote_code=code,
                allow_pickle=pickles,
            )


def _default_precision(source: ModelSource, platform: str) -> str:
    return own_precision(source.variant, create(platform).forms) if source.variant else "fp32"


def takes(source: ModelSource, member: str) -> bool:
    """Return whether a plan may name this member of a workload for a model; a size that it has not is filled in by its inputs."""
    return member not in _OF_ITEMS or getattr(source.defaults, member) is not None


def _check_taken(sweep: Sweep, sources: Sequence[ModelSource]) -> None:
    """Refuse a size that none of the models has; among several each takes its own."""
    for field, member in SIZES.items():
        if getattr(sweep, field) and not any(takes(source, member) for source in sources):
            taken = sorted(name for name in _OF_ITEMS if any(getattr(source.defaults, name) for source in sources))
            names = ", ".join(source.id for source in sources[:3])
            raise UsageError(
                f"{names} {'takes' if len(sources) == 1 else 'take'} no {member.replace('_', ' ')}.",
                field=field,
                remedy=f"Leave it out; what can be said: {', '.join(name.replace('_', ' ') for name in taken)}.",
            )


def _workloads(sweep: Sweep) -> Iterator[Workload]:
    members = list(SIZES.values())
    for mode in sweep.modes:
        training = mode == "training"
        for sizes in itertools.product(*(getattr(sweep, field) or (None,) for field in SIZES)):
            for optimizer, checkpointing in itertools.product(
                sweep.optimizers if training else (None,), sweep.gradient_checkpointing if training else (None,)
            ):
                for rate in sweep.target_qps or (None,):
                    yield Workload(
                        mode=mode,
                        scenario=None if training else sweep.scenario,
                        arrival_rate_per_s=rate,
                        optimizer=optimizer,
                        gradient_checkpointing=checkpointing or None,
                        **dict(zip(members, sizes, strict=True)),
                    )


def _check(sweep: Sweep) -> None:
    if not sweep.models:
        raise UsageError("no model is named.", field="model", remedy="Name a model, a category or a set of models.")
    for field in (
        "platforms",
        "precisions",
        "modes",
        "batch_sizes",
        "optimizers",
        "gradient_checkpointing",
        "compiled",
    ):
        if getattr(sweep, field) == ():
            raise UsageError("an empty list.", field=field, remedy="Name at least one, or leave it out.")
    for field in (*SIZES, "threads"):
        for value in getattr(sweep, field):
            _check_size(field, value)
    _check_words("mode", sweep.modes, MODES)
    _check_words("optimizer", sweep.optimizers, OPTIMIZERS)
    _check_scenario(sweep)
    if "training" in sweep.modes and sweep.output_tokens:
        raise UsageError(
            "training generates nothing.", field="output_tokens", remedy="Leave it out, or measure inference."
        )
    for precision in sweep.precisions or ():
        if precision not in PRECISIONS:
            raise UnsupportedPrecision(
                f"no precision is known as {precision!r}.",
                field="precision",
                remedy=f"Known precisions: {', '.join(PRECISIONS)}.",
            )
    for platform in sweep.platforms or ():
        known_options = create(platform).known_options
        for options in sweep.options:
            read_options(options, platform=platform, names=known_options)


def _check_scenario(sweep: Sweep) -> None:
    _check_words("scenario", (sweep.scenario,), SCENARIOS_HERE)
    if "training" in sweep.modes and sweep.scenario != "single_stream":
        raise UsageError("training has no scenario.", field="scenario", remedy="Leave it out, or measure inference.")
    if (sweep.scenario == "server") != bool(sweep.target_qps):
        raise UsageError(
            "the server scenario has a rate, and no other has one.",
            field="target_qps",
            remedy="Say --scenario server --target-qps 4, or neither.",
        )
    if any(not 0 < rate < float("inf") for rate in sweep.target_qps):
        raise UsageError("is no rate.", field="target_qps", remedy="Give more than 0 queries a second.")


def _check_words(field: str, words: Sequence[str], names: Sequence[str]) -> None:
    for word in words:
        if word not in names:
            raise UsageError(f"{word!r} is not one.", field=field, remedy=f"One of {', '.join(names)}.")


def _check_size(field: str, value: float | None) -> None:
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
