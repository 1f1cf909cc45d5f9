"""`assay model trace`: operators of models in bulk, posted as facts."""

from __future__ import annotations

import json
from typing import Any

import pytest

TINY = "assay/gpt2-small"


def traces(typed: Any) -> dict[str, list[int]]:
    """Lengths that the log has forward traces of, by model."""
    sql = "SELECT model_id, sequence_length FROM traces WHERE phase = 'forward' AND sequence_length IN (21, 34)"
    said, _ = typed("query", sql, "--format", "json")
    lengths: dict[str, list[int]] = {}
    for row in json.loads(said):
        lengths.setdefault(row["model_id"], []).append(row["sequence_length"])
    return {name: sorted(held) for name, held in lengths.items()}


def test_models_are_traced_at_each_length_and_one_that_cannot_be_is_named(typed: Any) -> None:
    words = ("model", "trace", TINY, "nobody/knows-it", "--sequence-lengths", "21,34", "--json")
    said, _ = typed(*words, code=1)
    answer = json.loads(said)
    assert (answer["wanted"], answer["traced"], answer["events"]) == (4, 2, 2)
    assert [item["model"] for item in answer["failed"]] == ["nobody/knows-it"]
    assert traces(typed)[TINY] == [21, 34]


def test_what_was_measured_and_has_no_trace_is_traced_once(filled: Any, typed: Any, build: Any) -> None:
    event = build.measurement(model="assay/distilbert-small", source="urn:elsewhere")
    event["data"]["workload"] = {"mode": "inference", "batch_size": 1, "sequence_length": 34}
    with filled.client() as client:
        client.wait_for(client.post_events([event])["last_position"])
    assert json.loads(typed("model", "trace", "--missing", "--source", "elsewhere", "--json")[0])["events"] == 1
    assert traces(typed)["assay/distilbert-small"] == [34]
    assert json.loads(typed("model", "trace", "--missing", "--source", "elsewhere", "--json")[0])["wanted"] == 0


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ((), "MODEL"),
        (("--source", "timm", TINY), "source"),
        (("--family", "unheard-of"), "family"),
        ((TINY, "--sequence-lengths", "long"), "sequence_lengths"),
    ],
)
def test_bad_input_is_named(typed: Any, words: tuple[str, ...], field: str) -> None:
    _, said = typed("model", "trace", *words, code=2)
    assert f"{field}:" in said
