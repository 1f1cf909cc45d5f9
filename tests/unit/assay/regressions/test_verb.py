"""`assay regressions` on files, as CI runs it: exit codes, outputs, and a baseline that grows."""

from __future__ import annotations

import json

import pytest

from assay.cli import run


@pytest.fixture
def lines(build, tmp_path):
    """Writes a file of measurements of two configurations, the first at a latency, and returns its path."""

    def write(name, p50, **parts):
        path = tmp_path / name
        events = [build.measurement(p50, **parts), build.measurement(5.0, batch_size=8, **parts)]
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
        return str(path)

    return write


@pytest.fixture
def typed(capsys):
    def type_(*words, code):
        ended = run(["regressions", *words])
        said = capsys.readouterr()
        assert ended == code, said.err + said.out
        return said.out, said.err

    return type_


def test_the_exit_code_says_whether_something_got_worse(lines, typed):
    before = lines("before.ndjson", 1.0)
    assert "0 figures worse" in typed("--baseline", before, "--candidate", lines("same.ndjson", 1.05), code=0)[0]
    out, _ = typed("--baseline", before, "--candidate", lines("slow.ndjson", 1.5), code=1)
    assert "Worse (1)" in out and "+50.0 %" in out
    assert typed("--baseline", before, "--candidate", lines("slow.ndjson", 1.5), "--alert", "0.6", code=0)
    assert "1 better" in typed("--baseline", before, "--candidate", lines("fast.ndjson", 0.5), code=0)[0]


def test_suspect_rows_cannot_tell_and_are_named(lines, typed, tmp_path):
    path = tmp_path / "suspect.ndjson"
    lines(path.name, 1.3)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for event in events:
        event["data"]["validity"] = {"verdict": "suspect", "reasons": ["a busy core"]}
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    comment = tmp_path / "c.md"
    words = ("--baseline", lines("before.ndjson", 1.0), "--candidate", str(path), "--output-ci", str(comment))
    (change,) = [item for item in json.loads(typed(*words, "--json", code=0)[0])["changes"] if item["suspect"]]
    assert (change["state"], change["suspect"]) == ("unclear", [events[0]["id"]])
    assert events[0]["id"] in typed(*words, code=0)[0].replace("\n", "")
    assert "nothing got worse" not in comment.read_text()
    typed(*words, "--strict", "--force", code=1)


def test_nothing_in_common_is_no_success_unless_it_may_be_new(lines, typed):
    words = ("--baseline", lines("a.ndjson", 1.0), "--candidate", lines("b.ndjson", 1.0, model="acme/other"))
    assert "Nothing was compared: 2 new and 2 gone" in typed(*words, code=1)[0]
    typed(*words, "--new-ok", code=0)


def test_outputs_are_written_by_suffix_and_stdout_in_the_format_asked_for(lines, typed, tmp_path):
    outputs = [str(tmp_path / name) for name in ("a.json", "b.xml", "c.md")]
    words = ("--baseline", lines("before.ndjson", 1.0), "--candidate", lines("after.ndjson", 2.0))
    out, _ = typed(*words, *(word for path in outputs for word in ("--output-ci", path)), "--json", code=1)
    told = json.loads(out)
    assert told == json.loads((tmp_path / "a.json").read_text())
    assert told["worse"] is True
    assert b"<failure" in (tmp_path / "b.xml").read_bytes()
    assert "something got worse" in (tmp_path / "c.md").read_text()
    assert typed(*words, "--format", "junit", code=1)[0].startswith("<?xml")


def test_a_baseline_keeps_the_runs_of_every_renewal(lines, typed, tmp_path):
    kept = str(tmp_path / "baseline.json")
    typed("--candidate", lines("0.ndjson", 1.0), "--save", kept, code=0)
    for number, value in enumerate((1.1, 0.95, 1.08, 1.0), 1):
        typed(
            "--baseline",
            kept,
            "--candidate",
            lines(f"{number}.ndjson", value),
            "--alert",
            "0.5",
            "--save",
            kept,
            code=0,
        )
    rows = json.loads((tmp_path / "baseline.json").read_text())["side"]["measured"]
    runs = next(row["figures"]["latency_p50_ms"]["runs"] for row in rows if "batch 1 " in row["title"])
    assert runs == [1.0, 1.1, 0.95, 1.08, 1.0]
    # A fifth is within what runs are known to differ by now, and was not when one run was known.
    slow = lines("slow.ndjson", 1.2)
    assert "1 larger but uncertain" in typed("--baseline", kept, "--candidate", slow, code=0)[0]
    typed("--baseline", str(tmp_path / "0.ndjson"), "--candidate", slow, code=1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--candidate", "FILE"), "--save FILE"),
        (("--baseline", "FILE", "--candidate", "FILE", "--output-ci", "a.txt"), "says no format"),
        (("--baseline", "FILE", "--candidate", "FILE", "--metric", "speed"), "cannot be compared"),
        (("--baseline", "missing.json", "--candidate", "FILE"), "no file missing.json"),
    ],
)
def test_wrong_usage_is_named_with_a_remedy(lines, typed, words, said):
    path = lines("a.ndjson", 1.0)
    assert said in " ".join(typed(*(path if word == "FILE" else word for word in words), code=2)[1].split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("thresholds: [{alert: -0.05}]", ("thresholds[0].alert", "rules.yaml")),
        ("thresholds: [{colour: red}]", ("thresholds[0].colour",)),
        ("thresholds: [", ("not YAML",)),
        ("thresholds: [{model: &a x, alert: 1}, {model: *a, alert: 1}]", ("alias",)),
        (b"\xff\xfe\x00", ("cannot be read",)),
        (None, ("cannot be read",)),
    ],
)
def test_thresholds_that_are_wrong_are_refused_with_their_place(lines, typed, tmp_path, text, words):
    path = tmp_path / "rules.yaml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    before, output = lines("before.ndjson", 1.0), tmp_path / "report.sarif"
    asked = ("--baseline", before, "--candidate", before, "--output-ci", str(output))
    error = typed(*asked, "--thresholds", str(path), code=2)[1].replace("\n", "")
    assert all(word in error for word in words) and not output.exists()


def test_thresholds_are_those_of_the_file_and_rules_without_a_match_are_told(lines, typed, tmp_path):
    path, output = tmp_path / "rules.yaml", tmp_path / "report.sarif"
    path.write_text('thresholds:\n- {metric: "latency_*", alert: 0.6}\n- {model: gpt2, alert: 0.1}\n')
    words = ("--baseline", lines("before.ndjson", 1.0), "--candidate", lines("slow.ndjson", 1.5))
    out = typed(*words, "--thresholds", str(path), "--output-ci", str(output), code=0)[0]
    assert "Unmatched thresholds (1)" in out and "model=gpt2" in out
    assert json.loads(output.read_text())["runs"][0]["results"] == []
    typed(*words, "--output-ci", str(output), code=1)
    assert len(json.loads(output.read_text())["runs"][0]["results"]) == 1
