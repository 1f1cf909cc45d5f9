"""The search box in the head of every page, and where its answers lead.

The browser sends what is typed; the ranking is made here. Nothing is asked of the service before the box is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec
import streamlit as st

from dashboard import answers, menu
from dashboard.search.entries import comparison_entry, first_entries, index, pages_index, row_entry
from dashboard.search.index import Entry, Hit, Index
from domain.errors import AssayError
from presentation import formatting

__all__ = ["show_search"]

PLACE = "search"
LISTED = 8
_HERE = Path(__file__).parent
_NOUNS = {
    "page": "Page",
    "model": "Model",
    "hardware": "Hardware",
    "question": "Saved question",
    "run": "Run",
    "comparison": "Compare",
}
_AWAY = "The service does not answer: only pages and saved questions are searched."

_component = st.components.v2.component(
    "assay.search",
    html=(_HERE / "box.html").read_text("utf-8"),
    css=(_HERE / "box.css").read_text("utf-8"),
    js=(_HERE / "box.js").read_text("utf-8"),
    isolate_styles=False,
)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the browser sends: a text to list answers to, to open its best answer, or the entry or address that was chosen."""

    do: Literal["list", "open", "choose", "follow"]
    text: str = ""
    key: str = ""
    number: int = 0


class Answer(NamedTuple):
    """What the browser shows, and the page to open, if any."""

    shown: Mapping[str, Any] = MappingProxyType({})
    page: str | None = None
    params: Mapping[str, str | Sequence[str]] = MappingProxyType({})


def show_search(*, operator: bool) -> None:
    """Show the box in the head of the page; `operator` finds pages for operators too."""
    with st.container(key=PLACE):
        st.fragment(_box)(operator)


def _box(operator: bool) -> None:
    """Answer what was typed, and open what was chosen."""
    request = _read(st.session_state.get(f"{PLACE} sent"))
    answer = Answer() if request is None else _answer(request, operator=operator)
    _component(key=f"{PLACE} box", data=dict(answer.shown), on_sent_change=_keep, height="content")
    if request is not None and answer.page is not None:
        # The browser clicks the link: `st.switch_page` writes the new parameters over the address of the page that is left.
        with st.container(key=f"{PLACE}-go-{request.number}"):
            st.page_link(menu.page(answer.page), label="Open", query_params=dict(answer.params))
    # Not before: a run that another one interrupts has not answered, and that one answers.
    st.session_state.pop(f"{PLACE} sent", None)


def _keep() -> None:
    state: Any = st.session_state.get(f"{PLACE} box") or {}
    st.session_state[f"{PLACE} sent"] = state.get("sent")


def _read(sent: Any) -> Request | None:
    if sent is None:
        return None
    try:
        return msgspec.convert(sent, Request)
    except msgspec.ValidationError:
        return None


def _answer(request: Request, *, operator: bool) -> Answer:
    if request.do == "follow":
        return _followed(request)
    everything, note = _everything()
    if request.do == "choose":
        kind, _, text = request.key.partition(":")
        entry = everything.entries.get(request.key) or (_compared(text) if kind == "comparison" else row_entry(text))
        return Answer() if entry is None else _opened(entry, request)
    hits = [hit for hit in _hits(everything, request.text) if operator or not _for_operators(hit.entry)][:LISTED]
    if request.do == "open" and hits:
        return _opened(hits[0].entry, request)
    if hits and hits[0].how == "typo":
        note = f"Nothing is called “{request.text.strip()}”. Did you mean:"
    elif not hits:
        note = f"Nothing is called “{request.text.strip()}”. {note}".strip()
    return Answer({"number": request.number, "note": note, "hits": [_shown(hit) for hit in hits]})


def _everything() -> tuple[Index, str]:
    try:
        return index(int(answers.ready()["position"])), ""
    except AssayError:
        return pages_index(), _AWAY


def _hits(everything: Index, text: str) -> Sequence[Hit]:
    if not text.strip():
        return [Hit(entry=entry, how="name") for entry in first_entries(everything)]
    row, compared = row_entry(text), _compared(text)
    hits = everything.search(text, None)
    if compared is not None:
        hits = [Hit(entry=compared, how="name"), *hits]
    return hits if row is None else [*hits, Hit(entry=row, how="id")]


def _compared(text: str) -> Entry | None:
    """Return the comparison that a text asks for; none while the service does not answer."""
    try:
        return comparison_entry(text, int(answers.ready()["position"]))
    except AssayError:
        return None


def _for_operators(entry: Entry) -> bool:
    pages = {page.name: page.operators for pages in menu.MENU.values() for page in pages}
    return entry.kind == "page" and pages[entry.id]


def _shown(hit: Hit) -> dict[str, str]:
    entry = hit.entry
    slug = entry.id if entry.kind in ("model", "hardware") and entry.id != entry.title else ""
    count = f"{formatting.count(entry.measurements)} measured" if entry.measurements and entry.kind != "run" else ""
    return {
        "key": entry.key,
        "kind": _NOUNS[entry.kind],
        "title": entry.title,
        "detail": " · ".join(filter(None, (slug, count))),
    }


def _opened(entry: Entry, request: Request) -> Answer:
    return Answer({"go": request.number}, entry.page, entry.params)


def _followed(request: Request) -> Answer:
    """Lead to one of our pages by its address: a link in a text, which Streamlit would open in a new tab."""
    parts = urlsplit(request.key)
    path = parts.path.rstrip("/").rpartition("/")[2]
    return Answer({"go": request.number}, path, parse_qs(parts.query)) if path in menu.by_path() else Answer()
