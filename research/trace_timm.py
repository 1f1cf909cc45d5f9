"""Trace every timm model that a folder of timm result files names, for training the predictor's prior.

    python research/trace_timm.py RESULTS_FOLDER OUT.ndjson.gz [--phase training] [--failed FAILED.txt] [--limit N]

RESULTS_FOLDER holds the `benchmark-*.csv` files of huggingface/pytorch-image-models (`results/`). Each (model,
image size) in them is traced at batch 1 on torch's meta device, which takes a second or so and no weights, and
written as one line: the data of an `assay.model.traced.v1` event, model id `timm/<name>`. With `--phase training`
the sizes that were trained at are traced, forward and backward, and added to the same file; what is traced forward
already gives the name of the architecture. A second run takes up where the first one stopped. What cannot be traced
is listed with its reason in FAILED.txt. Needs timm and a torchvision that belongs to the installed torch.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from domain.catalogues.models import timm_family
from runner.models import timm
from runner.models.build import count_parameters
from runner.tracing.operator_rows import architecture_digest, sums_of
from runner.tracing.trace import record, traced_data

Phase = Literal["forward", "training"]
RENAMED = (("swin_v2_cr_", "swinv2_cr_"), ("_224_sam", "_224"))
"""What timm has renamed since without changing the architecture; traces keep the name of the result files."""


def today(name: str) -> str:
    """Return the name under which the installed timm knows the model."""
    for old, new in RENAMED:
        name = name.replace(old, new)
    return name


def named_pairs(folder: Path, phase: Phase) -> list[tuple[str, int]]:
    """Return the distinct (model, image size) of the result files of a phase, small images first.

    A forward pass is traced for what was trained as well: its architecture is named by it.
    """
    columns = ("train_img_size",) if phase == "training" else ("infer_img_size", "train_img_size")
    pairs: set[tuple[str, int]] = set()
    for path in sorted(folder.glob("benchmark-*.csv")):
        with path.open(newline="") as lines:
            for row in csv.DictReader(lines):
                size = next((row[column] for column in columns if row.get(column)), None)
                if size:
                    pairs.add((row["model"], int(size)))
    return sorted(pairs, key=lambda pair: (pair[1], pair[0]))


def trace_pair(name: str, image_size: int, phase: Phase, architectures: dict[str, str]) -> dict[str, Any]:
    """Return the traced data of one model at one image size; `architectures` remembers digests by model name."""
    import torch

    with torch.device("meta"):
        module = timm.create(today(name), image_size)
        channels = module.pretrained_cfg["input_size"][0]
        image = torch.empty(1, channels, image_size, image_size)
        rows, totals = record_step(module, image) if phase == "training" else record(module, (image,))
        if name not in architectures:
            default = timm.create(today(name))
            side = timm.image_size_of(default)
            same = phase == "forward" and side == image_size
            default_rows = rows if same else record(default, (torch.empty(1, channels, side, side),))[0]
            architectures[name] = architecture_digest(default_rows)
    model = {
        "id": timm.PREFIX + name,
        "category": "vision",
        "family": timm_family(today(name)),
        "task": "image-classification",
        "architecture": architectures[name],
    }
    return traced_data(model, {"sequence_length": None, "image_size": image_size}, rows, totals, phase)


def record_step(module: Any, image: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the operator rows of a forward pass, the loss and the backward pass, and their totals."""
    import torch

    from runner.tracing.operators import Recorder

    # A batch norm refuses to train on one number a channel; nothing is computed here, and the shapes are the same.
    torch.nn.functional._verify_batch_size = lambda _: None
    step = timm.WithLoss(module).train()
    recorder = Recorder(step)
    with recorder.recording(gradients=True):
        step(image, torch.zeros(1, dtype=torch.long))["loss"].backward()
    rows = recorder.rows()
    totals = {"parameters": count_parameters(module), "peak_activation_elements": recorder.peak_activation_elements}
    return rows, {**sums_of(rows), **totals}


def already_traced(out: Path, phase: Phase) -> tuple[set[tuple[str, int]], dict[str, str]]:
    """Return what a former run wrote: the pairs of this phase, and the architecture digests by model name."""
    done: set[tuple[str, int]] = set()
    architectures: dict[str, str] = {}
    if out.exists():
        with gzip.open(out, "rt") as lines:
            for line in lines:
                data = json.loads(line)
                name = data["model"]["id"].removeprefix(timm.PREFIX)
                architectures[name] = data["model"]["architecture"]
                if data["workload"].get("phase", "forward") == phase:
                    done.add((name, data["workload"]["image_size"]))
    return done, architectures


def main() -> int:
    """Trace what is missing; exit code 1 where something could not be traced."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--phase", choices=("forward", "training"), default="forward")
    parser.add_argument("--failed", type=Path, default=None)
    parser.add_argument("--limit", type=int, default=None)
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done, architectures = already_traced(options.out, options.phase)
    pending = [pair for pair in named_pairs(options.folder, options.phase) if pair not in done][: options.limit]
    failures: list[str] = []
    for number, (name, image_size) in enumerate(pending, 1):
        try:
            data = trace_pair(name, image_size, options.phase, architectures)
        except Exception as error:
            # One model of a thousand must not end the run: its reason is written down and shown.
            failures.append(f"{name}\t{image_size}\t{type(error).__name__}: {str(error).splitlines()[0][:300]}")
            print(failures[-1], flush=True)
            continue
        # One gzip member a line, written at once: a run that is cut off leaves a file that reads to its end.
        line = json.dumps(data, separators=(",", ":")) + "\n"
        with options.out.open("ab") as out:
            out.write(gzip.compress(line.encode(), mtime=0))
        print(f"{number}/{len(pending)} {name} {image_size} {data['totals']['flops'] / 2e9:.2f} GMACs", flush=True)
    if options.failed and (failures or not options.failed.exists()):
        options.failed.write_text("".join(f"{line}\n" for line in failures))
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
