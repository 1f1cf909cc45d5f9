"""`assay regressions history` on files: confirmed changes alarm, suspect points cannot tell, and every format says so."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest

from assay.cli import run

DAY = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def write(build, tmp_path):
    """Writes a run a day of one configuration with these latencies; returns the file and the events of measurements."""

    def make(latencies, name="runs.ndjson", *, branch="main", requests=(), version=lambda _: "2.13.0", **parts):
        draw, events, measured = random.Random(7), [], []
        for place, latency in enumerate(latencies):
            run_id, time = f"{name}-{place}", DAY + timedelta(days=place)
            context = {"branch": branch, "commit": f"{place:040x}"} | (
                {"pull_request": "7"} if place in requests else {}
            )
            started = {"run_id": run_id, "kind": "bench", "context": context}
            events.append(build.event("assay.run.started.v1", started, time=time))
            event = build.measurement(latency * draw.gauss(1, 0.01), run_id=run_id, time=time, **parts)
            event["data"]["execution"]["runtime"]["version"] = version(place)
            event["data"]["environment"] = {"fingerprint": version(place), "libraries": {"torch": version(place)}}
            events.append(event)
            measured.append(event)
        path = tmp_path / name
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
        return str(path), measured

    return make


@pytest.fixture
def typed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")

    def type_(*words, code):
        ended = run(["regressions", "history", *words])
        said = capsys.readouterr()
        assert ended == code, said.err + said.out
        return said.out, said.err

    return type_


STEP = [1.0] * 15 + [1.3] * 12


def test_confirmed_change_for_the_worse_ends_with_1_and_names_range_version_and_cause(write, typed):
    path, measured = write(STEP, version=lambda place: "2.12.0" if place < 15 else "2.13.0")
    out = typed("--file", path, code=1)[0]
    assert "worse" in out and "1 confirmed worse" in out and "2.12.0" in out
    assert max(map(len, out.splitlines())) <= 100
    (report,) = [each for each in json.loads(typed("--file", path, "--json", code=1)[0])["reports"] if each["changes"]]
    (change,) = report["changes"]
    assert change["state"] == "worse" and 0.25 < change["change"] < 0.35
    assert change["first"] == measured[14]["id"] and change["last"] == measured[15]["id"]
    assert {"part": "library torch", "before": "2.12.0", "after": "2.13.0"} in change["causes"]
    assert change["commits"] == [f"{14:040x}", f"{15:040x}"]


def test_steady_and_better_histories_end_with_0(write, typed):
    assert "0 confirmed worse" in typed("--file", write([1.0] * 27)[0], code=0)[0]
    assert "1 confirmed better" in typed("--file", write([1.3] * 15 + [1.0] * 12)[0], code=0)[0]


def test_suspect_point_cannot_tell_and_ends_with_0_in_every_format(write, typed, tmp_path):
    path, measured = write([1.0] * 26 + [2.0])
    outputs = [str(tmp_path / f"h.{suffix}") for suffix in ("json", "xml", "sarif", "md")]
    words = ("--file", path, *(word for output in outputs for word in ("--output-ci", output)))
    out = typed(*words, code=0)[0]
    assert "cannot tell" in out and measured[-1]["id"] in out.replace("\n", "")
    assert json.loads((tmp_path / "h.json").read_text())["worse"] is False
    skipped = ElementTree.parse(tmp_path / "h.xml").getroot().find(".//skipped")
    assert "cannot tell" in skipped.get("message")
    (result,) = json.loads((tmp_path / "h.sarif").read_text())["runs"][0]["results"]
    assert result["level"] == "warning" and "cannot tell" in result["message"]["text"]
    assert "#### Cannot tell (1)" in (tmp_path / "h.md").read_text()
    typed(*words, code=0)


def test_confirmed_change_is_a_failure_of_junit_and_an_error_of_sarif_with_a_steady_fingerprint(write, typed, tmp_path):
    prints = []
    for latencies in (STEP, [*STEP, 1.3, 1.3]):
        path, _ = write(latencies)
        outputs = ("--output-ci", str(tmp_path / "h.xml"), "--output-ci", str(tmp_path / "h.sarif"))
        typed("--file", path, *outputs, code=1)
        assert ElementTree.parse(tmp_path / "h.xml").getroot().find(".//failure") is not None
        (result,) = json.loads((tmp_path / "h.sarif").read_text())["runs"][0]["results"]
        assert result["level"] == "error"
        prints.append(result["partialFingerprints"])
    assert prints[0] == prints[1]


def test_points_of_requests_confirm_nothing_and_a_branch_has_its_own(write, typed):
    path, _ = write(STEP, requests=range(15, 27))
    out = typed("acme/tiny", "--file", path, code=0)[0]
    assert "15 points" in out and "12 of pull requests" in out
    both = ("--file", write(STEP, "topic.ndjson", branch="topic")[0], "--file", write([1.0] * 20, "main.ndjson")[0])
    typed(*both, "--branch", "topic", code=1)
    typed(*both, "--branch", "main", code=0)
    assert "absent" in typed(*both, "--branch", "absent", code=2)[1]


def test_changes_of_long_ago_do_not_alarm_with_days(write, typed):
    old, _ = write([1.0] * 15 + [1.3] * 40, "old.ndjson")
    new, _ = write([1.3] * 40 + [1.0] * 15, "new.ndjson", batch_size=8)
    typed("--file", old, "--file", new, code=1)
    typed("--file", old, "--file", new, "--days", "10", code=0)


def test_too_few_points_say_how_many_are_missing(write, typed):
    out = " ".join(typed("--file", write([1.0] * 5)[0], code=0)[0].split())
    assert "longest has 5, 3 more are needed" in out


def test_retracted_runs_and_events_that_stand_twice_do_not_count(write, typed, build, tmp_path):
    path, measured = write(STEP)
    with Path(path).open("a") as file:
        for event in measured[15:]:
            file.write(json.dumps(build.retraction(run_id=event["data"]["run_id"])) + "\n")
    assert "15 points" in typed("acme/tiny", "--file", path, "--file", path, code=0)[0]


def test_a_test_that_passed_and_fails_is_a_confirmed_change(build, typed, tmp_path):
    path = tmp_path / "tests.ndjson"
    outcomes = ["passed"] * 10 + ["failed"] * 4
    events = [
        build.test(outcome) | {"time": (DAY + timedelta(days=place)).isoformat()}
        for place, outcome in enumerate(outcomes)
    ]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    out = typed("--file", str(path), code=1)[0]
    assert "verify" in out and "passed → fails" in out
    typed("--file", str(path), "--metric", "latency_p50_ms", code=2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--file", "absent.ndjson"), "no file absent.ndjson"),
        (("--file", "broken.ndjson"), "not JSON"),
        (("--file", "rows.csv"), "no file of events"),
        (("--file", "list.ndjson"), "no event"),
        (("--file", "good.ndjson", "--metric", "speed"), "neither a figure nor a test"),
        (("--file", "good.ndjson", "--hardware", "nowhere"), "nowhere"),
        (("--file", "good.ndjson", "--output-ci", "report.pdf"), "no format"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(write, typed, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    write([1.0] * 9, "good.ndjson")
    for name, text in (("broken.ndjson", "{x}\n"), ("rows.csv", "a,b\n"), ("list.ndjson", "[1]\n")):
        (tmp_path / name).write_text(text)
    assert said in " ".join(typed(*words, code=2)[1].split())


def test_options_before_the_subcommand_are_refused(capsys):
    assert run(["regressions", "--alert", "0.2", "history"]) == 2
    assert "--alert" in capsys.readouterr().err
