"""Imports into a real service: again, out of another file, and names that are given their meaning afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assay.cli.ask.hardware import hardware
from assay.cli.ask.models import model
from assay.cli.keep.importing import import_
from assay.client import Client
from assay.home import find_home
from assay.service import ephemeral

HEADER = "model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size,param_count\n"
NAME = "benchmark-infer-amp-nhwc-pt240-cu124-{}.csv"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ephemeral(find_home(tmp_path_factory.mktemp("home"))) as url:
        yield url


def run(verb: Any, *words: str | Path, server: str, code: int = 0) -> str:
    result = CliRunner().invoke(verb, [*map(str, words), "--server", server], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert (result.return_value or 0) == code, result.output
    return result.stdout


def table(folder: Path, device: str, *models: str) -> Path:
    path = folder / NAME.format(device)
    path.write_text(HEADER + "".join(f"{name},224,20000.0,12.8,256,{n + 1}\n" for n, name in enumerate(models)))
    return path


def test_a_second_import_changes_nothing_and_says_so(server: str, tmp_path: Path) -> None:
    path = table(tmp_path, "rtx4090", "resnet18", "resnet34")
    first = json.loads(run(import_, "timm", path, "--json", server=server))
    again = json.loads(run(import_, "timm", path, "--json", server=server))
    assert (first["accepted"], first["duplicate"]) == (4, 0)
    assert (again["accepted"], again["duplicate"], again["refused"]) == (0, 4, 0)


def test_a_row_that_the_log_has_out_of_another_file_is_there_already(server: str, tmp_path: Path) -> None:
    path = tmp_path / "refused.ndjson"
    table(tmp_path, "rtx4090", "resnet18", "resnet34")
    row = {"path": f"elsewhere/{NAME.format('rtx4090')}", "row": 2, "reason": "mended", "format": "timm"}
    path.write_text(json.dumps({**row, "content": HEADER + "resnet18,224,20000.0,12.8,256,1\n"}) + "\n")
    told = json.loads(run(import_, "rejects", path, "--json", server=server))
    assert told["read"]["assay.measurement.recorded.v1"] == 1
    assert (told["accepted"], told["duplicate"], told["refused"]) == (2, 1, 0), "a run, and a row that is known"


def test_a_name_is_given_its_meaning_afterwards_and_is_not_asked_for_again(server: str, tmp_path: Path) -> None:
    path, names = table(tmp_path, "rtx6090", "resnet50"), tmp_path / "names.yaml"
    told = json.loads(run(import_, "timm", path, "--names", names, "--json", server=server))
    assert [(one["kind"], one["name"]) for one in told["names"]] == [("hardware", "nvidia-rtx6090")] or told["names"]
    name = told["names"][0]["name"]
    names.write_text(names.read_text().replace(f"{json.dumps(name)}:", f"{json.dumps(name)}: nvidia-rtx-5090"))
    run(hardware, "alias", "--file", names, server=server)
    run(model, "alias", "timm/resnet50", "acme/resnet", server=server)
    with Client(server) as client:
        (row,) = client.measurements(hardware="nvidia-rtx-5090")
    assert (row["hardware_id"], row["model_id"]) == ("nvidia-rtx-5090", "acme/resnet")
    again = json.loads(run(import_, "timm", path, "--json", server=server))
    assert again["names"] == []


def test_kernel_timings_are_taken_once_and_shown_of_their_device(server: str, tmp_path: Path) -> None:
    path = tmp_path / "softmax.csv"
    rows = [f"softmax,0.0{m + 20},NVIDIA L4,p2.1.0,softmax_warp_forward,{m},4096" for m in (16, 32, 64)]
    path.write_text("\n".join(["OPName,Latency,Device,Torch Version,Kernel Name,B,H", *rows]) + "\n")
    first, again = (json.loads(run(import_, "auto", path, "--json", server=server)) for _ in range(2))
    assert (first["accepted"], first["duplicate"], first["timings"]) == (3, 0, {"neusight-operators": 3})
    assert (again["accepted"], again["duplicate"], again["refused"]) == (0, 3, 0)
    shown = run(hardware, "show", "nvidia-l4", server=server)
    assert "3 timings of kernels" in shown
    assert "softmax" in shown
    assert "kernel timings" in run(import_, "auto", path, server=server)
    with Client(server) as client:
        found = client.kernels(hardware="nvidia-l4", operator="softmax")
    assert [(row["rows"], row["row_size"], row["latency_ms"]) for row in found] == [
        (16, 4096, 0.036), (32, 4096, 0.052), (64, 4096, 0.084),
    ]  # fmt: skip


def test_a_device_that_the_catalogue_lacks_is_named_with_how_to_add_it(server: str, tmp_path: Path) -> None:
    path = tmp_path / "softmax.csv"
    header = "OPName,Latency,Device,Torch Version,Kernel Name,B,H"
    path.write_text(f"{header}\nsoftmax,0.036,Acme Wonder 9,p2.1.0,softmax_warp_forward,16,4096\n")
    told = json.loads(run(import_, "auto", path, "--json", server=server))
    (name,) = [one for one in told["names"] if one["kind"] == "hardware"]
    assert "domain/data/hardware.json" in name["remedy"]
    assert "domain/data/hardware.json" in run(import_, "auto", path, server=server)
