"""The pages there are: their places in the menu, their addresses, and the folder of `dashboard.screens` that shows each."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import streamlit as st

__all__ = ["MENU", "Entry", "by_path", "page", "pages"]


class Entry(NamedTuple):
    """One page; `name` is its path and its module. Only operators find one for operators in their menu."""

    name: str
    title: str
    icon: str
    operators: bool = False


MENU: dict[str, tuple[Entry, ...]] = {
    "Decide": (Entry("overview", "Home", "home"), Entry("recommend", "Recommend", "checklist")),
    "Compare": (
        Entry("compare", "Compare", "compare_arrows"),
        Entry("compatibility", "Compatibility", "grid_on"),
        Entry("trends", "Trends", "show_chart"),
        Entry("regressions", "Regressions", "trending_down"),
    ),
    "Evidence": (
        Entry("runs", "Runs", "play_circle"),
        Entry("models", "Models", "category"),
        Entry("hardware", "Hardware", "memory"),
        Entry("predictor", "Predictor", "target"),
    ),
    "Tools": (
        Entry("query", "Query", "database_search"),
        Entry("jobs", "Jobs", "lan"),
        Entry("operations", "Operations", "monitor_heart", operators=True),
    ),
}
"""By their group in the menu; the first page is the one that opens without a path."""
_FIRST = MENU["Decide"][0].name
_HOME = "home"
"""Streamlit wants a name for the page that opens without a path, and never shows it."""


def pages(*, operator: bool) -> dict[str, list[Any]]:
    """Return every page as `st.navigation` takes them; what is for operators is hidden from others, and refuses them."""
    pages = {group: [_page(entry, operator=operator) for entry in entries] for group, entries in MENU.items()}
    # The first page has no path of its own: what people type leads to it all the same.
    named = st.Page(_shown(_FIRST), title=MENU["Decide"][0].title, url_path=_FIRST, visibility="hidden")
    return {**pages, "Decide": [*pages["Decide"], named]}


def by_path() -> dict[str, Any]:
    """Return every page by its path; the one that opens without a path by an empty one too."""
    pages = {entry.name: _page(entry) for entries in MENU.values() for entry in entries}
    return {"": pages[_FIRST], **pages}


def page(name: str) -> Any:
    """Return one page as `st.page_link` and `st.switch_page` take it. Raises KeyError where there is none of that name."""
    return by_path()[name]


def _page(entry: Entry, *, operator: bool = True) -> Any:
    return st.Page(
        _shown(entry.name),
        title=entry.title,
        url_path=_HOME if entry.name == _FIRST else entry.name,
        icon=f":material/{entry.icon}:",
        default=entry.name == _FIRST,
        visibility="hidden" if entry.operators and not operator else "visible",
    )


def _shown(name: str) -> Callable[[], None]:
    def show() -> None:
        # Imported when it is first opened: no page waits for what only another one needs.
        import_module(f".screens.{name}.view", __package__).show()

    return show
