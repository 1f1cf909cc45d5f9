"""The spool on a real disk, and files of events on their way to a service."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.client import batches
from domain.errors import InvalidEvent, ServiceUnavailable, SpoolFull, TooBusy, Unauthenticated, UsageError
from domain.events import EVENT_LIMIT_BYTES, RUN_FINISHED, encode_event, new_event
from runner.spool.post import post_files
from runner.spool.spool import Spool
from runner.spool.state import SpoolState


def event(number: int = 0) -> dict[str, Any]:
    data = {"run_id": f"run-{number}", "outcome": "completed"}
    return new_event(RUN_FINISHED, data, source="test")


class Log:
    """What a service would remember, behind the wire: ids once, refusals by outcome, answers of the documented shape."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.errors: list[Exception] = []
        self.bad: set[str] = set()

    def __call__(self, lines: Sequence[bytes]) -> Mapping[str, Any]:
        if self.errors:
            raise self.errors.pop(0)
        ids = [msgspec.json.decode(line)["id"] for line in lines]
        new = [id_ for id_ in ids if id_ not in self.ids and id_ not in self.bad]
        rejected = [
            {"index": index, "id": id_, "type": RUN_FINISHED, "detail": "wrong", "field": "data.outcome"}
            for index, id_ in enumerate(ids)
            if id_ in self.bad
        ]
        known = len(ids) - len(new) - len(rejected)
        self.ids += new
        return {"accepted": len(new), "duplicate": known, "rejected": rejected, "last_position": len(self.ids)}


@pytest.fixture
def spool(tmp_path: Path) -> Any:
    with Spool(tmp_path / "spool.sqlite") as opened:
        yield opened


def test_waiting_events_are_read_by_type_and_stay(spool: Spool) -> None:
    events = [event(number) for number in range(3)]
    spool.put(events)
    assert [read["id"] for read in spool.waiting_events({RUN_FINISHED})] == [each["id"] for each in events]
    assert list(spool.waiting_events({"assay.run.started.v1"})) == []
    assert spool.waiting() == 3


def test_what_is_put_is_sent_once_and_in_order(spool: Spool) -> None:
    events = [event(number) for number in range(1200)]
    spool.put(events)
    spool.put(events[:3])
    log = Log()
    report = spool.flush(log)
    assert (report.accepted, report.waiting, report.refused) == (1200, 0, 0)
    assert log.ids == [each["id"] for each in events]
    assert spool.flush(log).accepted == 0


def test_a_spool_survives_the_death_of_its_process(tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    code = (
        "import sys, os, signal\nfrom pathlib import Path\nfrom runner.spool.spool import Spool\n"
        "from domain.events import EVENT_LIMIT_BYTES, RUN_FINISHED, new_event\n"
        "Spool(Path(sys.argv[1])).put([new_event(RUN_FINISHED, {'run_id': 'r', 'outcome': 'completed'}, source='t')])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", code, str(path)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    with Spool(path) as spool:
        assert spool.waiting() == 1
        assert spool.flush(Log()).accepted == 1


def test_a_full_spool_raises_and_keeps_what_it_has(tmp_path: Path) -> None:
    with Spool(tmp_path / "spool.sqlite", limit_bytes=2000) as spool:
        spool.put([event(1)])
        with pytest.raises(SpoolFull) as caught:
            spool.put([event(number) for number in range(50)])
        assert caught.value.remedy
        assert spool.waiting() == 1
        assert spool.flush(Log()).accepted == 1
        spool.put([event(2)])


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(10_000, 40_000), st.sampled_from([False, False, True])), min_size=5, max_size=12))
def test_a_spool_is_full_where_its_bodies_pass_the_limit(puts: list[tuple[int, bool]]) -> None:
    limit, held = 100_000, 0
    with TemporaryDirectory() as folder, Spool(Path(folder) / "spool.sqlite", limit_bytes=limit) as spool:
        for size, flushes in puts:
            large = event()
            large["data"]["reason"] = "x" * size
            body = len(encode_event(large))
            if held + body > limit:
                with pytest.raises(SpoolFull) as caught:
                    spool.put([large])
                assert f"{held:,} bytes of {limit:,}; {body:,} more" in caught.value.detail
            else:
                spool.put([large])
                held += body
            assert spool.size_bytes() == held
            if flushes:
                spool.flush(Log())
                held = 0


def test_an_unreachable_service_keeps_everything_until_its_time(spool: Spool) -> None:
    spool.put([event()])
    log, now = Log(), 100.0
    log.errors = [ServiceUnavailable("gone"), TooBusy("later")]
    report = spool.flush(log, clock=lambda: now, draw=lambda: 0.5)
    assert (report.accepted, report.waiting, report.state.phase) == (0, 1, "waiting")
    assert "gone" in (report.error or "")
    assert spool.flush(log, clock=lambda: now, draw=lambda: 0.5).waiting == 1
    assert len(log.errors) == 1
    now = 200.0
    assert spool.flush(log, clock=lambda: now, draw=lambda: 0.5).waiting == 1
    now = 300.0
    assert spool.flush(log, clock=lambda: now, draw=lambda: 0.5).accepted == 1


def test_refused_events_stay_visible_and_are_not_sent_again(spool: Spool) -> None:
    good, bad = event(1), event(2)
    spool.put([good, bad])
    log = Log()
    log.bad = {bad["id"]}
    assert (spool.flush(log).accepted, spool.waiting()) == (1, 0)
    (refused,) = spool.refused()
    assert (refused.id, refused.detail, refused.field) == (bad["id"], "wrong", "data.outcome")
    log.bad = set()
    assert spool.flush(log).accepted == 0
    assert spool.discard_refused() == 1 and spool.refused() == []


def test_a_batch_refused_as_a_whole_is_marked(spool: Spool) -> None:
    spool.put([event(1), event(2)])
    log = Log()
    log.errors = [InvalidEvent("no", field="data")]
    assert spool.flush(log).refused == 2
    assert [each.detail for each in spool.refused()] == ["no", "no"]


def test_a_missing_token_blocks_until_a_person_tries_again(spool: Spool) -> None:
    spool.put([event()])
    log = Log()
    log.errors = [Unauthenticated("token")]
    assert spool.flush(log).state.phase == "blocked"
    assert spool.flush(log).accepted == 0
    spool.state = spool.state.unblock()
    assert spool.flush(log).accepted == 1
    assert spool.state == SpoolState()


def write(path: Path, events: list[dict[str, Any]], tail: bytes = b"") -> Path:
    path.write_bytes(b"".join(encode_event(each) + b"\n" for each in events) + tail)
    return path


def test_files_are_posted_and_refusals_named_by_line(tmp_path: Path) -> None:
    events = [event(number) for number in range(5)]
    log = Log()
    log.bad = {events[3]["id"]}
    report = post_files([write(tmp_path / "a.ndjson", events)], log)
    assert (report.accepted, report.last_position, report.exit_code) == (4, 4, 1)
    assert [(each.file, each.line, each.field) for each in report.refused] == [("a.ndjson", 4, "data.outcome")]
    again = post_files([tmp_path / "a.ndjson"], log)
    assert (again.accepted, again.duplicate) == (0, 4)


def test_long_line_is_refused_by_its_number_and_the_others_are_posted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", [event(1)], tail=b"\n" + bytes(EVENT_LIMIT_BYTES + 1) + b"\n")
    path.write_bytes(path.read_bytes() + encode_event(event(2)) + b"\n")
    log = Log()
    report = post_files([path], log)
    assert (report.accepted, len(log.ids), report.refused_lines, report.exit_code) == (2, 2, 1, 1)
    assert [(each.file, each.line) for each in report.refused] == [("a.ndjson", 3)]


def test_a_file_that_breaks_off_sends_nothing_and_names_the_line(tmp_path: Path) -> None:
    good = write(tmp_path / "a.ndjson", [event(1)])
    broken = write(tmp_path / "b.ndjson", [event(2), event(3)], tail=b'{"specversion": "1.')
    log = Log()
    with pytest.raises(UsageError) as caught:
        post_files([good, broken], log)
    assert "line 3" in caught.value.detail and caught.value.field == "file"
    assert log.ids == []


def test_a_last_line_without_its_end_but_whole_is_taken(tmp_path: Path) -> None:
    log = Log()
    path = write(tmp_path / "a.ndjson", [event(1)], tail=encode_event(event(2)))
    assert post_files([path], log).accepted == 2


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        post_files([tmp_path / "none.ndjson"], Log())
    assert caught.value.exit_code == 2


def test_an_unreachable_service_is_raised(tmp_path: Path) -> None:
    log = Log()
    log.errors = [ServiceUnavailable("gone")]
    with pytest.raises(ServiceUnavailable):
        post_files([write(tmp_path / "a.ndjson", [event()])], log)


def test_batches_keep_both_limits() -> None:
    assert [len(group) for group in batches(iter([b"x"] * 2500))] == [1000, 1000, 500]
    assert [len(group) for group in batches(iter([b"x" * 3_000_000] * 5))] == [2, 2, 1]
