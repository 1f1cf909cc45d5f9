"""Compare's precisions: the device that the page opens on."""

from __future__ import annotations

from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from assay.client import Client

pytestmark = pytest.mark.xdist_group("dashboard")
MODEL, KNOWN, NAMELESS = "acme/two-precisions", "nvidia-l4", "unknown-cpu"


def script() -> None:
    from dashboard.screens.compare import view

    view.show()


@pytest.mark.parametrize(
    ("rows_of_fp32", "chosen"), [((NAMELESS, "nvidia-t4", KNOWN), KNOWN), (("nvidia-t4",), "nvidia-t4")]
)
def test_it_opens_on_a_known_device_with_fp32_and_most_rows(
    new_service: Any,
    build: Any,
    monkeypatch: pytest.MonkeyPatch,
    rows_of_fp32: tuple[str, ...],
    chosen: str,
) -> None:
    devices = {NAMELESS: 4, "nvidia-t4": 1, KNOWN: 3}
    events = [
        build.measurement(
            4.0 * batch,
            model=MODEL,
            hardware=name,
            platform="cuda",
            precision="fp32" if name in rows_of_fp32 else "fp16",
            batch_size=batch,
        )
        for name, rows in devices.items()
        for batch in range(1, rows + 1)
    ]
    with new_service() as url, Client(url) as client:
        client.wait_for(client.post_events(events)["last_position"])
        monkeypatch.setenv("ASSAY_SERVER", url)
        monkeypatch.setattr("sys.argv", ["app.py"])
        st.cache_data.clear()
        st.cache_resource.clear()
        test = AppTest.from_function(script, default_timeout=60)
        test.query_params["what"], test.query_params["model"] = "precision", MODEL
        assert not test.run().exception
        assert test.query_params["hw"] in (chosen, [chosen])
        st.cache_data.clear()
        st.cache_resource.clear()
