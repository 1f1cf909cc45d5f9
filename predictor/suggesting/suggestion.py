"""The answer to `assay suggest`: runs, why each, whom it helps, and the plans that make them."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec
import numpy as np

from domain.answers import (
    DeviceSuggestions,
    ExpectedError,
    OpenQuestions,
    SuggestedPlan,
    SuggestedRun,
    Suggestions,
    Sweep,
)
from ingest.projection import Tables
from predictor.artifact.artifact import Predictor
from predictor.features.dataset import minor_version
from predictor.features.table import Array
from predictor.suggesting.belief import Belief, Kernel, Points, covariance
from predictor.suggesting.calibrations import calibrated, calibrations
from predictor.suggesting.question import SuggestQuestion
from predictor.suggesting.questions import Configuration, gathered, mixes, targets

__all__ = ["Costs", "SuggestedCase", "choose", "plan_of", "run_seconds", "suggest"]

_LISTS = {
    "sequence_length": "sequence_lengths",
    "image_size": "image_sizes",
    "images": "images",
    "frames": "frames",
    "audio_seconds": "audio_seconds",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
}


def plan_of(hardware: str, runs: Iterable[SuggestedRun], budget_s: float) -> SuggestedPlan:
    """Return the plan of a device's runs in their order; neighbours that differ in model alone share a sweep."""
    sweeps: list[Sweep] = []
    for settings, group in groupby(runs, key=_sweep):
        models = list(dict.fromkeys(run.model for run in group))
        sweeps.append(msgspec.structs.replace(settings, models=models))
    return SuggestedPlan(assay=1, name=f"suggested-{hardware}", weights="random", budget_s=budget_s, sweeps=sweeps)


def _sweep(run: SuggestedRun) -> Sweep:
    """Return the sweep of a run, without its model."""
    return Sweep(
        models=[],
        platforms=[run.platform],
        precisions=[run.precision],
        modes=[] if run.mode == "inference" else [run.mode],
        compiled=[True] if run.compiled else [],
        batch_sizes=[run.batch_size],
        **{_LISTS[name]: [value] for name, value in run.stated().items()},
    )


START_S = 5.0
"""Starting a process, its imports and its checks; the median beside preparing and measuring of 189 runs was 4.7 to 6.4."""
CALLS = 8.0
"""First run, warm-up and samples of a call that is too long for the budget: 1 + 4 + 3."""
PREPARE_S = 3.0
"""Loading, converting and compiling where a platform has measured nothing yet."""
BUDGET_S = 5.0
_STAGES = ("load_ms", "convert_ms", "compile_ms")


def run_seconds(latency_s: float, *, prepare_s: float = PREPARE_S, budget_s: float = BUDGET_S) -> float:
    """Return what one configuration takes: `latency_s` of one call, `budget_s` of steady measuring."""
    return START_S + prepare_s + max(budget_s, CALLS * latency_s)


class Costs:
    """Expected seconds of runs, from what earlier runs of the platform took to prepare."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], budget_s: float = BUDGET_S) -> None:
        """Take rows of the view `measurements`; imported ones tell of no run of ours."""
        self._budget_s = budget_s
        seen: dict[str, list[float]] = {}
        for row in rows:
            stages = [row[name] for name in _STAGES if row.get(name) is not None]
            if row["origin"] == "measured" and stages:
                seen.setdefault(row["platform"], []).append(sum(stages) / 1e3)
        self._prepare_s = {platform: statistics.median(value) for platform, value in seen.items()}

    def seconds(self, platform: str, latency_ms: float | None) -> float:
        """Return the seconds of one run; where no latency is known, of one that fits the budget."""
        prepare_s = self._prepare_s.get(platform, PREPARE_S)
        return run_seconds((latency_ms or 0.0) / 1e3, prepare_s=prepare_s, budget_s=self._budget_s)


WORTH = 1e-3
"""A run that takes less than this share of what there was at first is not worth its entry."""
HELPED = 0.1
"""A question whose variance falls by this share counts as helped."""


class SuggestedCase(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One run: which configuration, what it costs, and what it takes from the weighted variance.

    `own` is the share of that which it takes from its own configuration; `helped` are the questions beside it whose
    variance falls by a tenth or more, the most helped first.
    """

    index: int
    seconds: float
    gain: float
    own: float
    helped: tuple[int, ...]


def choose(belief: Belief, seconds: Array, weights: Array, budget_s: float, most: int) -> list[SuggestedCase]:
    """Return the runs for a budget in the order in which they are worth making; `belief` has them measured then.

    `weights` say how much each configuration is asked for, 0 for one that could only be run. What costs more than is
    left of the budget is passed over.
    """
    chosens: list[SuggestedCase] = []
    left = budget_s
    open_ = np.ones(len(seconds), dtype=bool)
    least = WORTH * float(belief.variance @ weights)
    while len(chosens) < most:
        gains = np.where(open_ & (seconds <= left), belief.gains(weights), 0.0)
        index = int(np.argmax(gains / seconds)) if len(gains) else 0
        if not len(gains) or gains[index] <= least:
            break
        chosens.append(_choice_chosen(belief, index, seconds, weights))
        belief.measure(index)
        open_[index] = False
        left -= float(seconds[index])
    return chosens


def _choice_chosen(belief: Belief, index: int, seconds: Array, weights: Array) -> SuggestedCase:
    fall = belief.fall(index)
    gain = float(fall @ weights)
    share = np.where(weights > 0, fall / np.maximum(belief.variance, 1e-12), 0.0)
    share[index] = 0.0
    helped = np.flatnonzero(share >= HELPED)
    return SuggestedCase(
        index=index,
        seconds=float(seconds[index]),
        gain=gain,
        own=float(fall[index] * weights[index]) / gain,
        helped=tuple(helped[np.argsort(-share[helped], kind="stable")].tolist()),
    )


LARGEST = 1500
"""Configurations that are weighed against each other: the time for it grows with their square."""
BETWEEN_BARE = 0.5
"""Spread of devices about the bare roofline, which nobody knows beforehand, in log units; as calibration has it."""
_EXAMPLES = 3
_WORDS = {"roofline": "the plain roofline's", "reference": "taken from another device"}
_COLUMNS = (
    "position",
    "origin",
    "hardware_id",
    "platform",
    "runtime_name",
    "precision",
    "compiled",
    "runtime_version",
    "model_id",
    "mode",
    "load_ms",
    "convert_ms",
    "compile_ms",
)
NEWEST = 20_000
"""So many of the newest measurements tell what runs cost and what software was measured: a log may hold millions."""


def suggest(
    tables: Tables, suggest_question: SuggestQuestion, predictor: Predictor, notes: Sequence[str]
) -> Suggestions:
    """Return the runs that take most from the error of the open questions within the budget (docs/suggestions.md).

    Raises what `facts.known_at` raises for what is named and not known.
    """
    wanted = targets(tables, suggest_question)
    result, document = gathered(tables, wanted, predictor, notes)
    result, left = _thinned(result)
    if left:
        document.append(f"{left} of the open configurations were left out of the comparison; ask about fewer models.")
    newest = _newest(tables)
    costs = Costs(newest)
    measured = _measured_models(newest, suggest_question.mode)
    first = calibrations(tables, result, predictor, suggest_question.budget_s)
    first_s = sum(item.seconds for item in first)
    rest = msgspec.structs.replace(suggest_question, budget_s=suggest_question.budget_s - first_s)
    after_first = calibrated(result, first, predictor.card.general)
    chosen, before, after = _chosen(after_first, predictor, costs, measured, rest)
    if first:
        before = _error(_belief(result, predictor, measured), _weights(result))
    runs = _runs(after_first, chosen, measured)
    open_ = [item for item in result if item.spread is not None]
    return Suggestions(
        position=tables.position,
        predictor=predictor.digest,
        budget_s=suggest_question.budget_s,
        seconds=round(first_s + sum(item.seconds for item in chosen), 1),
        questions=OpenQuestions(
            source=wanted.source,
            models=len(wanted.questions),
            open=len(open_),
            measured=len(result) - len(open_),
        ),
        calibrations=first,
        runs=runs,
        devices=_devices(runs),
        expected=ExpectedError(error_before=before, error_after=after),
        abstained=None if runs or first else _abstained(tables, suggest_question, wanted.questions, open_, costs),
        notes=[*notes, *document],
    )


def _thinned(configurations: list[Configuration]) -> tuple[list[Configuration], int]:
    """Keep as many as can be compared, every n-th in the order of the questions."""
    if len(configurations) <= LARGEST:
        return configurations, 0
    kept = np.unique(np.linspace(0, len(configurations) - 1, LARGEST).astype(int))
    return [configurations[index] for index in kept], len(configurations) - len(kept)


def _newest(tables: Tables) -> list[dict[str, Any]]:
    page: dict[str, Any] = {"columns": list(_COLUMNS), "limit": NEWEST, "descending": True}
    rows: list[dict[str, Any]] = tables.view("measurements", {"origin": "measured"}, **page).to_pylist()
    return rows


def _measured_models(rows: Sequence[dict[str, Any]], mode: str) -> Counter[tuple[str, ...]]:
    """How many models each software configuration has measured."""
    seen = {(_software(row), row["model_id"]) for row in rows if row["mode"] == mode}
    return Counter(software for software, _ in seen)


def _software(row: dict[str, Any]) -> tuple[str, ...]:
    compiled = "compiled" if row["compiled"] else ""
    version = minor_version(row["runtime_version"] or "")
    return (
        row["hardware_id"],
        row["platform"],
        row["runtime_name"] or "",
        row["precision"] or "",
        compiled,
        version,
    )


def _chosen(
    configurations: Sequence[Configuration],
    predictor: Predictor,
    costs: Costs,
    measured: Counter[tuple[str, ...]],
    suggest_question: SuggestQuestion,
) -> tuple[list[SuggestedCase], float | None, float | None]:
    """Choose, and say how wrong the open answers are expected to be before and after, as a share of the latency."""
    weights = _weights(configurations)
    if not weights.any():
        return [], None, None
    belief = _belief(configurations, predictor, measured)
    seconds = np.array([costs.seconds(entry.platform, entry.latency_ms) for entry in configurations])
    # What is measured is no candidate.
    seconds[weights == 0] = math.inf
    before = _error(belief, weights)
    chosen = choose(belief, seconds, weights, suggest_question.budget_s, suggest_question.top)
    return chosen, before, _error(belief, weights)


def _weights(configurations: Sequence[Configuration]) -> Array:
    return np.array([entry.weight for entry in configurations])


def _belief(
    configurations: Sequence[Configuration], predictor: Predictor, measured: Counter[tuple[str, ...]]
) -> Belief:
    """Return what is known about the errors, with what is measured taken in."""
    kernel = Kernel()
    belief = Belief(covariance(_points(configurations, predictor, measured), kernel), kernel.noise)
    for index, item in enumerate(configurations):
        if item.spread is None:
            belief.measure(index)
    return belief


def _points(
    configurations: Sequence[Configuration], predictor: Predictor, measured: Counter[tuple[str, ...]]
) -> Points:
    usual = float(np.median([item.spread for item in configurations if item.spread is not None]))
    return Points(
        software=[item.software for item in configurations],
        mix=mixes(configurations),
        balance=np.array([item.balance for item in configurations]),
        work=np.array([item.work for item in configurations]),
        spread=np.array([usual if item.spread is None else item.spread for item in configurations]),
        common=np.array([_common(item, predictor, measured[item.software]) for item in configurations]),
    )


def _common(configuration: Configuration, predictor: Predictor, models: int) -> float:
    """The share of the variance that is the software configuration's own: it falls with the models measured on it."""
    spread = predictor.card.spreads["roofline" if configuration.basis == "roofline" else "trees"]
    between = max(spread.between, BETWEEN_BARE) if configuration.basis == "roofline" else spread.between
    offset = spread.within**2 * between**2 / (spread.within**2 + models * between**2)
    return offset / (offset + spread.within**2)


def _error(belief: Belief, weights: np.ndarray) -> float:
    mean = float(np.maximum(belief.variance, 0.0) @ weights / weights.sum())
    return float(f"{math.expm1(math.sqrt(mean)):.3g}")


def _runs(
    configurations: Sequence[Configuration], chosen: Sequence[SuggestedCase], measured: Counter[tuple[str, ...]]
) -> list[SuggestedRun]:
    total = sum(entry.gain for entry in chosen)
    seen = set(measured)
    runs: list[SuggestedRun] = []
    for rank, item in enumerate(chosen, 1):
        this = configurations[item.index]
        runs.append(
            SuggestedRun(
                rank=rank,
                model=this.model,
                hardware=this.hardware,
                own=this.own,
                platform=this.platform,
                precision=this.precision,
                batch_size=this.batch_size,
                **this.sizes,
                mode=this.mode,
                compiled=this.compiled,
                seconds=round(item.seconds, 1),
                basis=this.basis,
                latency_ms=this.latency_ms,
                share=float(f"{item.gain / total:.3g}"),
                helps=len(item.helped),
                helps_most=[_named(configurations[index]) for index in item.helped[:_EXAMPLES]],
                why=_why(this, item, first=this.software not in seen),
            )
        )
        seen.add(this.software)
    return runs


def _named(configuration: Configuration) -> str:
    return f"{configuration.model} {configuration.platform} {configuration.precision} batch {configuration.batch_size}"


def _why(this: Configuration, chosen: SuggestedCase, *, first: bool) -> str:
    if this.mix is None:
        return "nothing can be predicted of this model without its operator trace, which the run makes"
    others = len(chosen.helped)
    if first and others:
        return f"first measurement of {this.platform} {this.precision} here: {_counted(others, 'rests', 'rest')} on it"
    if chosen.own >= 0.5 and this.spread is not None:
        sure = f"its own answer is {_WORDS.get(this.basis, this.basis)}, give or take {math.expm1(this.spread):.0%}"
        return f"{sure}; {_counted(others, 'gains', 'gain')}" if others else sure
    return f"{_counted(others, 'has', 'have')} like operators and a like balance"


def _counted(answers: int, value: str, several: str) -> str:
    return f"1 other open answer {value}" if answers == 1 else f"{answers} other open answers {several}"


def _devices(runs: Sequence[SuggestedRun]) -> list[DeviceSuggestions]:
    """One entry a device in the order of its first run, with its plan."""
    devices: dict[str, list[SuggestedRun]] = {}
    for run in runs:
        devices.setdefault(run.hardware, []).append(run)
    return [
        DeviceSuggestions(
            hardware=name,
            own=theirs[0].own,
            runs=len(theirs),
            seconds=round(sum(run.seconds for run in theirs), 1),
            plan=plan_of(name, theirs, BUDGET_S),
        )
        for name, theirs in devices.items()
    ]


def _abstained(
    tables: Tables,
    suggest_question: SuggestQuestion,
    questions: Sequence[Any],
    open_: Sequence[Configuration],
    costs: Costs,
) -> str:
    if not questions:
        return "No model is traced and nothing was asked. Begin with one: assay bench --models-set small --limit 5"
    if open_:
        least = min(costs.seconds(item.platform, item.latency_ms) for item in open_)
        return f"No run fits {suggest_question.budget_s:g} s; the shortest takes about {least:.0f} s."
    if suggest_question.hardware == "own" and not any(
        row["described"] or row["measured"] for row in tables.hardware().to_pylist()
    ):
        return "No hardware of yours is known. Run `assay detect --post` on it first, or name hardware."
    return "Nothing is open: what was asked is measured or imported, or the devices cannot do it."
