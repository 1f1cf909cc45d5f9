"""What a surveyed machine cannot do, with the reason and what to do instead."""

from __future__ import annotations

from typing import Any

from runner.campaign.campaign import refusal
from runner.campaign.event_payloads import Machine


def surveyed(*, available: bool = True, converts: bool = False, **refusals: str) -> Machine:
    probe = {"available": available, "reason": None if available else "no driver", "remedy": None}
    platform: dict[str, Any] = {
        "probe": probe,
        "precisions": ["fp32", "bf16"],
        "refusals": refusals,
        "converts": converts,
    }
    return Machine(environment={}, hardware=[], placement=[], platforms={"some": platform})


def test_what_is_there_is_not_refused() -> None:
    assert refusal(surveyed(), "some", "bf16") is None
    assert refusal(surveyed(), "some", "bf16", low_memory=True) is None
    assert refusal(surveyed(converts=True), "some", "bf16") is None


def test_a_refusal_says_why_and_what_is_possible() -> None:
    absent = refusal(surveyed(available=False), "some", "fp32")
    assert absent is not None
    assert (absent.error, absent.outcome, absent.stage) == ("PlatformUnavailable", "unsupported", "resolve")
    assert "no driver" in absent.message and "assay detect" in str(absent.remedy)
    impossible = refusal(surveyed(), "some", "fp8")
    assert impossible is not None and impossible.remedy == "It can in fp32, bf16."
    missing = refusal(surveyed(int8="pip install nncf"), "some", "int8")
    assert missing is not None and missing.remedy == "pip install nncf"


def test_a_platform_that_converts_has_no_low_memory_mode() -> None:
    refused = refusal(surveyed(converts=True), "some", "bf16", low_memory=True)
    assert refused is not None and refused.error == "UnsupportedWorkload" and "--low-memory" in str(refused.remedy)
