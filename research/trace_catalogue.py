"""Which work is a call of each catalogue model? Trace all of them, for the traces that ship with Assay.

    python -m research.trace_catalogue OUT.ndjson.gz [NAME…]

Answer: operator counts and shapes on torch's meta device, without weights or a device, at the sizes below; one line a
trace, the data of an `assay.model.traced.v1` event. A model takes about ten seconds of one core. A second run takes up
where the first stopped. `python -m research.pack_traces` packs the file for the package.
"""

from __future__ import annotations

import gzip
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch

from domain.canonical import digest
from domain.catalogues.models import catalogue
from domain.configuration import Workload
from domain.errors import AssayError
from runner.campaign.discovery import prepare
from runner.models.sources import resolve
from runner.protocol.tasks import Prepare, Reached, Wanted
from runner.tracing.trace import MODULES, trace

__all__ = ["main", "modules_of", "workloads_of"]

TEXT_LENGTHS = (64, 128, 256, 384, 512)
GENERATION_LENGTHS = (128, 512, 1024)
RECORDINGS_S = (5.0, 30.0)
TRAINED = frozenset({"embedding", "vision", "text_generation", "audio"})
"""Categories that are traced in training as well, at their usual size."""


class Silent:
    """Take the stages of a preparation, and say nothing of them."""

    stage = "resolve"

    def reach(self, stage: str) -> None:
        """Take a stage."""

    def say(self, message: Reached) -> None:
        """Take a message."""


def workloads_of(category: str | None) -> list[Workload]:
    """Return the work to trace of a model of this category: its usual sizes first."""
    workloads = [Workload(mode="inference")]
    if category in ("embedding", "text_generation"):
        workloads += [Workload(mode="inference", sequence_length=length) for length in TEXT_LENGTHS]
    if category == "text_generation":
        workloads += [
            Workload(mode="inference", input_tokens=length, output_tokens=128) for length in GENERATION_LENGTHS
        ]
    elif category in ("text_to_text", "multimodal", "audio"):
        workloads.append(Workload(mode="inference", output_tokens=32))
    if category == "audio":
        workloads += [Workload(mode="inference", audio_seconds=seconds) for seconds in RECORDINGS_S]
    if category in TRAINED:
        workloads.append(Workload(mode="training"))
    return workloads


def modules_of(name: str) -> Iterator[dict[str, Any]]:
    """Yield the traces of the modules of a diffusion pipeline beside its denoiser; none of another model."""
    source = resolve(name, "random")
    if source.pipeline is not None:
        for phase in MODULES:
            yield trace(source, phase=phase)


def main(arguments: Sequence[str]) -> int:
    """Trace what is missing; return 1 where something could not be traced."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    out, names = Path(arguments[0]), set(arguments[1:])
    done = set()
    if out.exists():
        with gzip.open(out, "rt") as lines:
            done = {json.loads(line)["model"]["id"] for line in lines}
    pending = [item for item in catalogue() if item.id not in done and (not names or item.id in names)]
    failed = 0
    for number, item in enumerate(pending, 1):
        traces: dict[str, bytes] = {}
        reasons = set()
        for workload in workloads_of(item.category):
            wanted = [Wanted(model=item.id, workloads=[workload])]
            try:
                (row,) = prepare(Prepare(wanted=wanted, weights="random", trace=True), Silent())
            except AssayError as error:
                reasons.add(error.detail)
                continue
            if row["error"]:
                reasons.add(row["error"]["detail"])
            for traced in row["traces"]:
                described = {name: value for name, value in row["model"].items() if name != "weights"}
                data = {**traced, "model": {**described, **traced["model"]}}
                traces[digest(data["workload"])] = msgspec.json.encode(data)
        for data in modules_of(item.id):
            traces[digest(data["workload"])] = msgspec.json.encode(data)
        with out.open("ab") as file:
            file.write(gzip.compress(b"".join(line + b"\n" for line in traces.values()), mtime=0))
        failed += not traces
        print(f"{number}/{len(pending)} {item.id}: {len(traces)} traces {'; '.join(sorted(reasons))[:200]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
