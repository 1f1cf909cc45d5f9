"""Rows of a comparison: what was measured, and where nothing was, what is predicted; never merged unsaid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from dashboard import answers, evidence, ratios
from dashboard.address import Comparison
from dashboard.differences import EVIDENCE
from dashboard.ranking import completed
from dashboard.screens.compare import likeness, query
from dashboard.screens.compare.subjects import devices_of, models_of
from dashboard.screens.recommend.words import RankedRow, number
from dashboard.tables.result_table import Column, filled
from domain.errors import AssayError
from domain.performance import cpu_baseline
from presentation import formatting
from presentation.answer_words import device_name, evidence_words, model_name, short_name
from presentation.charts import COMPARED, COST, ENERGY, LATENCY, MEMORY, SPEEDUP, TOKEN_ENERGY, Metric, Row, name_of
from presentation.loads import arrivals, batch_words, hardware_words

__all__ = [
    "Rows",
    "against_cpu",
    "best_of_each",
    "chosen",
    "columns",
    "devices_of",
    "filters",
    "known",
    "models_of",
    "modes",
    "named",
    "rows",
    "sentence",
    "slower_words",
    "wants_estimates",
]

TELLING = {
    "runtime": "runtime",
    "compiled": "",
    "layout": "",
    "threads": "threads",
    "scenario": "",
    "image_size": "size",
    "sequence_length": "length",
    "weights": "weights",
}
"""Fields that may tell rows of one name apart, in the order in which they are said."""
MOST_ASKED = 1000
DRAWN = 10
"""Rows in the picture; the table has all."""
MOST_SLOWER = 3
MOST = 100
"""Rows that one comparison holds: the service ranks and cuts."""
_LESS = {MEMORY: "smaller", ENERGY: "less", TOKEN_ENERGY: "less"}


class ComparedRow(RankedRow, total=False):
    """A configuration among others as it is drawn: `subject` is its name, the model's where models are compared."""

    model: str
    subject: str
    mode: str | None
    configuration: str
    layout: str | None
    threads: int | None
    scenario: str | None
    image_size: int | None
    sequence_length: int | None
    weights: str | None
    run_id: str | None
    verdict: str | None
    baseline: str | None
    runtime: str | None


def figure(row: ComparedRow, metric: Metric) -> float:
    """Return a row's figure of a metric that it has."""
    value = number(row, metric.key)
    assert value is not None
    return value


class Rows(NamedTuple):
    """Rows of a model, how many there are whatever the filters, and why none is predicted where none is.

    `variants` counts what the filters leave and what is predicted, every variant of a device.
    """

    rows: list[ComparedRow]
    total: int
    unpredicted: str | None
    variants: int = 0


def known(comparison: Comparison, position: int) -> dict[str, Any]:
    """Return the best hundred configurations of a model that the filters leave and that have the metric; counts of the `whole`.

    Where one of each device is asked for they are of a hundred devices; `total` counts every variant all the same.
    """
    metric = COMPARED[comparison.metric]
    # Prices are of estimates and answers: nothing that was measured has one.
    order = {"limit": 0} if metric is COST else {"metric": metric.key, "per": "call", "limit": MOST}
    return query.of_model(
        comparison.model,
        comparison.mode,
        position,
        hardware=comparison.hw or None,
        platform=",".join(comparison.platform) or None,
        precision=",".join(comparison.precision) or None,
        batch_size=comparison.batch,
        sequence_length=comparison.length,
        per_hardware=comparison.per_hw,
        **order,
    )


def modes(comparison: Comparison, position: int) -> dict[str, Any]:
    """Return the hundred pairs of a model's modes with the largest ratios that the filters leave; counts of the `whole`."""
    return query.modes(comparison.model, position, limit=MOST, **filters(comparison))


def filters(comparison: Comparison) -> dict[str, Any]:
    """Return what a view leaves of a model's rows, as the API takes it."""
    return {
        "hardware": comparison.hw or None,
        "platform": ",".join(comparison.platform) or None,
        "precision": ",".join(comparison.precision) or None,
        "batch_size": comparison.batch,
        "sequence_length": comparison.length,
    }


def rows(comparison: Comparison, position: int, *, estimates: bool = True) -> Rows:
    """Return what is known of a model, then, if asked for, what is predicted on other hardware.

    What was measured is shown also where nothing can be predicted; then the reason comes with it.

    Predictions are for one batch, the one asked for or else the most frequent among the evidence, the fastest of each
    hardware and platform: estimates of everything would bury what was measured.
    """
    result = known(comparison, position)
    whole = result["whole"]
    others, unpredicted = _estimates(comparison, result, position) if estimates else ([], None)
    document = against_cpu(
        [cast("ComparedRow", completed(row)) for row in (*result["rows"], *others)], result["baselines"]
    )
    return Rows(document, whole["rows"] + len(others), unpredicted, result["total"] + len(others))


def _estimates(comparison: Comparison, known: Row, position: int) -> tuple[list[ComparedRow], str | None]:
    """Return one estimate each hardware and platform, or why there is none. Raises AssayError where nothing is known at all.

    They are of the length that the best known row has, where none is asked for.
    """
    whole = known["whole"]
    size = comparison.batch or next((item["batch_size"] for item in whole["batch_size"]), 1)
    question = {"model": comparison.model, "mode": comparison.mode, "batch_sizes": [size], "top": MOST_ASKED}
    question["per_hardware"] = False
    length = comparison.length or next((row["sequence_length"] for row in known["rows"]), None)
    if length:
        question["sequence_length"] = length
    if comparison.hw:
        question["hardware"] = devices_of(comparison)
    if comparison.precision:
        question["precision"] = list(comparison.precision)
    if comparison.platform:
        question["platform"] = list(comparison.platform)
    try:
        predicted = answers.recommend(question, position)["ranked"]
    except AssayError as problem:
        if not whole["rows"]:
            raise
        return [], str(problem)
    # Measured rows come with their method from the comparison; the recommendation would tell them a second time.
    return _one_each(
        [cast("ComparedRow", {**row, "mode": comparison.mode}) for row in predicted if row.get("basis") not in EVIDENCE]
    ), None


def _one_each(estimates: Sequence[ComparedRow]) -> list[ComparedRow]:
    first: dict[Any, ComparedRow] = {}
    for row in estimates:
        first.setdefault((row.get("hardware"), row.get("platform")), row)
    return list(first.values())


def wants_estimates(comparison: Comparison, rows: Sequence[ComparedRow]) -> bool:
    """Say whether estimates are asked for: all of them, or of a device that was named and has no evidence under the filters."""
    seen = {row.get("hardware") for row in rows}
    return comparison.basis == "all" or (
        comparison.basis == "auto" and any(name not in seen for name in devices_of(comparison))
    )


def slower_words(slower: Sequence[Row], *, several: bool) -> list[str]:
    """Return sentences on the precisions that are slower than fp32, the worst first, with the device where there are several."""
    return [
        f"{device_name(str(item['hardware']))}: {item['sentence']}." if several else f"{item['sentence']}."
        for item in slower[:MOST_SLOWER]
    ]


def best_of_each(rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    """Return the first row of each device, or of each number of them, for each model; rows are best first."""
    first: dict[Any, ComparedRow] = {}
    for row in rows:
        first.setdefault((row.get("model"), row.get("hardware"), row.get("hardware_count") or 1), row)
    return list(first.values())


def named(rows: Sequence[ComparedRow], *, models: bool, devices: bool = True) -> list[ComparedRow]:
    """Name each row by its device as people say it, by its model, or by both; shorter, as `narrow`, for a phone."""

    def name(row: ComparedRow, device: Callable[[str], str]) -> str:
        said = hardware_words(row, device(str(row.get("hardware") or "unknown hardware")))
        parts = [model_name(str(row.get("model")))] * models + [said] * devices
        return " on ".join(parts)

    def narrow(row: ComparedRow) -> str:
        # The colour says the platform, the table all the rest.
        batch = batch_words(row) if row.get("batch_size") or arrivals(row) else None
        return " · ".join(filter(None, [name(row, short_name), row.get("precision"), batch]))

    return [cast("ComparedRow", {**row, "subject": name(row, device_name), "narrow": narrow(row)}) for row in rows]


def chosen(everything: Sequence[ComparedRow], comparison: Comparison, metric: Metric) -> list[ComparedRow]:
    """Return the rows that the filters leave and that have the metric, best first; evidence is never cut for estimates.

    With the basis left to us, estimates are shown only where there is no evidence: none of the model, or none of a device
    that was named.
    """
    left = [row for row in everything if _passes(row, comparison) and number(row, metric.key) is not None]
    matching_left = [row for row in left if row.get("basis") in EVIDENCE]
    if comparison.basis == "measured" or (comparison.basis == "auto" and matching_left):
        seen = {row.get("hardware") for row in matching_left}
        named = set(devices_of(comparison)) if comparison.basis == "auto" else set()
        left = [*matching_left, *(row for row in left if row.get("hardware") in named - seen)]

    def order(row: ComparedRow) -> float:
        return -figure(row, metric) if metric.better.startswith("larger") else figure(row, metric)

    kept = sorted(left, key=lambda row: (row.get("basis") not in EVIDENCE, order(row)))[:MOST]
    return distinguished(sorted(kept, key=order))


def distinguished(rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    """Add to rows of one name, as `distinct`, the words of the fields in which they differ; the run last."""
    for key in ("", "run_id"):
        alike: dict[str, list[ComparedRow]] = {}
        for row in rows:
            alike.setdefault(name_of(row), []).append(row)
        tell = tuple(TELLING) if not key else (key,)
        differing = {name: [each for each in tell if _differs(group, each)] for name, group in alike.items()}
        rows = [
            cast(
                "ComparedRow",
                {**row, "distinct": " · ".join(_words(row, differing[name_of(row)])) or row.get("distinct")},
            )
            for row in rows
        ]
    return list(rows)


def _differs(group: Sequence[ComparedRow], key: str) -> bool:
    return len({str(cast("dict[str, Any]", row).get(key)) for row in group}) > 1


def _words(row: ComparedRow, keys: Sequence[str]) -> list[str]:
    saids = [_said(key, cast("dict[str, Any]", row).get(key)) for key in keys]
    return [str(row["distinct"]), *saids] if saids and row.get("distinct") else saids


def _said(key: str, value: Any) -> str:
    if key == "compiled":
        return "compiled" if value else "not compiled"
    words = "not said" if value is None else str(value)
    return words if key in ("runtime", "layout", "mode", "scenario") else f"{TELLING.get(key, 'run')} {words}"


def against_cpu(rows: Sequence[ComparedRow], plain: Sequence[ComparedRow]) -> list[ComparedRow]:
    """Add to each row how often it does the work of its baseline, one of the rows of `plain` CPU.

    The baseline is measured, by one of our runs or somebody's; without one, or where no batch was said, the factor is
    missing.
    """
    baselines = cpu_baseline.baselines([completed(row) for row in plain])
    against_cpu = []
    for row in rows:
        baseline = baselines.get(cpu_baseline.work_of(row))
        itself = baseline is not None and row.get("configuration") == baseline.get("configuration")
        low, high = (None, None) if baseline is None or itself else ratios.of(baseline, row, *LATENCY[:3])[1:]
        against_cpu.append(
            cast(
                "ComparedRow",
                {
                    **row,
                    SPEEDUP.key: number(row, SPEEDUP.key) or cpu_baseline.times_faster(row, baseline),
                    SPEEDUP.low: low,
                    SPEEDUP.high: high,
                    "baseline": None if baseline is None else name_of(baseline),
                },
            )
        )
    return against_cpu


def sentence(rows: Sequence[ComparedRow], metric: Metric) -> str:
    """Say which row is best and by how much over the next of the same work that its interval does not reach.

    Other work is never compared: another precision, batch, length or load, and another number of devices where the figure is
    not of each device.
    """
    best = rows[0]
    scale = scale_of(rows, metric)
    words = f"{name_of(best)}: {scale.show(figure(best, metric), number(best, metric.low), number(best, metric.high))}"
    words += f" ({evidence_words(best.get('basis'), best.get('origin'))})"
    others = [row for row in rows[1:] if likeness.are_alike(row, best, metric)]
    for other in others:
        if apart(best, other, metric):
            return f"{words}, {_by(figure(best, metric), figure(other, metric), metric)} than {_beside(other, best)}"
    return f"{words}; too close to call against {_beside(others[0], best)}" if others else words


def scale_of(rows: Sequence[ComparedRow], metric: Metric) -> formatting.Scale:
    """Return the unit in which the sentence, the picture and the table write a metric: that of the rows that are drawn."""
    return metric.scale([number(row, metric.key) for row in rows[:DRAWN]])


def _beside(row: ComparedRow, best: ComparedRow) -> str:
    """Name a row of the same work by its subject alone, where that tells it from the best one; with its source where that is another."""
    subject = row.get("subject")
    name = str(subject) if subject and subject != best.get("subject") else name_of(row)
    source, other = (evidence_words(each.get("basis"), each.get("origin")) for each in (row, best))
    return name if source == other else f"{name} ({source})"


def _by(best: float, other: float, metric: Metric) -> str:
    """Write how much better: of a time or a rate how much faster, of an amount which part of the other is saved."""
    less = _LESS.get(metric)
    if less is not None:
        return f"{formatting.share(1 - best / other)} {less}"
    return formatting.change(other / best if metric.better.startswith("smaller") else best / other if other else None)


def apart(first: ComparedRow, other: ComparedRow, metric: Metric) -> bool:
    """Say whether two rows' intervals do not meet; a row without an interval is its value alone."""
    ends = []
    for row in (first, other):
        low, high = number(row, metric.low), number(row, metric.high)
        ends.append((figure(row, metric) if low is None else low, figure(row, metric) if high is None else high))
    return bool(ends[0][1] < ends[1][0] or ends[1][1] < ends[0][0])


def columns(rows: Sequence[ComparedRow], metric: Metric) -> list[Column]:
    """Return the comparison as the columns of a table: name, workload, value in its interval, and in what a row is other work."""
    scale = scale_of(rows, metric)
    marks = [list(likeness.unlike(row, rows[0]).values()) for row in rows]
    several = len({row.get("model") for row in rows}) > 1
    values = [number(row, metric.key) for row in rows]
    ends = [[number(row, key) for row in rows] for key in (metric.low, metric.high)]
    shown = [scale.show(*each) for each in zip(values, *ends, strict=True)]
    beside = Column(head="vs plain CPU", values=[number(row, SPEEDUP.key) for row in rows], help=_PLAIN_CPU)
    drawn = [
        *([_models(rows)] if several else []),
        Column(
            head="Hardware",
            values=[hardware_words(row, device_name(str(row.get("hardware") or formatting.MISSING))) for row in rows],
            links=[evidence.about("hardware", str(row.get("hardware"))) for row in rows],
        ),
        Column(head="Precision", values=[row.get("precision") for row in rows]),
        Column(head="Batch", values=[row.get("batch_size") for row in rows]),
        Column(
            head=metric.title, values=values, shown=shown, low=ends[0], high=ends[1], help=metric.better.capitalize()
        ),
        Column(
            head="Other work", values=[f"≠ {', '.join(mark)}" if mark else None for mark in marks], help=_OTHER_WORK
        ),
        Column(head="Software", values=[_software(row) for row in rows]),
        Column(head="Load", values=[arrivals(row) for row in rows]),
        *([] if metric is SPEEDUP or several else [beside]),
        Column(head="n", values=[row.get("n") for row in rows], help="Calls that were timed"),
        evidence.source_column(rows),
        Column(head="Verdict", values=[_verdict(row, metric) for row in rows]),
    ]
    return filled(drawn)


_PLAIN_CPU = "Times as fast as fp32 on plain CPU, not compiled, at the same batch and lengths"
_OTHER_WORK = "In what a row is not the work of the first row: no headline compares them"


def _models(rows: Sequence[ComparedRow]) -> Column:
    names = [str(row.get("model")) for row in rows]
    links: list[str | None] = [evidence.about("models", name) for name in names]
    return Column(head="Model", values=[model_name(name) for name in names], links=links)


def _software(row: ComparedRow) -> str:
    words = [str(part) for part in (row.get("platform"), row.get("runtime")) if part]
    return " · ".join([*dict.fromkeys(words), *(["compiled"] if row.get("compiled") else [])]) or formatting.MISSING


def _verdict(row: ComparedRow, metric: Metric) -> str | None:
    """The verdict on a metric: energy has its own."""
    return row.get("energy_verdict") if metric in (ENERGY, TOKEN_ENERGY) else row.get("verdict")


def _passes(row: ComparedRow, comparison: Comparison) -> bool:
    return (
        row.get("mode") in (comparison.mode, None)
        and (not comparison.platform or row.get("platform") in comparison.platform)
        and (not comparison.precision or row.get("precision") in comparison.precision)
        and (comparison.batch is None or row.get("batch_size") == comparison.batch)
        and (comparison.length is None or row.get("sequence_length") == comparison.length)
    )
