"""Quantized models for OpenVINO through NNCF: eight bits for all that multiplies, or four and eight bits for weights.

A forward pass is quantized after training: ranges of activations are taken from calibration inputs, made by the model's
own input maker. A decoder's weights alone are compressed, because its time goes into reading them.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from domain.errors import PartMissing, UnsupportedPrecision

__all__ = ["QUANTIZED", "method_of", "quantized", "refusals"]

QUANTIZED = ("int8", "int4")
_GROUP_SIZES = (128, 64, 32)
_REMEDY = "pip install nncf"


def refusals() -> dict[str, str]:
    """Return why quantized precisions are not possible here, with the command that helps."""
    if importlib.util.find_spec("nncf") is None:
        return dict.fromkeys(QUANTIZED, f"nncf is not installed: {_REMEDY}.")
    return {}


def method_of(precision: str, purpose: str) -> dict[str, Any]:
    """Return the options that name how a model was quantized; none where it was not."""
    if precision == "int8" and purpose == "inference":
        return {"quantization": "nncf.quantize", "preset": "mixed", "calibration": "seeded inputs"}
    if precision == "int8":
        return {"quantization": "nncf.compress_weights", "weights": "int8_asym"}
    if precision == "int4":
        return {"quantization": "nncf.compress_weights", "weights": "int4_sym"}
    return {}


def quantized(model: Any, precision: str, purpose: str, calibration: Sequence[Mapping[str, Any]]) -> Any:
    """Return the quantized model; `calibration` are inputs by name, used where activations are quantized too."""
    if importlib.util.find_spec("nncf") is None:
        raise PartMissing(f"{precision} in OpenVINO needs nncf.", field="precision", remedy=_REMEDY)
    import nncf

    # It draws progress bars and tells every step, and a child's output is kept for what goes wrong.
    nncf.set_log_level(logging.ERROR)
    if precision == "int8" and purpose == "inference":
        dataset = nncf.Dataset(list(calibration), lambda inputs: dict(inputs))
        return nncf.quantize(model, dataset, preset=nncf.QuantizationPreset.MIXED, subset_size=len(calibration))
    if precision == "int8":
        return nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
    group = _group_size(model)
    if group is None:
        raise UnsupportedPrecision(
            "no weight matrix of this model has rows that are a multiple of 32, which four-bit groups need.",
            field="precision",
            remedy="Take int8.",
        )
    return nncf.compress_weights(
        model, mode=nncf.CompressWeightsMode.INT4_SYM, group_size=group, ratio=1.0, all_layers=True
    )


def _group_size(model: Any) -> int | None:
    """Return the largest group that divides the rows of every weight matrix, or those of any where none divides all."""
    widths = {
        int(shape[-1])
        for node in model.get_ops()
        if node.get_type_name() == "Constant" and len(shape := node.get_output_shape(0)) == 2 and min(shape) > 1
    }
    dividing = [size for size in _GROUP_SIZES if any(width % size == 0 for width in widths)]
    return next((size for size in dividing if all(width % size == 0 for width in widths)), min(dividing, default=None))
