"""Recommend: which hardware should run this model under my limits?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from assay import numbers
from dashboard import answers, charts, pictures, ranking
from dashboard.address import OBJECTIVES, PERCENTILES, Question, command, read_question, request, verify_command
from dashboard.frame import basis_legend, downloads, dropped, escape, guarded, header, theme, zone
from dashboard.palette import badge
from dashboard.view import address, adopt, current, go, widget
from domain.vocabulary import MODES, PLATFORMS, PRECISIONS

__all__ = ["show"]

PAGE = "recommend"
EVERYTHING, OWN = "all", "own"
EXAMPLES = (
    ("Fastest answer for one request", {"objective": "latency", "batch": (1,)}),
    ("Most images or sentences a second", {"objective": "throughput"}),
    ("Only what we own", {"hw": (OWN,)}),
    ("Under 10 ms, on CPUs alone", {"max_ms": 10.0, "platform": ("cpu", "openvino")}),
)
LIMITS = {
    "max_ms": "latency ≤ {:g} ms", "max_gb": "memory ≤ {:g} GB", "max_usd": "≤ ${:g}/h", "hw": "hardware: {}",
    "platform": "platform: {}", "precision": "precision: {}", "batch": "batch: {}", "seq": "sequence {}",
    "mode": "{}", "as_of": "as of position {}",
}  # fmt: skip


def show() -> None:
    """Show the form, and under it the answer to what the address asks."""
    header("Recommend", "Which hardware should run this model under my limits?")
    with guarded("The service"):
        health = answers.ready()
        read = current(PAGE, read_question)
        dropped(read.dropped)
        question: Question = read.asked
        strip = st.container()
        adopt(PAGE, question, _values(question))
        _form(question, health["position"])
        _chips(question)
        if question.model:
            _answer(question, health["position"], strip)
        else:
            _examples(health["position"])


def _values(question: Question) -> dict[str, Any]:
    plain = {name: getattr(question, name) for name in question.__struct_fields__ if name not in ("as_of", "top")}
    return plain | {
        "model": question.model or None,
        "hw": list(question.hw),
        "platform": list(question.platform),
        "precision": list(question.precision),
        "batch": ", ".join(str(size) for size in question.batch),
    }


def _form(question: Question, position: int) -> None:
    known = [str(row.get("id")) for row in answers.models(position)]
    with st.form(PAGE, border=True):
        first = st.columns([5, 2, 2, 2], vertical_alignment="bottom")
        with first[0]:
            st.selectbox(
                "Model", _with(known, [question.model]), index=None, key=widget(PAGE, "model"),
                accept_new_options=True, placeholder="Type a part of its name, or a new id",
            )  # fmt: skip
        with first[1]:
            st.selectbox("Objective", OBJECTIVES, key=widget(PAGE, "objective"), filter_mode=None)
        with first[2]:
            st.selectbox("Percentile", PERCENTILES, key=widget(PAGE, "pct"), filter_mode=None)
        with first[3]:
            submitted = st.form_submit_button("Rank hardware", type="primary", width="stretch")
        with st.expander("Limits and filters", icon=":material/tune:"):
            _limits(question, position)
    if submitted:
        with guarded("The question"):
            go(PAGE, _asked(question))
            st.rerun()


def _limits(question: Question, position: int) -> None:
    devices = [str(row.get("id")) for row in answers.hardware(position)]
    row = st.columns(4)
    row[0].number_input("Latency at most, ms", min_value=0.0, value=None, key=widget(PAGE, "max_ms"), format="%g")
    row[1].number_input("Memory at most, GB", min_value=0.0, value=None, key=widget(PAGE, "max_gb"), format="%g")
    row[2].number_input("Price at most, $/h", min_value=0.0, value=None, key=widget(PAGE, "max_usd"), format="%g")
    row[3].selectbox("Mode", MODES, key=widget(PAGE, "mode"), filter_mode=None)
    row = st.columns(2)
    row[0].multiselect(
        "Hardware", _with([EVERYTHING, OWN, *devices], question.hw), key=widget(PAGE, "hw"), select_all=False,
        help="all = every device in the catalogue; own = those that our runner has described",
    )  # fmt: skip
    row[1].multiselect("Platform", _with(PLATFORMS, question.platform), key=widget(PAGE, "platform"), select_all=False)
    row = st.columns([2, 1, 1])
    row[0].multiselect(
        "Precision", _with(PRECISIONS, question.precision), key=widget(PAGE, "precision"), select_all=False
    )
    row[1].text_input("Batch sizes", key=widget(PAGE, "batch"), placeholder="1, 8")
    row[2].number_input("Sequence length", min_value=1, value=None, step=1, key=widget(PAGE, "seq"))


def _asked(question: Question) -> Question:
    """Read the form; what it leaves empty is no limit."""
    state = {name: st.session_state.get(widget(PAGE, name)) for name in _values(question)}
    chosen = state["hw"] or [EVERYTHING]
    slugs = [slug for slug in chosen if slug not in (EVERYTHING, OWN)]
    given = {name: [str(state[name])] for name in ("model", "objective", "pct", "mode") if state[name]}
    given |= {name: [f"{state[name]:g}"] for name in ("max_ms", "max_gb", "max_usd") if state[name]}
    given |= {name: list(state[name]) for name in ("platform", "precision") if state[name]}
    given["hw"] = slugs or [OWN if OWN in chosen else EVERYTHING]
    if state["batch"]:
        given["batch"] = [state["batch"].replace(" ", "")]
    if state["seq"]:
        given["seq"] = [str(state["seq"])]
    read = read_question(given)
    st.session_state[f"{PAGE} refused"] = read.dropped
    asked: Question = msgspec.structs.replace(read.asked, as_of=question.as_of, top=question.top)
    return asked


def _chips(question: Question) -> None:
    """Show what narrows the answer; taking a chip away asks again without it."""
    refused = st.session_state.pop(f"{PAGE} refused", [])
    if refused:
        st.warning("From the form: " + escape("; ".join(refused)) + ".")
    defaults = Question()
    active = {
        words.format(_joined(getattr(question, name))): name
        for name, words in LIMITS.items()
        if getattr(question, name) != getattr(defaults, name)
    }
    if not active:
        return
    kept = st.pills(
        "Limits in force (tap one to remove it)", list(active), selection_mode="multi", default=list(active),
        key=f"{PAGE} chips {'|'.join(active)}",
    )  # fmt: skip
    removed = {active[words]: getattr(defaults, active[words]) for words in active if words not in kept}
    if removed:
        go(PAGE, msgspec.structs.replace(question, **removed))
        st.rerun()


def _answer(question: Question, position: int, strip: DeltaGenerator) -> None:
    with guarded(question.model):
        answer = answers.recommend(request(question), position)
        with strip:
            _provenance(question, answer, position)
        rows = ranking.banded(answer["ranked"])
        _abstention(answer, rows)
        if rows:
            _ranked(question, answer, rows)
        _excluded(answer)
        _next(answer)


def _abstention(answer: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    if answer.get("abstained"):
        st.warning(escape(str(answer["abstained"])), icon=":material/block:")
    elif not rows:
        st.info("Nothing is left under these limits. The list below says which limit each device failed.")
    for note in answer.get("notes") or []:
        st.caption(escape(str(note)))


def _ranked(question: Question, answer: Mapping[str, Any], rows: list[dict[str, Any]]) -> None:
    metric = ranking.metric_for(question.objective)
    sentence = ranking.answer_sentence(rows, metric, question.pct)
    with st.container(key="answer"):
        st.subheader(escape(sentence), anchor=False)
        tie = ranking.tie_sentence(rows)
        if tie:
            st.markdown(f":gray[{tie}]")
    shape = st.segmented_control(
        "Chart", ["ranking", "trade-off"], default="ranking", key=f"{PAGE} chart", label_visibility="collapsed"
    )
    draw = _drawer(question, rows, shape or "ranking")
    st.altair_chart(draw(False), width="stretch", key=f"{PAGE} picture", alt=f"{answer['model']}: {sentence}")
    basis_legend(rows, answer.get("interval"))
    st.dataframe(
        ranking.table(rows), hide_index=True, key=f"{PAGE} table", placeholder=numbers.MISSING,
        height="content" if len(rows) <= 15 else 500, row_height=36, alt=f"Ranking for {answer['model']}",
        column_config={"Rank": st.column_config.Column(pinned=True), "Why": st.column_config.Column(width="large")},
    )  # fmt: skip
    name = f"assay_recommend_{question.model.replace('/', '-')}_p{answer['position']}"
    footer = _footer(answer)

    def picture() -> Any:
        return pictures.titled(draw(True), f"Hardware for {question.model}", answer=sentence, footer=footer)

    downloads(
        [
            ("CSV, every column", f"{name}.csv", "text/csv", lambda: ranking.csv_file(answer)),
            ("JSON, as the API answers", f"{name}.json", "application/json", lambda: ranking.json_file(answer)),
            ("PNG picture", f"{name}.png", "image/png", lambda: pictures.png(picture())),
            ("SVG picture", f"{name}.svg", "image/svg+xml", lambda: pictures.svg(picture())),
            ("HTML, stands alone", f"{name}.html", "text/html", lambda: pictures.html(picture())),
        ],
        PAGE,
    )
    _details(question, rows)


def _drawer(question: Question, rows: list[dict[str, Any]], shape: str) -> Callable[[bool], Any]:
    shade, metric = theme(), ranking.metric_for(question.objective)

    def draw(picture: bool) -> Any:
        if shape == "trade-off":
            limit = charts.Limit(latency_ms=question.max_ms)
            return charts.tradeoff(rows, theme=shade, limit=limit, percentile=question.pct, picture=picture)
        return charts.intervals(
            rows, metric, theme=shade, percentile=question.pct, ranked=True, picture=picture
        )  # fmt: skip

    return draw


def _details(question: Question, rows: Sequence[Mapping[str, Any]]) -> None:
    st.subheader("Why, and how to check", anchor=False)
    with st.container(key="details"):
        for column, row in zip(st.columns(min(3, len(rows))), rows, strict=False):
            with column, st.container(border=True):
                rank = row.get("rank_band") or row.get("rank")
                st.markdown(f"**{rank} · {escape(charts.name_of(row))}**")
                st.markdown(f"{badge(row.get('basis'), row.get('origin'))}. {escape(str(row.get('why') or ''))}")
                st.code(row.get("command") or verify_command(question.model, row), language="bash", wrap_lines=True)
                events = row.get("evidence") or []
                if events:
                    with st.expander(f"Evidence: {numbers.count(len(events))} events"):
                        st.code("\n".join(str(event) for event in events[:50]), language=None)


def _excluded(answer: Mapping[str, Any]) -> None:
    excluded = answer["excluded"]
    if excluded:
        with st.expander(f"Why not the others: {numbers.count(len(excluded))} left out", expanded=not answer["ranked"]):
            st.dataframe(ranking.excluded_table(excluded[:1000]), hide_index=True, key=f"{PAGE} excluded")


def _next(answer: Mapping[str, Any]) -> None:
    suggestions = answer.get("suggestions") or []
    if suggestions:
        st.subheader("Where to look next", anchor=False)
        st.caption("Measurements that would sharpen this answer most.")
        for suggestion in suggestions[:3]:
            if isinstance(suggestion, Mapping):
                st.markdown(escape(str(suggestion.get("why") or "")))
                suggestion = suggestion.get("command")
            st.code(str(suggestion), language="bash", wrap_lines=True)


def _footer(answer: Mapping[str, Any]) -> str:
    parts = [f"position {numbers.count(answer['position'])}"]
    if answer.get("time"):
        parts.append(numbers.date(answer["time"], zone()))
    if answer.get("predictor"):
        parts.append(f"predictor {numbers.digest(str(answer['predictor']))}")
    if answer.get("interval"):
        parts.append(f"{numbers.share(answer['interval']).replace('.0', '')} intervals")
    return " · ".join(parts)


def _provenance(question: Question, answer: Mapping[str, Any], position: int) -> None:
    fixed = msgspec.structs.replace(question, as_of=question.as_of or position)
    with st.container(horizontal=True, vertical_alignment="center", key="provenance"):
        st.caption(_footer(answer), width="content")
        with st.popover("Copy link", type="tertiary", icon=":material/link:"):
            st.caption("This view, at this position of the log:")
            st.code(address(PAGE, fixed), language=None, wrap_lines=True)
            st.caption("The same question in a terminal:")
            st.code(command(fixed), language="bash", wrap_lines=True)


def _examples(position: int) -> None:
    known = answers.models(position)
    if not known:
        st.info("No model is known yet. Type any model's id above, or measure one so that it can be chosen:")
        st.code("assay bench bert-base-uncased --platform cpu,openvino", language="bash")
        return
    first = str(known[0].get("id"))
    st.subheader("Questions to start from", anchor=False)
    for words, changes in EXAMPLES:
        if st.button(f"{words}: {first}", key=f"{PAGE} example {words}", type="tertiary"):
            go(PAGE, Question(model=first, **changes))
            st.rerun()


def _with(options: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """Return the options and what the address chose beside them, so that a link never loses a value."""
    return list(dict.fromkeys([*options, *(choice for choice in chosen if choice)]))


def _joined(value: Any) -> Any:
    return ", ".join(str(item) for item in value) if isinstance(value, tuple) else value
