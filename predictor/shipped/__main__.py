"""Make the shipped predictor again.

    python -m predictor.shipped --timm RESULTS --traces TRACES.ndjson.gz --measurements data/*.ndjson.gz --out predictor/prior

RESULTS is the folder `results/` of a clone of https://github.com/huggingface/pytorch-image-models (Apache-2.0); say its
commit with --commit. The shipped one was made at commit 90cae8c5ab83d2d7e23b1fb2bab1559bfdcbc7e9, with older runs of the
same files beside the newest as NAME@DATE-COMMIT.csv (`git show COMMIT:results/NAME.csv`), and without the files of the
RTX PRO 6000 Max-Q. TRACES is made from the same folder by

    python research/trace_timm.py RESULTS TRACES.ndjson.gz

which needs torch and timm. What is known of serving comes from --serving, see predictor/shipped/serving.py. Fitting takes about twenty seconds on one core, scoring on held-out groups thirty times that.
The same files give the same digest.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from domain.catalogues import hardware
from domain.events import MEASUREMENT_RECORDED
from ingest.importers import Refused, import_paths
from predictor.artifact.artifact import write_folder
from predictor.features.dataset import row_from_event, training_rows
from predictor.features.operators_route import tabulate
from predictor.features.table import Table
from predictor.features.traces import TraceBook, trace_from_data
from predictor.learning.building import build_from_table
from predictor.shipped.first_party import with_measurements
from predictor.shipped.serving import with_serving

SHOTS = (0, 10)
LIMITS = [
    "on GPUs vision models in torch with autocast to fp16 on three NVIDIA cards, training on one of them",
    "served language models from published tables of 12 accelerators, the time to the first token on five NVIDIA ones",
    "text, audio, multimodal models and OpenVINO: few rows of one machine with two cores of an Intel Xeon",
    "other software and other vendors get the roofline until something is measured there",
    "times are means over timm's benchmark loop, mostly at the largest batch that fits; batch 1 only on CPUs",
    "a device that did not train is not calibrated until a few measurements of it are there",
    "new device and new family together are covered by no width that was measured",
]


def read_rows(folder: Path) -> tuple[list[Any], dict[str, int]]:
    """Return the training rows of a results folder and how many rows were refused."""
    refused = taken = 0

    def rows() -> Iterator[Any]:
        nonlocal refused, taken
        for item in import_paths("timm", [folder]):
            if isinstance(item, Refused):
                refused += 1
            elif item["type"] == MEASUREMENT_RECORDED:
                taken += 1
                yield row_from_event(item)

    kept = training_rows(rows(), mode=None)
    return kept, {"read": taken, "refused": refused, "kept": len(kept)}


def read_traces(path: Path) -> TraceBook:
    """Return the traces of a compressed NDJSON file."""
    with gzip.open(path, "rt") as lines:
        return TraceBook(trace_from_data(json.loads(line)) for line in lines)


def table_of(timm: Path, traces: Path) -> tuple[Table, dict[str, Any]]:
    """Return the training table and what it was made from."""
    rows, counts = read_rows(timm)
    table = tabulate(rows, read_traces(traces), hardware.find)
    return table, {"measurements": counts, "left_out": table.dropped}


def main() -> int:
    """Build, score and write the predictor; print its digest."""
    parser = argparse.ArgumentParser(
        prog="python -m predictor.shipped", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--timm", type=Path, required=True, help="folder of timm's result files")
    parser.add_argument("--traces", type=Path, required=True, help="operator traces of the same models")
    parser.add_argument(
        "--measurements", type=Path, nargs="*", default=[], help="events of our runner, data/*.ndjson.gz"
    )
    parser.add_argument(
        "--serving", type=Path, nargs="*", default=[], help="published measurements of served language models"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--commit", default=None, help="commit of the clone the results come from")
    options = parser.parse_args()
    table, counts = table_of(options.timm, options.traces)
    card, base, others = build_from_table(table, hardware.find, shots=SHOTS, fields=False)
    digest = hashlib.sha256()
    for path in sorted(options.timm.glob("benchmark-*.csv")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    with gzip.open(options.traces) as lines:
        traced = hashlib.sha256(lines.read()).hexdigest()
    source = {
        "name": "timm benchmark results",
        "repository": "https://github.com/huggingface/pytorch-image-models",
        "folder": "results",
        "commit": options.commit,
        "licence": "Apache-2.0",
        "sha256": digest.hexdigest(),
        **counts,
    }
    ours = {"name": "operator traces of the same models", "licence": "own work", "sha256": traced}
    card = msgspec.structs.replace(card, limits=LIMITS, data={"rows": len(table), "sources": [source, ours]})
    card = with_measurements(card, sorted(options.measurements))
    card, others = with_serving(card, others, options.serving)
    print(write_folder(options.out, card, base, others))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
