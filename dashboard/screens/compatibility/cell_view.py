"""One cell of the matrix: how cases ended, what stopped them and what to try, the events behind it, what documents claim."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import msgspec
import pandas as pd
import streamlit as st

from dashboard.frame import escape, guarded, zone
from dashboard.screens.compatibility import query as asking
from dashboard.screens.compatibility import words
from dashboard.screens.compatibility.words import Matrix
from domain.answers.compatibility import CellCase, MatrixCell, MatrixRow, StoppedCases
from domain.compatibility.remedies import failures
from presentation import formatting

__all__ = ["show_cell"]

PAGE = "compatibility"
EVENT = r"row=(.{1,8})"
MOST_ROWS = 50


def show_cell(matrix: Matrix, row: MatrixRow, cell: MatrixCell, at: int) -> None:
    """Show what stands behind a cell: evidence first, then claims in words of their own."""
    name, platform = row.name, cell.platform
    with st.container(border=True, key="cell"):
        st.subheader(f"{escape(name)} on {escape(platform)}: {escape(_summed(cell))}", anchor=False)
        if cell.models:
            _seen(matrix, row, platform, at)
        else:
            st.markdown(
                f"Nobody tried it here. This would: `assay verify {'MODEL' if matrix.level == 'family' else name} --platform {platform}`"
            )
        if cell.claims:
            with guarded("The claims"):
                _claims(cell, platform, at)


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
    table["Evidence"] = [f"/runs?row={event}" if event else None for event in table["Evidence"]]
    st.dataframe(
        table.dropna(axis="columns", how="all"),
        hide_index=True,
        key=f"{PAGE} outcomes",
        row_height=36,
        placeholder=formatting.MISSING,
        height="content" if len(table) <= 10 else 400,
        alt="Outcomes by model and precision",
        column_config={
            "Model": st.column_config.Column(pinned=True),
            "Evidence": st.column_config.LinkColumn(
                display_text=EVENT, help="The newest event behind it, on the page Runs"
            ),
        },
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
            + (f":small[{escape(item.message.partition(chr(10))[0][:200])}]  \n" if item.message else "")
            + f"**Try:** {escape(item.remedy) if item.remedy else item.advice}"
        )
    if len(stopped) > 5:
        st.caption(f"{len(stopped) - 5} more kinds of errors are in the table below.")


def _measured(model: str, platform: str, hardware: str | None, at: int) -> None:
    result = asking.measured(model, platform, hardware, at)
    if not result:
        return
    st.markdown("**What was measured** :gray[the best of each configuration, fastest an item first]")
    scale = formatting.latency_scale([row.latency_ms for row in result])
    st.dataframe(
        pd.DataFrame(
            [
                {
                    "Hardware": row.hardware,
                    "Precision": row.precision,
                    "Mode": row.mode,
                    "Batch": row.batch_size,
                    "Latency (95 % CI)": scale.show(row.latency_ms, row.latency_ms_low, row.latency_ms_high)
                    + (" (mean)" if row.latency_is_mean else ""),
                    "Throughput": formatting.throughput(row.throughput_per_s),
                    "n": row.n,
                    "Basis": row.basis,
                    "Verdict": row.verdict,
                    "Measured": formatting.when(row.time, zone()),
                    "Run": f"/runs?run={row.run_id}" if row.run_id else None,
                }
                for row in result[:MOST_ROWS]
            ]
        ).dropna(axis="columns", how="all"),
        hide_index=True,
        key=f"{PAGE} measured",
        row_height=36,
        placeholder=formatting.MISSING,
        height="content" if len(result) <= 10 else 400,
        alt="Measurements of the model on the platform",
        column_config={"Run": st.column_config.LinkColumn(display_text=r"run=(.{1,24})")},
    )
    if len(result) > MOST_ROWS:
        st.caption(f"The first {MOST_ROWS} of {formatting.count(len(result))}; Compare has all.")


def _claims(cell: MatrixCell, platform: str, at: int) -> None:
    about = set(cell.claims)
    matching_claims = [claim for claim in asking.claims(platform, at) if claim.id in about]
    st.markdown("**What documents claim** :gray[no evidence: nothing above rests on it]")
    st.dataframe(
        pd.DataFrame(
            [
                {
                    "Name there": item.name,
                    "Claims": item.says or item.printed,
                    "Beside what was seen": item.verdict,
                    "How": item.how,
                    "Document": item.document,
                    "Section": item.section,
                }
                for item in matching_claims
            ]
        ),
        hide_index=True,
        key=f"{PAGE} claims",
        row_height=36,
        height="content" if len(matching_claims) <= 8 else 330,
        placeholder=formatting.MISSING,
        alt="What documents claim of the cell",
    )
