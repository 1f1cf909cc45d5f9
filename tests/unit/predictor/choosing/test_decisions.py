"""The figures of decisions that ship are those of the benchmark's last result."""

from __future__ import annotations

import json
from pathlib import Path

from predictor.choosing.decisions import decisions, summary

RESULT = Path(__file__).resolve().parents[4] / "benchmarks" / "results" / "choices.json"


def test_what_ships_is_what_was_measured() -> None:
    told = decisions()
    assert told == summary(json.loads(RESULT.read_text())), "python -m benchmarks.choices --page"
    assert {"ours, nothing measured", "biggest GPU", "random machine"} <= {one["rule"] for one in told["machines"]}
    for one in told["machines"]:
        assert 0 <= one["success"] <= 1 <= one["questions"]
        assert one["overspend"] >= 0
    assert all(one["p90"] >= one["median"] >= 0 for one in told["devices"])
    assert all(0 <= one["right"] <= 1 for one in told["fits"])
