"""How much better do answers about this machine get by `assay calibrate`?

    python -m research.calibrated_answers --folder FOLDER [--write docs/prediction.md]

The kernels of this machine are measured, then ten models at two batches on two platforms in two precisions. A service on an
empty log is asked about each of these configurations: once when it knows the device and the operators of the models,
and once more when it has the kernels as well. It never sees a measurement of a model. The shipped predictor must not hold rows
of this device, or both answers rest on them: the output names the device. Measuring takes about half an hour where the
machine is quiet; FOLDER keeps what was measured, and a second start goes on.

Answer: docs/prediction.md, "A machine before and after", has the table.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import msgspec

from assay.client import Client
from assay.home import find_home
from assay.service import ephemeral
from domain.errors import AssayError
from domain.events import HARDWARE_DESCRIBED, KERNEL_MEASURED, MEASUREMENT_RECORDED, MODEL_DESCRIBED, MODEL_TRACED
from runner.spool.event_file import read_lines

__all__ = ["BEGIN", "END", "MODELS", "Comparison", "main", "table"]

MODELS = (
    "bert-base-uncased",
    "distilbert-base-uncased",
    "sentence-transformers/all-MiniLM-L6-v2",
    "roberta-base",
    "albert-base-v2",
    "vit-base-patch16-224",
    "resnet-50",
    "mobilevit-small",
    "convnext-tiny-224",
    "clip-vit-base-patch32",
)
PLATFORMS, PRECISIONS, BATCHES = "cpu,openvino", "fp32,bf16", "1,8"
BEGIN, END = "<!-- calibrated: written by python -m research.calibrated_answers -->\n", "<!-- /calibrated -->"
_SIZES = ("batch_size", "sequence_length", "image_size")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction of one configuration: its time, its interval and what it rests on."""

    latency_ms: float
    low_ms: float | None
    high_ms: float | None
    basis: str

    def error(self, measured_ms: float) -> float:
        """Return how far it is off, as a share of what was measured."""
        return abs(self.latency_ms / measured_ms - 1)

    def holds(self, measured_ms: float) -> bool:
        """Whether its interval holds what was measured."""
        return (self.low_ms or 0.0) <= measured_ms <= (self.high_ms or math.inf)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration: what it took, its verdict, and what was answered without and with kernels of the machine."""

    model: str
    platform: str
    precision: str
    batch_size: int
    measured_ms: float
    verdict: str
    before: Answer
    after: Answer


def measure(folder: Path, models: Sequence[str], budget_s: float) -> tuple[Path, Path]:
    """Calibrate this machine and measure the models; return the two files of events."""
    kernels, rows = folder / "kernels.ndjson", folder / "models.ndjson"
    common = ["--platform", PLATFORMS, "--precision", PRECISIONS, "--resume", "--out"]
    _assay("calibrate", *common, str(kernels))
    _assay("bench", *models, *common, str(rows), "--batch-sizes", BATCHES, "--budget", str(budget_s))
    return kernels, rows


def _assay(*words: str) -> None:
    # A configuration that failed ends the verb with 1; the others are as good as without it.
    ended = subprocess.run([sys.executable, "-m", "assay.cli", *words], stdout=subprocess.DEVNULL, check=False)
    if ended.returncode not in (0, 1):
        raise SystemExit(f"assay {words[0]} ended with {ended.returncode}")


def compare(kernels: Path, rows: Path, folder: Path) -> list[Comparison]:
    """Ask a service on an empty log about each measured configuration, without and with the kernels."""
    # A log that an earlier start filled has descriptions of the device behind the kernels, and no state before them.
    shutil.rmtree(folder / "home", ignore_errors=True)
    os.environ |= {"ASSAY_HOME": str(folder / "home"), "ASSAY_SHIPPED_DATA": "no"}
    measured = [event["data"] for event in _events(rows) if event["type"] == MEASUREMENT_RECORDED]
    existing = [
        event
        for event in (*_events(kernels), *_events(rows))
        if event["type"] in (HARDWARE_DESCRIBED, MODEL_DESCRIBED, MODEL_TRACED)
    ]
    timings = [event for event in _events(kernels) if event["type"] == KERNEL_MEASURED]
    if not timings:
        raise SystemExit("no kernel was measured: run `assay calibrate` by itself, and see why")
    with ephemeral(find_home()) as url, Client(url) as client:
        client.post_events(existing)
        first = client.post_events(timings[:1])
        client.post_events(timings)
        client.wait_for(client.ready()["log_position"])
        position = first["last_position"] - 1
        return [made for data in measured if (made := _compared(client, data, position)) is not None]


def _events(path: Path) -> Iterable[dict[str, Any]]:
    return (msgspec.json.decode(line) for line in read_lines(path, whole_only=True))


def _compared(client: Client, data: dict[str, Any], position: int) -> Comparison | None:
    execution, workload = data["execution"], data["workload"]
    question = {name: workload[name] for name in _SIZES if workload.get(name)}
    question |= {"hardware": data["hardware"]["id"], "platform": execution["platform"], "call": "forward"}
    question["precision"] = data["observed"]["requested"]["precision"]
    model = data["model"]["id"]
    try:
        before, after = (_answer(client.predict(model, **question, **how)) for how in ({"as_of": position}, {}))
    except AssayError as error:
        print(f"{model} {question}: {error}", file=sys.stderr)
        return None
    return Comparison(
        model=model,
        platform=execution["platform"],
        precision=question["precision"],
        batch_size=workload["batch_size"],
        measured_ms=data["metrics"]["latency_ms"]["p50"],
        verdict=data["validity"]["verdict"],
        before=before,
        after=after,
    )


def _answer(document: dict[str, Any]) -> Answer:
    low, high = document["latency_ms_low"], document["latency_ms_high"]
    return Answer(latency_ms=document["latency_ms"], low_ms=low, high_ms=high, basis=document["basis"])


def table(comparisons: Sequence[Comparison]) -> str:
    """Return the errors of each platform and precision, and of all, as a table of a page."""
    parts: dict[str, list[Comparison]] = {}
    for each in comparisons:
        parts.setdefault(f"{each.platform} {each.precision}", []).append(each)
    if len(parts) > 1:
        parts["all"] = list(comparisons)
    lines = [
        "| platform and precision | configurations | mean error before, after | median error before, after | 80 % intervals hold before, after |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, rows in parts.items():
        cells = [f"{name}", f"{len(rows)}"]
        for count in (fmean, median):
            sides = (
                [each.before.error(each.measured_ms) for each in rows],
                [each.after.error(each.measured_ms) for each in rows],
            )
            cells.append(", ".join(f"{100 * count(errors):.1f} %" for errors in sides))
        held = (
            fmean(each.before.holds(each.measured_ms) for each in rows),
            fmean(each.after.holds(each.measured_ms) for each in rows),
        )
        cells.append(", ".join(f"{100 * share:.0f} %" for share in held))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, ask, and print or write the table."""
    parser = argparse.ArgumentParser(
        prog="python -m research.calibrated_answers", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--folder", type=Path, required=True, help="keeps what was measured")
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--budget", type=float, default=3.0, help="seconds of measuring a configuration")
    parser.add_argument("--write", type=Path, help="a page whose table is written anew")
    options = parser.parse_args(arguments)
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    kernels, rows = measure(folder, options.models, options.budget)
    comparisons = compare(kernels, rows, folder)
    if not comparisons:
        raise SystemExit("no configuration was measured")
    described = next(event["data"] for event in _events(kernels) if event["type"] == HARDWARE_DESCRIBED)
    valid = sum(each.verdict == "valid" for each in comparisons)
    text = (
        f"`{described['hardware']['id']}`, {len(comparisons)} configurations of {len({each.model for each in comparisons})} models, "
        f"{valid} of them measured without a doubt.\n\n{table(comparisons)}"
    )
    if options.write is None:
        print(text)
        for each in comparisons:
            print(
                f"{each.model} {each.platform} {each.precision} {each.batch_size}: {each.measured_ms:.4g} ms ({each.verdict}), "
                f"{each.before.latency_ms:.4g} ({each.before.basis}) before, {each.after.latency_ms:.4g} ({each.after.basis}) after"
            )
        return
    page = options.write.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    options.write.write_text(head + BEGIN + text + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
