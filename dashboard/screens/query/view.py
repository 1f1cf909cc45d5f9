"""Query: what else do the tables say?"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import answers
from dashboard.address import SCALES
from dashboard.downloads import picture_files, stem
from dashboard.frame import (
    chart,
    colour_key,
    downloads,
    dropped,
    escape,
    folded,
    guarded,
    header,
    places,
    provenance,
    theme,
    trouble,
)
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
from dashboard.tables.result_table import Column, result_table
from domain.errors import UsageError
from presentation import formatting

__all__ = ["show"]

PAGE = "query"
LIMITS = (
    f"Read-only · {asked_for.TIMEOUT_S:g} s · 512 MiB · {formatting.count(asked_for.ROWS)} rows here, "
    f"{formatting.count(asked_for.FILE_ROWS)} in a file. A link never runs by itself."
)
OURS = "ours"
EDITOR = f"{PAGE} editor"
FILLED, RAN = f"{PAGE} filled", f"{PAGE} ran"
"""What stands in the editor, and the text that was run with the position at which it was."""
_MONO = f".st-key-{EDITOR.replace(' ', '-')} textarea {{font-family: 'Source Code Pro', ui-monospace, monospace; font-size: 14px}}"
LINKS = {"hardware_id": "hardware?id", "model_id": "models?id", "run_id": "runs?run", "event_id": "runs?row"}
"""Columns of names that have a page."""
_HERE = Path(__file__).parent
_completion = st.components.v2.component(
    "assay.completion",
    css=(_HERE / "complete.css").read_text("utf-8"),
    js=(_HERE / "complete.js").read_text("utf-8"),
    isolate_styles=False,
)


def show() -> None:
    """Show a result first, the editor beside it, and its picture below; an example runs where nobody asked for anything."""
    header("Query", "What else do the tables say?")
    with guarded("The service"):
        health = answers.ready()
        read = current(PAGE, read_query)
        dropped(read.dropped)
        query: Query = read.asked
        text = _filled(query, health["position"])
        at = health["position"] if query.as_of is None else query.as_of
        strip = st.container()
        left, right = st.columns([5, 3], gap="medium")
        below = st.container()
        with right, guarded("The editor"):
            views = asked_for.views(health.get("schema"))
            _editor(query, health["position"], views)
        ran = st.session_state.get(RAN)
        result = None
        with left, st.container(key="answer"):
            if ran and ran[0] == st.session_state.get(FILLED):
                result = _result(query, ran[0], ran[1], below)
            elif text:
                words = "The query in the editor has not been run. Read it, then press Run."
                st.info(words, icon=":material/play_arrow:")
        with strip:
            position = result["position"] if result else at
            fixed = addressed(ran[0], query) if result else query
            provenance(PAGE, f"position {formatting.count(position)}", msgspec.structs.replace(fixed, as_of=position))


def _filled(query: Query, position: int) -> str:
    """Fill the editor and return its text: that of the address, what stood there before, or an example, which runs."""
    text = unpacked(query.saved) if query.saved else query.q
    if not text and FILLED not in st.session_state:
        text = EXAMPLES[0].sql
        st.session_state[RAN] = (text, position)
    before = str(st.session_state.get(FILLED) or "")
    # Streamlit forgets what widgets hold while another page is shown.
    if (text and before != text) or EDITOR not in st.session_state:
        st.session_state[EDITOR] = st.session_state[FILLED] = text or before
    return text or before


def _editor(query: Query, position: int, views: Sequence[Mapping[str, Any]]) -> None:
    st.html(f"<style>{_MONO}</style>")
    with st.form(f"{PAGE} form", border=False):
        st.text_area(
            "SQL",
            key=EDITOR,
            height=200,
            max_chars=queries.LONGEST_SQL,
            placeholder="SELECT platform, count(*) AS n FROM measurements GROUP BY ALL",
        )
        run = st.form_submit_button(
            "Run",
            icon=":material/play_arrow:",
            help="Ctrl+Enter in the editor does the same; Tab takes a name that is offered",
        )
    st.caption(LIMITS)
    names = {view["name"]: [column["name"] for column in view["columns"]] for view in views}
    _completion(key=f"{PAGE} completion", data={"views": names}, height="content")
    with st.popover("Examples", icon=":material/lightbulb:", width="stretch"):
        for example in EXAMPLES:
            key = f"{PAGE} example {example.title}"
            st.button(example.title, key=key, type="tertiary", on_click=_begin, args=(example.sql, position))
    folded("Views and their columns", partial(_views, views, position), key=f"{PAGE} names")
    text = str(st.session_state.get(EDITOR) or "")
    if run and text.strip():
        view = addressed(text, query)
        st.session_state[FILLED] = text
        st.session_state[RAN] = (text, position)
        if view != query:
            go(PAGE, view)
            st.rerun()
    elif run:
        st.caption("Write a SELECT, or take an example.")


def _begin(sql: str, position: int) -> None:
    """Put a text of ours into the editor and the address, and run it."""
    st.session_state[EDITOR] = st.session_state[FILLED] = sql
    st.session_state[RAN] = (sql, position)
    go(PAGE, addressed(sql, Query()))


def _views(views: Sequence[Mapping[str, Any]], position: int) -> None:
    named = {view["name"]: view for view in views}
    chosen = st.selectbox(f"{len(views)} views", list(named), key=f"{PAGE} views")
    view = named[chosen]
    st.caption(f"One row is {escape(view['rows'])}. {escape(view['about'] or '')}")
    listed: Sequence[Mapping[str, Any]] = view["columns"]
    columns = [
        Column(head="Column", values=[column["name"] for column in listed]),
        Column(head="Unit", values=[column["unit"] or None for column in listed], shown=_bare(listed, "unit")),
        Column(head="Meaning", values=_bare(listed, "meaning")),
        Column(head="Type", values=[column["type"].lower() for column in listed]),
    ]
    result_table(columns, key=f"{PAGE} columns", words=f"Columns of the view {chosen}", height=314)
    st.button(
        f"Begin with {chosen}",
        key=f"{PAGE} begin",
        on_click=_begin,
        args=(f"SELECT *\nFROM {chosen}\nLIMIT 100", position),
        icon=":material/north_east:",
    )


def _bare(columns: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    """Return words about columns without the marks of code."""
    return [str(column[name] or "").replace("`", "") for column in columns]


def _result(query: Query, sql: str, position: int, below: DeltaGenerator) -> dict[str, Any] | None:
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
    answered = f" · {formatting.significant(took)}{formatting.SPACE}s" if took > 0.05 else ""
    title = next((f"{example.title}: " for example in EXAMPLES if example.sql == sql), "")
    st.markdown(f"**{escape(title + said)}**:small[{escape(answered)}]")
    if rows:
        _table(result["columns"], result["rows"])
    if len(addressed(sql, query).q + addressed(sql, query).saved) == 0:
        st.caption("This query is too long for an address: keep its text to come back to it.")
    files: list[Any] = [
        ("CSV", f"{_name(result)}.csv", "text/csv", asked_for.filer(sql, "text/csv", position, query.as_of)),
        (
            "Parquet",
            f"{_name(result)}.parquet",
            "application/vnd.apache.parquet",
            asked_for.filer(sql, "application/vnd.apache.parquet", position, query.as_of),
        ),
        ("The SQL", f"{_name(result)}.sql", "application/sql", sql.encode),
    ]
    with below:
        if len(set(heads)) < len(heads):
            st.info("Two columns have one name: give one another with AS, and the result is drawn too.")
        elif rows:
            with guarded("The chart"):
                files += _chart(query, result["columns"], rows, said, result["position"])
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
    colour_key(sql_chart.key(rows, what, shade))
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
    bar = places(2, 2, 2, 2, 2)
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
    """Show the rows of a result: numbers as they came, names that have a page as links."""
    shown = []
    for place, column in enumerate(columns):
        values = [_value(row[place]) for row in rows]
        link = LINKS.get(column["name"])
        links = [f"{link}={quote(str(value))}" if link and value is not None else None for value in values]
        words = [_words(value) for value in values]
        shown.append(
            Column(
                head=column["name"],
                values=values,
                shown=words,
                links=links if link else None,
                help=column["type"].lower(),
            )
        )
    result_table(shown, key=f"{PAGE} table", words="The rows of the result", height=460)


def _value(value: Any) -> str | float | None:
    """Return a value of a result by which its column sorts: a number, or its text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return msgspec.json.encode(value).decode()
    return value if value is None or isinstance(value, int | float | str) else str(value)


def _words(value: str | float | None) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return formatting.MISSING
    return f"{value:.7g}" if isinstance(value, float) else str(value)
