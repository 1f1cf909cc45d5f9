"""`assay train` and `assay evaluate`."""

from __future__ import annotations

from typing import Any

import rich_click as click

from assay import numbers
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, notes, print_json

__all__ = ["evaluate", "tell_training", "train"]

SPLITS = ("random", "configuration", "architecture", "family", "hardware", "time")


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


@click.command(
    epilog="""\b
Examples:
  assay evaluate --split architecture
  assay evaluate --split hardware --shots 10 --target throughput --json"""
)
@click.option(
    "--split", type=click.Choice(SPLITS), required=True, help="What is held out; random is only interpolation."
)
@click.option(
    "--target",
    type=click.Choice(["latency", "throughput", "memory", "ttft", "tpot"]),
    default="throughput",
    show_default=True,
)
@click.option(
    "--shots",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Measurements a software configuration of what is held out.",
)
@served
@as_json
def evaluate(split: str, target: str, shots: int, server: str | None, token: str | None, as_json: bool) -> int:
    """Score the predictor's method on groups that it has not seen: error, order and coverage of its intervals."""
    from assay.cli.connection import connected

    with connected(server, token) as client, notes().status(f"evaluating, {split} held out"):
        answer = client.evaluate(split=split, target=target, shots=shots)
    if as_json:
        print_json(answer)
        return 0
    name = "interpolation (random rows)" if split == "random" else f"unseen {split}"
    rows = [_score_row("all", answer["overall"])]
    rows += [_score_row(key, score) for key, score in sorted(answer["by_hardware"].items())]
    columns: list[str | tuple[str, str]] = [("", "fixed"), *((head, "right") for head in _HEADS)]
    title = f"{name}, {target}, {shots} shots: {numbers.count(answer['rows'])} rows in {numbers.count(answer['groups'])} groups"
    answers().print(grid(title, columns, rows))
    return 0


_HEADS = ("rows", "MAPE", "median", "in 10 %", "in 20 %", "τ", "cover 80", "cover 90", "width 80")


def _score_row(name: str, score: dict[str, Any]) -> list[str]:
    shares = ("mape", "median_ape", "within_10", "within_20")
    return [
        name,
        numbers.count(score["rows"]),
        *(numbers.share(score[part]) for part in shares),
        numbers.significant(score["kendall_tau"]),
        numbers.share(score["coverage_80"]),
        numbers.share(score["coverage_90"]),
        numbers.significant(score["width_80"]),
    ]
