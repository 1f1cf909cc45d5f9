"""How small are the operator traces of two thousand models? Pack them for the package.

    python -m research.pack_traces TRACES… [--out predictor/shipped/traces.parquet]

Answer: one Parquet file of a few MB. TRACES are lines of data of `assay.model.traced.v1` events (`.ndjson.gz`), as
`python -m research.trace_catalogue` and `python research/trace_timm.py` write them, or a packed file (`.parquet`), to which
others are added. What comes later counts before the same work of an earlier file. The same lines give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["main"]

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("model_id", "category", "family", "architecture", "task")),
        ("parameters", pa.int64()),
        *((name, pa.string()) for name in ("mode", "phase")),
        *((name, pa.int64()) for name in ("batch_size", "sequence_length", "image_size")),
        *((name, pa.string()) for name in ("workload", "tracer", "operators", "totals")),
    ]
)
ROWS_PER_GROUP = 40


def row_of(data: dict[str, Any]) -> dict[str, Any]:
    """Return a trace as a row of the view `traces`."""
    model, workload = data["model"], data["workload"]
    row = {name: model.get(name) for name in ("category", "family", "architecture", "task", "parameters")}
    row |= {name: workload.get(name) for name in ("phase", "batch_size", "sequence_length", "image_size")}
    row |= {
        name: json.dumps(data[name], separators=(",", ":")) for name in ("workload", "tracer", "operators", "totals")
    }
    return {"model_id": model["id"], "mode": workload.get("mode") or "inference", **row}


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a packed file, or of lines of traces."""
    if path.suffix == ".parquet":
        yield from pq.read_table(path, schema=SCHEMA).to_pylist()
        return
    with gzip.open(path, "rt") as lines:
        yield from (row_of(json.loads(line)) for line in lines)


def main() -> int:
    """Pack the files and say how many traces of how many models the result holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("predictor/shipped/traces.parquet"))
    options = parser.parse_args()
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for path in options.traces:
        for row in rows_of(path):
            rows[row["model_id"], row["phase"] or "", row["workload"]] = row
    ordered = [rows[key] for key in sorted(rows)]
    table = pa.Table.from_pylist(ordered, schema=SCHEMA)
    pq.write_table(table, options.out, compression="zstd", compression_level=19, row_group_size=ROWS_PER_GROUP)
    models = len({row["model_id"] for row in ordered})
    print(f"{len(ordered):,} traces of {models:,} models, {options.out.stat().st_size:,} bytes: {options.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
