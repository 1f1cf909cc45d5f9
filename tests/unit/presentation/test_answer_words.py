"""First words of an answer: names of devices, what a figure rests on, and the price of a unit of work."""

from __future__ import annotations

from typing import Any

import pytest

from domain.answers import Call, Figures, Front, Pick, RankedOption, Recommendation, Workload
from presentation.answer_words import (
    device_name,
    evidence_words,
    pick_words,
    price_unit,
    short_name,
    software_names,
    unit_price,
)


def test_devices_have_the_names_that_people_use() -> None:
    assert device_name("nvidia-rtx-5090") == "NVIDIA GeForce RTX 5090"
    assert short_name("nvidia-rtx-5090") == "RTX 5090"
    assert short_name("nvidia-h100-sxm", 8) == "8 × H100 SXM"
    assert short_name("apple-m2-ultra-gpu") == "Apple M2 Ultra GPU"
    assert device_name("acme-one") == short_name("acme-one") == "acme-one"


@pytest.mark.parametrize(
    ("basis", "words"),
    [
        ("measured", "measured"),
        ("imported", "imported"),
        ("reference", "estimate"),
        ("calibrated", "estimate"),
        ("predicted", "estimate"),
        ("roofline", "estimate (specs only)"),
    ],
)
def test_evidence_is_one_of_four_words(basis: str, words: str) -> None:
    assert evidence_words(basis) == words
    assert evidence_words(basis, "simulated") == f"{words}, SIMULATED"


def answer_of(call: Call, work: Workload, *options: RankedOption) -> Recommendation:
    picks = [
        Pick(name="cheapest", option=one, confidence=None, probability=None, next_hardware=None) for one in options
    ]
    return Recommendation(
        id="i", model="m", position=7, time=None, predictor="sha256:a", interval=0.8, question={}, workload=work,
        considered=1, met=1, ranked=list(options), front=Front(axes=["latency", "cost"], options=[]), excluded=[],
        within_reach=[], suggestions=[], notes=[], abstained=None, call=call, at_hand=None, picks=picks,
    )  # fmt: skip


def option(**figures: Any) -> RankedOption:
    return RankedOption(
        rank=1, configuration="c", hardware="h", platform="cuda", precision="fp16", basis="measured", **figures
    )


@pytest.mark.parametrize(
    ("unit", "figures", "sizes", "price"),
    [
        # 3.6 $/h at 1,000 tokens a second: 3.6 million tokens an hour.
        ("request", {"tokens_per_s": 1000.0}, {}, "$1.00 / M tokens"),
        ("generation", {"tokens_per_s": 1000.0}, {"output_tokens": 128}, "$1.00 / M tokens"),
        ("generation", {"usd_per_million": 128.0}, {"output_tokens": 128}, "$1.00 / M tokens"),
        # A million recordings of 36 s are 10,000 hours.
        ("transcription", {"usd_per_million": 1000.0}, {"audio_seconds": 36.0}, "$0.100 / h of audio"),
        ("transcription", {"usd_per_million": 1.0}, {"audio_seconds": 36.0}, "$0.100 / 1,000 h of audio"),
        ("image", {"usd_per_million": 2500.0}, {}, "$2.50 / 1,000 images"),
        ("forward pass", {"usd_per_million": 2.5}, {"image_size": 224}, "$0.00250 / 1,000 images"),
        ("forward pass", {"usd_per_million": 0.25}, {"image_size": 224}, "$0.250 / M images"),
        ("forward pass", {"usd_per_million": 2.5}, {}, "$2.50 / M calls"),
    ],
)
def test_a_price_is_of_the_unit_in_which_the_work_is_sold(
    unit: str, figures: dict[str, float], sizes: dict[str, Any], price: str
) -> None:
    row = option(usd_per_hour=3.6, **figures)
    answer = answer_of(Call(unit=unit, what="", items={}), Workload(mode="inference", **sizes), row)
    assert unit_price(row, price_unit(answer)) == price
    assert unit_price(Figures(tokens_per_s=1.0), price_unit(answer)) == "—"


def test_all_prices_of_an_answer_are_of_one_unit() -> None:
    rows = [option(usd_per_hour=1.0, usd_per_million=usd) for usd in (0.25, 25_000.0)]
    answer = answer_of(Call(unit="forward pass", what="", items={}), Workload(mode="inference", image_size=224), *rows)
    prices = [unit_price(row, price_unit(answer)) for row in rows]
    assert prices == ["$0.250 / M images", "$25,000 / M images"]


def test_software_is_named_by_browser_and_where_a_platform_has_more_than_the_usual_one():
    rows = [
        ("wasm", "onnxruntime-web", "chromium"),
        ("wasm", "onnxruntime-web", "firefox"),
        ("openvino", "openvino", None),
        ("cpu", "torch", None),
        ("cpu", "onnxruntime", None),
    ]
    assert software_names(rows) == ["chromium", "firefox", None, "torch", "onnxruntime"]
    assert software_names([("cpu", "torch", None)]) == [None]
    assert software_names([("cpu", "onnxruntime", None)]) == ["onnxruntime"]


def test_a_pick_in_a_browser_says_in_which() -> None:
    row = RankedOption(
        rank=1,
        configuration="c",
        hardware="h",
        platform="webnn",
        precision="fp32",
        basis="measured",
        browser="chromium",
    )
    answer = answer_of(Call(unit="forward pass", what="", items={}), Workload(mode="inference"), row)
    words = pick_words(Pick(name="fastest", option=row, confidence=None, probability=None, next_hardware=None), answer)
    assert words.runs == "webnn chromium · fp32"
