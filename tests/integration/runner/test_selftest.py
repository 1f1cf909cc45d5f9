"""Self-tests: of platforms that are here, of one that is not, and of some that do not do what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from domain.events import RUN_STARTED, TEST_REPORTED, decode_event, encode_event
from runner.protocol.parent import run_task
from runner.protocol.tasks import Examine
from runner.selftest import run_selftest
from runner.selftest.record import Check


def examined(platform: str) -> dict[str, Check]:
    ended = run_task(Examine(platform=platform), timeout_s=240)
    assert ended.failure is None, ended.failure
    return {check.name: check for check in msgspec.convert(ended.result, list[Check])}


@pytest.mark.torture
def test_openvino_passes_here_and_tells_it_as_events(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    found = run_selftest("openvino", events.append, cache=tmp_path)
    outcomes = {check.name: check.outcome for check in found.checks}
    assert set(outcomes) == {
        "probe", "device", "product", "memory", "precision", "timing", "power", "out_of_memory", "bench", "verify",
    }  # fmt: skip
    assert found.passed, found.checks
    assert outcomes["device"] == "skipped"
    decoded = [decode_event(encode_event(event)) for event in events]
    assert [msgspec.to_builtins(each.data)["kind"] for each in decoded if each.event.type == RUN_STARTED] == [
        "selftest", "bench", "verify",
    ]  # fmt: skip
    (report,) = [
        data
        for each in decoded
        if each.event.type == TEST_REPORTED and (data := msgspec.to_builtins(each.data))["test"] == "selftest"
    ]
    assert report["run_id"] == found.run_id and report["outcome"] == "passed"
    assert report["checks"]["precision"]["fp32"] < 2e-5
    assert report["checks"]["memory"]["counted_bytes"] >= 0.95 * report["checks"]["memory"]["known_bytes"]


@pytest.mark.torture
def test_a_platform_that_is_not_here_fails_with_the_reason_and_nothing_runs() -> None:
    events: list[dict[str, Any]] = []
    found = run_selftest("rocm", events.append)
    assert [(check.name, check.outcome) for check in found.checks] == [("probe", "failed")]
    assert "ROCm" in found.checks[0].said and not found.passed
    report = next(event["data"] for event in events if event["type"] == TEST_REPORTED)
    assert msgspec.to_builtins(report)["outcome"] == "unsupported"


def test_a_platform_that_computes_more_coarsely_than_it_says_is_found_out(plugin: Path) -> None:
    found = examined("narrowing")
    assert found["precision"].outcome == "failed"
    assert "asked for fp32" in found["precision"].said and "that of bf16" in found["precision"].said


def test_a_platform_that_runs_elsewhere_is_found_out(plugin: Path) -> None:
    found = examined("pretending")
    assert found["product"].outcome == "failed"
    assert "100% of it was done elsewhere, on cpu" in found["product"].said
    assert found["timing"].outcome == "skipped"
