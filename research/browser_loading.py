"""Question: does a page load a model sooner when its files and the runtime come at once, and what does the browser's cache save?

Each load is that of a new browser, so nothing is cached or compiled beforehand. Two ways take turns, and who goes first
changes: one file after the other and then the runtime, and all at once. After each, the same files are loaded from the
browser's cache, by digest (warm). Models: bert-tiny, and a graph whose external data lies in four files of 25 MB.

    python -m research.browser_loading [--browser chromium] [--rounds 7]

Answer: see docs/browsers.md, "Loading".
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from domain.configuration import Workload
from runner.browser.locations import choose_browser, onnxruntime_web
from runner.browser.page import opened
from runner.browser.platform import offered_model, runtime_files
from runner.campaign.execution import convert
from runner.protocol.tasks import Case, Convert, Message

WAYS = {"in turn": True, "at once": False}
PARTS = ("ms", "fetch_ms", "digest_ms", "runtime_ms", "warm_ms")
FILES, SIDE = 4, 2500


class _Silent:
    stage = "resolve"

    def reach(self, stage: str) -> None:
        self.stage = stage

    def say(self, message: Message) -> None:
        raise AssertionError(message)


def bert_tiny(folder: Path) -> Path:
    """Export bert-tiny and return its graph."""
    case = Case(
        model="bert-tiny",
        platform="wasm",
        precision="fp32",
        weights="random",
        workload=Workload(mode="inference", batch_size=1),
    )
    convert(Convert(case=case, folder=str(folder)), _Silent())
    return folder / "model.onnx"


def hundred_megabytes(folder: Path) -> Path:
    """Write a graph of four products whose weights lie in a file each, and return it."""
    value = np.random.default_rng(0).standard_normal((SIDE, SIDE), np.float32)
    weights = [numpy_helper.from_array(value, f"w{at}") for at in range(FILES)]
    nodes = [helper.make_node("MatMul", [f"x{at}", f"w{at}"], [f"x{at + 1}"]) for at in range(FILES)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, SIDE]) for name in ("x0", f"x{FILES}")]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], weights))
    onnx.save_model(model, folder / "large.onnx", save_as_external_data=True, all_tensors_to_one_file=False)
    return folder / "large.onnx"


def load(browser: str, model: Path, *, in_turn: bool) -> dict[str, float]:
    """Load a model in a new browser, then again from its cache, and return the times in ms."""
    with opened(choose_browser(browser), onnxruntime_web()) as page:
        messages = page.do(
            "load",
            "warm",
            backend="wasm",
            threads=1,
            runtime=runtime_files(page, "wasm"),
            model=offered_model(page, model),
            in_turn=in_turn,
        )
        return {name: message[name] for message in messages for name in PARTS if message.get(name) is not None}


def main() -> int:
    """Measure both models in each way and print the medians."""
    reader = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    reader.add_argument("--browser", default="chromium")
    reader.add_argument("--rounds", type=int, default=7)
    chosen = reader.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for model in (bert_tiny(Path(folder)), hundred_megabytes(Path(folder))):
            times: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
            for turn in range(chosen.rounds):
                for name in list(WAYS) if turn % 2 else reversed(WAYS):
                    times[name].append(load(chosen.browser, model, in_turn=WAYS[name]))
            for name, rounds in times.items():
                figures = {part: median([each[part] for each in rounds if part in each] or [0.0]) for part in PARTS}
                print(model.name, name, *(f"{part} {value:.0f}" for part, value in figures.items()), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
