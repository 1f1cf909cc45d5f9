"""The address as the one state of a page: widgets are filled from it and write it back.

Streamlit forgets parameters when the page changes, so the last view of each page is kept for the session and
returns when the page is opened without parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from dashboard.address import Params, Read, View, link, parameters

__all__ = ["address", "adopt", "current", "go", "remember", "say", "turn", "widget"]

_PAGE, _ENTERED = "page shown", "page entered"
"""Which page was shown last, and whether this run is its first."""


def current(page: str, read: Callable[[Params], Read]) -> Read:
    """Return what the address asks of a page; without parameters, what was last asked of it."""
    st.session_state[_ENTERED] = page != st.session_state.get(_PAGE)
    st.session_state[_PAGE] = page
    params: Params = _shown()
    kept = st.session_state.get(f"{page} view")
    if not params and kept:
        st.query_params.from_dict(kept)
        params = kept
    return read(params)


def widget(page: str, name: str) -> str:
    """Return the key of the widget that holds one parameter of a page."""
    return f"{page} {name}"


def adopt(page: str, view: View, values: Mapping[str, Any]) -> None:
    """Fill the page's widgets from the address when it is new; those that came since, or that were away, by themselves.

    What is filled again forgets what was typed into it and not sent yet.
    """
    mark = parameters(view, everything=True)
    keys = {widget(page, name): value for name, value in values.items()}
    if st.session_state.get(f"{page} adopted") == mark:
        keys = {key: value for key, value in keys.items() if key not in st.session_state}
    if keys:
        st.session_state.update(keys)
        st.session_state[f"{page} adopted"] = mark
        remember(page, view)


def remember(page: str, view: View) -> None:
    """Keep a view for the session: what is shown when the page is opened without parameters."""
    st.session_state[f"{page} view"] = parameters(view)


def go(page: str, view: View) -> None:
    """Make a view the address of the page."""
    st.session_state[f"{page} view"] = parameters(view)
    st.session_state[f"{page} adopted"] = parameters(view, everything=True)
    # A link to another page has the browser write its address, and one written meanwhile becomes a step of the page that is
    # left. A link from a page to itself leaves its address behind.
    if not (st.session_state.get(_ENTERED) and _shown() == parameters(view)):
        st.query_params.from_dict(parameters(view))


def say(page: str, view: View) -> None:
    """Let the address say what is shown: a link from a page to itself leaves it behind, and another name is not the id."""
    if st.session_state.get(f"{page} view") != parameters(view):
        go(page, view)
        st.session_state.pop(f"{page} adopted", None)


def turn(page: str, view: View) -> None:
    """Make a view the address of the page and show it, with the widgets filled from it."""
    go(page, view)
    st.session_state.pop(f"{page} adopted", None)
    st.rerun()


def address(page: str, view: View) -> str:
    """Return the full address that shows a view in another browser."""
    base = (st.context.url or "").split("?")[0].rstrip("/").removesuffix(f"/{page}")
    return link(base, page, view)


def _shown() -> dict[str, list[str]]:
    return {name: st.query_params.get_all(name) for name in st.query_params}
