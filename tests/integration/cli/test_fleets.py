"""`assay fleet` and `assay fit` as they are typed, on the measurements that come with Assay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

CPU = "intel-xeon-2c"


def narrow(out: str) -> bool:
    """Whether no line is over 100 columns; commands are not broken, because they are there to be copied."""
    return all(len(line.rstrip()) <= 100 for line in out.splitlines() if "assay bench" not in line)


def test_own_machines_serve_two_models(typed: Any) -> None:
    words = [
        "fleet",
        "--load",
        "resnet-50=2/s",
        "--load",
        "bert-base-uncased=1/s:max_latency_ms=1000",
        "--hardware",
        "own",
    ]
    out, _ = typed(*words, "--own", f"{CPU}=3@0.02")
    assert narrow(out)
    assert f"own:1x{CPU}" in out
    assert "an hour" in out
    answer = json.loads(typed(*words, "--own", f"{CPU}=3@0.02", "--json")[0])
    assert answer["feasible"]
    assert answer["usd_per_hour"] == pytest.approx(0.02 * sum(one["count"] for one in answer["machines"]))
    bases = {run["basis"] for one in answer["machines"] for place in one["places"] for run in place["runs"]}
    assert bases <= {"measured", "calibrated"}
    assert [load["unit"] for load in answer["loads"]] == ["items_per_s", "items_per_s"]


def test_a_file_and_flags_make_one_question(typed: Any, tmp_path: Path) -> None:
    path = tmp_path / "services.yaml"
    path.write_text(
        f"loads:\n  - {{model: resnet-50, requests_per_s: 2, name: photos}}\nown: {{{CPU}: 1}}\nhardware: own\n"
    )
    answer = json.loads(typed("fleet", str(path), "--load", "bert-base-uncased=100tokens/s", "--json")[0])
    assert [(load["name"], load["unit"], load["rate"]) for load in answer["loads"]] == [
        ("photos", "requests_per_s", 2.0), (None, "tokens_per_s", 100.0),
    ]  # fmt: skip
    assert answer["question"]["own"][CPU]["count"] == 1


def test_what_cannot_be_served_ends_with_1_and_says_why(typed: Any) -> None:
    out, _ = typed("fleet", "--load", "resnet-50=100000/s", "--own", f"{CPU}=1", "--hardware", "own", code=1)
    assert "serve 0% of the loads" in out
    assert "It would take" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--load", "resnet-50"], "is not a load"),
        (["--load", "resnet-50=5/s:fast"], "is not name=value"),
        (["--load", "resnet-50=5/s", "--own", "a"], "is not owned hardware"),
        (["--load", "resnet-50=0/s"], "loads[0].items_per_s"),
        ([], "loads"),
    ],
)
def test_wrong_usage_ends_with_2(typed: Any, words: list[str], said: str) -> None:
    _, err = typed("fleet", *words, code=2)
    assert said in err


def test_a_file_that_is_no_question_is_refused(typed: Any, tmp_path: Path) -> None:
    for text in ("- 1", "loads: 5", "a: [", "loads: [{model: resnet-50}]"):
        path = tmp_path / "wrong.yaml"
        path.write_text(text)
        typed("fleet", str(path), code=2)


def test_what_fits_is_one_table(typed: Any) -> None:
    out, _ = typed("fit", "bert-base-uncased", "--hardware", CPU)
    assert narrow(out)
    for word in ("room", "largest", "best", "longest", "cpu fp32", "openvino int8"):
        assert word in out
    answer = json.loads(typed("fit", "bert-base-uncased", "--hardware", CPU, "--max-memory-mb", "2000", "--json")[0])
    measured = [one for one in answer["fits"] if one["memory"]["basis"] == "measured"]
    assert measured
    for one in answer["fits"]:
        assert one["room_bytes"] == 2_000_000_000
        assert one["best"]["batch_size"] <= one["largest_batch"]


def test_nothing_of_that_kind_ends_with_1(typed: Any) -> None:
    out, _ = typed("fit", "bert-base-uncased", "--hardware", CPU, "--platform", "cuda", code=1)
    assert "No device that is asked for" in out
