"""Needs: what can be written, and which worker meets them."""

from __future__ import annotations

import pytest

from domain.errors import UsageError
from domain.jobs.needs import DeviceDescription, Needs, WorkerDescription, closest, device_for, read_needs, unmet

CPU = DeviceDescription(address="cpu", hardware="epyc", platforms=("cpu", "openvino"), memory_bytes=64_000_000_000)
GPU = DeviceDescription(address="cuda", hardware="rtx-4090", platforms=("cuda",), memory_bytes=24_000_000_000, count=2)


def worker(name: str, *devices: DeviceDescription, labels: tuple[str, ...] = ()) -> WorkerDescription:
    return WorkerDescription(name=name, os="linux", devices=devices, labels=labels)


def test_text_becomes_needs_and_back() -> None:
    needs = read_needs("cuda, memory=16GB, devices=2, os=Linux, label=lab-3")
    assert needs == Needs(platforms=("cuda",), memory_bytes=16 * 10**9, devices=2, os="linux", labels=("lab-3",))
    assert read_needs(str(needs)) == needs
    assert read_needs("memory=1.5GiB").memory_bytes == 3 * 2**29


@pytest.mark.parametrize(
    "text",
    ["", "cudda", "memory=", "memory=0", "memory=4 parsecs", "label=-x", "label=", "devices=0", "os=a,os=b", "cuda=1"],
)
def test_what_is_no_need_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        read_needs(text)
    assert refusal.value.field == "needs" and refusal.value.remedy


def test_all_needs_are_met_by_one_device() -> None:
    both = worker("w", CPU, GPU)
    assert device_for(read_needs("cuda,memory=20GB"), both) == "cuda"
    assert device_for(read_needs("cuda,memory=32GB"), both) is None
    assert device_for(read_needs("memory=32GB"), both) == "cpu"
    assert device_for(read_needs("cuda,openvino"), both) is None
    assert device_for(read_needs("devices=2"), both) == "cuda"
    assert device_for(read_needs("openvino"), both, busy=["cpu"]) is None
    assert device_for(Needs(), both, busy=["cpu"]) == "cuda"


def test_label_counts_where_the_worker_has_it_and_never_for_a_platform() -> None:
    labelled = worker("w", CPU, labels=("cuda", "lab"))
    assert device_for(read_needs("label=lab"), labelled) == "cpu"
    assert device_for(read_needs("cuda"), labelled) is None
    assert unmet(read_needs("cuda,label=other"), labelled) == (
        "label other is not its own",
        "cuda does not work on it",
    )


def test_closest_worker_lacks_the_fewest_needs() -> None:
    workers = [worker("a", CPU), worker("b", GPU), worker("c")]
    found = closest(read_needs("cuda,memory=40GB"), workers)
    assert found is not None and found[0].name in ("a", "b") and len(found[1]) == 1
    assert closest(read_needs("cuda,memory=40GB,hardware=rtx-4090"), workers) == (
        workers[1],
        ("it has 24 GB of 40 GB",),
    )
    assert closest(Needs(), []) is None
    assert unmet(Needs(), workers[2])
