"""`assay train`."""

from __future__ import annotations

from typing import Any

import rich_click as click

from assay import numbers
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, notes, print_json

__all__ = ["tell_training", "train"]


@click.command(epilog="Example: assay train")
@served
@as_json
def train(server: str | None, token: str | None, as_json: bool) -> int:
    """Train the predictor on what the log holds; few rows calibrate the shipped one instead, and it says so."""
    from assay.cli.connection import connected

    with connected(server, token) as client, notes().status("training"):
        answer = client.train()
        if answer.get("position") is not None:
            client.wait_for(answer["position"])
    if as_json:
        print_json(answer)
    else:
        tell_training(answer)
    return 0


def tell_training(answer: dict[str, Any]) -> None:
    """Print what a training came to."""
    card = answer.get("card", answer)
    calibrations = card.get("calibrations") or []
    trees = "fitted on this log" if card["trees_from"] == "log" else "the shipped ones"
    rows = [
        ["predictor", numbers.digest(answer["digest"], 12)],
        ["position", numbers.count(answer["position"])],
        ["trees", f"{trees}, from {numbers.count(card['rows'])} rows"],
        ["calibrations", _calibrated(calibrations)],
    ]
    answers().print(grid("Trained", ["", "value"], rows))
    for limit in card.get("limits") or []:
        answers().print(f"- {limit}", markup=False)


def _calibrated(calibrations: list[dict[str, Any]]) -> str:
    """Say for which devices and software local measurements correct the answers."""
    if not calibrations:
        return "none: no device has measurements that the trees have not seen"
    places: dict[str, int] = {}
    for one in calibrations:
        hardware, platform, _, precision, *_ = one["software"]
        place = f"{hardware} {platform} {precision}"
        places[place] = max(places.get(place, 0), one["rows"])
    told = ", ".join(f"{place} by {rows} rows" for place, rows in places.items())
    return f"{len(places)}: {told}"
