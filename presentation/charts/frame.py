"""What is around the marks of every chart: its size, its ground, and how many marks it may have."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import altair as alt
from altair.utils import schemapi

from presentation.palette import INKS, Ink, Theme

__all__ = ["LEGEND", "MAX_MARKS", "Rows", "Spec", "finish", "finished", "refuse_too_many", "shared"]

MAX_MARKS = 2000
AROUND = 74
"""Pixels that the axis and what stands around it need."""
LEGEND = 48
"""Pixels that a legend below the axis needs: the page fits it into the height, and few rows have none to give."""

# Altair would check every part by itself when it is made; pictures are checked as a whole when they are drawn.
schemapi.DEBUG_MODE = False


class Rows(alt.Data):  # type: ignore[misc]  # Altair types its schema as Any.
    """What is drawn, as `values` of plain JSON: Altair takes it as it stands.

    Of other data it copies every row with every layer, and asks each value several times what it is: most of a page's time.
    """

    _class_is_valid_at_instantiation = False

    def __deepcopy__(self, _: Any) -> Rows:
        """Return these rows: nobody changes them."""
        return self

    def to_dict(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Return the values as they are, and how to read them where that is said."""
        document = self._kwds.get("format", alt.Undefined)
        return {"values": self._kwds["values"], **({} if document is alt.Undefined else {"format": document.to_dict()})}


class Spec:
    """A chart as the members of its Vega-Lite specification, with what files and reports ask of Altair's charts.

    Altair copies all data for each layer and channel: three charts of a dozen layers took half a second of processor, and take
    none where they are written as they are sent. Tests hold them against Vega-Lite's schema.
    """

    def __init__(self, **members: Any) -> None:
        self._members = members

    def properties(self, **more: Any) -> Spec:
        """Return the chart with these members in place of its own."""
        return Spec(**{**self._members, **more})

    def to_dict(self, validate: bool = False) -> dict[str, Any]:  # noqa: ARG002 - as Altair's charts have it
        """Return the specification, without members that are None."""
        return {name: value for name, value in self._members.items() if value is not None}


def finished(*, height: int, theme: Theme | None, picture: bool, **members: Any) -> Spec:
    """Return the chart of these members at its height in pixels: as wide as its page, or as a picture that stands alone."""
    if not picture:
        config = {"mark": {"aria": False}}
        if "data" in members:
            # Rows of a whole chart go as a table by Streamlit, which the browser takes in a second pass; those of layers do not.
            members["layer"] = [{"data": members.pop("data"), "layer": members["layer"]}]
        return Spec(**{"config": config, "height": height + AROUND, "width": "container", **members})
    ink = INKS[theme or "light"]
    return Spec(
        **{"config": _worn(ink), "height": height, "width": 860, "background": ink.ground, "padding": 20, **members}
    )


def _worn(ink: Ink) -> dict[str, Any]:
    """Return how a picture that stands alone wears its title and legend."""
    title = {"color": ink.text, "subtitleColor": ink.muted, "anchor": "start", "fontSize": 16, "offset": 18}
    return {"view": {"stroke": None}, "legend": {"labelColor": ink.text}, "title": title}


def finish(chart: alt.LayerChart, *, height: int, theme: Theme | None, picture: bool) -> alt.LayerChart:
    """Return a chart at its height in pixels: as wide as its page, or as a picture that stands alone."""
    if not picture:
        # The page's chart has a name, and its rows stand in the table below: marks that are read out one by one say less.
        chart.config = alt.Config(mark=alt.MarkConfig(aria=False))
        # Streamlit fits axis and legend into the height that is named. Altair's methods would copy every layer for each of these.
        chart.height, chart.width = height + AROUND, "container"
        return chart
    ink = INKS[theme or "light"]
    return (
        chart.properties(height=height, width=860, background=ink.ground, padding=20)
        .configure_view(stroke=None)
        .configure_legend(labelColor=ink.text)
        .configure_title(color=ink.text, subtitleColor=ink.muted, anchor="start", fontSize=16, offset=18)
    )


def shared(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a chart whose neighbouring layers have the rows that they share once: they are most of what the browser reads."""
    if "layer" not in spec:
        return spec
    layers: list[dict[str, Any]] = []
    for _, result in groupby(spec["layer"], key=lambda layer: id(layer.get("data", layer).get("values", layer))):
        alike = list(result)
        if len(alike) == 1:
            layers += alike
        else:
            bare = [{name: part for name, part in layer.items() if name != "data"} for layer in alike]
            layers.append({"data": alike[0]["data"], "layer": bare})
    return {**spec, "layer": layers}


def refuse_too_many(marks: int) -> None:
    """Raise ValueError beyond `MAX_MARKS`."""
    if marks > MAX_MARKS:
        raise ValueError(f"{marks} marks are more than the {MAX_MARKS} that a chart may have; show fewer rows")
