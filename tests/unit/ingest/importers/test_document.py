"""What a Document makes of drafts: ids that say what a row says, and only events that pass the gate."""

from __future__ import annotations

import json

import pytest

from domain.events import decode_event, encode_event
from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import row_id
from ingest.importers.reading import BadFile
from ingest.importers.refusals import BadRow, Refused

TIME = "2026-11-20T10:00:00+00:00"


def draft(name="bert", mean=12.5, **more):
    return Draft(
        **{
            "model": {"id": name, "task": None},
            "workload": {"mode": "inference", "scenario": "offline", "batch_size": 8},
            "execution": {"platform": "cuda", "runtime": {"name": "torch", "version": None}, "options": {}},
            "hardware": {"id": "nvidia-l4", "kind": "gpu", "count": 1},
            "metrics": {"latency_ms": {"mean": mean, "p50": None}},
            **more,
        }
    )


@pytest.fixture
def document(tmp_path):
    def made(content="x", name="x.json", **more):
        path = tmp_path / name
        path.write_text(content)
        return Document(File(path, name), "tool", **more)

    return made


def rows_of(items):
    return [item for item in items if isinstance(item, Refused) or "run." not in item["type"]]


def test_what_is_missing_is_left_out_at_every_depth(document):
    (event,) = rows_of(document().events([draft(row=3, original={"mean (s)": 0.0125, "host": None})]))
    assert event["data"]["execution"] == {"platform": "cuda", "runtime": {"name": "torch"}}
    assert event["data"]["metrics"] == {"latency_ms": {"mean": 12.5}}
    assert event["data"]["imported"] == {"row": 3, "original": {"mean (s)": 0.0125}}
    assert decode_event(encode_event(event)).warnings == ()


def test_an_id_is_what_the_row_says_and_stays_for_ever(document):
    (event,) = rows_of(document(time=TIME).events([draft(row=1)]))
    (elsewhere,) = rows_of(document("another file", "y.json", time=TIME).events([draft(row=7)]))
    (slower,) = rows_of(document(time=TIME).events([draft(mean=12.6)]))
    (later,) = rows_of(document(time=TIME).events([draft(time="2026-11-21T10:00:00+00:00")]))
    (keyed,) = rows_of(document(time=TIME).events([draft(key="second take")]))
    assert event["id"] == elsewhere["id"] == "f8a7f378-03ee-540c-9409-1c09c4817145"
    assert len({event["id"], slower["id"], later["id"], keyed["id"]}) == 4
    assert elsewhere["data"]["run_id"] != event["data"]["run_id"]


def test_the_same_file_gives_the_same_bytes(document):
    items = [[json.dumps(item) for item in document(time=TIME).events([draft(), draft("t5")])] for _ in range(2)]
    assert items[0] == items[1]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"metrics": {}}, "metrics"),
        ({"metrics": {"latency_ms": {"mean": -1}}}, "metrics.latency_ms.mean"),
        ({"metrics": {"latency_ms": {"p50": 3.0, "p90": 2.0}}}, "metrics.latency_ms.p50"),
        ({"metrics": {"throughput_per_s": float("inf")}}, None),
        ({"model": {"id": "a b"}}, "model.id"),
        ({"model": {"id": "bert", "task": "\ud800"}}, None),
        ({"workload": {"mode": "inference", "batch_size": "8"}}, "workload.batch_size"),
        ({"time": "yesterday"}, "time"),
        ({"time": "1812-01-01T00:00:00Z"}, "time"),
        ({"execution": {"platform": "cuda", "options": {"seed": 2**60}}}, None),
        ({"execution": {"platform": "cuda", "options": {"text": "x" * 300_000}}}, None),
        ({"kind": "test"}, "outcome"),
        ({"kind": "failure", "outcome": "error"}, "failure"),
    ],
)
def test_a_draft_that_makes_no_event_is_refused_by_its_row_and_the_rest_goes_on(document, more, field):
    refused, taken = rows_of(document().events([draft(**{"row": 4, **more}), draft(row=5)]))
    assert isinstance(refused, Refused)
    assert (refused.row, refused.format) == (4, "tool")
    assert refused.field == field or (field and refused.field and refused.field.startswith(field))
    assert taken["data"]["imported"]["row"] == 5


def test_original_values_are_kept_as_far_as_an_event_can_hold_them(document):
    kept = {"a": "1,5", "b": 2**70, "c": float("inf"), "d": [1, {"e": 2}], "f": "x" * 9000, "g": False, "h": "\ud800"}
    (event,) = rows_of(document().events([draft(original=kept)]))
    original = event["data"]["imported"]["original"]
    assert (original["a"], original["g"]) == ("1,5", False)
    assert original["b"] == str(2**70)
    assert original["c"] == "Infinity"
    assert json.loads(original["d"]) == [1, {"e": 2}]
    assert len(original["f"]) == 2000
    assert decode_event(encode_event(event)).warnings == ()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (BadFile("is not JSON", 9), "is not JSON"),
        (BadRow("mean", "is not a number"), "is not a number"),
        (OSError(5, "Input/output error"), "cannot be read on: OSError"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), "cannot be read on: UnicodeDecodeError"),
    ],
)
def test_what_was_read_before_a_file_breaks_off_is_taken(document, error, reason):
    def rows():
        yield draft(row=1)
        raise error

    started, refused, taken, ended = document().events(rows())
    assert (refused.reason, refused.path) == (reason, "x.json")
    assert taken["data"]["imported"]["row"] == 1
    assert ended["data"] == {
        "run_id": started["data"]["run_id"], "outcome": "stopped", "reason": reason, "measured": 1, "failed": 1, "tests": 0,
    }  # fmt: skip
    for event in (started, taken, ended):
        decode_event(encode_event(event))


@pytest.mark.parametrize(
    "more",
    [{"time": "noon"}, {"hardware": [{"id": "a b"}]}, {"environment": {"fingerprint": ""}}, {"source": "\ud800"}],
)
def test_a_file_of_which_something_impossible_is_said_is_refused_whole(document, more):
    with pytest.raises(BadFile):
        list(document(**more).events([draft()]))


def test_failures_and_tests(document):
    items = document().events([
        draft(kind="failure", outcome="out_of_memory", error="CUDA", message="at /home/me/x.py", metrics={}),
        draft(kind="test", outcome="passed", test="forward", stage="verify", checks={"cosine": 0.99}),
    ])  # fmt: skip
    failure, test = rows_of(items)
    assert failure["data"]["failure"] == {"error": "CUDA", "message": "at …/x.py"}
    assert (test["data"]["test"], test["data"]["checks"]) == ("forward", {"cosine": 0.99})
    for event in (failure, test):
        decode_event(encode_event(event))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("tool", 1, {"a": 1.5, "b": [None, True, "x"]}), "e05b96b0-0d1d-5370-baf3-88605163f3e8"),
        (("tool", 1, {"b": 20000.0, "a": 1e-7}), "0ccd7c14-7cd5-5f31-b2fe-88875e5d46b1"),
        (("tool", 1, {"é": "\n\u2028"}), "65a53c21-1e73-5996-8f7a-655287239b53"),
    ],
)
def test_ids_of_rows_never_change(parts, expected):
    assert row_id(*parts) == expected
