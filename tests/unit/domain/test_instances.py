"""Instance types: hardware × count with a host, found by `provider:type`."""

from __future__ import annotations

from domain.catalogues import instances
from domain.catalogues.hardware import find


def test_an_id_gives_hardware_count_and_host():
    found = instances.find("aws:g5.12xlarge")
    assert (found.hardware, found.count, found.vcpus) == ("nvidia-a10g", 4, 48)
    assert found.host_memory_bytes == 192 * 2**30
    assert found.device_memory_bytes == 4 * find("nvidia-a10g").memory_bytes.value
    assert found.regions == ("us-east-1",)


def test_a_machine_without_accelerator_is_so_many_cores_of_its_cpu():
    assert instances.find("aws:c7i.2xlarge").hardware == "intel-xeon-platinum-8488c-4c"
    assert instances.find("aws:m7g.16xlarge").hardware == "aws-graviton3"
    assert instances.find("aws:c7i.2xlarge").device_memory_bytes is None


def test_letters_do_not_matter_and_an_unknown_one_has_nearest_ids():
    assert instances.find("AZURE:nc24ads_a100_v4").id == "azure:NC24ads_A100_v4"
    assert instances.find("aws:g5.tiny") is None
    assert "aws:g5.xlarge" in instances.nearest("aws:g5.xlage")


def test_the_provider_may_be_left_out():
    assert instances.find("g5.xlarge") == instances.find("aws:g5.xlarge")
    assert instances.find("G5.XLARGE") is instances.find("g5.xlarge")
    assert instances.find("h100") is None


def test_a_hardware_name_is_not_taken_for_one():
    assert instances.named_like_one("aws:g5.xlarge")
    assert not instances.named_like_one("nvidia-l4")
    assert not instances.named_like_one(":l4")


def test_those_of_a_hardware_come_with_the_fewest_devices_first():
    found = instances.of_hardware("nvidia-h200-sxm")
    assert [one.count for one in found] == sorted(one.count for one in found)
    assert {one.provider for one in found} >= {"aws", "nebius", "oci", "verda"}
    # In two regions, and one type all the same.
    assert instances.find("nebius:gpu-h200-sxm_1gpu-16vcpu-200gb").regions == ("eu-north1", "us-central1")
