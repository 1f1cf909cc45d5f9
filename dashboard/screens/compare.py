"""Compare: how does one model run on different hardware, and is the difference real?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from assay import numbers
from dashboard import answers, charts, comparison, differences
from dashboard.address import BASES_SHOWN, METRIC_NAMES, SCALES, Comparison, read_comparison
from dashboard.frame import basis_legend, downloads, dropped, escape, guarded, header, provenance, theme
from dashboard.offers import picture_files, stem, table_files
from dashboard.view import adopt, current, go, widget
from domain.vocabulary import MODES, PLATFORMS, PRECISIONS

__all__ = ["show"]

PAGE = "compare"
PAGE_ROWS = 25


def show() -> None:
    """Show one model's rows: what differs between them first, then the numbers."""
    header("Compare", "How does this model run on different hardware, and is the difference real?")
    with guarded("The service"):
        position = answers.ready()["position"]
        read = current(PAGE, read_comparison)
        dropped(read.dropped)
        asked: Comparison = read.asked
        strip = st.container()
        adopt(PAGE, asked, _values(asked))
        models = answers.models(position)
        _bar(asked, [str(row["id"]) for row in models])
        if asked.model:
            _comparison(asked, position, strip)
        elif any(row.get("measurements") for row in models):
            st.info("Choose a model above.")
        else:
            st.info("Nothing has been measured yet. Measure one model on this machine, or choose one above:")
            st.code("assay bench bert-base-uncased --platform cpu,openvino", language="bash")


def _values(asked: Comparison) -> dict[str, Any]:
    plain = {name: getattr(asked, name) for name in asked.__struct_fields__ if name != "as_of"}
    lists = {name: list(getattr(asked, name)) for name in ("platform", "precision")}
    return plain | lists | {"model": asked.model or None}


def _bar(asked: Comparison, known: Sequence[str]) -> None:
    first = st.columns([5, 3, 3, 3], vertical_alignment="bottom")
    models = list(dict.fromkeys([*known, *([asked.model] if asked.model else [])]))
    first[0].selectbox(
        "Model", models, index=None, key=widget(PAGE, "model"), accept_new_options=True,
        placeholder="Type a part of its name",
    )  # fmt: skip
    first[1].selectbox("Metric", METRIC_NAMES, key=widget(PAGE, "metric"), filter_mode=None)
    first[2].selectbox("Scale", SCALES, key=widget(PAGE, "scale"), filter_mode=None)
    first[3].selectbox("Basis", BASES_SHOWN, key=widget(PAGE, "basis"), filter_mode=None)
    with st.expander("Filters", icon=":material/tune:"):
        second = st.columns([1, 2, 2, 1])
        platforms = list(dict.fromkeys([*PLATFORMS, *asked.platform]))
        precisions = list(dict.fromkeys([*PRECISIONS, *asked.precision]))
        second[0].selectbox("Mode", MODES, key=widget(PAGE, "mode"), filter_mode=None)
        second[1].multiselect("Platform", platforms, key=widget(PAGE, "platform"), select_all=False)
        second[2].multiselect("Precision", precisions, key=widget(PAGE, "precision"), select_all=False)
        second[3].number_input("Batch", min_value=1, step=1, value=None, key=widget(PAGE, "batch"))
    state = {name: st.session_state.get(widget(PAGE, name)) for name in _values(asked)}
    chosen = Comparison(
        model=state["model"] or "", mode=state["mode"], metric=state["metric"], scale=state["scale"], basis=state["basis"],
        platform=tuple(state["platform"]), precision=tuple(state["precision"]), batch=state["batch"],
        as_of=asked.as_of,
    )  # fmt: skip
    if chosen != asked:
        go(PAGE, chosen)
        st.rerun()


def _comparison(asked: Comparison, position: int, strip: DeltaGenerator) -> None:
    with guarded(asked.model):
        at = position if asked.as_of is None else asked.as_of
        everything, unpredicted = comparison.rows(asked.model, at, asked.mode, asked.batch)
        metric = charts.METRICS[asked.metric]
        rows = comparison.chosen(everything, asked, metric)
        with strip:
            provenance(PAGE, f"position {numbers.count(at)}", msgspec.structs.replace(asked, as_of=at))
        if unpredicted:
            st.caption(f"Only what was measured is shown: {escape(unpredicted)}")
        left_out = len(everything) - len(rows)
        if not rows:
            _nothing(asked, everything)
            return
        _differences(rows)
        _chart(asked, at, rows, metric, left_out)


def _differences(rows: Sequence[Mapping[str, Any]]) -> None:
    found = differences.find(rows)
    lines = []
    if found.same:
        lines.append("**Same for all** " + " · ".join(f"{escape(f)} {escape(v)}" for f, v in found.same.items()))
    for field, values in found.differs:
        counted = " · ".join(f"{escape(value)} :gray[({numbers.count(rows)})]" for value, rows in values[:6])
        rest = f" · {numbers.count(len(values) - 6)} more" if len(values) > 6 else ""
        lines.append(f"**{escape(field)} differs** {counted}{rest}")
    if not found.differs:
        lines.append("Nothing that was recorded differs.")
    with st.container(border=True, key="differences"):
        st.markdown("  \n".join(lines))


def _chart(asked: Comparison, at: int, rows: list[dict[str, Any]], metric: charts.Metric, left_out: int) -> None:
    sentence = comparison.sentence(rows, metric)
    with st.container(key="answer"):
        st.subheader(escape(sentence), anchor=False)
    shown = _page(rows)
    log = {"auto": None, "log": True, "linear": False}[asked.scale]
    drawn = charts.intervals(shown, metric, theme=theme(), log=log)
    st.altair_chart(drawn, width="stretch", key=f"{PAGE} picture", alt=f"{asked.model}: {sentence}")
    basis_legend(shown)
    if log and any(row[metric.key] <= 0 for row in shown):
        st.caption("A value of zero has no place on a log axis: this one is linear.")
    if left_out:
        rest = "1 row is" if left_out == 1 else f"{numbers.count(left_out)} rows are"
        st.caption(f"{rest} left out by the filters, or for want of this metric.")
    st.dataframe(
        comparison.table(rows, metric), hide_index=True, key=f"{PAGE} table", row_height=36,
        placeholder=numbers.MISSING, height="content" if len(rows) <= 15 else 500,
        column_config={"Hardware": st.column_config.Column(pinned=True)}, alt=f"Hardware for {asked.model}",
    )  # fmt: skip
    _downloads(asked, at, rows, shown, sentence)


def _page(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(rows) <= PAGE_ROWS:
        return rows
    turned = st.pagination(-(-len(rows) // PAGE_ROWS), key=f"{PAGE} page")
    return rows[(turned - 1) * PAGE_ROWS : turned * PAGE_ROWS]


def _downloads(
    asked: Comparison, at: int, rows: list[dict[str, Any]], shown: list[dict[str, Any]], sentence: str
) -> None:
    metric = charts.METRICS[asked.metric]
    log = {"auto": None, "log": True, "linear": False}[asked.scale]
    log = {"auto": None, "log": True, "linear": False}[asked.scale]
    name = stem(PAGE, asked.model, at)
    footer = f"position {numbers.count(at)} · {numbers.count(len(shown))} of {numbers.count(len(rows))} rows"
    shade = theme()

    def draw() -> Any:
        return charts.intervals(shown, metric, theme=shade, log=log, picture=True)

    downloads(
        [
            *table_files(name, rows, as_of=at),
            *picture_files(name, draw, f"{asked.model} on different hardware", answer=sentence, footer=footer),
            ("Report on this model", f"{name}_report.html", "text/html", answers.reporter("model", asked.model, at)),
        ],
        PAGE,
    )


def _nothing(asked: Comparison, everything: Sequence[Mapping[str, Any]]) -> None:
    if everything:
        st.info(f"The filters leave none of {numbers.count(len(everything))} rows. Reset them to see all.")
        if st.button("Reset filters", key=f"{PAGE} reset"):
            go(PAGE, Comparison(model=asked.model, metric=asked.metric))
            st.rerun()
        return
    st.info("Nothing was measured for this model, and nothing can be predicted. This would measure it here:")
    st.code(f"assay bench {asked.model}", language="bash")
