"""Results of argonne-lcf/LLM-Inference-Bench: `Plots/All_results.csv`, LLM inference on eight accelerators.

Columns: `Hardware, Num of Hardware, Framework, Model, Input Output Length, Batch Size, Latency, Throughput`. Its scripts
(such as `Deepspeed-MII/A100/pipeline.py`) make a batch of prompts of L tokens generate L tokens each: `Latency` is the
time in s of the whole generation, `Throughput` is batch × (L + L) ÷ latency, tokens a second that count the prompt as
well. Half of it is therefore our `tokens_per_s`, and a 2 L-th of it the sequences a second.

llama.cpp was run as `llama-bench -pg L,L -b <Batch Size>`. There `-b` says how many tokens of one prompt are taken
together, and one sequence runs: its throughput times its latency is 2 L, not batch × 2 L. Where a row of llama.cpp says
so, the batch is 1 and the number is kept as the option `n_batch`.

Precision and versions are not in the table, and are left out. A bare A100 or H100 is what the catalogue means by it.

"Intel PVC GPU" and "Intel Max 1550" are one device (the READMEs under llama.cpp/ and vLLM/Max1550 list the former as Data
Center GPU Max 1550) in two series. On one GPU under vLLM every time of the former holds some 18 s that do not grow with
the length: 18.7 s for 128 tokens and 20.0 s for 256 of Llama 2 7B, where the other series takes 2.0 s and 3.7 s. No other
series of the table has such a part at all lengths. What took less than twice as long is set-up above all, and invalid.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

from domain.catalogues import hardware
from ingest.importers.document import Document
from ingest.importers.draft import Draft, Finding
from ingest.importers.files import File
from ingest.importers.identity import runtime_of
from ingest.importers.reading import number, text, whole
from ingest.importers.refusals import BadRow, Refused
from ingest.importers.tables.csv_drafts import csv_drafts, hardware_named, header_of, model_named

__all__ = ["Argonne"]

_COLUMNS = {
    "Hardware",
    "Num of Hardware",
    "Framework",
    "Model",
    "Input Output Length",
    "Batch Size",
    "Latency",
    "Throughput",
}
_PLATFORMS = {"nvidia": "cuda", "amd": "rocm", "intel": "xpu", "habana": "hpu"}
_TOLERANCE = 0.02
_SET_UP = ("Intel PVC GPU", "vllm", 1)
_SET_UP_S = 18.0


class Argonne:
    """LLM-Inference-Bench tables (CSV)."""

    name = "argonne"
    title = "LLM-Inference-Bench All_results.csv (argonne-lcf)"

    def sniff(self, file: File) -> bool:
        """Return whether the header has all of its columns."""
        return file.suffix == ".csv" and set(header_of(file)) >= _COLUMNS

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its measurements and the end of the run; see Importer."""
        document = Document(file, self.name, source="LLM-Inference-Bench results", licence="BSD-3-Clause")
        return document.events(csv_drafts(file, document, _drafts))


def _drafts(line: int, row: dict[str, str]) -> Iterator[Draft]:
    name, device, length = text(row, "Model"), text(row, "Hardware"), whole(row, "Input Output Length")
    if name is None or device is None or length is None:
        missing = "Model" if name is None else "Hardware" if device is None else "Input Output Length"
        raise BadRow(missing, "is missing")
    latency_s, throughput = number(row, "Latency"), number(row, "Throughput")
    runtime = runtime_of(text(row, "Framework"))
    batch, options = whole(row, "Batch Size"), None
    if _is_one_sequence(runtime, batch, throughput, latency_s, length):
        batch, options = 1, {"n_batch": batch}
    metrics: dict[str, Any] = {}
    original: dict[str, Any] = {}
    if latency_s is not None:
        metrics["latency_ms"] = {"mean": latency_s * 1000.0}
        original["Latency (s)"] = latency_s
    if throughput is not None:
        metrics |= {"tokens_per_s": throughput / 2, "throughput_per_s": throughput / (2 * length)}
        original["Throughput (tokens/s, prompt and output)"] = throughput
    yield Draft(
        row=line,
        model=model_named(name),
        workload={
            "mode": "inference",
            "scenario": "offline",
            "batch_size": batch,
            "input_tokens": length,
            "output_tokens": length,
        },
        execution={
            "platform": _PLATFORMS.get(device.split()[0].lower(), "other"),
            "runtime": runtime,
            "options": options,
        },
        hardware=_hardware(device, whole(row, "Num of Hardware") or 1),
        metrics=metrics,
        original=original,
        findings=_set_up(device, runtime, whole(row, "Num of Hardware") or 1, latency_s),
    )


def _set_up(device: str, runtime: dict[str, Any] | None, count: int, latency_s: float | None) -> list[Finding]:
    """Return what is wrong with a row of the series whose times hold a set-up."""
    if latency_s is None or (device, (runtime or {}).get("name"), count) != _SET_UP:
        return []
    verdict: Literal["suspect", "invalid"] = "invalid" if latency_s < 2 * _SET_UP_S else "suspect"
    reason = f"some {_SET_UP_S:g} s of this series' times do not grow with the length; here they are {latency_s:.3g} s"
    return [Finding("warm-up-inside", verdict, reason)]


def _is_one_sequence(
    runtime: dict[str, Any] | None, batch: int | None, throughput: float | None, latency_s: float | None, length: int
) -> bool:
    """Return whether a row of llama.cpp holds its `-b` where others have the batch."""
    if runtime is None or runtime["name"] != "llama.cpp" or batch in (None, 1) or not (throughput and latency_s):
        return False
    return abs(throughput * latency_s / (2 * length) - 1) <= _TOLERANCE


@lru_cache(maxsize=1024)
def _hardware(device: str, count: int) -> dict[str, Any]:
    """Return the catalogue's device by the whole name or by the name without maker and "GPU"."""
    bare = " ".join(word for word in device.split()[1:] if word.lower() != "gpu")
    name = bare if hardware.find(device) is None and bare and hardware.find(bare) else device
    return hardware_named(name, "gpu" if "gpu" in device.lower() else "other", count)
