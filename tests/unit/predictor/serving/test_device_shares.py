"""The share that an engine reaches on a device follows from the devices most like it."""

from __future__ import annotations

import msgspec
import pytest

from domain.catalogues import hardware
from domain.catalogues.engines import DeviceShare
from predictor.llm_serving.efficiency import DeviceShares, share_on

SMALL = ("nvidia-rtx-3060", "nvidia-rtx-3070", "nvidia-rtx-4070-ti")
LARGE = ("nvidia-a100-sxm-80gb", "nvidia-h100-sxm")


def shares(values: dict[str, float], band: str = "narrow", rows: int = 20) -> tuple[DeviceShare, ...]:
    return tuple(DeviceShare(device=name, band=band, value=value, rows=rows) for name, value in values.items())


def test_a_device_takes_after_the_devices_most_like_it() -> None:
    known = shares(dict.fromkeys(SMALL, 0.9) | dict.fromkeys(LARGE, 0.3))
    small = share_on(known, hardware.require("nvidia-rtx-3080"), "cuda", "narrow")
    large = share_on(known, hardware.require("nvidia-h200-sxm"), "cuda", "narrow")
    assert small is not None and large is not None
    assert small > 0.7
    assert large < 0.45


def test_rows_of_the_device_itself_decide() -> None:
    known = shares(dict.fromkeys(SMALL, 0.5))
    measured = (*known, DeviceShare(device="nvidia-rtx-3080", band="narrow", value=0.9, rows=50))
    spec = hardware.require("nvidia-rtx-3080")
    before, after = (share_on(item, spec, "cuda", "narrow") for item in (known, measured))
    assert before == pytest.approx(0.5, rel=0.02)
    assert after is not None and after > 0.7


def test_weights_of_other_bits_say_less_the_more_the_bits_differ() -> None:
    known = (*shares(dict.fromkeys(SMALL, 0.9), "wide"), *shares(dict.fromkeys(LARGE, 0.5), "narrow"))
    process = DeviceShares.fit(known, "cuda")
    assert process is not None
    values = [process.predict(hardware.require("nvidia-rtx-3080"), "cuda", band) or 0 for band in ("narrow", "wide")]
    assert values[0] < values[1]


def test_one_device_is_not_enough_and_figures_must_be_known() -> None:
    assert DeviceShares.fit(shares({"nvidia-rtx-3060": 0.8}), "cuda") is None
    assert DeviceShares.fit(shares({"nvidia-rtx-3060": 0.8, "acme-9000": 0.8}), "cuda") is None
    process = DeviceShares.fit(shares(dict.fromkeys(SMALL, 0.8)), "cuda")
    assert process is not None
    bare = msgspec.structs.replace(hardware.require("nvidia-rtx-3080"), memory_bandwidth_bytes_per_s=None)
    assert process.predict(bare, "cuda", "narrow") is None


def test_no_device_reaches_more_or_less_than_those_that_are_known() -> None:
    known = shares(dict(zip(SMALL, (0.5, 0.7, 0.9), strict=True)), rows=1000)
    values = [share_on(known, hardware.require(name), "cuda", "narrow") for name in ("nvidia-gb200", "nvidia-tesla-p4")]
    assert all(value is not None and 0.5 <= round(value, 6) <= 0.9 for value in values)
