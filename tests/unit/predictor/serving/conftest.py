"""Rows of served models as importers give them."""

from collections.abc import Callable
from typing import Any

import pytest

from predictor.features.dataset import Row


@pytest.fixture(scope="session")
def served() -> Callable[..., Row]:
    """Return what makes a row of Llama 3.1 70B on four H200 with thirty-two requests at once, or with changes."""

    def row(**changed: Any) -> Row:
        given: dict[str, Any] = {
            "model": "meta-llama/Llama-3.1-70B", "hardware": "nvidia-h200-sxm", "platform": "cuda",
            "precision": "fp8", "batch_size": 32, "scenario": "serving", "input_tokens": 1024,
            "output_tokens": 1024, "concurrency": 32, "runtime": "vllm", "runtime_version": "0.18.0", "count": 4,
            "ttft_ms": 200.0, "tpot_ms": 20.0, "parallelism": {"tensor": 4, "pipeline": 1, "data": 1, "expert": 1},
        }  # fmt: skip
        return Row(**(given | changed))

    return row
