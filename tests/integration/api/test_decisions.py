"""How good decisions are, over HTTP and as it is typed."""

from __future__ import annotations

from typing import Any

from assay.cli import run
from predictor.choosing.decisions import decisions


def test_decisions_are_told_as_they_ship(client: Any, service: Any, capsys: Any) -> None:
    told = client.decisions()
    assert told == decisions()
    assert run(["predictor", "decisions", "--server", service.url]) == 0
    said = capsys.readouterr().out
    assert all(len(line.rstrip()) <= 100 for line in said.splitlines())
    for one in told["machines"]:
        assert one["rule"] in said


def test_a_card_is_told_in_the_parts_that_are_asked_for(client: Any) -> None:
    whole = client.predictor()
    name = next(iter(whole["scores"]))
    part = client.predictor(members=["scores", "limits"], details=[name])
    assert (part["digest"], part["limits"]) == (whole["digest"], whole["limits"])
    assert not {"memory", "serving", "widths"} & set(part)
    assert part["scores"][name] == whole["scores"][name]
    for other, brief in part["scores"].items():
        assert brief["overall"] == whole["scores"][other]["overall"]
        assert ("fields" in brief) is (other == name)
    assert not any("fields" in one for one in client.predictor(details=[""])["scores"].values())
