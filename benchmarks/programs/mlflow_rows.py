"""Logs the runs of a file to an MLflow tracking server. Takes its address and the file: a list of parameters and metrics.

Prints the experiment's id and the runs' ids as one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param


def main() -> None:
    """Log every run."""
    address, file = sys.argv[1:3]
    client = MlflowClient(address)
    experiment = client.create_experiment(f"measurements {time.time_ns()}")
    runs = []
    for row in json.loads(Path(file).read_text()):
        now = int(time.time() * 1000)
        run = client.create_run(experiment).info.run_id
        client.log_batch(
            run,
            metrics=[Metric(name, value, now, 0) for name, value in row["metrics"].items()],
            params=[Param(name, value) for name, value in row["params"].items()],
        )
        client.set_terminated(run)
        runs.append(run)
    print(json.dumps({"experiment": experiment, "runs": runs}))


if __name__ == "__main__":
    main()
