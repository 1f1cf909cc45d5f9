"""Test files of models against real runs: green as recorded, red on wrong weights, a silent fallback and a third more time."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from assay import testing
from assay.cli import run
from assay.testing import cases
from assay.testing.findings import read_findings
from domain.catalogues.models import models_set
from tests.integration.own_models import SAMPLE_CONFIGS, write_config

SLOW = """\
import time

from transformers import BertModel


class Slow(BertModel):
    def forward(self, *args, **kwargs):
        time.sleep({seconds})
        return super().forward(*args, **kwargs)
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.chdir(tmp_path)
    cases.verify.cache_clear()
    cases.weights_name.cache_clear()


def checkpoint(folder: Path, kind: str, seed: int = 0) -> str:
    """Save a small model with weights of its own and return its folder."""
    import torch
    from transformers import AutoConfig, AutoModel, ViTForImageClassification

    torch.set_num_threads(1)
    write_config(folder, SAMPLE_CONFIGS[kind])
    config = AutoConfig.from_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = ViTForImageClassification(config) if kind == "vision" else AutoModel.from_config(config)
        module.save_pretrained(folder)
    return str(folder)


def changed(folder: str, name: str) -> None:
    """Scale one matrix of a saved checkpoint by a half: the same shapes, other weights."""
    from safetensors.torch import load_file, save_file

    file = Path(folder) / "model.safetensors"
    tensors = load_file(file)
    tensors[name] = tensors[name] * 0.5
    save_file(tensors, file, metadata={"format": "pt"})


def expected_in(file: str) -> list[testing.Expected]:
    names: dict[str, Any] = {}
    exec(compile(Path(file).read_text(), file, "exec"), names)
    result: list[testing.Expected] = names["EXPECTED"]
    return result


def report(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
    """Run `assay scaffold check` and return its exit code and its findings by model and check."""
    capsys.readouterr()
    code = run(["scaffold", "check", *flags, "--json"])
    found = json.loads(capsys.readouterr().out)
    return code, {(Path(each["model"]).name, each["check"]): each for each in found}


def test_of_two_verified_models_one_is_green_and_the_one_with_other_weights_red(tmp_path: Path) -> None:
    models = [checkpoint(tmp_path / name, kind) for name, kind in (("words", "text"), ("pictures", "vision"))]
    assert run(["verify", *models, "--platform", "cpu", "--out", "here.ndjson"]) == 0
    assert run(["scaffold", "test", *models, "--events", "here.ndjson"]) == 0
    expected = [expected_in(f"tests/models/test_{Path(model).name}.py")[0] for model in models]
    testing.check_device(expected[0])
    testing.check_outputs(expected[0])
    changed(models[1], "classifier.weight")
    cases.weights_name.cache_clear()
    with pytest.raises(AssertionError, match=r"logits.*Likely cause: other weights \(weights: sha256:"):
        testing.check_outputs(expected[1])


def test_head_that_a_checkpoint_lacks_is_the_same_each_time(tmp_path: Path) -> None:
    import torch
    from transformers import AutoConfig, ViTModel

    from runner.models.build import build
    from runner.models.sources import resolve

    folder = write_config(tmp_path / "headless", SAMPLE_CONFIGS["vision"])
    ViTModel(AutoConfig.from_pretrained(folder)).save_pretrained(tmp_path / "body")
    (tmp_path / "body" / "model.safetensors").rename(folder / "model.safetensors")
    first, second = (build(resolve(str(folder))).module.classifier.weight for _ in range(2))
    assert torch.equal(first, second)


def test_case_that_can_never_run_is_a_finding_and_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "findings"
    monkeypatch.setenv("ASSAY_TEST_FINDINGS", str(path))
    expected = testing.Expected(testing.Case("no-such-model", "cpu"), ran=testing.Ran("cpu"))
    with pytest.raises(AssertionError, match="no-such-model"):
        testing.check_device(expected)
    with pytest.raises(AssertionError, match="UnknownModel"):
        testing.check_runs(expected.case)
    device, failure = read_findings(path)
    assert device.red and "does not run here: UnknownModel" in device.cause
    assert not failure.red


@pytest.mark.torture
def test_silent_fallback_is_red_with_its_cause(
    plugin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Torture: four children of a platform that another package brings."""
    model = checkpoint(tmp_path / "words", "text")
    assert run(["verify", model, "--platform", "cpu", "--out", "here.ndjson"]) == 0
    assert run(["scaffold", "test", model, "--events", "here.ndjson"]) == 0
    file = Path("tests/models/test_words.py")
    text = file.read_text()
    # The file as it would be where the platform does what it says; it computes on the processor, or in bf16.
    for platform, device in (("pretending", "pretended:0"), ("narrowing", "cpu")):
        file.write_text(text.replace('(MODEL, "cpu"', f'(MODEL, "{platform}"').replace('Ran("cpu"', f'Ran("{device}"'))
        code, found = report(capsys)
        assert code == 1
        device_found = found["words", "device"]
        assert device_found["state"] == "different" and "silent fallback" in device_found["cause"]
        assert "cpu" in device_found["collected"]


@pytest.mark.torture
def test_a_third_more_time_is_red_and_a_quiet_rerun_is_green(tmp_path: Path) -> None:
    """Torture: measures up to seven times for seconds, on a machine that is quiet; on a busy one it cannot be told.

    The delay is in the code that comes with the checkpoint.
    """
    folder = tmp_path / "slow"
    model = checkpoint(folder, "text")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "modeling_slow.Slow"}}))

    def delayed(seconds: float) -> None:
        (folder / "modeling_slow.py").write_text(SLOW.format(seconds=seconds))

    delayed(0.100)
    line = ["bench", model, "--platform", "cpu", "--trust-remote-code", "--budget", "3", "--out", "here.ndjson"]
    assert run(line) == 0
    assert run(["scaffold", "test", model, "--events", "here.ndjson", "--trust-remote-code"]) == 0
    (expected,) = expected_in("tests/models/test_slow.py")
    if expected.took is None:
        pytest.skip("this machine is too busy to measure 100 ms within 22 %")
    assert expected.took.p50_ms > 100
    testing.check_time(expected)
    delayed(0.132)
    with pytest.raises(AssertionError, match=r"a median of 1.* Likely cause: .*more work in the model"):
        testing.check_time(expected)


@pytest.mark.torture
@pytest.mark.parametrize("part", range(6))
def test_small_models_of_the_catalogue_are_green(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Torture: each of the six parts verifies ten models twice."""
    models = [model.id for model in models_set("small")][part::6]
    assert len(models) >= 9
    run(["verify", *models, "--platform", "cpu", "--weights", "random", "--out", "here.ndjson"])
    assert run(["scaffold", "test", "--all", "--events", "here.ndjson", "--json"]) == 0
    code, found = report(capsys)
    assert code == 0, [each for each in found.values() if each["state"] not in ("as expected", "skipped")]
    assert {Path(model).name for model in models} == {name for name, check in found if check == "outputs"}


@pytest.mark.torture
def test_absent_platform_is_skipped_unless_it_is_required(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Torture: two runs of pytest with a survey each."""
    model = checkpoint(tmp_path / "words", "text")
    file = Path("tests/models/test_words.py")
    file.parent.mkdir(parents=True)
    file.write_text(
        "# assay begins here\nfrom assay import testing\n\n\ndef test_device():\n"
        f"    testing.check_device(testing.Expected(testing.Case({model!r}, 'rocm'), ran=testing.Ran('cuda:0')))\n"
    )
    code, found = report(capsys)
    assert (code, found["words", "device"]["state"]) == (0, "skipped")
    code, found = report(capsys, "--require-platforms")
    assert (code, found["words", "device"]["state"]) == (1, "different")


@pytest.mark.torture
def test_wrong_digits_are_found_in_a_report_with_the_likely_cause(capsys: pytest.CaptureFixture[str]) -> None:
    """Torture: trains a model."""
    from tests.digits import train_digits

    model = str(train_digits(Path.cwd()).model)
    assert run(["verify", model, "--platform", "cpu,openvino", "--out", "here.ndjson"]) == 0
    assert run(["scaffold", "test", model, "--events", "here.ndjson"]) == 0
    assert report(capsys)[0] == 0
    changed(model, _a_matrix(model))
    code, found = report(capsys)
    assert code == 1 and "other weights" in found["digits-vit", "outputs"]["cause"]
    assert found["digits-vit", "device"]["state"] == "as expected"


def _a_matrix(folder: str) -> str:
    from safetensors import safe_open

    with safe_open(Path(folder) / "model.safetensors", "pt") as file:
        return str(next(name for name in file.keys() if name.endswith("weight") and "encoder" in name))  # noqa: SIM118


@pytest.mark.torture
def test_file_that_cannot_be_run_is_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    """Torture: starts pytest twice."""
    file = Path("tests/models/test_words.py")
    file.parent.mkdir(parents=True)
    for body, cause in (
        ("def test_device(:\n", "cannot be run"),
        ("def test_mine():\n    assert False\n", "of your own"),
    ):
        file.write_text(f"# assay begins here\n{body}")
        code, found = report(capsys)
        assert code == 1 and cause in found["test_words", "file"]["cause"]
        assert os.fspath(file) in found["test_words", "file"]["mend"]
