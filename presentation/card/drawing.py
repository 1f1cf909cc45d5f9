"""SVG from the standard library: shapes and text of known width, in the colours of the palette."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from presentation.palette import (
    INKS,
    PLATFORM_COLOURS,
    PLATFORM_DOMAIN,
    VERDICT_COLOURS,
    Ink,
    Theme,
    basis_mark,
    colour_key,
)

__all__ = ["FONT", "Canvas", "fitted", "number", "text_width", "wrapped"]

FONT = "-apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
_REGULAR = (
    "32 41 46 84 64 96 78 28 40 40 50 84 32 37 32 34 64 64 64 64 64 64 64 64 64 64 34 34 84 84 84 54 100 69 "
    "69 70 78 64 58 78 76 30 30 66 56 87 75 79 61 79 70 64 62 74 69 99 69 62 69 40 34 40 84 50 50 62 64 55 64 "
    "62 36 64 64 28 28 58 28 98 64 62 64 64 42 53 40 64 60 82 60 60 53 64 34 64 84"
)
_BOLD = (
    "35 46 53 84 70 101 88 31 46 46 53 84 38 42 38 37 70 70 70 70 70 70 70 70 70 70 40 40 84 84 84 59 100 78 "
    "77 74 84 69 69 83 84 38 38 78 64 100 84 86 74 86 78 73 69 82 78 111 78 73 73 46 37 46 84 50 50 68 72 60 "
    "72 68 44 72 72 35 35 67 35 105 72 69 72 72 50 60 48 72 66 93 65 66 59 72 37 72 84"
)
"""Advance widths of DejaVu Sans from the space to the tilde, in hundredths of an em."""
_ADVANCE = {
    bold: {chr(32 + place): int(width) / 100 for place, width in enumerate(table.split())}
    | {"·": 0.38, "–": 0.5, "×": 0.84, "≈": 0.84, "÷": 0.84, "²": 0.44, "\u202f": 0.2}
    for bold, table in ((False, _REGULAR), (True, _BOLD))
}
_WIDE = 1.05
"""Ems of letters that the table does not have."""


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the most pixels that a text takes in any font of the stack, of which DejaVu Sans is the widest."""
    return sum(_ADVANCE[bold].get(letter, _WIDE) for letter in text) * size


def fitted(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """Return a text that fits a width, cut at its end where it is longer."""
    if text_width(text, size, bold=bold) <= width:
        return text
    short = text
    while short and text_width(f"{short}…", size, bold=bold) > width:
        short = short[:-1].rstrip()
    return f"{short}…"


def wrapped(text: str, width: float, size: float, lines: int, *, bold: bool = False) -> list[str]:
    """Return a text in at most so many lines, broken after spaces and hyphens; what does not fit in the last one is cut."""
    rows = [""]
    for piece in re.findall(r"[^\s-]*-|[^\s-]+\s*|\s+", text):
        longer = rows[-1] + piece
        if rows[-1] and len(rows) < lines and text_width(longer.rstrip(), size, bold=bold) > width:
            rows.append(piece)
        else:
            rows[-1] = longer
    return [fitted(row.rstrip(), width, size, bold=bold) for row in rows]


def number(value: float) -> str:
    """Write a coordinate: at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


class Canvas:
    """Collects the elements of one picture in one theme. A `width` of text cuts what would be longer."""

    def __init__(self, theme: Theme) -> None:
        self.theme: Theme = theme
        self.ink: Ink = INKS[theme]
        self.elements: list[str] = []

    def colour(self, platform: str | None) -> str:
        """Return the colour of a platform."""
        return PLATFORM_COLOURS[self.theme][PLATFORM_DOMAIN.index(colour_key(platform))]

    @property
    def suspect(self) -> str:
        """The colour of a suspect verdict."""
        return VERDICT_COLOURS[self.theme]["suspect"]

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        *,
        width: float | None = None,
        bold: bool = False,
        muted: bool = False,
        anchor: str = "start",
        unit: str = "",
        unit_size: float = 18.0,
    ) -> None:
        """Write a line with its baseline at `y`; a unit behind it is quieter."""
        shown = text if width is None else fitted(text, width, size, bold=bold)
        look = ' font-weight="700"' if bold else ""
        side = f' text-anchor="{anchor}"' if anchor != "start" else ""
        colour = self.ink.muted if muted else self.ink.text
        behind = ""
        if unit:
            behind = (
                f'<tspan dx="5" font-size="{number(unit_size)}" font-weight="400" fill="{self.ink.muted}">'
                f"{escape(unit)}</tspan>"
            )
        self.elements.append(
            f'<text x="{number(x)}" y="{number(y)}" font-size="{number(size)}"{look}{side} fill="{colour}">'
            f"{escape(_printable(shown))}{behind}</text>"
        )

    def line(
        self, x1: float, y1: float, x2: float, y2: float, *, colour: str | None = None, width: float = 1, dash: str = ""
    ) -> None:
        """Draw a straight line."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.elements.append(
            f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" '
            f'stroke="{colour or self.ink.grid}" stroke-width="{number(width)}"{dashed}/>'
        )

    def path(self, places: Sequence[tuple[float, float]], *, colour: str, width: float, dash: str = "") -> None:
        """Draw a line through places."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        joined = " ".join(f"{number(x)},{number(y)}" for x, y in places)
        self.elements.append(
            f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="{number(width)}"{dashed}/>'
        )

    def dot(self, x: float, y: float, radius: float, colour: str, *, opacity: float = 1.0) -> None:
        """Draw a filled circle."""
        faint = f' fill-opacity="{opacity}"' if opacity < 1 else ""
        self.elements.append(f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" fill="{colour}"{faint}/>')

    def tile(self, x: float, y: float, side: float, colour: str) -> None:
        """Draw a filled square with round corners; `x` and `y` are its upper left corner."""
        self.elements.append(
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(side)}" height="{number(side)}" rx="3" fill="{colour}"/>'
        )

    def ring(self, x: float, y: float, radius: float, colour: str, width: float = 1.5) -> None:
        """Draw a circle around a mark."""
        self.elements.append(
            f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" fill="none" stroke="{colour}" '
            f'stroke-width="{number(width)}"/>'
        )

    def mark(self, x: float, y: float, radius: float, basis: str, platform: str | None) -> None:
        """Draw the mark of a basis in the colour of a platform: a shape, filled where it was measured."""
        look, colour = basis_mark(basis), self.colour(platform)
        fill = colour if look.fill_opacity == 1.0 else "none"
        style = f'fill="{fill}" stroke="{colour}" stroke-width="2"'
        if look.shape == "circle":
            shape = f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" {style}/>'
        elif look.shape is None:
            shape = (
                f'<line x1="{number(x - radius)}" y1="{number(y)}" x2="{number(x + radius)}" y2="{number(y)}" '
                f'stroke="{colour}" stroke-width="3" stroke-dasharray="3 3"/>'
            )
        else:
            corners = " ".join(f"{number(x + a * radius)},{number(y + b * radius)}" for a, b in _CORNERS[look.shape])
            shape = f'<polygon points="{corners}" {style}/>'
        self.elements.append(shape)

    def svg(self, width: float, height: float, *, title: str, description: str, name: str = "card") -> str:
        """Return the picture as a file: scalable, with its text alternative."""
        size = f'viewBox="0 0 {number(width)} {number(height)}" width="{number(width)}" height="{number(height)}"'
        words = f'role="img" aria-labelledby="{name}-title {name}-description"'
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} {words} font-family="{escape(FONT)}">',
                f'<title id="{name}-title">{escape(_printable(title))}</title>',
                f'<desc id="{name}-description">{escape(_printable(description))}</desc>',
                *self.elements,
                "</svg>\n",
            )
        )


_CORNERS: dict[str, tuple[tuple[float, float], ...]] = {
    "diamond": ((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)),
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "triangle-right": ((-0.9, -1.05), (1.15, 0), (-0.9, 1.05)),
}
_CONTROL = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _printable(text: str) -> str:
    """Return a text without the characters that XML has no place for."""
    return _CONTROL.sub("", text)
