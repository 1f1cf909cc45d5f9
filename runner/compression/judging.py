"""Evaluation of a compression: the model itself once, then each variant and precision beside it, as events of quality."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from domain.configuration import Model
from domain.errors import AssayError, UsageError
from domain.events import QUALITY_MEASURED, VARIANT_CREATED, uuid7
from domain.variants.events import VariantCreated
from domain.variants.lineage import Variant
from domain.vocabulary import asked_name
from runner.campaign.campaign import refusal
from runner.campaign.event_payloads import Machine, runner_source, stamped
from runner.campaign.run import OnEvent
from runner.compression.contract import EVENTS, Compression, RecipeOutcome, Scores
from runner.compression.folder import own_precision, quantized_already
from runner.models.sources import ModelSource
from runner.platforms.registry import create, names
from runner.spool.event_file import read_lines

__all__ = ["any_judged", "events_in", "folder_for_command", "judge", "judge_base", "takes"]


class _Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation: of a variant in its folder, or of the model itself in a precision (`variant` None)."""

    name: str
    model: str
    platform: str
    precision: str
    variant: Variant | None = None

    def key(self, source: ModelSource, *, by_data: bool) -> tuple[str, str, str | None]:
        """Return what `_judged` has where it was done: a variant has one precision on a platform, a command no platform."""
        if self.variant is None:
            return source.id, self.platform, self.precision
        return self.variant.id, self.platform if by_data else "other", None


def judge(
    compression: Compression,
    made: Sequence[RecipeOutcome],
    source: ModelSource,
    machine: Machine,
    tell: OnEvent,
    on_recipe: Callable[[str, str, float | None], None],
    cache: Path | None,
    base: Scores | None,
) -> list[str]:
    """Evaluate the base and each variant where it was not done before, and tell the cost; return why some have none."""
    from runner.quality.evaluation import evaluate, quality_measured, read_evaluator
    from runner.quality.examples import read_examples

    assert compression.evaluate is not None
    evaluator = read_evaluator(compression.evaluate)
    examples = read_examples(evaluator.path, source) if evaluator.path else None
    models = _models(compression.out / EVENTS)
    run, problems = uuid7(), []
    done = _judged(compression.out / EVENTS, examples.reference.digest if examples else None, evaluator.name)
    source_name = runner_source(machine.environment)
    for each in _evaluations(compression, made, machine, once=examples is None):
        if each.key(source, by_data=examples is not None) in done:
            continue

        def step(what: str, share: float | None, name: str = f"{each.name} {each.platform}") -> None:
            on_recipe(name, what, share)

        try:
            base = base or judge_base(compression, source, machine, on_recipe, cache)
            own = evaluate(
                evaluator,
                each.model,
                each.platform,
                each.precision,
                examples=examples,
                folder=folder_for_command(Path(each.model), each.variant)
                if each.variant and evaluator.command
                else None,
                weights="auto" if each.variant else compression.weights,
                timeout_s=compression.timeout_s,
                cache=cache,
                on_progress=step,
            )
            model, of = models[each.variant.id] if each.variant else 2 * (_evaluated_model(base),)
            data = quality_measured(
                evaluator,
                base,
                own,
                run_id=run,
                base_model=of,
                model=model,
                data=examples.reference if examples else None,
            )
        except AssayError as error:
            problems.append(f"{each.name} on {each.platform}: {error.detail} {error.remedy or ''}".strip())
            if base is None:
                return problems
            continue
        tell(stamped(QUALITY_MEASURED, data, source_name, model.id))
    return problems


def judge_base(
    compression: Compression,
    source: ModelSource,
    machine: Machine,
    on_recipe: Callable[[str, str, float | None], None],
    cache: Path | None,
) -> Scores:
    """Return the scores of the model itself in fp32; raises AssayError where the evaluation gives none."""
    from runner.quality.evaluation import evaluate, read_evaluator
    from runner.quality.examples import read_examples

    assert compression.evaluate is not None
    evaluator = read_evaluator(compression.evaluate)
    places = ("cpu", *(compression.platforms or names()))
    return evaluate(
        evaluator,
        compression.model,
        next((name for name in places if name in machine.platforms and machine.available(name)), places[-1]),
        examples=read_examples(evaluator.path, source) if evaluator.path else None,
        weights=compression.weights,
        timeout_s=compression.timeout_s,
        cache=cache,
        check_repeats=True,
        on_progress=lambda what, share: on_recipe("base", what, share),
    )


def _evaluated_model(scores: Scores) -> Model:
    return msgspec.convert(scores.evaluated.report["model"], Model)


def _evaluations(
    compression: Compression, made: Sequence[RecipeOutcome], machine: Machine, *, once: bool
) -> list[_Evaluation]:
    """Return the evaluations, those of the model itself first; a command judges a variant `once`."""
    places = [platform for platform in compression.platforms or names() if machine.available(platform)]
    result = [
        _Evaluation(name=precision, model=compression.model, platform=platform, precision=precision)
        for precision in compression.precisions
        for platform in places
        if refusal(machine, platform, precision) is None
    ]
    for each in made:
        if each.variant is None:
            continue
        variant, takers = each.variant, [platform for platform in places if takes(each.variant, platform, machine)]
        result += [
            _Evaluation(
                name=each.recipe,
                model=str(each.folder),
                platform=platform,
                precision=own_precision(variant, create(platform).forms),
                variant=variant,
            )
            for platform in (takers[:1] if once else takers)
        ]
    return result


def _models(log: Path) -> dict[str, tuple[Model, Model]]:
    """Return variant and base of each variant that a file of events has, by the variant's id."""
    created = [
        msgspec.convert(event["data"], VariantCreated) for event in events_in(log) if event["type"] == VARIANT_CREATED
    ]
    return {data.model.id: (data.model, data.base) for data in created}


def any_judged(log: Path) -> bool:
    """Return whether a file of events has a quality of anything."""
    return log.is_file() and any(event["type"] == QUALITY_MEASURED for event in events_in(log))


def _judged(log: Path, data: str | None, evaluator: str) -> set[tuple[str, str, str | None]]:
    """Return what a file of events has a quality of, from the same examples or command: model, platform and precision.

    Of a variant the precision is None.
    """
    result: set[tuple[str, str, str | None]] = set()
    for event in events_in(log):
        if event["type"] != QUALITY_MEASURED:
            continue
        row = event["data"]
        same = row["data"]["digest"] == data if data else row.get("evaluator") == evaluator
        if same:
            execution = row["execution"]
            runtime = (execution.get("runtime") or {}).get("name") or ""
            own = execution["precision"] if row["model"]["id"] == row["base"]["id"] else None
            result.add((row["model"]["id"], asked_name(execution["platform"], runtime), own))
    return result


def events_in(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a file that were written whole."""
    return (msgspec.json.decode(line) for line in read_lines(path, whole_only=True))


def folder_for_command(folder: Path, variant: Variant) -> Path:
    """Return the folder of the form that a command judges: the checkpoint, else a graph.

    Raises UsageError for a checkpoint that a platform quantizes when it loads it: a command would judge its wide weights.
    """
    forms = [form for form in variant.forms if form.kind != "checkpoint" or form.precision not in ("int8", "int4")]
    if not forms:
        raise UsageError(
            f"{variant.recipe} is quantized when a platform loads it, and a command would see the weights before that.",
            field="eval",
            remedy="Give labelled examples to --eval.",
        )
    return folder / min(forms, key=lambda form: form.kind != "checkpoint").kind


def takes(variant: Variant, platform: str, machine: Machine) -> bool:
    """Return whether a platform takes a form of a variant, and quantizes it where it is loaded."""
    form = next((form for kind in create(platform).forms if (form := variant.form_for(kind))), None)
    if form is None:
        return False
    return quantized_already(form) or refusal(machine, platform, form.precision) is None
