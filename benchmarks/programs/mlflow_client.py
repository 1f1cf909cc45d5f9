"""A client of an MLflow tracking server. Takes its address and a number; each line is answered with one of JSON.

"log SECONDS" logs results for so long, "store COUNT" logs so many, "compare MODEL" asks for one model's results, as a
table, and groups them by hardware, platform and precision.
"""

from __future__ import annotations

import json
import random
import sys
import time

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import RestException

EXPERIMENT = "benchmarks"
MACHINES = tuple(f"acme-gpu-{number:02d}00" for number in range(12))
METRICS = (
    "latency_mean_ms", "latency_min_ms", "latency_max_ms", "latency_stddev_ms", "latency_p50_ms", "latency_p90_ms",
    "throughput_per_s", "load_ms", "first_run_ms", "peak_memory_bytes",
)  # fmt: skip


def result(chance: random.Random) -> tuple[list[Param], list[Metric]]:
    """Return 8 parameters and 10 metrics of one benchmark result."""
    middle = chance.lognormvariate(1, 1)
    now = int(time.time() * 1000)
    values = {
        "model": f"acme-research/encoder-{chance.randrange(40):05d}", "hardware": chance.choice(MACHINES),
        "platform": "cuda", "precision": chance.choice(("fp32", "fp16", "bf16")),
        "batch_size": str(chance.choice((1, 4, 8, 32))), "sequence_length": "128", "mode": "inference",
        "runtime": "torch 2.13.0",
    }  # fmt: skip
    params = [Param(name, value) for name, value in values.items()]
    return params, [Metric(name, middle * (index + 1), now, 0) for index, name in enumerate(METRICS)]


def compare(experiment: str, model: str) -> dict[str, float]:
    """Return the seconds that the question took, and how many runs and groups were in its answer."""
    begin = time.perf_counter()
    runs = mlflow.search_runs([experiment], f"params.model = '{model}'", max_results=100_000)
    groups = runs.groupby(["params.hardware", "params.platform", "params.precision"])["metrics.latency_p50_ms"].min()
    return {"seconds": time.perf_counter() - begin, "runs": len(runs), "groups": len(groups)}


def _experiment(client: MlflowClient) -> str:
    """Return the id of the experiment that all clients share; whoever comes first makes it."""
    known = client.get_experiment_by_name(EXPERIMENT)
    if known is None:
        try:
            return str(client.create_experiment(EXPERIMENT))
        except RestException:
            known = client.get_experiment_by_name(EXPERIMENT)
    return str(known.experiment_id)


def main() -> None:
    """Answer the lines of stdin."""
    address, number = sys.argv[1:3]
    mlflow.set_tracking_uri(address)
    client = MlflowClient(address)
    experiment = _experiment(client)
    chance = random.Random(int(number))

    def log() -> None:
        params, metrics = result(chance)
        run = client.create_run(experiment)
        client.log_batch(run.info.run_id, metrics=metrics, params=params)

    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        verb, _, value = line.strip().partition(" ")
        begin = time.perf_counter()
        count = 0
        if verb == "compare":
            print(json.dumps(compare(experiment, value)), flush=True)
            continue
        while time.perf_counter() - begin < float(value) if verb == "log" else count < int(value):
            log()
            count += 1
        print(json.dumps({"results": count, "seconds": time.perf_counter() - begin}), flush=True)


if __name__ == "__main__":
    main()
