"""A file is written, read twice, and every event passed through the gate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from domain.events import decode_event, encode_event
from ingest.importers.base import Importer
from ingest.importers.files import File
from ingest.importers.refusals import Refused


class Read(NamedTuple):
    """What an importer made of a file: `rows` are its events but the run's, `ended` the data of the run's end."""

    rows: list[dict[str, Any]]
    refused: list[Refused]
    ended: dict[str, Any]

    @property
    def data(self) -> list[dict[str, Any]]:
        return [event["data"] for event in self.rows]


Content = str | bytes | dict[str, Any] | list[Any]


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., File]:
    """Write a file, and others around it by their paths from its folder, and return it as one that was named."""

    def placed(content: Content, name: str, around: Mapping[str, Content] | None = None) -> File:
        for other, written in {**(around or {}), name: content}.items():
            path = (tmp_path / "results" / "machine" / other).resolve()
            path.parent.mkdir(parents=True, exist_ok=True)
            raw = written if isinstance(written, str | bytes) else json.dumps(written)
            path.write_bytes(raw.encode() if isinstance(raw, str) else raw)
        return File(tmp_path / "results" / "machine" / name, name, given=True)

    return placed


@pytest.fixture
def reads(place: Callable[..., File]) -> Callable[..., Read]:
    """Return what an importer makes of a file; the second reading gives the same."""

    def read(importer: Importer, content: Content, name: str, around: Mapping[str, Content] | None = None) -> Read:
        file = place(content, name, around)
        items = list(importer.rows(file))
        assert list(importer.rows(file)) == items
        events = [item for item in items if not isinstance(item, Refused)]
        assert all(decode_event(encode_event(event)).warnings == () for event in events)
        rows = [event for event in events if ".run." not in event["type"]]
        return Read(rows, [item for item in items if isinstance(item, Refused)], events[-1]["data"] if events else {})

    return read
