"""Rows of served or generating language models as a table, with the estimate of physics beside what was measured."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from domain.catalogues import language_models
from domain.catalogues.hardware import HardwareSpec
from domain.performance.roofline import DEFAULT_LAUNCH_S, LAUNCH_S
from predictor.features.dataset import Row, measured_target, training_rows
from predictor.features.table import Array, Table
from predictor.llm_serving.deployment import Deployment, Storage, deployment_of
from predictor.llm_serving.features import FEATURES, features_of, matrix_of
from predictor.llm_serving.physics import Device, Estimate, device_of, estimate

__all__ = ["TARGETS", "ServingConfigurations", "SpecOf", "asked", "tabulate", "taught"]

SpecOf = Callable[[str], HardwareSpec | None]
TARGETS = ("ttft", "tpot", "throughput")
IMPOSSIBLE = 2.0
"""Times faster than physics; published tables hold a 7B model at 24,793 tokens a second for one sequence."""


def tabulate(rows: Sequence[Row], spec_of: SpecOf, target: str = "tpot") -> Table:
    """Return the table of those rows whose model's sizes, device's figures and workload are known.

    The unit is seconds: to the first token, between tokens, or (throughput) of one token of all requests together.
    Figures that were published again, with another name for the same weights or other digits, count once.
    """
    kept: list[Row] = []
    values: list[list[float]] = []
    prior: list[float] = []
    measured: list[float] = []
    models: list[language_models.LanguageModel] = []
    dropped: Counter[str] = Counter()
    seen: set[tuple[object, ...]] = set()
    devices: dict[tuple[str, str, Storage], Device | None] = {}
    for row in rows:
        value = measured_target(row, target)
        of_row = _of_row(row, spec_of, devices) if value is not None else "no figure of the target"
        if isinstance(of_row, str):
            dropped[of_row] += 1
            continue
        model, deployment, made, widened = of_row
        figures = (model.architecture, *_load(row), *(_rounded(item) for item in (row.ttft_ms, row.tpot_ms, value)))
        if figures in seen:
            dropped["repeated figures"] += 1
            continue
        seen.add(figures)
        kept.append(row)
        models.append(model)
        values.append(features_of(row, model, deployment, made, widened))
        prior.append(_target_of(made, deployment, target))
        measured.append(value or 0.0)
    return Table(
        target=target,
        rows=kept,
        names=FEATURES,
        values=matrix_of(values),
        prior=np.array(prior, dtype=np.float64),
        measured=np.array(measured, dtype=np.float64),
        subjects=list(models),
        limits=[None] * len(kept),
        architecture=np.array([model.architecture for model in models], dtype=str),
        family=np.array([model.family for model in models], dtype=str),
        dropped=dict(dropped),
    )


def taught(rows: Sequence[Row], spec_of: SpecOf, target: str) -> Table:
    """Return the table of `ttft` or `tpot`.

    Where only tokens a second were measured, what physics leaves of them stands for what it leaves of a token's time;
    a rate that would need more than twice the bandwidth or peak of its devices is none.
    """
    table = tabulate(training_rows(rows, target, served=True), spec_of, target)
    if target != "tpot":
        return table
    others = [row for row in rows if row.tokens_per_s and measured_target(row, "tpot") is None]
    rates = tabulate(training_rows(others, "throughput", served=True), spec_of, "throughput")
    rates = rates.take(rates.residual > -math.log(IMPOSSIBLE))
    return table.joined(rates) if len(rates) else table


class ServingConfigurations(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Configurations to predict. `table` has the prior of a token's time, `first_s` that of the first token.

    `index` says which of the rows that were asked they are.
    """

    table: Table
    first_s: Array
    index: list[int]


def asked(rows: Sequence[Row], spec_of: SpecOf) -> ServingConfigurations:
    """Return those rows that physics can say something of; nothing of them was measured."""
    made: dict[tuple[str, str, Storage], Device | None] = {}
    result = [(index, _of_row(row, spec_of, made)) for index, row in enumerate(rows)]
    kept = [(index, *value) for index, value in result if not isinstance(value, str)]
    values = [features_of(rows[index], model, spread, made, widened) for index, model, spread, made, widened in kept]
    models = [model for _, model, *_ in kept]
    table = Table(
        target="tpot",
        rows=[rows[index] for index, *_ in kept],
        names=FEATURES,
        values=matrix_of(values),
        prior=np.array([made.tpot_s for *_, made, _ in kept], dtype=np.float64),
        measured=np.full(len(kept), np.nan),
        subjects=list(models),
        limits=[None] * len(kept),
        architecture=np.array([model.architecture for model in models], dtype=str),
        family=np.array([model.family for model in models], dtype=str),
    )
    return ServingConfigurations(
        table=table,
        first_s=np.array([made.ttft_s for *_, made, _ in kept], dtype=np.float64),
        index=[index for index, *_ in kept],
    )


def _load(row: Row) -> tuple[object, ...]:
    return (row.hardware, row.runtime, row.input_tokens, row.output_tokens, row.concurrency or row.batch_size)


def _rounded(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _of_row(
    row: Row, spec_of: SpecOf, devices: dict[tuple[str, str, Storage], Device | None]
) -> tuple[language_models.LanguageModel, Deployment, Estimate, bool] | str:
    """Return what physics says of a row, or why it says nothing; `devices` keeps what was made for other rows."""
    model, spec = language_models.find(row.model), spec_of(row.hardware)
    if model is None:
        return "no facts of the language model"
    deployment = deployment_of(row, model.heads)
    if isinstance(deployment, str):
        return deployment
    if spec is None:
        return "unknown hardware"
    key = (spec.id, row.platform, deployment.storage)
    if key not in devices:
        launch = LAUNCH_S.get(row.platform, DEFAULT_LAUNCH_S)
        devices[key] = device_of(spec, row.platform, deployment.storage, launch)
    device = devices[key]
    if device is None:
        return "no peak or bandwidth"
    widened = deployment.storage.expert_bytes < 1 and device.expert_flops == device.attention_flops
    return model, deployment, estimate(model, deployment, device), widened


def _target_of(made: Estimate, deployment: Deployment, target: str) -> float:
    if target == "ttft":
        return made.ttft_s
    if target == "tpot":
        return made.tpot_s
    return made.request_s(deployment.output_tokens) / (deployment.requests * deployment.output_tokens)
