"""The pages there are: their places in the menu, their addresses, and the module of `dashboard.screens` that shows each."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import streamlit as st

__all__ = ["MENU", "Entry", "page", "pages"]


class Entry(NamedTuple):
    """One page; `name` is its path and its module."""

    name: str
    title: str
    icon: str


MENU: dict[str, tuple[Entry, ...]] = {
    "Decide": (Entry("overview", "Overview", "monitoring"), Entry("recommend", "Recommend", "checklist")),
    "Compare": (Entry("compare", "Compare", "compare_arrows"),),
    "Evidence": (Entry("predictor", "Predictor", "target"),),
}
"""By their group in the menu; the first page is the one that opens without a path."""
_FIRST = MENU["Decide"][0].name


def pages() -> dict[str, list[Any]]:
    """Return every page as `st.navigation` takes them."""
    return {group: [_page(entry) for entry in entries] for group, entries in MENU.items()}


def page(name: str) -> Any:
    """Return one page as `st.page_link` and `st.switch_page` take it. Raises KeyError where there is none of that name."""
    return _page({entry.name: entry for entries in MENU.values() for entry in entries}[name])


def _page(entry: Entry) -> Any:
    icon = f":material/{entry.icon}:"
    return st.Page(_shown(entry.name), title=entry.title, url_path=entry.name, icon=icon, default=entry.name == _FIRST)


def _shown(name: str) -> Callable[[], None]:
    def show() -> None:
        # Imported when it is first opened: no page waits for what only another one needs.
        import_module(f"dashboard.screens.{name}").show()

    return show
