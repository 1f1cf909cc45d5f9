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
