"""Plans: what they hold, and what is refused before anything heavy is loaded."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from domain.errors import UnknownModel, UnknownPlatform, UnsupportedPrecision, UsageError
from runner.plan import make_plan
from runner.stopping import Method


def plan(models: tuple[str, ...] = ("bert-tiny",), **options: Any) -> Any:
    return make_plan(models, **{"weights": "random", "platforms": ["cpu"], **options})


def test_the_product_is_complete_and_each_case_is_there_once() -> None:
    made = plan(
        ("bert-tiny", "vit-tiny-patch16-224", "bert-tiny"),
        platforms=["cpu", "openvino"],
        precisions=["fp32", "bf16"],
        batch_sizes=[1, 2, 2],
    )
    assert len(made.cases) == len(set(made.cases)) == 2 * 2 * 2 * 2
    assert made.models == ("bert-tiny", "vit-tiny-patch16-224")
    assert plan(("bert-tiny", "gpt2"), limit=1).models == ("bert-tiny",)


def test_without_platforms_every_known_one_is_asked() -> None:
    made = plan(platforms=None)
    assert not made.platforms_named
    assert {"cpu", "cuda", "openvino", "webnn", "qnn"} <= set(made.platforms)


@pytest.mark.parametrize(
    ("options", "error", "field"),
    [
        ({"models": ("bert-tinny",)}, UnknownModel, "model"),
        ({"models": ()}, UsageError, "model"),
        ({"platforms": ["opnvino"]}, UnknownPlatform, "platform"),
        ({"platforms": []}, UsageError, "platform"),
        ({"precisions": ["fp33"]}, UnsupportedPrecision, "precision"),
        ({"batch_sizes": [0]}, UsageError, "batch_sizes"),
        ({"batch_sizes": [4, -1]}, UsageError, "batch_sizes"),
        ({"sequence_lengths": [0]}, UsageError, "sequence_lengths"),
        ({"limit": 0}, UsageError, "limit"),
        ({"timeout_s": 0.0}, UsageError, "timeout"),
        ({"mode": "training"}, UsageError, "mode"),
        ({"weights": "some"}, UsageError, "weights"),
        ({"method": Method(iterations=0)}, UsageError, "iterations"),
        ({"method": Method(percentile="p50.5")}, UsageError, "percentile"),
        ({"method": Method(budget_s=0.0)}, UsageError, "budget"),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(options: dict[str, Any], error: type[UsageError], field: str) -> None:
    models = options.pop("models", ("bert-tiny",))
    with pytest.raises(error) as caught:
        plan(models, **options)
    assert caught.value.field == field
    assert caught.value.remedy
    assert caught.value.exit_code == 2


def test_the_nearest_names_are_offered() -> None:
    with pytest.raises(UnknownPlatform) as caught:
        plan(platforms=["opnvino"])
    assert "openvino" in caught.value.nearest


def test_planning_imports_nothing_heavy() -> None:
    code = (
        "import sys, runner.bench, runner.verify, runner.post, runner.spool\n"
        "from runner.plan import make_plan\n"
        "make_plan(['bert-tiny'], platforms=['cpu', 'openvino'], weights='random')\n"
        "heavy = {'torch', 'transformers', 'openvino', 'numpy', 'litestar', 'duckdb', 'streamlit', 'lightgbm'}\n"
        "sys.exit(','.join(sorted(heavy & sys.modules.keys())) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
