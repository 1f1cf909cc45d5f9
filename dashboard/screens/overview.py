"""Overview: what do we know, and how fresh is it?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import streamlit as st

from assay import numbers
from dashboard import answers
from dashboard.frame import downloads, guarded, header, zone

__all__ = ["show"]


def show() -> None:
    """Show the counts, the last runs and the service's health; with nothing known, the one command to run."""
    header("Overview", "What do we know, and how fresh is it?")
    with guarded("The service"):
        health = answers.ready()
        position = health["position"]
        with guarded("The counts"):
            _counts(position)
        left, right = st.columns([2, 1], gap="large")
        with left, guarded("The last runs"):
            _runs(position)
        with right, guarded("The health"):
            _health(health, position)


def _counts(position: int) -> None:
    known = answers.summary(position)
    if not known["measurements"]:
        st.info("Nothing has been measured yet. One command fills this page:")
        st.code("assay bench bert-base-uncased --platform cpu,openvino", language="bash")
        st.caption("It builds the model, measures it on this machine and sends what it saw to this service.")
    newest = known.get("newest")
    with st.container(key="counts"):
        tiles = st.columns(4)
        tiles[0].metric("Models", numbers.count(known["models"]), border=True)
        tiles[1].metric("Hardware", numbers.count(known["hardware"]), border=True)
        tiles[2].metric("Measurements", numbers.count(known["measurements"]), border=True)
        tiles[3].metric("Newest measurement", numbers.age(newest, datetime.now(UTC)), border=True)
        if newest:
            tiles[3].caption(numbers.date(newest, zone()))
    if known["measurements"]:
        _reports(position)


def _reports(position: int) -> None:
    kinds = ("performance", "hardware", "compatibility")
    downloads(
        [
            (
                f"{kind.capitalize()} report",
                f"assay_{kind}_p{position}.html",
                "text/html",
                answers.reporter(kind, None, position),
            )
            for kind in kinds
        ],
        "reports",
    )


def _runs(position: int) -> None:
    st.subheader("Last runs", anchor=False)
    found = answers.runs(position)
    if not found:
        st.caption("No run has been posted yet.")
        return
    st.dataframe(
        _run_table(found), hide_index=True, key="overview runs", row_height=36, placeholder=numbers.MISSING,
        height="content", alt="The last ten runs", column_config={"Run": st.column_config.Column(width="medium")},
    )  # fmt: skip


def _run_table(found: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    heads = {"source": "Source", "outcome": "Outcome", "measured": "Measured", "failed": "Failed", "tests": "Tests"}
    frame = pd.DataFrame([{title: row.get(key) for key, title in heads.items()} for row in found])
    for title in ("Measured", "Failed", "Tests"):
        frame[title] = frame[title].astype("Int64")
    frame.insert(0, "Started", [numbers.date(row.get("started_at"), zone()) for row in found])
    frame.insert(2, "Run", [row.get("run_id") for row in found])
    frame.insert(1, "Hardware", [_hardware(row.get("hardware")) for row in found])
    frame["Outcome"] = ["retracted" if row.get("retracted_because") else row.get("outcome") for row in found]
    return frame.dropna(axis="columns", how="all")


def _hardware(value: Any) -> str | None:
    """Name the devices of a run, which the service gives as it stored them: JSON, a list or one object."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        value = json.loads(value)
    devices = value if isinstance(value, list) else [value] if value else []
    named = [str(device.get("id")) if isinstance(device, Mapping) else str(device) for device in devices]
    return ", ".join(named) or None


def _health(health: Mapping[str, Any], position: int) -> None:
    st.subheader("Health", anchor=False)
    lag, dead = health.get("lag_events"), health.get("dead_letters")
    lines = [f"**Log** position {numbers.count(health.get('log_position', position))}"]
    seconds = health.get("lag_seconds")
    since = f" ({numbers.significant(seconds)} s)" if seconds else ""
    behind = "up to date" if lag == 0 else f"{numbers.count(lag)} events behind{since}"
    lines.append(f"**Projection** position {numbers.count(position)}, {behind}")
    lines.append(f"**Dead letters** {numbers.count(dead)}")
    unknown = health.get("unknown_events")
    if unknown:
        lines.append(f"**Of unknown types** {numbers.count(unknown)} events, kept for a later version")
    archive = health.get("archive") or {}
    if archive.get("segments"):
        lines.append(
            f"**Archive** up to position {numbers.count(archive['last_position'])}, {numbers.memory(archive['bytes'])}"
        )
    if health.get("error"):
        lines.append(f"⚠ **Projector stopped** {health['error']}")
    with guarded("The predictor"):
        card = answers.predictor(position)
        trained = card.get("digest") or card.get("predictor")
        rows = card.get("rows")
        lines.append(f"**Predictor** {numbers.digest(trained)}, trained on {numbers.count(rows)} rows")
    st.markdown("  \n".join(lines))
