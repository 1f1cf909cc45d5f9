"""A card as one HTML file: no script, no request, light and dark, for screens from phones on."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from presentation import formatting
from presentation.answer_words import device_name
from presentation.card.content import (
    BASIS_WORDS,
    MARKER,
    Card,
    CardFigure,
    CardRow,
    call_words,
    headline,
    software_words,
)
from presentation.card.drawing import FONT, Canvas
from presentation.card.picture import description, limit_lines
from presentation.card.roofline import Box, draw_roofline
from presentation.palette import Theme
from presentation.reports.page import colours, themed

__all__ = ["as_html"]

_ROOFLINE = (560.0, 360.0)
_CSS = """
*{box-sizing:border-box}
body{margin:0;background:var(--c12161F18,#12161F18);color:var(--c12161F);font:16px/1.45 FONT}
main{max-width:1120px;margin:24px auto;padding:28px 32px;background:var(--cFFFFFF);border-radius:12px}
h1{font-size:clamp(24px,4vw,38px);line-height:1.15;margin:0;overflow-wrap:anywhere}
h2{font-size:17px;margin:0 0 8px}
p{margin:6px 0}
.quiet,small,caption,figcaption,footer,thead th{color:var(--c4B5563)}
small{display:block;font-size:14px;overflow-wrap:anywhere}
.cols{display:grid;grid-template-columns:minmax(0,5fr) minmax(0,8fr);gap:28px;margin:20px 0;border-top:1px solid var(--c4B5563);padding-top:18px}
figure{margin:0}
figure svg{width:100%;height:auto;display:block}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
caption,figcaption{text-align:left;font-size:14px;padding:0 0 6px}
th,td{text-align:left;vertical-align:top;padding:8px 10px 8px 0;border-top:1px solid var(--c12161F18);font-weight:400}
thead th{border-top:0;font-size:14px;font-weight:600}
tbody th b{font-size:18px}
td.own b{font-size:22px}
td b,td span.value{font-size:18px}
td.number,th.number{text-align:right;white-space:nowrap}
td svg,li svg{width:18px;height:18px;vertical-align:-2px;margin-right:4px}
span.figure{white-space:nowrap}
code{font-size:13px;overflow-wrap:anywhere}
ul{margin:0;padding-left:20px}
li{margin:4px 0}
.legend{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:4px 18px;font-size:14px}
footer{margin-top:18px;font-size:14px}
@media (max-width:920px){main{margin:0;padding:18px;border-radius:0}.cols{grid-template-columns:minmax(0,1fr)}.roof{order:2}}
@media (max-width:640px){
.models thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.models tr{display:grid;grid-template-columns:repeat(3,minmax(0,1fr));border-top:1px solid var(--c12161F18)}
.models th,.models td{border:0}
span.figure{white-space:normal}
.models td.own{grid-column:span 2}
.models td.peer::before{content:attr(data-name);display:block;font-size:13px;color:var(--c4B5563)}
}
"""


def as_html(card: Card, theme: Theme | None = None) -> str:
    """Return the page. Without a theme it follows the reader's screen."""
    parts = (
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta name="color-scheme" content="{theme or "light dark"}">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f'<meta name="generator" content="{MARKER} {escape(card.version)}">',
        f'<meta name="description" content="{escape(description(card))}">',
        f"<title>{escape(card.title)}</title>",
        f"<style>{_variables(theme)}{_CSS.replace('FONT', FONT)}</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<header><h1>{escape(card.title)}</h1>",
        f'<p class="quiet">{escape(" · ".join(card.software))}</p></header>',
        '<div class="cols">',
        *_machine(card),
        "</div>",
        f"<ul class=legend>{''.join(_legend(card))}</ul>",
        "<h2>How it was measured</h2>",
        f"<ul>{''.join(f'<li>{sentence}</li>' for sentence in _sentences(card))}</ul>",
        f"<footer>{escape(_made(card))}</footer>",
        "</main>",
        "</body>",
        "</html>\n",
    )
    return "\n".join(parts)


def _variables(theme: Theme | None) -> str:
    """Return each colour as a variable: of one theme, or light with what stands for it on a dark screen."""
    pairs = colours().items()
    light, dark = (":root{" + "".join(f"--c{name[1:]}:{pair[side]};" for name, pair in pairs) + "}" for side in (0, 1))
    if theme is not None:
        return dark if theme == "dark" else light
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}"


def _machine(card: Card) -> Iterator[str]:
    yield '<section class="roof"><h2>Roofline</h2>'
    if card.roofline.complete:
        width, height = _ROOFLINE
        canvas = Canvas("light")
        draw_roofline(canvas, card.roofline, Box(66, 14, width - 8, height - 40))
        picture = canvas.svg(
            width, height, title=f"Roofline of {card.title}", description=_roofline_words(card), name="roofline"
        )
        yield f"<figure>{themed(picture, 'card')}"
        yield f"<figcaption>{escape(_roofline_words(card))}</figcaption></figure>"
    yield '<table><thead><tr><th scope="col">limit</th><th scope="col" class="number">measured</th>'
    yield '<th scope="col" class="number">specified</th></tr></thead><tbody>'
    for name, reached, said, unit, verdict in limit_lines(card.roofline, card.roofline.roofs):
        doubt = "<small>suspect</small>" if verdict == "suspect" and reached is not None else ""
        yield f'<tr><th scope="row">{escape(name)}</th><td class="number"><b>{_si(reached, unit)}</b>{doubt}</td>'
        yield f'<td class="number">{_si(said, unit)}</td></tr>'
    yield "</tbody></table></section>"
    yield "<section><h2>Models</h2>"
    yield '<table class="models"><caption>One call at batch 1; the fastest configuration of each device.</caption>'
    yield '<thead><tr><th scope="col">model and call</th><th scope="col">this machine</th>'
    yield from (f'<th scope="col">{escape(device_name(peer.id))}</th>' for peer in card.peers)
    yield "</tr></thead><tbody>"
    for index, row in enumerate(card.rows):
        yield from _row(card, row, index)
    yield "</tbody></table></section>"


def _roofline_words(card: Card) -> str:
    kernels = f"{len(card.roofline.kernels)} measured kernels as dots, " if card.roofline.kernels else ""
    models = "models by their numbers" if card.roofline.points else "no model has a place here yet"
    return f"FLOP/s over FLOP per byte. Lines: specified; dashed: measured; {kernels}{models}."


def _si(value: float | None, unit: str) -> str:
    return escape(formatting.si(value, unit))


def _row(card: Card, row: CardRow, index: int) -> Iterator[str]:
    yield f'<tr><th scope="row"><b>{index + 1}. {escape(row.model.label)}</b>'
    yield f"<small>{escape(call_words(row.model.sizes))}</small></th>"
    yield f'<td class="own">{_cell(row, row.own, own=True)}</td>'
    for peer, figure in zip(card.peers, row.peers, strict=True):
        yield f'<td class="peer" data-name="{escape(device_name(peer.id))}">{_cell(row, figure, own=False)}</td>'
    yield "</tr>"


def _cell(row: CardRow, figure: CardFigure | None, *, own: bool) -> str:
    if figure is None:
        return f"<b>{formatting.MISSING}</b>" + (f"<small><code>{escape(row.command)}</code></small>" if own else "")
    words = headline(row.model.sizes, figure)
    strong = "b" if figure.basis in ("measured", "imported") else 'span class="value"'
    doubt = ", suspect" if figure.verdict == "suspect" else ""
    interval = f"{words.interval}; " if words.interval else ""
    rests = f"{interval}{BASIS_WORDS.get(figure.basis, figure.basis)}{doubt}"
    return (
        f'<span class="figure">{_mark(figure)}<{strong}>{escape(words.value)}</{strong.split()[0]}> '
        f"{escape(words.unit)}</span>"
        f"<small>{escape(software_words(figure))}</small><small>{escape(rests)}</small>"
    )


def _mark(figure: CardFigure) -> str:
    canvas = Canvas("light")
    canvas.mark(12, 12, 6.5, figure.basis, figure.platform)
    if figure.verdict == "suspect":
        canvas.ring(12, 12, 10.5, canvas.suspect, 2)
    return _inline(canvas)


def _inline(canvas: Canvas) -> str:
    """Return a small picture for a line of text, in the page's theme; words beside it say the same."""
    return themed(f'<svg viewBox="0 0 24 24" aria-hidden="true">{"".join(canvas.elements)}</svg>', "mark")


def _legend(card: Card) -> Iterator[str]:
    for basis in card.bases:
        canvas = Canvas("light")
        canvas.mark(12, 12, 6.5, basis, None)
        yield f"<li>{_inline(canvas)}{escape(BASIS_WORDS[basis])}</li>"
    for platform in card.platforms:
        canvas = Canvas("light")
        canvas.dot(12, 12, 7, canvas.colour(platform))
        yield f"<li>{_inline(canvas)}{escape(platform)}</li>"


def _sentences(card: Card) -> Iterator[str]:
    """Yield how each figure of this machine came about, then what is missing, each as escaped text."""
    for row in card.rows:
        figure = row.own
        if figure is None:
            continue
        yield escape(f"{row.model.label} ({row.model.id}): {_provenance(figure)}.")
    sources = {"calibrate": "kernels of assay calibrate", "detect": "the quick probe of assay detect"}
    if card.roofline.bandwidth_by is not None:
        yield f"Roofline: {sources[card.roofline.bandwidth_by]}."
    if card.peers:
        yield "Like machines are those of the catalogue that come nearest in peak and bandwidth; their figures are imported from published results, or estimates with 80 % intervals."
    for note in card.notes:
        sentence = escape(note[0].upper() + note[1:])
        yield "".join(
            f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(f"{sentence}.".split("`"))
        )


def _provenance(figure: CardFigure) -> str:
    version = f" ({figure.runtime} {figure.runtime_version})" if figure.runtime_version else ""
    low, high = figure.latency_ms_low, figure.latency_ms_high
    level = "95 %" if figure.basis in ("measured", "imported") else "80 %"
    span = f", {level} interval {formatting.interval(low, high, value=figure.latency_ms)}" if low and high else ""
    parts = [
        f"{BASIS_WORDS.get(figure.basis, figure.basis)}, {software_words(figure)}{version}",
        f"{'mean' if figure.latency_is_mean else 'median'} {formatting.latency(figure.latency_ms)}{span}",
        f"{formatting.count(figure.n)} calls" if figure.n else "",
        f"{figure.weights} weights" if figure.weights else "",
        figure.verdict or "",
        *figure.reasons[:1],
        f"and {len(figure.reasons) - 1} more reasons" if len(figure.reasons) > 1 else "",
        formatting.when(figure.time) if figure.time else "",
    ]
    return "; ".join(filter(None, parts))


def _made(card: Card) -> str:
    position = f", position {formatting.count(card.position)} of its log" if card.position else ""
    return f"Made on {formatting.date(card.made)} by Assay {card.version}{position}."
