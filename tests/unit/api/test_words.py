"""Words in bodies and queries end where they end: no newline passes behind them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from api.routes.operations import NewToken
from api.routes.predictors import Digest
from api.routes.predictors import Word as Target
from domain.payloads import SnapshotNamed

TOKEN = {"name": "runner", "scopes": ["append"], "source": "urn:acme"}
CASES = {
    "token name": (NewToken, TOKEN, "name"),
    "token source": (NewToken, TOKEN, "source"),
    "snapshot name": (SnapshotNamed, {"name": "before", "position": 1}, "name"),
    "predictor digest": (dict[str, Digest], {"digest": "sha256:0123456789"}, "digest"),
    "predictor target": (dict[str, Target], {"target": "latency"}, "target"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_newline_at_the_end_is_refused(case: str) -> None:
    shape: Any
    shape, data, member = CASES[case]
    assert msgspec.convert(data, shape)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**data, member: f"{data[member]}\n"}, shape)
