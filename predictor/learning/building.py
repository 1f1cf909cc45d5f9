"""Make a predictor: from a table of rows, or from another predictor's trees and the calibrations of a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from predictor.artifact.artifact import DIFFICULTY, Card, Predictor, Spread, encode
from predictor.artifact.calibrated import CalibratedMethod
from predictor.artifact.conformal import Widths
from predictor.artifact.coverage import coverage_of
from predictor.artifact.difficulty import Difficulty, cross_fitted
from predictor.artifact.tails import fit_tails
from predictor.failure_rates.cases import TriedConfiguration
from predictor.failure_rates.shares import Shares
from predictor.features.dataset import Row, by_software, minor_version, training_rows
from predictor.features.features import FEATURES, FEATURES_VERSION, version_number
from predictor.features.operators_route import SpecOf, tabulate
from predictor.features.table import Table
from predictor.features.traces import TraceBook
from predictor.general.method import GENERAL
from predictor.kernels.kept import TREES
from predictor.learning.blend import QUICK, BlendMethod, FittedBlend
from predictor.learning.evaluation import HeldOut, hold_out, summarise
from predictor.learning.few_shot import Few, few_of
from predictor.learning.machines import Machines
from predictor.learning.training import Learner, Trees
from predictor.llm_serving.shipped import SERVING
from predictor.memory.facts import tabulate as memory_table
from predictor.memory.kept import memory_of

__all__ = ["LIGHT", "Needs", "Trained", "build_from_table", "train"]


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a log must hold before it gets trees of its own; with less the base's are kept and calibrated.

    With 400 architectures a new one was predicted with 11 % error, with 100 with 17 %. A software configuration with
    fewer than `architectures_each` does not train trees; it is calibrated.
    """

    rows: int = 5000
    architectures: int = 400
    architectures_each: int = 100


ENOUGH = Needs()
LIGHT = (Learner(objective="l2", trees=200, learning_rate=0.1, leaves=31, rows_per_leaf=20, feature_share=0.5),)
"""What the held-out errors of a log's own trees are measured with: a little worse than the trees, so a little wide."""


TRAINING_ROWS = 1000
"""With as many measured training steps their error on a new architecture is reported."""


class Trained(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A predictor, its bytes, and the data of its `assay.predictor.trained.v1` event."""

    predictor: Predictor
    content: bytes
    event_data: dict[str, Any]


def train(
    rows: Sequence[Row],
    book: TraceBook,
    spec_of: SpecOf,
    base: Predictor,
    *,
    position: int = 0,
    needs: Needs = ENOUGH,
    learners: Sequence[Learner] = QUICK,
    cases: Sequence[TriedConfiguration] = (),
    machines: Machines | None = None,
) -> Trained:
    """Return the predictor that a log's rows give, with the chances that its cases tell of.

    With enough traced rows and architectures the trees are fitted on them; otherwise the
    base's trees stay, and the card's limits say how much is missing. Either way each software configuration that the
    trees do not know is calibrated from its own rows. `machines` fit the trees together; everything else each of them does
    by itself.
    """
    everything = tabulate(rows, book, spec_of)
    table = everything.take([index for index, row in enumerate(everything.rows) if row.mode == "inference"])
    broad = _broad(table, needs)
    architectures = set(table.architecture[broad].tolist())
    if broad.sum() >= needs.rows and len(architectures) >= needs.architectures:
        card, fitted, others = build_from_table(
            table.take(broad), spec_of, learners=learners, checks=LIGHT, machines=machines
        )
        card = msgspec.structs.replace(card, name="log", trees_from="log", position=position)
        others |= {name: trees for name, trees in base.others.items() if name.startswith((SERVING, TREES, GENERAL))}
    else:
        missing = (
            f"trees of its own need {max(0, needs.rows - int(broad.sum()))} more traced rows and "
            f"{max(0, needs.architectures - len(architectures))} more architectures; the base's are kept"
        )
        card = msgspec.structs.replace(base.card, position=position, limits=[*base.card.limits, missing])
        fitted, others = base.base, base.others
    card = msgspec.structs.replace(
        card,
        few=few_rows(everything, card, base.card.few),
        tails=fit_tails(rows) or base.card.tails,
        shares=Shares.fitted(cases) if cases else base.card.shares,
        memory=memory_of(memory_table(training_rows(rows, "memory", None), book), base.card.memory),
        serving=base.card.serving,
        kernels=base.card.kernels,
        general=base.card.general,
        data={**card.data, "log": {"rows": len(everything), "left_out": everything.dropped, "position": position}},
    )
    return finish(card, fitted, others)


def finish(card: Card, base: FittedBlend, others: dict[str, Trees]) -> Trained:
    """Return the card and trees as an artifact with its event's data."""
    content, digest = encode(card, base, others)
    brief = {
        "name": card.name,
        "trees_from": card.trees_from,
        "rows": card.rows,
        "few": None if card.few is None else card.few.document(),
        "widths": msgspec.to_builtins(card.widths),
        "scores": card.scores,
        "limits": card.limits,
        "data": card.data,
    }
    return Trained(
        predictor=Predictor(card=card, base=base, digest=digest, others=others),
        content=content,
        event_data={"digest": digest, "position": card.position, "card": brief},
    )


def _broad(table: Table, needs: Needs) -> Any:
    """Which rows belong to a software configuration with enough architectures to train trees."""
    chosen = np.zeros(len(table), dtype=bool)
    for members in by_software(table.rows).values():
        if len(set(table.architecture[members].tolist())) >= needs.architectures_each:
            chosen[members] = True
    return chosen


def build_from_table(
    table: Table,
    spec_of: SpecOf,
    *,
    learners: Sequence[Learner] = QUICK,
    checks: Sequence[Learner] = QUICK,
    shots: Sequence[int] = (0,),
    fields: bool = True,
    machines: Machines | None = None,
) -> tuple[Card, FittedBlend, dict[str, Trees]]:
    """Fit a base on a table and measure it on held-out groups; the card holds widths, spreads and scores.

    The other trees are those of difficulty: the widths of a level are in the units that its errors taught.

    Inference is what the widths and scores are of; training steps, where there are enough, have a score of their own.
    Without `fields` the base holds nothing that speaks of single rows.
    """
    method = CalibratedMethod(BlendMethod(checks, fields=fields, machines=machines))
    steps = np.array([row.mode == "training" for row in table.rows], dtype=bool)
    everything, table = table, table.take(~steps)
    held = {split: hold_out(table, method, split) for split in ("random", "architecture", "family")}
    scores = {split: summarise(table, value, split, "throughput", 0) for split, value in held.items()}
    levels: dict[str, tuple[Any, Sequence[Any] | None]] = {
        level: (_scaled(table, held[split]), held[split].groups.tolist() if split == "family" else None)
        for level, split in _SPLITS.items()
    }
    hard = {level: _difficulty(table, held[split]).text for level, split in _SPLITS.items()}
    devices = None
    if len({row.hardware for row in table.rows}) > 1:
        for count in shots:
            item = hold_out(table, method, "hardware", shots=count)
            scores[f"hardware-{count}"] = summarise(table, item, "hardware", "throughput", count)
            if count == 0:
                devices = item
                # So few devices do not tell what is hard on the next one: here the doubt itself is the unit.
                levels["new_hardware"] = (item.errors / item.difficulty, item.groups.tolist())
    if steps.sum() >= TRAINING_ROWS:
        part = everything.take(steps)
        document = summarise(part, hold_out(part, method, "architecture"), "architecture", "throughput", 0)
        scores["training"] = {**document, "mode": "training"}
    card = Card(
        name="prior",
        rows=len(everything),
        position=0,
        features_version=FEATURES_VERSION,
        features=list(FEATURES),
        coverage=coverage_of(everything, spec_of),
        widths=Widths.fitted(levels),
        spreads={"trees": _tree_spread(table, devices, held["family"]), "roofline": roofline_spread(table)},
        newest_version=_newest_versions(table),
        scores={name: _short(score) for name, score in scores.items()},
        data={
            "rows": len(everything),
            "left_out": everything.dropped,
            **({} if machines is None else {"machines": machines.world}),
        },
    )
    method_of_base = BlendMethod(learners, fields=fields, machines=machines)
    return card, method_of_base.fit(everything), {DIFFICULTY: Trees(hard)}


_SPLITS = {"interpolation": "random", "new_architecture": "architecture", "new_family": "family"}
"""By level of extrapolation, the split whose errors are of that level."""


def _scaled(table: Table, held: HeldOut) -> Any:
    """Errors in units of the difficulty that the errors of other groups teach, as widths are kept."""
    return held.errors / cross_fitted(table.values[held.index], held.difficulty, held.errors, held.groups)


def _difficulty(table: Table, held: HeldOut) -> Difficulty:
    return Difficulty.fitted(table.values[held.index], held.difficulty, held.errors)


def _newest_versions(table: Table) -> dict[str, str]:
    versions: dict[str, list[str]] = {}
    for row in table.rows:
        versions.setdefault(row.platform, []).append(minor_version(row.runtime_version))
    return {name: max(version, key=version_number) for name, version in sorted(versions.items())}


def _short(answer: dict[str, Any]) -> dict[str, Any]:
    """An evaluation for the card: of families only the error."""
    families = {name: {"rows": value["rows"], "mape": value["mape"]} for name, value in answer["by_family"].items()}
    kept = {**answer, "by_family": families if answer["split"] == "family" else {}}
    kept.pop("left_out")
    return kept


def _tree_spread(table: Table, devices: HeldOut | None, families: HeldOut) -> Spread:
    """Devices lie about the trees as held-out ones did; models of a device as held-out families did."""
    within = float(np.std(families.errors))
    if devices is None:
        return Spread(centre=0.0, between=round(within, 6), within=round(within, 6))
    rows = [table.rows[index] for index in devices.index]
    groups = by_software(rows).values()
    means = [float(np.mean(devices.errors[members])) for members in groups]
    return Spread(centre=0.0, between=round(float(np.sqrt(np.mean(np.square(means)))), 6), within=round(within, 6))


def roofline_spread(table: Table) -> Spread:
    """How measured times lie about the plain roofline, over the software configurations of a table."""
    groups = [table.residual[members] for members in by_software(table.rows).values()]
    means = np.array([group.mean() for group in groups])
    within = np.concatenate([group - group.mean() for group in groups])
    centre = float(np.median(means))
    return Spread(
        centre=round(centre, 6),
        between=round(float(np.sqrt(np.mean((means - centre) ** 2))), 6),
        within=round(float(np.std(within)), 6),
    )


def few_rows(table: Table, card: Card, base: Few | None, *, measure: bool = True) -> Few | None:
    """Return what the rows teach about software that the trees do not know; see `few.few_of`."""
    unknown = [
        index
        for index, row in enumerate(table.rows)
        if not card.coverage.near_software(*row.software[1:4], row.mode)
        or table.subjects[index].category not in card.coverage.categories
    ]
    return few_of(table.take(unknown), base, measure=measure)
