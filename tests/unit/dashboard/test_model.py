from __future__ import annotations

from typing import Any

import msgspec
import pytest

from assay.client.row_types import Model as ModelRow
from dashboard.address import parameters
from dashboard.screens.models import words
from dashboard.screens.models.words import Model
from domain.answers import RankedOption, Recommendation
from domain.answers.model_profile import ModelProfile, OperatorBreakdown, TriedPlatform
from presentation import formatting
from presentation.charts import chart_files
from presentation.charts.breakdown_chart import breakdown


def identity(**changes: Any) -> dict[str, Any]:
    found = {
        "id": "acme/tiny", "category": "vision", "task": None, "family": "vit", "family_why": "its config says model_type vit",
        "parameters": 5_717_416, "parameters_about": None, "weights": "published", "licence": None, "weights_measured": {},
        "measurements": 0, "revisions": [], "aliases": [], "architecture": None,
    }  # fmt: skip
    return found | changes


def told(**changes: Any) -> ModelProfile:
    profile: dict[str, Any] = {
        "model": identity(),
        "sizes": {},
        "best": [],
        "missing": [],
        "never_tried": [],
        "platforms": [],
    }
    return msgspec.convert(profile | changes, ModelProfile)


def best(**changes: Any) -> dict[str, Any]:
    found = {
        "hardware": "acme-one", "hardware_count": 1, "platform": "cuda", "precision": "fp16", "batch_size": 8,
        "throughput": 400.0, "unit": "items/s", "latency_ms": 20.0, "origin": "measured", "evidence": "e-1",
        "work": {"mode": "inference", "image_size": 224},
    }  # fmt: skip
    return found | changes


def operators(basis: str = "roofline") -> OperatorBreakdown:
    timed = basis == "roofline"
    rows = [
        {"name": "aten.addmm", "kind": "mm", "calls": 4.0, "flops": 4e9, "bytes": 8e6, "ms": 3.0 if timed else None,
         "share": 0.75 if timed else None, "flops_share": 1.0, "bytes_share": 0.8, "bound": "compute" if timed else None,
         "operators": 1},
        {"name": "rest", "kind": "rest", "calls": 9.0, "flops": 0.0, "bytes": 2e6, "ms": 1.0 if timed else None,
         "share": 0.25 if timed else None, "flops_share": 0.0, "bytes_share": 0.2, "bound": "memory" if timed else None,
         "operators": 3},
    ]  # fmt: skip
    asked = {"model": "acme/tiny", "mode": "inference", "batch_size": 1, "phase": "forward", "evidence": "e-1"}
    return msgspec.convert({"basis": basis, "operators": rows, **asked}, OperatorBreakdown)


def bars() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = msgspec.to_builtins(words.parts(operators()))
    return rows


def plain(value: Any) -> str:
    return formatting.plain(str(value))


def test_an_address_is_restored_and_what_is_not_understood_is_named() -> None:
    asked = Model(
        id="acme/tiny", tab="operators", hw="acme-one", platform="cuda", precision="fp16", batch=4, mode="training",
        metric="latency", as_of=9,
    )  # fmt: skip
    assert words.read_model(parameters(asked, everything=True)) == (asked, [])
    wrong = words.read_model({"batch": ["none"], "metric": ["beauty"], "id": ["x"]})
    assert wrong.asked == Model(id="x")
    assert [said.split("=")[0] for said in wrong.dropped] == ["batch", "metric"]


def test_facts_say_what_is_not_known() -> None:
    found = dict(words.facts(told()).itertuples(index=False))
    assert plain(found["Parameters"]) == "5.7 M (5,717,416)"
    assert (found["Licence"], found["One item"], found["Measured with"]) == ("unknown", "not traced", "nothing yet")
    assert found["Family"] == "vit: its config says model_type vit"
    traced = told(
        sizes={"flops": 8.18e9, "operators": 174, "at": {"image_size": 224}},
        model=identity(parameters=None, parameters_about=25e6, weights_measured={"random": 11}, measurements=11),
    )
    found = dict(words.facts(traced).itertuples(index=False))
    assert plain(found["One item"]) == "8.18 GFLOP in 174 operators, at image size 224"
    assert plain(found["Parameters"]) == "about 25 M"
    assert found["Measured with"] == "random (11 rows) weights"


def test_the_fastest_is_said_with_its_size_its_unit_and_how_it_is_known() -> None:
    rows = words.noted_rows(told(best=[best(hardware_count=8, precision=None)]))
    figure, how = words.headline(rows)
    assert plain(figure) == "400 items/s on 8 × acme-one"
    assert how == (
        "The only device measured at image size 224: cuda · precision unknown · batch 8 (● measured, no interval)"
    )
    (tokens,) = words.noted_rows(told(best=[best(unit="tokens/s")]))
    assert plain(words.headline([tokens])[0]) == "400 tokens/s on acme-one"
    assert words.noted_rows(told()) == []


def test_what_is_served_is_told_by_its_tokens_without_estimates() -> None:
    base = {"rank": 1, "configuration": "c", "platform": "cuda", "precision": "fp8", "throughput_per_s": 2.0}
    ranked = [
        RankedOption(**base, hardware="acme-one", basis="imported", tokens_per_s=900.0, hardware_count=8),
        RankedOption(**base, hardware="acme-two", basis="measured", tokens_per_s=300.0, concurrency=4),
        RankedOption(**base, hardware="acme-three", basis="predicted", tokens_per_s=9000.0),
    ]
    required = [field.name for field in msgspec.structs.fields(Recommendation) if field.required]
    rows = words.served_rows(Recommendation(**{**dict.fromkeys(required), "ranked": ranked}))
    assert [row["hardware"] for row in rows] == ["acme-two", "acme-one"], "each of eight does less than the one"
    figure, how = words.headline(rows)
    assert plain(figure) == "300 tokens/s on acme-two"
    assert how == "Fastest of 2 devices: cuda · fp8 · 4 at a time (● measured, no interval)"


def test_a_model_is_told_in_a_line_without_what_nobody_knows() -> None:
    assert plain(words.facts_line(told().model)) == "vision · vit · 5.7 M parameters"
    bare = told(model=identity(category=None, family=None, parameters=None, measurements=1)).model
    assert words.facts_line(bare) == "1 measurement"


def test_gaps_come_with_commands_that_the_runner_understands() -> None:
    gaps = told(
        missing=[{"platform": "cpu", "precision": "bf16"}, {"platform": "cpu", "precision": "w8a16"},
                 {"platform": "webnn", "precision": "int8"}, {"platform": "cpu", "precision": "int8"}],
        never_tried=["cuda", "tpu"],
    )  # fmt: skip
    assert words.commands(gaps) == [
        ("cpu in bf16, int8", "assay bench acme/tiny --platform cpu --precision bf16,int8"),
        ("webnn in int8", "assay bench acme/tiny --platform webnn --precision int8"),
        ("cuda: never tried", "assay verify acme/tiny --platform cuda"),
    ]


def test_states_are_words_with_glyphs_and_evidence_leads_to_its_run() -> None:
    base = {"platform": "cpu", "precision": None, "measurements": 2, "hardware": ["a", "b", "c", "d"], "why_not": None}
    states = [
        {**base, "state": "verified", "evidence": "e-1"},
        {**base, "state": "failed", "why_not": "no operator", "evidence": None},
    ]
    rows = msgspec.convert(states, list[TriedPlatform])
    columns = {column.head: column for column in words.platforms_columns(rows)}
    assert columns["State"].values == ["✓ verified", "✕ failed"]
    assert columns["State"].links == ["runs?row=e-1", None]
    assert (columns["For example on"].values, columns["Devices"].values) == (["a, b, c"] * 2, [4, 4])
    assert columns["Why not"].values == [None, "no operator"]
    assert "Why not" not in [column.head for column in words.platforms_columns(rows[:1])]
    assert words.standing(rows) == "2 platform × precision: 1 verified, 1 failed"


def test_parts_are_shares_of_the_least_time_or_of_bytes_where_nothing_is_timed() -> None:
    parts = words.parts(operators())
    assert [(part.name, part.share) for part in parts] == [("addmm (mm)", 0.75), ("3 other operators", 0.25)]
    assert plain(parts[0].words) == "75.0 % · 3.00 ms · compute-bound"
    assert plain(parts[0].detail) == "4 calls · 4.00 GFLOP · 8.00 MB moved"
    assert [part.share for part in words.parts(operators("traced"))] == [0.8, 0.2]
    assert plain(words.bound_sentence(operators())).startswith(
        "75.0 % of the least time is compute-bound; most of it is addmm"
    )
    assert plain(words.bound_sentence(operators("traced"))) == "addmm (mm) moves 80.0 % of the bytes"
    table = words.operators_table(operators("traced"))
    assert table["Least ms"].isna().all() and list(table["Bound"]) == [formatting.MISSING] * 2


def test_bars_begin_at_zero_and_are_dotted_where_nothing_was_measured() -> None:
    spec = breakdown(bars(), "share, %").to_dict()
    bar = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "bar")
    assert bar["mark"]["strokeDash"] == [1, 3] and bar["mark"]["fillOpacity"] < 0.5
    assert bar["encoding"]["x"]["scale"]["domain"][0] == 0
    sure = breakdown(bars(), "share, %", covered=True).to_dict()
    assert next(layer for layer in sure["layer"] if layer["mark"]["type"] == "bar")["mark"]["strokeDash"] == [1, 0]
    with pytest.raises(ValueError, match="marks are more than"):
        breakdown(bars() * 600, "share, %")
    assert b"<svg" in chart_files.svg(breakdown(bars(), "share, %", picture=True))


def test_a_list_says_by_which_name_a_model_was_found() -> None:
    row = {**identity(), "tests": 0, "traces": 1, "match": {"how": "typo", "edits": 2, "name": "tinny"}}
    rows = msgspec.convert([row, {**row, "match": None}], list[ModelRow])
    columns = {column.head: column for column in words.listed(rows, found=True)}
    assert columns["Found by"].values == ["2 letters off: tinny", None]
    assert columns["Model"].links == ["models?id=acme/tiny"] * 2
    assert "Found by" not in [column.head for column in words.listed(rows, found=False)]
