"""The gallery shows every page in every look, and names no picture that it does not take."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.variant_pictures import PICTURES
from dashboard.gallery import LOOKS, PAGES, shots
from dashboard.menu import MENU

DOCS = Path(__file__).parents[3] / "docs"


def test_every_page_of_the_menu_has_a_picture_in_every_look() -> None:
    shown = {address.partition("?")[0] or "overview" for address in PAGES.values()}
    assert shown == {entry.name for entries in MENU.values() for entry in entries}
    taken = shots("google/vit-base-patch16-224", "intel-xeon-2c", "run-1")
    assert len({shot.name for shot in taken}) == len(taken) == len(PAGES) * len(LOOKS)
    assert {(shot.theme, shot.width) for shot in taken} == {("light", 1280), ("dark", 1280), ("light", 390)}
    assert next(shot.path for shot in taken if shot.name == "run") == "runs?run=run-1"
    assert not any("{" in shot.path for shot in taken)


def test_the_document_shows_every_picture_that_is_taken() -> None:
    told = re.findall(r"\(images/([\w-]+)\.png\)", (DOCS / "gallery.md").read_text())
    assert told == [*(shot.name for shot in shots("m", "h", "r")), *PICTURES]
    assert all((DOCS / "images" / f"{name}.png").is_file() for name in PICTURES)


def test_a_link_never_runs_a_query_so_the_button_is_pressed_and_some_pages_can_be_taken_alone() -> None:
    taken = shots("m", "h", "r", ["query"])
    assert len(taken) == len(LOOKS)
    assert {shot.press for shot in taken} == {"Run"}
    assert {shot.press for shot in shots("m", "h", "r") if not shot.name.startswith("query")} == {""}


def test_without_a_run_none_is_opened() -> None:
    assert "run" not in {shot.name for shot in shots("m", "h", "")}
