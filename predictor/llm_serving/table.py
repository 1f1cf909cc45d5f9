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
from predictor.llm_serving.efficiency import shares_of, usual_device
from predictor.llm_serving.features import COLUMNS, USUAL, features_of, matrix_of
from predictor.llm_serving.physics import Device, Estimate, device_of, estimate

__all__ = ["TARGETS", "ModelOf", "ServingConfigurations", "SpecOf", "asked", "tabulate", "taught"]

SpecOf = Callable[[str], HardwareSpec | None]
ModelOf = Callable[[str], language_models.LanguageModel | None]
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
    devices: _Devices = {}
    for row in rows:
        value = measured_target(row, target)
        of_row = _of_row(row, spec_of, devices) if value is not None else "no figure of the target"
        if isinstance(of_row, str):
            dropped[of_row] += 1
            continue
        model, deployment, made = of_row.model, of_row.deployment, of_row.estimate
        figures = (model.architecture, *_load(row), *(_rounded(item) for item in (row.ttft_ms, row.tpot_ms, value)))
        if figures in seen:
            dropped["repeated figures"] += 1
            continue
        seen.add(figures)
        kept.append(row)
        models.append(model)
        values.append([*features_of(row, model, deployment, made, of_row.widened), *_usual(of_row, target)])
        prior.append(_target_of(made, deployment, target))
        measured.append(value or 0.0)
    return Table(
        target=target,
        rows=kept,
        names=COLUMNS,
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


def asked(rows: Sequence[Row], spec_of: SpecOf, model_of: ModelOf = language_models.find) -> ServingConfigurations:
    """Return those rows that physics can say something of; nothing of them was measured."""
    devices: _Devices = {}
    result = [(index, _of_row(row, spec_of, devices, model_of)) for index, row in enumerate(rows)]
    kept = [(index, value) for index, value in result if not isinstance(value, str)]
    values = [
        [*features_of(rows[index], item.model, item.deployment, item.estimate, item.widened), *_usual(item, "tpot")]
        for index, item in kept
    ]
    table = Table(
        target="tpot",
        rows=[rows[index] for index, _ in kept],
        names=COLUMNS,
        values=matrix_of(values),
        prior=np.array([item.estimate.tpot_s for _, item in kept], dtype=np.float64),
        measured=np.full(len(kept), np.nan),
        subjects=[item.model for _, item in kept],
        limits=[None] * len(kept),
        architecture=np.array([item.model.architecture for _, item in kept], dtype=str),
        family=np.array([item.model.family for _, item in kept], dtype=str),
    )
    return ServingConfigurations(
        table=table,
        first_s=np.array([item.estimate.ttft_s for _, item in kept], dtype=np.float64),
        index=[index for index, _ in kept],
    )


def _load(row: Row) -> tuple[object, ...]:
    return (row.hardware, row.runtime, row.input_tokens, row.output_tokens, row.concurrency or row.batch_size)


def _rounded(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


class _Made(msgspec.Struct, frozen=True, kw_only=True):
    """What physics says of a row: at full speed, and at the shares that its engine usually reaches where they are known."""

    model: language_models.LanguageModel
    deployment: Deployment
    estimate: Estimate
    usual: Estimate | None
    widened: bool


_Devices = dict[tuple[str, str, str, Storage], tuple[Device | None, Device | None]]


def _of_row(row: Row, spec_of: SpecOf, devices: _Devices, model_of: ModelOf = language_models.find) -> _Made | str:
    """Return what physics says of a row, or why it says nothing; `devices` keeps what was made for other rows."""
    model, spec = model_of(row.model), spec_of(row.hardware)
    if model is None:
        return "no facts of the language model"
    deployment = deployment_of(row, model.heads, mixture=bool(model.experts))
    if isinstance(deployment, str):
        return deployment
    if spec is None:
        return "unknown hardware"
    storage = deployment.storage
    key = (spec.id, row.platform, row.runtime, storage)
    if key not in devices:
        full = device_of(spec, row.platform, storage, LAUNCH_S.get(row.platform, DEFAULT_LAUNCH_S))
        shares = shares_of(row, storage, spec)
        devices[key] = full, None if full is None or shares is None else usual_device(full, shares)
    device, usual = devices[key]
    if device is None:
        return "no peak or bandwidth"
    return _Made(
        model=model,
        deployment=deployment,
        estimate=estimate(model, deployment, device),
        usual=None if usual is None else estimate(model, deployment, usual),
        widened=storage.expert_bytes < 1 and device.expert_flops == device.attention_flops,
    )


def _usual(made: _Made, target: str) -> list[float]:
    """How many times its floor (log) a time usually is under its engine, by the columns of USUAL; NaN where unknown."""
    if made.usual is None:
        return [math.nan] * len(USUAL)
    own = target if target == "throughput" else "tpot"
    return [
        math.log(_target_of(made.usual, made.deployment, name) / _target_of(made.estimate, made.deployment, name))
        for name in ("ttft", own)
    ]


def _target_of(made: Estimate, deployment: Deployment, target: str) -> float:
    if target == "ttft":
        return made.ttft_s
    if target == "tpot":
        return made.tpot_s
    return made.request_s(deployment.output_tokens) / (deployment.requests * deployment.output_tokens)
