"""Jobs: what waits, who works on it, and what failed?"""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

import msgspec
import streamlit as st

from dashboard import sign_in
from dashboard.frame import dropped, escape, folded, guarded, header, provenance, titled, to_paste, zone
from dashboard.page_state import adopt, current, go, say, turn, widget
from dashboard.screens.jobs import query as asking
from dashboard.screens.jobs import words as job_words
from dashboard.screens.jobs.words import ALL, OFFERED, PAGE, JobsView
from dashboard.service import client
from dashboard.tables.result_table import result_table
from domain.errors import InvalidInput, NotFound, StateConflict
from domain.jobs.jobs import ENDED, Job, JobList, Queue
from presentation import formatting

__all__ = ["show"]

EVERY_S = 5
"""How often the page asks again while jobs run or wait."""
_MARKS = {"waiting": "gray", "running": "blue", "succeeded": "green", "failed": "red", "cancelled": "gray"}


def show() -> None:
    """Show the queue with its workers and submissions, the jobs that the address asks for, and one of them."""
    read = current(PAGE, job_words.read_jobs)
    view: JobsView = read.asked
    header("Jobs", "What waits, who works on it, and what failed?")
    with guarded("The service"):
        dropped(read.dropped)
        say(PAGE, view)
        adopt(PAGE, view, {"state": view.state})
        queue = asking.queue()
        moving = queue.counts.get("running", 0) + queue.counts.get("waiting", 0)
        if moving:
            st.fragment(_overview, run_every=EVERY_S)()
        else:
            _overview()
        if any(queue.counts.values()):
            with guarded("The jobs"):
                _jobs(view)
        if queue.schedules:
            shown = partial(
                result_table,
                job_words.schedule_columns(queue.schedules, zone()),
                key=f"{PAGE} schedules",
                words="Schedules",
            )
            folded(f"Schedules ({len(queue.schedules)})", shown, key=f"{PAGE} schedules part")
        state = "" if view.state == ALL else f" --state {view.state}"
        words = f"As it is now, asked again every {EVERY_S} s while jobs run or wait."
        provenance(PAGE, words, view, terminal=f"assay jobs list{state}")


def _overview() -> None:
    """Say how the queue stands, and who works."""
    queue = asking.queue()
    with st.container(key="answer"):
        st.subheader(job_words.sentence(queue), anchor=False)
    words = job_words.waiting_words(queue)
    if words:
        st.markdown(words)
    if not queue.workers or not any(queue.counts.values()):
        _begin(queue)
    if queue.workers:
        st.markdown("**Workers**")
        running = asking.jobs(("running",), "")
        titles = {job.id: job.title for job in running.jobs}
        columns = job_words.worker_columns(queue, titles, zone())
        result_table(columns, key=f"{PAGE} workers", words="Workers, those that are there first", height=260)
    if queue.submissions:
        st.markdown("**Submissions**")
        columns = job_words.submission_columns(queue.submissions, zone())
        result_table(columns, key=f"{PAGE} submissions", words="Submissions that have not ended", height=260)


def _begin(queue: Queue) -> None:
    """Offer the commands that begin: a worker on each machine, and a plan for them."""
    if not queue.workers:
        st.markdown("On each machine that shall measure, with a token of the scopes `work` and `append`:")
        to_paste(f"assay worker --server {client().server}")
    if not any(queue.counts.values()):
        st.markdown("Each case of a plan becomes a job for a machine that can do it:")
        to_paste("assay jobs submit plan.yaml")


def _jobs(view: JobsView) -> None:
    listed = asking.jobs(job_words.states_of(view), view.submission)
    _bar(view)
    said = st.session_state.pop(f"{PAGE} said", None)
    if said:
        st.success(said, icon=":material/check_circle:")
    if listed.jobs:
        columns = job_words.job_columns(listed.jobs, view, zone())
        result_table(columns, key=f"{PAGE} listed", words="Jobs, the newest first", height=420)
        total = sum(listed.counts.get(state, 0) for state in job_words.states_of(view) or listed.counts)
        if total > len(listed.jobs):
            st.caption(f"The newest {len(listed.jobs)} of {formatting.count(total)}.")
    else:
        st.info("No job is in this state." if view.state != ALL else "No job has this submission.")
    if view.submission:
        _submission(view, listed)
    if view.job:
        _opened(view)


def _bar(view: JobsView) -> None:
    """Show the filter, and make what it holds the address."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="bar"):
        st.segmented_control(
            "Jobs", list(OFFERED), key=widget(PAGE, "state"), format_func=OFFERED.__getitem__, required=True
        )
        if view.submission and st.button("All submissions", icon=":material/close:", key=f"{PAGE} every"):
            turn(PAGE, msgspec.structs.replace(view, submission="", job=""))
    state = st.session_state.get(widget(PAGE, "state")) or view.state
    if state != view.state:
        turn(PAGE, msgspec.structs.replace(view, state=state, job=""))


def _submission(view: JobsView, listed: JobList) -> None:
    """Offer to cancel what a submission has left; only to operators, for others read."""
    left = any(listed.counts.get(state) for state in ("waiting", "running"))
    if sign_in.reader().role != "operator" or not left:
        return
    if st.button("Cancel what is left of this submission", icon=":material/block:", key=f"{PAGE} cancel all"):
        with guarded("The submission"):
            number = asking.cancel_submission(view.submission)
            st.session_state[f"{PAGE} said"] = f"{formatting.count(number)} jobs are cancelled or being stopped."
            st.rerun()


def _opened(view: JobsView) -> None:
    """Show the job that the address names: what it needs, how it went, its runs and its plan."""
    try:
        job = asking.job(view.job)
    except (InvalidInput, NotFound):
        st.warning(f"There is no job {escape(view.job)}.", icon=":material/link_off:")
        return
    titled(job.title, "Jobs")
    with st.container(border=True, key=f"{PAGE} job"):
        st.subheader(escape(job.title), anchor=False)
        state = "being cancelled" if job.cancelling else job.state
        st.markdown(f":{_MARKS[job.state]}-badge[{state}] :gray[id `{job.id}`]")
        for words in filter(None, (job.unmet, job.reason)):
            st.markdown(f"Why: {escape(words)}")
        st.markdown("  \n".join(f":gray[{name}] {escape(value)}" for name, value in job_words.facts(job, zone())))
        for run in job.run_ids:
            st.markdown(f"[Run {run}](runs?run={quote(run)})")
        if job.plan:
            folded("Plan", partial(st.json, job.plan), key=f"{PAGE} plan {job.id}")
        _act(job, view)


def _act(job: Job, view: JobsView) -> None:
    """Offer to cancel the job or to queue it again; only to operators, for others read."""
    if sign_in.reader().role != "operator" or job.cancelling or job.state == "succeeded":
        return
    ended = job.state in ENDED
    label, icon = ("Queue again", ":material/replay:") if ended else ("Cancel", ":material/block:")
    if st.button(label, icon=icon, key=f"{PAGE} act {job.id}"):
        with guarded("The job"):
            try:
                changed = asking.retry_job(job.id) if ended else asking.cancel_job(job.id)
            except StateConflict as conflict:
                st.session_state[f"{PAGE} said"] = f"Not changed: {escape(conflict.detail)}"
            else:
                words = "waits again" if ended else "is being stopped" if changed.state == "running" else "is cancelled"
                st.session_state[f"{PAGE} said"] = f"{escape(job.title)} {words}."
            go(PAGE, view)
            st.rerun()
