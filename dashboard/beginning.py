"""How an installation gets measurements: measure this machine, import files after a look at what they hold, add the published data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from assay.client.transport import Json
from dashboard import answers, sign_in
from dashboard.frame import escape, guarded, to_paste
from dashboard.service import client
from dashboard.tables.result_table import Column, filled, result_table
from domain.errors import Forbidden
from domain.events import MEASUREMENT_RECORDED
from presentation import formatting

__all__ = ["added_words", "found_words", "offers", "refused_columns", "show"]

MEASURE = "assay bench bert-base-uncased --platform cpu,openvino"
LARGEST_MB = 11
"""Of all files of one upload: the service takes bodies of 16 MB, and text for bytes is a third longer."""
PATIENCE_S = 60.0
EVENTS_PER_S = 5000
"""So fast tables show what was added, at the least; PATIENCE_S is added."""
_READ = "files that were read"


def show(sentence: str = "Nothing has been measured yet. Begin with one of these:") -> None:
    """Say that there is nothing yet, and offer the ways to begin."""
    with st.container(key="answer"):
        st.subheader(escape(sentence), anchor=False)
        offers()


def offers() -> None:
    """Offer the ways to add measurements; who may only look is shown the commands."""
    may_add = sign_in.reader().role == "operator"
    grid = st.grid(3, min_column_width=280, key="beginning")
    with grid.container(border=True, height="stretch"):
        st.markdown(
            "**Measure this machine**  \nBuilds a model, measures it here and sends the result. Paste into a terminal:"
        )
        to_paste(MEASURE)
    with grid.container(border=True, height="stretch"):
        st.markdown(
            "**Import files**  \nResults of llama-bench, vLLM, timm, MLPerf, pytest-benchmark and forty other tools."
        )
        if not may_add:
            to_paste("assay import auto results/ --dry-run")
        elif st.button("Import files", icon=":material/upload_file:", key="beginning import"):
            st.session_state.pop(_READ, None)
            _import_dialog()
    with grid.container(border=True, height="stretch"):
        st.markdown("**Browse the published data**  \nSome 72,000 measurements that others published ship with Assay.")
        if not may_add:
            to_paste("assay data add")
        elif st.button("Add the published data", icon=":material/library_add:", key="beginning shipped"):
            with guarded("The published data"), st.spinner("Adding the published measurements…"):
                _shown(_allowed(client().add_shipped_data))


@st.dialog("Import files", width="large")  # type: ignore[untyped-decorator]
def _import_dialog() -> None:
    """Take files, show what they would add and what is refused, and add them when the reader says so."""
    st.caption(
        f"Tables, logs and archives of other tools, {LARGEST_MB} MB at most. The log does not change before you say so."
    )
    sent = st.file_uploader(
        "Files",
        accept_multiple_files=True,
        key="beginning files",
        label_visibility="collapsed",
        max_upload_size=LARGEST_MB,
    )
    if not sent:
        return
    files = {file.name: file.getvalue() for file in sent}
    if sum(map(len, files.values())) > LARGEST_MB << 20:
        st.warning(f"These are over {LARGEST_MB} MB. This reads files of any size:", icon=":material/warning:")
        to_paste("assay import auto results/ --dry-run")
        return
    with guarded("The import"):
        found = _dry_run(tuple(file.file_id for file in sent), files)
        st.markdown(f"**{escape(found_words(found))}**")
        if found["refused"]:
            result_table(
                refused_columns(found["refused"]), key="beginning refused", words="What is refused", height=260
            )
        total = sum(found["events"].values())
        if total and st.button(f"Add {_rows(found)}", type="primary", key="beginning add", icon=":material/add:"):
            with st.spinner("Adding…"):
                done = _allowed(lambda: client().import_files(files, dry_run=False))
                _shown(done)


def _dry_run(mark: tuple[str, ...], files: Mapping[str, bytes]) -> Json:
    """Return what files would add; asked once for the same files of one reader."""
    kept: tuple[tuple[str, ...], Json] | None = st.session_state.get(_READ)
    if kept is None or kept[0] != mark:
        kept = (mark, _allowed(lambda: client().import_files(files)))
        st.session_state[_READ] = kept
    return kept[1]


def _allowed(ask: Callable[[], Json]) -> Json:
    """Ask the service, and name the token that is needed where this dashboard's may not append."""
    try:
        return ask()
    except Forbidden as refused:
        raise Forbidden(
            "The token that this dashboard sends may read the log and not add to it.",
            field=refused.field,
            remedy="Start the dashboard with ASSAY_TOKEN, from `assay token create dashboard --scope read --scope append`.",
        ) from refused


def _shown(done: Json) -> None:
    """Wait until the tables hold what was added, and show the page anew."""
    if done["last_position"] is not None:
        client().wait_for(done["last_position"], PATIENCE_S + (done["accepted"] or 0) / EVENTS_PER_S)
    answers.forget()
    st.toast(escape(added_words(done)), icon=":material/check_circle:")
    st.rerun()


def found_words(found: Mapping[str, Any]) -> str:
    """Say what files would add, and how much of them is refused."""
    refused = formatting.count(found["rows_refused"])
    rest = f"; {refused} {'is' if found['rows_refused'] == 1 else 'are'} refused" if found["rows_refused"] else ""
    if not sum(found["events"].values()):
        return f"Nothing of this can be added{rest}."
    of = [_several(len(found["models"]), "model"), _several(len(found["hardware"]), "device")]
    return f"{_rows(found)} of {' on '.join(of)} would be added{rest}."


def added_words(done: Mapping[str, Any]) -> str:
    """Say what an import added, and what the log had already."""
    had = done["duplicate"]
    return f"{_several(done['accepted'], 'event')} added" + (
        f", {formatting.count(had)} were there already" if had else ""
    )


def refused_columns(refused: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Return the columns of what is refused: why, how many rows, and the first of them."""
    columns = [
        Column(head="Why", values=[_why(item) for item in refused]),
        Column(head="Rows", values=[item["rows"] for item in refused]),
        Column(head="First in", values=[item["path"] for item in refused]),
        Column(head="Row", values=[item["row"] for item in refused]),
    ]
    return filled(columns)


def _why(refused: Mapping[str, Any]) -> str:
    return f"{refused['field']}: {refused['reason']}" if refused["field"] else str(refused["reason"])


def _rows(found: Mapping[str, Any]) -> str:
    """Count what files hold: measurements where there are any, else events."""
    measured = found["events"].get(MEASUREMENT_RECORDED, 0)
    return _several(measured, "measurement") if measured else _several(sum(found["events"].values()), "event")


def _several(count: int, word: str) -> str:
    return f"{formatting.count(count)} {word}{'' if count == 1 else 's'}"
