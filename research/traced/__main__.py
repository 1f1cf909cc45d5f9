"""Which work is a call of the models whose speed others published? Trace them at the sizes they were measured at.

    PYTHONPATH=EXTRA python -m research.traced OUT.ndjson.gz [--only ID…]
    python -m research.pack_traces predictor/shipped/traces.parquet OUT.ndjson.gz

Answer: one line a trace, the data of an `assay.model.traced.v1` event, built on torch's meta device without weights; the same
packages give the same bytes. EXTRA holds timm, torchvision and qai_hub_models, whose Python alone is used:

    pip install --no-deps --target EXTRA timm==1.0.31 torchvision==0.29.1 qai_hub_models==0.65.0

The second command adds the traces to those that ship; `python -m research.traced_rows` counts the published rows that find
one. What an architecture is after stands at the top of its module.
"""

from __future__ import annotations

import argparse
import gzip
import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from research.traced import libraries
from research.traced.entry import lines

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Trace all entries, or those named, and write them as one file."""
    parser = argparse.ArgumentParser(
        prog="python -m research.traced", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", default=[], help="ids of architectures")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    libraries.without_compiled_parts()
    from research.traced import listing  # transformers looks for torchvision when it is imported

    chosen = [entry for entry in listing.entries() if not options.only or entry.id in options.only]
    with options.out.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as out:
        for data in lines(chosen):
            out.write((json.dumps(data, separators=(",", ":")) + "\n").encode())
            model, workload, totals = data["model"], data["workload"], data["totals"]
            sizes = [value for name, value in workload.items() if name not in ("mode", "batch_size") and value]
            print(
                f"{model['id']} {sizes} {totals['parameters'] / 1e6:.3f} M parameters "
                f"{totals['flops'] / 2e9:.3f} GMACs {len(data['operators'])} operators",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
