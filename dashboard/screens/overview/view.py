"""Home: what is best for the models that are known best, what got worse, and what is stale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import streamlit as st

from assay.client.row_types import Run
from dashboard import answers, beginning, regressions
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
from dashboard.page_state import adopt, current, go, widget
from dashboard.screens.jobs import query as jobs_query
from dashboard.screens.jobs.words import sentence
from dashboard.screens.overview.words import (
    PAGE,
    SPANS,
    Glance,
    best_columns,
    best_known,
    coverage_sentence,
    failing_table,
    families_of,
    fresh,
    imports_words,
    is_live,
    platforms_of,
    read_glance,
    span_words,
    stale_words,
    state_words,
    today,
)
from dashboard.screens.recommend.question import Question, request
from dashboard.screens.regressions import query as regressions_query
from dashboard.screens.runs import query as asking
from dashboard.screens.runs import words as run_words
from dashboard.screens.trends import query as trends_query
from dashboard.service import checked, client, decoded, kept
from dashboard.tables.result_table import Column, result_table
from domain.answers import Recommendation
from domain.errors import AssayError
from presentation import charts, formatting
from presentation.charts.interval_chart import intervals

__all__ = ["show"]

KINDS = ("performance", "hardware", "compatibility")
EVERY_S = 5
MOST_GAPS = 3
MOST_DRAWN = 8
"""Changes that are drawn, the worst ones."""
MOST_LISTED = 100
MOST_RUNS = 5
MOST_SOURCES = 3
IMPORT = "import"
BEHIND_S = 10.0
"""Tables that are longer behind the log are worth a word."""
Row = Mapping[str, Any]


@kept(max_entries=4)
def at_a_glance(position: int) -> dict[str, Any]:
    """Return coverage by family and platform, freshness by day, and what fails most."""
    return checked(dict(client().overview(as_of=position)), "cells", "days", "failing")


@kept(max_entries=4)
def gaps_of(position: int) -> list[dict[str, Any]]:
    """Return the largest gaps of the catalogue, each with a command that begins to fill it."""
    return [dict(row) for row in client().gaps(as_of=position)]


@kept(max_entries=4)
def last_runs(position: int) -> tuple[list[Run], list[Run], int]:
    """Return the newest runs of our runner, the newest imports, and how many imports there are."""
    kinds = client().page("runs", limit=1, as_of=position)["choices"]["kind"]
    pages = {kind: client().page("runs", kind=kind, limit=MOST_RUNS, as_of=position) for kind in kinds}
    imports = pages.pop(IMPORT, {"items": [], "total": 0})
    own = [decoded(row, Run) for page in pages.values() for row in page["items"]]
    newest = sorted(own, key=run_words.moment, reverse=True)[:MOST_RUNS]
    return newest, [decoded(row, Run) for row in imports["items"][:MOST_SOURCES]], int(imports["total"])


def show() -> None:
    """Show the state in a sentence, the picks of a few models, what got worse and the last runs; the rest is folded."""
    header("Home", "What is best, worse and stale?")
    with guarded("The service"):
        health = answers.ready()
        read = current(PAGE, read_glance)
        dropped(read.dropped)
        glance: Glance = read.asked
        adopt(PAGE, glance, {"days": glance.days})
        at = health["position"] if glance.as_of is None else glance.as_of
        with guarded("The health"):
            _health(health)
        with guarded("The state"):
            summary = answers.summary(at)
            if summary["measurements"] or summary["failures"] or summary["tests"]:
                _filled(glance, summary, at)
            else:
                beginning.show()


def _filled(glance: Glance, summary: Mapping[str, Any], at: int) -> None:
    measured = bool(summary["measurements"])
    document: dict[str, Any] = {"cells": [], "failing": []}
    if measured:
        with guarded("The state"):
            document = at_a_glance(at)
            recent = fresh(document["days"], document["configurations"], today(), 90)
            st.markdown(f"{state_words(summary, datetime.now(UTC))} {stale_words(recent)}")
    # What takes longest is asked last, and still stands where it is looked for.
    answer = st.container(key="answer")
    best, worse = answer.container(), answer.container()
    with guarded("The last runs"):
        if glance.as_of is None:
            _queue()
        _last_runs(at, live=glance.as_of is None)
    with guarded("The details"):
        _folds(document, at)
    with st.container(horizontal=True, vertical_alignment="center", key="take away"):
        _reports(at)
        provenance("", f"position {formatting.count(at)}", msgspec.structs.replace(glance, as_of=at))
    if measured:
        with worse, guarded("What got worse"):
            _worse(glance, at)
        with best, guarded("What is best"):
            _best(at)


def _folds(document: Mapping[str, Any], at: int) -> None:
    if document["cells"]:
        folded("Coverage", partial(_covered, document, at), key=f"{PAGE} coverage part")
    if document["failing"]:
        failing = failing_table(document["failing"])
        folded(
            "What failed most",
            partial(result_table, failing, key=f"{PAGE} failing", words="What failed most"),
            key=f"{PAGE} failing part",
        )
    folded("What to measure next", partial(_next, at), key=f"{PAGE} next")
    folded("Add measurements", beginning.offers, key=f"{PAGE} add")


def _best(at: int) -> None:
    """Show the picks of the models of which most is known, one of each kind."""
    chosen = best_known(answers.models(at))
    if not chosen:
        return
    st.subheader("Best hardware", anchor=False)
    named = []
    for model in chosen:
        with guarded(model.id):
            sent = answers.recommend(request(Question(model=model.id)), at)
            named.append((model, decoded(sent, Recommendation)))
    if named:
        result_table(best_columns(named), key=f"{PAGE} best", words="The best hardware of each model")


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
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader("What got worse", anchor=False, width="content")
        days = st.segmented_control(
            "Over the last",
            SPANS,
            key=widget(PAGE, "days"),
            required=True,
            label_visibility="collapsed",
            format_func=span_words,
            width="content",
        )
    if days != glance.days:
        go(PAGE, msgspec.structs.replace(glance, days=days))
        st.rerun()
    with guarded("The alerts"):
        new = regressions_query.new_regressions(at)
        if new:
            words = "1 regression is" if new == 1 else f"{formatting.count(new)} regressions are"
            st.markdown(f"[{words} new](/regressions?state=new), confirmed over their whole history.")
    result = trends_query.regressions(float(glance.days), at, limit=MOST_LISTED)
    st.markdown(escape(regressions.sentence(result, float(glance.days))))
    changes = result["changes"]
    if changes:
        drawn = intervals(regressions.dots(changes[:MOST_DRAWN]), regressions.WORSE_BY, theme=theme(), beside=0.0)
        worst = regressions.worst(result)
        st.markdown(f"**Worst: {escape(worst)}**")
        chart(drawn, key=f"{PAGE} changes", words=f"How much each figure got worse, the worst first: {worst}")
    columns = regressions.columns(result, zone())
    if columns:
        folded(
            f"All {len(columns[0].values)} with values and runs",
            lambda: result_table(columns, key=f"{PAGE} worse", words="What got worse"),
            key=f"{PAGE} worse part",
            expanded=not changes,
        )
        downloads(table_files(stem(PAGE, "worse", at), [*changes, *result["turns"]], as_of=at), "worse")


def _last_runs(at: int, *, live: bool) -> None:
    """Offer the last runs and how many imports there are; at once where a run is under way."""
    moving = live and any(is_live(run, datetime.now(UTC)) for run in asking.live(at))
    show = st.fragment(_live_runs, run_every=EVERY_S) if moving else partial(_runs, at)
    folded("Last runs", show, key=f"{PAGE} runs part", expanded=moving)


def _live_runs() -> None:
    """Show the runs as they are now: while one is under way, this part of the page asks again by itself."""
    with guarded("The last runs"):
        _runs(answers.ready()["position"])


def _runs(at: int) -> None:
    own, imported, imports = last_runs(at)
    if own:
        result_table(run_words.listed(own, datetime.now(UTC), zone()), key=f"{PAGE} runs", words="The last runs")
    said = f"{escape(imports_words(imports, imported))}. " if imports else ""
    st.markdown(f"{said}[All runs](/runs)")


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
    columns = [Column(head=name.capitalize(), values=[row[name] for row in rows]) for name in names]
    result_table(columns, key=f"{PAGE} cells", words="Measurements by family and platform", height=400)


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


def _queue() -> None:
    """Say how the queue stands, where a job runs or waits."""
    with suppress(AssayError):
        queue = jobs_query.queue()
        if queue.counts.get("running") or queue.counts.get("waiting"):
            st.markdown(f"[Jobs](jobs): {sentence(queue)}")


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
