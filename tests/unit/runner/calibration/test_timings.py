"""From what a child reports to events: verdicts, marks of what cannot be, types, what was asked and what ran, and going on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from domain.conditions import Conditions
from domain.configuration import Hardware
from domain.errors import PlatformUnavailable, UnknownPlatform, UsageError
from domain.events import KERNEL_MEASURED, decode_event, encode_event
from domain.payloads import KernelMeasured
from runner.calibration.disturbance import disturbed
from runner.calibration.kernels import Kernel, kernels_for, scale_of
from runner.calibration.measuring import launches
from runner.calibration.plan import CalibrationPlan, Target, make_calibration, method_for, platforms_of, targets_of
from runner.calibration.run import group_key, groups_in
from runner.calibration.timings import kernel_data, types_of
from runner.campaign.event_payloads import Machine, stamped
from runner.platforms.registry import create
from runner.protocol.tasks import KernelJob, KernelReport
from runner.spool.event_file import EventFile

PEAK, BANDWIDTH = 1e12, 1e10
KERNELS = {
    kernel.name: kernel for kernel in kernels_for(scale_of("cpu", peak_flops=PEAK, bandwidth_bytes_per_s=BANDWIDTH))
}


def figure(value: float) -> dict[str, Any]:
    return {"value": value, "status": "measured"}


def machine(
    platform: str = "cpu", kind: str = "cpu", precisions: tuple[str, ...] = ("fp32", "bf16", "int8")
) -> Machine:
    hardware = {"id": "acme-one", "kind": kind, "count": 1}
    spec = {
        "peak_flops": {"fp32": figure(PEAK), "bf16": figure(2 * PEAK)},
        "memory_bandwidth_bytes_per_s": figure(BANDWIDTH),
        "cache_bytes": figure(1e6),
        "memory_bytes": figure(8e9),
    }
    probed = {"platform": platform, "available": True, "precisions": list(precisions)}
    here = {
        "probe": {"available": True, "reason": None, "remedy": None},
        "precisions": list(precisions),
        "refusals": {},
        "runtime": {"name": "torch", "version": "2.13.0"},
        "converts": False,
    }
    absent = {**here, "probe": {"available": False, "reason": "no driver.", "remedy": "Install it."}, "precisions": []}
    return Machine(
        environment={"fingerprint": "abc"},
        hardware=[{"hardware": hardware, "name": "ACME One", "platforms": [probed], "spec": spec}],
        placement=[{"hardware": hardware, "addresses": {platform: [platform]}}],
        platforms={platform: here, "mps": absent},
    )


def report(times_ms: list[float], **more: Any) -> KernelReport:
    observed = {"device": "cpu", "platform": "cpu", "precision": "fp32", "fallback_share": 0.0}
    conditions = {"steady": True, "stopped_by": "interval", "timer_resolution_ms": 1e-5, **more.pop("conditions", {})}
    series = {"samples_ms": times_ms, "warmup_ms": [], "conditions": conditions}
    return KernelReport(series=series, observed={**observed, **more.pop("observed", {})}, **more)


def steady(time_ms: float) -> list[float]:
    return [time_ms * (1 + at % 3 / 1000) for at in range(60)]


def data_of(
    *measured: tuple[Kernel, KernelReport], precision: str = "fp32", where: Machine | None = None
) -> KernelMeasured:
    here = where or machine()
    hardware = msgspec.convert(here.hardware[0]["hardware"], Hardware)
    jobs = [(KernelJob(kernel=kernel, precision=precision), each) for kernel, each in measured]
    target = Target(platform="cpu", hardware=hardware, spec=here.spec_of(hardware), jobs=[job for job, _ in jobs])
    return kernel_data(jobs, target, CalibrationPlan(threads=2), here, "run-1")


def slowest_ms(kernel: Kernel, times: float = 4.0) -> float:
    """Return a time that the device can reach: some times the least."""
    work = kernel.work()
    return times * max(work.flops / PEAK, work.bytes / BANDWIDTH) * 1e3


def test_a_group_is_one_event_that_the_log_takes():
    tiny, square = KERNELS["tiny"], KERNELS["square"]
    data = data_of((tiny, report(steady(0.02))), (square, report(steady(slowest_ms(square)))))
    decode_event(encode_event(stamped(KERNEL_MEASURED, data, "urn:assay:test")))
    assert (data.operator, data.timings, data.execution.threads) == ("gemm", 2, 2)
    assert data.columns["m"] == [1, square.sizes["m"]]
    assert data.columns["kernel"] == ["tiny", "square"]
    assert data.columns["latency_ms"] == pytest.approx([0.02002, 1.001 * slowest_ms(square)])
    assert data.columns["samples_n"] == [60, 60]
    assert not data.marks
    assert data.provenance.origin == "measured"
    assert (data.method.statistic, data.method.launch, data.validity.verdict) == ("median", "eager", "valid")


def test_replayed_graphs_are_told_from_calls():
    tiny = KERNELS["tiny"]
    assert data_of((tiny, report(steady(0.02), launch="graph"))).method.launch == "graph"


def test_what_physics_does_not_allow_is_marked_timing_by_timing():
    square, decode = KERNELS["square"], KERNELS["decode"]
    data = data_of((square, report(steady(slowest_ms(square) / 4000))), (decode, report(steady(slowest_ms(decode)))))
    (mark,) = data.marks.values()
    assert data.columns["mark"] == [next(iter(data.marks)), None]
    assert (mark.verdict, mark.timings) == ("invalid", 1)


def test_a_time_that_other_work_decided_teaches_nothing():
    square = KERNELS["square"]
    busy = {"loop_lost_share": 0.6}
    long = data_of((square, report(steady(slowest_ms(square)), conditions=busy)))
    assert long.marks["disturbed"].verdict == "invalid"
    short = KERNELS["tiny"]
    kept = data_of((short, report(steady(0.02), conditions=busy)))
    assert [mark.verdict for mark in kept.marks.values()] == ["suspect"]
    spread = data_of((short, report([0.01, *steady(0.02)], conditions=busy)))
    assert spread.marks["disturbed"].timings == 1


def test_a_quiet_machine_may_take_long():
    square = KERNELS["square"]
    assert not data_of((square, report(steady(slowest_ms(square, 50))))).marks


def test_what_ran_is_recorded_beside_what_was_asked_for():
    tiny = KERNELS["tiny"]
    data = data_of((tiny, report(steady(0.02))), precision="bf16")
    assert (data.execution.precision, data.observed.precision, data.types.arithmetic) == ("fp32", "fp32", "fp32")
    assert data.observed.requested.precision == "bf16"
    (mark,) = data.marks.values()
    assert "bf16" in mark.reason and mark.verdict == "suspect"


def test_work_that_fell_back_is_invalid():
    tiny = KERNELS["tiny"]
    data = data_of((tiny, report(steady(0.02), observed={"fallback_share": 0.9})))
    assert [mark.verdict for mark in data.marks.values()] == ["invalid"]
    assert data.observed.fallback_share == 0.9


@pytest.mark.parametrize(
    ("precision", "weights", "activations"),
    [
        ("fp32", "fp32", "fp32"),
        ("tf32", "fp32", "fp32"),
        ("bf16", "bf16", "bf16"),
        ("int8", "int8", "fp32"),
        ("fp8", "fp8", "bf16"),
    ],
)
def test_number_types_are_those_that_are_stored(precision, weights, activations):
    types = types_of(precision, precision)
    assert (types.weights, types.activations, types.arithmetic) == (weights, activations, precision)


def test_a_file_tells_which_groups_it_holds(tmp_path):
    file = EventFile(tmp_path / "here.ndjson")
    tiny, encoder = KERNELS["tiny"], KERNELS["encoder"]
    for kernel, precision in ((tiny, "fp32"), (encoder, "bf16")):
        data = data_of((kernel, report(steady(slowest_ms(kernel)))), precision=precision)
        file.write(stamped(KERNEL_MEASURED, data, "urn:assay:test"))
    file.close()
    assert groups_in(file.path) == {
        group_key("cpu", "fp32", tiny.group, None),
        group_key("cpu", "bf16", encoder.group, None),
    }


def test_a_device_is_measured_in_what_it_has_units_for():
    targets, refused = targets_of(make_calibration(["cpu", "mps"]), machine())
    (target,) = targets
    assert {job.precision for job in target.jobs} == {"fp32", "bf16"}
    assert len(target.jobs) == 58
    (absent,) = refused
    assert (absent.platform, absent.precision, absent.why.error) == ("mps", None, "PlatformUnavailable")


def test_a_precision_that_is_named_is_measured_or_refused_with_the_reason():
    targets, refused = targets_of(make_calibration(["cpu"], ["int8", "fp16"]), machine())
    assert {job.kernel.operator for job in targets[0].jobs} == {"gemm"}
    assert [(each.precision, each.why.error) for each in refused] == [("fp16", "UnsupportedPrecision")]


H100 = ("fp32", "tf32", "bf16", "fp16", "amp-bf16", "amp-fp16", "int8", "int4", "fp8")
"""What torch offers there."""


def test_an_accelerator_is_measured_in_sizes_and_precisions_of_its_own():
    where = machine("cuda", "gpu", H100)
    where.hardware[0].update(hardware={"id": "nvidia-h100-sxm", "kind": "gpu", "count": 2}, spec={})
    where.placement[0].update(hardware=where.hardware[0]["hardware"], addresses={"cuda": ["cuda:0", "cuda:1"]})
    targets, _ = targets_of(make_calibration(["cuda"]), where)
    (target,) = targets
    assert target.hardware.id == "nvidia-h100-sxm"
    by_precision: dict[str, list[Kernel]] = {}
    for job in target.jobs:
        by_precision.setdefault(job.precision, []).append(job.kernel)
    assert list(by_precision) == ["fp32", "tf32", "bf16", "fp16", "int8", "fp8"]
    assert {kernel.operator for kernel in by_precision["fp8"]} == {"gemm"}
    sizes = {kernel.name: kernel.sizes for kernel in by_precision["bf16"]}
    assert sizes["square"]["m"] > 4000 and sizes["body"]["batch"] == 32


@pytest.mark.parametrize(
    ("platform", "precision", "first"),
    [
        ("cuda", "bf16", ("cuda-graphs",)), ("rocm", "fp32", ("cuda-graphs",)), ("cuda", "int8", ()), ("cuda", "fp8", ()),
        ("mps", "fp16", ()), ("xpu", "bf16", ()), ("cpu", "fp32", ()), ("openvino", "bf16", ()),
        ("onnxruntime-cuda", "fp16", ()), ("qnn", "fp16", ()),
    ],
)  # fmt: skip
def test_kernels_are_replayed_as_graphs_where_a_platform_has_them(platform, precision, first):
    ways = launches(type(create(platform)), precision)
    assert (ways[0], ways[-1]) == (first, ())


def test_of_two_runtimes_on_one_device_the_platform_of_that_name_comes_last():
    where = machine()
    where.platforms["onnxruntime"] = {**where.platforms["cpu"], "precisions": ["fp32"], "converts": True}
    targets, _ = targets_of(make_calibration(["cpu", "onnxruntime"]), where)
    assert [target.platform for target in targets] == ["onnxruntime", "cpu"]


def test_by_default_every_platform_is_asked_for_that_can_run_anywhere():
    wanted = platforms_of(make_calibration())
    assert {"cpu", "cuda", "rocm", "mps", "xpu", "openvino", "onnxruntime", "onnxruntime-cuda", "qnn"} <= set(wanted)
    assert not {"wasm", "webgpu", "webnn"} & set(wanted)
    with pytest.raises(UsageError) as raised:
        platforms_of(make_calibration(["cpu", "webgpu"]))
    assert raised.value.field == "platform" and "webgpu" in raised.value.detail


def test_nothing_to_measure_is_an_error_that_names_the_field():
    with pytest.raises(PlatformUnavailable) as raised:
        targets_of(make_calibration(["mps"]), machine())
    assert raised.value.field == "platform" and "no driver" in raised.value.detail


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"precisions": ["int4"]}, "precision"), ({"precisions": ["fp33"]}, "precision"),
        ({"kernels": ["gem"]}, "kernels"), ({"budget_s": 0.0}, "budget"),
    ],
)  # fmt: skip
def test_a_wrong_plan_names_the_field_and_what_is_possible(arguments, field):
    with pytest.raises(UsageError) as raised:
        make_calibration(**arguments)
    assert raised.value.field == field and raised.value.remedy


def test_an_unknown_platform_is_refused_with_the_nearest():
    with pytest.raises(UnknownPlatform) as raised:
        make_calibration(["openvin"])
    assert "openvino" in str(raised.value)


@pytest.mark.parametrize(("budget_s", "jobs"), [(60.0, 58), (120.0, 29), (5.0, 29), (60.0, 1)])
def test_all_kernels_take_about_the_budget(budget_s, jobs):
    method = method_for(CalibrationPlan(budget_s=budget_s), jobs)
    assert 0.02 <= method.budget_s <= 1.0
    if method.budget_s > 0.02:
        assert jobs * (method.budget_s + method.warmup_s) <= budget_s


@pytest.mark.parametrize(
    ("samples", "conditions", "kind", "other_work"),
    [
        ([5.0] * 9, {}, "cpu", False),
        ([5.0] * 9, {"loop_lost_share": 0.5}, "cpu", True),
        ([5.0] * 9, {"loop_lost_share": 0.5}, "gpu", False),
        ([5.0] * 9, {"other_load": 0.5}, "cpu", False),
        ([1.0, *[2.0] * 9], {"other_load": 0.5}, "cpu", True),
        ([1.0, *[2.0] * 9], {"waiting": 0.9}, "gpu", True),
        ([1.0, *[2.0] * 9], {}, "cpu", False),
        ([1.0] * 9, {"waiting": 0.9}, "cpu", False),
    ],
)
def test_other_work_is_told_from_what_the_machine_and_the_series_show(samples, conditions, kind, other_work):
    assert disturbed(samples, Conditions(**conditions), kind) is other_work
