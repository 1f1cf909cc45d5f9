"""What a model is worth by the user's own evaluation, and what a variant of it costs: the examples of both, paired."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from domain.configuration import Execution, Model
from domain.errors import AssayError, UnsupportedWorkload, UsageError
from domain.variants.events import OutputDistance, QualityMeasured
from domain.variants.lineage import DataReference
from domain.variants.quality import QualityCost, loss_of_pairs
from runner.campaign.campaign import Campaign, survey_machine
from runner.campaign.event_payloads import execution_of, observed_of, provenance, used_hardware
from runner.campaign.plan import Sweep, make_plan
from runner.compression.contract import Examples, Scores
from runner.machine.scrub import scrub
from runner.measure.output_comparison import compare, tolerance_for
from runner.models.sources import ModelSource, resolve
from runner.protocol.tasks import Case, Failed
from runner.quality.commands import agreeing, command_of, examples_of, run_command, same_examples
from runner.quality.examples import DATA_SUFFIXES, read_examples, takes_labels
from runner.quality.scoring import LABELS, OUTPUTS, VALUES

__all__ = [
    "Evaluated",
    "Evaluator",
    "evaluate",
    "output_distance",
    "paired_loss",
    "quality_measured",
    "read_evaluator",
]

OnProgress = Callable[[str, float | None], None]
_METRICS = {"accuracy": ("pt", "higher"), "nll": ("nat", "lower")}
_SAMPLES_PER_SECOND = 16_000


class Evaluator(msgspec.Struct, frozen=True, kw_only=True):
    """What judges a model: examples at a path, or a command of one's own."""

    text: str
    path: Path | None = None
    command: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The file or the command line, without what is private on this machine."""
        return self.path.resolve().name if self.path else scrub(self.text, limit=400)


class Evaluated(msgspec.Struct, frozen=True, kw_only=True):
    """The case in which examples were evaluated, and what the child reported of what did the work."""

    case: Case
    report: dict[str, Any]


def read_evaluator(text: str, *, flag: str = "eval") -> Evaluator:
    """Return what a text names: a file or folder of examples, or a command whose program is on this machine.

    Raises UsageError where it is neither.
    """
    path = Path(text).expanduser()
    if path.is_dir() or (path.is_file() and path.suffix in DATA_SUFFIXES):
        return Evaluator(text=text, path=path)
    command = command_of(text) if path.suffix not in DATA_SUFFIXES or " " in text.strip() else None
    if command is None:
        raise UsageError(
            f"there is no file, folder or program {text!r}.",
            field=flag,
            remedy=f"Give examples ({', '.join(DATA_SUFFIXES)}, a folder of images) or a command: 'python eval.py {{model}}'.",
        )
    return Evaluator(text=text, command=command)


def metric_of(source: ModelSource) -> str:
    """Return the metric of examples for a model: accuracy of a classifier, nll of a language model.

    Raises UnsupportedWorkload for any other, whose evaluation only a command of the user's can know.
    """
    if takes_labels(source):
        return "accuracy"
    if source.task == "text-generation":
        return "nll"
    raise UnsupportedWorkload(
        f"data alone do not tell how right a model for {source.task or 'an unknown task'} is.",
        field="eval",
        remedy="Give a command that scores it: --eval 'python eval.py {model}'. Classifiers and language models take data.",
    )


def evaluate(
    evaluator: Evaluator,
    model: str,
    platform: str = "cpu",
    precision: str = "fp32",
    *,
    examples: Examples | None = None,
    folder: Path | None = None,
    device: str | None = None,
    weights: str = "auto",
    threads: int | None = None,
    options: tuple[str, ...] = (),
    batch_size: int = 1,
    timeout_s: float = 3600.0,
    memory_limit_bytes: int | None = None,
    cache: Path | None = None,
    check_repeats: bool = False,
    on_progress: OnProgress | None = None,
) -> Scores:
    """Return a score of the model for each example.

    Data are evaluated on the platform in the precision and batch that were asked for, as they are measured, in a child of this
    process; `examples` are those that were read for the base already, with its tokenizer. A command gets `folder`,
    else the folder of the model's checkpoint, and does as it likes there; with `check_repeats` it runs twice and must
    give the same. Raises AssayError with a remedy for everything that keeps scores from being there.
    """
    if evaluator.command:
        where = folder or _folder_of(model, weights)
        if on_progress:
            on_progress("evaluate", None)
        scores = run_command(evaluator.command, where, timeout_s=timeout_s)
        return agreeing(scores, run_command(evaluator.command, where, timeout_s=timeout_s)) if check_repeats else scores
    source = resolve(model, weights)
    metric = metric_of(source)
    if examples is None:
        assert evaluator.path is not None
        examples = read_examples(evaluator.path, source)
    plan = make_plan(
        Sweep(
            models=(model,),
            platforms=(platform,),
            precisions=(precision,),
            batch_sizes=(batch_size,),
            options=(options,),
            threads=() if threads is None else (threads,),
            **_sizes(examples),
        ),
        weights=weights,
        device=device,
        timeout_s=timeout_s,
        memory_limit_bytes=memory_limit_bytes,
    )
    return _evaluated(Campaign(plan, trace=False, cache=cache), examples, metric, on_progress)


def _folder_of(model: str, weights: str) -> Path:
    location = resolve(model, weights).location
    if location is None:
        raise UsageError(
            f"{model} has no checkpoint on this machine, and a command evaluates a folder.",
            field="eval",
            remedy="Give the folder of its checkpoint as the model.",
        )
    return location


def _sizes(examples: Examples) -> dict[str, Any]:
    """Return the sizes of a workload whose inputs have the shapes of the examples."""
    shapes = {name: array.shape for name, array in examples.inputs.items()}
    sizes: dict[str, Any] = {}
    if "input_ids" in shapes:
        sizes["sequence_lengths"] = (shapes["input_ids"][1],)
    if pixels := shapes.get("pixel_values", shapes.get("x")):
        sizes["image_sizes"] = (pixels[-1],)
    if samples := shapes.get("input_values"):
        sizes["audio_seconds"] = (samples[1] / _SAMPLES_PER_SECOND,)
    return sizes


def _evaluated(campaign: Campaign, examples: Examples, metric: str, on_progress: OnProgress | None) -> Scores:
    import numpy as np

    case = campaign.cases[0]
    with tempfile.TemporaryDirectory(prefix="assay-eval-") as folder:
        given, scored = Path(folder) / "examples.npz", Path(folder) / "scores.npz"
        labels = {} if metric == "nll" else {LABELS: examples.targets}
        np.savez(given, allow_pickle=False, **examples.inputs, **labels)
        ended = campaign.evaluate(case, str(given), str(scored), metric, on_progress)
        if ended.failure:
            raise _refused(ended.failure)
        with np.load(scored, allow_pickle=False) as stored:
            values, outputs = stored[VALUES], stored[OUTPUTS] if OUTPUTS in stored.files else None
    unit, direction = _METRICS[metric]
    return Scores(
        metric=metric,
        values=values,
        ids=examples.ids,
        unit=unit,
        direction=direction,
        outputs=outputs,
        evaluated=Evaluated(case=case, report=ended.result),
    )


def _refused(failed: Failed) -> AssayError:
    """Return a child's failure as an error of this process."""
    kinds = {"UsageError": UsageError, "UnsupportedWorkload": UnsupportedWorkload}
    kind = kinds.get(failed.error, UnsupportedWorkload if failed.outcome == "unsupported" else AssayError)
    return kind(f"it could not be evaluated: {failed.message}", field="eval", remedy=failed.remedy)


def paired_loss(base: Scores, variant: Scores) -> QualityCost:
    """Return what the variant loses against the base on the same examples; raises UsageError where they are not the same."""
    same_examples(base, variant, "the variant")
    return loss_of_pairs(
        base.values, variant.values, metric=base.metric, unit=base.unit, direction=base.direction, seed=0
    )


def output_distance(base: Scores, variant: Scores) -> OutputDistance | None:
    """Return how far the variant's outputs are from the base's over all examples; None where either was not kept.

    It is no measure of quality: outputs may be far apart and right, or near and wrong.
    """
    if base.outputs is None or variant.outputs is None:
        return None
    compared = compare("outputs", variant.outputs, base.outputs, tolerance_for("fp32"))
    if compared.cosine is None:
        return None
    return OutputDistance(cosine=compared.cosine, max_absolute=compared.max_absolute)


def quality_measured(
    evaluator: Evaluator,
    base: Scores,
    variant: Scores,
    *,
    run_id: str,
    base_model: Model,
    model: Model,
    data: DataReference | None = None,
    execution: Execution | None = None,
) -> QualityMeasured:
    """Return the event's data of what a variant, or the same model in another precision, costs.

    `data` are the examples' reference, None: those of the command. Of a command nobody here sees what did the work: without
    `execution` its platform is `other`, on this machine's processor.
    """
    cost = paired_loss(base, variant)
    seen = variant.evaluated
    machine, _ = survey_machine((seen.case.platform,) if seen else ())
    hardware = machine.hardware_for("cpu")
    if seen:
        observed = observed_of(seen.case, seen.report["observed"])
        hardware = machine.hardware_for(observed.platform or seen.case.platform, observed.device)
        hardware, execution = used_hardware(hardware, observed), execution_of(seen.case, seen.report)
    return QualityMeasured(
        run_id=run_id,
        model=model,
        base=base_model,
        execution=execution or Execution(platform="other"),
        hardware=hardware,
        data=data or examples_of(evaluator.command, variant),
        provenance=provenance(),
        evaluator=evaluator.name,
        distance=output_distance(base, variant),
        environment=machine.reference(),
        **msgspec.structs.asdict(cost),
    )
