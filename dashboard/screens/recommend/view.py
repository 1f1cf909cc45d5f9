"""Recommend: which hardware should run this model under my limits?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import answers, chips, evidence, ranking, sign_in
from dashboard.address import Params
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
    titled,
    to_paste,
    zone,
)
from dashboard.page_state import current, remember, turn
from dashboard.screens.recommend import limits, table
from dashboard.screens.recommend import words as card
from dashboard.screens.recommend.form import REFUSED, show_adding, show_form
from dashboard.screens.recommend.question import Question, command, from_command, read_question, request
from dashboard.screens.recommend.words import RankedRow
from dashboard.service import decoded
from dashboard.tables.result_table import columns_of, result_table
from domain.answers import ExcludedConfigurations, Pick, Recommendation
from domain.cookbook import Recipe, recipes
from presentation import charts, formatting
from presentation.answer_words import PickWords, PriceUnit, pick_words, price_doubt, price_unit, unit_price
from presentation.call_rates import call_line

__all__ = ["ahead", "sentence_of", "show", "show_card"]

MOST_LINKS = 20


def show_card(percentile: str, row: RankedRow, metric: charts.Metric, interval: float | None) -> None:
    """Show one option: its figures, what they cost, how surely they meet the limits, and what they rest on."""
    rank = row.get("rank_band") or row.get("rank")
    name = escape(" · ".join(charts.name_of(row).split(" · ")[1:]))
    st.markdown(f"**{rank} · {escape(card.title(row))}**  \n:small[{name}]")
    words = f"{percentile} latency" if metric is charts.LATENCY else metric.title
    st.metric(words, card.shown(row, metric).partition(" (")[0])
    escapes = [
        escape(card.interval_words(row, metric, interval)),
        escape(" · ".join(card.figures(row, metric, percentile))),
    ]
    escapes.append(escape(card.price_words(row) or "No price is known"))
    doubt = card.price_doubt(row)
    if doubt:
        escapes[-1] += f" :orange-badge[{escape(doubt)}]"
    power = card.power_words(row)
    escapes += [escape(power)] if power else []
    if metric is charts.ENERGY and (doubt := card.energy_doubt(row)) not in (None, "valid"):
        escapes[0] += f" · energy is {escape(str(doubt))}"
    escapes += [f"✓ {escape(sentence)}" for sentence in limits.met(row)]
    _lines(escapes)
    bar = card.memory_bar(row)
    if bar:
        st.html(bar)
    _lines([escape(card.memory_words(row))])
    _lines([escape(card.basis_words(row)), escape(sentence_of(str(row.get("why_above_next") or "")))])
    with st.popover("Evidence and how to check", width="stretch"):
        _checks(row)


def _lines(lines: Sequence[str]) -> None:
    """Show small lines, one below the other."""
    st.markdown("  \n".join(f":small[{line}]" for line in lines if line))


def _checks(row: RankedRow) -> None:
    st.caption(escape(card.error_words(row)))
    if variant := card.variant_words(row):
        st.caption(escape(variant))
    explanation = row.get("explanation")
    if explanation:
        st.caption(escape(sentence_of(explanation["told"])))
    events = row.get("evidence") or []
    if events:
        st.caption(f"Rests on {formatting.count(len(events))} event{'' if len(events) == 1 else 's'} of the log:")
        # As links, so that a row of numbers is one click away.
        links = [f"[{event}]({evidence.row_path(str(event))})" for event in events[:MOST_LINKS]]
        more = (
            f"  \nand {formatting.count(len(events) - MOST_LINKS)} more, in the files below"
            if len(events) > MOST_LINKS
            else ""
        )
        st.markdown(":small[" + "  \n".join(links) + "]" + more)
    st.caption("This measures it:")
    to_paste(str(row["command"]))


def sentence_of(words: str) -> str:
    """Begin with a capital."""
    return words[:1].upper() + words[1:]


PAGE = "recommend"
QUESTION = "Which hardware should run this model under my limits?"
FORM = f"{PAGE} form"
"""Whether the form is unfolded over an answer."""
CONFIDENCE = {"clear": "green", "likely": "blue", "toss-up": "orange"}
"""Colours of the badges; the word says the same."""
CARDS = 3


def show() -> None:
    """Show the answer to what the address asks; the form stands over it where nothing is asked yet, or on request."""
    read = current(PAGE, read_question)
    question: Question = read.asked
    remember(PAGE, question)
    owner, _, name = question.model.rpartition("/")
    header(name or "Recommend", QUESTION, slug=question.model if owner else "")
    with guarded("The service"):
        health = answers.ready()
        dropped(read.dropped)
        strip = st.container(horizontal=True, vertical_alignment="center", key="strip")
        if not question.model or st.session_state.get(FORM, False):
            show_form(question, health["position"])
        if question.model:
            titled(question.model, "Recommend")
            _answer(question, health["position"], strip)
        else:
            _examples(health["position"])


def ahead(params: Params) -> None:
    """Ask what the page will ask for these parameters."""
    question: Question = read_question(params).asked
    if question.model:
        answers.recommend(request(question), answers.ready()["position"])


def _chips(question: Question) -> None:
    """Show what narrows the answer, each a chip that can be taken away, and the way to the form."""
    refused = st.session_state.pop(REFUSED, [])
    if refused:
        st.warning("From the form: " + escape("; ".join(refused)) + ".")
    members = chips.removed(limits.chips(question), key=PAGE, label="In force (tap one to remove it)")
    if members:
        turn(PAGE, limits.without(question, members))
    unfolded = st.session_state.get(FORM, False)
    words = "Close the form" if unfolded else "Change the question"
    if st.button(words, key=f"{PAGE} change", icon=":material/tune:", type="tertiary"):
        st.session_state[FORM] = not unfolded
        st.rerun()


def _answer(question: Question, position: int, strip: DeltaGenerator) -> None:
    with strip:
        _chips(question)
    with guarded(question.model):
        sent = answers.recommend(request(question), position)
        answer = decoded(sent, Recommendation)
        unit = price_unit(answer)
        rows = ranking.rows_of(answer, unit, ranking.metric_for(question.objective))
        with strip:
            fixed = msgspec.structs.replace(question, as_of=question.as_of or position)
            provenance(PAGE, _footer(answer), fixed, terminal=command(fixed), rows=rows, interval=answer.interval)
        sentence = ranking.answer_sentence(rows, ranking.metric_for(question.objective), question.pct) if rows else ""
        with st.container(key="answer"):
            _at_hand(answer)
            _abstention(answer, rows)
            if rows:
                _first(answer, rows, unit, sentence)
            for note in answer.notes or []:
                st.caption(escape(str(note)))
        beside = limits.Added([], {}, [])
        if question.add:
            with guarded("The added devices"):
                beside = limits.added(question, answer, rows, position)
        if rows:
            _ranked(question, answer, rows, unit, beside, sentence, position, sent)
        _would_do(question, answer)
        _next(answer)
        _excluded(answer)


def _first(answer: Recommendation, rows: Sequence[RankedRow], unit: PriceUnit, sentence: str) -> None:
    """Show the picks, or what stands first by the figures alone; what one call is, and what is too close to call."""
    if answer.abstained:
        st.caption("What is known, which does not decide it. First by the figures alone:")
        st.subheader(escape(sentence), anchor=False)
    else:
        _picks(answer, unit)
    lines = [f"{sentence_of(line)}." if (line := call_line(answer.call)) else "", ranking.tie_sentence(rows) or ""]
    st.caption(escape(" ".join(filter(None, lines))))


def _at_hand(answer: Recommendation) -> None:
    """Say which of the devices at hand to use now, and the order in which to fall back on the others."""
    words = ranking.at_hand_words(answer.at_hand)
    if words:
        st.info(escape(words), icon=":material/memory:")


def _abstention(answer: Recommendation, rows: Sequence[RankedRow]) -> None:
    """Say that nothing is recommended, which is an answer and no error."""
    if answer.abstained:
        st.info(f"**No recommendation.** {escape(str(answer.abstained))}", icon=":material/balance:")
    elif not rows:
        st.info("Nothing is left under these limits. The list below says which limit each device failed.")


def _ranked(
    question: Question,
    answer: Recommendation,
    rows: Sequence[RankedRow],
    unit: PriceUnit,
    beside: limits.Added,
    sentence: str,
    position: int,
    sent: dict[str, Any],
) -> None:
    draw = _drawer(question, answer, [*rows, *beside.rows], unit)
    chart(draw(False), key=f"{PAGE} picture", words=f"{answer.model}: {sentence}")
    _drawn_words(answer, rows, unit)
    _choices(question, position)
    for left_out in beside.sentences:
        st.markdown(f":small[{escape(left_out)}]")
    energy = "energy" in question.objective
    kind = "" if answer.call is None else answer.call.unit
    columns = table.options_table(
        [*rows, *beside.rows], beside.reasons, percentile=question.pct, call=kind, energy=energy
    )
    result_table(columns, key=f"{PAGE} ranking", words=f"Ranking for {answer.model}")
    metric = ranking.metric_for(question.objective)
    folded("The first three in detail", partial(_details, question, answer, rows, metric), key=f"{PAGE} details")
    folded("Every column", partial(_every, answer.model, rows), key=f"{PAGE} folded", icon=":material/table_rows:")
    with st.container(horizontal=True, vertical_alignment="center", key="take away"):
        _files(question, answer, sent, draw, sentence)
        _keep(question, answer)


def _picks(answer: Recommendation, unit: PriceUnit) -> None:
    """Show the picks side by side: what each is best at, on what, how it runs, and how sure that is."""
    with st.grid(len(answer.picks) or 1, min_column_width=240, key="picks"):
        for pick in answer.picks:
            with st.container(border=True, gap="xxsmall", height="stretch", key=f"pick {pick.name}"):
                _show_pick(pick, pick_words(pick, answer), unit)


def _show_pick(pick: Pick, words: PickWords, unit: PriceUnit) -> None:
    mark = f" :{CONFIDENCE[pick.confidence]}-badge[{escape(words.confidence)}]" if pick.confidence else ""
    st.markdown(f":gray[{words.title}]{mark}")
    st.metric(words.device, words.figure)
    price = unit_price(pick.option, unit)
    beside = words.speed if pick.name == "cheapest" else "" if price == formatting.MISSING else price
    doubt = price_doubt(pick.option) if beside or pick.name == "cheapest" else ""
    doubted = f" :orange-badge[{escape(doubt)}]" if doubt else ""
    st.markdown(f":small[{escape(' · '.join(filter(None, [words.runs, beside, words.evidence])))}]{doubted}")


def _details(question: Question, answer: Recommendation, rows: Sequence[RankedRow], metric: charts.Metric) -> None:
    for column, row in zip(st.columns(min(CARDS, len(rows))), rows, strict=False):
        with column, st.container(border=True, height="stretch", gap="xsmall"):
            show_card(question.pct, row, metric, answer.interval)


def _every(model: str, rows: Sequence[RankedRow]) -> None:
    result_table(table.every_column(rows), key=f"{PAGE} every column", words=f"Every column for {model}")


def _choices(question: Question, position: int) -> None:
    """Offer a line for each device or each configuration, and a device to see beside the answer."""
    with st.container(horizontal=True, vertical_alignment="center", key="choices"):
        every = st.toggle("All configurations", value=not question.per_hw, key=f"{PAGE} every {question.per_hw}")
        with st.container(width=260):
            show_adding(question, position)
    if every != (not question.per_hw):
        turn(PAGE, msgspec.structs.replace(question, per_hw=not every))


def _drawer(
    question: Question, answer: Recommendation, rows: Sequence[RankedRow], unit: PriceUnit
) -> Callable[[bool], Any]:
    shade, up = theme(), _up(answer, unit)

    def draw(picture: bool) -> Any:
        at_least = question.min_per_s if up is charts.THROUGHPUT else None
        limit = charts.Limit(latency_ms=question.max_ms, min_throughput_per_s=at_least)
        points = ranking.drawn(rows, answer.front, unit, () if answer.abstained else answer.picks)
        return charts.tradeoff(points, up=up, theme=shade, limit=limit, percentile=question.pct, picture=picture)

    return draw


def _up(answer: Recommendation, unit: PriceUnit) -> charts.Metric:
    axis = answer.front.axes[1]
    return ranking.price_metric(unit) if axis == "cost" else charts.METRICS[axis]


def _drawn_words(answer: Recommendation, rows: Sequence[RankedRow], unit: PriceUnit) -> None:
    """Say what the line is, and how much has no place on the picture."""
    up = _up(answer, unit)
    front = answer.front.options
    if len(front) == 1:
        texts = [f"One option is best in both latency and {up.title.lower()}"]
    else:
        texts = [f"The line joins the {len(front)} options that nothing beats in both latency and {up.title.lower()}"]
    missing = sum(not charts.can_be_drawn(row, up) for row in rows)
    if missing:
        texts.append(f"{missing} of the {len(rows)} listed have no {up.title.lower()} and are not drawn")
    st.caption(". ".join(texts) + ".")


def _files(
    question: Question, answer: Recommendation, sent: dict[str, Any], draw: Callable[[bool], Any], sentence: str
) -> None:
    name = stem(PAGE, question.model, answer.position)
    title = f"Hardware for {question.model}"
    downloads(
        [
            ("CSV, every column", f"{name}.csv", "text/csv", lambda: ranking.csv_file(answer)),
            *table_files(name, lambda: sent["ranked"], as_of=answer.position)[1:],
            (
                "JSON, as the API answers",
                f"{name}.json",
                "application/json",
                lambda: msgspec.json.format(msgspec.json.encode(sent), indent=2),
            ),
            *picture_files(name, lambda: draw(True), title, answer=sentence, footer=_footer(answer)),
        ],
        PAGE,
    )


def _keep(question: Question, answer: Recommendation) -> None:
    """Offer to write the answer to the log, so that it is scored by what is measured later. Viewers only read."""
    if sign_in.reader().role != "operator":
        return
    help_ = "Written to the log under its id; what it estimates is scored once it is measured."
    if st.button("Keep this answer", icon=":material/bookmark_add:", key=f"{PAGE} keep", help=help_):
        with guarded("Keeping it"):
            identifier = answers.record(request(question), answer.position)["id"]
            st.success(
                f"Kept as `{identifier}`. [Predictor](/predictor) says how right it was, as far as it is measured.",
                icon=":material/bookmark_added:",
            )


def _would_do(question: Question, answer: Recommendation) -> None:
    result = limits.relaxed(question, answer.within_reach or [])
    if not result:
        return
    st.subheader("What would do", anchor=False)
    for place, item in enumerate(result):
        with st.container(horizontal=True, vertical_alignment="center", key=f"would do {place}"):
            st.markdown(escape(sentence_of(item.words)), width="content")
            if st.button("Ask that", key=f"{PAGE} would do {place}", type="tertiary", icon=":material/arrow_forward:"):
                turn(PAGE, item.question)


def _next(answer: Recommendation) -> None:
    """Say what to measure: openly where nothing is recommended, because that is what to do then."""
    if not answer.suggestions:
        return
    words = "What to measure next"
    folded(words, partial(_suggestions, answer), key=f"{PAGE} next", expanded=bool(answer.abstained))


def _suggestions(answer: Recommendation) -> None:
    st.caption("Each with the probability that it changes what stands first, where that can be said.")
    for suggestion in (answer.suggestions or [])[:CARDS]:
        chance = suggestion.probability
        likely = "" if chance is None else f"**{limits.chance(chance)}** · "
        st.markdown(likely + escape(suggestion.why if likely else sentence_of(suggestion.why)))
        to_paste(suggestion.command)


def _excluded(answer: Recommendation) -> None:
    excluded = answer.excluded
    if not excluded:
        return
    words = f"Why not the others: {formatting.count(len(excluded))} left out"
    folded(words, partial(_left_out, excluded), key=f"{PAGE} excluded", expanded=not answer.ranked)


def _left_out(excluded: Sequence[ExcludedConfigurations]) -> None:
    counted = columns_of(limits.counted(excluded))
    result_table(counted, key=f"{PAGE} counted", words="How many each rule left out")
    each = columns_of(limits.excluded_table(excluded))
    result_table(each, key=f"{PAGE} each excluded", words="What was left out, and why", height=360)


def _footer(answer: Recommendation) -> str:
    parts = [f"position {formatting.count(answer.position)}"]
    if answer.time:
        parts.append(formatting.date(answer.time, zone()))
    if answer.predictor:
        parts.append(f"predictor {formatting.digest(str(answer.predictor))}")
    if answer.interval:
        parts.append(f"{formatting.share(answer.interval).replace('.0', '')} intervals")
    if answer.considered:
        parts.append(f"{formatting.count(answer.met)} of {formatting.count(answer.considered)} meet what is asked")
    return " · ".join(parts)


def _examples(position: int) -> None:
    """Offer the cookbook: what this page can ask fills the form, the rest is for a terminal."""
    if not answers.summary(position)["measurements"]:
        st.info("Nothing has been measured yet. Type any model's id above, or measure one so that answers rest on it:")
        to_paste("assay bench bert-base-uncased --platform cpu,openvino")
    with st.container(key="answer"):
        st.subheader("Questions to start from", anchor=False)
    columns = st.columns(2)
    for place, recipe in enumerate(recipes()):
        question = from_command(recipe.command)
        with columns[place % 2], st.container(border=True, key=f"recipe-{recipe.name}", gap="xsmall"):
            if question is None:
                st.markdown(f"**{escape(recipe.title)}**")
            else:
                _example(recipe, question)
            st.caption(escape(recipe.asked))
            if question is None:
                to_paste(recipe.command)


def _example(recipe: Recipe, question: Question) -> None:
    mark = ":material/arrow_forward:"
    if st.button(f"**{escape(recipe.title)}**", key=f"{PAGE} recipe {recipe.name}", type="tertiary", icon=mark):
        turn(PAGE, question)
