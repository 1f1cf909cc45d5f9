"""Regressions: what got worse, why, and who looks at it?"""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

import msgspec
import streamlit as st

from dashboard import answers, sign_in
from dashboard.downloads import table_files
from dashboard.frame import (
    chart,
    coded,
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
from dashboard.page_state import adopt, current, go, say, turn, widget
from dashboard.screens.regressions import query as asking
from dashboard.screens.regressions import words as triage_words
from dashboard.screens.regressions.words import DIRECTIONS, OFFERED, PAGE, STATE_MARKS, Triage
from dashboard.screens.trends.chart import across, span_of, trend
from dashboard.screens.trends.words import Lane, metric_of
from dashboard.tables.result_table import result_table
from domain.answers.histories import AlertList
from domain.errors import AssayError, NotFound, StateConflict
from domain.figures import FIGURES
from domain.history.alerts import Alert, NewAlertState, State, check_transition
from domain.history.history import Change
from presentation import formatting
from presentation.alert_words import bisect_by_hand, bisect_command, cause_words, distinct_causes

__all__ = ["show"]

QUESTION = "What got worse, why, and who looks at it?"
_ACTS: dict[State, tuple[str, str, str]] = {
    "acknowledged": ("Acknowledge", ":material/visibility:", "Somebody looks at it."),
    "expected": ("Expected", ":material/thumb_up:", "The change was meant: a new level begins. Needs a reason."),
    "fixed": ("Fixed", ":material/build:", "The cause was removed. Needs a reason."),
    "false": ("False alarm", ":material/block:", "It is no change. Needs a reason."),
    "new": ("Open again", ":material/undo:", "Make it new again."),
}
_LEGEND = (
    "An alert is what changed for one cause: figures and tests of one hardware, in one direction. Its size is that of the largest "
    "change with a 95 % interval. In the picture black lines are levels, each with the band in which 95 % of new points are "
    "expected; the change happened within the shaded range; a point with a dashed ring is suspect."
)


def show() -> None:
    """Show the alerts that the address asks for, the worst first, and one of them with its evidence."""
    read = current(PAGE, triage_words.read_triage)
    triage: Triage = read.asked
    header("Regressions", QUESTION)
    with guarded("The service"):
        dropped(read.dropped)
        say(PAGE, triage)
        at = answers.ready()["position"] if triage.as_of is None else triage.as_of
        values = {"state": triage.state, "direction": triage.direction}
        adopt(PAGE, triage, values | {name: getattr(triage, name) or None for name in ("model", "hw")})
        with guarded("The alerts"):
            _alerts(triage, at)


def _alerts(triage: Triage, at: int) -> None:
    listed = asking.alerts(
        at,
        triage_words.states_of(triage),
        None if triage.direction == "all" else triage.direction,
        triage.model or None,
        triage.hw or None,
    )
    with st.container(key="answer"):
        st.subheader(triage_words.sentence(listed.counts, triage), anchor=False)
    _bar(triage, listed)
    said = st.session_state.pop(f"{PAGE} said", None)
    if said:
        st.success(said, icon=":material/check_circle:")
    if listed.alerts:
        columns = triage_words.alert_columns(listed.alerts, triage, zone())
        result_table(columns, key=f"{PAGE} alerts", words="Alerts, the worst first", height=330)
        total = triage_words.number_of(listed.counts, triage)
        if total > len(listed.alerts):
            st.caption(f"The worst {len(listed.alerts)} of {formatting.count(total)}; the filters lead to the others.")
    else:
        _nothing(triage, listed)
    shown = _opened(triage, listed, at)
    if shown is not None:
        _alert(shown, triage, at)
    folded("Cannot tell yet", partial(_suspects, triage, at), key=f"{PAGE} suspects", icon=":material/help:")
    with st.container(horizontal=True, vertical_alignment="center"):
        if listed.alerts:
            rows = [msgspec.to_builtins(alert) for alert in listed.alerts]
            downloads(table_files(f"assay_{PAGE}_p{at}", rows, as_of=at), PAGE)
        state = "" if triage.state == "open" else " --all" if triage.state == "all" else f" --state {triage.state}"
        fixed = msgspec.structs.replace(triage, as_of=at)
        words = f"Position {formatting.count(at)} of the log. {_LEGEND}"
        provenance(PAGE, words, fixed, terminal=f"assay alerts list{state}")


def _bar(triage: Triage, listed: AlertList) -> None:
    """Show the filters, and make what they hold the address."""
    changes = [change for alert in listed.alerts for change in alert.changes]
    offered = {"model": {change.model for change in changes}, "hw": {change.hardware for change in changes}}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="bar"):
        st.segmented_control(
            "Direction",
            list(DIRECTIONS),
            key=widget(PAGE, "direction"),
            format_func=DIRECTIONS.__getitem__,
            required=True,
        )
        st.selectbox(
            "State", OFFERED, key=widget(PAGE, "state"), filter_mode=None, format_func=str.capitalize, width=150
        )
        for label, name in (("Model", "model"), ("Hardware", "hw")):
            own = {getattr(triage, name)} - {""}
            st.selectbox(
                label,
                sorted(offered[name] | own),
                index=None,
                key=widget(PAGE, name),
                accept_new_options=True,
                placeholder="All",
                width=250,
            )
    state = {name: st.session_state.get(widget(PAGE, name)) for name in ("direction", "state", "model", "hw")}
    chosen = msgspec.structs.replace(triage, **{name: (value or "").strip() for name, value in state.items()})
    if chosen != triage:
        turn(PAGE, msgspec.structs.replace(chosen, alert="", change=""))


def _nothing(triage: Triage, listed: AlertList) -> None:
    """Say why there is no alert: the filters leave none, or nothing was ever confirmed."""
    if listed.counts:
        others = ", ".join(f"{formatting.count(number)} {state}" for state, number in listed.counts.items())
        st.info(f"The state leaves none of these: {others}.")
        if st.button("Show all states", key=f"{PAGE} all"):
            turn(PAGE, msgspec.structs.replace(triage, state="all"))
        return
    if triage.model or triage.hw:
        st.info("There is no alert about these.")
        if st.button("Reset filters", key=f"{PAGE} reset"):
            turn(PAGE, Triage(as_of=triage.as_of))
        return
    st.info(
        "Alerts stand here, the worst first: each with its size, its evidence before and after, what else changed then, and the "
        "command that finds the commit or version. The service raises one by itself where a figure of a configuration stays "
        "worse than it was, or a test that passed keeps failing. It takes about six measurements before and five after, so "
        "measure the same every night:"
    )
    to_paste("assay bench bert-base-uncased --platform cpu")


def _opened(triage: Triage, listed: AlertList, at: int) -> Alert | None:
    """Return the alert that the address names, the worst one without a name; None where there is none."""
    if not triage.alert:
        return listed.alerts[0] if listed.alerts else None
    found = next((alert for alert in listed.alerts if alert.id == triage.alert), None)
    if found is not None:
        return found
    try:
        return asking.alert(at, triage.alert)
    except NotFound:
        st.warning(f"There is no alert {escape(triage.alert)}.", icon=":material/link_off:")
        return listed.alerts[0] if listed.alerts else None


def _alert(alert: Alert, triage: Triage, at: int) -> None:
    """Show an alert: what happened, what an operator says about it, the evidence and the way to its cause."""
    if triage.alert:
        titled(triage_words.heading(alert), "Regressions")
    with st.container(border=True, key=f"{PAGE} alert"):
        st.subheader(escape(triage_words.heading(alert)), anchor=False)
        _facts(alert)
        if triage.as_of is None:
            _decide(alert, triage)
        change = _change(alert, triage)
        with guarded("The evidence"):
            _evidence(change, alert, at)
        if alert.states:
            columns = triage_words.state_columns(alert, zone())
            show = partial(result_table, columns, key=f"{PAGE} states", words="States, the newest first", height=260)
            folded(f"What was said ({len(alert.states)})", show, key=f"{PAGE} states part")


def _facts(alert: Alert) -> None:
    marks = [f":{STATE_MARKS[alert.state]}-badge[{alert.state}]"]
    marks += [f":gray-badge[{escape(owner)}]" for owner in alert.owners]
    facts = [f"id `{alert.id[:8]}`"]
    if alert.raised_at:
        facts.append(f"raised {formatting.when(alert.raised_at, zone())}")
    st.markdown(f"{' '.join(marks)} :gray[{' · '.join(facts)}]")
    if alert.cause:
        st.markdown(f"**Candidate cause:** {escape(cause_words(alert.cause))}")
    else:
        words = (
            "several things that the changes do not share"
            if any(c.causes for c in alert.changes)
            else "nothing that was recorded"
        )
        st.markdown(f"**Candidate cause:** {words} changed with it")


def _decide(alert: Alert, triage: Triage) -> None:
    """Offer the states that the alert can go to; only to operators, for others read."""
    reader = sign_in.reader()
    if reader.role != "operator" or alert.state == "withdrawn":
        return
    offered = [state for state in _ACTS if _can_go(alert.state, state)]
    # What was written is for one decision: after it the field is another, and empty.
    name = f"{alert.id} {len(alert.states)}"
    with (
        st.form(f"{PAGE} decide {name}", enter_to_submit=False, border=False),
        st.container(horizontal=True, vertical_alignment="bottom", gap="small"),
    ):
        reason = st.text_input(
            "Reason", key=f"{PAGE} reason {name}", max_chars=4000, placeholder="In a sentence", width=330
        )
        pressed = [
            state
            for state in offered
            if st.form_submit_button(_ACTS[state][0], icon=_ACTS[state][1], help=_ACTS[state][2], key=f"{PAGE} {state}")
        ]
    if pressed:
        with guarded("The state"):
            _give(alert, pressed[0], reason.strip() or None, reader.name if reader.signed_in else None, triage)


def _can_go(before: State, state: State) -> bool:
    try:
        check_transition(before, NewAlertState(state=state, reason="asked"))
    except AssayError:
        return False
    return True


def _give(alert: Alert, state: State, reason: str | None, author: str | None, triage: Triage) -> None:
    check_transition(alert.state, NewAlertState(state=state, reason=reason))
    try:
        changed = asking.give_state(alert.id, state, reason, author)
    except StateConflict as conflict:
        # Somebody was quicker: what is shown next is what they said.
        st.session_state[f"{PAGE} said"] = f"Not changed: {coded(conflict.detail)}"
    else:
        st.session_state[f"{PAGE} said"] = (
            f"The alert is **{changed.state}** now: {escape(triage_words.heading(changed))}"
        )
    go(PAGE, msgspec.structs.replace(triage, alert=alert.id))
    st.rerun()


def _change(alert: Alert, triage: Triage) -> Change:
    """Let the reader choose a change where an alert has several, and return the one that is drawn."""
    by_id = {change.id: change for change in alert.changes}
    if len(by_id) == 1:
        return alert.changes[0]
    key = f"{PAGE} change {alert.id}"
    if key not in st.session_state:
        st.session_state[key] = triage.change if triage.change in by_id else alert.changes[0].id
    chosen = st.selectbox(
        f"Evidence of one of {formatting.count(len(by_id))} changes, the largest first",
        list(by_id),
        key=key,
        format_func=lambda name: (
            f"{triage_words.change_sizes(by_id[name])} · {triage_words.figure(by_id[name])} · {triage_words.configuration(by_id[name])}"
        ),
    )
    named = chosen if chosen != alert.changes[0].id else ""
    if named != triage.change:
        go(PAGE, msgspec.structs.replace(triage, alert=alert.id, change=named))
    return by_id[chosen]


def _evidence(change: Change, alert: Alert, at: int) -> None:
    """Draw the history of a change with its levels, and list the events on both sides of it."""
    st.markdown(
        f"**{escape(triage_words.figure(change))}** {escape(triage_words.change_sizes(change))}"
        f"{'' if change.kind == 'functional' else f', a {change.kind}'}.  \n"
        f":gray[{escape(triage_words.range_words(change, zone()))}]"
    )
    lane = asking.followed(change, alert.id, at)
    if lane is not None:
        _draw(change, lane)
    first = [alert.cause] if alert.cause else []
    others = distinct_causes([*first, *change.causes])[len(first) :]
    if others:
        st.caption("Changed with it too: " + escape(" · ".join(cause_words(cause) for cause in others[:6])) + ".")
    if change.doubts:
        st.caption(f"Most rows on both sides are suspect: {escape(', '.join(change.doubts))}.")
    path = triage_words.trend_path(change)
    if path:
        st.markdown(
            f"[The whole history]({path}) · [Model](models?id={quote(change.model)}) · [Hardware](hardware?id={quote(change.hardware)})"
        )
    _bisect(alert, change)
    events = (*change.evidence_before, *change.evidence_after)
    show = partial(_events, change, lane, events, at)
    folded(
        f"The events before and after ({len(events)})", show, key=f"{PAGE} events {change.id}", expanded=lane is None
    )


def _events(change: Change, lane: Lane | None, events: tuple[str, ...], at: int) -> None:
    with guarded("The events"):
        outcomes = asking.outcomes(events, at) if lane is None else {}
        columns = triage_words.evidence_columns(change, lane, outcomes, zone())
        result_table(columns, key=f"{PAGE} evidence", words="The events before and after", height=420)


def _bisect(alert: Alert, change: Change) -> None:
    """Show the command that finds what made the change."""
    st.markdown("**Find the commit or version**")
    command = bisect_command(alert)
    if command is None:
        st.caption("It is not known between which two it happened: name a good and a bad one.")
    to_paste(command or bisect_by_hand(change))


def _draw(change: Change, lane: Lane) -> None:
    on = across([lane], "time")
    metric = metric_of(change.metric)
    better = "smaller" if FIGURES[change.metric].better == "lower" else "higher"
    drawn = trend(lane, metric, better, span_of([lane], on), on=on, theme=theme(), zone=zone())
    words = f"{triage_words.figure(change)} of {triage_words.configuration(change)} over time, with the level before and after"
    chart(drawn, key=f"{PAGE} history", words=words)


def _suspects(triage: Triage, at: int) -> None:
    """List histories with points that are not as expected and are no change yet; they raise no alert."""
    with guarded("Suspect points"):
        reports = asking.suspects(at, triage.model or None, triage.hw or None)
        if not reports:
            st.caption("The newest point of every history is where its level expects it.")
            return
        st.caption(
            "Points outside of what their level predicts, in too small a number to be a change. Nobody is sent them; the next "
            "measurements tell."
        )
        result_table(
            triage_words.suspect_columns(reports),
            key=f"{PAGE} suspect",
            words="Histories with suspect points",
            height=360,
        )
