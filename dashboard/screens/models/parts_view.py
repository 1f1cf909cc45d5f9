"""Parts of the Models page: what a model is, its ranking over hardware, where it runs, and what was never tried."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import msgspec
import pandas as pd
import streamlit as st

from dashboard import menu, ranking
from dashboard.downloads import picture_files, sent_files, stem, table_files
from dashboard.frame import basis_legend, chart, downloads, escape, places, plain_table, theme, to_paste
from dashboard.page_state import adopt, go, widget
from dashboard.screens.models import query
from dashboard.screens.models import words as model
from dashboard.screens.models.words import Model
from dashboard.screens.recommend.words import number
from domain.answers import answer_document
from domain.answers.model_profile import ModelProfile
from domain.vocabulary import MODES
from presentation import charts, formatting
from presentation.answer_words import device_name

__all__ = ["links", "show_about", "show_coverage", "show_ranking", "show_tests"]

PAGE = "models"
TOP = 15
COUNT = st.column_config.NumberColumn(format="localized")
EVIDENCE = st.column_config.LinkColumn("Evidence", display_text="run", help="The run that it was measured in.")
SHARE = st.column_config.ProgressColumn("Tried, %", format="%.0f", min_value=0, max_value=100)
FIRST = st.column_config.Column(pinned=True)


def links(page: str, names: Sequence[str]) -> None:
    """Show a link to a page for each name once."""
    with st.container(horizontal=True):
        for name in dict.fromkeys(names):
            label = device_name(name) if page == "hardware" else name
            st.page_link(menu.page(page), label=escape(label), query_params={"id": name})


def show_about(document: ModelProfile, at: int) -> None:
    """Show what a model is and why, where it was measured fastest, and what stands beside it."""
    with st.container(key="answer"):
        st.markdown(f"**{escape(model.sentence(document))}**")
    left, right = st.columns([1, 1], gap="large")
    with left:
        plain_table(
            model.facts(document), hide_index=True, hide_header=True, border="horizontal", alt="What the model is"
        )
    with right:
        _fastest(document)
        if document.best:
            rows = msgspec.to_builtins(document.best)
            downloads(table_files(stem(PAGE, document.model.id, at), rows, as_of=at), f"{PAGE} best")
    _beside("Nearest siblings", [row.id for row in document.siblings], model.siblings_table(document.siblings))
    names = [row.id for row in document.alternatives]
    _beside("Smaller open alternatives", names, model.alternatives_table(document.alternatives))
    if document.alternatives:
        st.caption(escape(document.quality))


def _fastest(document: ModelProfile) -> None:
    st.markdown("**Fastest, as measured**")
    if not document.best:
        st.caption("Nothing has a throughput. This measures it here:")
        to_paste(f"assay bench {document.model.id}")
        return
    st.dataframe(
        model.best_table(document.best),
        hide_index=True,
        key=f"{PAGE} best",
        row_height=36,
        height="content",
        alt="Where the model was measured fastest",
        column_config={"Hardware": FIRST, "Evidence": EVIDENCE},
    )
    st.caption("One kind of work, the one measured on most hardware. Predictions for the others: Ranking.")
    links("hardware", [row.hardware for row in document.best])


def _beside(title: str, names: Sequence[str], frame: pd.DataFrame) -> None:
    if not names:
        return
    st.markdown(f"**{title}**")
    st.dataframe(
        frame,
        hide_index=True,
        key=f"{PAGE} {title}",
        row_height=36,
        height="content",
        alt=title,
        column_config={"Model": FIRST, "Measurements": COUNT, "Tests": COUNT},
    )
    links(PAGE, names)


def show_ranking(model: Model, at: int) -> None:
    """Show the best configuration of each hardware, measured where it was and predicted elsewhere."""
    model = _ranking_bar(model)
    answer = query.ranking(model.id, at, model.mode, model.metric, TOP)
    rows = ranking.banded(answer_document(answer)["ranked"])
    if not rows:
        st.info(escape(answer.abstained or "Nothing can be ranked. This measures it here:"))
        to_paste(f"assay bench {model.id}")
        return
    metric = charts.METRICS[model.metric]
    best = rows[0]
    show = metric.scale([number(best, metric.key)]).show(
        *(number(best, key) for key in (metric.key, metric.low, metric.high))
    )
    sentence = f"Best: {charts.name_of(best)}, {show} ({best['basis']})"
    with st.container(key="answer"):
        st.markdown(f"**{escape(sentence)}**")
    if tied := ranking.tie_sentence(rows):
        st.caption(tied)
    drawn = charts.intervals(rows, metric, theme=theme(), ranked=True)
    chart(drawn, key=f"{PAGE} ranking", words=f"{model.id}: {sentence}")
    basis_legend(rows, answer.interval)
    st.caption("Ranked by the worse end of each interval: what is surely reached, not what may be.")
    ways = {
        "Ask with limits": ("recommend", {}),
        "Every configuration": ("compare", {}),
        "Batch behaviour": ("compare", {"what": "batch"}),
    }
    with st.container(horizontal=True):
        for label, (page, more) in ways.items():
            st.page_link(menu.page(page), label=label, query_params={"model": model.id, "mode": model.mode, **more})
    st.dataframe(
        ranking.table(rows),
        hide_index=True,
        key=f"{PAGE} ranked",
        row_height=36,
        height="content",
        placeholder=formatting.MISSING,
        column_config={"Hardware": FIRST},
        alt=f"Hardware for {model.id}",
    )
    shade = theme()

    def draw() -> alt.LayerChart:
        return charts.intervals(rows, metric, theme=shade, ranked=True, picture=True)

    footer = f"position {formatting.count(at)} · predictor {formatting.digest(answer.predictor)}"
    name = stem(PAGE, model.id, at)
    pictures = picture_files(name, draw, f"Hardware for {model.id}", answer=sentence, footer=footer)
    downloads([*table_files(name, rows, as_of=at), *pictures], f"{PAGE} ranking")


def _ranking_bar(request: Model) -> Model:
    adopt(f"{PAGE} ranking", request, {"metric": request.metric, "mode": request.mode})
    for column, (name, options) in zip(
        places(2, 2, 6), {"metric": model.OBJECTIVES, "mode": MODES}.items(), strict=False
    ):
        column.selectbox(name.capitalize(), options, key=widget(f"{PAGE} ranking", name), filter_mode=None)
    chosen = msgspec.structs.replace(
        request, **{name: st.session_state[widget(f"{PAGE} ranking", name)] for name in ("metric", "mode")}
    )
    if chosen != request:
        go(PAGE, chosen)
        st.rerun()
    return chosen


def show_tests(document: ModelProfile, at: int) -> None:
    """Show on which platform and precision the model was tried, and with what outcome."""
    rows = document.platforms
    with st.container(key="answer"):
        st.markdown(f"**{escape(model.standing(rows))}**")
    if not rows:
        to_paste(f"assay verify {document.model.id}")
        return
    st.dataframe(
        model.platforms_table(rows),
        hide_index=True,
        key=f"{PAGE} platforms",
        row_height=36,
        height="content" if len(rows) <= 15 else 560,
        alt="Where the model was tried",
        column_config={"Platform": FIRST, "Measurements": COUNT, "Evidence": EVIDENCE},
    )
    st.caption(
        "✓ outputs were compared and right · measured: timed, outputs not compared · ✕ did not run, ran wrong, or every measurement "
        "is invalid · – only skipped"
    )
    if "compatibility" in menu.by_path():
        family = document.model.family
        request = {"level": "model", **({"family": family} if family else {})}
        st.page_link(menu.page("compatibility"), label="Its family in the matrix", query_params=request)
    name = stem(PAGE, f"{document.model.id}_tests", at)
    downloads(sent_files(name, document.compatibility, as_of=at), f"{PAGE} tests")


def show_coverage(document: ModelProfile, at: int) -> None:
    """Show what was never tried of a model and of its family, with the commands that would."""
    row = document.model
    lines = model.commands(document)
    words = (
        f"{len(lines)} gap{'' if len(lines) == 1 else 's'} can be filled here" if lines else "No gap can be filled here"
    )
    with st.container(key="answer"):
        st.markdown(f"**{words}**")
    for what, command in lines:
        st.caption(f"Not tried: {escape(what)}")
        to_paste(command)
    if document.never_tried:
        st.caption(f"Never tried on {escape(', '.join(document.never_tried))}.")
    if not row.family:
        return
    result = query.family(row.family, row.category, at)
    st.markdown(f"**The family {escape(row.family)}**")
    st.dataframe(
        model.family_table(result.items),
        hide_index=True,
        key=f"{PAGE} family",
        row_height=36,
        height="content",
        alt=f"Coverage of the family {row.family}",
        column_config={"Platform": FIRST, "Tried": SHARE},
    )
    for gap in result.gaps[:3]:
        here = "" if gap.at_hand else ", for which no machine of yours is known"
        never = f"{formatting.count(gap.never_tried)} of {formatting.count(gap.families)} families of {gap.category}"
        st.caption(escape(f"{never} were never tried on {gap.platform}{here}:"))
        to_paste(gap.command)
    rows = msgspec.to_builtins(result.items)
    downloads(table_files(stem(PAGE, f"{row.family}_coverage", at), rows, as_of=at), f"{PAGE} coverage")
