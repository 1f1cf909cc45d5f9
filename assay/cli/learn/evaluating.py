"""`assay evaluate`."""

from __future__ import annotations

from typing import Any

import rich_click as click

from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, notes, print_json
from presentation import formatting

__all__ = ["evaluate"]

SPLITS = ("random", "configuration", "architecture", "family", "hardware", "hardware+family", "time")
TARGETS = ("latency", "throughput", "memory", "ttft", "tpot", "energy")
FAMILIES = 12


@click.command(
    epilog="""\b
Examples:
  assay evaluate --split architecture
  assay evaluate --split hardware --shots 10 --source timm
  assay evaluate --split architecture --mode training
  assay evaluate --split configuration --target tpot --json"""
)
@click.option(
    "--split", type=click.Choice(SPLITS), required=True, help="What is held out; random is only interpolation."
)
@click.option("--target", type=click.Choice(TARGETS), default="throughput", show_default=True)
@click.option(
    "--shots",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Measurements a software configuration of what is held out.",
)
@click.option(
    "--route",
    type=click.Choice(["operators", "serving", "reference"]),
    help="From operator traces, from the facts of language models, or from the same model on other devices; "
    "the target decides else.",
)
@click.option("--mode", type=click.Choice(["inference", "training", "both"]), default="inference", show_default=True)
@click.option("--source", metavar="TEXT", help="Only rows whose source has this in its name, such as timm.")
@click.option("--hardware", metavar="TEXT", help="Only rows of devices with this in their name.")
@click.option("--platform", metavar="TEXT", help="Only rows of platforms with this in their name.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of folds and shots.")
@click.option("--points", is_flag=True, help="With --json: pairs of measured and predicted, at most 2,000.")
@served
@as_json
def evaluate(server: str | None, token: str | None, as_json: bool, **question: Any) -> int:
    """Score the predictor's method on groups that it has not seen: error, order and coverage of its intervals."""
    from assay.cli.connection import connected

    if question["mode"] == "both":
        question["mode"] = None
    with connected(server, token) as client, notes().status(f"evaluating, {question['split']} held out"):
        answer = client.evaluate(
            **{name: value for name, value in question.items() if value is not None or name == "mode"}
        )
    if as_json:
        print_json(answer)
    else:
        _tell(answer)
    return 0


def _tell(answer: dict[str, Any]) -> None:
    name = "interpolation (random rows)" if answer["split"] == "random" else f"unseen {answer['split']}"
    rows = [_score_row("all", answer["overall"])]
    rows += [_score_row(key, score) for key, score in sorted(answer["by_hardware"].items())]
    families = sorted(answer["by_family"].items(), key=lambda pair: (-pair[1]["rows"], pair[0]))
    rows += [_score_row(key, score) for key, score in families[:FAMILIES]]
    columns: list[str | tuple[str, str]] = [("", "fixed"), *((head, "right") for head in _HEADS)]
    title = (
        f"{name}, {answer['target']}, {answer['shots']} shots: {formatting.count(answer['rows'])} rows in "
        f"{formatting.count(answer['groups'])} groups"
    )
    answers().print(grid(title, columns, rows))
    answers().print(
        f"Mean over families {formatting.share(answer['macro_family_mape'])}, over devices "
        f"{formatting.share(answer['macro_hardware_mape'])}. {_regret(answer['regret'])}"
    )
    if len(families) > FAMILIES:
        answers().print(f"{len(families) - FAMILIES} smaller families are not shown; --json has them.")
    if not answer["calibrated"]:
        answers().print("Not calibrated: no interval is given for a device without a measurement.")


def _regret(regret: dict[str, Any]) -> str:
    if not regret["choices"]:
        return "No work was measured on two devices, so that there was no choice to score."
    return (
        f"Choosing a device by prediction: right in {formatting.share(regret['top_1'])} of {formatting.count(regret['choices'])} "
        f"choices, at the median {formatting.share(regret['median'])} slower than the best."
    )


_HEADS = ("rows", "MAPE", "median", "in 10 %", "in 20 %", "τ", "cover 80", "cover 90", "width 80")


def _score_row(name: str, score: dict[str, Any]) -> list[str]:
    shares = ("mape", "median_ape", "within_10", "within_20")
    return [
        name,
        formatting.count(score["rows"]),
        *(formatting.share(score[part]) for part in shares),
        formatting.significant(score["kendall_tau"]),
        formatting.share(score["coverage_80"]),
        formatting.share(score["coverage_90"]),
        formatting.significant(score["width_80"]),
    ]
