"""Was an H100 what the shipped predictor said of it before anybody of us measured one? `python -m research.cuda_rows`.

Answer: the 80 % intervals held 36 of 43 rows (84 %). At batch 64 the median error is 21 %; at batches of 1 to 8 the
launches on that machine's processor take 2.6 times as long as predicted. fp8 through torchao, compiled modules and streams
are outside: they are launches too, and no row of these had trained it. docs/accelerators.md has the table.

The service (`--server`) must hold what ships and not data/cuda: `ASSAY_SHIPPED_DATA=yes assay serve`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay import Client
from domain.errors import AssayError

ROWS = Path(__file__).resolve().parent.parent / "data" / "cuda" / "nvidia-h100-sxm-2026-11.ndjson.gz"
SIZES = ("batch_size", "sequence_length", "input_tokens", "output_tokens", "mode")


def measurements() -> Iterator[dict[str, Any]]:
    """Yield the data of each measurement of the file."""
    for line in gzip.decompress(ROWS.read_bytes()).splitlines():
        event = json.loads(line)
        if event["type"] == "assay.measurement.recorded.v1":
            yield event["data"]


def predicted(client: Client, data: dict[str, Any]) -> dict[str, Any] | None:
    """Return the prediction of a measured configuration, or None where the service has no answer."""
    question = {name: data["workload"][name] for name in SIZES if name in data["workload"]}
    if data["execution"].get("compiled"):
        question["compiled"] = True
    place = {"hardware": data["hardware"]["id"], "platform": "cuda", "precision": data["execution"]["precision"]}
    try:
        answer = client.predict(data["model"]["id"], faster=False, **place, **question)
    except AssayError:
        return None
    return answer if answer.get("latency_ms") else None


def main() -> None:
    """Print a line a configuration, and how many intervals held it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="http://127.0.0.1:8000")
    client = Client(parser.parse_args().server)
    held, large, answered = 0, [], 0
    for data in measurements():
        measured, answer = data["metrics"]["latency_ms"]["p50"], predicted(client, data)
        if answer is None:
            continue
        inside = answer["latency_ms_low"] <= measured <= answer["latency_ms_high"]
        held, answered = held + inside, answered + 1
        if data["workload"]["batch_size"] == 64 and data["execution"]["precision"] != "fp8":
            large.append(abs(answer["latency_ms"] / measured - 1))
        execution, workload = data["execution"], data["workload"]
        name = f"{data['model']['id'].rpartition('/')[2]} {workload['mode']} {execution['precision']} batch {workload['batch_size']}"
        extra = " compiled" * bool(execution.get("compiled")) + "".join(
            f" {key}" for key in execution.get("options") or {}
        )
        interval = f"{answer['latency_ms_low']:.2f}–{answer['latency_ms_high']:.2f}"
        print(
            f"{name}{extra}: {measured:.2f} ms, predicted {answer['latency_ms']:.2f} ({interval}) {'held' if inside else 'OUTSIDE'}"
        )
    print(f"{held} of {answered} held; median error at batch 64: {statistics.median(large):.0%}")


if __name__ == "__main__":
    main()
