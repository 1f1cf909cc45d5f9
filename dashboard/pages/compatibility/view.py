"""Compatibility: does it run here, does it run right, and what should I try if not?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import streamlit as st

from dashboard import answers
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import (
    chart,
    downloads,
    dropped,
    escape,
    folded,
    guarded,
    header,
    places,
    provenance,
    theme,
    to_paste,
)
from dashboard.page_state import adopt, current, go, turn, widget
from dashboard.pages.compatibility import query as asking
from dashboard.pages.compatibility import words as cells
from dashboard.pages.compatibility.cell_view import show_cell
from dashboard.pages.compatibility.words import CLASSES, LEVELS, PAGE_ROWS, STALE, Matrix
from domain.catalogues.models import catalogue
from domain.compatibility.states import STATES
from domain.vocabulary import CATEGORIES, PLATFORMS
from presentation import formatting
from presentation.charts.heat_map import CELL, heat_map

__all__ = ["show"]

PAGE = "compatibility"
FULL, NAMES, COLUMN = 1180, 190, 110
"""Pixels: as wide as the page, for the names of rows, and for a column; a map of few platforms is no wider than it needs."""
_LISTS = ("platform", "state")


def show() -> None:
    """Show what was seen of each family or model on each platform, and behind an open cell why."""
    header("Compatibility", "Does it run here, does it run right, and what should I try if not?")
    with guarded("The service"):
        read = current(PAGE, cells.read_matrix)
        dropped(read.dropped)
        asked: Matrix = read.asked
        at = answers.ready()["position"] if asked.as_of is None else asked.as_of
        with st.container():
            provenance(PAGE, f"position {formatting.count(at)}", msgspec.structs.replace(asked, as_of=at))
        adopt(PAGE, asked, _values(asked))
        _bar(asked, at)
        with guarded("The matrix"):
            _matrix(asked, at)


def _values(asked: Matrix) -> dict[str, Any]:
    plain = {name: getattr(asked, name) or None for name in ("family", "category", "hw", "sel")}
    lists = {name: list(getattr(asked, name)) for name in _LISTS}
    return plain | lists | {name: getattr(asked, name) for name in ("level", "stale", "claims")}


def _bar(asked: Matrix, at: int) -> None:
    first = places(2, 2, 2, 2, 2)
    families = [*sorted({str(one.family) for one in catalogue()} | {asked.family} - {""}), "unknown"]
    first[0].segmented_control("Rows", LEVELS, key=widget(PAGE, "level"), required=True)
    first[1].selectbox(
        "Family",
        list(dict.fromkeys(families)),
        index=None,
        key=widget(PAGE, "family"),
        accept_new_options=True,
        placeholder="All",
    )
    first[2].selectbox(
        "Category", [*CATEGORIES, "unknown"], index=None, key=widget(PAGE, "category"), placeholder="All"
    )
    known = [str(row["id"]) for row in answers.hardware(at)]
    first[3].selectbox(
        "Hardware", list(dict.fromkeys([*known, *([asked.hw] if asked.hw else [])])), index=None, key=widget(PAGE, "hw"),
        placeholder="All",
    )  # fmt: skip
    first[4].toggle(
        "Claims",
        key=widget(PAGE, "claims"),
        disabled=bool(asked.hw),
        help="Add what documents claim and nobody tried here, hollow.",
    )
    with st.expander(escape(_filters(asked)), icon=":material/tune:", key=f"{PAGE} filters"):
        second = st.columns([3, 3, 2])
        platforms = list(dict.fromkeys([*PLATFORMS, *asked.platform]))
        second[0].multiselect("Platform", platforms, key=widget(PAGE, "platform"), select_all=False)
        second[1].multiselect(
            "With a cell that is",
            list(STATES),
            key=widget(PAGE, "state"),
            select_all=False,
            help="Rows with at least one such cell.",
        )
        second[2].selectbox(
            "Stale", STALE, key=widget(PAGE, "stale"), filter_mode=None, help="Last tried over 180 days ago."
        )
    state = {name: st.session_state.get(widget(PAGE, name)) for name in _values(asked)}
    chosen = msgspec.structs.replace(
        asked, level=state["level"] or asked.level, family=state["family"] or "", category=state["category"] or "",
        hw=state["hw"] or "", platform=tuple(state["platform"]), state=tuple(state["state"]), stale=state["stale"],
        claims=bool(state["claims"]),
    )  # fmt: skip
    if chosen != asked:
        # Another matrix has other pages, and other cells.
        turn(PAGE, msgspec.structs.replace(chosen, page=1, sel=""))


def _filters(asked: Matrix) -> str:
    """Name the filters that are folded, with what they hold."""
    stale = {"yes": "stale", "no": "not stale"}.get(asked.stale)
    held = [", ".join(asked.platform), ", ".join(asked.state), stale]
    return " · ".join(["Filters", *filter(None, held)])


def _matrix(asked: Matrix, at: int) -> None:
    answer = asking.matrix(cells.request(asked), at)
    rows: list[dict[str, Any]] = answer["items"]
    if not rows:
        _nothing(asked, answer)
        return
    said = cells.sentence(answer, asked.level)
    with st.container(key="answer"):
        st.subheader(escape(said), anchor=False)
    if asked.state:
        st.button("Show all rows", icon=":material/filter_alt_off:", key=f"{PAGE} all", on_click=_choose, args=((),))
    elif cells.some_did_not(answer):
        words = "Show rows where one did not"
        st.button(words, icon=":material/filter_alt:", key=f"{PAGE} did not", on_click=_choose, args=(cells.DID_NOT,))
    drawn = heat_map(rows, answer["platforms"], selected=asked.sel, theme=theme())
    with st.container(width=min(FULL, NAMES + COLUMN * (len(answer["platforms"]) + 1))):
        chart(drawn, key=f"{PAGE} map", words=f"Compatibility: {said}", selected=_clicked, among=CELL)
    _legend(rows)
    _turn_pages(asked, answer)
    _chosen_cell(asked, rows, at)
    folded("The same as a table", partial(_table, rows), key=f"{PAGE} folded", icon=":material/table_rows:")
    _downloads(asked, at, answer, said)


def _choose(states: Sequence[str]) -> None:
    """Choose the rows with such a cell, by the filter, which shows it."""
    st.session_state[widget(PAGE, "state")] = list(states)


def _table(rows: Sequence[Mapping[str, Any]]) -> None:
    st.dataframe(
        cells.known_table(rows), hide_index=True, key=f"{PAGE} table", row_height=36, placeholder=formatting.MISSING, height=500,
        column_config={"Name": st.column_config.Column(pinned=True)}, alt="The cells of the matrix",
    )  # fmt: skip


def _clicked() -> None:
    """Open the cell that was clicked on; a click on nothing leaves the open one open."""
    found = st.session_state[f"{PAGE} map"].selection.get(CELL) or []
    # The sums beside the cells can be clicked on too, and have no id.
    if found and found[0].get("id"):
        st.session_state[widget(PAGE, "sel")] = str(found[0]["id"])


def _legend(rows: Sequence[Mapping[str, Any]]) -> None:
    present = {cells.class_of(cell) for row in rows for cell in row["cells"]}
    words = [f"{one.glyph} {one.meaning}" for name, one in CLASSES.items() if name in present]
    extra = " M memory, T time, E error, ↘ fell back." if present & {"failed", "part"} else ""
    st.caption(
        escape(" · ".join(words)) + f". An empty place: nobody tried it.{extra} Heads and the last column count models."
    )


def _turn_pages(asked: Matrix, answer: Mapping[str, Any]) -> None:
    pages = -(-answer["total"] // PAGE_ROWS)
    if pages <= 1:
        return
    turned = st.pagination(pages, default=asked.page, key=f"{PAGE} pages at {asked.page}")
    if turned != asked.page:
        turn(PAGE, msgspec.structs.replace(asked, page=turned, sel=""))


def _chosen_cell(asked: Matrix, rows: Sequence[Mapping[str, Any]], at: int) -> None:
    names = [cells.name_of_cell(row["name"], cell["platform"]) for row in rows for cell in row["cells"]]
    options = names if not asked.sel or asked.sel in names else [asked.sel, *names]
    chosen = st.selectbox(
        "Open a cell", options, index=None, key=widget(PAGE, "sel"), placeholder="Click on the map, or type a name",
        format_func=lambda name: name.replace("~", " on "),
    )  # fmt: skip
    if (chosen or "") != asked.sel:
        go(PAGE, msgspec.structs.replace(asked, sel=chosen or ""))
        st.rerun()
    if not asked.sel:
        return
    found = cells.known_cell(rows, asked.sel) or cells.known_cell(
        asking.matrix(cells.alone(asked), at)["items"], asked.sel
    )
    if found is None:
        st.info(f"Nothing was tried of {escape(asked.sel.replace('~', ' on '))}.")
        return
    with guarded("The cell"):
        show_cell(asked, *found, at)


def _nothing(asked: Matrix, answer: Mapping[str, Any]) -> None:
    if asked == Matrix(level=asked.level, as_of=asked.as_of):
        st.info("Nothing was tried yet. This tests a model on every platform of this machine:")
        to_paste("assay verify bert-base-uncased")
        st.caption("Claims, above, shows what documents say until then.")
        return
    st.info(
        f"No row has all of that. The matrix has {formatting.count(answer['total'])} pages' worth of rows under these filters."
    )
    if st.button("Reset filters", key=f"{PAGE} reset"):
        turn(PAGE, Matrix(level=asked.level, as_of=asked.as_of))


def _downloads(asked: Matrix, at: int, answer: Mapping[str, Any], said: str) -> None:
    rows, platforms = answer["items"], answer["platforms"]
    subject = "_".join(part for part in (asked.level, asked.family, asked.category, asked.hw) if part)
    name, shade = stem(PAGE, subject, at), theme()
    footer = (
        f"position {formatting.count(at)} · rows {formatting.count(len(rows))} of {formatting.count(answer['total'])}"
    )
    long = [{"name": row["name"], "category": row["category"], **cell} for row in rows for cell in row["cells"]]

    def draw() -> Any:
        return heat_map(rows, platforms, theme=shade, picture=True)

    flat = cells.wide(rows, [one["platform"] for one in platforms])
    downloads(
        [
            *table_files(name, long, as_of=at),
            ("CSV, one column a platform", f"{name}_wide.csv", "text/csv", table_files(name, flat, as_of=at)[0][3]),
            *picture_files(name, draw, "Compatibility", answer=said, footer=footer),
            ("Report, HTML", f"{name}_report.html", "text/html", answers.reporter("compatibility", None, at)),
        ],
        PAGE,
    )  # fmt: skip
