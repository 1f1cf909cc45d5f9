"""Query: what else do the tables say?"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pandas as pd
import streamlit as st

from dashboard import answers
from dashboard.address import SCALES
from dashboard.downloads import picture_files, stem
from dashboard.frame import chart, downloads, dropped, escape, guarded, header, provenance, theme, trouble
from dashboard.page_state import adopt, current, go, widget
from dashboard.screens.query import query as asked_for
from dashboard.screens.query import sql_chart
from dashboard.screens.query import words as queries
from dashboard.screens.query.words import (
    EXAMPLES,
    KINDS,
    Drawing,
    Query,
    addressed,
    drawing,
    is_number,
    line_of,
    read_query,
    unpacked,
)
from domain.errors import UsageError
from presentation import formatting

__all__ = ["show"]

PAGE = "query"
LIMITS = (
    f"One SELECT, read-only. Limits: {asked_for.TIMEOUT_S:g} s, 512 MiB of memory, {formatting.count(asked_for.ROWS)} rows on "
    f"this page and {formatting.count(asked_for.FILE_ROWS)} in a file. A link fills the editor; it never runs by itself."
)
OURS = "ours"
EDITOR = f"{PAGE} editor"
_MONO = f".st-key-{EDITOR.replace(' ', '-')} textarea {{font-family: 'Source Code Pro', ui-monospace, monospace; font-size: 14px}}"


def show() -> None:
    """Show the views, an editor, and after a press on Run the result as table, chart and files."""
    header("Query", "What else do the tables say?")
    with guarded("The service"):
        health = answers.ready()
        read = current(PAGE, read_query)
        dropped(read.dropped)
        query: Query = read.asked
        text = unpacked(query.saved) if query.saved else query.q
        # Streamlit forgets what widgets hold while another page is shown.
        if text and (st.session_state.get(f"{PAGE} filled") != text or EDITOR not in st.session_state):
            st.session_state[EDITOR] = st.session_state[f"{PAGE} filled"] = text
        at = health["position"] if query.as_of is None else query.as_of
        strip = st.container()
        left, right = st.columns([5, 3], gap="medium")
        with left, guarded("The editor"):
            _editor(query, health["position"])
        with right, guarded("The views"):
            _views(health.get("schema"))
        ran = st.session_state.get(f"{PAGE} ran")
        result = None
        if ran and ran[0] == st.session_state.get(f"{PAGE} filled"):
            result = _result(query, *ran)
        elif text:
            st.info("The query above has not been run. Read it, then press Run.", icon=":material/play_arrow:")
        with strip:
            position = result["position"] if result else at
            provenance(PAGE, f"position {formatting.count(position)}", msgspec.structs.replace(query, as_of=position))


def _editor(query: Query, position: int) -> None:
    st.caption(LIMITS)
    with st.container(horizontal=True, key="examples"):
        for example in EXAMPLES:
            st.button(example.title, key=f"{PAGE} example {example.title}", on_click=_fill, args=(example.sql,))
    st.html(f"<style>{_MONO}</style>")
    with st.form(f"{PAGE} form", border=False):
        st.text_area(
            "SQL",
            key=EDITOR,
            height=220,
            max_chars=queries.LONGEST_SQL,
            placeholder="SELECT platform, count(*) AS n FROM measurements GROUP BY ALL",
        )
        run = st.form_submit_button("Run", icon=":material/play_arrow:", help="Ctrl+Enter in the editor does the same")
    text = str(st.session_state.get(EDITOR) or "")
    if run and text.strip():
        view = addressed(text, query)
        st.session_state[f"{PAGE} filled"] = text
        st.session_state[f"{PAGE} ran"] = (text, position)
        if view != query:
            go(PAGE, view)
            st.rerun()
    elif run:
        st.caption("Write a SELECT, or take an example.")


def _fill(sql: str) -> None:
    """Put a text into the editor, in the address too; what was drawn of another result goes."""
    st.session_state[EDITOR] = st.session_state[f"{PAGE} filled"] = sql
    go(PAGE, addressed(sql, Query()))


def _views(schema: int | None) -> None:
    views = asked_for.views(schema)
    named = {view["name"]: view for view in views}
    chosen = st.selectbox(f"{len(views)} views", list(named), key=f"{PAGE} views")
    view = named[chosen]
    st.caption(f"One row is {escape(view['rows'])}. {escape(view['about'] or '')}")
    data_frame = pd.DataFrame(
        [
            {
                "Column": column["name"],
                "Unit": column["unit"] or None,
                "Meaning": column["meaning"].replace("`", ""),
                "Type": column["type"].lower(),
            }
            for column in view["columns"]
        ]
    )
    st.dataframe(
        data_frame,
        hide_index=True,
        key=f"{PAGE} columns",
        height=314,
        row_height=32,
        placeholder="",
        column_config={
            "Column": st.column_config.Column(pinned=True),
            "Meaning": st.column_config.Column(width="large"),
        },
        alt=f"Columns of the view {chosen}",
    )
    st.button(
        f"Begin with {chosen}",
        key=f"{PAGE} begin",
        on_click=_fill,
        args=(f"SELECT *\nFROM {chosen}\nLIMIT 100",),
        icon=":material/north_east:",
    )


def _result(query: Query, sql: str, position: int) -> dict[str, Any] | None:
    begun = time.perf_counter()
    try:
        result = asked_for.selected(sql, position, query.as_of)
    except UsageError as refused:
        trouble("The query", refused)
        line = line_of(refused.detail, sql)
        if line is not None:
            st.caption(f"Line {line[0]}:")
            st.code(line[1], language="sql")
        return None
    took = time.perf_counter() - begun
    heads = [column["name"] for column in result["columns"]]
    rows = [dict(zip(heads, row, strict=True)) for row in result["rows"]]
    said = _said(result, len(rows))
    with st.container(key="answer"):
        st.subheader(escape(said), anchor=False)
    if took > 0.05:
        st.caption(f"Answered in {formatting.significant(took)} s.")
    if not query.q and not query.saved:
        st.caption("This query is too long for an address: keep its text to come back to it.")
    files = [
        ("CSV", f"{_name(result)}.csv", "text/csv", asked_for.filer(sql, "text/csv", position, query.as_of)),
        (
            "Parquet",
            f"{_name(result)}.parquet",
            "application/vnd.apache.parquet",
            asked_for.filer(sql, "application/vnd.apache.parquet", position, query.as_of),
        ),
        ("The SQL", f"{_name(result)}.sql", "application/sql", sql.encode),
    ]
    if len(set(heads)) < len(heads):
        st.info("Two columns have one name: give one another with AS, and the result is drawn too.")
    elif rows:
        with guarded("The chart"):
            files += _chart(query, result["columns"], rows, said, result["position"])
    _table(result["columns"], result["rows"])
    downloads(files, PAGE)
    return result


def _said(document: Mapping[str, Any], rows: int) -> str:
    if not rows:
        return "No row: the query ran, and nothing fits it"
    wide = len(document["columns"])
    counted = f"{formatting.count(rows)} row{'' if rows == 1 else 's'} of {wide} column{'' if wide == 1 else 's'}"
    return (
        f"The first {counted}; there are more. A file has up to {formatting.count(asked_for.FILE_ROWS)}"
        if document["truncated"]
        else counted
    )


def _name(document: Mapping[str, Any]) -> str:
    return stem(PAGE, "", document["position"])


def _chart(
    query: Query, columns: Sequence[Mapping[str, str]], rows: list[dict[str, Any]], said: str, position: int
) -> list[Any]:
    what = drawing(columns, query)
    if what is None:
        st.caption("Nothing to draw: a chart needs a column of numbers beside another column.")
        return []
    what = _controls(query, columns, what)
    kinds = {column["name"]: column["type"] for column in columns}
    across = (
        "number" if is_number(kinds[what.x]) else "time" if kinds[what.x].startswith(("DATE", "TIMESTAMP")) else "label"
    )
    drawn = sql_chart.drawable(rows, what)
    if not drawn:
        st.caption(f"Nothing to draw: no row has both {escape(what.x)} and {escape(what.y)}.")
        return []
    log = {"auto": None, "log": True, "linear": False}[query.scale]
    title = f"{what.y} by {what.x}"
    shade = theme()
    shown = sql_chart.result(rows, what, horizontal=across, logarithmic=log, theme=shade)
    chart(shown, key=f"{PAGE} picture", words=f"{title}: {said}")
    _left_out(rows, drawn, what)

    def draw() -> Any:
        return sql_chart.result(rows, what, horizontal=across, logarithmic=log, theme=shade, picture=True)

    return picture_files(
        stem(PAGE, "", position),
        draw,
        title,
        answer=said,
        footer=f"position {formatting.count(position)} · {formatting.count(len(drawn))} of {formatting.count(len(rows))} rows",
    )


def _controls(query: Query, columns: Sequence[Mapping[str, str]], what: Drawing) -> Drawing:
    """Show how it is drawn and let the reader change it; what is changed goes into the address."""
    names = [column["name"] for column in columns]
    heights = [column["name"] for column in columns if is_number(column["type"])]
    values = {"kind": what.kind, "x": what.x, "y": what.y, "colour": what.colour or OURS, "scale": query.scale}
    adopt(PAGE, query, values)
    for name, existing in (("x", names), ("y", heights), ("colour", [OURS, *names])):
        if st.session_state.get(widget(PAGE, name)) not in existing:
            st.session_state[widget(PAGE, name)] = values[name]
    bar = st.columns([2, 3, 3, 3, 2], vertical_alignment="bottom")
    bar[0].selectbox("Chart", KINDS, key=widget(PAGE, "kind"), filter_mode=None)
    bar[1].selectbox("Across (x)", names, key=widget(PAGE, "x"))
    bar[2].selectbox("Height (y)", heights, key=widget(PAGE, "y"))
    bar[3].selectbox("Colour", [OURS, *names], key=widget(PAGE, "colour"))
    bar[4].selectbox(
        "Scale of y",
        SCALES,
        key=widget(PAGE, "scale"),
        filter_mode=None,
        disabled=what.kind == "bar",
        help="Bars begin at zero.",
    )
    state = {name: st.session_state[widget(PAGE, name)] for name in values}
    if state != values:
        changed = {name: state[name] for name in values if state[name] != values[name]}
        if changed.get("colour") == OURS:
            changed["colour"] = ""
        go(PAGE, msgspec.structs.replace(query, **changed))
        st.rerun()
    return what


def _left_out(rows: Sequence[Any], drawn: Sequence[Any], what: Drawing) -> None:
    missing = sum(row.get(what.x) is None or row.get(what.y) is None for row in rows)
    lines = []
    if missing:
        lines.append(
            f"{formatting.count(missing)} rows have no {escape(what.x)} or no {escape(what.y)} and are not drawn."
        )
    if len(rows) - missing > len(drawn):
        lines.append(
            f"The first {formatting.count(len(drawn))} of {formatting.count(len(rows) - missing)} rows are drawn."
        )
    if what.colour and what.colour != "platform" and len({row.get(what.colour) for row in drawn}) > sql_chart.COLOURS:
        lines.append(
            f"{escape(what.colour)} has more than the {sql_chart.COLOURS} values that tints tell apart: one colour."
        )
    if lines:
        st.caption(" ".join(lines))


def _table(columns: Sequence[Mapping[str, str]], rows: Sequence[Sequence[Any]]) -> None:
    frame = pd.DataFrame(
        {place: _column([row[place] for row in rows], column["type"]) for place, column in enumerate(columns)},
    )
    heads = {
        place: st.column_config.Column(f"{column['name']} · {column['type'].lower()}", pinned=place == 0)
        for place, column in enumerate(columns)
    }
    st.dataframe(
        frame,
        hide_index=True,
        key=f"{PAGE} table",
        row_height=36,
        placeholder=formatting.MISSING,
        column_config={str(place): head for place, head in heads.items()},
        height="content" if len(rows) <= 12 else 460,
        alt="The rows of the result",
    )


def _column(values: list[Any], kind: str) -> Any:
    """Return one column as pandas holds it: whole numbers whole, what is missing missing, nested values as JSON text."""
    if kind.endswith("INT") or kind in ("INTEGER", "HUGEINT", "UBIGINT"):
        return (
            pd.array(values, dtype="Int64")
            if all(v is None or abs(v) < 2**63 for v in values)
            else [str(v) for v in values]
        )
    if is_number(kind):
        return pd.array([None if value is None else float(value) for value in values], dtype="Float64")
    return [msgspec.json.encode(value).decode() if isinstance(value, list | dict) else value for value in values]
