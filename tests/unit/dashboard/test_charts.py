from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import dashboard
from domain.vocabulary import BASES
from presentation import charts, palette
from presentation.charts import chart_files


def row(**changes: Any) -> dict[str, Any]:
    found = {
        "rank": 1, "configuration": "c", "hardware": "nvidia-h200-sxm", "platform": "cuda", "precision": "fp16",
        "batch_size": 8, "basis": "measured", "origin": "measured", "latency_ms": 1.2, "latency_ms_low": 1.19,
        "latency_ms_high": 1.21, "throughput_per_s": 6612.0, "peak_memory_bytes": 5.12e8, "n": 61,
    }  # fmt: skip
    return found | changes


def data(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return next(layer["data"]["values"] for layer in spec["layer"] if layer.get("data", {}).get("values"))


def drawn(*rows: dict[str, Any], **options: Any) -> dict[str, Any]:
    spec = charts.intervals(rows, charts.LATENCY, **options).to_dict()
    return spec if "layer" in spec else spec["spec"]


def lines(*rows: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    spec = drawn(*rows, **options)
    return spec["data"]["values"] if "data" in spec else data(spec)


def layers_of(spec: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [layer for layer in spec["layer"] if layer["mark"]["type"] == kind]


def test_the_interval_is_drawn_from_low_to_high_with_the_dash_of_its_basis() -> None:
    spec = drawn(row(basis="predicted"))
    rule = layers_of(spec, "rule")[0]["encoding"]
    assert (rule["x"]["field"], rule["x2"]["field"]) == ("low", "high")
    dashes = dict(zip(rule["strokeDash"]["scale"]["domain"], rule["strokeDash"]["scale"]["range"], strict=True))
    assert dashes["measured"] == [1, 0]
    assert dashes["predicted"] == [4, 3]
    assert dashes["roofline"] == [1, 3]
    found = lines(row(basis="predicted"))[0]
    assert (found["low"], found["value"], found["high"]) == (1.19, 1.2, 1.21)


def test_shape_says_the_basis_and_only_measured_is_filled() -> None:
    spec = drawn(*(row(basis=basis) for basis in BASES))
    shape = layers_of(spec, "point")[0]["encoding"]["shape"]["scale"]
    shapes = dict(zip(shape["domain"], shape["range"], strict=True))
    assert (shapes["reference"], shapes["calibrated"], shapes["predicted"]) == ("diamond", "square", "triangle-right")
    assert {line["basis"]: line["fill"] for line in lines(*(row(basis=basis) for basis in BASES))} == {
        basis: (1.0 if basis == "measured" else 0.0) for basis in BASES
    }
    marked = layers_of(spec, "point")[0]["transform"]
    assert "roofline" not in str(marked)
    assert "roofline" in str(layers_of(spec, "tick")[0]["transform"])


def test_every_basis_of_the_vocabulary_has_its_own_mark() -> None:
    assert set(palette.BASIS_MARKS) == set(BASES)
    glyphs = [mark.glyph for mark in palette.BASIS_MARKS.values()]
    assert len(set(glyphs)) == len(glyphs)


def test_missing_is_never_zero_and_keeps_its_line_with_a_reason() -> None:
    found = lines(
        row(), row(latency_ms=None, latency_ms_low=None, latency_ms_high=None, reason="outside what it knows")
    )
    assert found[1]["value"] is None
    assert found[1]["low"] is None
    assert found[1]["text"] == "— outside what it knows"
    assert found[1]["detail"] == "not measured"
    marks = [layer for layer in drawn(row())["layer"] if layer["mark"]["type"] != "text"]
    assert all("isValid(datum.value)" in str(layer["transform"]) for layer in marks)


def test_a_platform_keeps_its_colour_whatever_else_is_shown() -> None:
    for rows in ([row()], [row(), row(platform="cpu")], [row(platform="cpu")]):
        spec = drawn(*rows)
        scale = layers_of(spec, "rule")[0]["encoding"]["color"]["scale"]
        assert scale == {"domain": list(palette.PLATFORM_DOMAIN)}
    assert lines(row(platform="xpu"))[0]["platform"] == "other"
    assert "xpu" in lines(row(platform="xpu"))[0]["label"]


def test_a_picture_names_its_colours_and_a_page_leaves_them_to_the_theme() -> None:
    picture = charts.intervals([row()], charts.LATENCY, theme="dark", picture=True).to_dict()
    assert layers_of(picture, "rule")[0]["encoding"]["color"]["scale"]["range"] == list(
        palette.PLATFORM_COLOURS["dark"]
    )
    assert picture["background"] == palette.INKS["dark"].ground


def test_the_theme_file_repeats_the_palette() -> None:
    theme = tomllib.loads((Path(dashboard.__file__).parent / ".streamlit" / "config.toml").read_text())["theme"]
    for name in ("light", "dark"):
        assert tuple(theme[name]["chartCategoricalColors"]) == palette.PLATFORM_COLOURS[name]
        assert tuple(theme[name]["chartSequentialColors"]) == palette.SEQUENTIAL[name]
        assert tuple(theme[name]["chartDivergingColors"]) == palette.DIVERGING[name]
        assert theme[name]["backgroundColor"] == palette.INKS[name].ground
        assert {len(theme[name][f"chart{kind}Colors"]) for kind in ("Categorical", "Sequential", "Diverging")} == {10}


@pytest.mark.parametrize(("last", "expected"), [(20.0, "linear"), (30.0, "log")])
def test_an_axis_is_logarithmic_beyond_twenty_times_and_says_which(last: float, expected: str) -> None:
    flat = {"latency_ms_low": None, "latency_ms_high": None}
    spec = drawn(row(**flat | {"latency_ms": 1.0}), row(**flat | {"latency_ms": last}))
    axis = layers_of(spec, "point")[0]["encoding"]["x"]
    assert axis["axis"]["title"] == f"p50 latency, ms ({expected}), smaller is better"
    assert axis["scale"].get("type", "linear") == expected
    if expected == "linear":
        assert axis["scale"]["domain"][0] == 0


def test_a_zero_is_never_put_on_a_log_axis() -> None:
    zero = row(latency_ms=0.0, latency_ms_low=None, latency_ms_high=None)
    spec = drawn(zero, row(latency_ms=500.0), log=True)
    assert "type" not in layers_of(spec, "point")[0]["encoding"]["x"]["scale"]


def test_too_many_marks_are_refused() -> None:
    assert charts.intervals([row()] * 400, charts.LATENCY)
    with pytest.raises(ValueError, match="2000"):
        charts.intervals([row()] * 401, charts.LATENCY)
    with pytest.raises(ValueError, match="2000"):
        charts.tradeoff([row()] * 700)


def test_simulated_and_means_are_said() -> None:
    found = lines(row(origin="simulated", latency_is_mean=True))[0]
    assert "SIMULATED" in found["label"]
    assert found["text"].endswith("(mean)")


def test_tooltips_carry_n_basis_and_what_was_asked() -> None:
    found = lines(row(n=61, verdict="suspect", asked="fp32 → fp16"))[0]
    assert "measured" in found["rests"]
    assert "61" in found["rests"]
    assert "suspect" in found["rests"]
    assert found["asked"] == "fp32 → fp16"


def test_the_trade_off_joins_what_the_answer_says_nothing_beats() -> None:
    rows = [row(latency_ms=1.0, on_front=True), row(latency_ms=5.0, on_front=True), row(latency_ms=2.0, on_front=False)]
    line = layers_of(charts.tradeoff(rows).to_dict(), "line")[0]
    assert [point["value"] for point in line["data"]["values"]] == [1.0, 5.0]
    assert line["mark"]["strokeDash"] == [1, 0]
    rows[1]["basis"] = "predicted"
    assert layers_of(charts.tradeoff(rows).to_dict(), "line")[0]["mark"]["strokeDash"] == [4, 3]


def test_the_trade_off_leaves_out_what_lacks_a_number_and_shades_the_refused_side() -> None:
    spec = charts.tradeoff([row(), row(throughput_per_s=None), row(latency_ms=9.0)], limit=charts.Limit(latency_ms=5.0))
    found = spec.to_dict()
    assert "5.0" in str(found["layer"][0]["data"]) and found["layer"][0]["mark"]["type"] == "rect"
    assert len(layers_of(found, "point")[0]["data"]["values"]) == 2


def test_a_limit_is_in_the_picture_where_it_is_near() -> None:
    def reach(limit: float) -> float:
        spec = charts.tradeoff([row()], limit=charts.Limit(latency_ms=limit)).to_dict()
        return float(layers_of(spec, "point")[0]["encoding"]["x"]["scale"]["domain"][1])

    assert reach(2.0) > 2.0
    assert reach(500.0) < 2.0


def test_the_trade_off_against_cost_has_no_place_for_what_has_no_price() -> None:
    rows = [
        row(usd_per_million=0.5),
        row(latency_ms=3.0, usd_per_million=None),
        row(latency_ms=3.0, usd_per_million=0.2),
    ]
    found = charts.tradeoff(rows, up=charts.COST).to_dict()
    points = layers_of(found, "point")[0]
    assert [point["up"] for point in points["data"]["values"]] == [0.5, 0.2]
    assert points["encoding"]["y"]["axis"]["title"] == "Cost of a million items, $ (log), smaller is better"
    assert points["data"]["values"][0]["detail"].startswith("1.20")
    assert [charts.can_be_drawn(one, charts.COST) for one in rows] == [True, False, True]


def test_names_in_the_trade_off_are_never_written_over_each_other() -> None:
    bare: dict[str, Any] = {"latency_ms_low": None, "latency_ms_high": None}
    apart = [row(latency_ms=1.0, **bare), row(latency_ms=50.0, throughput_per_s=9.0, hardware="nvidia-l4", **bare)]
    named = layers_of(charts.tradeoff(apart).to_dict(), "point")[0]["data"]["values"]
    assert [point["short"] for point in named] == ["H200 SXM", "L4"]
    crowded = [row(latency_ms=2.0 + index / 1000, **bare) for index in range(3)]
    named = layers_of(charts.tradeoff([*crowded, *apart]).to_dict(), "point")[0]["data"]["values"]
    places = [(point["align"], point["dx"], point["dy"]) for point in named if point["short"]]
    assert len(places) == 3
    assert len(set(places)) == 3
    same = [row(latency_ms=1.0, **bare), row(latency_ms=50.0, throughput_per_s=9.0, batch_size=64, **bare)]
    named = layers_of(charts.tradeoff(same).to_dict(), "point")[0]["data"]["values"]
    assert [point["short"] for point in named] == ["H200 SXM batch 8", "H200 SXM batch 64"]


def test_every_name_on_a_crowded_front_is_written_at_both_widths() -> None:
    devices = ("gb300", "b300-sxm", "b200-sxm", "h100-sxm", "h100-pcie", "a100-pcie-80gb", "a30", "v100-sxm-16gb")
    times = (0.32, 0.321, 0.33, 0.37, 0.8, 0.84, 1.03, 1.031)
    costs = (6.45, 0.63, 0.45, 0.24, 0.21, 0.16, 0.097, 0.04)
    rows = [
        row(hardware=f"nvidia-{name}", latency_ms=time, usd_per_million=cost, on_front=True, configuration=name)
        for name, time, cost in zip(devices, times, costs, strict=True)
    ]
    named = layers_of(charts.tradeoff(rows, up=charts.COST).to_dict(), "point")[0]["data"]["values"]
    for layout in ("", "_narrow"):
        assert all(point[f"short{layout}"] for point in named), layout
        assert len({(point["id"], point[f"dx{layout}"], point[f"dy{layout}"]) for point in named}) == len(named)


def test_picks_and_the_front_carry_their_names_and_picks_alone_their_intervals() -> None:
    rows = [
        row(configuration="a", picked=True),
        row(
            configuration="b",
            hardware="nvidia-l4",
            latency_ms=50.0,
            latency_ms_low=40.0,
            latency_ms_high=60.0,
            on_front=True,
        ),
        row(configuration="c", hardware="nvidia-t4", latency_ms=90.0, latency_ms_low=80.0, latency_ms_high=99.0),
    ]
    spec = charts.tradeoff(rows).to_dict()
    named = layers_of(spec, "point")[0]["data"]["values"]
    assert {point["id"]: point["short"] for point in named} == {"a": "H200 SXM", "b": "L4", "c": ""}
    assert [line["id"] for line in layers_of(spec, "rule")[0]["data"]["values"]] == ["a"]
    plain = charts.tradeoff([row(configuration="a"), row(configuration="c", latency_ms=90.0)]).to_dict()
    assert [line["id"] for line in layers_of(plain, "rule")[0]["data"]["values"]] == ["a", "c"]


def test_a_narrow_axis_still_says_where_it_is() -> None:
    rows = [row(throughput_per_s=12.5), row(latency_ms=3.0, throughput_per_s=13.3)]
    ticks = layers_of(charts.tradeoff(rows).to_dict(), "point")[0]["encoding"]["y"]["axis"]["values"]
    assert len(ticks) >= 2


def test_pictures_are_real_files() -> None:
    chart = charts.intervals(
        [row(), row(basis="roofline", latency_ms=40.0)], charts.LATENCY, theme="light", picture=True
    )
    titled = chart_files.titled(chart, "Hardware for a model", answer="cuda", footer="position 7")
    assert chart_files.png(titled).startswith(b"\x89PNG")
    svg = chart_files.svg(titled).decode()
    assert "position 7" in svg
    assert "#1A794E".lower() in svg.lower()
