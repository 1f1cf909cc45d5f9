"""`assay predictor`: which predictor answers, how right its answers were, and the way back to another."""

from __future__ import annotations

from typing import Any

import rich_click as click

from assay.cli.options import AS_OF, as_json, served
from assay.cli.output import answers, grid, print_json, say
from presentation import formatting

__all__ = ["predictor"]

TARGETS = ("latency", "memory", "ttft", "tpot", "energy")
MISSES = 5


@click.group(
    epilog="""\b
Examples:
  assay predictor list
  assay predictor accuracy --target latency
  assay predictor decisions
  assay predictor rollback --reason "misses its intervals since the new driver"
  assay predictor rollback 3f2a9c1b"""
)
def predictor() -> None:
    """Which predictor answers, how right its answers were, and the way back to another one.

    `assay train` makes a new one, which answers only if it is not worse than the one in force.
    """


@predictor.command("list", epilog="Example: assay predictor list --json")
@click.option("--as-of", type=AS_OF)
@served
@as_json
def list_predictors(as_of: int | str | None, server: str | None, token: str | None, as_json: bool) -> int:
    """List every predictor that was trained, newest first, and say which one answers."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        answer = client.predictors(as_of=as_of)
    if as_json:
        print_json(answer)
        return 0
    columns: list[str | tuple[str, str]] = [
        ("digest", "fixed"),
        ("position", "right"),
        ("trained", "fixed"),
        ("state", "fixed"),
        "why",
    ]
    answers().print(grid("Predictors", columns, [_row(item) for item in answer["items"]]))
    for choice in answer["choices"]:
        text = f": {choice['reason']}" if choice["reason"] else ""
        answers().print(
            f"- position {formatting.count(choice['position'])}: {choice['chosen_by']} chose "
            f"{_name(choice['digest'])}{text}",
            markup=False,
        )
    return 0


@predictor.command("accuracy", epilog="Example: assay predictor accuracy --target memory --json")
@click.option("--target", type=click.Choice(TARGETS), default="latency", show_default=True)
@click.option("--as-of", type=AS_OF)
@served
@as_json
def accuracy(target: str, as_of: int | str | None, server: str | None, token: str | None, as_json: bool) -> int:
    """Score the predictions that were given out and recorded by what was measured of them since.

    Exit code 1 where the predictor in force drifts: it misses more of its intervals than it promised.
    """
    from assay.cli.connection import connected

    with connected(server, token) as client:
        answer = client.accuracy(target=target, as_of=as_of)
    if as_json:
        print_json(answer)
    else:
        _tell_accuracy(answer)
    return 1 if answer["drift"]["flag"] else 0


@predictor.command("decisions", epilog="Example: assay predictor decisions")
@served
@as_json
def decisions(server: str | None, token: str | None, as_json: bool) -> int:
    """Tell how good decisions are on models that took no part, beside rules of thumb.

    Success: the machines that are chosen meet the limits by what was measured; overspend: what they cost above the
    cheapest that do. Loss: what the first choice of device loses beside the best. docs/choices.md has the whole of it.
    """
    from assay.cli.connection import connected

    with connected(server, token) as client:
        decisions = client.decisions()
    if as_json:
        print_json(decisions)
        return 0
    machines = sorted(decisions["machines"], key=lambda item: (not item["rule"].startswith("ours"), item["overspend"]))
    columns: list[str | tuple[str, str]] = [
        "rule",
        ("success", "right"),
        ("overspend", "right"),
        ("cheapest first", "right"),
        ("among three", "right"),
    ]
    rows = [
        [machine["rule"], *(formatting.share(machine[name]) for name in ("success", "overspend", "top_1", "top_3"))]
        for machine in machines
    ]
    answers().print(
        grid(f"Machines for a served language model, {machines[0]['questions']:,} questions", columns, rows)
    )
    columns = [
        "choices",
        ("questions", "right"),
        ("median loss", "right"),
        ("p90", "right"),
        ("best first", "right"),
    ]
    rows = [
        [
            device["choices"],
            formatting.count(device["questions"]),
            *(formatting.share(device[name]) for name in ("median", "p90", "top_1")),
        ]
        for device in decisions["devices"]
        if device["rule"] == "ours"
    ]
    answers().print()
    answers().print(grid("One device among eight or more", columns, rows))
    columns = ["does it fit?", ("questions", "right"), ("right answers", "right"), ("sure and wrong", "right")]
    rows = [
        [fit["asked"], formatting.count(fit["questions"]), formatting.share(fit["right"]), str(fit["sure_wrong"])]
        for fit in decisions["fits"]
    ]
    answers().print()
    answers().print(grid("Memory", columns, rows))
    return 0


@predictor.command("rollback", epilog="Example: assay predictor rollback shipped")
@click.argument("digest", required=False)
@click.option("--reason", help="Why; kept with the choice.")
@served
@as_json
def rollback(digest: str | None, reason: str | None, server: str | None, token: str | None, as_json: bool) -> int:
    """Let the predictor before the one in force answer again, or the one that is named.

    DIGEST is a digest or its beginning, also of one that was rejected, or `shipped`. What was answered before stays as it
    was, and can be asked for again with --as-of.
    """
    from assay.cli.connection import connected

    with connected(server, token) as client:
        answer = client.rollback(digest, reason)
        client.wait_for(answer["event_position"])
    if as_json:
        print_json(answer)
    else:
        say(f"{_name(answer['digest'])} answers from here on, and {_name(answer['before'])} no longer does")
    return 0


def _row(row: dict[str, Any]) -> list[str]:
    state = "in force" if row["in_force"] else ("kept" if row["accepted"] else "rejected")
    return [
        _name(row["digest"]) if row["event_id"] else "shipped",
        formatting.count(row["trained_at_position"]),
        str(row["recorded_at"] or formatting.MISSING)[:16].replace("T", " "),
        state,
        row["reason"] or formatting.MISSING,
    ]


def _name(digest: str) -> str:
    return digest if digest == "shipped" else formatting.digest(digest, 12)


_HEADS = ("scored", "models", "MAPE", "by model", "median", "in 10 %", "in 20 %", "cover 80")


def _tell_accuracy(answer: dict[str, Any]) -> None:
    if answer["scored"]:
        rows = [_score_row("all", answer["overall"])]
        for group in ("by_basis", "by_hardware"):
            rows += [_score_row(name, score) for name, score in answer[group].items()]
        columns: list[str | tuple[str, str]] = [("", "fixed"), *((head, "right") for head in _HEADS)]
        title = f"{answer['target']}: {formatting.count(answer['given'])} predictions recorded"
        answers().print(grid(title, columns, rows))
    else:
        answers().print(
            f"{formatting.count(answer['given'])} predictions are recorded, and none of {answer['target']} was measured yet. "
            "Record with `assay predict … --record`, measure with `assay bench`."
        )
    drift = answer["drift"]
    answers().print(drift["said"], style="bold" if drift["flag"] else None, markup=False)
    for miss in drift["evidence"][:MISSES] if drift["flag"] else []:
        answers().print(
            f"- {miss['model']} on {miss['hardware']}, {miss['platform']} {miss['precision']}: predicted "
            f"{formatting.significant(miss['low'])} to {formatting.significant(miss['high'])}, measured "
            f"{formatting.significant(miss['measured'])}",
            markup=False,
        )


def _score_row(name: str, score: dict[str, Any]) -> list[str]:
    shares = ("mape", "macro_mape", "median_ape", "within_10", "within_20", "coverage_80")
    return [
        name,
        formatting.count(score["rows"]),
        formatting.count(score["models"]),
        *(formatting.MISSING if score[part] is None else formatting.share(score[part]) for part in shares),
    ]
