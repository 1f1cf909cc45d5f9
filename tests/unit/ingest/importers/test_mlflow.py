"""MLflow: what names mean, the REST API's shape, and a tracking store behind an address (a client that holds plain data)."""

from __future__ import annotations

import json
import sys
import types

import pytest

from domain.errors import PartMissing, ServiceUnavailable, UsageError
from domain.events import decode_event, encode_event
from ingest.importers.files import File
from ingest.importers.refusals import Refused
from ingest.importers.registry import import_paths
from ingest.importers.tables.mlflow import MLflow

INFO = {
    "run_id": "0123456789abcdef", "run_uuid": "0123456789abcdef", "run_name": "brave-owl", "experiment_id": "1",
    "user_id": "somebody", "status": "FINISHED", "start_time": 1772355600500, "end_time": 1772355660500,
    "artifact_uri": "file:///home/somebody/mlruns/1/0123/artifacts", "lifecycle_stage": "active",
}  # fmt: skip
PARAMS = {
    "Model-Name": "bert-base-uncased", "device": "cuda:0", "gpu_name": "NVIDIA A10G", "num_gpus": "2", "dtype": "torch.float16",
    "batch_size": "8", "seq_len": "128", "framework": "pytorch", "framework_version": "2.9.1", "lr": "0.001",
}  # fmt: skip
METRICS = {
    "latency_ms": 4.5, "p99_latency_s": 0.009, "throughput_per_s": 1777.5, "peak_gpu_memory_mb": 2048.0, "loss": 0.25,
    "latency": 99.0, "system/gpu_0_power_usage_watts": 140.0,
}  # fmt: skip


def pairs(values):
    return [{"key": key, "value": value} for key, value in values.items()]


RUN = {
    "info": INFO,
    "data": {"metrics": pairs(METRICS), "params": pairs(PARAMS), "tags": pairs({"mlflow.user": "somebody"})},
}
ANSWER = {"runs": [RUN]}


def run(number=1, *, params=None, metrics=None, **info):
    return {
        "info": {**INFO, "run_id": f"{number:032x}", **info},
        "data": {
            "params": PARAMS if params is None else params,
            "metrics": METRICS if metrics is None else metrics,
            "tags": {},
        },
    }


@pytest.fixture
def write(tmp_path):
    def written(content, name="runs.json"):
        (tmp_path / name).write_text(content)
        return File(tmp_path / name, name, given=True)

    return written


def judged(items):
    items = list(items)
    events = [item for item in items if not isinstance(item, Refused)]
    assert all(decode_event(encode_event(event)).warnings == () for event in events)
    return [event for event in events if ".run." not in event["type"]], [i for i in items if isinstance(i, Refused)]


def read(file):
    first, second = list(MLflow().rows(file)), list(MLflow().rows(file))
    assert first == second
    return judged(first)


def test_well_known_names_with_their_units_become_metrics(write):
    file = write(json.dumps(ANSWER))
    assert MLflow().sniff(file)
    (event,), refused = read(file)
    data = event["data"]
    assert refused == [] and event["time"] == "2026-03-01T09:00:00.500000+00:00"
    assert data["model"]["id"] == "google-bert/bert-base-uncased"
    assert data["workload"] == {"mode": "inference", "batch_size": 8, "sequence_length": 128}
    assert data["execution"] == {
        "platform": "cuda", "runtime": {"name": "torch", "version": "2.9.1"}, "precision": "fp16",
    }  # fmt: skip
    assert data["hardware"] == {"id": "nvidia-a10g", "kind": "gpu", "count": 2}
    assert data["metrics"] == {
        "latency_ms": {"mean": 4.5, "p99": 9.0}, "throughput_per_s": 1777.5, "device_memory_bytes": 2_048_000_000,
    }  # fmt: skip
    assert data["imported"]["original"] == {
        "latency_ms (ms)": 4.5, "p99_latency_s (s)": 0.009, "throughput_per_s": 1777.5, "peak_gpu_memory_mb (mb)": 2048.0,
    }  # fmt: skip
    assert "somebody" not in json.dumps(event)


def test_two_runs_with_the_same_figures_are_two_and_a_copy_is_one(write):
    events, _ = read(write("".join(json.dumps(run(n)) + "\n" for n in (1, 2, 1)), "runs.ndjson"))
    assert len({event["id"] for event in events}) == 2


def test_training_rates_are_of_training_and_take_its_batch(write):
    params = {
        "model": "gpt2",
        "per_device_train_batch_size": "16",
        "per_device_eval_batch_size": "64",
        "optim": "adamw_torch",
    }
    (event,), _ = read(write(json.dumps(run(params=params, metrics={"train_samples_per_second": 55.5})), "run.json"))
    assert event["data"]["workload"] == {"mode": "training", "batch_size": 16, "optimizer": "adamw_torch"}
    assert event["data"]["metrics"] == {"throughput_per_s": 55.5}
    assert event["data"]["hardware"]["id"] == "unknown"


def test_what_says_nothing_of_speed_is_refused_and_a_failed_run_is_a_failure(write):
    runs = [
        run(1, metrics={"loss": 0.5, "latency": 3.0}), run(2, params={"lr": "1"}), run(3, status="RUNNING"),
        run(4, metrics={"latency_ms": "fast"}), run(5, params={**PARAMS, "batch_size": "many"}), [], run(7, start_time="noon"),
        run(6, metrics={}, status="FAILED"),
    ]  # fmt: skip
    (event,), refused = read(write(json.dumps({"runs": runs})))
    assert [one.field for one in refused] == [
        "data.metrics", "data.params.model", "info.status", "data.metrics.latency_ms", "data.params.batch_size",
        "data.params.model", "info.start_time",
    ]  # fmt: skip
    assert event["type"] == "assay.measurement.failed.v1"
    assert event["data"]["failure"] == {"error": "MLflowRunFailed", "message": "MLflow calls the run FAILED"}
    assert json.loads(refused[0].content) == {"runs": [runs[0]]}


class Page(list):
    token = None


class Store:
    """A tracking client with two experiments, the second on a page of its own; it records what it was asked."""

    def __init__(self, tracking_uri):
        if "broken" in tracking_uri:
            raise RuntimeError(f"cannot read {tracking_uri}")

    def search_experiments(self, max_results, page_token):
        page = Page([types.SimpleNamespace(experiment_id="2" if page_token else "1")])
        page.token = None if page_token else "more"
        return page

    def search_runs(self, experiments, max_results, page_token):
        told = run(int(experiments[0]))
        return Page(
            [
                types.SimpleNamespace(
                    info=types.SimpleNamespace(**told["info"]), data=types.SimpleNamespace(**told["data"])
                )
            ]
        )


@pytest.fixture
def mlflow(monkeypatch):
    module = types.ModuleType("mlflow.tracking")
    module.MlflowClient = Store
    monkeypatch.setitem(sys.modules, "mlflow", types.ModuleType("mlflow"))
    monkeypatch.setitem(sys.modules, "mlflow.tracking", module)


def test_an_address_is_asked_for_all_runs_of_all_experiments(mlflow, tmp_path):
    (tmp_path / "runs.db").touch()
    events, refused = judged(import_paths("mlflow", [f"sqlite:///{tmp_path}/runs.db"], guarded=False))
    assert refused == [] and len(events) == 2
    again, _ = judged(import_paths("mlflow", ["postgresql://elsewhere/runs"], guarded=False))
    assert [event["id"] for event in again] == [event["id"] for event in events]
    assert events[0]["data"]["provenance"]["reference"] == "<sqlite address>"


def test_files_and_addresses_go_together(mlflow, write):
    file = write(json.dumps(ANSWER))
    events, _ = judged(import_paths("mlflow", [f"file://{file.path.parent}", file.path], guarded=False))
    assert len(events) == 3


def test_without_mlflow_or_a_store_it_says_what_to_do(mlflow, monkeypatch):
    with pytest.raises(ServiceUnavailable, match="cannot read <postgresql address>: cannot read <postgresql address>"):
        list(import_paths("mlflow", ["postgresql://broken/runs"]))
    with pytest.raises(ServiceUnavailable, match="nothing answers at <http address>"):
        list(import_paths("mlflow", ["http://127.0.0.1:9"]))
    for address in ("sqlite:///nowhere.db", "file:./nothing"):
        with pytest.raises(UsageError, match="there is no"):
            list(import_paths("mlflow", [address]))
    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    with pytest.raises(PartMissing, match="pip install mlflow-skinny"):
        list(import_paths("mlflow", ["sqlite:///runs.db"]))


@pytest.mark.parametrize("content", ['{"runs": []}', '{"info": {}, "data": {}}', "[]", ""])
def test_other_files_are_not_claimed(write, content):
    assert not MLflow().sniff(write(content))
