"""Overview: what do we know, how fresh is it, and what got worse?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
import pandas as pd
import streamlit as st

from assay.client.row_types import Run
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
from dashboard.page_state import adopt, current, go, widget
from dashboard.screens.overview import query as asking
from dashboard.screens.runs import words
from domain.vocabulary import PLATFORMS
from presentation import charts, formatting

__all__ = [
    "Glance",
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


def show() -> None:
    """Show the counts, what got worse, the last runs and the service's health; with nothing known, the one command."""
    header("Overview", "What do we know, how fresh is it, and what got worse?")
    with guarded("The service"):
        health = answers.ready()
        read = current(PAGE, read_glance)
        dropped(read.dropped)
        glance: Glance = read.asked
        adopt(PAGE, glance, {"days": glance.days})
        at = health["position"] if glance.as_of is None else glance.as_of
        provenance("", f"position {formatting.count(at)}", msgspec.structs.replace(glance, as_of=at))
        with guarded("The counts"):
            summary = answers.summary(at)
            _counts(summary, at)
        # What takes longest is asked last, and still stands where it is looked for.
        worse = st.container()
        with guarded("The health"):
            _health(health, at)
        with guarded("The last runs"):
            _last_runs(at, live=glance.as_of is None)
        if not (summary["measurements"] or summary["failures"] or summary["tests"]):
            return
        document: dict[str, Any] = {"cells": [], "failing": []}
        with guarded("The coverage"):
            document = asking.at_a_glance(at)
        if document["cells"]:
            with guarded("The coverage"):
                _coverage(document, at)
        _failing(document)
        with guarded("What to measure next"):
            _next(at)
        with worse, guarded("What got worse"):
            _worse(glance, at)


def _counts(record: Mapping[str, Any], at: int) -> None:
    if not record["measurements"]:
        st.info("Nothing has been measured yet. One command fills this page:")
        to_paste("assay bench bert-base-uncased --platform cpu,openvino")
        st.caption("It builds the model, measures it on this machine and sends what it saw to this service.")
    newest = record.get("newest")
    shares = _fresh(at) if record["measurements"] else {30: None, 90: None}
    tiles = {
        "Models": formatting.count(record["models"]),
        "Hardware": formatting.count(record["hardware"]),
        "Measurements": formatting.count(record["measurements"]),
        "Newest": formatting.age(newest, datetime.now(UTC)),
        "Runs": formatting.count(record["runs"]),
        "Tests": formatting.count(record["tests"]),
        **{f"New in {days} days": formatting.share(share) for days, share in shares.items()},
    }
    with st.grid(4, min_column_width=150, key="counts"):
        for title, value in tiles.items():
            st.metric(title, value, border=True)
    if newest:
        st.caption(
            f"Newest {formatting.date(newest, zone())} · New: share of the configurations that were measured in these days, or came in "
            "them without saying when they were measured"
        )
        _reports(at)


def _fresh(at: int) -> dict[int, float | None]:
    at_a_glance = asking.at_a_glance(at)
    return {span: fresh(at_a_glance["days"], at_a_glance["configurations"], today(), span) for span in (30, 90)}


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
    st.subheader("Last runs", anchor=False)
    runs = answers.runs(at)
    if not runs:
        st.caption("No run has been posted yet.")
        return
    if live and any(is_live(row, datetime.now(UTC)) for row in runs):
        st.fragment(_live_runs, run_every=EVERY_S)()
    else:
        _runs(runs)


def _live_runs() -> None:
    """Show the runs as they are now: while one is under way, this part of the page asks again by itself."""
    with guarded("The last runs"):
        _runs(answers.runs(answers.ready()["position"]))


def _runs(rows: Sequence[Run]) -> None:
    st.dataframe(
        run_table(rows, datetime.now(UTC), zone()),
        hide_index=True,
        key="overview runs",
        row_height=36,
        placeholder=formatting.MISSING,
        height="content",
        alt="The last ten runs",
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
    st.subheader("Coverage", anchor=False)
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
    gaps = asking.gaps(at)[:MOST_GAPS]
    if not gaps:
        return
    st.subheader("What would be worth measuring next", anchor=False)
    for gap in gaps:
        st.markdown(
            f"**{escape(str(gap['category']))} on {escape(str(gap['platform']))}**: {formatting.count(gap['never_tried'])} of "
            f"{formatting.count(gap['families'])} families were never tried"
        )
        to_paste(str(gap["command"]))


def _health(health: Mapping[str, Any], position: int) -> None:
    st.subheader("Health", anchor=False)
    lag, dead = health.get("lag_events"), health.get("dead_letters")
    lines = [f"**Log** position {formatting.count(health.get('log_position', position))}"]
    seconds = health.get("lag_seconds")
    since = f" ({formatting.significant(seconds)} s)" if seconds else ""
    behind = "up to date" if lag == 0 else f"{formatting.count(lag)} events behind{since}"
    lines.append(f"**Projection** position {formatting.count(health['position'])}, {behind}")
    lines.append(f"**Dead letters** {formatting.count(dead)}")
    unknown = health.get("unknown_events")
    if unknown:
        lines.append(f"**Of unknown types** {formatting.count(unknown)} events, kept for a later version")
    archive = health.get("archive") or {}
    if archive.get("segments"):
        lines.append(
            f"**Archive** up to position {formatting.count(archive['last_position'])}, {formatting.memory(archive['bytes'])}"
        )
    if health.get("error"):
        lines.append(f"⚠ **Projector stopped** {escape(str(health['error']))}")
    trained = (health.get("predictor") or {}).get("digest")
    lines.append(f"**Predictor** {'ships with Assay' if trained == 'shipped' else escape(formatting.digest(trained))}")
    st.markdown(" · ".join(lines))
