"""Compatibility: does it run here, does it run right, and what should I try if not?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

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
from dashboard.screens.compatibility import query as asking
from dashboard.screens.compatibility import words as cells
from dashboard.screens.compatibility.cell_view import show_cell
from dashboard.screens.compatibility.heat_map import CELL, heat_map
from dashboard.screens.compatibility.words import CLASSES, LEVELS, PAGE_ROWS, STALE, Matrix
from domain.answers.compatibility import CompatibilityMatrix, MatrixRow
from domain.catalogues.models import catalogue
from domain.compatibility.states import STATES
from domain.vocabulary import CATEGORIES, PLATFORMS
from presentation import formatting

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
        matrix: Matrix = read.asked
        at = answers.ready()["position"] if matrix.as_of is None else matrix.as_of
        with st.container():
            provenance(PAGE, f"position {formatting.count(at)}", msgspec.structs.replace(matrix, as_of=at))
        adopt(PAGE, matrix, _values(matrix))
        _bar(matrix, at)
        with guarded("The matrix"):
            _matrix(matrix, at)


def _values(matrix: Matrix) -> dict[str, str | bool | list[str] | None]:
    plain = {name: getattr(matrix, name) or None for name in ("family", "category", "hw", "sel")}
    lists = {name: list(getattr(matrix, name)) for name in _LISTS}
    return plain | lists | {name: getattr(matrix, name) for name in ("level", "stale", "claims")}


def _bar(matrix: Matrix, at: int) -> None:
    first = places(2, 2, 2, 2, 2)
    families = [*sorted({str(item.family) for item in catalogue()} | {matrix.family} - {""}), "unknown"]
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
    existing = [row.id for row in answers.hardware(at)]
    first[3].selectbox(
        "Hardware",
        list(dict.fromkeys([*existing, *([matrix.hw] if matrix.hw else [])])),
        index=None,
        key=widget(PAGE, "hw"),
        placeholder="All",
    )
    first[4].toggle(
        "Claims",
        key=widget(PAGE, "claims"),
        disabled=bool(matrix.hw),
        help="Add what documents claim and nobody tried here, hollow.",
    )
    with st.expander(escape(_filters(matrix)), icon=":material/tune:", key=f"{PAGE} filters"):
        second = st.columns([3, 3, 2])
        platforms = list(dict.fromkeys([*PLATFORMS, *matrix.platform]))
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
    state = {name: st.session_state.get(widget(PAGE, name)) for name in _values(matrix)}
    chosen = msgspec.structs.replace(
        matrix,
        level=state["level"] or matrix.level,
        family=state["family"] or "",
        category=state["category"] or "",
        hw=state["hw"] or "",
        platform=tuple(state["platform"]),
        state=tuple(state["state"]),
        stale=state["stale"],
        claims=bool(state["claims"]),
    )
    if chosen != matrix:
        # Another matrix has other pages, and other cells.
        turn(PAGE, msgspec.structs.replace(chosen, page=1, sel=""))


def _filters(matrix: Matrix) -> str:
    """Name the filters that are folded, with what they hold."""
    stale = {"yes": "stale", "no": "not stale"}.get(matrix.stale)
    held = [", ".join(matrix.platform), ", ".join(matrix.state), stale]
    return " · ".join(["Filters", *filter(None, held)])


def _matrix(matrix: Matrix, at: int) -> None:
    answer = asking.matrix(cells.request(matrix), at)
    rows = answer.items
    if not rows:
        _nothing(matrix, answer)
        return
    said = cells.sentence(answer, matrix.level)
    with st.container(key="answer"):
        st.subheader(escape(said), anchor=False)
    if matrix.state:
        st.button("Show all rows", icon=":material/filter_alt_off:", key=f"{PAGE} all", on_click=_choose, args=((),))
    elif cells.some_did_not(answer):
        words = "Show rows where one did not"
        st.button(words, icon=":material/filter_alt:", key=f"{PAGE} did not", on_click=_choose, args=(cells.DID_NOT,))
    drawn = heat_map(rows, answer.platforms, selected=matrix.sel, theme=theme())
    with st.container(width=min(FULL, NAMES + COLUMN * (len(answer.platforms) + 1))):
        chart(drawn, key=f"{PAGE} map", words=f"Compatibility: {said}", selected=_clicked, among=CELL)
    _legend(rows)
    _turn_pages(matrix, answer)
    _chosen_cell(matrix, rows, at)
    folded("The same as a table", partial(_table, rows), key=f"{PAGE} folded", icon=":material/table_rows:")
    _downloads(matrix, at, answer, said)


def _choose(states: Sequence[str]) -> None:
    """Choose the rows with such a cell, by the filter, which shows it."""
    st.session_state[widget(PAGE, "state")] = list(states)


def _table(rows: Sequence[MatrixRow]) -> None:
    st.dataframe(
        cells.known_table(rows),
        hide_index=True,
        key=f"{PAGE} table",
        row_height=36,
        placeholder=formatting.MISSING,
        height=500,
        column_config={"Name": st.column_config.Column(pinned=True)},
        alt="The cells of the matrix",
    )


def _clicked() -> None:
    """Open the cell that was clicked on; a click on nothing leaves the open one open."""
    result = st.session_state[f"{PAGE} map"].selection.get(CELL) or []
    # The sums beside the cells can be clicked on too, and have no id.
    if result and result[0].get("id"):
        st.session_state[widget(PAGE, "sel")] = str(result[0]["id"])


def _legend(rows: Sequence[MatrixRow]) -> None:
    present = {cells.class_of(cell) for row in rows for cell in row.cells}
    words = [f"{value.glyph} {value.meaning}" for name, value in CLASSES.items() if name in present]
    extra = " M memory, T time, E error, ↘ fell back." if present & {"failed", "part"} else ""
    st.caption(
        escape(" · ".join(words)) + f". An empty place: nobody tried it.{extra} Heads and the last column count models."
    )


def _turn_pages(matrix: Matrix, answer: CompatibilityMatrix) -> None:
    pages = -(-answer.total // PAGE_ROWS)
    if pages <= 1:
        return
    turned = st.pagination(pages, default=matrix.page, key=f"{PAGE} pages at {matrix.page}")
    if turned != matrix.page:
        turn(PAGE, msgspec.structs.replace(matrix, page=turned, sel=""))


def _chosen_cell(matrix: Matrix, rows: Sequence[MatrixRow], at: int) -> None:
    names = [cells.name_of_cell(row.name, cell.platform) for row in rows for cell in row.cells]
    options = names if not matrix.sel or matrix.sel in names else [matrix.sel, *names]
    chosen = st.selectbox(
        "Open a cell",
        options,
        index=None,
        key=widget(PAGE, "sel"),
        placeholder="Click on the map, or type a name",
        format_func=lambda name: name.replace("~", " on "),
    )
    if (chosen or "") != matrix.sel:
        go(PAGE, msgspec.structs.replace(matrix, sel=chosen or ""))
        st.rerun()
    if not matrix.sel:
        return
    known_cell = cells.known_cell(rows, matrix.sel) or cells.known_cell(
        asking.matrix(cells.alone(matrix), at).items, matrix.sel
    )
    if known_cell is None:
        st.info(f"Nothing was tried of {escape(matrix.sel.replace('~', ' on '))}.")
        return
    with guarded("The cell"):
        show_cell(matrix, *known_cell, at)


def _nothing(matrix: Matrix, answer: CompatibilityMatrix) -> None:
    if matrix == Matrix(level=matrix.level, as_of=matrix.as_of):
        st.info("Nothing was tried yet. This tests a model on every platform of this machine:")
        to_paste("assay verify bert-base-uncased")
        st.caption("Claims, above, shows what documents say until then.")
        return
    st.info(
        f"No row has all of that. The matrix has {formatting.count(answer.total)} pages' worth of rows under these filters."
    )
    if st.button("Reset filters", key=f"{PAGE} reset"):
        turn(PAGE, Matrix(level=matrix.level, as_of=matrix.as_of))


def _downloads(matrix: Matrix, at: int, answer: CompatibilityMatrix, said: str) -> None:
    rows, platforms = answer.items, answer.platforms
    subject = "_".join(part for part in (matrix.level, matrix.family, matrix.category, matrix.hw) if part)
    name, shade = stem(PAGE, subject, at), theme()
    footer = f"position {formatting.count(at)} · rows {formatting.count(len(rows))} of {formatting.count(answer.total)}"
    draw = partial(heat_map, rows, platforms, theme=shade, picture=True)
    flat = cells.wide(rows, [platform.platform for platform in platforms])
    downloads(
        [
            *asking.matrix_files(name, cells.request(matrix), at),
            ("CSV, one column a platform", f"{name}_wide.csv", "text/csv", table_files(name, flat, as_of=at)[0][3]),
            *picture_files(name, draw, "Compatibility", answer=said, footer=footer),
            ("Report, HTML", f"{name}_report.html", "text/html", answers.reporter("compatibility", None, at)),
        ],
        PAGE,
    )
