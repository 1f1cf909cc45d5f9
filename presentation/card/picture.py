"""A card as one picture of 1200 × 630 pixels, the size of previews of links: SVG, and PNG where vl-convert is installed."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from presentation import formatting
from presentation.answer_words import short_name
from presentation.card.content import (
    BASIS_WORDS,
    MARKER,
    Card,
    CardFigure,
    CardRoof,
    CardRoofline,
    CardRow,
    Headline,
    call_words,
    headline,
    software_words,
)
from presentation.card.drawing import Canvas, fitted, text_width, wrapped
from presentation.card.roofline import Box, draw_roofline, shown_roofs
from presentation.palette import Theme

__all__ = ["HEIGHT", "WIDTH", "description", "head_lines", "limit_lines", "png", "svg"]

WIDTH, HEIGHT = 1200.0, 630.0
LEFT, RIGHT = 40.0, 1160.0
SMALLEST, SMALL, NORMAL, LARGE = 15.0, 18.0, 22.0, 26.0
"""Sizes of type. The smallest is for very long names; at 600 pixels of width the others are 9 pixels high and more."""
_PLOT = Box(96.0, 166.0, 370.0, 408.0)
_MODEL, _OWN, _PEERS = 396.0, 640.0, (872.0, 1019.0)
_PEER_WIDTH = 141.0
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADS, _LAST = 152.0, 562.0
"""Baseline of the first line of the heads, and bottom of the last row."""
_LINE = 21.0


def svg(card: Card, theme: Theme) -> str:
    """Return the card as an SVG file that needs nothing else."""
    canvas = Canvas(theme)
    canvas.elements.append(f"<!-- {MARKER} {card.version} -->")
    canvas.elements.append(f'<rect width="{WIDTH:g}" height="{HEIGHT:g}" fill="{canvas.ink.ground}"/>')
    _header(canvas, card)
    _machine(canvas, card)
    _table(canvas, card)
    _footer(canvas, card)
    return canvas.svg(WIDTH, HEIGHT, title=card.title, description=description(card))


def png(card: Card, theme: Theme) -> bytes:
    """Return the card as a PNG; needs vl-convert-python."""
    import vl_convert

    return _packed(bytes(vl_convert.svg_to_png(svg(card, theme), scale=1)), description(card))


def _packed(picture: bytes, words: str) -> bytes:
    """Return the same PNG with its text alternative, and its pixels packed to a third of what the renderer writes."""
    chunks: list[tuple[bytes, bytes]] = []
    at = len(_SIGNATURE)
    while at < len(picture):
        (length,) = struct.unpack_from(">I", picture, at)
        chunks.append((picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]))
        at += 12 + length
    pixels = zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"))
    kept = [(kind, body) for kind, body in chunks if kind not in (b"IDAT", b"IEND")]
    kept.append((b"tEXt", b"Software\0" + MARKER.encode()))
    kept.append((b"iTXt", b"Description\0\0\0\0\0" + words.encode()))
    kept += [(b"IDAT", zlib.compress(pixels, 9)), (b"IEND", b"")]
    packed = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in kept
    ]
    return _SIGNATURE + b"".join(packed)


def description(card: Card) -> str:
    """Return the text alternative of the picture: each figure with what it rests on, and the roofs."""
    said = [f"What machine learning models do on {card.title}."]
    for row in card.rows:
        figure = row.own
        if figure is None:
            said.append(f"{row.model.label}, {call_words(row.model.sizes)}: not measured.")
            continue
        doubt = ", suspect" if figure.verdict == "suspect" else ""
        rests = f"{BASIS_WORDS.get(figure.basis, figure.basis)}{doubt}, {software_words(figure)}"
        said.append(
            f"{row.model.label}, {call_words(row.model.sizes)}: {headline(row.model.sizes, figure).text} ({rests})."
        )
    roofline = card.roofline
    if roofline.measured_bandwidth is not None:
        said.append(f"Memory bandwidth {formatting.plain(formatting.si(roofline.measured_bandwidth, 'B/s'))} measured.")
    said += [
        f"{roof.precision} {formatting.plain(formatting.si(roof.measured_flops, 'FLOP/s'))} measured."
        for roof in shown_roofs(roofline)
        if roof.measured_flops is not None
    ]
    return " ".join(said)


def _header(canvas: Canvas, card: Card) -> None:
    brand = text_width("Assay", NORMAL, bold=True)
    room = RIGHT - LEFT - brand - 24
    sizes = [size for size in (40.0, 36.0, 32.0, 28.0, 24.0, 22.0) if text_width(card.title, size, bold=True) <= room]
    canvas.text(LEFT, 74, card.title, sizes[0] if sizes else 22.0, width=room, bold=True)
    canvas.text(RIGHT, 74, "Assay", NORMAL, bold=True, muted=True, anchor="end")
    canvas.text(LEFT, 108, " · ".join(_fitting(card.software, RIGHT - LEFT, SMALL)), SMALL, muted=True)
    canvas.line(LEFT, 124, RIGHT, 124, colour=canvas.ink.muted)


def _fitting(parts: list[str], width: float, size: float) -> list[str]:
    """Return as many parts, joined by dots, as fit."""
    kept: list[str] = []
    for part in parts:
        if text_width(" · ".join([*kept, part]), size) > width:
            break
        kept.append(part)
    return kept or [fitted(part, width, size) for part in parts[:1]]


def _machine(canvas: Canvas, card: Card) -> None:
    """Draw the roofline, and under it what was specified and what was measured."""
    roofline = card.roofline
    canvas.text(LEFT, 152, "FLOP/s over FLOP per byte", SMALL, muted=True)
    if roofline.complete:
        draw_roofline(canvas, roofline, _PLOT)
    else:
        for line, words in enumerate(("the roofline is not measured:", "assay calibrate")):
            canvas.text((LEFT + _PLOT.right) / 2, 270 + _LINE * line, words, SMALL, muted=True, anchor="middle")
    measured, specified, y = 236.0, _PLOT.right, 462.0
    for x, words, dash in ((measured, "measured", "6 5"), (specified, "specified", "")):
        width = text_width(words, SMALL)
        canvas.text(x, y, words, SMALL, muted=True, anchor="end")
        canvas.line(x - width - 30, y - 6, x - width - 7, y - 6, colour=canvas.ink.muted, width=2, dash=dash)
    for name, reached, said, unit, verdict in limit_lines(roofline, shown_roofs(roofline)):
        y += 31
        canvas.line(LEFT, y - 23, specified, y - 23)
        canvas.text(LEFT, y, name, SMALL)
        canvas.text(measured, y, _si(reached, unit), SMALL, bold=reached is not None, anchor="end")
        if verdict == "suspect" and reached is not None:
            canvas.ring(measured - text_width(_si(reached, unit), SMALL, bold=True) - 10, y - 6, 6, canvas.suspect, 2)
        canvas.text(specified, y, _si(said, unit), SMALL, muted=True, anchor="end")


def limit_lines(
    roofline: CardRoofline, roofs: Sequence[CardRoof]
) -> list[tuple[str, float | None, float | None, str, str | None]]:
    """Return the limits of a device as name, measured, specified, unit and verdict: its memory first, then its peaks."""
    memory = (roofline.measured_bandwidth, roofline.specified_bandwidth, "B/s", roofline.bandwidth_verdict)
    peaks = [(roof.precision, roof.measured_flops, roof.specified_flops, "FLOP/s", roof.verdict) for roof in roofs]
    return [("memory", *memory), *peaks]


def _si(value: float | None, unit: str) -> str:
    return formatting.plain(formatting.si(value, unit))


def _table(canvas: Canvas, card: Card) -> None:
    heads = [head_lines(short_name(peer.id)) for peer in card.peers[: len(_PEERS)]]
    canvas.text(_MODEL, _HEADS, "batch 1", SMALL, muted=True)
    canvas.text(_OWN, _HEADS, "This machine", SMALL, bold=True)
    for x, (size, lines) in zip(_PEERS, heads, strict=False):
        for line, words in enumerate(lines):
            canvas.text(x, _HEADS + (size + 3) * line, words, size, bold=True, muted=True)
    first = _HEADS + 14 + max(((size + 3) * (len(lines) - 1) for size, lines in heads), default=0)
    height = (_LAST - first) / max(len(card.rows), 5)
    for index, row in enumerate(card.rows):
        _row(canvas, row, index, first + index * height, height)


def head_lines(name: str) -> tuple[float, list[str]]:
    """Return a device's name as lines over its column, and their size: smaller where three lines are not enough."""
    lines = wrapped(name, _PEER_WIDTH, SMALL, 3, bold=True)
    if "…" not in "".join(lines):
        return SMALL, lines
    return SMALLEST, wrapped(name, _PEER_WIDTH, SMALLEST, 4, bold=True)


def _row(canvas: Canvas, row: CardRow, index: int, top: float, height: float) -> None:
    canvas.line(_MODEL, top, RIGHT, top)
    first = top + (height - 66) / 2 + 28
    second = first + 25
    canvas.text(_MODEL, first, str(index + 1), SMALL, bold=True, muted=True)
    canvas.text(_MODEL + 20, first, row.model.label, NORMAL, width=_OWN - _MODEL - 28, bold=True)
    canvas.text(_MODEL + 20, second, call_words(row.model.sizes), SMALL, width=_OWN - _MODEL - 26, muted=True)
    _own(canvas, row, first, second)
    for x, figure in zip(_PEERS, row.peers, strict=False):
        words = headline(row.model.sizes, figure)
        if figure is None:
            canvas.text(x, first, formatting.MISSING, NORMAL, muted=True)
            continue
        _figure(canvas, figure, words, (x, first), NORMAL, words.short_unit)
        rests = words.interval if figure.basis not in ("measured", "imported") else software_words(figure)
        canvas.text(x, second, rests or software_words(figure), SMALL, width=_PEER_WIDTH, muted=True)


def _own(canvas: Canvas, row: CardRow, first: float, second: float) -> None:
    width = _PEERS[0] - _OWN - 8
    figure, words = row.own, headline(row.model.sizes, row.own)
    if figure is None:
        canvas.text(_OWN, first, formatting.MISSING, LARGE, bold=True)
        canvas.text(_OWN, second, "assay card --measure", SMALL, width=width, muted=True)
        return
    _figure(canvas, figure, words, (_OWN, first), LARGE, words.unit)
    rests = software_words(figure)
    if figure.verdict == "suspect":
        rests = f"suspect, {rests}"
    elif figure.basis != "measured" and words.interval:
        rests = f"{words.interval}, {figure.precision}"
    canvas.text(_OWN, second, rests, SMALL, width=width, muted=True)


def _figure(
    canvas: Canvas, figure: CardFigure, words: Headline, at: tuple[float, float], size: float, unit: str
) -> None:
    """Write a figure behind its mark; one that was measured or published is bold."""
    x, y = at
    canvas.mark(x + 9, y - size * 0.34, 7, figure.basis, figure.platform)
    if figure.verdict == "suspect":
        canvas.ring(x + 9, y - size * 0.34, 11, canvas.suspect, 2)
    bold = figure.basis in ("measured", "imported")
    canvas.text(x + 26, y, words.value, size, bold=bold, unit=unit)


def _footer(canvas: Canvas, card: Card) -> None:
    """Draw the legend and where the card comes from."""
    x, y = LEFT, 594.0
    canvas.line(LEFT, 570, RIGHT, 570, colour=canvas.ink.muted)
    for kind, name, words in _legend(card):
        width = text_width(words, SMALL)
        if x + 22 + width > RIGHT:
            break
        if kind == "basis":
            canvas.mark(x + 8, y - 6, 7, name, None)
        elif kind == "verdict":
            canvas.ring(x + 8, y - 6, 8, canvas.suspect, 2)
        else:
            canvas.tile(x + 1, y - 13, 14, canvas.colour(name))
        canvas.text(x + 22, y, words, SMALL, muted=True)
        x += 22 + width + 20
    made = f"{formatting.when(card.made.replace(hour=0, minute=0, second=0, microsecond=0))} · Assay {card.version}"
    canvas.text(RIGHT, 618, made, SMALL, muted=True, anchor="end")
    room = RIGHT - LEFT - text_width(made, SMALL) - 24
    canvas.text(LEFT, 618, _how(card), SMALL, width=room, muted=True)


def _legend(card: Card) -> list[tuple[str, str, str]]:
    """Return what the marks of the card mean: kind, name and words."""
    figures = [figure for row in card.rows for figure in (row.own, *row.peers) if figure is not None]
    verdicts = {figure.verdict for figure in figures} | {roof.verdict for roof in card.roofline.roofs}
    suspect = "suspect" in verdicts | {card.roofline.bandwidth_verdict}
    return [
        *(("basis", basis, BASIS_WORDS[basis]) for basis in card.bases),
        *([("verdict", "suspect", "suspect")] if suspect else []),
        *(("platform", platform, platform) for platform in card.platforms),
    ]


def _how(card: Card) -> str:
    """Return in a line how the figures came about, or what is missing first."""
    if card.measured < len(card.rows):
        return f"{card.measured} of {len(card.rows)} models measured here"
    if card.roofline.bandwidth_by != "calibrate":
        return "medians of steady calls · measure the roofline: assay calibrate"
    return "medians of steady calls, fastest software measured · ranges: 80 % intervals"
