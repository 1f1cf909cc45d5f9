"""Which model the service is asked about when an endpoint names no platform."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from assay.cli.endpoints.serving import choose
from domain.errors import PlatformUnavailable, Unavailable
from runner.campaign.campaign import survey_machine
from runner.serving.contract import EndpointSpec
from tests.integration.own_models import SAMPLE_CONFIGS, write_config


class Asked:
    """A client that notes the model and then has no answer."""

    def __init__(self) -> None:
        self.model: str | None = None

    def post_events(self, _: Any) -> dict[str, int]:
        return {"last_position": 1}

    def wait_for(self, _: int) -> None:
        pass

    def choose(self, model: str, *_: Any, **__: Any) -> None:
        self.model = model
        raise Unavailable("nothing is known.")


def test_folder_is_asked_for_by_the_id_that_its_measurements_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Asked()

    @contextmanager
    def connected(*_: Any) -> Iterator[Asked]:
        yield client

    monkeypatch.setattr("assay.cli.connection.connected", connected)
    folder = write_config(tmp_path / "our-bert", SAMPLE_CONFIGS["text"])
    machine, _ = survey_machine(("cpu",))
    with pytest.raises(PlatformUnavailable, match="platform"):
        choose(None, None)(EndpointSpec(name="ours", model=str(folder), weights="random"), machine, ("cpu",))
    assert client.model == "local/our-bert"
