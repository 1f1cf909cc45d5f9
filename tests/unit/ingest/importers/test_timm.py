"""timm's tables: what the name says, what a row says, and what is refused. The samples are ours, in the exact shape."""

from __future__ import annotations

import json

import pytest

from domain.errors import UnknownFormat, UsageError
from domain.events import decode_event, encode_event
from ingest.importers import IMPORTERS, Refused, Summary, import_paths

INFER = "benchmark-infer-amp-nhwc-pt240-cu124-rtx4090.csv"
HEADER = (
    "model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size,param_count,infer_gmacs,infer_macts\n"
)
ROW = "vit_tiny_patch16_224,224,20000.0,12.8,256,5.72,1.08,4.12\n"
SAMPLE = HEADER + ROW


@pytest.fixture
def write(tmp_path):
    def written(content, name=INFER):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


def split(path, format="timm"):  # noqa: A002
    items = list(import_paths(format, [path]))
    refused = [item for item in items if isinstance(item, Refused)]
    events = [item for item in items if not isinstance(item, Refused)]
    return [event for event in events if "recorded" in event["type"]], refused, events


def test_a_row_and_its_file_name_become_a_measurement(write):
    ((event,), refused, events) = split(write(HEADER + ROW))
    data = event["data"]
    assert refused == []
    assert data["model"] == {
        "id": "timm/vit_tiny_patch16_224", "category": "vision", "family": "vit", "task": "image-classification",
        "parameters": 5_720_000,
    }  # fmt: skip
    assert data["workload"] == {"mode": "inference", "scenario": "offline", "batch_size": 256, "image_size": 224}
    assert data["execution"] == {
        "platform": "cuda", "runtime": {"name": "torch", "version": "2.4.0"}, "precision": "amp-fp16", "compiled": False,
        "layout": "nhwc",
    }  # fmt: skip
    assert data["hardware"] == {"id": "nvidia-rtx-4090", "kind": "gpu", "count": 1}
    assert data["metrics"] == {"latency_ms": {"mean": 12.8}, "throughput_per_s": 20000.0}
    assert data["validity"]["verdict"] == "valid"
    assert (data["provenance"]["origin"], data["provenance"]["licence"]) == ("imported", "Apache-2.0")
    assert "time" not in event
    assert [e["type"].split(".")[1:3] for e in events] == [
        ["run", "started"],
        ["measurement", "recorded"],
        ["run", "finished"],
    ]
    assert events[-1]["data"]["measured"] == 1
    assert all(decode_event(encode_event(event)).warnings == () for event in events)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("benchmark-infer-fp32-nchw-pt221-cpu-i9_10940x-dynamo.csv",
         {"platform": "cpu", "precision": "fp32", "compiled": True, "torch": "2.2.1", "hardware": "intel-core-i9-10940x"}),
        ("benchmark-infer-amp-nchw-pt291-cu130-5090-dynamo.csv",
         {"platform": "cuda", "precision": "amp-fp16", "compiled": True, "torch": "2.9.1", "hardware": "nvidia-rtx-5090"}),
        ("benchmark-infer-amp_bf16-nhwc-pt291-cu130-5090.csv",
         {"platform": "cuda", "precision": "amp-bf16", "compiled": False, "torch": "2.9.1", "hardware": "nvidia-rtx-5090"}),
        ("benchmark-infer-amp-nchw-pt112-cu113-rtx3090@2022-07-19-5e7d47ca.csv",
         {"platform": "cuda", "precision": "amp-fp16", "compiled": False, "torch": "1.12", "hardware": "nvidia-rtx-3090",
          "time": "2022-07-19T00:00:00+00:00", "commit": "5e7d47ca"}),
    ],
)  # fmt: skip
def test_the_name_says_how_it_was_measured(write, name, expected):
    ((event,), _, _) = split(write(HEADER + ROW, name))
    execution = event["data"]["execution"]
    found = {
        "platform": execution["platform"], "precision": execution["precision"], "compiled": execution["compiled"],
        "torch": execution["runtime"]["version"], "hardware": event["data"]["hardware"]["id"],
    }  # fmt: skip
    assert found == {key: value for key, value in expected.items() if key not in ("time", "commit")}
    assert event.get("time") == expected.get("time")
    assert event["data"]["provenance"]["reference"].endswith(expected.get("commit", ".csv"))


def test_training_tables_and_other_column_orders_are_read(write):
    content = (
        "model,train_step_time,train_batch_size,train_samples_per_sec,train_img_size\nresnet50, 100.0 ,64.0,640.0,224\n"
    )
    ((event,), _, _) = split(write(content, "benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv"))
    assert event["data"]["workload"]["mode"] == "training"
    assert event["data"]["workload"]["batch_size"] == 64
    assert event["data"]["metrics"]["latency_ms"]["mean"] == 100.0
    assert "parameters" not in event["data"]["model"]


@pytest.mark.parametrize(
    ("row", "field", "reason"),
    [
        ("vit,224,nan,12.8,256,5.7,1,1", "infer_samples_per_sec", "not a finite number"),
        ("vit,224,20000,,256,5.7,1,1", "infer_step_time", "is empty"),
        ("vit,224,20000,0,256,5.7,1,1", "infer_step_time", "not above 0"),
        ("vit,224,20000,-1,256,5.7,1,1", "infer_step_time", "not above 0"),
        ("vit,224,20000,12.8,2.5,5.7,1,1", "infer_batch_size", "not a whole number"),
        ("vit,224,20000,12.8,256,5.7e300,1,1", "param_count", "not a number of millions"),
        ("vit,224,twenty,12.8,256,5.7,1,1", "infer_samples_per_sec", "not a number"),
        ("=cmd|' /C calc'!A0,224,20000,12.8,256,5.7,1,1", "model", "not the name"),
        ("-1,224,20000,12.8,256,5.7,1,1", "model", "not the name"),
        ("vit,224,20000", "row", "has 3 fields"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused_by_its_number_and_the_rest_goes_on(write, row, field, reason):
    measured, (refused,), events = split(write(HEADER + ROW + row + "\n\n" + ROW.replace("tiny", "small")))
    assert (refused.row, refused.field) == (3, field)
    assert reason in refused.reason
    assert len(measured) == 2
    assert events[-1]["data"]["failed"] == 1


def test_time_and_throughput_that_tell_of_different_batches_make_the_row_suspect(write):
    rows = (
        "a,224,20000.0,12.8,256,5.7,1,1\n"  # agrees
        "b,224,0.09,10775.568,1,1014.45,1,1\n"  # agrees but for the two decimals
        "c,224,20000.0,14.0,256,5.7,1,1\n"  # does not
    )
    measured, _, _ = split(write(HEADER + rows))
    verdicts = [event["data"]["validity"] for event in measured]
    assert [verdict["verdict"] for verdict in verdicts] == ["valid", "valid", "suspect"]
    assert "the batch has 256" in verdicts[2]["reasons"][0]
    assert verdicts[2]["metrics"]["latency_ms"]["verdict"] == "suspect"


def test_the_same_file_gives_the_same_events_and_another_file_others(write):
    path = write(HEADER + ROW + ROW)
    first, _, _ = split(path)
    again, _, _ = split(path)
    assert json.dumps(first) == json.dumps(again)
    assert first[0] == first[1], "a repeated row is the same fact"
    other, _, _ = split(write(HEADER + ROW, INFER.replace("nhwc", "nchw")))
    assert other[0]["id"] != first[0]["id"]


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", HEADER.encode() + b"vit\xff,1,1,1,1,1,1,1\n", HEADER.encode() + b'"open']
)
def test_a_broken_file_is_refused_and_does_not_stop_the_others(write, tmp_path, content):
    write(content, "benchmark-infer-amp-nhwc-pt240-cu124-rtx3090.csv")
    write(HEADER + ROW)
    items = list(import_paths("timm", sorted(tmp_path.iterdir())))
    assert any(isinstance(item, Refused) for item in items)
    assert sum(not isinstance(item, Refused) and "recorded" in item["type"] for item in items) == 1


def test_auto_passes_over_what_lies_in_a_folder_and_refuses_what_was_named(write, tmp_path):
    write(HEADER + ROW)
    other = write("something else", "notes.txt")
    items = list(import_paths("auto", [tmp_path]))
    assert len(items) == 3
    (refused,) = import_paths("auto", [other])
    assert "no importer" in refused.reason
    assert len(list(import_paths("auto", [str(tmp_path / "*.csv")]))) == 3


def test_a_name_that_says_too_little_is_refused(write):
    _, (refused,), _ = split(write(HEADER + ROW, "benchmark-mine.csv"))
    assert (refused.row, refused.field) == (None, "file name")


def test_unknown_formats_and_missing_paths_are_named(tmp_path):
    with pytest.raises(UnknownFormat, match="timmm"):
        import_paths("timmm", [tmp_path])
    with pytest.raises(UsageError, match="there is no"):
        list(import_paths("auto", [tmp_path / "missing.csv"]))


def test_a_summary_counts_what_went_by(write):
    summary = Summary()
    list(summary.watch(import_paths("timm", [write(HEADER + ROW + "vit,224,nan,1,1,1,1,1\n")])))
    assert summary.taken["assay.measurement.recorded.v1"] == 1
    assert summary.refused == {"is not a finite number": 1}
    assert summary.examples["is not a finite number"].row == 3


def test_every_importer_says_its_name():
    assert all(name == importer.name and importer.title for name, importer in IMPORTERS.items())
