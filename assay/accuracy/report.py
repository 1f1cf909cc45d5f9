"""The accuracy report as Markdown; what is not there is left out, never made up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.accuracy.bounds import Bound, Curve, Floor, concentration
from assay.accuracy.results import CHOICE_BAR, CHOICE_REACH, Bar, Choice, Result
from dashboard.screens.predictor.words import grouped, macro_devices
from predictor.artifact.artifact import Predictor
from presentation import formatting

__all__ = ["COMMAND", "WORST_FAMILIES", "report"]

COMMAND = "python -m assay.accuracy --out docs"
WORST_FAMILIES = 12
FLAT = 0.03
"""A last step of a learning curve that lowers the error by less than this share of it is called flat."""
_BARS_HEAD = (
    "line", "held out", "device", "rows", "error", "bar", "reach", "met", "80 % holds", "90 % holds", "within 4 points",
    "within 10 %", "macro families", "macro devices",
)  # fmt: skip
_HEAD = ("MAPE", "median", "within 10 %", "within 20 %", "τ", "80 % holds", "90 % holds", "width at 80 %")


def report(
    predictor: Predictor,
    card: Sequence[Result],
    benchmarks: Sequence[Result],
    pictures: Iterable[str],
    bounds: Mapping[str, Bound] | None = None,
    choice: Choice | None = None,
) -> str:
    """Return the report on a predictor; `pictures` are the names of those that lie beside it in `accuracy/`.

    `bounds` say by line what `research.bounds` measured, `choice` how good choices of machines are.
    """
    drawn = frozenset(pictures)
    parts = [
        *_opening(predictor),
        *_bars(benchmarks),
        *_choices(choice),
        *_bounds(benchmarks, bounds or {}),
        *_splits(card),
        *_served(predictor),
        *_picture("calibration", "How often intervals held what they promised, split by split", drawn),
        *_devices(card, drawn),
        *_families(card, drawn),
        *_parity([*benchmarks, *card], drawn),
        *_widths(predictor),
        *_limits(predictor),
        *_data(predictor),
    ]
    return "\n".join(parts) + "\n"


def _opening(predictor: Predictor) -> list[str]:
    card = predictor.card
    return [
        "# How accurate the shipped predictor is",
        "",
        f"Made by `{COMMAND}` from the card in `predictor/shipped/` and what the accuracy benchmark left; do not edit.",
        (
            f"Predictor `{predictor.digest}`: {card.rows:,} rows, {len(card.coverage.architectures):,} architectures,"
            f" {len(card.coverage.families)} families, {len(card.coverage.hardware)} devices."
        ),
        "",
        (
            "Errors are relative to what was measured. Whole groups are held out, five folds; hardware one device at a"
            " time. *Macro* is the mean over families or devices of their errors, which the large ones do not decide."
            " τ is Kendall's, within a software configuration. Coverage is that of intervals taken from other folds."
        ),
        "",
    ]


def _bars(results: Sequence[Result]) -> list[str]:
    rows = [(result, bar) for result in results for bar in result.bars]
    if not rows:
        return []
    bars = [bar for _, bar in rows]
    given = [bar for bar in bars if bar.coverage]
    lines = [
        "## Against the bars",
        "",
        (
            f"{sum(bar.met for bar in bars)} of {len(bars)} bars are met, {sum(bar.reached for bar in bars)} are within reach;"
            f" intervals hold what they promise within 4 points on {sum(bar.covered for bar in given)} of {len(given)} rows that"
            " have any. Made by `python -m benchmarks.accuracy`; *reach* is what would be good. Five models on devices of five makers"
            " are counted by `python -m research.answered_cells`; how long answers take is measured by `python -m benchmarks.answer_speed`."
        ),
        "",
        _line(_BARS_HEAD),
        _line(["---"] * len(_BARS_HEAD)),
    ]
    for result, bar in rows:
        answer = result.answer
        overall = answer["overall"] if bar.of == "all" else answer["by_hardware"].get(bar.of, {})
        cells = [
            f"`{result.name}`",
            result.title,
            bar.of,
            formatting.count(overall.get("rows")),
            f"{_percent(bar.found)}{'' if bar.figure == 'mape' else ' (median)'}",
            f"≤ {_percent(bar.most)}",
            "–" if bar.reach is None else f"≤ {_percent(bar.reach)}",
            ("yes, reached" if bar.reached else "yes") if bar.met else _missed(bar.found, bar.most),
            *(_percent(bar.coverage.get(nominal)) for nominal in (0.8, 0.9)),
            _coverage(bar),
            _percent(overall.get("within_10")),
            _percent(answer.get("macro_family_mape")),
            _percent(answer.get("macro_hardware_mape")),
        ]
        lines.append(_line(cells))
    return [*lines, ""]


def _missed(value: float | None, most: float) -> str:
    return "not evaluated" if value is None else f"**no**, by {(value - most) * 100:.1f} points"


def _coverage(bar: Bar) -> str:
    off = bar.off_coverage
    if off is None:
        return "no interval"
    return "yes" if bar.covered else f"**no**, {abs(off) * 100:.1f} points too {'wide' if off > 0 else 'narrow'}"


def _choices(choice: Choice | None) -> list[str]:
    if choice is None:
        return []
    met = "yes, reached" if choice.meets(CHOICE_REACH) else "yes" if choice.meets(CHOICE_BAR) else "**no**"
    measured, bar, reach = (
        f"{_percent(success)} / {_percent(overspend)}"
        for success, overspend in ((choice.success, choice.overspend), CHOICE_BAR, CHOICE_REACH)
    )
    return [
        "Machines for a served language model under a latency limit, the model left out, nothing measured: how many choices meet the",
        "limit, and what they cost above the cheapest that does. Made by `python -m benchmarks.choices` ([choices.md](choices.md)).",
        "",
        "| questions | success / overspend | bar | reach | met |",
        "| --- | --- | --- | --- | --- |",
        _line([formatting.count(choice.questions), measured, f"≥ / ≤ {bar}", f"≥ / ≤ {reach}", met]),
        "",
    ]


def _bounds(results: Sequence[Result], bounds: Mapping[str, Bound]) -> list[str]:
    """Say of every line what bounds it: missed lines first."""
    lines = [result for result in results if result.bars]
    if not lines:
        return []
    missed = [result for result in lines if not all(bar.met for bar in result.bars)]
    return [
        "## What bounds each line",
        "",
        (
            "*Repeats* are configurations that a source has twice or more with different figures: even a predictor that knew the"
            " median of each would be off by their error. What two groups carry is of the mean error over all rows of the line."
            " Repeats, learning curves and comparisons are made by `python -m research.bounds`, the rest is in the line's result."
        ),
        "",
        *(_bounded(result, bounds.get(result.name)) for result in missed),
        *(_bounded(result, bounds.get(result.name)) for result in lines if result not in missed),
        "",
    ]


def _bounded(result: Result, bound: Bound | None) -> str:
    verdict = ", ".join(
        f"{'' if bar.of == 'all' else f'{bar.of} '}{_percent(bar.found)} of {_percent(bar.most)}" for bar in result.bars
    )
    met = "met" if all(bar.met for bar in result.bars) else "**missed**"
    parts = [f"`{result.name}`, {met} ({verdict})"]
    worst = concentration(result.answer)
    if worst is not None:
        parts.append(
            f"The {worst.of} {' and '.join(worst.names)} carry {_percent(worst.error_share)} of the mean error with"
            f" {_percent(worst.rows_share)} of the rows; without them it is {_percent(worst.rest)}"
        )
    if bound is not None:
        parts.append(_floor(bound.floor))
        parts += [_curve(bound.curve)] if bound.curve is not None else []
        if bound.references:
            others = "; ".join(f"{reference.what}: {_percent(reference.error)}" for reference in bound.references)
            parts.append(f"Other errors: {others}")
    return f"- {'. '.join(parts)}."


def _floor(floor: Floor | None) -> str:
    if floor is None:
        return "Repeats: none, so that the noise of the source is not known"
    return (
        f"Repeats: {_percent(floor.mape)} ({formatting.count(floor.rows)} rows of {formatting.count(floor.configurations)}"
        f" configurations in {floor.source}; median {_percent(floor.median_ape)}, one in ten over {_percent(floor.ninety)})"
    )


def _curve(curve: Curve) -> str:
    steps = ", ".join(f"{formatting.count(step.groups)}: {_percent(step.error)}" for step in curve.steps)
    last, before = curve.steps[-1].error, curve.steps[-2].error
    falling = "still falling" if last < before * (1 - FLAT) else "no longer falling"
    return f"Error by {curve.of} in training, {steps}: {falling}"


def _splits(card: Sequence[Result]) -> list[str]:
    if not card:
        return ["The card holds no scores.", ""]
    lines = [
        "## Split by split",
        "",
        f"| held out | rows | {' | '.join(_HEAD)} | macro families | macro devices |",
        f"| --- | --- |{' --- |' * (len(_HEAD) + 2)}",
    ]
    for result in card:
        overall, answer = result.answer["overall"], result.answer
        tau = overall.get("kendall_tau")
        cells = [
            result.title,
            formatting.count(overall.get("rows")),
            *(_percent(overall.get(key)) for key in ("mape", "median_ape", "within_10", "within_20")),
            "–" if tau is None else f"{tau:.3f}",
            *(_percent(overall.get(key)) for key in ("coverage_80", "coverage_90", "width_80")),
            _percent(answer.get("macro_family_mape")),
            _percent(macro_devices(answer)),
        ]
        lines.append(_line(cells))
    return [*lines, ""]


def _served(predictor: Predictor) -> list[str]:
    """The shipped part for served language models, which keeps no rows: see `predictor.llm_serving.shipped`."""
    serving = predictor.card.serving
    if serving is None:
        return []
    lines = [
        "## Served language models, as shipped",
        "",
        "Offsets and trees without rows; an installation's own rows come beside them at once. *Configuration* holds out single rows'",
        "configurations; a number is of measurements of what is held out.",
        "",
        f"| target | held out | rows | {' | '.join(_HEAD)} | macro families | macro devices |",
        f"| --- | --- | --- |{' --- |' * (len(_HEAD) + 2)}",
    ]
    for target, splits in serving.scores.items():
        for name, answer in splits.items():
            overall = answer["overall"]
            tau = overall.get("kendall_tau")
            lines.append(
                _line(
                    [
                        target,
                        name,
                        formatting.count(overall["rows"]),
                        *(_percent(overall.get(key)) for key in ("mape", "median_ape", "within_10", "within_20")),
                        "–" if tau is None else f"{tau:.3f}",
                        *(_percent(overall.get(key)) for key in ("coverage_80", "coverage_90", "width_80")),
                        _percent(answer.get("macro_family_mape")),
                        _percent(answer.get("macro_hardware_mape")),
                    ]
                )
            )
    return [*lines, ""]


def _devices(card: Sequence[Result], drawn: frozenset[str]) -> list[str]:
    devices = sorted({device for result in card for device in result.answer["by_hardware"]})
    if not devices:
        return []
    lines = [
        "## By device",
        "",
        f"| device | {' | '.join(result.name for result in card)} |",
        f"| --- |{' --- |' * len(card)}",
    ]
    for device in devices:
        errors = (result.answer["by_hardware"].get(device, {}).get("mape") for result in card)
        lines.append(_line([device, *(_percent(error) for error in errors)]))
    return [*lines, "", *_picture("devices", "Errors on devices that never trained", drawn)]


def _families(card: Sequence[Result], drawn: frozenset[str]) -> list[str]:
    outcome = next(
        (result for result in card if result.answer["split"] == "family" and result.answer["by_family"]), None
    )
    if outcome is None:
        return []
    lines = [
        "## The families that are predicted worst when they are new",
        "",
        "| family | rows | MAPE |",
        "| --- | --- | --- |",
    ]
    worst = grouped(outcome.answer, "family", WORST_FAMILIES)
    lines += [_line([item["name"], formatting.count(item["rows"]), _percent(item["mape"])]) for item in worst]
    return [*lines, "", *_picture("families", "Errors of families that never trained", drawn)]


def _parity(results: Sequence[Result], drawn: frozenset[str]) -> list[str]:
    shown = [result for result in results if result.picture in drawn]
    if not shown:
        return []
    lines = [
        "## Predicted over measured",
        "",
        "Colour counts the rows in a field; the dotted lines are 20 % apart.",
        "",
    ]
    for result in shown:
        lines += _picture(result.picture, result.title, drawn)
    return lines


def _picture(name: str, alternative: str, drawn: frozenset[str]) -> list[str]:
    return [f"![{alternative}](accuracy/{name}.svg)", ""] if name in drawn else []


def _widths(predictor: Predictor) -> list[str]:
    by_level = predictor.card.widths.by_level
    if not by_level:
        return []
    nominals = list(dict.fromkeys(name for widths in by_level.values() for name in widths))
    return [
        "## Widths of the intervals",
        "",
        (
            "Half-widths in log units for each unit of a row's own difficulty, by how far a question lies from what trained: a"
            " row's interval is the product of the two, and the mean width stands split by split above. An empty cell is not"
            " covered by any measurement. Families and devices count as one draw each."
        ),
        "",
        f"| level | {' | '.join(_nominal(name) for name in nominals)} |",
        f"| --- |{' --- |' * len(nominals)}",
        *(
            _line([level, *("" if widths.get(name) is None else f"{widths[name]:.3f}" for name in nominals)])
            for level, widths in by_level.items()
        ),
        "",
    ]


def _nominal(name: Any) -> str:
    return f"{float(name) * 100:.0f} %" if float(name) <= 1 else f"{name} %"


def _limits(predictor: Predictor) -> list[str]:
    return [
        "## Limits",
        "",
        *(f"- {limit.rstrip('.')}." for limit in predictor.card.limits),
        "- Zero shots on a new device is called *not calibrated*: so few devices cannot support a 90 % interval.",
        "- Shots are drawn at random, K for each software configuration (device, torch version, compiled, layout).",
        "",
    ]


def _data(predictor: Predictor) -> list[str]:
    sources = predictor.card.data.get("sources", [])
    return [
        "## Data",
        "",
        *(f"- {_source(source)}" for source in sources),
        *([""] if sources else []),
        "The predictor is made again by `python -m predictor.shipped --help`.",
    ]


def _source(row: Mapping[str, Any]) -> str:
    part = next((f" {kind} `{row[kind]}`" for kind in ("folder", "file") if row.get(kind)), "")
    where = f", {row['repository']}{part}" if row.get("repository") else ""
    commit = f", commit {row['commit']}" if row.get("commit") else ""
    licence = ", ".join(
        filter(None, (row.get("licence"), f"sha256 {row['sha256'][:16]}…" if row.get("sha256") else None))
    )
    counts = row.get("measurements")
    taken = f"; {counts['read']:,} measurements read, {counts['kept']:,} kept" if counts else ""
    return f"{row['name']}{where}{commit}{f' ({licence})' if licence else ''}{taken}."


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.1f} %"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
