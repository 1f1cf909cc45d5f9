"""What colours, shapes and dashes mean, everywhere and for ever.

Colour says the platform. Shape, fill and dash say the basis; filled means "we measured it". Computed under
CIEDE2000 with simulated deutan, protan and tritan sight: two platforms are at least 12.5 apart on white and
11.3 on the dark ground, and every colour has a contrast of 3:1 or more.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = [
    "BASIS_MARKS",
    "DIVERGING",
    "INKS",
    "ORIGIN_WORDS",
    "PLATFORM_COLOURS",
    "PLATFORM_DOMAIN",
    "SEQUENTIAL",
    "VERDICT_COLOURS",
    "VERDICT_GLYPHS",
    "BasisMark",
    "Ink",
    "Theme",
    "badge",
    "basis_mark",
    "colour_key",
]

Theme = Literal["light", "dark"]

PLATFORM_DOMAIN = ("cpu", "cuda", "rocm", "mps", "openvino", "qnn", "wasm", "webgpu", "webnn", "other")
"""Order of the ten colours; the theme file lists them in the same order."""

PLATFORM_COLOURS: dict[Theme, tuple[str, ...]] = {
    "light": (
        "#2C2E33",
        "#1A794E",
        "#B22C0A",
        "#C58004",
        "#3D72DB",
        "#600068",
        "#4701DA",
        "#12A1B9",
        "#A94C7D",
        "#95938D",
    ),
    "dark": (
        "#9BA6B0",
        "#8DD411",
        "#E84823",
        "#FFD5A3",
        "#6BB5EB",
        "#AB68A7",
        "#7B7AFF",
        "#A2E6FA",
        "#FB7282",
        "#D4D0CB",
    ),
}

SEQUENTIAL: dict[Theme, tuple[str, ...]] = {
    "light": (
        "#E9F4FB",
        "#CCE6F6",
        "#AFD8F0",
        "#8EC6E7",
        "#68B1DB",
        "#489CC9",
        "#2C83AF",
        "#1C6B91",
        "#135372",
        "#0B3D55",
    ),
    "dark": (
        "#152631",
        "#163749",
        "#194860",
        "#1E5C7B",
        "#2A7195",
        "#3A89B3",
        "#54A2CD",
        "#76BBE2",
        "#A2D2EF",
        "#CFE9F9",
    ),
}
"""More is further from the background."""

DIVERGING: dict[Theme, tuple[str, ...]] = {
    "light": (
        "#9B4805",
        "#C06325",
        "#E08D5D",
        "#F3B999",
        "#F9DED0",
        "#D6E7F8",
        "#A2C8F0",
        "#67A3E0",
        "#347EC4",
        "#125A98",
    ),
    "dark": (
        "#F7A062",
        "#D17D3E",
        "#A25E2B",
        "#714321",
        "#443124",
        "#2A3744",
        "#305275",
        "#4075AA",
        "#5E9AD6",
        "#85BCF5",
    ),
}
"""Worse to better, centred on no change."""


class BasisMark(NamedTuple):
    """How an answer of one basis is drawn: a Vega symbol (none for a tick), its fill, its line and its glyph."""

    shape: str | None
    fill_opacity: float
    dash: tuple[int, int]
    stroke_width: float
    glyph: str
    meaning: str


BASIS_MARKS = {
    "measured": BasisMark("circle", 1.0, (1, 0), 2.0, "●", "measured here"),
    "imported": BasisMark("circle", 0.0, (1, 0), 1.5, "○", "imported from others' files"),
    "reference": BasisMark("diamond", 0.0, (8, 3), 2.0, "◇", "same model on a sibling device"),
    "calibrated": BasisMark("square", 0.0, (8, 3), 2.0, "□", "predicted, corrected by local measurements"),
    "predicted": BasisMark("triangle-right", 0.0, (4, 3), 2.0, "▷", "predicted, the interval's coverage measured"),
    "roofline": BasisMark(None, 0.0, (1, 3), 2.0, "┄", "from specifications, not covered by measurement"),
    "abstained": BasisMark(None, 0.0, (1, 3), 0.0, "⌀", "no answer"),
}

VERDICT_GLYPHS = {"valid": "✓", "suspect": "⚠", "invalid": "✕", None: "·"}

VERDICT_COLOURS: dict[Theme, dict[str, str]] = {
    "light": {"valid": "#00695C", "suspect": "#8A7B00", "invalid": "#6E0F24", "unjudged": "#9CA3AF"},
    "dark": {"valid": "#3FBFA5", "suspect": "#F0E000", "invalid": "#C62839", "unjudged": "#6B7280"},
}
"""Rows by verdict; never in a platform's mark, and never on a chart where platforms have theirs."""


class Ink(NamedTuple):
    """Colours of what is not data: words, quieter words, grid and the ground that pictures are saved on."""

    text: str
    muted: str
    grid: str
    ground: str


INKS: dict[Theme | None, Ink] = {
    "light": Ink("#12161F", "#4B5563", "#12161F18", "#FFFFFF"),
    "dark": Ink("#E8EAEE", "#AEB6C2", "#E8EAEE1F", "#0E1117"),
    # Until the browser has said which theme it shows: readable on both grounds.
    None: Ink("#767C85", "#767C85", "#767C8530", "#FFFFFF"),
}


def colour_key(platform: str | None) -> str:
    """Return the platform whose colour is worn: its own, or `other` for one without a colour."""
    return platform if platform in PLATFORM_DOMAIN else "other"


def basis_mark(basis: str | None) -> BasisMark:
    """Return how a basis is drawn; one we have not met is drawn like a roofline, never like a measurement."""
    return BASIS_MARKS.get(basis or "", BASIS_MARKS["roofline"])


ORIGIN_WORDS = {"simulated": " SIMULATED", "page": " BY A PAGE, NOT ACCEPTED"}
"""What is said of origins whose rows are no evidence."""


def badge(basis: str | None, origin: str | None = None) -> str:
    """Write a basis with its glyph: `● measured`; an origin that is no evidence is always said."""
    return f"{basis_mark(basis).glyph} {basis or 'unknown'}{ORIGIN_WORDS.get(origin or '', '')}"
