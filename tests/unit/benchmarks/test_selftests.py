"""The table of self-tests is that of the events that were posted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from benchmarks import selftests


def event(day: str, **outcomes: str) -> dict[str, Any]:
    data = {
        "test": "selftest",
        "execution": {"platform": "cuda", "runtime": {"name": "torch", "version": "2.13.0"}},
        "hardware": {"id": "nvidia-l4"},
        "checks": {name: {"outcome": outcome, "said": "…"} for name, outcome in outcomes.items()},
    }
    return {"type": "assay.test.reported.v1", "time": f"{day}T10:00:00Z", "data": data}


def test_the_page_has_what_was_posted() -> None:
    text = selftests.PAGE.read_text(encoding="utf-8")
    assert selftests.page(text, selftests.table(selftests.reports(selftests.FOLDER))) == text


def test_the_newest_report_of_a_device_counts_and_other_events_do_not(tmp_path: Path) -> None:
    told = [
        event("2026-11-02", probe="passed", timing="passed", power="skipped"),
        event("2026-11-01", probe="passed", timing="failed"),
        {"type": "assay.test.reported.v1", "time": "2026-11-03", "data": {"test": "verify"}},
        {"type": "assay.run.started.v1", "time": "2026-11-03", "data": {}},
    ]
    (tmp_path / "here.ndjson").write_bytes(b"\n".join(map(msgspec.json.encode, told)))
    found = selftests.reports(tmp_path)
    assert [each["time"][:10] for each in found] == ["2026-11-02"]
    assert selftests.table(found).splitlines()[2:] == [
        "| cuda | nvidia-l4 | torch 2.13.0 | 2026-11-02 | probe, timing | — | power |"
    ]


def test_the_page_around_the_table_stays_as_it_is() -> None:
    before = "# A\n" + selftests.BEGIN + "old\n" + selftests.END + "\nafter\n"
    once = selftests.page(before, "new\n")
    assert once == "# A\n" + selftests.BEGIN + "new\n" + selftests.END + "\nafter\n"
    assert selftests.page(once, "new\n") == once
