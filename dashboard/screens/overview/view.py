"""Home: what is best for the models that are known best, what got worse, and what is stale."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
import pandas as pd
import streamlit as st

from assay.client.row_types import Model, Run
from dashboard import answers, evidence
from dashboard.address import Params, Read, one_of, position, understood
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import (
    chart,
    downloads,
    dropped,
    escape,
    folded,
    guarded,
    header,
    provenance,
    theme,
    to_paste,
    zone,
)
from dashboard.menu import page
from dashboard.page_state import adopt, current, go, widget
from dashboard.screens.recommend.question import Question, request
from dashboard.screens.runs import words
from dashboard.service import checked, client, decoded, kept
from domain.answers import Recommendation
from domain.vocabulary import PLATFORMS
from presentation import charts, formatting
from presentation.answer_words import PICKS, PickWords, pick_words

__all__ = [
    "Glance",
    "best_known",
    "coverage_sentence",
    "failing_table",
    "fresh",
    "is_live",
    "platforms_of",
    "read_glance",
    "run_table",
    "show",
]

UNKNOWN = "unknown"
SPANS = ("1", "7", "30")
Row = Mapping[str, Any]


class Glance(msgspec.Struct, frozen=True, kw_only=True):
    """What the overview shows: over how many days things are said to have got worse, at which position of the log."""

    days: str = "7"
    as_of: int | None = None


def read_glance(params: Params) -> Read:
    """Read the overview's parameters."""
    return understood(Glance, params, {"days": one_of(SPANS), "as_of": position})


def fresh(days: Sequence[Row], total: int, today: date, span: int) -> float | None:
    """Return the share of configurations measured in the last `span` days; None where there is none.

    `days` count configurations by the day (UTC) of their newest measurement; one dated later than today is no fresher.
    """
    since = (today - timedelta(days=span)).isoformat()
    counted = sum(int(row["configurations"]) for row in days if str(row["day"]) > since)
    return counted / total if total else None


def today() -> date:
    """Return the day (UTC) by which freshness is judged."""
    return datetime.now(UTC).date()


def platforms_of(cells: Sequence[Row]) -> list[str]:
    """Return the platforms that something was measured on, in the order in which all pages have them."""
    order = list(PLATFORMS)
    result = {str(cell["platform"]) for cell in cells}
    return sorted(result, key=lambda name: (order.index(name) if name in order else len(order), name))


def families_of(row: Row) -> list[str]:
    """Return the families as the service has them, those of models of which no family is known last."""
    return sorted((str(name) for name in row["families"]), key=lambda name: name == UNKNOWN)


KINDS_OF_MODEL = {
    "vision": "vision",
    "embedding": "text",
    "text_generation": "language",
    "text_to_text": "text to text",
    "audio": "audio",
    "multimodal": "image and text",
    "diffusion": "images",
    "video": "video",
}
"""Categories of models in a word."""
MOST_MODELS = 4


def best_known(models: Sequence[Model]) -> list[Model]:
    """Return the model with most measurements of each category, one of the catalogue before others; at most `MOST_MODELS`."""
    first: dict[str | None, Model] = {}
    for model in sorted(models, key=lambda model: (not model.catalogued, -model.measurements, model.id)):
        if model.measurements:
            first.setdefault(model.category, model)
    return list(first.values())[:MOST_MODELS]


def coverage_sentence(row: Row) -> str:
    """Say how much of family × platform has a measurement, and where there are most."""
    cells, families = row["cells"], row["families"]
    platforms = platforms_of(cells)
    named = [cell for cell in cells if cell["family"] != UNKNOWN] or cells
    most = max(named, key=lambda cell: int(cell["measurements"]))
    shown = f"the {len(families)} families with most" if row["families_total"] > len(families) else "all families"
    across = "1 platform" if len(platforms) == 1 else f"{len(platforms)} platforms"
    return (
        f"{formatting.count(len(cells))} of {formatting.count(len(families) * len(platforms))} cells have measurements "
        f"({shown}, {across}); most: {most['family']} on {most['platform']}, {formatting.count(most['measurements'])}"
    )


def has_ended(run: Run) -> bool:
    """Say whether it is known how a run ended."""
    return run.outcome not in (None, "unfinished") or bool(run.retracted_because)


def is_live(run: Run, now: datetime) -> bool:
    """Say whether a run may be under way: it began within a day and has not ended; an older one was left behind."""
    return not has_ended(run) and now - (run.started_at or run.recorded_at) < timedelta(days=1)


def run_table(rows: Sequence[Run], now: datetime, zone: tzinfo | None) -> pd.DataFrame:
    """Return runs as the page of runs lists them, in fewer columns, each with the address of its page."""
    table = words.listed(rows, now, zone)[["Run", "State", "Rows", "Failed", "Tests", "Started"]]
    return table.assign(Open=[f"runs?run={quote(row.run_id)}" for row in rows])


def failing_table(failing: Sequence[Row]) -> pd.DataFrame:
    """Return what fails most: how often, of how many models, why, and what to try."""
    return pd.DataFrame(
        {
            "Failures": [row["failures"] for row in failing],
            "Platform": [row["platform"] for row in failing],
            "At": [str(row["stage"]).replace("_", " ") for row in failing],
            "Error": [row["error"] for row in failing],
            "Models": [row["models"] for row in failing],
            "Newest says": [row["message"] or None for row in failing],
            "To try": [row["remedy"] or None for row in failing],
            "Newest": [evidence.row_path(str(row["evidence"])) for row in failing],
        }
    ).dropna(axis="columns", how="all")


PAGE = "overview"
KINDS = ("performance", "hardware", "compatibility")
EVERY_S = 5
MOST_GAPS = 3
MOST_SOURCES = 3
BEHIND_S = 10.0
"""Tables that are longer behind the log are worth a word."""


@kept(max_entries=4)
def at_a_glance(position: int) -> dict[str, Any]:
    """Return coverage by family and platform, freshness by day, and what fails most."""
    return checked(dict(client().overview(as_of=position)), "cells", "days", "failing")


@kept(max_entries=4)
def gaps_of(position: int) -> list[dict[str, Any]]:
    """Return the largest gaps of the catalogue, each with a command that begins to fill it."""
    return [dict(row) for row in client().gaps(as_of=position)]


def show() -> None:
    """Show the state in a sentence, the picks of a few models, what got worse and the last runs; the rest is folded."""
    header("Home", "What is best, what got worse, and what is stale?")
    with guarded("The service"):
        health = answers.ready()
        read = current(PAGE, read_glance)
        dropped(read.dropped)
        glance: Glance = read.asked
        adopt(PAGE, glance, {"days": glance.days})
        at = health["position"] if glance.as_of is None else glance.as_of
        summary: Mapping[str, Any] = {"measurements": 0, "failures": 0, "tests": 0}
        with guarded("The state"):
            summary = answers.summary(at)
            _state(summary, at)
        with guarded("The health"):
            _health(health)
        if not (summary["measurements"] or summary["failures"] or summary["tests"]):
            _nothing_yet()
        # What takes longest is asked last, and still stands where it is looked for.
        best, worse = st.container(), st.container()
        with guarded("The last runs"):
            _last_runs(at, live=glance.as_of is None)
        document: dict[str, Any] = {"cells": [], "failing": []}
        if summary["measurements"] or summary["failures"] or summary["tests"]:
            with guarded("The coverage"):
                document = at_a_glance(at)
                _coverage(document, at)
            _failing(document)
            with guarded("What to measure next"):
                folded("What would be worth measuring next", partial(_next, at), key=f"{PAGE} next")
        with st.container(horizontal=True, vertical_alignment="center", key="take away"):
            _reports(at)
            words = f"position {formatting.count(at)}"
            provenance("", words, msgspec.structs.replace(glance, as_of=at))
        with worse, guarded("What got worse"):
            if summary["measurements"]:
                _worse(glance, at)
        with best, guarded("What is best"):
            if summary["measurements"]:
                _best(at)


def _state(record: Mapping[str, Any], at: int) -> None:
    """Say in one sentence what is known and how fresh it is."""
    if not record["measurements"]:
        return
    recent = formatting.share(_fresh(at)[90])
    st.markdown(
        f"**{formatting.count(record['measurements'])}** measurements of **{formatting.count(record['models'])}** models on "
        f"**{formatting.count(record['hardware'])}** devices in {_runs_words(record['runs'])}. The newest came "
        f"{formatting.age(record.get('newest'), datetime.now(UTC))}; {recent} of the configurations are new in 90 days.",
        help="New: measured in these days, or imported in them without saying when they were measured.",
    )


def _runs_words(count: int) -> str:
    return "1 run" if count == 1 else f"{formatting.count(count)} runs"


def _nothing_yet() -> None:
    """Offer the three ways to begin."""
    st.info("Nothing has been measured yet. One command fills this page:")
    to_paste("assay bench bert-base-uncased --platform cpu,openvino")
    st.caption("It builds the model, measures it on this machine and sends the result to this service.")
    st.caption("Or import what you have:")
    to_paste("assay import auto results/ --dry-run")
    st.caption("Or begin with the published measurements that ship:")
    to_paste("assay data add")


def _best(at: int) -> None:
    """Show the picks of the models of which most is known, one of each kind."""
    chosen = best_known(answers.models(at))
    if not chosen:
        return
    st.subheader("Best hardware", anchor=False)
    with st.container(key="best", gap="xxsmall"):
        for model in chosen:
            with guarded(model.id):
                sent = answers.recommend(request(Question(model=model.id)), at)
                _best_row(model, decoded(sent, Recommendation))


def _best_row(model: Model, answer: Recommendation) -> None:
    picks = {} if answer.abstained else {pick.name: pick for pick in answer.picks}
    with st.grid(4, min_column_width=180, key=f"best {model.id}"):
        with st.container(gap=None):
            name = f"**{escape(model.id.rpartition('/')[2])}**"
            st.page_link(page("recommend"), label=name, query_params={"model": model.id}, icon=":material/category:")
            st.markdown(f":gray[:small[{escape(KINDS_OF_MODEL.get(model.category or '', model.category or ''))}]]")
        for title, pick in ((title, picks.get(name)) for name, title in PICKS.items()):
            st.markdown(_pick_cell(title, None if pick is None else pick_words(pick, answer)))


def _pick_cell(title: str, words: PickWords | None) -> str:
    """Write a pick in three short lines, or that there is none."""
    if words is None:
        return f":gray[:small[{title}]]  \n{formatting.MISSING}"
    sure = f" · {words.confidence}" if words.confidence else ""
    return f":gray[:small[{title}: {escape(words.evidence + sure)}]]  \n**{escape(words.device)}**  \n{escape(words.figure)}"


def _fresh(at: int) -> dict[int, float | None]:
    counted = at_a_glance(at)
    return {span: fresh(counted["days"], counted["configurations"], today(), span) for span in (30, 90)}


def _reports(at: int) -> None:
    downloads(
        [
            (f"{kind.capitalize()} report", f"assay_{kind}_p{at}.html", "text/html", answers.reporter(kind, None, at))
            for kind in KINDS
        ],
        "reports",
        label="Reports",
        note="Made from every row when you ask: seconds, or minutes where much was measured.",
    )


def _worse(glance: Glance, at: int) -> None:
    """Show what is worse than before, by the rules of `assay regressions`, the worst first."""
    from dashboard import regressions
    from dashboard.screens.trends import query

    st.subheader("What got worse", anchor=False)
    days = st.segmented_control(
        "Over the last",
        SPANS,
        key=widget(PAGE, "days"),
        required=True,
        label_visibility="collapsed",
        format_func=lambda span: "last day" if span == "1" else f"last {span} days",
    )
    if days != glance.days:
        go(PAGE, msgspec.structs.replace(glance, days=days))
        st.rerun()
    result = query.regressions(float(glance.days), at, limit=10)
    with st.container(key="answer"):
        st.markdown(f"**{escape(regressions.sentence(result, float(glance.days)))}**")
    rows = regressions.lines(result, zone())[:10]
    if not rows:
        return
    st.dataframe(
        pd.DataFrame(rows).dropna(axis="columns", how="all"),
        hide_index=True,
        key=f"{PAGE} worse",
        row_height=36,
        placeholder=formatting.MISSING,
        height="content",
        alt="What got worse",
        column_config={
            "Over time": st.column_config.LinkColumn(display_text="open"),
            "Run": st.column_config.LinkColumn(display_text=r"run=(.{1,13})"),
        },
    )
    downloads(table_files(stem(PAGE, "worse", at), [*result["changes"], *result["turns"]], as_of=at), "worse")


def _last_runs(at: int, *, live: bool) -> None:
    runs = answers.runs(at)
    if not runs:
        return
    st.subheader("Last runs", anchor=False)
    if live and any(is_live(row, datetime.now(UTC)) for row in runs):
        st.fragment(_live_runs, run_every=EVERY_S)()
    else:
        _runs(runs)


def _live_runs() -> None:
    """Show the runs as they are now: while one is under way, this part of the page asks again by itself."""
    with guarded("The last runs"):
        _runs(answers.runs(answers.ready()["position"]))


def _source_words(run: Run) -> str:
    """Name the source of an import without its file."""
    return re.sub(r"\s\S+\.(csv|json|parquet|ndjson)$", "", str(run.provenance_source or run.source))


def _runs(rows: Sequence[Run]) -> None:
    own = [row for row in rows if row.kind != "import"]
    imports = [row for row in rows if row.kind == "import"]
    if imports:
        counted = "1 import" if len(imports) == 1 else f"{len(imports)} imports"
        names = list(dict.fromkeys(_source_words(row) for row in imports))
        more = f" and {len(names) - MOST_SOURCES} more" if len(names) > MOST_SOURCES else ""
        st.caption(
            f"{counted} among the last {len(rows)} runs: {escape('; '.join(names[:MOST_SOURCES]))}{more}. [All runs](/runs)"
        )
    if not own:
        return
    st.dataframe(
        run_table(own, datetime.now(UTC), zone()),
        hide_index=True,
        key="overview runs",
        row_height=36,
        placeholder=formatting.MISSING,
        height="content",
        alt="The last runs",
        column_config={
            "Run": st.column_config.Column(width=260),
            "Started": st.column_config.Column(
                help="When it began; `came` is when it came, of a run that does not say so."
            ),
            "Open": st.column_config.LinkColumn(display_text="open"),
            **{head: st.column_config.NumberColumn(format="localized") for head in ("Rows", "Failed", "Tests")},
        },
    )


def _coverage(document: Mapping[str, Any], at: int) -> None:
    if document["cells"]:
        folded("Coverage", partial(_covered, document, at), key=f"{PAGE} coverage part")


def _covered(document: Mapping[str, Any], at: int) -> None:
    platforms, shade, sentence = platforms_of(document["cells"]), theme(), coverage_sentence(document)
    st.markdown(f"**{escape(sentence)}**")
    chart(
        charts.coverage(document["cells"], families_of(document), platforms, theme=shade),
        key=f"{PAGE} coverage",
        words=f"Measurements by family and platform: {sentence}",
    )
    st.caption(
        "Measurements by family and platform, darker is more (log). An outline means that nothing was measured there."
    )
    folded("As a table", partial(_cells, document["cells"]), key=f"{PAGE} folded")
    name = stem(PAGE, "coverage", at)
    picture = picture_files(
        name,
        lambda: charts.coverage(document["cells"], families_of(document), platforms, theme=shade, picture=True),
        "Measurements by family and platform",
        answer=sentence,
        footer=f"position {formatting.count(at)}",
    )
    downloads([*table_files(name, document["cells"], as_of=at), *picture], "coverage")


def _cells(rows: Sequence[Mapping[str, Any]]) -> None:
    names = ("family", "platform", "models", "hardware", "configurations", "measurements")
    heads = {name: name.capitalize() for name in names}
    st.dataframe(
        pd.DataFrame(rows)[list(heads)].rename(columns=heads),
        hide_index=True,
        key=f"{PAGE} cells",
        row_height=36,
        height=400,
        alt="Measurements by family and platform",
    )


def _failing(document: Mapping[str, Any]) -> None:
    if not document["failing"]:
        return
    st.subheader("What failed most", anchor=False)
    st.dataframe(
        failing_table(document["failing"]),
        hide_index=True,
        key=f"{PAGE} failing",
        row_height=36,
        height="content",
        placeholder=formatting.MISSING,
        alt="What failed most",
        column_config={"Newest": st.column_config.LinkColumn(display_text="open")},
    )


def _next(at: int) -> None:
    gaps = gaps_of(at)[:MOST_GAPS]
    if not gaps:
        st.caption("Every family was tried on every platform.")
    for gap in gaps:
        st.markdown(
            f"**{escape(str(gap['category']))} on {escape(str(gap['platform']))}**: {formatting.count(gap['never_tried'])} of "
            f"{formatting.count(gap['families'])} families were never tried"
        )
        to_paste(str(gap["command"]))


def _health(health: Mapping[str, Any]) -> None:
    """Say what is wrong with the service; nothing where nothing is."""
    wrong = []
    lag, seconds = health.get("lag_events"), health.get("lag_seconds") or 0.0
    if lag and seconds > BEHIND_S:
        wrong.append(
            f"The tables are {formatting.count(lag)} events ({formatting.significant(seconds)} s) behind the log."
        )
    if health.get("dead_letters"):
        count = formatting.count(health["dead_letters"])
        wrong.append(f"{count} events could not be read: [Operations](/operations) lists them.")
    if health.get("unknown_events"):
        count = formatting.count(health["unknown_events"])
        wrong.append(f"{count} events are of types that this version does not know, and are kept for a later one.")
    if health.get("error"):
        wrong.append(f"The tables no longer follow the log: {escape(str(health['error']))}")
    if wrong:
        st.warning("  \n".join(wrong), icon=":material/warning:")
