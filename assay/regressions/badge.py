"""A badge of a verdict: JSON for shields.io's endpoint, and a picture that needs no other file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import msgspec

if TYPE_CHECKING:
    from assay.regressions.ci import Outcome

__all__ = ["Badge", "badge_json", "badge_of", "badge_svg"]

LABEL = "assay"
_COLOURS: Mapping[Outcome, tuple[str, str]] = {
    "passed": ("brightgreen", "#2f7d32"),
    "worse": ("red", "#b3261e"),
    "cannot-tell": ("lightgrey", "#5f6368"),
    "no-baseline": ("lightgrey", "#5f6368"),
}
"""The name that shields.io has for the colour of a verdict, and the colour of the picture, on which white text is readable."""
_NARROW, _WIDE = frozenset("fijlrt.,:;|!'() "), frozenset("mwMW%@")
_TEXT_PX = 7.0
_PADDING_PX = 6
_HEIGHT_PX = 20


class Badge(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The document of https://shields.io/badges/endpoint-badge."""

    schema_version: int = 1
    label: str = LABEL
    message: str
    color: str
    is_error: bool = False


def badge_of(verdict: Outcome, regressions: int) -> Badge:
    """Return the badge of a verdict: only something that got worse is red."""
    messages: Mapping[Outcome, str] = {
        "passed": "nothing worse",
        "worse": f"{regressions} worse",
        "cannot-tell": "cannot tell",
        "no-baseline": "no baseline",
    }
    return Badge(message=messages[verdict], color=_COLOURS[verdict][0], is_error=verdict == "worse")


def badge_json(badge: Badge) -> bytes:
    """Return the document that shields.io reads from an address."""
    return msgspec.json.format(msgspec.json.encode(badge), indent=1) + b"\n"


def badge_svg(badge: Badge, verdict: Outcome) -> bytes:
    """Return the badge as a picture with a title for screen readers; the fonts are those of the reader."""
    left, right = (_width(text) + 2 * _PADDING_PX for text in (badge.label, badge.message))
    title = escape(f"{badge.label}: {badge.message}")
    texts = "".join(
        f'<text x="{x:g}" y="14">{escape(text)}</text>'
        for x, text in ((left / 2, badge.label), (left + right / 2, badge.message))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right:g}" height="{_HEIGHT_PX}" role="img">'
        f"<title>{title}</title>"
        f'<rect width="{left:g}" height="{_HEIGHT_PX}" fill="#3c4043"/>'
        f'<rect x="{left:g}" width="{right:g}" height="{_HEIGHT_PX}" fill="{_COLOURS[verdict][1]}"/>'
        f'<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">{texts}</g>'
        "</svg>\n"
    ).encode()


def _width(text: str) -> float:
    """Return about how wide a text is in pixels, in 11 px of Verdana."""
    return sum(_TEXT_PX * (0.6 if each in _NARROW else 1.4 if each in _WIDE else 1) for each in text)
