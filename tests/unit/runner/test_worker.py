"""What a worker says: of its machine only what answered there, under a name that stays; of an attempt how it ended."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pytest

from domain.errors import TooBusy
from domain.jobs.needs import Needs, WorkerDescription, device_for, unmet
from runner.campaign.event_payloads import Machine
from runner.jobs.attempt import failure_in, finish_of
from runner.jobs.description import device_argument, devices_of, take_name


def probe(available=True):
    return {"probe": {"available": available}}


def device(identifier, kind, memory=None, count=1, **addresses):
    described = {
        "hardware": {"id": identifier, "kind": kind},
        "spec": {"memory_bytes": {"value": memory}} if memory else {},
    }
    return described, {"hardware": {"id": identifier, "kind": kind, "count": count}, "addresses": addresses}


def machine(*devices, **platforms):
    return Machine(
        environment={},
        hardware=[described for described, _ in devices],
        placement=[place for _, place in devices],
        platforms={name.replace("_", "-"): probe(there) for name, there in platforms.items()},
    )


CPU = device("acme-cpu", "cpu", 64_000_000_000, 2, cpu=("cpu",), openvino=("CPU",))
LARGE = device("nvidia-h100", "gpu", 80_000_000_000, 2, cuda=("cuda:0", "cuda:1"))
SMALL = device("nvidia-l4", "gpu", 24_000_000_000, cuda=("cuda:2",))
UNUSABLE = device("nvidia-t4", "gpu", 16_000_000_000)


def test_platforms_stand_on_the_device_where_they_answered():
    devices, _ = devices_of(
        machine(CPU, LARGE, SMALL, UNUSABLE, cpu=True, cuda=True, openvino=False, onnxruntime=True, onnxruntime_cuda=True, rocm=False)
    )  # fmt: skip
    assert [(item.address, item.platforms, item.count) for item in devices] == [
        ("cpu", ("cpu", "onnxruntime"), 1),
        ("nvidia-h100", ("cuda", "onnxruntime-cuda"), 2),
        ("nvidia-l4", ("cuda", "onnxruntime-cuda"), 1),
    ]
    worker = WorkerDescription(name="w", os="linux", devices=devices)
    assert device_for(Needs(platforms=("cuda",), memory_bytes=20_000_000_000), worker, ["nvidia-h100"]) == "nvidia-l4"
    assert device_for(Needs(platforms=("cuda",), devices=2), worker) == "nvidia-h100"
    assert unmet(Needs(platforms=("openvino",)), worker)


def test_a_platform_of_another_package_works_on_the_processor():
    devices, _ = devices_of(machine(CPU, cpu=True, acme=True))
    assert devices[0].platforms == ("cpu", "acme")


def test_a_plan_is_led_to_the_second_kind_of_device_alone():
    _, addresses = devices_of(machine(CPU, LARGE, SMALL, cpu=True, cuda=True))
    plan = {"sweeps": [{"platforms": ["cuda"]}]}
    assert device_argument(plan, "nvidia-h100", addresses) is None
    assert device_argument(plan, "nvidia-l4", addresses) == "cuda:2"
    assert device_argument({"sweeps": [{"platforms": ["cpu"]}]}, "cpu", addresses) is None


def test_the_second_worker_of_a_machine_has_another_name(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first, lock = take_name(None)
    second, other = take_name(None)
    assert second == f"{first}-2"
    lock.close()
    again, third = take_name(None)
    assert again == first
    with pytest.raises(TooBusy) as refused:
        take_name(second)
    assert refused.value.field == "name"
    other.close()
    third.close()


FULL, DIED = ("out_of_memory", "16 GB are not enough"), ("error", "the child was ended by SIGSEGV")


@pytest.mark.parametrize(
    ("code", "failures", "said", "final", "reason"),
    [
        (1, [FULL], "", True, "out_of_memory: 16 GB are not enough"),
        (1, [DIED], "", False, "error: the child was ended by SIGSEGV"),
        (1, [FULL, DIED], "", False, "out_of_memory: 16 GB are not enough"),
        (2, [], "reading\nerror: model: no model is known as 'x'.\n", True, "no model is known as 'x'"),
        (3, [], "error: platform: cuda is not here.\n", False, "cuda is not here"),
        (-9, [], "", False, "assay bench was ended by signal 9"),
        (1, [], "Traceback\nKeyError: 'x'\n", False, "KeyError"),
    ],
)
def test_what_a_machine_found_out_is_final_and_other_failures_are_tried_again(code, failures, said, final, reason):
    finish = finish_of(code, failures, said, ["run"])
    assert (finish.outcome, finish.final, finish.run_ids, finish.exit_code) == ("failed", final, ["run"], code)
    assert reason in finish.reason


def test_a_child_that_ended_well_succeeded():
    assert finish_of(0, [], "noise", ["run"]).outcome == "succeeded"


def test_the_reason_of_a_failed_configuration_is_that_of_its_event():
    golden = Path(__file__).parents[2] / "golden"
    failed, recorded, reported = (
        msgspec.json.decode((golden / f"assay.{name}.v1.json").read_bytes())
        for name in ("measurement.failed", "measurement.recorded", "test.reported")
    )
    outcome, message = failure_in(failed)
    assert (outcome, message) == (failed["data"]["outcome"], failed["data"]["failure"]["message"])
    assert failure_in(recorded) is None
    assert failure_in({**reported, "data": {**reported["data"], "outcome": "passed"}}) is None
    assert failure_in({**reported, "data": {**reported["data"], "outcome": "failed", "failure": None}})[0] == "failed"
