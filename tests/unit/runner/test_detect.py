"""Detection is tried on the machine that runs the tests: what it claims is checked against what can be used here."""

import getpass
import json
import os
import platform
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from domain.catalogues.hardware import cpu_slug, fill, spec_from_event
from domain.events import decode_event, encode_event, new_event
from domain.payloads import Environment
from domain.vocabulary import PLATFORMS
from runner.browser.locations import find_browsers
from runner.machine.detect import derived_peaks, describe, detect, own_hardware
from runner.machine.environment import environment
from runner.machine.probes import parse_smi
from runner.machine.processor import Processor, processor, quota_of, threads_allowed

ROOT = Path(__file__).parents[3]
QUICK = f"import json; from {detect.__module__} import detect; d = detect(measure=False, browsers=False); "
SHOW = "print(json.dumps([[x.hardware.id, x.hardware.count, sorted(x.addresses)] for x in d.devices]))"


@pytest.fixture(scope="module")
def detection():
    return detect()


@pytest.fixture(scope="module")
def events(detection):
    return describe(detection)


def python(code, **variables):
    command, env = [sys.executable, "-c", code], os.environ | variables
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def probe_of(detection, name):
    (probe,) = [probe for probe in detection.probes if probe.platform == name]
    return probe


class TestMachine:
    def test_the_cpu_is_the_first_device_and_is_there_once(self, detection):
        kinds = [device.hardware.kind for device in detection.devices]
        assert kinds[0] == "cpu"
        assert kinds.count("cpu") == 1
        assert detection.devices[0].hardware == own_hardware()

    def test_its_identity_is_the_published_function_of_name_and_cores(self, detection):
        cpu, hardware = detection.processor, detection.devices[0].hardware
        assert hardware.id == cpu_slug(cpu.name, cpu.cores // hardware.count)

    def test_what_it_says_of_the_cpu_agrees_with_python(self):
        cpu = processor()
        assert 1 <= cpu.threads <= (os.cpu_count() or 1)
        assert 1 <= cpu.cores <= (os.cpu_count() or 1)
        assert cpu.machine == platform.machine()
        assert cpu.memory_bytes > 2**28
        assert cpu.clock_hz is None or 5e8 < cpu.clock_hz < 1e10

    def test_variables_make_no_hardware_appear(self):
        claims = {
            "CUDA_VISIBLE_DEVICES": "0,1,2", "ROCM_HOME": "/opt/rocm", "HIP_VISIBLE_DEVICES": "0",
            "CUDA_HOME": "/usr/local/cuda",
            "QNN_SDK_ROOT": "/opt/qnn", "OPENVINO_DEVICE": "GPU", "WEBGPU_AVAILABLE": "1", "TPU_NAME": "local",
        }  # fmt: skip
        devices = detect(measure=False, browsers=False).devices
        bare = [[device.hardware.id, device.hardware.count, sorted(device.addresses)] for device in devices]
        assert python(QUICK + SHOW, **claims) == bare

    @pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity to set")
    def test_affinity_changes_the_threads_and_not_the_hardware(self):
        one = (
            "import os, json; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
            f"from {threads_allowed.__module__} import threads_allowed; from {detect.__module__} import own_hardware;"
            "print(json.dumps([threads_allowed(), own_hardware().id]))"
        )
        assert python(one) == [1, own_hardware().id]
        assert threads_allowed() == len(os.sched_getaffinity(0)) or processor().quota_cpus is not None


class TestPlatforms:
    def test_every_platform_is_answered_for(self, detection):
        assert sorted(probe.platform for probe in detection.probes) == sorted(set(PLATFORMS) - {"other"})
        for probe in detection.probes:
            if probe.available:
                assert probe.evidence
                assert probe.devices
                assert probe.runtime["version"]
                assert probe.reason is None
            else:
                assert probe.reason, probe.platform

    def test_torch_computed_on_the_cpu(self, detection):
        import torch

        probe = probe_of(detection, "cpu")
        assert probe.available
        assert probe.runtime == {"name": "torch", "version": str(torch.__version__)}
        assert {"fp32", "bf16"} <= set(probe.precisions)
        assert "product" in probe.evidence

    def test_cuda_and_rocm_agree_with_torch(self, detection):
        import torch

        hip = bool(torch.version.hip)
        assert probe_of(detection, "cuda").available == (torch.cuda.is_available() and not hip)
        assert probe_of(detection, "rocm").available == (torch.cuda.is_available() and hip)
        assert probe_of(detection, "mps").available == torch.backends.mps.is_available()

    def test_openvino_s_cpu_is_the_cpu(self, detection):
        probe = probe_of(detection, "openvino")
        assert probe.available
        assert "ran on CPU" in probe.evidence
        assert detection.device_for("openvino", "CPU") is detection.devices[0]
        assert detection.device_for("openvino", "CPU") is detection.device_for("cpu")

    def test_an_absent_platform_has_no_device(self, detection):
        for probe in detection.probes:
            assert (detection.device_for(probe.platform) is not None) == probe.available

    def test_a_browser_s_claim_rests_on_a_page_that_ran(self, detection):
        driven = find_browsers()
        probe = probe_of(detection, "wasm")
        assert probe.available == bool(driven)
        if driven:
            assert "WebAssembly" in probe.evidence
            assert probe.runtime["name"] == driven[0].name
            assert probe.runtime["version"].split(".")[0].isdigit()

    def test_without_torch_and_openvino_it_says_so(self):
        hide = (
            "import sys\n"
            "class Bare:\n"
            "    def __init__(self, inner): self.inner = inner\n"
            "    def find_spec(self, name, *rest):\n"
            "        hidden = name.partition('.')[0] in ('torch', 'openvino')\n"
            "        return None if hidden else self.inner.find_spec(name, *rest)\n"
            "sys.meta_path = [Bare(finder) for finder in sys.meta_path]\n"
            f"import json; from {detect.__module__} import describe, detect\n"
            "d = detect(browsers=False)\n"
            "print(json.dumps([{p.platform: p.reason for p in d.probes}, describe(d)[0]['spec']['sustained_flops']]))"
        )
        reasons, sustained = python(hide)
        assert "torch is not installed" in reasons["cpu"]
        assert "torch is not installed" in reasons["cuda"]
        assert "openvino is not installed" in reasons["openvino"]
        assert sustained["fp32"]["value"] > 1e8
        assert "numpy" in sustained["fp32"]["source"]


class TestFigures:
    def test_sustained_figures_are_measured_and_below_the_peak(self, detection):
        spec = detection.devices[0].spec
        assert spec.sustained_bandwidth_bytes_per_s.status == "measured"
        assert spec.sustained_bandwidth_bytes_per_s.value > 1e8
        assert spec.sustained_flops["fp32"].value > 1e9
        for precision in set(spec.sustained_flops) & set(spec.peak_flops):
            assert spec.sustained_flops[precision].value <= spec.peak_flops[precision].value * 1.000001

    def test_without_measuring_there_are_none(self):
        spec = detect(measure=False, browsers=False).devices[0].spec
        assert spec.sustained_flops == {}
        assert spec.sustained_bandwidth_bytes_per_s is None

    @pytest.mark.parametrize(
        ("vendor", "instructions", "expected"),
        [
            ("intel", ("avx2", "fma", "avx512f", "avx512_vnni"), {"fp32": 64, "int8": 256}),
            ("intel", ("avx512f", "avx512_bf16", "amx_bf16", "amx_int8"), {"fp32": 64, "bf16": 1024, "int8": 2048}),
            ("amd", ("avx2", "fma"), {"fp32": 32}),
            ("amd", ("avx2", "fma", "avx512f", "avx512_bf16"), {"fp32": 32, "bf16": 64}),
            ("arm", ("asimd", "asimdhp", "asimddp"), {"fp32": 16, "fp16": 32, "int8": 64}),
            ("intel", ("sse4_2",), {"fp32": 8}),
        ],
    )
    def test_peaks_follow_from_cores_clock_and_instructions(self, vendor, instructions, expected):
        cpu = msgspec.structs.replace(
            processor(), name="a CPU", vendor=vendor, instructions=instructions, cores=4, clock_hz=2e9
        )
        peaks = derived_peaks(cpu)
        assert {precision: figure.value / 8e9 for precision, figure in peaks.items()} == expected
        assert all(figure.status == "derived" and figure.formula for figure in peaks.values())
        for precision, figure in derived_peaks(cpu, sockets=2).items():
            assert figure.value * 2 == peaks[precision].value

    def test_no_clock_gives_no_peak(self):
        assert derived_peaks(msgspec.structs.replace(processor(), clock_hz=None)) == {}


class TestEvents:
    def test_each_device_is_a_valid_event(self, detection, events):
        assert [event["hardware"]["id"] for event in events] == [device.hardware.id for device in detection.devices]
        for data in events:
            event = new_event("assay.hardware.described.v1", data, source="tests", subject=data["hardware"]["id"])
            decode_event(encode_event(event))

    def test_the_first_also_says_what_is_absent_and_why(self, events):
        said = {probe["platform"]: probe for probe in events[0]["platforms"]}
        assert {name for name in PLATFORMS if name != "other"} == set(said)
        assert all(probe["available"] or probe["reason"] for probe in said.values())

    def test_an_event_gives_back_the_spec(self, detection, events):
        for device, data in zip(detection.devices, events, strict=True):
            spec = spec_from_event(data)
            assert spec.figures() == device.spec.figures()
            assert spec.platforms == device.spec.platforms
            assert fill(spec, device.spec).peak_flops == device.spec.peak_flops

    def test_nothing_private_is_in_it(self, events):
        text = json.dumps(events)
        private = {socket.gethostname(), str(Path.home()), str(ROOT), os.environ.get("HOSTNAME", "")}
        private |= {browser.path for browser in find_browsers()}
        assert [word for word in private if len(word) > 4 and word in text] == []
        assert getpass.getuser() not in text.split('"')


class TestEnvironment:
    def test_it_has_the_event_s_shape(self):
        here = environment()
        msgspec.convert(here, Environment, strict=True)
        assert set(here) <= set(Environment.__struct_fields__)
        assert here["libraries"]["numpy"]
        assert here["python"] == platform.python_version()

    def test_the_fingerprint_is_the_same_in_another_process(self):
        show = f"import json; from {environment.__module__} import environment; print(json.dumps(environment()))"
        again = python(show, TMPDIR="/tmp")
        assert again == environment()
        assert len(again["fingerprint"]) == 16

    def test_it_is_a_fresh_copy(self):
        environment()["libraries"]["torch"] = "0"
        assert environment()["libraries"].get("torch") != "0"


def test_importing_detection_imports_no_heavy_package():
    loaded = python(
        f"import sys, json, {detect.__module__}, {environment.__module__};"
        "print(json.dumps([m for m in ('torch', 'openvino', 'numpy', 'litestar', 'duckdb') if m in sys.modules]))"
    )
    assert loaded == []


def test_the_driver_s_table_is_read():
    text = "NVIDIA H200, 570.133.20, 143771, 700.00\nNVIDIA L4, 550.54, 23034, [N/A]\n"
    first, second = parse_smi(text)
    assert (first.name, first.driver) == ("NVIDIA H200", "570.133.20")
    assert (first.memory_bytes, first.power_limit_w) == (143771 * 2**20, 700.0)
    assert second.power_limit_w is None
    assert parse_smi("No devices were found\n") == ()


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.cfs_quota_us": "200000", "cpu.cfs_period_us": "100000"}, 2.0),
        ({"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_a_container_s_quota_is_read(tmp_path, files, cpus):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert quota_of(tmp_path) == cpus


def test_the_last_cache_level_is_the_one_that_counts():
    cpu: Processor = msgspec.structs.replace(processor(), cache_bytes={"L1": 10, "L2": 20, "L3": 15})
    assert cpu.last_level_bytes == 15
    assert msgspec.structs.replace(cpu, cache_bytes={}).last_level_bytes is None
