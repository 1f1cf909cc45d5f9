"""How good decisions were when the benchmark last asked: the figures of docs/choices.md, for the API and the dashboard.

`python -m benchmarks.choices` writes them beside its whole result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["COMMAND", "FILE", "decisions", "summary"]

FILE = "decisions.json"
COMMAND = "python -m benchmarks.choices --data DATA --traces TRACES"
_RULE = ("questions", "success", "overspend", "macro_success", "macro_overspend", "top_1", "top_3")
_REGRET = ("questions", "models", "median", "p90", "macro_mean", "top_1", "top_3")
_FIT = ("questions", "families", "right", "right_macro", "sure_fits", "sure_wrong")


def summary(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return of the benchmark's result what a reader looks at first.

    `machines`: rules that choose machines for a served language model, with success and overspend; `devices`: what the
    first choice loses beside the best, by kind of choice and rule; `fits`: whether it fits in memory. Shares are 0–1.
    """
    return {
        "command": COMMAND,
        "machines": [
            {"rule": name, **{key: line[key] for key in _RULE}} for name, line in row["served"]["lines"].items()
        ],
        "devices": [
            {"choices": choices, "rule": rule, **{key: value.get(key) for key in _REGRET}}
            for choices, by in row["devices"].items()
            for rule, value in by.items()
        ],
        "fits": [{"asked": name, **{key: value.get(key) for key in _FIT}} for name, value in row["memory"].items()],
    }


@cache
def decisions() -> dict[str, Any]:
    """Return the figures that ship with Assay; read once."""
    document: dict[str, Any] = json.loads(files(__package__).joinpath(FILE).read_bytes())
    return document
