"""`assay train`: a new predictor, and a kept one made again."""

from __future__ import annotations

from typing import Any

import rich_click as click

from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, notes, print_json
from domain.errors import UsageError
from presentation import formatting

__all__ = ["tell_training", "train"]


@click.command(
    epilog="""\b
Examples:
  assay train
  assay train --force
  assay train --verify 3f2a9c1b
  assay train --machines 10.0.0.1:9000,10.0.0.2:9000  # on each of them
  assay train --machines 10.0.0.1:9000,10.0.0.2:9000 --rank 1"""
)
@click.option("--force", is_flag=True, help="Let it answer even where it is worse than the one in force.")
@click.option(
    "--verify",
    metavar="DIGEST",
    help="Train that one again at its position instead, and say whether it is the same bit for bit.",
)
@click.option(
    "--machines",
    metavar="HOST:PORT,…",
    help="Train together with these machines, each with a service on the same log; the first keeps what is made.",
)
@click.option("--rank", type=click.IntRange(min=0), help="Which of the machines this is; the one with its address.")
@click.option(
    "--wait",
    type=click.FloatRange(1, 3600),
    default=120,
    show_default=True,
    help="Seconds to wait for the other machines.",
)
@served
@as_json
def train(
    force: bool,
    verify: str | None,
    machines: str | None,
    rank: int | None,
    wait: float,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Train the predictor on what the log holds; few rows calibrate the shipped one instead, and it says so.

    The new one answers only if it is not worse than the one in force on rows that neither has seen; exit code 1 where it is
    worse, or where --verify finds another one.
    """
    from assay.cli.connection import connected

    if rank is not None and machines is None:
        raise UsageError("a rank is one of several machines.", field="rank", remedy="Name them with --machines.")
    own = None
    if machines is not None:
        from predictor.learning.machines import machine_list

        own = machine_list(machines, rank, wait)
    with connected(server, token) as client, notes().status("training"):
        if own is not None:
            answer = client.train_on_machines(own.machines, own.rank, wait_s=wait, force=force, digest=verify)
        elif verify is not None:
            answer = client.replay(verify)
        else:
            answer = client.train(force=force)
        if "event_position" in answer:
            client.wait_for(answer["event_position"])
    if as_json:
        print_json(answer)
    elif own is not None and own.rank:
        _tell_part(own.name(0), answer)
    elif verify is not None:
        _tell_replay(answer)
    else:
        tell_training(answer)
    if own is not None and own.rank:
        return 0
    return 0 if answer["same" if verify is not None else "accepted"] else 1


def _tell_part(first: str, answer: dict[str, Any]) -> None:
    name, position = formatting.digest(answer["digest"], 12), formatting.count(answer["position"])
    answers().print(f"took part in the training of {name} at position {position}; {first} keeps it.", markup=False)


def _tell_replay(answer: dict[str, Any]) -> None:
    name = formatting.digest(answer["digest"], 12)
    if answer["same"]:
        put_back = f"; it was {answer['stored']} and is put back" if answer["restored"] else ""
        answers().print(
            f"{name} is the same bit for bit, trained at position {formatting.count(answer['position'])}{put_back}."
        )
        return
    answers().print(
        f"{name} comes out as {formatting.digest(answer['made'], 12)} at position {formatting.count(answer['position'])}; what is "
        f"kept of it is {answer['stored']}."
    )
    for line in answer["differences"]:
        answers().print(f"- {line}", markup=False)


def tell_training(answer: dict[str, Any]) -> None:
    """Print what a training came to."""
    card = answer.get("card", answer)
    trees = "fitted on this log" if card["trees_from"] == "log" else "the shipped ones"
    rows = [
        ["predictor", formatting.digest(answer["digest"], 12)],
        ["position", formatting.count(answer["position"])],
        ["trees", f"{trees}, from {formatting.count(card['rows'])} rows{_together(card)}"],
        ["other software", _few(card.get("few"))],
        ["answers", ("yes: " if answer.get("accepted", True) else "no: ") + (answer.get("reason") or "it is new")],
    ]
    answers().print(grid("Trained", ["", "value"], rows))
    for limit in card.get("limits") or []:
        answers().print(f"- {limit}", markup=False)


def _together(card: dict[str, Any]) -> str:
    machines = (card.get("data") or {}).get("machines")
    return f" on {machines} machines" if machines else ""


def _few(few: dict[str, Any] | None) -> str:
    """Say where few rows teach what the trees do not know."""
    if not few:
        return "none"
    rows: dict[str, int] = {}
    platforms: dict[str, set[str]] = {}
    for place in few["places"]:
        rows[place["hardware"]] = rows.get(place["hardware"], 0) + place["rows"]
        platforms.setdefault(place["hardware"], set()).add(place["platform"])
    texts = [
        f"{name} ({', '.join(sorted(platforms[name]))}): {formatting.count(count)}" for name, count in rows.items()
    ]
    return f"{formatting.count(few['rows'])} rows: {'; '.join(texts)}"
