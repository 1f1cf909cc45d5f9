"""What differs between two artifacts is named by its path."""

from __future__ import annotations

import pytest

from predictor.live.answerer import differences


@pytest.mark.parametrize(
    ("kept", "made", "said"),
    [
        ({"card": {"rows": 1}}, {"card": {"rows": 2}}, ["card.rows: 1 was kept, 2 is made now"]),
        ({"a": [1, 2]}, {"a": [1, 3]}, ["a[1]: 2 was kept, 3 is made now"]),
        ({"a": [1]}, {"a": [1, 3]}, ["a: [1] was kept, [1, 3] is made now"]),
        ({"a": 1}, {"b": 1}, ["a: only in the kept one", "b: only in the new one"]),
        ({"trees": {"l1": "x\ny\nz"}}, {"trees": {"l1": "x\n1\n2"}}, ["trees.l1: line 2 and 1 more"]),
        ({"trees": {"l1": "x\ny"}}, {"trees": {"l1": "x\ny\nz"}}, ["trees.l1: 2 lines were kept, 3 are made now"]),
        ({"a": 1.5}, {"a": 1.5}, []),
    ],
)
def test_what_differs_is_named_by_its_path(kept: dict, made: dict, said: list[str]) -> None:  # type: ignore[type-arg]
    assert differences(kept, made) == said


def test_many_differences_are_counted() -> None:
    told = differences({"a": list(range(50))}, {"a": [-1] * 50})
    assert len(told) == 21
    assert told[-1] == "and 30 more"
