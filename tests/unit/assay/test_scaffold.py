"""`assay scaffold`: test files written from events, refreshed without losing a line of the user's, and short."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay import testing
from assay.cli import run
from assay.cli.scaffold.generated import LINES, Planned, file_name, fitting, new_text, refreshed
from assay.cli.scaffold.recorded import time_of
from domain.measured import Latency

MODEL = "prajjwal1/bert-tiny"
VALUES = {
    "last_hidden_state": {"shape": [1, 4], "norm": 2.0, "largest": 1.5, "sample": [1.0, 0.5, -0.25, 0.125]},
    "pooler_output": {"shape": [1, 2], "norm": 1.0, "largest": 0.75, "sample": [0.75, -0.5]},
}


def observed(platform: str, precision: str, **more: Any) -> dict[str, Any]:
    asked = {"platform": platform, "precision": precision}
    return {
        "device": platform,
        "platform": platform,
        "precision": precision,
        "fallback_share": 0.0,
        "requested": asked,
        **more,
    }


def facts(
    build: Any, platform: str = "cpu", precision: str = "fp32", batch: int = 1, p50: float = 2.0
) -> list[dict[str, Any]]:
    how = {"model": MODEL, "platform": platform, "precision": precision, "batch_size": batch}
    what = {"observed": observed(platform, precision)}
    checks = {"kind": "inference", "values": VALUES}
    return [build.test(**how, **what, checks=checks), build.measurement(p50, **how, **what)]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def written(events: list[dict[str, Any]]) -> str:
    Path("here.ndjson").write_text("".join(json.dumps(event) + "\n" for event in events))
    return "here.ndjson"


def scaffold(events: list[dict[str, Any]], *flags: str) -> int:
    return run(["scaffold", "test", MODEL, "--events", written(events), *flags])


def file() -> Path:
    return Path("tests/models/test_bert_tiny.py")


def expected_in(text: str) -> list[testing.Expected]:
    names: dict[str, Any] = {}
    exec(compile(text, "test_file.py", "exec"), names)
    result: list[testing.Expected] = names["EXPECTED"]
    return result


def ruff(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ruff", *arguments], capture_output=True, text=True, check=False)


def test_file_holds_figures_and_event_ids(build: Any) -> None:
    events = facts(build)
    assert scaffold(events) == 0
    (expected,) = expected_in(file().read_text())
    assert (expected.case.platform, expected.case.precision, expected.case.sequence_length) == ("cpu", "fp32", 128)
    assert expected.ran is not None and expected.ran.runtime == "torch 2.13.0"
    assert expected.gave["pooler_output"] == testing.Output(1.0, [0.75, -0.5])
    assert expected.took == testing.Time(2.0, most_ms=2.22, on="acme-one")
    assert [expected.tested, expected.measured] == [event["id"] for event in events]


def test_files_are_short_and_clean_for_ruff(build: Any) -> None:
    events = [
        event
        for platform in ("cpu", "openvino", "cuda", "onnxruntime", "mps")
        for precision in ("fp32", "bf16")
        for batch in (1, 8)
        for event in facts(build, platform, precision, batch)
    ]
    failed = build.test("failed", model=MODEL, platform="cpu", precision="int8", observed=observed("cpu", "int8"))
    for flags in ((), ("--from-matrix", "--out", "matrix")):
        assert scaffold([*events, failed], *flags) == 0
    for text in (file().read_text(), Path("matrix/test_bert_tiny.py").read_text()):
        assert text.count("\n") <= LINES
        assert len({expected.case.platform for expected in expected_in(text)}) >= 3
    for checked in (
        ("check", "--isolated", "--select", "ANN,B,C4,E4,E7,E9,ERA,F,I,N,PIE,PT,RUF,SIM,UP,W"),
        ("format", "--isolated", "--check"),
    ):
        ended = ruff(*checked, "tests", "matrix")
        assert ended.returncode == 0, ended.stdout


def test_every_platform_comes_before_a_second_case_of_one(build: Any) -> None:
    scaffold(
        [
            event
            for platform, batch in (("cpu", 1), ("cpu", 8), ("openvino", 1))
            for event in facts(build, platform, batch=batch)
        ]
    )
    cases = [(each.case.platform, each.case.batch_size) for each in expected_in(file().read_text())]
    assert cases == [("cpu", 1), ("openvino", 1), ("cpu", 8)]


def test_valid_measurement_goes_before_a_newer_suspect_one(build: Any) -> None:
    suspect = build.measurement(9.0, model=MODEL, validity={"verdict": "suspect", "reasons": ["noise"]})
    scaffold([*facts(build), suspect])
    (expected,) = expected_in(file().read_text())
    assert expected.took is not None and expected.took.p50_ms == 2.0


def test_time_that_was_measured_under_noise_is_left_out_and_named(
    build: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    verified, measured = facts(build)
    measured["data"]["metrics"]["latency_ms"]["ci95"]["p50"] = [1.0, 4.0]
    assert scaffold([verified, measured], "--json") == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["without_time"] == ["cpu-fp32-batch1-128"]
    (expected,) = expected_in(file().read_text())
    assert expected.took is None and expected.measured is None


def test_case_that_failed_last_is_no_expectation_and_a_known_failure_with_from_matrix(build: Any) -> None:
    how = {"model": MODEL, "platform": "openvino", "observed": observed("openvino", "fp32")}
    failed = build.test("failed", **how)
    absent = build.test("unsupported", **{**how, "platform": "cuda", "observed": observed("cuda", "fp32")})
    absent["data"]["failure"]["error"] = "PlatformUnavailable"
    events = [*facts(build), *facts(build, "openvino"), failed, absent]
    assert scaffold(events) == 0
    assert [each.case.platform for each in expected_in(file().read_text())] == ["cpu"]
    assert scaffold(events, "--from-matrix", "--out", "matrix") == 0
    text = Path("matrix/test_bert_tiny.py").read_text()
    assert failed["id"] in text and "Mismatch" in text and "strict=True" in text
    assert "cuda" not in text


def test_existing_file_stays_and_refresh_keeps_the_users_lines(build: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scaffold(facts(build))
    own = "\n\ndef test_my_own() -> None:\n    assert MODEL\n"
    mine = file().read_text() + own
    file().write_text(mine)
    slower = facts(build, p50=3.0)
    assert scaffold(slower) == 1
    assert file().read_text() == mine
    assert scaffold(slower, "--refresh", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "-        took=testing.Time(2.0," in shown and "+        took=testing.Time(3.0," in shown
    assert file().read_text() == mine
    assert scaffold(slower, "--refresh") == 2, "nobody is there to agree"
    assert file().read_text() == mine
    assert scaffold(slower, "--refresh", "--yes") == 0
    text = file().read_text()
    assert text.endswith(own) and expected_in(text)[0].took == testing.Time(3.0, most_ms=3.33, on="acme-one")
    assert scaffold(slower, "--refresh") == 0, "nothing changes, so nothing is asked"


def test_refresh_refuses_a_file_without_its_marks(build: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scaffold(facts(build))
    mine = file().read_text().replace("# assay ends here\n", "")
    file().write_text(mine)
    assert scaffold(facts(build), "--refresh", "--yes") == 2
    assert "# assay ends here" in capsys.readouterr().err
    assert file().read_text() == mine


def test_dry_run_writes_nothing_and_says_what_would_be(build: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert scaffold(facts(build), "--dry-run", "--ci", "github", "--json") == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["state"] for entry in entries] == ["would write", "would write"]
    assert not Path("tests").exists() and not Path(".github").exists()


@pytest.mark.parametrize(
    ("system", "place"), [("github", ".github/workflows/assay-models.yml"), ("gitlab", ".gitlab/assay-models.yml")]
)
def test_workflow_runs_the_folder_and_is_not_overwritten(build: Any, system: str, place: str) -> None:
    assert scaffold(facts(build), "--ci", system, "--out", "checks") == 0
    text = Path(place).read_text()
    assert yaml.safe_load(text) and "assay scaffold check checks" in text
    Path(place).write_text("mine")
    assert scaffold(facts(build), "--ci", system, "--out", "other") == 1
    assert Path(place).read_text() == "mine"


def test_all_takes_every_model_and_names_folders_that_only_a_path_can_name(
    build: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [*facts(build), *(build.measurement(1.0, model=name) for name in ("acme/other", "local/mine"))]
    assert run(["scaffold", "test", "--all", "--events", written(events), "--json"]) == 1
    entries = {entry["model"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert {name: entry["state"] for name, entry in entries.items()} == {
        MODEL: "written", "acme/other": "written", "local/mine": "skipped",
    }  # fmt: skip


def test_same_short_name_of_two_owners_makes_two_files(build: Any) -> None:
    events = [build.measurement(1.0, model=name) for name in ("acme/tiny", "other/tiny")]
    assert run(["scaffold", "test", "--all", "--events", written(events)]) == 0
    assert sorted(each.name for each in Path("tests/models").iterdir()) == ["test_acme_tiny.py", "test_other_tiny.py"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["scaffold", "test"], "--from-matrix"),
        (["scaffold", "test", "bert-tinny"], "bert-tiny"),
        (["scaffold", "check", "."], "scaffold test"),
        (["scaffold", "test", "bert-tiny", "--events", "no.ndjson"], "no.ndjson"),
    ],
)
def test_wrong_usage_names_what_to_do(line: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line) == 2
    assert said in capsys.readouterr().err


def test_file_that_holds_no_events_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("here.ndjson").write_text('{"a": 1}\n')
    assert run(["scaffold", "test", MODEL, "--events", "here.ndjson"]) == 2
    assert "here.ndjson" in capsys.readouterr().err and not Path("tests").exists()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(low=st.floats(0.5, 1.0), high=st.floats(1.0, 3.0), p50=st.floats(1e-3, 1e5), interval=st.booleans())
def test_bound_is_above_the_median_and_below_thirty_percent_more(
    low: float, high: float, p50: float, interval: bool
) -> None:
    ci95 = {"p50": [low * p50, high * p50]} if interval else None
    took = time_of(Latency(p50=p50, n=60, ci95=ci95), "acme-one")  # type: ignore[arg-type]
    if interval and high > 1.22:
        assert took is None, "a median of such an interval bounds nothing"
    else:
        assert took is not None and took.p50_ms < took.most_ms < 1.3 * 0.99 * took.p50_ms


FIGURES = st.floats(-1e6, 1e6, allow_nan=False)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=40)
CASES = st.builds(
    testing.Case,
    st.just("any"),
    st.sampled_from(["cpu", "openvino", "wasm"]),
    st.sampled_from(["fp32", "int8"]),
    batch_size=st.integers(1, 64),
    weights=st.sampled_from(["auto", "random", "pretrained"]),
    sequence_length=st.none() | st.integers(1, 4096),
    audio_seconds=st.none() | st.floats(0.1, 30),
    compiled=st.booleans(),
    options=st.lists(NAMES, max_size=2).map(tuple),
    trust_remote_code=st.booleans(),
)
EXPECTED = st.builds(
    testing.Expected,
    CASES,
    ran=st.none() | st.builds(testing.Ran, NAMES, runtime=st.none() | NAMES, fallback_share=st.floats(0, 1)),
    gave=st.dictionaries(
        NAMES,
        st.builds(testing.Output, FIGURES, st.lists(st.none() | FIGURES, max_size=3)) | st.lists(FIGURES, max_size=3),
        max_size=2,
    ),
    took=st.none() | st.builds(testing.Time, FIGURES, most_ms=FIGURES, on=NAMES, anywhere=st.booleans()),
    tested=st.none() | st.uuids().map(str),
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(model=NAMES, expected=EXPECTED)
def test_text_of_a_file_means_what_it_was_made_of(model: str, expected: testing.Expected) -> None:
    import msgspec

    text = new_text(Planned(model=model, expected=[expected]))
    named = msgspec.structs.replace(expected, case=msgspec.structs.replace(expected.case, model=model))
    assert expected_in(text) == [named]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(entries=st.lists(EXPECTED, max_size=12), before=st.lists(EXPECTED, max_size=3))
def test_files_have_room_for_no_more_than_their_lines_and_refresh_to_the_same(
    entries: list[testing.Expected], before: list[testing.Expected]
) -> None:
    planned = fitting("acme/tiny", entries, [])
    text = new_text(planned)
    assert text.count("\n") <= LINES
    assert len(planned.expected) + len(planned.left_out) == len(entries)
    older = new_text(fitting("acme/tiny", before, []))
    if bool(before) == bool(planned.expected):
        assert refreshed(older, planned, Path("file.py")) == text


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("prajjwal1/bert-tiny", "test_bert_tiny.py"),
        ("./my-models/digits.v2", "test_digits_v2.py"),
        ("/srv/models/vit/", "test_vit.py"),
        ("???", "test_model.py"),
    ],
)
def test_name_of_a_file(model: str, name: str) -> None:
    assert file_name(model) == name
