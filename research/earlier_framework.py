"""Which capabilities of the earlier framework does Assay have, when each is run as a user would?

Answer: see docs/earlier-framework.md. Each capability is named in that framework's words and run through the public command
line on the digits model of `tests/digits.py` (trained here, or `--digits FOLDER`) and a small BERT with random weights.

    python -m research.earlier_framework [--only NAME,…] [--digits FOLDER] [--json]

Exit code 1 where one fails. The whole run takes a few minutes, most of it the training and the recipes that train.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

ROOT = Path(__file__).parents[1]
WAIT_S = 180.0
"""How long a server may take to answer, and a command beyond what it does."""
COMMAND_S = 600.0


class Failed(Exception):
    """A capability did not do what it says."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What was run for one capability, and what came of it."""

    name: str
    capability: str
    ran: str
    result: str
    seconds: float
    ok: bool


class Stage:
    """A folder with the models, in which commands run with an ASSAY_HOME of their own."""

    def __init__(self, folder: Path, digits: Path | None) -> None:
        self.folder = folder
        self.digits = digits
        self.environment = {
            **os.environ,
            "ASSAY_HOME": str(folder / "home"),
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "200",
        }

    def images(self) -> Path:
        """Return the folder with `digits-vit`, `training.npz` and `evaluation.npz`; trained at its first use."""
        if self.digits is None:
            from tests.digits import train_digits

            train_digits(self.folder)
            self.digits = self.folder
        return self.digits

    def text(self) -> Path:
        """Return the folder of a small BERT with random weights, saved as transformers does."""
        folder = self.folder / "small-bert"
        if not folder.exists():
            from transformers import BertConfig, BertForSequenceClassification

            config = BertConfig(
                vocab_size=500,
                hidden_size=64,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=128,
                max_position_embeddings=64,
                num_labels=3,
            )
            BertForSequenceClassification(config).save_pretrained(folder)
        return folder

    def assay(self, *arguments: str, code: int | None = 0) -> str:
        """Run `assay` and return what it printed; another exit code than `code` is a failure (None: any)."""
        done = subprocess.run(
            [sys.executable, "-m", "assay.cli", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
        )
        if code is not None and done.returncode != code:
            said = (done.stderr or done.stdout).strip()[-400:]
            raise Failed(f"assay {' '.join(arguments[:2])} exited with {done.returncode}: {said}")
        return done.stdout

    def answer(self, *arguments: str, code: int | None = 0) -> Any:
        """Run `assay … --json` and return its answer."""
        return json.loads(self.assay(*arguments, "--json", code=code))

    @contextmanager
    def running(self, *arguments: str, ready: str) -> Iterator[str]:
        """Run a server of `assay` on a free port until the block ends, and give its address; `ready` is the route that says so."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "assay.cli", *arguments, "--port", str(port)]
        with tempfile.TemporaryFile() as log:
            child = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)
            try:
                _wait(child, url + ready, log)
                yield url
            finally:
                child.terminate()
                try:
                    child.wait(60)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()


def _wait(child: subprocess.Popen[bytes], url: str, log: Any) -> None:
    until = time.monotonic() + WAIT_S
    with httpx.Client(trust_env=False) as client:
        while time.monotonic() < until:
            if child.poll() is not None:
                log.seek(0)
                raise Failed(f"the server ended: {log.read().decode(errors='replace').strip()[-400:]}")
            try:
                if client.get(url).is_success:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.2)
    raise Failed(f"{url} did not answer within {WAIT_S:g} s")


def families(stage: Stage) -> str:
    """Ask which recipes a vision transformer and a BERT can take, and with which parameters their families are quantized."""
    from runner.compression.recipes import parameters_for, recipe_named

    offered = stage.answer("compress", str(stage.text()), "--list")
    taken = [row["name"] for row in offered if row["refused"] is None]
    recipe = recipe_named("int8-ptq")
    differ = {name: parameters_for(recipe, name).get("model_type") for name in ("vit", "bert", "resnet")}
    if differ != {"vit": "transformer", "bert": "transformer", "resnet": None} or not taken:
        raise Failed(f"int8-ptq has the model types {differ}, and a BERT takes {taken}")
    return f"{len(taken)} of {len(offered)} recipes for a BERT; int8-ptq treats transformers and ResNets differently"


def _compressed(stage: Stage, *recipes: str) -> str:
    """Compress the digits model, measure, verify and judge the variants, and say size, time and loss of each."""
    images = stage.images()
    arguments = [str(images / "digits-vit"), "--recipe", ",".join(recipes), "--out", str(stage.folder / "variants")]
    arguments += ["--calibrate", str(images / "training.npz"), "--eval", str(images / "evaluation.npz")]
    platform = "onnxruntime" if recipes[0].startswith("onnx") else "openvino"
    arguments += ["--platform", platform, "--budget", "0.3", "--no-send"]
    # A variant whose outputs differ ends with 1: what it costs is the evaluation's to say.
    answer = stage.answer("compress", *arguments, code=None)
    said = []
    for recipe in recipes:
        row = next((row for row in answer["rows"] if row["variant"].startswith(recipe) and not row.get("failed")), None)
        if row is None or not row.get("quality") or not row.get("latency_ms"):
            raise Failed(f"{recipe} was not made, measured and judged: {row or answer['rows']}")
        low, high = row["quality"]["interval"]
        size = f"{row['bytes'] / 1e3:.0f} kB ({row['size_share']:.0%})"
        said.append(
            f"{recipe}: {size}, {row['latency_ratio']:.2f}× the base's time, loss {row['quality']['loss']:+.1f} pt [{low:+.1f}, {high:+.1f}]"
        )
    return "; ".join(said)


def quantisation(stage: Stage) -> str:
    """Quantize to int8 with the ranges of the training examples."""
    return _compressed(stage, "int8-ptq")


def mixed_precision(stage: Stage) -> str:
    """Search for the layers that stay wide, and train with int8 rounding in the forward pass."""
    return _compressed(stage, "mixed", "int8-qat")


def pruning(stage: Stage) -> str:
    """Set half of the weights to zero, and seven of ten with training afterwards."""
    return _compressed(stage, "prune-50", "prune-70")


def distillation(stage: Stage) -> str:
    """Train a student with half the layers, and one that is known to be too small."""
    return _compressed(stage, "distill-half", "distill-tiny")


def graph(stage: Stage) -> str:
    """Fuse operators before the model is loaded."""
    return _compressed(stage, "onnx-optimised")


def tests(stage: Stage) -> str:
    """Write a test file from what a verification saw; it passes, and fails once the weights are others."""
    from safetensors.torch import load_file, save_file

    model = stage.text()
    stage.assay("verify", str(model), "--platform", "cpu", "--out", "seen.ndjson", "--force")
    stage.assay("scaffold", "test", str(model), "--events", "seen.ndjson", "--out", "model-tests")
    files = sorted((stage.folder / "model-tests").glob("test_*.py"))
    if len(files) != 1:
        raise Failed(f"{len(files)} files were written, not one")
    lines = len(files[0].read_text().splitlines())
    stage.assay("scaffold", "check", "model-tests")
    weights = model / "model.safetensors"
    kept = weights.read_bytes()
    tensors = load_file(weights)
    tensors["classifier.weight"] = tensors["classifier.weight"] * 0.5
    save_file(tensors, weights, metadata={"format": "pt"})
    try:
        report = stage.assay("scaffold", "check", "model-tests", code=1)
    finally:
        weights.write_bytes(kept)
    if "weights" not in report:
        raise Failed("the report of other weights does not name them")
    return f"one file of {lines} lines; passes as recorded, and names the cause of a failure where weights were changed"


def endpoints(stage: Stage) -> str:
    """Create, call and remove an endpoint twice where the recommendation puts it, and count what went right."""
    with (
        stage.running("serve", ready="/health/ready"),
        stage.running("endpoint", "serve", ready="/v2/health/ready") as url,
    ):
        answer = stage.answer("endpoint", "check", url, "--create", "prajjwal1/bert-tiny", "--cycles", "2", code=None)
    bad = [f"{step['check']}: {step['said']}" for step in answer["steps"] if step["outcome"] == "failed"]
    if bad or not answer["ok"]:
        raise Failed(f"{answer['failed']} checks failed: {'; '.join(bad)}")
    return f"{answer['passed']} checks passed, {answer['failed']} failed, {answer['skipped']} do not apply"


def choice(stage: Stage) -> str:
    """Serve a model without naming a platform: the answer chooses among those that work here, and promises a time."""
    with (
        stage.running("serve", ready="/health/ready"),
        stage.running("endpoint", "serve", ready="/v2/health/ready") as url,
    ):
        status = stage.answer("endpoint", "create", "prajjwal1/bert-tiny", "--name", "chosen", "--url", url)
        stage.answer("endpoint", "invoke", "chosen", "--url", url)
        stage.answer("endpoint", "remove", "chosen", "--url", url)
    promise = status.get("promise")
    if not promise:
        raise Failed(f"the choice has no promise: {status.get('reason')}")
    interval = f"{promise['low']:.2f} to {promise['high']:.2f}"
    return (
        f"{status['platform']} in {status['precision']} on {status['hardware']}; "
        f"promise {promise['latency_ms']:.2f} ms ({interval}), {promise['origin']}"
    )


_ON_CPU = ("--platform", "cpu", "--precision", "fp32")


def sharing(stage: Stage) -> str:
    """Serve one model under two names, which share its process."""
    model = str(stage.text())
    with stage.running("endpoint", "serve", "--memory-budget", "4GB", ready="/v2/health/ready") as url:
        for name in ("first", "second"):
            stage.answer("endpoint", "create", model, "--name", name, "--url", url, *_ON_CPU)
            stage.answer("endpoint", "invoke", name, "--url", url)
        status = stage.answer("endpoint", "show", "second", "--url", url)
    if status.get("shared_with") != ["first"]:
        raise Failed(f"the second endpoint shares with {status.get('shared_with')}, not with the first")
    return f"two endpoints share one process of {status['memory_bytes'] / 1e6:.0f} MB"


def memory(stage: Stage) -> str:
    """Refuse a model that the budget of memory cannot hold, and leave nothing of it."""
    model = str(stage.text())
    with stage.running("endpoint", "serve", "--memory-budget", "20MB", ready="/v2/health/ready") as url:
        stage.assay("endpoint", "create", model, "--name", "third", "--url", url, *_ON_CPU, code=3)
        if httpx.get(f"{url}/v1/endpoints", trust_env=False).json():
            raise Failed("an endpoint that the budget refused is listed")
    return "a model is refused under a budget of 20 MB, and no endpoint stays"


class Capability(msgspec.Struct, frozen=True):
    """A capability in the earlier framework's words, and what stands for it here."""

    words: str
    ran: str
    run: Callable[[Stage], str]


CAPABILITIES: dict[str, Capability] = {
    "families": Capability("Model-family specific compression strategies", "assay compress MODEL --list", families),
    "quantisation": Capability("Comprehensive model quantization pipeline", "assay compress --recipe int8-ptq", quantisation),
    "mixed-precision": Capability(
        "Mixed precision and quantization-aware training", "assay compress --recipe mixed,int8-qat", mixed_precision
    ),
    "pruning": Capability(
        "Automated pruning workflows for model size reduction", "assay compress --recipe prune-50,prune-70", pruning
    ),
    "distillation": Capability(
        "Knowledge distillation framework for model compression", "assay compress --recipe distill-half,distill-tiny", distillation
    ),
    "graph": Capability("Hardware-aware model optimization (graphs)", "assay compress --recipe onnx-optimised", graph),
    "tests": Capability(
        "Test generator; expected against collected values; discrepancy analysis", "assay scaffold test, assay scaffold check", tests
    ),
    "endpoints": Capability(
        "Endpoint lifecycle: creation, invocation, removal; statistics of success and failure",
        "assay endpoint check URL --create MODEL --cycles 2",
        endpoints,
    ),
    "sharing": Capability(
        "Centralized ResourcePool: resource sharing, model caching by family", "assay endpoint create (twice one model), show", sharing
    ),
    "memory": Capability(
        "Memory requirement checking against available hardware", "assay endpoint serve --memory-budget 20MB", memory
    ),
    "choice": Capability("Hardware-aware device selection", "assay endpoint create MODEL (no --platform)", choice),
}  # fmt: skip


def demonstrate(names: Sequence[str], stage: Stage) -> list[Outcome]:
    """Run capabilities in order; one that fails does not end the others."""
    outcomes = []
    for name in names:
        capability = CAPABILITIES[name]
        began = time.perf_counter()
        try:
            result, ok = capability.run(stage), True
        except (Failed, subprocess.TimeoutExpired) as error:
            result, ok = str(error), False
        outcomes.append(
            Outcome(
                name=name,
                capability=capability.words,
                ran=capability.ran,
                result=result,
                seconds=round(time.perf_counter() - began, 1),
                ok=ok,
            )
        )
    return outcomes


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as a Markdown table."""
    lines = ["| capability of the earlier framework | run here | what came of it | s |", "| --- | --- | --- | ---: |"]
    for outcome in outcomes:
        result = outcome.result if outcome.ok else f"**failed**: {outcome.result}"
        lines.append(f"| {outcome.capability} | `{outcome.ran}` | {' '.join(result.split())} | {outcome.seconds:.0f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for, print what came of it, and return 1 where something failed."""
    parser = argparse.ArgumentParser(
        prog="python -m research.earlier_framework",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default=",".join(CAPABILITIES), metavar="NAME,…", help=", ".join(CAPABILITIES))
    parser.add_argument("--digits", type=Path, metavar="FOLDER", help="what `tests.digits.train_digits` wrote before")
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    options = parser.parse_args(arguments)
    names = [name.strip() for name in options.only.split(",")]
    if unknown := [name for name in names if name not in CAPABILITIES]:
        parser.error(f"--only: no capability is called {unknown[0]!r}; there is {', '.join(CAPABILITIES)}")
    digits = options.digits.resolve() if options.digits else None
    with tempfile.TemporaryDirectory(prefix="assay-earlier-") as folder:
        outcomes = demonstrate(names, Stage(Path(folder), digits))
    print(json.dumps(msgspec.to_builtins(outcomes), indent=2) if options.json else table(outcomes))
    return 0 if all(outcome.ok for outcome in outcomes) else 1


if __name__ == "__main__":
    # Ended by SIGTERM too, servers are stopped and the folder is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
