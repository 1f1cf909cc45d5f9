"""Compatibility: does it run here, does it run right, and what should I try if not?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
import streamlit as st

from dashboard import answers, menu
from dashboard.address import parameters
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
)
from dashboard.page_state import adopt, current, go, turn, widget
from dashboard.screens.compatibility import query as asking
from dashboard.screens.compatibility import words as cells
from dashboard.screens.compatibility.cell_view import MAPS, show_cell
from dashboard.screens.compatibility.heat_map import CELL, heat_map
from dashboard.screens.compatibility.words import CLASSES, LEVELS, PAGE_ROWS, STALE, Matrix
from dashboard.tables.result_table import result_table
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
FAILING = 4
"""Failures that are shown before the others are asked for."""


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
        with guarded("The matrix"):
            totals = asking.matrix(cells.by_model(matrix), at)
            said = cells.sentence(totals)
            with st.container(key="answer"):
                st.subheader(escape(said), anchor=False)
            failures = cells.some_did_not(totals)
            _bar(matrix, at, failures=failures)
            if failures and not matrix.model:
                _failing(matrix, at)
            _matrix(matrix, said, at)


def _values(matrix: Matrix) -> dict[str, str | bool | list[str] | None]:
    plain = {name: getattr(matrix, name) or None for name in ("category", "hw")}
    lists = {name: list(getattr(matrix, name)) for name in _LISTS}
    found = {"find": matrix.model or matrix.family or None}
    return found | plain | lists | {name: getattr(matrix, name) for name in ("level", "stale", "claims")}


def _bar(matrix: Matrix, at: int, *, failures: bool) -> None:
    """Offer the search and the filters; where there are `failures`, the rows with them alone."""
    families = [*sorted({str(item.family) for item in catalogue()} | {matrix.family} - {""}), "unknown"]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.selectbox(
            "Family or model",
            list(dict.fromkeys([*families, *filter(None, [matrix.model])])),
            index=None,
            key=widget(PAGE, "find"),
            accept_new_options=True,
            placeholder="Search a family or model",
            label_visibility="collapsed",
            width=360,
        )
        st.segmented_control(
            "Rows",
            LEVELS,
            key=widget(PAGE, "level"),
            required=True,
            format_func={"family": "Families", "model": "Models"}.__getitem__,
            label_visibility="collapsed",
        )
        with st.popover(_filters(matrix), icon=":material/tune:", key=f"{PAGE} filters"):
            _more_filters(matrix, at)
        if matrix.state:
            words, icon = "Show all rows", ":material/filter_alt_off:"
            st.button(words, icon=icon, key=f"{PAGE} all", on_click=_choose, args=((),))
        elif failures:
            words, icon = "Only rows with failures", ":material/filter_alt:"
            st.button(words, icon=icon, key=f"{PAGE} did not", on_click=_choose, args=(cells.DID_NOT,))
    _adopt_bar(matrix, families)


def _more_filters(matrix: Matrix, at: int) -> None:
    st.selectbox("Category", [*CATEGORIES, "unknown"], index=None, key=widget(PAGE, "category"), placeholder="All")
    existing = [row.id for row in answers.hardware(at)]
    devices = list(dict.fromkeys([*existing, *([matrix.hw] if matrix.hw else [])]))
    st.selectbox("Hardware", devices, index=None, key=widget(PAGE, "hw"), placeholder="All")
    platforms = list(dict.fromkeys([*PLATFORMS, *matrix.platform]))
    st.multiselect("Platform", platforms, key=widget(PAGE, "platform"), select_all=False)
    st.multiselect(
        "With a cell that is",
        list(STATES),
        key=widget(PAGE, "state"),
        select_all=False,
        help="Rows with at least one such cell.",
    )
    st.selectbox("Stale", STALE, key=widget(PAGE, "stale"), filter_mode=None, help="Last tried over 180 days ago.")
    st.toggle(
        "Claims",
        key=widget(PAGE, "claims"),
        disabled=bool(matrix.hw),
        help="Add what documents claim and nobody tried here, hollow.",
    )


def _adopt_bar(matrix: Matrix, families: Sequence[str]) -> None:
    """Make what the widgets hold the address."""
    state = {name: st.session_state.get(widget(PAGE, name)) for name in _values(matrix)}
    name = (state["find"] or "").strip()
    model = "" if name in families else name
    chosen = msgspec.structs.replace(
        matrix,
        level="model" if model and model != matrix.model else state["level"] or matrix.level,
        family=name if name in families else "",
        model=model,
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
    """Say how many filters hold."""
    default = Matrix()
    names = ("category", "hw", "platform", "state", "stale", "claims")
    held = sum(getattr(matrix, name) != getattr(default, name) for name in names)
    return f"Filters ({held})" if held else "Filters"


def _matrix(matrix: Matrix, said: str, at: int) -> None:
    answer = asking.matrix(cells.request(matrix), at)
    rows = answer.items
    if not rows:
        _nothing(matrix, answer, at)
        return
    _open_cell(matrix, rows, at)
    _legend(rows)
    drawn = heat_map(rows, answer.platforms, selected=matrix.sel, theme=theme())
    key = f"{PAGE} map {st.session_state.get(MAPS, 0)}"
    with st.container(width=min(FULL, NAMES + COLUMN * (len(answer.platforms) + 1))):
        chart(drawn, key=key, words=f"Compatibility: {said}", selected=partial(_clicked, matrix, key), among=CELL)
    _turn_pages(matrix, answer)
    folded("The same as a table", partial(_table, rows, matrix), key=f"{PAGE} folded", icon=":material/table_rows:")
    _downloads(matrix, at, answer, said)


def _failing(matrix: Matrix, at: int) -> None:
    """Show what did not work, the worst first."""
    with guarded("What did not work"):
        columns = cells.failing_columns(asking.matrix(cells.failing(matrix), at).items, matrix)
        if columns[0].values:
            result_table(columns, key=f"{PAGE} failing", words="What did not work", at_once=FAILING, height=300)


def _choose(states: Sequence[str]) -> None:
    """Choose the rows with such a cell, by the filter, which shows it."""
    st.session_state[widget(PAGE, "state")] = list(states)


def _table(rows: Sequence[MatrixRow], matrix: Matrix) -> None:
    result_table(cells.known_columns(rows, matrix), key=f"{PAGE} table", words="The cells of the matrix", height=500)


def _clicked(matrix: Matrix, key: str) -> None:
    """Open the cell that was clicked on."""
    result = st.session_state[key].selection.get(CELL) or []
    # The sums beside the cells can be clicked on too, and have no id.
    if result and result[0].get("id"):
        go(PAGE, msgspec.structs.replace(matrix, sel=str(result[0]["id"])))


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


def _open_cell(matrix: Matrix, rows: Sequence[MatrixRow], at: int) -> None:
    """Open the cell that the address names, on whatever page of the matrix it is."""
    if not matrix.sel:
        return
    known_cell = cells.known_cell(rows, matrix.sel) or cells.known_cell(
        asking.matrix(cells.alone(matrix), at).items, matrix.sel
    )
    if known_cell is None:
        st.info(f"Nothing was tried of {escape(matrix.sel.replace('~', ' on '))}.")
        return
    show_cell(matrix, *known_cell, at)


def _nothing(matrix: Matrix, answer: CompatibilityMatrix, at: int) -> None:
    near = asking.near(matrix.model, at) if matrix.model else []
    if near:
        st.caption("Did you mean")
        for name in near:
            query = parameters(msgspec.structs.replace(matrix, model=name))
            st.page_link(menu.page(PAGE), label=escape(name), query_params=query)
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
