"""The checks of test files on rows of known figures: what is red, what is green, and which cause is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import testing
from assay.testing.cases import weights_name
from assay.testing.checks import differences, verdict_on
from assay.testing.findings import Finding, as_markdown, as_text, explained, keep, read_findings
from domain import payloads
from domain.payloads import MeasurementRecorded

CASE = testing.Case("acme/tiny", "cpu", sequence_length=128)
TOOK = testing.Time(10.0, most_ms=11.2, on="acme-one")
SAMPLE = [float(value) for value in range(16)]
NORM = sum(value * value for value in SAMPLE) ** 0.5


def row(build: Any, p50: float, **conditions: Any) -> MeasurementRecorded:
    """Return a measurement with two threads and an interval of ±1 %."""
    event = build.measurement(p50, conditions={"utilisation": 0.98, **conditions})
    event["data"]["execution"]["threads"] = 2
    return msgspec.convert(event["data"], MeasurementRecorded)


@pytest.mark.parametrize(
    ("p50", "conditions", "verdict"),
    [
        (10.0, {}, "as expected"),
        (10.9, {"other_load": 0.02}, "as expected"),
        (13.0, {}, "slower"),
        (13.0, {"other_load": 0.04, "speed_ratio": 0.995}, "slower"),
        (13.0, {"other_load": 0.45}, "cannot tell"),
        (13.0, {"speed_ratio": 0.8}, "cannot tell"),
        # A call that waits, and does not compute, is not held up by other work.
        (13.0, {"other_load": 0.45, "utilisation": 0.02}, "slower"),
        # Other work explains a lot, and not everything.
        (80.0, {"other_load": 0.45}, "slower"),
        (8.0, {}, "faster"),
    ],
)
def test_thirty_percent_more_is_slower_where_the_machine_does_not_explain_it(
    build: Any, p50: float, conditions: dict[str, float], verdict: str
) -> None:
    assert verdict_on(TOOK, row(build, p50, **conditions)) == verdict


def reported(build: Any, sample: list[float], **more: Any) -> payloads.TestReported:
    norm = sum(value * value for value in sample) ** 0.5
    values = {"logits": {"shape": [1, 16], "norm": norm, "largest": max(map(abs, sample)), "sample": sample}}
    event = build.test(checks={"kind": "inference", "values": values}, **more)
    return msgspec.convert(event["data"], payloads.TestReported)


def gave(**more: Any) -> testing.Expected:
    return testing.Expected(CASE, gave={"logits": testing.Output(NORM, [0.0, 8.0, 15.0])}, **more)


def test_outputs_within_the_tolerance_are_the_same(build: Any) -> None:
    assert differences(gave(), reported(build, [value * 1.0001 for value in SAMPLE])) == []


def test_value_that_is_off_is_named_with_how_far(build: Any) -> None:
    lines = differences(gave(), reported(build, [*SAMPLE[:15], 15.1]))
    assert lines[0].startswith("logits") and "0.001" in lines[0]


def test_norm_sees_a_change_between_the_values_that_are_kept(build: Any) -> None:
    changed = [*SAMPLE]
    changed[3] = 9.0
    (line,) = differences(gave(), reported(build, changed))
    assert "norm" in line


def test_output_that_is_gone_is_named(build: Any) -> None:
    test = reported(build, SAMPLE)
    lost = msgspec.structs.replace(test, checks={"kind": "inference", "values": {}})
    assert any("logits" in line for line in differences(gave(), lost))


@pytest.mark.parametrize(("wanted", "same"), [([[5, 6, 7]], True), ([[5, 6, 8]], False)])
def test_tokens_are_compared_one_by_one(build: Any, wanted: list[list[int]], same: bool) -> None:
    test = reported(build, SAMPLE)
    test = msgspec.structs.replace(test, checks={"kind": "generation", "values": {"tokens": [[5, 6, 7]]}})
    assert (differences(testing.Expected(CASE, gave={"tokens": wanted}), test) == []) is same


def finding(check: Any, state: Any, **more: Any) -> Finding:
    return Finding(model="acme/tiny", case="cpu-fp32-batch1", check=check, state=state, **more)


@pytest.mark.parametrize(
    ("others", "changed", "cause"),
    [
        ([finding("time", "as expected")], [], "wrong weights"),
        ([finding("time", "different")], [], "other code"),
        ([], ["weights: sha256:aa then, sha256:bb now"], "sha256:bb"),
        ([], ["runtime: torch 2.13.0 then, torch 2.14.0 now"], "2.14.0"),
        ([finding("device", "different")], [], "silent fallback"),
    ],
)
def test_cause_of_other_outputs_comes_from_what_else_was_found(
    others: list[Finding], changed: list[str], cause: str
) -> None:
    *_, outputs = explained([*others, finding("outputs", "different", changed=changed)])
    assert cause in outputs.cause
    assert outputs.mend


def test_cause_of_a_slower_call_is_a_version_then_the_machine_then_the_model() -> None:
    def cause(**more: Any) -> str:
        return explained([finding("time", "different", **more)])[0].cause

    assert "torch 2.14.0" in cause(
        changed=["runtime: torch 2.13.0 then, torch 2.14.0 now"], conditions=["the clock fell"]
    )
    assert "the clock fell" in cause(conditions=["the clock fell"])
    assert "more work in the model" in cause()


def test_report_begins_with_what_is_red_and_leaves_out_what_is_as_expected() -> None:
    findings = explained(
        [
            finding("time", "skipped", collected="absent"),
            finding("device", "as expected"),
            finding("outputs", "different", expected="a|b", collected="c", evidence=["id-1"]),
        ]
    )
    text = "\n".join(as_text(findings))
    assert "3 checks: 1 as expected, 1 different, 1 skipped" in text
    assert text.index("different: ") < text.index("skipped: ") and "id-1" in text
    rows = [line for line in as_markdown(findings).splitlines() if line.startswith("| acme")]
    assert len(rows) == 2 and "a\\|b" in rows[0]


def test_findings_are_kept_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "findings"
    keep(finding("time", "as expected"))
    assert read_findings(path) == []
    monkeypatch.setenv("ASSAY_TEST_FINDINGS", str(path))
    kept = [keep(finding("time", "as expected")), keep(finding("device", "different", changed=["x"]))]
    assert read_findings(path) == kept


def test_weights_go_by_their_files_content(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    file = tmp_path / "model.safetensors"
    names = []
    for content in (b"one", b"one", b"two"):
        file.write_bytes(content)
        weights_name.cache_clear()
        names.append(weights_name(str(tmp_path), "auto", "pretrained"))
    assert names[0] == names[1] != names[2]
    assert names[0] is not None and names[0].startswith("sha256:")
    assert weights_name("bert-tiny", "random", "random") == "random"


def test_name_of_a_case_tells_what_differs() -> None:
    assert str(CASE) == "cpu-fp32-batch1-128"
    training = testing.Case("acme/tiny", "cuda", "bf16", "training", 8, options=("fsdp=2",), compiled=True)
    assert str(training) == "cuda-bf16-batch8-training-compiled-fsdp=2"


def test_a_size_that_a_model_fills_in_by_itself_is_not_asked_for_again() -> None:
    case = testing.Case("assay/clap-small", "cpu", "fp32", weights="random", sequence_length=128, audio_seconds=10.0)
    (only,) = case.plan().cases
    assert (only.workload.sequence_length, only.workload.audio_seconds) == (None, 10.0)
