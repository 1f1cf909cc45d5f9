"""What the earlier framework could do, run through the public command line by `research.earlier_framework`."""

from __future__ import annotations

import json

import pytest

from research import earlier_framework
from research.earlier_framework import CAPABILITIES, Capability, Failed, Stage, main


def test_a_budget_of_memory_is_demonstrated_through_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "memory", "--json"]) == 0
    outcomes = json.loads(capsys.readouterr().out)
    assert [(outcome["name"], outcome["ok"]) for outcome in outcomes] == [("memory", True)]
    assert "20 MB" in outcomes[0]["result"]


def test_capability_that_fails_gives_exit_code_1_and_does_not_end_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: Stage) -> str:
        raise Failed("no such thing")

    known = {"bad": Capability("Bad", "assay bad", fails), "good": Capability("Good", "assay good", lambda _: "done")}
    monkeypatch.setattr(earlier_framework, "CAPABILITIES", known)
    assert main(["--only", "bad,good"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "**failed**: no such thing" in lines[2] and "| done |" in lines[3]


@pytest.mark.torture
def test_every_capability_is_demonstrated(capsys: pytest.CaptureFixture[str]) -> None:
    """Minutes: it trains the digits model and carries out recipes that train."""
    assert main(["--json"]) == 0
    assert {outcome["name"] for outcome in json.loads(capsys.readouterr().out)} == set(CAPABILITIES)
