"""`assay recommend --format`: a snippet alone on stdout, or none where nothing is recommended."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

MODEL, CPU = "bert-base-uncased", "intel-xeon-2c"


def test_snippet_is_alone_on_stdout_and_is_of_the_answer(typed: Any) -> None:
    # Other tests publish prices of their own providers in the same service.
    question = ("recommend", MODEL, "--hardware", "nvidia-l4", "--provider", "aws,gcp")
    first = json.loads(typed(*question, "--format", "json")[0])["ranked"][0]
    assert typed(*question, "--json") == typed(*question, "--format", "json")
    script = typed(*question, "--format", "slurm")[0]
    assert script.startswith("#!/bin/bash\n#SBATCH ")
    assert " ".join(first["command"].split()[3:]) in script
    job = yaml.safe_load(typed(*question, "--format", "k8s")[0])
    assert job["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    task = yaml.safe_load(typed(*question, "--format", "skypilot")[0])
    assert task["resources"]["infra"] == "/".join(first["price"][name] for name in ("provider", "region"))


@pytest.mark.parametrize("form", ["terraform", "k8s", "skypilot", "slurm"])
def test_nothing_recommended_is_exit_code_1_and_no_snippet(form: str, typed: Any) -> None:
    out, said = typed("recommend", MODEL, "--hardware", CPU, "--max-latency-ms", "0.001", "--format", form, code=1)
    assert out == ""
    assert "nothing to launch" in said


def test_device_without_a_price_is_refused_with_a_remedy(typed: Any) -> None:
    out, said = typed("recommend", MODEL, "--hardware", CPU, "--format", "terraform", code=2)
    assert out == ""
    assert "--format k8s" in " ".join(said.split())


def test_two_forms_are_wrong_usage(typed: Any) -> None:
    assert "choose one" in typed("recommend", MODEL, "--json", "--format", "k8s", code=2)[1]
