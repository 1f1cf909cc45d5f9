"""A chart as a file: PNG, SVG or a page that stands alone, made without a browser."""

from __future__ import annotations

import altair as alt
import vl_convert

__all__ = ["html", "png", "svg", "titled"]


def titled(chart: alt.LayerChart, title: str, *, answer: str, footer: str) -> alt.LayerChart:
    """Return the chart with its question as title, the answer and the provenance as lines under it."""
    return chart.properties(title=alt.TitleParams(text=title, subtitle=[answer, footer], subtitleFontSize=12))


def png(chart: alt.LayerChart) -> bytes:
    """Render at twice the size on screen."""
    return bytes(vl_convert.vegalite_to_png(chart.to_dict(), scale=2))


def svg(chart: alt.LayerChart) -> bytes:
    """Render as SVG, text as text."""
    return str(vl_convert.vegalite_to_svg(chart.to_dict())).encode()


def html(chart: alt.LayerChart) -> bytes:
    """Render as one HTML file that holds Vega itself and asks no network."""
    return str(vl_convert.vegalite_to_html(chart.to_dict(), bundle=True)).encode()
