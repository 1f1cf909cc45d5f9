"""Parts of the Models page: its speed by hardware, measured or estimated, where it runs, what it is, what was never tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

import altair as alt
import msgspec
import streamlit as st

from dashboard import menu, ranking
from dashboard.best_measured import MeasuredRow, columns, how_run, same_work_first
from dashboard.downloads import picture_files, sent_files, stem, table_files
from dashboard.frame import basis_legend, chart, downloads, escape, folded, places, plain_table, theme, to_paste
from dashboard.page_state import adopt, go, widget
from dashboard.screens.models import query
from dashboard.screens.models import words as model
from dashboard.screens.models.words import Model
from dashboard.screens.recommend.words import RankedRow, number
from dashboard.tables.result_table import Column, result_table
from domain.answers import answer_document
from domain.answers.model_profile import ModelProfile
from domain.vocabulary import MODES
from presentation import charts, formatting
from presentation.answer_words import device_name, evidence_words, short_name
from presentation.rank_scaling import EFFICIENCY, baseline_command, ranks_words, scaled_row
from presentation.variant_words import variants_note, variants_table

__all__ = [
    "show_about",
    "show_answer",
    "show_coverage",
    "show_measured",
    "show_ranking",
    "show_ranks",
    "show_tests",
    "show_variants",
]

PAGE = "models"
TOP = 15
FIRST = 9
"""Devices that are shown before the others are asked for."""


def show_answer(document: ModelProfile, rows: Sequence[MeasuredRow]) -> None:
    """Show where the model is fastest among what was measured, or how to measure it."""
    with st.container(key="answer"):
        if rows:
            figure, how = model.headline(same_work_first(rows)[0])
            st.header(escape(figure), anchor=False)
            st.caption(escape(how))
            return
        known = document.model.measurements
        words = f"{formatting.count(known)} measurements, none with a throughput" if known else "Nothing was measured"
        st.header(words, anchor=False)
        st.caption("This measures it here:")
        to_paste(f"assay bench {document.model.id}")


def show_measured(document: ModelProfile, rows: Sequence[MeasuredRow], at: int) -> None:
    """Show the best measurement of each device, those of the headline's size first."""
    if not rows:
        return
    name = document.model.id
    alike, others = same_work_first(rows)
    ordered = [*alike, *others]
    words = f"Fastest measured on each device: {name}"
    result_table(columns(ordered, "hardware"), key=f"{PAGE} best", words=words, at_once=FIRST)
    if others:
        st.caption(f"{formatting.count(len(others))} of another size stand last.")
    _ways({"Compare devices": ("compare", {})}, {"model": name})
    downloads(table_files(stem(PAGE, name, at), ordered, as_of=at), f"{PAGE} best")


def show_ranks(document: ModelProfile, at: int) -> None:
    """Show how well trainings on several ranks scale, where there are any."""
    rows = query.on_ranks(document.model.id, at)
    if not rows:
        return
    name = document.model.id
    plain = [scaled_row(msgspec.to_builtins(row)) for row in rows]
    scaled = [{**row, "named": f"{ranks_words(row)} · batch {row['batch_size']}"} for row in plain if row["efficiency"]]
    st.subheader("Training on ranks", anchor=False)
    if scaled:
        drawn = charts.intervals(
            [{**row, "narrow": row["named"]} for row in scaled[:FIRST]],
            EFFICIENCY,
            theme=theme(),
            log=False,
            beside=100,
        )
        chart(drawn, key=f"{PAGE} ranks chart", words=f"{name}: efficiency of trainings on ranks")
    result_table(model.ranks_columns(rows), key=f"{PAGE} ranks", words=f"Trainings of {name} on ranks", at_once=FIRST)
    st.caption(
        "Efficiency: items a second over those of one rank with the same batch, and over the ranks. It leads to that row."
    )
    missing = next((row for row in plain if not row["efficiency"]), None)
    if missing:
        st.caption("A row without a baseline gets its efficiency from this:")
        to_paste(baseline_command(missing))
    downloads(table_files(stem(PAGE, f"{name}_ranks", at), plain, as_of=at), f"{PAGE} ranks")


def show_variants(name: str, at: int) -> None:
    """Show a model and its variants by device and platform, the fastest first, losers included; nothing where there are none."""
    answer = query.variants(name, at)
    rows = answer.items
    if not any(row.recipe or row.quality for row in rows):
        return
    st.subheader("Variants", anchor=False)
    drawn = charts.variants_drawn(rows)
    if len(drawn) > 1:
        words = f"{answer.model}: loss of quality with its 95 % interval against latency, by variant"
        chart(charts.variants(rows, theme=theme()), key=f"{PAGE} variants chart", words=words)
    plain_table(
        variants_table(rows), hide_index=True, border="horizontal", alt=f"Variants of {answer.model} side by side"
    )
    st.caption(escape(variants_note(rows, len(drawn))))
    downloads(table_files(stem(PAGE, f"{name}_variants", at), msgspec.to_builtins(rows), as_of=at), f"{PAGE} variants")


def _ways(ways: Mapping[str, tuple[str, Mapping[str, str]]], about: Mapping[str, str]) -> None:
    """Show links to pages that say more of the same."""
    with st.container(horizontal=True):
        for label, (page, more) in ways.items():
            st.page_link(menu.page(page), label=label, query_params={**about, **more})


def show_about(document: ModelProfile) -> None:
    """Show what a model is and how that is known, and the models that are near it."""
    plain_table(model.facts(document), hide_index=True, hide_header=True, border="horizontal", alt="What the model is")
    if document.siblings:
        _near("Nearest siblings", model.siblings_columns(document.siblings))
    if document.alternatives:
        _near("Smaller open alternatives", model.alternatives_columns(document.alternatives))
        st.caption(escape(document.quality))


def _near(title: str, found: Sequence[Column]) -> None:
    st.markdown(f"**{title}**")
    result_table(found, key=f"{PAGE} {title}", words=title)


def show_ranking(model: Model, at: int) -> None:
    """Show the best configuration of each hardware, measured where it was and predicted elsewhere."""
    model = _ranking_bar(model)
    answer = query.ranking(model.id, at, model.mode, model.metric, TOP)
    metric = charts.METRICS[model.metric]
    rows = ranking.banded(
        [cast("RankedRow", ranking.completed(row)) for row in answer_document(answer)["ranked"]], metric
    )
    if not rows:
        st.info(escape(answer.abstained or "Nothing can be ranked. This measures it here:"))
        to_paste(f"assay bench {model.id}")
        return
    sentence = _best(rows, metric)
    st.markdown(f"**{escape(sentence)}**")
    tied = sum(row["rank_band"] == rows[0]["rank_band"] for row in rows)
    if tied > 1:
        st.caption(f"A toss-up: the intervals of the first {tied} overlap.")
    # One row a device: its name is enough, and longer words are cut on a phone.
    named = [{**row, "named": short_name(str(row["hardware"]), row.get("hardware_count"))} for row in rows]
    drawn = charts.intervals(named, metric, theme=theme(), ranked=True)
    chart(drawn, key=f"{PAGE} ranking", words=f"{model.id}: {sentence}")
    basis_legend(rows, answer.interval)
    st.caption("Ranked by the worse end of each interval: what is surely reached, not what may be.")
    ways: dict[str, tuple[str, dict[str, str]]] = {
        "Ask with limits": ("recommend", {}),
        "Every configuration": ("compare", {}),
    }
    _ways(ways, {"model": model.id, "mode": model.mode})
    folded("The same as a table", partial(_ranked, model, rows), key=f"{PAGE} ranked folded")
    shade = theme()

    def draw() -> alt.LayerChart:
        return charts.intervals(rows, metric, theme=shade, ranked=True, picture=True)

    footer = f"position {formatting.count(at)} · predictor {formatting.digest(answer.predictor)}"
    name = stem(PAGE, model.id, at)
    pictures = picture_files(name, draw, f"Hardware for {model.id}", answer=sentence, footer=footer)
    downloads([*table_files(name, rows, as_of=at), *pictures], f"{PAGE} ranking")


def _best(rows: Sequence[RankedRow], metric: charts.Metric) -> str:
    """Say which device is best by a metric, how it runs, and how that is known."""
    best = rows[0]
    value, low, high = (number(best, key) for key in (metric.key, metric.low, metric.high))
    device = device_name(str(best["hardware"]), best.get("hardware_count"))
    known = evidence_words(best.get("basis"), best.get("origin"))
    return f"Best: {device}, {metric.scale([value]).show(value, low, high)}, {how_run(cast('MeasuredRow', best))} ({known})"


def _ranked(model: Model, rows: Sequence[RankedRow]) -> None:
    with_rate = [cast("MeasuredRow", row) for row in rows if row.get("throughput_per_s")]
    found = columns(with_rate, "hardware")
    result_table(found, key=f"{PAGE} ranked", words=f"Hardware for {model.id}")


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
    st.markdown(f"**{escape(model.standing(rows))}**")
    if not rows:
        to_paste(f"assay verify {document.model.id}")
        return
    result_table(model.platforms_columns(rows), key=f"{PAGE} platforms", words="Where the model was tried")
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
    result_table(model.family_columns(result.items), key=f"{PAGE} family", words=f"Coverage of the family {row.family}")
    for gap in result.gaps[:3]:
        here = "" if gap.at_hand else ", for which no machine of yours is known"
        never = f"{formatting.count(gap.never_tried)} of {formatting.count(gap.families)} families of {gap.category}"
        st.caption(escape(f"{never} were never tried on {gap.platform}{here}:"))
        to_paste(gap.command)
    rows = msgspec.to_builtins(result.items)
    downloads(table_files(stem(PAGE, f"{row.family}_coverage", at), rows, as_of=at), f"{PAGE} coverage")
