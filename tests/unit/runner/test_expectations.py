"""What was expected against what was collected, on tests as they are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from domain import payloads
from domain.errors import UsageError
from runner.campaign.expectations import compare_tests, expectations_of, read, write


def reported(**changes: Any) -> payloads.TestReported:
    """A test that passed in bf16; `changes` reach into it by dotted names with `_` for the dots of `values`."""
    data: dict[str, Any] = {
        "run_id": "r", "model": {"id": "google-bert/bert-base-uncased", "weights": "random"},
        "workload": {"mode": "inference", "batch_size": 1},
        "execution": {"platform": "openvino", "runtime": {"name": "openvino", "version": "2026.1"}, "precision": "bf16"},
        "hardware": {"id": "amd-epyc-9005-2c"}, "outcome": "passed", "stage": "verify",
        "provenance": {"origin": "measured"},
        "environment": {"fingerprint": "f", "libraries": {"torch": "2.13.0", "nncf": "3.4.0"}},
        "observed": {"precision": "bf16", "requested": {"platform": "openvino", "precision": "bf16"}},
        "checks": {
            "kind": "inference",
            "values": {"y": {"shape": [1, 4], "norm": 2.0, "largest": 2.0, "sample": [0.5, -2.0, 1.0, None]}},
        },
    }  # fmt: skip
    for path, value in changes.items():
        *parents, last = path.split("__")
        target = data
        for parent in parents:
            target = target[parent]
        target[last] = value
    return msgspec.convert(data, payloads.TestReported)


SAMPLE = "checks__values__y__sample"


def states(before: payloads.TestReported, *now: payloads.TestReported) -> list[str]:
    return [each.state for each in compare_tests(expectations_of([before]), now)]


def test_the_same_twice_is_the_same_and_survives_the_file(tmp_path: Path) -> None:
    write(tmp_path / "kept.json", expectations_of([reported()]))
    assert [each.state for each in compare_tests(read(tmp_path / "kept.json"), [reported()])] == ["same"]
    text = (tmp_path / "kept.json").read_bytes()
    write(tmp_path / "kept.json", read(tmp_path / "kept.json"))
    assert (tmp_path / "kept.json").read_bytes() == text


def test_values_may_move_within_the_tolerance_of_the_precision_and_no_further() -> None:
    assert states(reported(), reported(**{SAMPLE: [0.75, -2.0, 1.0, None]})) == ["same"]
    found = compare_tests(expectations_of([reported()]), [reported(**{SAMPLE: [0.9, -2.0, 1.0, None]})])
    assert found[0].state == "different" and "0.2 of the largest value" in found[0].found[0]
    assert found[0].explained == []
    assert states(reported(), reported(**{SAMPLE: [0.5, -2.0, 1.0, 3.0]})) == ["different"]


def test_a_difference_is_told_with_what_else_differs() -> None:
    now = reported(
        **{SAMPLE: [2.0, -2.0, 1.0, None]},
        environment__libraries={"torch": "2.14.0"},
        execution__runtime={"name": "openvino", "version": "2027.0"},
        model__weights="pretrained",
        execution__precision="fp32",
    )
    found = compare_tests(expectations_of([reported()]), [now])[0]
    assert found.explained == [
        "weights: random then, pretrained now",
        "precision: bf16 then, fp32 now",
        "runtime: openvino 2026.1 then, openvino 2027.0 now",
        "nncf: 3.4.0 then, absent now",
        "torch: 2.13.0 then, 2.14.0 now",
    ]


def test_cases_are_matched_by_what_was_asked() -> None:
    other = reported(workload__batch_size=2)
    assert states(reported(), other) == ["new", "missing"]
    fallen = reported(execution__precision="fp32", outcome="failed")
    found = compare_tests(expectations_of([reported()]), [fallen])[0]
    assert found.found == ["expected passed, collected failed"]


def test_tokens_and_losses_are_compared_as_such() -> None:
    values = {"tokens": [[1, 2, 3], [4, 5, 6]]}
    before = reported(checks={"kind": "generation", "values": values})
    now = reported(checks={"kind": "generation", "values": {"tokens": [[1, 2, 3], [4, 9, 6]]}})
    assert compare_tests(expectations_of([before]), [now])[0].found == [
        "tokens: item 1 differs from step 1 on: expected 5, collected 9"
    ]
    losses = [reported(checks={"kind": "training", "values": {"losses": [first, 1.0]}}) for first in (2.0, 2.03, 2.2)]
    assert states(losses[0], losses[1]) == ["same"]
    assert states(losses[0], losses[2]) == ["different"]


@pytest.mark.parametrize("content", [b"not json", b'{"expectations": 3}', b'{"format": 99, "expectations": []}'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kept.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read(path)
    assert caught.value.field == "expect" and caught.value.remedy


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as reading:
        read(tmp_path / "nothing.json")
    assert reading.value.field == "expect"
    with pytest.raises(UsageError) as writing:
        write(tmp_path / "no" / "folder.json", expectations_of([]))
    assert writing.value.field == "record"
