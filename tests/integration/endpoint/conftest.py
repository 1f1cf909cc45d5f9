"""A server of known timing in a process of its own, and runs against it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.campaign.run import RunReport
from runner.endpoint.bench import run_endpoint
from runner.endpoint.load import Stop
from runner.endpoint.plan import Sizes, plan_of
from runner.endpoint.prompts import WORDS
from runner.endpoint.target import Stated, target_of
from runner.measure.stopping import Method

ROOT = Path(__file__).resolve().parents[3]
FIRST_MS, GAP_MS = 20.0, 5.0
Bench = Callable[..., "Ran"]


class Echo:
    """The server; `url` is its address."""

    def __init__(self, *more: str) -> None:
        command = [sys.executable, "-m", "benchmarks.programs.echo", "--first-ms", str(FIRST_MS), "--gap-ms", str(GAP_MS)]  # fmt: skip
        self.process = subprocess.Popen([*command, *more], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Ran:
    """What a run told."""

    def __init__(self, events: list[dict[str, Any]], report: RunReport) -> None:
        self.events = events
        self.report = report

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the data of the events of one kind, such as `measurement.recorded`."""
        return [event["data"] for event in self.events if event["type"] == f"assay.{kind}.v1"]

    @property
    def row(self) -> dict[str, Any]:
        """The one measurement that there is."""
        (row,) = self.of("measurement.recorded")
        return row

    @property
    def failure(self) -> dict[str, Any]:
        """The one failure that there is."""
        (row,) = self.of("measurement.failed")
        return row


@pytest.fixture
def echo_alone() -> Iterator[Echo]:
    """A server that a test may end."""
    server = Echo()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.stop()


def bench_of(url: str, model: str = "echo", **how: Any) -> Ran:
    """Run one small load and return what was told."""
    stated = Stated(model="acme/echoed", hardware="acme-h9", kind="gpu", platform="cuda", precision="fp16")
    target = target_of(url, how.pop("api", "openai"), model, how.pop("key", None))
    names = ("scenario", "input_tokens", "output_tokens", "batch_sizes", "concurrency", "rates")
    given = {name: how.pop(name) for name in names if name in how}
    sizes = Sizes(**{"output_tokens": (6,), **given} if target.api != "http" else given)
    method = Method(budget_s=how.pop("budget_s", 0.5), iterations=how.pop("iterations", 8))
    bounds = {name: how.pop(name) for name in ("min_duration_s", "min_queries", "timeout_s") if name in how}
    done = how.pop("done", ())
    plan = plan_of(target, stated, sizes, Stop(method=method, **bounds), **{"patience_s": 10.0, **how})
    events: list[dict[str, Any]] = []
    return Ran(events, run_endpoint(plan, events.append, done=done))


@pytest.fixture
def bench(echo: Echo) -> Bench:
    """Run against the shared server."""
    return lambda *args, **how: bench_of(how.pop("url", echo.url), *args, **how)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A llama of two layers whose vocabulary is that of our prompts."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("tiny")
    vocabulary = {word: index for index, word in enumerate(["<unk>", *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<unk>").save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=None, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    # Its text leaves `<unk>` out, so that an answer with one has fewer words than tokens: it is never the likeliest token.
    with torch.no_grad():
        model.lm_head.weight[0] = 0.0
    model.save_pretrained(folder)
    return folder
