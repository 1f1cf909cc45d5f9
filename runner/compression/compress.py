"""Compression of a model from here on: each recipe in a child of its own, then measured, verified and judged as any model.

All events are kept in `events.ndjson` beside the variants, so that a run that was interrupted goes on with what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from domain.canonical import digest
from domain.configuration import Model
from domain.errors import UnsupportedPrecision, UsageError
from domain.events import TEST_REPORTED, VARIANT_CREATED, uuid7
from domain.payloads import RunContext
from domain.variants.events import VariantCreated
from domain.variants.lineage import Variant
from runner.campaign.bench import run_plan
from runner.campaign.campaign import refusal, survey_machine
from runner.campaign.event_payloads import Machine, provenance, runner_source, stamped
from runner.campaign.plan import Plan, Sweep, make_plan
from runner.campaign.resume import cases_in
from runner.campaign.run import OnEvent, OnProgress
from runner.campaign.verify import run_verification
from runner.compression.contract import EVENTS, Compression, Recipe, RecipeOutcome
from runner.compression.folder import check_variant, staged_variant, weights_digest
from runner.compression.judging import any_judged, events_in, judge, judge_base, takes
from runner.measure.stopping import Method
from runner.models.sources import ModelSource, resolve
from runner.models.weights import choose_weights, unreachable
from runner.platforms.registry import names
from runner.protocol.parent import run_task
from runner.protocol.tasks import Case, Compress, Failed
from runner.spool.event_file import EventFile

__all__ = ["Compressed", "compress", "needs_data", "offered", "take_up"]

_CREATED = "created.json"
"""The event of a variant, kept in its folder: sent again it is the same event."""


class Compressed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of all: the recipes in order, the base's id, every event of it, and why an evaluation gave nothing."""

    base: str
    made: list[RecipeOutcome]
    events: list[dict[str, Any]]
    unjudged: list[str] = []


def needs_data(recipe: Recipe, compression: Compression) -> Failed | None:
    """Return why a recipe cannot be carried out without examples; None where it can."""
    if recipe.needs is None or compression.calibrate:
        return None
    what = "inputs with labels to train on" if recipe.needs == "training" else "examples to calibrate with"
    return _failed("UsageError", f"{recipe.name} needs {what}.", "Give them with --calibrate DATA.")


def offered(recipe: Recipe, source: ModelSource) -> Failed | None:
    """Return why the recipe is not for this model, or not here; None where it is."""
    from runner.compression.recipes import refusal as refused

    error = refused(recipe, source)
    return None if error is None else _failed(type(error).__name__, error.detail, error.remedy)


def _failed(error: str, message: str, remedy: str | None) -> Failed:
    return Failed(stage="resolve", outcome="unsupported", error=error, message=message, remedy=remedy)


def compress(
    compression: Compression,
    on_event: OnEvent,
    on_recipe: Callable[[str, str, float | None], None],
    on_progress: OnProgress | None = None,
    on_made: Callable[[RecipeOutcome], None] | None = None,
    *,
    cache: Path | None = None,
    context: RunContext | None = None,
) -> Compressed:
    """Make what is missing, measure, verify and judge it, and tell every event.

    A recipe that fails does not end the others. `on_recipe` gets recipe, step and share while one works. Raises AssayError
    before anything is made where the whole cannot work: the model, the examples, the evaluation of the base, or the folder.
    """
    source = resolve(compression.model, compression.weights, **_allowed(compression))
    examples = _checked(compression, source)
    platforms = compression.platforms or names()
    machine, _ = survey_machine(platforms)
    _check_precisions(compression, machine)
    base = None
    if compression.evaluate and not any_judged(compression.out / EVENTS):
        # First, so that an evaluation that fails costs no time and leaves nothing.
        base = judge_base(compression, source, machine, on_recipe, cache)
    compression.out.mkdir(parents=True, exist_ok=True)
    log = EventFile(compression.out / EVENTS, resume=True)
    kept = {event["id"] for event in events_in(compression.out / EVENTS)}

    def tell(event: dict[str, Any]) -> None:
        on_event(event)
        if event["id"] not in kept:
            log.write(event)

    try:
        made = []
        for recipe in compression.recipes:
            each = _one(compression, recipe, source, machine, examples, tell, on_recipe)
            made.append(each)
            if on_made:
                on_made(each)
        unjudged: list[str] = []
        if compression.measure:
            _measure(compression, made, machine, tell, on_progress, cache, context)
        if compression.evaluate:
            unjudged = judge(compression, made, source, machine, tell, on_recipe, cache, base)
    finally:
        log.close()
    events = list(events_in(compression.out / EVENTS))
    return Compressed(base=source.id, made=made, events=events, unjudged=unjudged)


def _allowed(compression: Compression) -> dict[str, bool]:
    return {"trust_remote_code": compression.trust_remote_code, "allow_pickle": compression.allow_pickle}


def _checked(compression: Compression, source: ModelSource) -> str | None:
    """Return the digest of the examples to calibrate with, read before any work; raises where anything is wrong."""
    from runner.quality.evaluation import read_evaluator
    from runner.quality.examples import read_examples

    if source.variant:
        raise UsageError(
            f"{source.id} is a variant already.", field="MODEL", remedy=f"Compress its base: {source.variant.source}"
        )
    if compression.evaluate:
        evaluator = read_evaluator(compression.evaluate)
        if evaluator.path:
            read_examples(evaluator.path, source)
    if compression.calibrate is None:
        return None
    return read_examples(compression.calibrate, source, labels=False, flag="calibrate").reference.digest


def _check_precisions(compression: Compression, machine: Machine) -> None:
    """Raise where a precision of the model itself can be evaluated nowhere here, before any work."""
    from runner.quality.evaluation import read_evaluator

    if not compression.precisions:
        return
    if compression.evaluate and read_evaluator(compression.evaluate).command:
        raise UsageError(
            "a command evaluates a folder, and a precision is made when a platform loads the model.",
            field="precision",
            remedy="Give labelled examples to --eval, or leave out --precision.",
        )
    platforms = [name for name in compression.platforms or names() if machine.available(name)]
    for precision in compression.precisions:
        refused = {name: refusal(machine, name, precision) for name in platforms}
        if all(refused.values()):
            ways = "; ".join(f"{name}: {why.remedy or why.message}" for name, why in refused.items() if why)
            raise UnsupportedPrecision(
                f"no platform asked for can compute in {precision} here.",
                field="precision",
                remedy=ways or "Name a platform that assay detect lists as available.",
            )


def _request(compression: Compression, recipe: Recipe, source: ModelSource, examples: str | None) -> str:
    """Return the digest of what is asked for: what has it already is not made again."""
    from runner.compression.recipes import parameters_for

    base, _ = weights_digest(choose_weights(source).folder)
    return digest(
        {
            "recipe": recipe.name,
            "parameters": msgspec.json.encode(parameters_for(recipe, source.family), order="sorted").decode(),
            "base": source.id,
            "weights": base,
            "examples": examples if recipe.needs else None,
            "seed": compression.seed,
        }
    )


def take_up(out: Path, request: str) -> tuple[Variant, Path] | None:
    """Return the variant in a folder of variants that was made for this request and is whole; None where there is none."""
    for card in sorted(out.glob("*/variant.json")):
        try:
            variant = check_variant(card.parent)
        except UsageError:
            continue
        if variant.request == request:
            return variant, card.parent
    return None


def _one(
    compression: Compression,
    recipe: Recipe,
    source: ModelSource,
    machine: Machine,
    examples: str | None,
    tell: OnEvent,
    on_recipe: Callable[[str, str, float | None], None],
) -> RecipeOutcome:
    """Return one recipe's variant, made now or before, and tell its event."""
    if failed := offered(recipe, source) or needs_data(recipe, compression):
        return RecipeOutcome(recipe=recipe.name, failed=failed)
    request = _request(compression, recipe, source, examples)
    if there := take_up(compression.out, request):
        event = there[1] / _CREATED
        if event.is_file():
            tell(msgspec.json.decode(event.read_bytes()))
        return RecipeOutcome(recipe=recipe.name, variant=there[0], folder=there[1], reused=True)
    on_recipe(recipe.name, "begin", None)
    with staged_variant(compression.out) as folder:
        task = Compress(
            model=compression.model,
            source=str(Path(compression.model).expanduser().resolve())
            if source.kind == "directory"
            else compression.model,
            recipe=recipe.name,
            folder=str(folder),
            request=request,
            weights=compression.weights,
            calibrate=compression.calibrate,
            seed=compression.seed,
            unreachable=unreachable(source),
            **_allowed(compression),
        )
        ended = run_task(
            task,
            timeout_s=compression.timeout_s,
            on_progress=lambda what, share: on_recipe(recipe.name, what, share),
        )
        if ended.failure:
            return RecipeOutcome(recipe=recipe.name, failed=ended.failure)
        variant = msgspec.convert(ended.result["variant"], Variant)
        created = _created(variant, ended.result, machine)
        (folder / _CREATED).write_bytes(msgspec.json.encode(created))
        place = compression.out / _folder_name(variant)
        if place.exists():
            # The same files by another request, such as another name of the same examples.
            return RecipeOutcome(recipe=recipe.name, variant=check_variant(place), folder=place, reused=True)
        folder.rename(place)
    tell(created)
    return RecipeOutcome(recipe=recipe.name, variant=variant, folder=place)


def _folder_name(variant: Variant) -> str:
    """Return the last part of a variant's id, with no letter that a file system refuses."""
    return variant.id.rpartition("/")[2].replace(":", "-")


def _created(variant: Variant, result: dict[str, Any], machine: Machine) -> dict[str, Any]:
    data = VariantCreated(
        run_id=uuid7(),
        model=msgspec.convert(result["model"], Model),
        base=msgspec.convert(result["base"], Model),
        recipe=variant.recipe,
        forms=variant.forms,
        digest=variant.digest,
        provenance=provenance(),
        base_digest=variant.base_digest,
        base_bytes=variant.base_bytes,
        parameters=variant.parameters,
        tools=variant.tools,
        calibration=variant.calibration,
        environment=machine.reference(),
    )
    return stamped(VARIANT_CREATED, data, runner_source(machine.environment), variant.id)


def _measure(
    compression: Compression,
    made: Sequence[RecipeOutcome],
    machine: Machine,
    tell: OnEvent,
    on_progress: OnProgress | None,
    cache: Path | None,
    context: RunContext | None,
) -> None:
    """Measure base and variants and verify the variants, each where a platform takes it and it was not done before."""
    log = compression.out / EVENTS
    variants = [each for each in made if each.folder]
    plan = _plan(compression, [str(each.folder) for each in variants])
    cases = tuple(case for case in plan.cases if _takes(case, variants, machine))
    if not cases:
        raise UsageError(
            "none of the platforms asked for is available here and takes what was made.",
            field="platform",
            remedy="Name others by --platform; assay detect lists those that are here.",
        )
    plan = msgspec.structs.replace(plan, cases=cases)
    run_plan(plan, tell, on_progress, done=cases_in(log), cache=cache, context=context)
    tested = tuple(case for case in cases if (case.model, case.precision) != (compression.model, "fp32"))
    if tested:
        tests = msgspec.structs.replace(plan, cases=tested)
        done = cases_in(log, TEST_REPORTED)
        run_verification(tests, tell, on_progress, done=done, cache=cache, context=context)


def _plan(compression: Compression, folders: Sequence[str]) -> Plan:
    """Return the base in fp32 and the precisions asked for, and each variant in the precision of its form."""
    own = ("fp32", *compression.precisions)
    sweeps = [Sweep(models=(compression.model,), platforms=compression.platforms, precisions=own)]
    if folders:
        sweeps.append(Sweep(models=tuple(folders), platforms=compression.platforms))
    return make_plan(
        *sweeps,
        weights=compression.weights,
        method=Method(budget_s=compression.budget_s),
        timeout_s=compression.timeout_s,
        trust_remote_code=compression.trust_remote_code,
        allow_pickle=compression.allow_pickle,
    )


def _takes(case: Case, variants: Sequence[RecipeOutcome], machine: Machine) -> bool:
    """Return whether a platform is here, and takes the variant or computes in the precision."""
    if not machine.available(case.platform):
        return False
    variant = next((each.variant for each in variants if str(each.folder) == case.model), None)
    if variant is None:
        return case.precision == "fp32" or refusal(machine, case.platform, case.precision) is None
    return takes(variant, case.platform, machine)
