"""The numbers that the residual is learned from: parts of the estimate, the deployment, the model and the engine.

No figure of the device itself is among them, so that a device which training never saw is not an extrapolation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from domain.catalogues.language_models import LanguageModel
from predictor.features.dataset import Row
from predictor.features.features import version_number
from predictor.features.table import Matrix
from predictor.llm_serving.deployment import Deployment
from predictor.llm_serving.physics import Estimate, PassTimes

__all__ = ["COLUMNS", "ENGINES", "FEATURES", "USUAL", "features_of", "matrix_of"]

ENGINES = ("vllm", "sglang", "tensorrt-llm", "llama.cpp", "deepspeed", "deepspeed-mii")
_PARTS = ("dense", "experts", "attention", "exchange", "launches")
FEATURES = (
    "log_ttft",
    "log_tpot",
    "log_step",
    "log_prompt",
    "log_disturbance",
    "log_waiting",
    "load",
    "log_fill",
    "log_batch",
    *(f"log_step_{name}" for name in _PARTS),
    *(f"share_step_{name}" for name in _PARTS),
    *(f"share_prompt_{name}" for name in _PARTS),
    "step_balance",
    "prompt_balance",
    "log_requests",
    "log_requests_per_device",
    "log_input",
    "log_output",
    "apart",
    "continuous",
    "tensor",
    "pipeline",
    "data",
    "expert",
    "expert_tensor",
    "devices",
    "prefill_tensor",
    "prefill_data",
    "prefill_expert",
    "prefill_devices",
    "prefill_count",
    "decode_count",
    "log_devices",
    "dense_bytes",
    "expert_bytes",
    "kv_bytes",
    "widened",
    "log_layers",
    "log_hidden",
    "log_parameters",
    "log_active",
    "log_kv",
    "experts",
    "experts_per_token",
    "compressed",
    "windows",
    "linear",
    "sparse",
    "version",
    "nightly",
    *(f"engine.{name}" for name in ENGINES),
)


USUAL = ("usual_ttft", "usual_tpot")
"""Beside the features: how many times its floor (log) a time usually is under its engine. Nothing is learned from these."""
COLUMNS = (*FEATURES, *USUAL)
_LOGARITHMS = [index for index, name in enumerate(FEATURES) if name.startswith("log_")]


def matrix_of(rows: Sequence[Sequence[float]]) -> Matrix:
    """Return what was said of each row as columns of COLUMNS, the first word of a name being true of it."""
    values = np.array(rows, dtype=np.float64).reshape(len(rows), len(COLUMNS))
    values[:, _LOGARITHMS] = np.log(np.maximum(values[:, _LOGARITHMS], 1e-9))
    return values


def features_of(
    row: Row, model: LanguageModel, deployment: Deployment, estimate: Estimate, widened: bool
) -> list[float]:
    """Return one value a name of FEATURES, before its logarithm is taken; NaN where nobody said."""
    prefill, decode, storage = deployment.prefill, deployment.decode, deployment.storage
    made = estimate.step.total
    version = version_number(row.runtime_version)
    devices = decode.devices * decode.pipeline * (decode.count or 1)
    total = devices + prefill.devices * prefill.pipeline * (prefill.count or 1) if deployment.apart else devices
    return [
        estimate.ttft_s,
        estimate.tpot_s,
        made,
        estimate.prompt.total,
        estimate.disturbance_s,
        estimate.waiting_s,
        estimate.load,
        estimate.fill,
        estimate.batch,
        *_parts(estimate.step),
        *_shares(estimate.step),
        *_shares(estimate.prompt),
        _balance(estimate.step),
        _balance(estimate.prompt),
        deployment.requests,
        deployment.requests / devices,
        deployment.input_tokens,
        deployment.output_tokens,
        float(deployment.apart),
        float(deployment.continuous),
        decode.tensor,
        decode.pipeline,
        decode.data,
        decode.expert,
        decode.expert_tensor,
        decode.devices,
        prefill.tensor,
        prefill.data,
        prefill.expert,
        prefill.devices,
        prefill.count or math.nan,
        decode.count or math.nan,
        total,
        storage.dense_bytes,
        storage.expert_bytes,
        storage.kv_bytes,
        float(widened),
        model.layers,
        model.hidden_size,
        model.parameters,
        model.active_parameters,
        model.kv_elements * model.layers,
        model.experts,
        model.experts_per_token,
        float(bool(model.latent_rank)),
        float(bool(model.window)),
        float(bool(model.linear_layers)),
        float(bool(model.sparse_tokens)),
        version or math.nan,
        float("nightly" in row.runtime_version),
        *(float(row.runtime == name) for name in ENGINES),
    ]


def _parts(parts: PassTimes) -> list[float]:
    return [parts.dense, parts.experts, parts.attention, parts.exchange, parts.launches]


def _shares(parts: PassTimes) -> list[float]:
    total = parts.total
    return [part / total for part in _parts(parts)]


def _balance(parts: PassTimes) -> float:
    return math.log(max(parts.arithmetic, 1e-9)) - math.log(max(parts.traffic, 1e-9))
