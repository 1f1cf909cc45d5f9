"""Models beside a model: siblings by size and operators, and alternatives that are smaller, published, open, for the task."""

from __future__ import annotations

from typing import Any

from predictor.answering.alternatives import Beside, alternatives, siblings
from predictor.features.traces import TraceBook, trace_from_data

OWN = "acme/own"


def row(name: str, parameters: int | None = 100, **more: Any) -> dict[str, Any]:
    return {
        "id": name, "family": "bert", "category": "embedding", "task": "feature-extraction", "parameters": parameters,
        "parameters_about": None, "licence": "mit", "catalogued": True, "architecture": None, "measurements": 0, "tests": 0,
        **more,
    }  # fmt: skip


def traced(name: str, flops: float, kind: str = "mm", length: int | None = 128, parameters: int | None = None) -> Any:
    operator = {
        "name": "aten.op", "class": kind, "count": 4, "flops": flops / 4, "read_elements": 100, "write_elements": 100,
        "weight_elements": 100, "inner": 64, "kernel": None, "stride": None, "groups": None,
    }  # fmt: skip
    model = {"id": name, "category": "embedding", "family": "bert", "parameters": parameters}
    workload = {"mode": "inference", "phase": "forward", "batch_size": 1, "sequence_length": length}
    return trace_from_data({"model": model, "workload": workload, "operators": [operator], "totals": {}})


def kin(*others: dict[str, Any], traces: Any = (), own: Any = None) -> list[str]:
    model = own or row(OWN)
    return [one["id"] for one in siblings(model, others, Beside([model, *others], TraceBook(traces)))]


def smaller(*others: dict[str, Any], traces: Any = (), own: Any = None) -> list[dict[str, Any]]:
    model = own or row(OWN)
    return alternatives(model, others, Beside([model, *others], TraceBook(traces)))


def test_siblings_are_of_the_family_nearest_in_size_first_and_of_unknown_size_last() -> None:
    others = row("a/half", 50), row("a/unknown", None), row("a/near", 110), row("a/vit", 100, family="vit")
    assert kin(*others) == ["a/near", "a/half", "a/unknown"]


def test_a_model_of_the_same_operators_comes_before_one_of_the_same_size() -> None:
    own = row(OWN, architecture="d")
    assert kin(row("a/same-size"), row("a/same-work", 800, architecture="d"), own=own)[0] == "a/same-work"


def test_a_tenth_of_a_cosine_counts_as_much_as_twice_the_size() -> None:
    others = row("a/other-work", 100), row("a/three-times", 300)
    work = traced(OWN, 1e9), traced("a/other-work", 1e9, "conv"), traced("a/three-times", 1e9)
    assert kin(*others, traces=work) == ["a/three-times", "a/other-work"]
    assert kin(*others) == ["a/other-work", "a/three-times"], "without traces the size alone counts"


def test_a_model_of_no_known_family_gets_those_that_do_work_of_its_kind() -> None:
    own = row(OWN, family=None)
    others = row("a/alike"), row("a/unlike", 100), row("a/untraced", 100)
    work = traced(OWN, 1e9), traced("a/alike", 2e9), traced("a/unlike", 1e9, "conv")
    assert kin(*others, traces=work, own=own) == ["a/alike"]


def test_alternatives_are_published_open_or_of_unknown_licence_and_a_tenth_smaller() -> None:
    found = smaller(
        row("a/half", 50),
        row("a/unknown-licence", 80, licence=None),
        row("a/as-large", 95),
        row("a/closed", 50, licence="cc-by-nc-4.0"),
        row("assay/bert-small", 5),
        row("a/not-catalogued", 50, catalogued=False),
        row("meta-llama/Llama-3.2-1B", 50, licence=None),
        row("a/third", 33),
    )
    assert [(one["id"], one["open"]) for one in found] == [
        ("a/half", True), ("a/third", True), ("a/unknown-licence", None),
    ]  # fmt: skip
    assert found[0]["parameters_ratio"] == 0.5


def test_less_work_at_the_same_size_of_input_makes_an_alternative_too() -> None:
    other = row("a/as-many-parameters", 100)
    (found,) = smaller(other, traces=[traced(OWN, 1e9), traced(other["id"], 4e8)])
    assert (found["flops_ratio"], found["flops_at"]) == (0.4, {"sequence_length": 128})
    for length in (128, None):
        assert smaller(other, traces=[traced(OWN, 1e9, length=length), traced(other["id"], 4e8, length=64)]) == []


def test_a_size_that_nobody_published_is_that_of_the_trace() -> None:
    other = row("a/unsaid", None)
    (found,) = smaller(other, traces=[traced(other["id"], 1e9, parameters=10)])
    assert found["parameters_ratio"] == 0.1


def test_models_for_another_task_stand_in_only_where_there_is_none_for_this_one() -> None:
    other, same = row("a/other-task", 60, task="fill-mask"), row("a/same-task", 10)
    assert [one["id"] for one in smaller(other, same)] == ["a/same-task"]
    (found,) = smaller(other)
    assert (found["id"], found["same_task"]) == ("a/other-task", False)
