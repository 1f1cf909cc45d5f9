"""`assay detect --post`: a machine is one's own before anything is measured on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.cli import run
from domain.events import HARDWARE_DESCRIBED


@pytest.mark.torture
def test_a_posted_description_makes_the_machine_ones_own(
    fresh_service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service = fresh_service().start()
    monkeypatch.setenv("ASSAY_SERVER", service.url)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "runner"))
    asked = {"hardware": "own", "platform": "cpu", "precision": "fp32", "batch_sizes": [1]}
    with service.client() as client:
        before = client.recommend("bert-base-uncased", **asked)
        assert before["ranked"] == []
        assert "assay detect --post" in before["abstained"]
        assert run(["detect", "--json"]) == 0
        (cpu, *others) = json.loads(capsys.readouterr().out)
        assert not list(client.events(types=(HARDWARE_DESCRIBED,)))

        assert run(["detect", "--post", "--json"]) == 0
        said = capsys.readouterr()
        assert [item["hardware"] for item in json.loads(said.out)] == [item["hardware"] for item in (cpu, *others)]
        posted = list(client.events(types=(HARDWARE_DESCRIBED,)))
        assert [event["subject"] for event in posted] == [item["hardware"]["id"] for item in (cpu, *others)]
        assert posted[0]["data"]["platforms"]
        after = client.recommend("bert-base-uncased", **asked)
        assert {entry["hardware"] for entry in after["ranked"]} == {cpu["hardware"]["id"]}
