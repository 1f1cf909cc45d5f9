"""JUnit XML: outcomes, stages, what a case is about, and XML that means harm. Samples are ours."""

from __future__ import annotations

import pytest

from domain.events import decode_event, encode_event
from ingest.importers.ci.junit import JUnit
from ingest.importers.files import File
from ingest.importers.refusals import Refused
from ingest.importers.registry import IMPORTERS, import_paths

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="5" time="1.5"
 timestamp="2026-03-01T10:00:00.250000+01:00" hostname="secret-host">
<properties><property name="gpu" value="NVIDIA L40S" /></properties>
<testcase classname="tests.test_models.TestForward" name="test_forward[bert-base-uncased-cuda-fp16-8]" time="0.125" />
<testcase classname="tests.test_models" name="test_generate" time="0.5"><properties>
 <property name="model" value="gpt2" /><property name="device" value="cuda:0" /><property name="batch_size" value="4" />
 </properties><failure message="AssertionError: 3 words differ&#10;of 9">def test_generate(): ...</failure></testcase>
<testcase classname="tests.test_models" name="test_load" time="0.25"><error
 message="failed on setup with &quot;RuntimeError: CUDA out of memory&quot;">traceback</error></testcase>
<testcase classname="tests.test_models" name="test_later" time="0.0"><skipped type="pytest.skip" message="needs a TPU">x</skipped>
</testcase>
<testcase classname="tests.test_models" name="test_slow" time="5.0"><failure message="Failed: Timeout &gt;5.0s" /></testcase>
<system-out>printed &lt;!DOCTYPE html&gt;</system-out>
</testsuite></testsuites>
"""
SUREFIRE = """<testsuite name="acme.BenchTest" tests="2" timestamp="2026-03-01T10:00:00">
  <testcase name="adds" classname="acme.BenchTest" time="0.01"/>
  <testcase name="" classname="acme.BenchTest" time="oops"><failure type="java.lang.IllegalStateException">boom</failure></testcase>
</testsuite>
"""
BOMB = '<!DOCTYPE a [<!ENTITY b "xxxxxxxx"><!ENTITY c "&b;&b;&b;&b;">]><testsuite name="&c;"><testcase name="x"/></testsuite>'


@pytest.fixture
def write(tmp_path):
    def written(content, name="report.xml"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return File(path, name, given=True)

    return written


def read(file):
    assert JUnit().sniff(file)
    items = list(import_paths("junit", [file.path], guarded=False))
    events = [item for item in items if not isinstance(item, Refused)]
    assert all(decode_event(encode_event(event)).warnings == () for event in events)
    assert items == list(import_paths("junit", [file.path], guarded=False))
    return [event for event in events if ".run." not in event["type"]], [i for i in items if isinstance(i, Refused)]


def test_a_case_is_about_what_its_parameters_and_properties_name(write):
    events, refused = read(write(REPORT))
    assert refused == [] and {event["type"] for event in events} == {"assay.test.reported.v1"}
    data = events[0]["data"]
    assert events[0]["time"] == "2026-03-01T09:00:00.250000+00:00"
    assert data["model"]["id"] == "google-bert/bert-base-uncased"
    assert data["execution"] == {"platform": "cuda", "precision": "fp16"}
    assert data["hardware"] == {"id": "nvidia-l40s", "kind": "gpu", "count": 1}
    assert (data["test"], data["outcome"], data["stage"]) == ("test_forward-8", "passed", "verify")
    assert data["imported"]["original"] == {
        "name": "test_forward[bert-base-uncased-cuda-fp16-8]", "classname": "tests.test_models.TestForward", "time (s)": 0.125,
    }  # fmt: skip
    assert "failure" not in data and "secret-host" not in encode_event(events[0]).decode()
    told = events[1]["data"]
    assert (told["model"]["id"], told["workload"]) == ("openai-community/gpt2", {"mode": "inference", "batch_size": 4})


def test_outcomes_and_stages_are_those_that_the_report_tells(write):
    events, _ = read(write(REPORT))
    told = [(event["data"]["outcome"], event["data"]["stage"], event["data"].get("failure")) for event in events]
    assert told[1][:2] == ("failed", "verify")
    assert told[1][2] == {"error": "AssertionError", "message": "AssertionError: 3 words differ\nof 9"}
    assert told[2][:2] == ("out_of_memory", "load")
    assert told[3] == ("skipped", "resolve", {"error": "Skipped", "message": "needs a TPU"})
    assert told[4][:2] == ("timeout", "run")
    assert events[4]["data"]["model"]["id"] == "test/tests.test_models"


def test_a_case_without_a_name_is_refused_with_what_can_be_mended(write):
    (event,), (refused,) = read(write(SUREFIRE))
    assert event["time"] == "2026-03-01T10:00:00+00:00"
    assert event["data"]["hardware"] == {"id": "unknown", "kind": "other", "count": 1}
    assert (refused.row, refused.field) == (2, "name")
    (mended,), none = read(write(refused.content.replace('name=""', 'name="subtracts"')))
    assert none == [] and mended["data"]["failure"]["error"] == "IllegalStateException"
    assert mended["data"]["stage"] == "run" and "time (s)" not in mended["data"]["imported"]["original"]


def test_declarations_broken_and_deep_xml_are_refused(write):
    for content, reason in (
        (BOMB, "document type"),
        (
            '<!DOCTYPE testsuite SYSTEM "http://elsewhere/junit.dtd"><testsuite><testcase name="x"/></testsuite>',
            "document type",
        ),
        (REPORT[:-40], "not XML"),
        ("<testsuite>" * 100, "nested too deeply"),
        (b"<testsuite><testcase name='\xff\xfe'/></testsuite>", "not XML"),
    ):
        (refused,) = [item for item in import_paths("junit", [write(content).path]) if isinstance(item, Refused)]
        assert reason in refused.reason


def test_what_was_read_before_the_break_is_taken(write):
    events, _ = read(write(REPORT[: REPORT.index('<testcase classname="tests.test_models" name="test_later')]))
    assert [event["data"]["test"] for event in events] == ["test_forward-8", "test_generate", "test_load"]


def test_sixteen_bit_files_are_read(write):
    events, refused = read(write(REPORT.replace("utf-8", "utf-16").encode("utf-16")))
    assert len(events) == 5 and refused == []


@pytest.mark.parametrize(
    "content", ["<html><body>testsuite</body></html>", "<?xml version='1.0'?><coverage/>", "{}", ""]
)
def test_other_files_are_not_claimed(write, content):
    assert not JUnit().sniff(write(content))


def test_it_is_registered():
    assert isinstance(IMPORTERS["junit"], JUnit)
