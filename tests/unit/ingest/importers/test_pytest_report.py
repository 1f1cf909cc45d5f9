"""pytest's reports: stages of a test, lines of workers, tests that run again or fail as expected. Samples are ours."""

from __future__ import annotations

import json

import pytest

from domain.events import decode_event, encode_event
from ingest.importers.ci.pytest_report import PytestReport
from ingest.importers.files import File
from ingest.importers.refusals import Refused

PASSED = {"duration": 0.25, "outcome": "passed"}
FAILED = {
    "duration": 0.5, "outcome": "failed", "crash": {"path": "/home/somebody/tests/test_a.py", "lineno": 9, "message":
        "ValueError: shapes (3,) and (4,) in /home/somebody/model.py"}, "longrepr": "def test_a(): ...",
}  # fmt: skip
REPORT = {
    "created": 1772355600.5, "duration": 2.0, "exitcode": 1, "root": "/home/somebody/project",
    "environment": {"Python": "3.12.1", "Platform": "Linux-6.8-x86_64", "Packages": {"pytest": "8.4.0"}},
    "summary": {"passed": 1, "failed": 1, "xfailed": 1, "xpassed": 1, "error": 1, "skipped": 1, "total": 6},
    "collectors": [
        {"nodeid": "", "outcome": "passed", "result": []},
        {"nodeid": "tests/test_broken.py", "outcome": "failed", "result": [], "longrepr": "ImportError: no torch"},
    ],
    "tests": [
        {"nodeid": "tests/test_a.py::TestA::test_ok[whisper-tiny-openvino]", "outcome": "passed", "setup": PASSED, "call": PASSED,
         "teardown": PASSED, "metadata": {"precision": "int8", "cpu": {"nested": True}}},
        {"nodeid": "tests/test_a.py::test_bad", "outcome": "failed", "setup": PASSED, "call": FAILED, "teardown": PASSED},
        {"nodeid": "tests/test_a.py::test_setup", "outcome": "error", "setup": FAILED, "teardown": PASSED},
        {"nodeid": "tests/test_a.py::test_expected", "outcome": "xfailed", "setup": PASSED,
         "call": {**FAILED, "outcome": "skipped"}, "teardown": PASSED},
        {"nodeid": "tests/test_a.py::test_better", "outcome": "xpassed", "setup": PASSED, "call": PASSED, "teardown": PASSED},
        {"nodeid": "tests/test_a.py::test_later", "outcome": "skipped", "teardown": PASSED, "setup": {"duration": 0.0,
         "outcome": "skipped", "longrepr": "('test_a.py', 3, 'Skipped: later')"}},
    ],
}  # fmt: skip


def report(node, when, outcome="passed", **more):
    return {"nodeid": node, "location": ["tests/test_a.py", 1, "x"], "keywords": {}, "outcome": outcome, "longrepr": None,
            "when": when, "user_properties": [], "sections": [], "duration": 0.25, "$report_type": "TestReport", **more}  # fmt: skip


BAD = {
    "reprcrash": {"path": "D:\\\\a.py", "lineno": 6, "message": "assert 8 == 1"},
    "reprtraceback": {"reprentries": []},
}
LINES = [
    {"pytest_version": "9.2.0", "$report_type": "SessionStart"},
    {"nodeid": "tests/test_none.py", "outcome": "failed", "longrepr": "SyntaxError: no", "result": None, "sections": [],
     "$report_type": "CollectReport"},
    report("tests/test_a.py::test_ok", "setup", start=1772355600.0, stop=1772355600.25),
    report("tests/test_a.py::test_bad[gpt2-cuda]", "setup"),
    report("tests/test_a.py::test_ok", "call", user_properties=[["hardware", "NVIDIA L4"], ["odd"]]),
    report("tests/test_a.py::test_bad[gpt2-cuda]", "call", "failed", longrepr=BAD),
    report("tests/test_a.py::test_ok", "teardown"),
    report("tests/test_a.py::test_bad[gpt2-cuda]", "teardown"),
    {"category": "DeprecationWarning", "message": "old", "$report_type": "WarningMessage"},
    report("tests/test_a.py::test_flaky", "call", "rerun", longrepr="no luck"),
    report("tests/test_a.py::test_flaky", "call"),
    report("tests/test_a.py::test_skipped", "setup", "skipped", longrepr=["tests/test_a.py", 3, "Skipped: later"]),
    report("tests/test_a.py::test_skipped", "teardown"),
    {"exitstatus": 1, "$report_type": "SessionFinish"},
]  # fmt: skip
LOG = "".join(json.dumps(line) + "\n" for line in LINES)


@pytest.fixture
def write(tmp_path):
    def written(content, name):
        (tmp_path / name).write_text(content)
        return File(tmp_path / name, name, given=True)

    return written


def read(file):
    assert PytestReport().sniff(file)
    items = list(PytestReport().rows(file))
    events = [item for item in items if not isinstance(item, Refused)]
    assert all(decode_event(encode_event(event)).warnings == () for event in events)
    assert items == list(PytestReport().rows(file))
    return [event for event in events if ".run." not in event["type"]], [i for i in items if isinstance(i, Refused)]


def test_a_report_tells_outcomes_by_the_stage_that_ended_them(write):
    events, refused = read(write(json.dumps(REPORT), ".report.json"))
    assert refused == []
    told = [(e["data"]["test"], e["data"]["outcome"], e["data"]["stage"]) for e in events]
    assert told == [
        ("test_ok", "passed", "verify"), ("test_bad", "failed", "run"), ("test_setup", "error", "load"),
        ("test_expected", "skipped", "resolve"), ("test_better", "passed", "verify"), ("test_later", "skipped", "resolve"),
        ("tests.test_broken", "error", "resolve"),
    ]  # fmt: skip
    data = events[0]["data"]
    assert events[0]["time"] == "2026-03-01T09:00:00.500000+00:00"
    assert data["model"]["id"] == "openai/whisper-tiny" and data["hardware"]["id"] == "unknown-cpu"
    assert data["execution"] == {"platform": "openvino", "precision": "int8"}
    assert data["environment"]["python"] == "3.12.1" and data["environment"]["libraries"] == {"pytest": "8.4.0"}
    assert data["imported"]["original"]["time (s)"] == 0.75
    assert events[1]["data"]["failure"] == {
        "error": "ValueError",
        "message": "ValueError: shapes (3,) and (4,) in …/model.py",
    }
    assert "somebody" not in json.dumps(events)


def test_what_is_no_test_is_refused_alone(write):
    broken = {**REPORT, "collectors": [], "tests": [7, {"outcome": "passed"}, {"nodeid": "a.py::b", "outcome": "odd"}]}
    events, refused = read(write(json.dumps(broken), "report.json"))
    assert events == [] and [(one.row, one.field) for one in refused] == [(1, "test"), (2, "nodeid"), (3, "outcome")]
    _, (again,) = read(write(refused[2].content, "mended.json"))
    assert again.reason == refused[2].reason


def test_lines_of_a_log_are_put_together_by_test(write):
    events, refused = read(write(LOG, "log.jsonl"))
    assert refused == []
    told = {e["data"]["test"]: (e["data"]["outcome"], e["data"]["stage"], e["data"]["imported"]["row"]) for e in events}
    assert told == {
        "tests.test_none": ("error", "resolve", 2), "test_ok": ("passed", "verify", 3), "test_bad": ("failed", "verify", 4),
        "test_skipped": ("skipped", "resolve", 12), "test_flaky": ("passed", "verify", 10),
    }  # fmt: skip
    by_name = {event["data"]["test"]: event for event in events}
    assert by_name["test_ok"]["time"] == "2026-03-01T09:00:00+00:00"
    assert by_name["test_ok"]["data"]["hardware"]["id"] == "nvidia-l4"
    assert by_name["test_ok"]["data"]["environment"]["libraries"] == {"pytest": "9.2.0"}
    assert by_name["test_bad"]["data"]["model"]["id"] == "openai-community/gpt2"
    assert by_name["test_bad"]["data"]["failure"] == {"error": "AssertionError", "message": "assert 8 == 1"}
    assert by_name["test_skipped"]["data"]["failure"]["message"] == "later"


def test_a_line_that_is_no_json_is_refused_and_the_rest_goes_on(write):
    events, (refused,) = read(write(LOG.replace(json.dumps(LINES[8]), "{oops"), "log.jsonl"))
    assert refused.row == 9 and len(events) == 5


@pytest.mark.parametrize("content", ['{"tests": []}', '{"created": 1, "summary": {}}', "$report_type", "", "[]"])
def test_other_files_are_not_claimed(write, content):
    assert not PytestReport().sniff(write(content, "x.json"))
