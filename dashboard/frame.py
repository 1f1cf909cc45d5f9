"""What every page has: its question, where its numbers come from, its way to fail, its downloads."""

from __future__ import annotations

import html
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pandas as pd
import streamlit as st

from dashboard import answers
from dashboard.address import View
from dashboard.page_state import address
from domain.errors import AssayError
from presentation import formatting
from presentation.charts.frame import shared
from presentation.palette import BASIS_MARKS, Theme

__all__ = [
    "Download",
    "basis_legend",
    "chart",
    "coded",
    "colour_key",
    "downloads",
    "dropped",
    "escape",
    "folded",
    "guarded",
    "header",
    "places",
    "plain_table",
    "provenance",
    "skeleton",
    "theme",
    "titled",
    "to_paste",
    "trouble",
    "zone",
]

logger = logging.getLogger("assay.dashboard")

_TENTH = 64
"""Pixels: four of them and what is between them fit on a phone."""
Download = tuple[str, str, str, Callable[[], bytes]]
"""Label, file name, media type and how the bytes are made when they are asked for."""


def header(title: str, question: str, *, slug: str = "") -> None:
    """Open a page with its subject, or its name, and the one question that it answers; `slug` is the subject's id."""
    st.title(escape(title), anchor=False)
    st.markdown(f":gray[{question}]" + (f" :gray[:small[{escape(slug)}]]" if slug else ""))


# Shown while a script runs, beneath a page that has no more than its head yet: an answer that is there stays.
_SKELETON = """
<style>
.skeleton { display: none }
[data-test-script-state="running"] :has(> .st-key-page, > * > .st-key-page):not(:has(.st-key-page > :nth-child(4)))
  .skeleton { display: grid; gap: 1rem; animation: waiting .2s .15s both }
.skeleton i { height: 7rem; border-radius: .5rem; background: color-mix(in srgb, currentColor 7%, transparent) }
.skeleton i:last-child { height: 18rem }
@keyframes waiting { from { opacity: 0 } }
@media (prefers-reduced-motion: reduce) { .skeleton { animation: none } }
</style>
<div class="skeleton" aria-hidden="true"><i></i><i></i></div>
"""


def skeleton() -> None:
    """Mark the place of an answer while a new page waits for it; call it before the page runs, beneath its container `page`."""
    st.html(_SKELETON)


def titled(*parts: str) -> None:
    """Name the view in the browser's tab, history and bookmarks, what is particular to it first."""
    st.set_page_config(page_title=" · ".join([*parts, "Assay"]))


def places(*widths: int) -> list[Any]:
    """Return places for filters side by side, with their widths in tenths of the page; two to a row on a phone."""
    grid = st.grid(sum(widths), min_column_width=_TENTH, vertical_alignment="bottom")
    return [grid.cell(column_span=width) for width in widths]


def provenance(
    page: str,
    words: str,
    fixed: View,
    *,
    terminal: str | None = None,
    rows: Sequence[Any] = (),
    interval: float | None = None,
) -> None:
    """Offer the link to this view, and where its numbers come from; `fixed` has the position as `as_of`.

    `rows` are those of the page's charts, whose marks are explained; `interval` is the share of cases that intervals hold.
    """
    url = address(page, fixed)
    with st.container(horizontal=True, vertical_alignment="center", key="provenance", width="content"):
        st.html(_TO_COPY.format(url=html.escape(url, quote=True)), unsafe_allow_javascript=True, width="content")
        with st.popover("About this answer", type="tertiary", icon=":material/info:"):
            st.caption(escape(words))
            if rows:
                basis_legend(rows, interval)
            st.caption("The link to this view, at this position of the log:")
            st.code(url, language=None, wrap_lines=True)
            if terminal:
                st.caption("The same question in a terminal:")
                to_paste(terminal)


def theme() -> Theme | None:
    """Return the theme that the browser shows; None until it has said so."""
    kind = st.context.theme.type
    return "dark" if kind == "dark" else "light" if kind == "light" else None


def zone() -> tzinfo | None:
    """Return the viewer's time zone; None (UTC) where the browser does not say."""
    name = st.context.timezone
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except ZoneInfoNotFoundError:
        logger.info("The browser's time zone %s is not known here; times are shown in UTC.", name)
        return None


def dropped(sentences: Sequence[str]) -> None:
    """Name the parts of the address that were not understood."""
    if sentences:
        st.warning("From the address: " + escape("; ".join(sentences)) + ".", icon=":material/link_off:")


@contextmanager
def guarded(what: str) -> Iterator[None]:
    """Let one panel fail alone: what it raises becomes a sentence with a remedy and a way to try again."""
    try:
        yield
    except AssayError as problem:
        trouble(what, problem)
    except Exception:
        mark = uuid.uuid4().hex[:8]
        logger.exception("%s failed (%s)", what, mark)
        st.error(
            f"{what} could not be shown. The cause is in the dashboard's log under **{mark}**.",
            icon=":material/error:",
        )


def trouble(what: str, problem: AssayError) -> None:
    """Show what the service refused or could not do, and what to do about it."""
    # A sentence on a model, a device or the service names it already.
    named = problem.detail.lower().startswith(what.lower())
    head = problem.detail[:1].upper() + problem.detail[1:] if named else f"{what}: {problem.detail}"
    lines = [f"**{coded(head)}**"]
    if problem.remedy:
        lines.append(coded(problem.remedy))
    lines.append(f":small[{escape(problem.type)}{f' · field {escape(problem.field)}' if problem.field else ''}]")
    with st.container(border=True, key=f"trouble-{what.lower().replace(' ', '-')}"):
        st.markdown("  \n".join(lines))
        if problem.status >= 500 and st.button("Try again", key=f"retry {what}"):
            answers.forget()
            st.rerun()


def basis_legend(rows: Sequence[Any], interval: float | None = None) -> None:
    """Say in words what each mark on the chart rests on; only those that are there."""
    present = {row.get("basis") for row in rows}
    parts = [f"{mark.glyph} {name}: {mark.meaning}" for name, mark in BASIS_MARKS.items() if name in present]
    if interval is not None:
        parts.append(f"lines show {formatting.share(interval).replace('.0', '')} intervals (95 % CI where measured)")
    st.caption(" · ".join(parts))


def chart(drawn: Any, *, key: str, words: str, selected: Callable[[], None] | None = None, among: str = "") -> None:
    """Show a chart as wide as its place; `words` are what it says to those who do not see it.

    `selected` is called when the reader changes what is selected in the chart by its selection `among`.
    """
    # What our functions draw is checked by their tests: Altair's check of each part is half of a page's time.
    spec = shared(drawn.to_dict(validate=False))
    st.vega_lite_chart(
        spec=spec, width="stretch", key=key, alt=words, on_select=selected or "ignore", selection_mode=among or None
    )


def colour_key(named: Sequence[tuple[str, str]]) -> None:
    """Say what colours of a chart stand for, names with their colours, in as many lines as they need."""
    if named:
        parts = "".join(
            f'<span style="white-space:nowrap"><span aria-hidden="true" style="color:{html.escape(colour)}">●</span> {html.escape(name)}</span>'
            for name, colour in named
        )
        st.html(f'<div style="display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.875rem">{parts}</div>')


_TO_COPY = """
<style>
.to-copy {{ font: inherit; font-size: .95rem; color: inherit; background: none; border: 0; cursor: pointer; padding: .25rem 0;
  min-height: 2.5rem }}
.to-copy:hover {{ text-decoration: underline }}
</style>
<button type="button" class="to-copy" data-link="{url}">Copy link</button>
<script>
{{
  const button = document.currentScript.parentElement.querySelector(".to-copy");
  button.onclick = () => {{
    const area = document.createElement("textarea");
    area.value = button.dataset.link;
    button.after(area);
    area.select();
    button.textContent = document.execCommand("copy") ? "Copied" : "Copy link";
    area.remove();
  }};
}}
</script>
"""


# `st.code` brings the grammars of all languages along, 1.5 MB: 0.3 s of a page's time in the browser.
_TO_PASTE = """
<style>
.to-paste {{ display: flex; gap: .5rem; align-items: start; padding: .75rem 1rem; border-radius: .5rem;
  background: color-mix(in srgb, currentColor 6%, transparent) }}
.to-paste code {{ flex: 1; white-space: pre-wrap; overflow-wrap: anywhere; font: .875rem/1.5 "Source Code Pro", monospace;
  background: none; color: inherit; padding: 0 }}
.to-paste button {{ font: inherit; font-size: .875rem; color: inherit; background: none; cursor: pointer; padding: 0 .5rem;
  border: 1px solid color-mix(in srgb, currentColor 30%, transparent); border-radius: .5rem }}
</style>
<div class="to-paste"><code>{words}</code><button type="button">Copy</button></div>
<script>
{{
  const button = document.currentScript.parentElement.querySelector(".to-paste button");
  button.onclick = () => {{
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
  }};
}}
</script>
"""


def to_paste(words: str) -> None:
    """Show a command for a terminal, with a button that copies it."""
    st.html(_TO_PASTE.format(words=html.escape(words)), unsafe_allow_javascript=True)


def folded(words: str, show: Callable[[], None], *, key: str, icon: str | None = None, expanded: bool = False) -> None:
    """Offer a part that is made when it is unfolded: a table that nobody opens is not sent, nor what draws it."""
    part = st.expander(words, icon=icon, key=key, expanded=expanded, on_change="rerun")
    if part.open:
        with part:
            show()


def downloads(files: Sequence[Download], key: str, *, label: str = "Download", note: str = "") -> None:
    """Offer a panel's data and pictures; nothing is made before it is asked for."""
    with st.popover(label, icon=":material/download:", key=f"downloads {key}"):
        if note:
            st.caption(note)
        for label, name, media, make in files:
            st.download_button(
                label, make, name, media, key=f"download {key} {name}", on_click="ignore", width="stretch"
            )


def plain_table(rows: pd.DataFrame | Sequence[Mapping[str, Any]], **options: Any) -> None:
    """Show a small table of plain text; `st.table` itself reads every cell as Markdown."""
    frame = pd.DataFrame(rows)
    st.table(frame.map(_escaped), **options)


def _escaped(cell: Any) -> Any:
    return escape(cell) if isinstance(cell, str) else cell


def coded(text: str) -> str:
    """Return text that Markdown shows as it is, with what stands between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return "".join(f"`{part}`" if at % 2 and part.strip() else escape(part) for at, part in enumerate(parts))


def escape(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return "".join(f"\\{char}" if char in r"\`*_{}[]()#+-!|<>$~:" else char for char in text)
