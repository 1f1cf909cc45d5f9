"""`assay predict` and `assay recommend` on an ONNX file: traced here, posted as a fact, predicted by the service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from assay.client import Client

HARDWARE = ("--hardware", "nvidia-rtx-4090")
CONFIGURATION = (*HARDWARE, "--platform", "cuda", "--precision", "fp16")


@pytest.fixture(scope="module")
def server(new_service: Any) -> Iterator[str]:
    with new_service() as url:
        yield url


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three convolutions on pictures of any size."""
    path = tmp_path_factory.mktemp("files") / "small network.onnx"
    stored = [
        numpy_helper.from_array(np.zeros((64, channels, 3, 3), dtype=np.float32), f"w{place}")
        for place, channels in enumerate((3, 64, 64))
    ]
    nodes = [
        helper.make_node("Conv", [f"x{place}", f"w{place}"], [f"x{place + 1}"], strides=[2, 2], pads=[1, 1, 1, 1])
        for place in range(3)
    ]
    pictures = helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["batch", 3, "height", "width"])
    found = helper.make_tensor_value_info("x3", TensorProto.FLOAT, ["batch", 64, "h", "w"])
    graph = helper.make_graph(nodes, "network", [pictures], [found], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def assay(server: str, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    command = [sys.executable, "-m", "assay.cli", *words]
    done = subprocess.run(
        command, env={**environment, "ASSAY_SERVER": server}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def ask(server: str, *words: str) -> Any:
    return json.loads(assay(server, *words, "--json").stdout)


def test_a_file_is_traced_posted_and_predicted(server: str, network: Path) -> None:
    answer = ask(server, "predict", str(network), *CONFIGURATION)
    assert answer["model"].startswith("local/small-network-")
    assert answer["latency_ms"] > 0
    with Client(server) as client:
        traces = list(client.events(types=["assay.model.traced.v1"]))
    assert [trace["data"]["model"]["id"] for trace in traces] == [answer["model"]]
    assert traces[0]["data"]["workload"]["image_size"] == 224
    again = ask(server, "predict", str(network), *CONFIGURATION)
    assert (again["latency_ms"], again["position"]) == (answer["latency_ms"], answer["position"])


def test_a_larger_picture_takes_longer(server: str, network: Path) -> None:
    usual = ask(server, "predict", str(network), *CONFIGURATION, "--batch-size", "64")
    larger = ask(server, "predict", str(network), *CONFIGURATION, "--batch-size", "64", "--image-size", "448")
    assert larger["model"] == usual["model"]
    assert larger["latency_ms"] > usual["latency_ms"]


def test_a_file_can_be_recommended_for(server: str, network: Path) -> None:
    answer = ask(server, "recommend", str(network), "--hardware", "nvidia-rtx-4090")
    assert {row["hardware"] for row in answer["ranked"]} == {"nvidia-rtx-4090"}
    assert {row["basis"] for row in answer["ranked"]} <= {"predicted", "roofline"}


def test_a_file_that_is_no_model_is_a_sentence(server: str, tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    done = assay(server, "predict", str(tmp_path / "broken.onnx"), *CONFIGURATION, code=2)
    assert "cannot be read as an ONNX model" in done.stderr and "Traceback" not in done.stderr
