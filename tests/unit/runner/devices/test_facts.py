"""What vendors' figures and messages mean, on figures and messages as their documentation has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from domain.performance.device_state import DeviceState
from runner.machine.devices.amd import RocmSmi, card_at, energy_j, find_amd, power_w, state_of, state_of_card
from runner.machine.devices.apple import limits_of
from runner.machine.devices.nvidia import find_nvidia
from runner.machine.devices.nvidia_facts import (
    DEVICE_LOST,
    absence,
    architecture_problem,
    fp8_problem,
    lost_reasons,
    mig_profile,
    slowed_by,
)
from runner.machine.devices.processes import own_names, shared
from runner.measure.power.meter import Unread
from runner.platforms.torch_cuda import amd_fp8_problem
from runner.platforms.torch_eager import moved_operators
from runner.protocol.child import classify

TOO_OLD = (
    "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU "
    "driver by downloading and installing a new version (Triggered internally at c10/cuda/CUDAFunctions.cpp:109.)"
)
"""torch's own warning (c10/cuda/CUDAFunctions.cpp)."""


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0x0, []),
        (0x1, ["idle"]),
        (0x4, ["power_cap"]),
        (0x8 | 0x40, ["hardware_slowdown", "hardware_thermal_slowdown"]),
        (0x20 | 0x80, ["thermal_slowdown", "power_brake"]),
        (0x4000, ["reason_0x4000"]),
    ],
)
def test_reasons_of_clocks_are_the_bits_of_nvml(mask: int, words: list[str]) -> None:
    assert slowed_by(mask) == words


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "1g.10gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", "1c.3g.20gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "1g.10gb+me"),
        ("NVIDIA H100 80GB HBM3", None),
    ],
)
def test_a_slice_is_told_from_a_whole_device(name: str, profile: str | None) -> None:
    assert mig_profile(name) == profile


def test_a_driver_that_is_too_old_is_named_with_what_it_speaks() -> None:
    reason, remedy = absence([TOO_OLD], "470.57.02", "12.8")
    assert reason == "the driver 470.57.02 is too old: it speaks CUDA 11.4, not CUDA 12.8."
    assert "Update the driver" in remedy and "CUDA 11.4 or older" in remedy


@pytest.mark.parametrize(
    ("messages", "driver", "reason", "remedy"),
    [
        ([], None, "no CUDA device.", "its driver"),
        ([], "570.86", "the driver 570.86 is loaded", "CUDA_VISIBLE_DEVICES"),
        (["CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up environment"], "570.86",
         "unknown error", "dmesg"),
    ],
)  # fmt: skip
def test_other_absences_say_where_to_look(messages: list[str], driver: str | None, reason: str, remedy: str) -> None:
    found = absence(messages, driver, "12.8")
    assert reason in found[0] and remedy in found[1]


@pytest.mark.parametrize(
    ("capability", "built", "fits"),
    [
        ((9, 0), ["sm_80", "sm_90"], True),
        ((8, 9), ["sm_80", "sm_86", "sm_90"], True),
        ((12, 0), ["sm_80", "sm_90"], False),
        ((12, 0), ["sm_90", "compute_90"], True),
        ((6, 1), ["sm_75", "compute_75"], False),
        ((10, 0), ["sm_100a"], True),
        ((9, 0), [], True),
    ],
)
def test_kernels_run_on_their_own_generation_and_those_compiled_later_on_newer(
    capability: tuple[int, int], built: list[str], fits: bool
) -> None:
    problem = architecture_problem(capability, built)
    assert (problem is None) is fits
    assert fits or f"capability {capability[0]}.{capability[1]}" in str(problem)


def test_fp8_is_for_devices_that_multiply_in_it() -> None:
    assert fp8_problem((8, 9)) is fp8_problem((9, 0)) is fp8_problem((12, 0)) is None
    assert "8.0" in str(fp8_problem((8, 0)))
    assert amd_fp8_problem("gfx942:sramecc+:xnack-") is amd_fp8_problem("gfx1201") is None
    assert "gfx90a" in str(amd_fp8_problem("gfx90a:sramecc+"))


@pytest.mark.parametrize(
    "message",
    [
        "Unable to determine the device handle for GPU 0000:65:00.0: GPU is lost. Reboot the system to recover this GPU",
        "CUDA error: no CUDA-capable device is detected",
        "HIP error: no ROCm-capable device is detected",
        "level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)",
        "CUDA error: uncorrectable ECC error encountered",
    ],
)
def test_a_device_that_is_gone_is_an_error_with_a_remedy_and_no_word_on_the_model(message: str) -> None:
    assert lost_reasons(message)
    assert classify(RuntimeError(message)) == ("error", DEVICE_LOST)


@pytest.mark.parametrize(
    "message",
    [
        "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.11 GiB",
        "MPS backend out of memory (MPS allocated: 18.00 GB, other allocations: 384.00 KB, max allowed: 18.13 GB)",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "Native API failed. Native API returns: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
        "level_zero backend failed with error: 40 (UR_RESULT_ERROR_OUT_OF_HOST_MEMORY)",
        "[ONNXRuntimeError] : 11 : EP_FAIL : Failed to finalize QNN graph. Error: QNN_COMMON_ERROR_MEM_ALLOC: Memory allocation related error., Code: 1002",
    ],
)
def test_every_runtimes_words_for_no_memory_are_that_outcome(message: str) -> None:
    assert not lost_reasons(message)
    assert classify(RuntimeError(message))[0] == "out_of_memory"


def test_other_errors_are_neither() -> None:
    assert classify(RuntimeError("CUDA error: an illegal memory access was encountered")) == ("error", None)


def test_own_memory_is_found_by_process_and_others_are_counted() -> None:
    assert shared([(7, 500), (9, 300), (11, None)], frozenset({7})) == (500, 2, 300)
    assert shared([], frozenset({7})) == (None, 0, None)
    assert shared([(9, 300)], frozenset({7}), present=False) == (None, 1, 300)


def test_in_a_container_the_only_process_is_this_one_and_of_several_none_is_guessed() -> None:
    assert shared([(4711, 500)], frozenset({7})) == (500, 0, None)
    assert shared([(4711, 500), (4712, 200), (4713, 100)], frozenset({7}))[:2] == (None, 2)


def test_this_process_knows_its_own_ids(tmp_path: Path) -> None:
    assert os.getpid() in own_names()
    inner = tmp_path / "status"
    inner.write_text("Name:\tpython\nNSpid:\t4711\t12\n")
    assert {4711, 12} <= own_names(inner)


POWER = {
    "socket_power": 312, "current_socket_power": "N/A", "average_socket_power": "N/A", "power_limit": 750,
    "gfx_voltage": "N/A",
}  # fmt: skip
"""amdsmi_get_power_info of an MI300X, as the library's documentation has it."""


def test_answers_of_amdsmi_become_a_state() -> None:
    found = state_of(
        power=POWER,
        clock={"clk": 2100, "min_clk": 500, "max_clk": 2100},
        memory_clock={"clk": 1300},
        temperature=71,
        violations={
            "active_prochot_thrm": False,
            "active_ppt_pwr": True,
            "active_socket_thrm": True,
            "active_vr_thrm": "N/A",
        },
        processes=[
            {"pid": 7, "mem": 1000, "memory_usage": {"vram_mem": 900}},
            {"pid": 8, "mem": 400, "memory_usage": {"vram_mem": 300}},
        ],
        memory={"vram_total": 196288, "vram_used": 2000},
        own=frozenset({7}),
    )
    assert (found.clock_hz, found.memory_clock_hz, found.temperature_c) == (2.1e9, 1.3e9, 71.0)
    assert (found.power_w, found.power_limit_w) == (312.0, 750.0)
    assert found.slowed_by == ["power_cap", "thermal_slowdown"]
    assert (found.own_bytes, found.others, found.others_bytes, found.used_bytes) == (900, 1, 300, 2000 * 2**20)


def test_questions_that_were_not_answered_stay_open() -> None:
    found = state_of(
        power={}, clock={}, memory_clock={"clk": "N/A"}, temperature=None, violations={}, processes=None, memory={},
        own=frozenset(),
    )  # fmt: skip
    assert found == type(found)()


def test_power_is_the_present_one_before_the_average_and_energy_is_in_units_of_its_counter() -> None:
    assert power_w({"current_socket_power": 95, "average_socket_power": 80}) == 95
    assert power_w({"current_socket_power": "N/A", "average_socket_power": 80, "socket_power": 0}) == 80
    assert power_w({}) is None
    assert energy_j({"energy_accumulator": 123_456_789, "counter_resolution": 15.3}) == pytest.approx(1888.888872)
    assert energy_j({"energy_accumulator": 0, "counter_resolution": 15.3}) is None


ROCM_SMI = """{"card0": {"PCI Bus": "0000:05:00.0", "Temperature (Sensor edge) (C)": "30.0"},
"card1": {"PCI Bus": "0000:C1:00.0", "Temperature (Sensor edge) (C)": "N/A", "Temperature (Sensor junction) (C)": "45.0",
"Temperature (Sensor memory) (C)": "38.0", "mclk clock speed:": "(1300Mhz)", "mclk clock level:": "3",
"sclk clock speed:": "(2100Mhz)", "sclk clock level:": "1", "Max Graphics Package Power (W)": "750.0",
"Current Socket Graphics Package Power (W)": "159.0", "VRAM Total Memory (B)": "205822885888",
"VRAM Total Used Memory (B)": "299687936"}, "system": {"Driver version": "6.12.12"}}"""
"""rocm-smi of ROCm 6 on two cards, in the form of its rocm_smi.py: every figure a text."""


def test_rocm_smi_tells_the_card_at_an_address() -> None:
    card = card_at(ROCM_SMI, "0000:c1:00.0")
    assert card is not None
    found = state_of_card(card)
    assert (found.clock_hz, found.memory_clock_hz, found.temperature_c) == (2.1e9, 1.3e9, 45.0)
    assert (found.power_w, found.power_limit_w, found.used_bytes) == (159.0, 750.0, 299687936)
    assert found.slowed_by is None and found.others is None


def test_what_rocm_smi_does_not_tell_stays_open() -> None:
    edge = card_at(ROCM_SMI, "0000:05:00.0") or {}
    assert state_of_card(edge) == DeviceState(temperature_c=30.0)
    words = {
        "sclk clock speed:": "None",
        "VRAM Total Used Memory (B)": "N/A",
        "Average Graphics Package Power (W)": "0.0",
    }
    assert state_of_card(words) == DeviceState()
    assert (
        card_at(ROCM_SMI, "0000:c2:00.0") is card_at("ERROR: no driver", "0000:c1:00.0") is card_at("[]", "x") is None
    )


def test_a_program_that_answers_is_the_watcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "rocm-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{ROCM_SMI}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    found = find_amd("0000:c1:00.0")
    assert isinstance(found, RocmSmi) and found.state().power_w == 159.0
    assert "no device at 0000:c9:00.0" in str(find_amd("0000:c9:00.0"))


def test_limits_of_a_hot_mac_are_read() -> None:
    hot = "Note: No thermal warning level has been recorded\n \tCPU_Scheduler_Limit \t= 100\n\tCPU_Speed_Limit \t= 72\n"
    assert limits_of(hot) == {"CPU_Scheduler_Limit": 100, "CPU_Speed_Limit": 72}
    assert limits_of("Note: No CPU power status has been recorded\n") == {}


def test_operators_that_metal_lacks_are_named() -> None:
    said = (
        "The operator 'aten::linalg_eigh.eigenvalues' is not currently supported on the MPS backend and will fall back to "
        "run on the CPU. This may have performance implications. (Triggered internally at MPSFallback.mm:15.)"
    )
    assert moved_operators([said, "something else"]) == {"aten.linalg_eigh"}


def test_a_library_without_its_driver_says_what_is_missing() -> None:
    for found in (find_nvidia("GPU-00000000-0000-0000-0000-000000000000", "NVIDIA H100"), find_amd("0000:c1:00.0")):
        assert isinstance(found, Unread) and found.reason and found.remedy
