"""A chart as a file: PNG, SVG or a page that stands alone, made without a browser."""

from __future__ import annotations

from typing import Any, TypeVar

import altair as alt
import vl_convert

from presentation.charts.frame import Spec

__all__ = ["html", "png", "svg", "titled"]

Drawn = TypeVar("Drawn", alt.LayerChart, Spec)


def titled(chart: Drawn, title: str, *, answer: str, footer: str) -> Drawn:
    """Return the chart with its question as title, the answer and the provenance as lines under it."""
    document: dict[str, Any] = {"text": title, "subtitle": [answer, footer], "subtitleFontSize": 12}
    return chart.properties(title=document)


def png(chart: alt.LayerChart | Spec) -> bytes:
    """Render at twice the size on screen."""
    return bytes(vl_convert.vegalite_to_png(chart.to_dict(), scale=2))


def svg(chart: alt.LayerChart | Spec) -> bytes:
    """Render as SVG, text as text."""
    return str(vl_convert.vegalite_to_svg(chart.to_dict())).encode()


def html(chart: alt.LayerChart | Spec) -> bytes:
    """Render as one HTML file that holds Vega itself and asks no network."""
    return str(vl_convert.vegalite_to_html(chart.to_dict(), bundle=True)).encode()
