"""Markdown that others read: no text of an event becomes an image, a link or markup in it."""

from __future__ import annotations

from typing import Any

import pytest
from markdown_it import MarkdownIt

from assay.cli.ask.matrix import markdown as matrix_markdown
from presentation.markdown import code, literal

HOSTILE = "`![x](http://h/a)<img/src=//h/b>|[y](//h/c)``**z**"


def tokens(text: str) -> list[Any]:
    """Return all tokens of a text, those inside of others too."""
    found = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    return [*found, *(inner for token in found for inner in token.children or ())]


@pytest.mark.parametrize("write", [literal, code])
def test_hostile_text_is_shown_as_it_is(write: Any) -> None:
    made = tokens(f"before {write(HOSTILE)} after")
    assert not {"image", "link_open", "html_inline", "html_block", "strong_open"} & {token.type for token in made}
    assert HOSTILE in "".join(token.content for token in made if token.type in ("text", "code_inline", "text_special"))


def test_matrix_shows_hostile_text_as_it_is() -> None:
    row = {"model_id": HOSTILE, "platform": HOSTILE, "precisions": [HOSTILE], "why_not": HOSTILE}
    made = tokens(matrix_markdown([{**row, "built": True, "ran": None, "verified": None, "measured": None}]))
    assert not {"image", "link_open", "html_inline", "html_block", "strong_open"} & {token.type for token in made}
    assert sum(token.type == "td_open" for token in made) == sum(token.type == "th_open" for token in made)
