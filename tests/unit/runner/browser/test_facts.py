"""What pages say, read: backends, placement of nodes, doubts, and which outcome a failure is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.payloads import Observed
from domain.verdicts import Circumstances, judge
from runner.browser.facts import Taken, backends_of, doubts_of, fallback_share, is_software, observation, placement_of
from runner.browser.page import PageRefused, failure_of
from runner.browser.server import PageFailed
from runner.platforms.base import Settings
from runner.protocol.child import classify

SWIFTSHADER = {
    "vendor": "google",
    "architecture": "swiftshader",
    "device": "",
    "description": "",
    "isFallbackAdapter": True,
}
RADEON = {"vendor": "amd", "architecture": "rdna-3", "device": "", "description": "", "isFallbackAdapter": False}
ISOLATED: dict[str, Any] = {
    "wasm": True,
    "isolated": True,
    "gpu": True,
    "adapter": RADEON,
    "ml": {"cpu": True, "gpu": True},
}
STEADY = [1.0, 1.01, 0.99, 1.0, 1.02] * 20
WEBNN_LOG = """
[I:onnxruntime:, webnn_execution_provider.cc:158 GetCapability] WebNNExecutionProvider::GetCapability, number of partitions \
supported by WebNN: 2 number of nodes in the graph: 80 number of nodes supported by WebNN: 60
[V:onnxruntime:, session_state.cc:1389 VerifyEachNodeIsAssignedToAnEp]  Node(s) placed on [WebNNExecutionProvider]. Number of nodes: 2
[V:onnxruntime:, session_state.cc:1389 VerifyEachNodeIsAssignedToAnEp]  Node(s) placed on [CPUExecutionProvider]. Number of nodes: 20
""".splitlines()


def taken(samples: list[float], **how: Any) -> Taken:
    return Taken(samples=samples, **how)


def settings(precision: str = "fp32", device: str | None = None) -> Settings:
    return Settings(precision=precision, threads=2, device=device)


def test_nodes_and_partitions_come_from_the_log() -> None:
    placement = placement_of(WEBNN_LOG)
    assert placement.nodes == {"WebNNExecutionProvider": 2, "CPUExecutionProvider": 20}
    assert (placement.partitions, placement.graph_nodes, placement.webnn_nodes) == (2, 80, 60)
    assert fallback_share("webnn", placement) == pytest.approx(0.25)


def test_a_graph_that_one_provider_took_whole_has_no_fallback() -> None:
    line = "VerifyEachNodeIsAssignedToAnEp]  All nodes placed on [CPUExecutionProvider]. Number of nodes: 79"
    assert placement_of([line]).nodes == {"CPUExecutionProvider": 79}
    assert fallback_share("wasm", placement_of([line])) == 0.0
    assert fallback_share("webgpu", placement_of([line])) == 1.0


@given(st.lists(st.text(max_size=80), max_size=20))
def test_any_log_is_read(lines: list[str]) -> None:
    for backend in ("wasm", "webgpu", "webnn"):
        assert 0 <= fallback_share(backend, placement_of(lines)) <= 1


@given(
    st.dictionaries(st.text("CPUWebNNgExecutionProvider", min_size=1), st.integers(0, 10**6), min_size=1, max_size=5)
)
def test_counts_are_read_as_they_were_written(nodes: dict[str, int]) -> None:
    lines = [f" Node(s) placed on [{name}]. Number of nodes: {count}" for name, count in nodes.items()]
    assert placement_of(lines).nodes == nodes


def test_a_software_adapter_is_the_processor_and_suspect() -> None:
    environment = {**ISOLATED, "adapter": SWIFTSHADER}
    seen = observation("webgpu", settings(), environment, placement_of([]), threads=1)
    assert seen.device.startswith("cpu")
    assert "swiftshader" in seen.device
    assert any("software adapter" in doubt for doubt in doubts_of("webgpu", settings(), environment, taken(STEADY)))
    assert doubts_of("wasm", settings(), environment, taken(STEADY)) == []


@pytest.mark.parametrize("name", ["SwiftShader Device", "llvmpipe (LLVM 19)", "Microsoft Basic Render Driver"])
def test_a_software_renderer_is_known_by_its_name(name: str) -> None:
    assert is_software({"description": name, "isFallbackAdapter": False})
    assert not is_software(RADEON)


def test_the_device_of_webnn_is_never_told() -> None:
    for device in (None, "cpu", "gpu", "npu"):
        seen = observation("webnn", settings(device=device), ISOLATED, placement_of(WEBNN_LOG), threads=1)
        assert seen.device == "not told"
        assert seen.details["webnn"] == {"partitions": 2, "graph_nodes": 80, "nodes": 60}


def test_an_npu_as_fast_as_the_cpu_cannot_be_told_from_it() -> None:
    doubts = doubts_of("webnn", settings(device="npu"), ISOLATED, taken(STEADY), beside=STEADY)
    assert any("cannot be told from cpu" in doubt for doubt in doubts)
    drifted = [value * 0.93 for value in STEADY]
    assert doubts_of("webnn", settings(device="npu"), ISOLATED, taken(drifted), beside=STEADY)
    faster = [value / 3 for value in STEADY]
    assert doubts_of("webnn", settings(device="npu"), ISOLATED, taken(faster), beside=STEADY) == []


def test_wasm_computes_16_bit_models_in_32() -> None:
    seen = observation("wasm", settings("fp16"), ISOLATED, placement_of([]), threads=2)
    assert seen.precision == "fp32"
    assert observation("webnn", settings("fp16"), ISOLATED, placement_of([]), threads=2).precision == "fp16"


def test_a_series_that_becomes_faster_and_a_hidden_page_are_doubtful() -> None:
    falling = [2.0 + value for value in STEADY[:50]] + STEADY[:50]
    assert any("optimised" in doubt for doubt in doubts_of("wasm", settings(), ISOLATED, taken(falling)))
    assert any("hidden" in doubt for doubt in doubts_of("wasm", settings(), ISOLATED, taken(STEADY, hidden=True)))
    means = taken(STEADY, calls_per_sample=40)
    coarse = {**ISOLATED, "clock_step_ms": 1.0}
    assert any("mean of 40 calls" in doubt for doubt in doubts_of("wasm", settings(), coarse, means))
    bare = {**ISOLATED, "isolated": False}
    assert any("isolated" in doubt for doubt in doubts_of("wasm", settings(), bare, taken(STEADY)))


def test_a_doubt_makes_the_row_suspect_with_its_reason() -> None:
    observed = Observed(device="cpu", platform="webgpu", precision="fp32", details={"doubts": ["a software adapter"]})
    validity = judge(STEADY, ["latency_ms"], Circumstances(steady=True, observed=observed))
    assert validity.verdict == "suspect"
    assert "a software adapter" in validity.reasons


@pytest.mark.parametrize(
    ("change", "backend"),
    [
        ({"gpu": False}, "webgpu"), ({"adapter": None}, "webgpu"), ({"adapter": {"error": "lost"}}, "webgpu"),
        ({"ml": None}, "webnn"), ({"ml": {"cpu": "NotSupportedError"}}, "webnn"), ({"wasm": False}, "wasm"),
    ],
)  # fmt: skip
def test_a_backend_that_is_not_there_says_what_is_missing(change: dict[str, Any], backend: str) -> None:
    assert backends_of(ISOLATED)[backend].available
    changed = backends_of({**ISOLATED, **change})[backend]
    assert not changed.available
    assert changed.reason


def test_the_devices_of_a_page_are_what_it_was_given() -> None:
    abilities = backends_of(ISOLATED)
    assert abilities["wasm"].devices == ("cpu",)
    assert abilities["webgpu"].devices == ("amd rdna-3",)
    assert abilities["webnn"].devices == ("cpu", "gpu")
    software = backends_of({**ISOLATED, "adapter": SWIFTSHADER})["webgpu"]
    assert software.software
    assert software.devices == ("cpu (google swiftshader)",)


@pytest.mark.parametrize(
    ("name", "message", "outcome"),
    [
        ("NotIsolated", "2 threads were asked for", "unsupported"),
        ("NotSupportedError", "WebNN is not supported on this platform.", "unsupported"),
        ("Error", "Program Gather requires f16 but the device does not support it.", "unsupported"),
        ("ModelTooLarge", "a file of 3000000000 bytes", "unsupported"),
        ("RangeError", "Array buffer allocation failed", "out_of_memory"),
        ("Error", "std::bad_alloc", "out_of_memory"),
        ("NotAModel", "HTML came in place of the model's file", "error"),
        ("Truncated", "the model's file has 3 of 4 bytes", "error"),
        ("DeviceLost", "the GPU was lost: destroyed", "error"),
        ("RangeError", "Maximum call stack size exceeded", "error"),
    ],
)  # fmt: skip
def test_a_failure_of_a_page_has_an_outcome(name: str, message: str, outcome: str) -> None:
    error = failure_of(PageFailed({"name": name, "message": message, "stage": "load"}))
    assert classify(error)[0] == outcome
    assert message in str(error)
    assert isinstance(error, PageRefused) == (outcome == "unsupported")
