"""A package with platforms of its own, installed for this process and for the children that it starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

PLUGIN = Path(__file__).parent / "example_plugin"


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example package, found through its entry points."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(PLUGIN), os.environ.get("PYTHONPATH")))))
    monkeypatch.delitem(sys.modules, "example_platforms", raising=False)
    return PLUGIN


@pytest.fixture
def converted(tmp_path: Path) -> Path:
    """A model in the form that the example platforms take: it doubles `x`."""
    folder = tmp_path / "converted"
    folder.mkdir()
    x = np.arange(64, dtype=np.float32)
    with (folder / "inputs.npz").open("wb") as handle:
        np.savez(handle, **{"000 x": x})
    with (folder / "reference.npz").open("wb") as handle:
        np.savez(handle, **{"000 y": x * 2})
    card = {"model": {"id": "example/doubling"}, "load_ms": 1.0, "convert_ms": 2.0}
    (folder / "card.json").write_bytes(msgspec.json.encode(card))
    return folder
