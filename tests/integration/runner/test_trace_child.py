"""A trace by a process that leaves out what no trace runs is the trace of one that imports everything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from domain.configuration import Workload
from domain.errors import UsageError
from runner.models.sources import resolve
from runner.tracing.child import trace_apart
from runner.tracing.trace import traced_phases

pytestmark = pytest.mark.filterwarnings("ignore")
CASES: tuple[tuple[str, Workload, bool | None], ...] = (
    ("google-bert/bert-base-uncased", Workload(mode="inference"), False),
    ("google-bert/bert-base-uncased", Workload(mode="training"), False),
    ("openai/whisper-tiny", Workload(mode="inference"), False),
    ("google-t5/t5-small", Workload(mode="inference", sequence_length=64, output_tokens=8), False),
    ("microsoft/swin-tiny-patch4-window7-224", Workload(mode="inference"), True),
)
"""A loss, windows of sound, the phases of a generation, and windows of a picture."""


@pytest.mark.parametrize(("model", "work", "forward"), CASES)
def test_a_process_that_leaves_out_imports_gives_the_same_trace(
    model: str, work: Workload, forward: bool | None
) -> None:
    expected = json.dumps([*traced_phases(resolve(model, "random"), work, forward)])
    assert json.dumps(trace_apart(model, work, forward)) == expected


def test_it_neither_loads_the_compiler_nor_optional_packages(tmp_path: Path) -> None:
    code = """
import os, sys
import runner.tracing.child as child
def ending(code):
    print([name for name in ("torch._dynamo.trace_rules", "torch.distributed.tensor", "scipy", "torchao") if sys.modules.get(name)], file=sys.stderr)
    sys.exit(code)
os._exit = ending
child.main()
"""
    task: dict[str, Any] = {"model": str(_folder(tmp_path)), "work": {"mode": "inference"}, "forward": False}
    process = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(task).encode(),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        check=True,
    )
    assert process.stderr.decode().splitlines()[-1] == "[]"


def test_where_it_fails_it_gives_nothing(tmp_path: Path) -> None:
    folder = _folder(tmp_path, hidden_size=127)
    assert trace_apart(str(folder), Workload(mode="inference"), False) is None
    with pytest.raises(UsageError, match="cannot be built"):
        list(traced_phases(resolve(str(folder), "random"), Workload(mode="inference"), False))


def test_recomputed_activations_are_traced_with_the_compiler() -> None:
    assert trace_apart("bert-tiny", Workload(mode="training", gradient_checkpointing=True), None) is None


def _folder(path: Path, **sizes: int) -> Path:
    config = {"model_type": "bert", "hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 1, **sizes}
    (path / "config.json").write_text(json.dumps({**config, "intermediate_size": 96, "vocab_size": 500}))
    return path
