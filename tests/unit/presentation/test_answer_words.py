"""First words of an answer: names of devices, what a figure rests on, and the price of a unit of work."""

from __future__ import annotations

import pytest

from domain.answers import Call, Figures, Workload
from presentation.answer_words import device_name, evidence_words, short_name, unit_price


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


@pytest.mark.parametrize(
    ("unit", "figures", "image_size", "price"),
    [
        # 3.6 $/h at 1,000 tokens a second: 3.6 million tokens an hour.
        ("request", {"tokens_per_s": 1000.0}, None, "$1.00 / M tokens"),
        ("generation", {"tokens_per_s": 1000.0}, None, "$1.00 / M tokens"),
        ("transcription", {"realtime_factor": 36.0}, None, "$0.100 / h of audio"),
        ("transcription", {"realtime_factor": 36000.0}, None, "$0.100 / 1,000 h of audio"),
        ("image", {"usd_per_million": 2500.0}, None, "$2.50 / 1,000 images"),
        ("forward pass", {"usd_per_million": 2.5}, 224, "$0.00250 / 1,000 images"),
        ("forward pass", {"usd_per_million": 0.25}, 224, "$0.250 / M images"),
        ("forward pass", {"usd_per_million": 2.5}, None, "$2.50 / M calls"),
    ],
)
def test_a_price_is_of_the_unit_in_which_the_work_is_sold(
    unit: str, figures: dict[str, float], image_size: int | None, price: str
) -> None:
    call = Call(unit=unit, what="", items={})
    work = Workload(mode="inference", image_size=image_size)
    assert unit_price(Figures(usd_per_hour=3.6, **figures), call, work) == price
    assert unit_price(Figures(**figures), call, work) == "—"
