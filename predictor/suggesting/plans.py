"""Runs as plan files: what `assay bench --plan` takes, one for each device, the best run first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

__all__ = ["plan_of"]

_LISTS = {
    "sequence_length": "sequence_lengths", "image_size": "image_sizes", "images": "images", "frames": "frames",
    "audio_seconds": "audio_seconds", "input_tokens": "input_tokens", "output_tokens": "output_tokens",
}  # fmt: skip


def plan_of(hardware: str, runs: Iterable[Mapping[str, Any]], budget_s: float) -> dict[str, Any]:
    """Return the plan of a device's runs in their order; neighbours that differ in model alone share a sweep."""
    sweeps: list[dict[str, Any]] = []
    for settings, group in groupby(runs, key=_settings):
        sweeps.append({"models": list(dict.fromkeys(run["model"] for run in group)), **settings})
    return {"assay": 1, "name": f"suggested-{hardware}", "weights": "random", "budget_s": budget_s, "sweeps": sweeps}


def _settings(run: Mapping[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {"platforms": [run["platform"]], "precisions": [run["precision"]]}
    if run["mode"] != "inference":
        settings["modes"] = [run["mode"]]
    if run["compiled"]:
        settings["compiled"] = [True]
    settings["batch_sizes"] = [run["batch_size"]]
    return settings | {plural: [run[name]] for name, plural in _LISTS.items() if run.get(name) is not None}
