"""The earlier framework's functionality checks: what passed, what failed and how, and successes of stand-ins. The samples are ours."""

from __future__ import annotations

import pytest

from ingest.importers.legacy.functionality import SeedFunctionality

ERROR = (
    "2025-03-02 22:18:34,297 - INFO - Testing model: google/vit-base-patch16-224\nTraceback (most recent call last):\n"
    "  File \"/home/ada/x/test/skills/test_hf_vit.py\", line 764, in <module>\nAttributeError: 'TestVit' object has no attribute 'run_tests'\n"
)
CHECKS = {
    "stats": {"timestamp": "20250302_221840", "total_tests": 3},
    "model_results": {"vit": {"cpu": False}},
    "detailed_results": [
        {"model": "vit", "hardware": "cpu", "success": False, "return_code": 1, "stdout": "", "stderr": ERROR},
        {"model": "clap", "hardware": "cuda", "success": True, "return_code": 0, "stderr": "",
         "stdout": "Using model: /tmp/clap_test_model\n(MOCK) Using mock implementation for CPU CLAP\n"},
        {"model": "llama", "hardware": "cpu", "success": True, "return_code": 0, "stdout": "Using model acme/llama for text", "stderr": ""},
        {"model": "t5", "hardware": "cpu", "success": False, "return_code": 1, "stdout": "",
         "stderr": '  File "/home/ada/t5.py", line 500\n    ^\nIndentationError: expected an indented block\n'},
        {"model": "t5", "hardware": "quantum", "success": False},
    ],
}  # fmt: skip


def test_each_check_becomes_a_test(reads):
    found = reads(SeedFunctionality(), CHECKS, "model_functionality_20250302_221840.json")
    vit, clap, llama, t5 = found.rows
    assert {event["time"] for event in found.rows} == {"2025-03-02T22:18:40+00:00"}
    assert vit["data"]["model"]["id"] == "google/vit-base-patch16-224"
    assert (vit["data"]["outcome"], vit["data"]["failure"]["error"], vit["data"]["stage"]) == (
        "error",
        "AttributeError",
        "run",
    )
    assert vit["data"]["test"] == "functionality" and vit["data"]["checks"] == {"return_code": 1}
    assert clap["data"]["model"]["id"] == "local/clap_test_model"
    assert clap["data"]["provenance"]["origin"] == "simulated"
    assert llama["data"]["outcome"] == "passed" and llama["data"]["provenance"]["origin"] == "imported"
    assert llama["data"]["model"]["id"] == "acme/llama"
    assert (t5["data"]["stage"], t5["data"]["failure"]["error"]) == ("resolve", "IndentationError")
    assert "ada" not in str(found.rows)
    (refused,) = found.refused
    assert (refused.row, refused.field) == (5, "hardware")


def test_a_script_that_took_too_long_is_a_timeout(reads):
    one = {**CHECKS["detailed_results"][0], "stderr": "subprocess.TimeoutExpired: Command timed out after 600 seconds"}
    (data,) = reads(SeedFunctionality(), {**CHECKS, "detailed_results": [one]}, "m.json").data
    assert data["outcome"] == "timeout"


@pytest.mark.parametrize("checks", [{}, {"stats": 3, "detailed_results": None}, {"stats": {}, "detailed_results": []}])
def test_an_empty_check_is_a_run_without_tests(reads, checks):
    assert reads(SeedFunctionality(), checks, "m.json").ended["tests"] == 0


def test_it_is_recognised_and_others_are_not(place):
    assert SeedFunctionality().sniff(place(CHECKS, "a.json"))
    assert not SeedFunctionality().sniff(place({"functionality_verification": {"cpu": CHECKS}}, "b.json"))
