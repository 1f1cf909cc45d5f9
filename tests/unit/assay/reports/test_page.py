from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from presentation.palette import INKS, PLATFORM_COLOURS
from presentation.reports.page import as_html, colours, cut, themed

HOSTILE = "acme/<script>alert(1)</script>\"&'{{7*7}}"


class Page(HTMLParser):
    """What a browser would see: tags, ids, links, addresses."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.events: list[str] = []
        self.feed(content.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href") and tag != "use":
                self.links.append(value or "")
            if name.startswith("on"):
                self.events.append(name)


def test_a_page_needs_no_script_and_no_network(report: Any) -> None:
    content = as_html(report())
    page = Page(content)
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert page.events == []
    assert all(link.startswith("#") for link in page.links)
    assert b"default-src 'none'" in content
    assert not re.search(rb"@import|url\((?!#)", content)


def test_hostile_names_are_text(row: Any, report: Any) -> None:
    made = report(row(model_id=HOSTILE, hardware_id="<img src=x onerror=alert(1)>"), row(model_id=HOSTILE))
    made = made._replace(title=HOSTILE, facts=[HOSTILE])
    content = as_html(made)
    page = Page(content)
    assert not {"script", "img"} & set(page.tags)
    assert page.events == []
    assert b"{{7*7}}" in content


def test_every_link_leads_somewhere_and_every_id_is_once(report: Any) -> None:
    page = Page(as_html(report()))
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert any(link.startswith("#e-00000000") for link in page.links)


def test_events_link_to_the_server_that_was_named(report: Any) -> None:
    page = Page(as_html(report(server="https://assay.example"), pictures=False))
    assert "https://assay.example/v1/events/00000000-0000-7000-8000-000000000001" in page.links


def test_doubted_rows_are_marked_with_their_reasons(report: Any) -> None:
    content = as_html(report(), pictures=False).decode()
    assert content.count('class="doubted"') == 2
    assert "⚠ suspect" in content
    assert "warm-up inside" in content


def test_a_long_table_is_cut_and_says_so(row: Any, report: Any) -> None:
    made = report(*(row() for _ in range(60)))
    content = as_html(made, top=40, pictures=False).decode()
    assert "The first 40 of 60 rows" in content
    assert content.count('id="e-') == 40
    assert "The first" not in as_html(made, top=None, pictures=False).decode()
    assert len(cut(made.evidence, 5).rows) == 5


def test_long_tables_after_the_first_of_a_section_are_folded(row: Any, report: Any) -> None:
    made = report(*(row() for _ in range(20)))
    (section,) = made.sections
    twice = section._replace(parts=[*section.parts, section.parts[-1]._replace(title="Once more")])
    content = as_html(made._replace(sections=[twice]), pictures=False).decode()
    assert "<summary>Once more: 20 rows</summary>" in content
    assert "<caption>Every configuration</caption>" in content


def test_the_same_report_has_the_same_bytes_with_position_and_its_command(report: Any) -> None:
    made = report()
    content = as_html(made)
    assert content == as_html(made)
    assert b"4,321" in content
    assert b"assay report performance --as-of 4321" in content


def test_pictures_wear_the_colours_of_the_theme(report: Any) -> None:
    content = as_html(report()).decode()
    picture = content[content.index("<svg") :]
    cpu = PLATFORM_COLOURS["light"][0].upper()
    assert f"var(--c{cpu[1:]}," in picture
    assert f"--c{cpu[1:]}:{PLATFORM_COLOURS['dark'][0]}" in content
    assert 'class="narrow"' in content and 'class="wide"' in content
    assert not re.search(r'="#(?:1F2430|4B5563|FFFFFF)"', picture, re.IGNORECASE)


def test_ids_of_pictures_do_not_meet() -> None:
    svg = '<svg><clipPath id="clip0"/><g clip-path="url(#clip0)" fill="#ffffff"/></svg>'
    assert themed(svg, "a") == (
        '<svg><clipPath id="a-clip0"/><g clip-path="url(#a-clip0)" fill="var(--cFFFFFF,#ffffff)"/></svg>'
    )


def test_one_light_colour_stands_for_one_dark_colour() -> None:
    assert len({dark for _, dark in colours().values()}) >= len(PLATFORM_COLOURS["dark"])
    assert colours()[INKS["light"].ground] == (INKS["light"].ground, INKS["dark"].ground)
    for place, light in enumerate(PLATFORM_COLOURS["light"]):
        assert colours()[light.upper()] == (light, PLATFORM_COLOURS["dark"][place])


@pytest.mark.parametrize("pictures", [True, False])
def test_pictures_can_be_left_out(report: Any, pictures: bool) -> None:
    assert (b"<svg" in as_html(report(), pictures=pictures)) is pictures
