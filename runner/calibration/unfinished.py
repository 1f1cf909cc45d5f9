"""The events of a calibration that goes to a service, kept on this machine until it is complete: a second start goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from domain.events import RUN_STARTED
from runner.calibration.plan import CalibrationPlan
from runner.calibration.run import plan_data
from runner.campaign.run import OnEvent
from runner.spool.event_file import EventFile, read_lines

__all__ = ["earlier_events", "kept_until_complete"]

STALE_S = 86_400.0
"""What was measured longer ago is measured again: the machine may be another by then."""


def earlier_events(path: Path, plan: CalibrationPlan) -> list[dict[str, Any]]:
    """Return the events that an interrupted calibration of the same plan left within the last day, oldest first."""
    if not path.exists() or time.time() - path.stat().st_mtime > STALE_S:
        return []
    events = [msgspec.json.decode(line) for line in read_lines(path, whole_only=True)]
    plans = [event["data"].get("plan") for event in events if event["type"] == RUN_STARTED]
    return events if plans and all(each == plan_data(plan) for each in plans) else []


@contextmanager
def kept_until_complete(path: Path, *, goes_on: bool) -> Iterator[OnEvent]:
    """Give what keeps each event in the file, which is removed where the block ends without an exception."""
    file = EventFile(path, resume=goes_on)
    try:
        yield file.write
    finally:
        file.close()
    path.unlink(missing_ok=True)
