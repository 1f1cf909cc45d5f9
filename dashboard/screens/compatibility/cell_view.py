"""One cell of the matrix: how cases ended, what stopped them and what to try, the events behind it, what documents claim."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from urllib.parse import quote, urlencode

import msgspec
import streamlit as st

from dashboard.best_measured import known_words
from dashboard.evidence import about, row_path
from dashboard.frame import escape, guarded, zone
from dashboard.page_state import go
from dashboard.screens.compatibility import query as asking
from dashboard.screens.compatibility import words
from dashboard.screens.compatibility.words import Matrix
from dashboard.tables.result_table import Column, columns_of, filled, result_table
from domain.answers.compatibility import CellCase, CellMeasurement, MatrixCell, MatrixRow, StoppedCases
from domain.compatibility.remedies import failures
from presentation import formatting
from presentation.answer_words import device_name

__all__ = ["MAPS", "show_cell"]

PAGE = "compatibility"
MOST_ROWS = 50
MAPS = f"{PAGE} maps"
"""How often the map was drawn anew."""


def show_cell(matrix: Matrix, row: MatrixRow, cell: MatrixCell, at: int) -> None:
    """Show over the page what stands behind a cell: evidence first, then claims in words of their own."""
    name, platform = row.name, cell.platform

    def show() -> None:
        with guarded("The cell"):
            if cell.models:
                _seen(matrix, row, platform, at)
            else:
                model = "MODEL" if matrix.level == "family" else name
                st.markdown(f"Nobody tried it here. This would: `assay verify {model} --platform {platform}`")
            if cell.claims:
                _claims(cell, platform, at)

    title = escape(f"{name} on {platform}: {_summed(cell)}")
    st.dialog(title, width="large", on_dismiss=partial(_close, matrix))(show)()


def _close(matrix: Matrix) -> None:
    """Take the cell out of the address, and have the map drawn anew: it would not tell of a click on the same cell again."""
    go(PAGE, msgspec.structs.replace(matrix, sel=""))
    st.session_state[MAPS] = st.session_state.get(MAPS, 0) + 1


def _summed(cell: MatrixCell) -> str:
    if not cell.models:
        return f"claimed {cell.claimed}, nobody tried it"
    level = f", level {cell.level}" if cell.level else ""
    if cell.states:
        return f"{cell.working} of {cell.models} models ran{level}"
    speed = f", {formatting.factor(cell.speedup)} the plain CPU's speed" if cell.speedup else ""
    return f"{cell.state}{level}{speed}"


def _seen(matrix: Matrix, row: MatrixRow, platform: str, at: int) -> None:
    if matrix.level == "family" and row.family is None:
        st.markdown(
            f"Nobody said of which family these models are. [They one by one](/{PAGE}?level=model&family=unknown)"
        )
        return
    subject = {"family": row.family, "category": row.category} if matrix.level == "family" else {"model": row.name}
    question = {**subject, "platform": platform, "hardware": matrix.hw or None}
    cells = asking.cells({key: value for key, value in question.items() if value is not None}, at)
    left, right = st.columns([2, 3], gap="large")
    with left:
        _stages(cells)
        st.markdown(" · ".join(_links(matrix, row, platform)))
    with right:
        _errors(cells)
    table = words.outcomes(cells, zone())
    links: dict[str, list[str | None]] = {
        "Model": [about("models", name) for name in table["Model"]],
        "Seen": [row_path(event) if event else None for event in table.pop("Evidence")],
    }
    result_table(
        columns_of(table, links=links, tips={"Seen": "It leads to the newest event behind it"}),
        key=f"{PAGE} outcomes",
        words="Outcomes by model and precision",
        height=400,
    )
    if matrix.level == "model":
        with guarded("What was measured"):
            _measured(row.name, platform, matrix.hw or None, at)


def _links(matrix: Matrix, row: MatrixRow, platform: str) -> list[str]:
    if matrix.level == "family":
        return [f"[Its models one by one](/{PAGE}?level=model&family={quote(str(row.family))})"]
    name, platform = quote(row.name), quote(platform)
    return [
        f"[The model](/models?id={name})",
        f"[Compare hardware](/compare?model={name}&platform={platform})",
        f"[Over time](/trends?model={name}&platform={platform})",
    ]


def _stages(rows: Sequence[CellCase]) -> None:
    st.markdown("**How cases ended**")
    lines = [
        f"- {escape(stage)}: {formatting.count(count)}{f' ({escape(kinds)})' if kinds else ''}"
        for stage, count, kinds in words.stages(rows)
    ]
    st.markdown("\n".join(lines) or "Nothing that was tried came to an end.")


def _errors(rows: Sequence[CellCase]) -> None:
    stopped = msgspec.convert(failures(map(msgspec.structs.asdict, rows)), list[StoppedCases])
    if not stopped:
        return
    st.markdown("**What stopped them, and what to try**")
    for item in stopped[:5]:
        where = " at ".join(str(part) for part in (item.error or item.outcome, item.stage) if part)
        models = ", ".join(item.of[:3]) + (f" and {len(item.of) - 3} more" if len(item.of) > 3 else "")
        st.markdown(
            f"{escape(where)} :gray[{escape(item.cause)} · {escape(models)}]  \n"
            + (f":small[{escape(item.message.partition(chr(10))[0])}]  \n" if item.message else "")
            + f"**Try:** {escape(item.remedy) if item.remedy else item.advice}"
        )
    if len(stopped) > 5:
        st.caption(f"{len(stopped) - 5} more kinds of errors are in the table below.")


def _measured(model: str, platform: str, hardware: str | None, at: int) -> None:
    result = asking.measured(model, platform, hardware, at)
    if not result:
        return
    st.markdown("**What was measured** :gray[the best of each configuration, fastest an item first]")
    result_table(_measured_columns(result[:MOST_ROWS]), key=f"{PAGE} measured", words="What was measured", height=400)
    if len(result) > MOST_ROWS:
        st.caption(f"The first {MOST_ROWS} of {formatting.count(len(result))}; Compare has all.")


def _measured_columns(rows: Sequence[CellMeasurement]) -> list[Column]:
    scale = formatting.latency_scale([row.latency_ms for row in rows])
    columns = [
        Column(
            head="Hardware",
            values=[device_name(row.hardware) for row in rows],
            links=[about("hardware", row.hardware) for row in rows],
        ),
        Column(
            head="Latency",
            values=[row.latency_ms for row in rows],
            shown=[
                scale.show(row.latency_ms, row.latency_ms_low, row.latency_ms_high)
                + (" (mean)" if row.latency_is_mean and row.latency_ms is not None else "")
                for row in rows
            ],
            low=[row.latency_ms_low for row in rows],
            high=[row.latency_ms_high for row in rows],
            help="Of one call, with the 95 % interval where one was measured",
        ),
        Column(
            head="Throughput",
            values=[row.throughput_per_s for row in rows],
            shown=[formatting.throughput(row.throughput_per_s) for row in rows],
        ),
        Column(head="Precision", values=[row.precision for row in rows]),
        Column(head="Mode", values=[row.mode for row in rows]),
        Column(head="Batch", values=[row.batch_size for row in rows]),
        Column(head="n", values=[row.n for row in rows]),
        Column(
            head="Known",
            values=[known_words(row.basis) for row in rows],
            links=[f"runs?{urlencode({'run': row.run_id})}" if row.run_id else None for row in rows],
            help="How the figure is known; it leads to the run",
        ),
        Column(head="Verdict", values=[row.verdict for row in rows]),
        Column(head="Measured", values=[formatting.when(row.time, zone()) if row.time else None for row in rows]),
    ]
    return filled(columns)


def _claims(cell: MatrixCell, platform: str, at: int) -> None:
    about = set(cell.claims)
    matching_claims = [claim for claim in asking.claims(platform, at) if claim.id in about]
    st.markdown("**What documents claim** :gray[no evidence: nothing above rests on it]")
    heads: dict[str, list[str | None]] = {
        "Name there": [item.name for item in matching_claims],
        "Claims": [item.says or item.printed for item in matching_claims],
        "Beside what was seen": [item.verdict for item in matching_claims],
        "How": [item.how for item in matching_claims],
        "Document": [item.document for item in matching_claims],
        "Section": [item.section for item in matching_claims],
    }
    columns = [Column(head=head, values=values) for head, values in heads.items()]
    result_table(columns, key=f"{PAGE} claims", words="What documents claim of the cell", height=330)
