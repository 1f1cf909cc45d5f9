"""Reports that are kept: for as long as points, doubts and restarts stay the same."""

from __future__ import annotations

import msgspec

from api.reads.examinations import Examinations
from domain.history.history import History, Point


def test_a_report_is_kept_until_a_point_or_one_of_its_doubts_changes() -> None:
    points = [Point(event_id=f"e{place}", position=place, value=1.0 + place % 2 / 100) for place in range(9)]
    history = History(
        alike="a", title="a", model="acme/tiny", hardware="acme-one", platform="cpu", precision="fp32",
        metric="latency_p50_ms", unit="ms", better="lower", points=points,
    )  # fmt: skip
    doubted = msgspec.structs.replace(
        history, points=[msgspec.structs.replace(points[0], doubts=["throttled"]), *points[1:]]
    )
    examinations = Examinations()
    ((_, first), (_, again), (_, other)) = examinations.reports([history, history, doubted])
    assert first is again
    assert "1 of 9" in other.warnings[0]
