"""Files of events: whatever breaks off, what was written before it stays and is read."""

import gzip
import json
from pathlib import Path

import pytest

from domain.errors import UsageError
from runner.spool.event_file import EventFile, numbered_lines, read_lines

EVENTS = [{"id": str(number), "text": "é" * 200} for number in range(50)]
NAMES = ["events.ndjson", "events.ndjson.gz"]


def write(path: Path, events: list[dict], *, resume: bool = False) -> Path:
    file = EventFile(path, resume=resume)
    for event in events:
        file.write(event)
    file.close()
    return path


def ids(path: Path, *, whole_only: bool = False) -> list[str]:
    return [json.loads(line)["id"] for line in read_lines(path, whole_only=whole_only)]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read_and_gone_on_with(tmp_path, name):
    path = write(tmp_path / name, EVENTS[:30])
    write(path, EVENTS[30:], resume=True)
    assert ids(path) == [event["id"] for event in EVENTS]
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", NAMES)
def test_without_resume_a_file_is_written_anew(tmp_path, name):
    write(tmp_path / name, EVENTS)
    assert ids(write(tmp_path / name, EVENTS[:2])) == ["0", "1"]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_writes_nothing_changes_nothing(tmp_path, name):
    write(tmp_path / name, EVENTS)
    write(tmp_path / name, [])
    assert len(ids(tmp_path / name)) == len(EVENTS)
    write(tmp_path / f"new-{name}", [])
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_compressed_file_is_what_gzip_reads_and_much_smaller(tmp_path):
    plain, compressed = (write(tmp_path / name, EVENTS) for name in NAMES)
    assert gzip.decompress(compressed.read_bytes()) == plain.read_bytes()
    assert compressed.stat().st_size < plain.stat().st_size / 5


def test_two_compressed_files_joined_are_one(tmp_path):
    first, second = (write(tmp_path / f"{half}.gz", EVENTS[25 * half : 25 * half + 25]) for half in (0, 1))
    joined = tmp_path / "joined.gz"
    joined.write_bytes(first.read_bytes() + second.read_bytes())
    assert ids(joined) == [event["id"] for event in EVENTS]


@pytest.mark.parametrize("name", NAMES)
def test_every_event_is_on_the_disk_before_the_file_is_closed(tmp_path, name):
    file = EventFile(tmp_path / name)
    for count, event in enumerate(EVENTS[:5], 1):
        file.write(event)
        assert len(ids(tmp_path / name, whole_only=True)) == count
    file.close()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lost", [2, 9, 60, 300])
def test_a_file_that_breaks_off_is_gone_on_with_after_its_last_whole_event(tmp_path, name, lost):
    path = write(tmp_path / name, EVENTS)
    path.write_bytes(path.read_bytes()[:-lost])
    with pytest.raises(UsageError, match=r"cut off|breaks off"):
        list(read_lines(path))
    kept = ids(path, whole_only=True)
    assert kept == [event["id"] for event in EVENTS[: len(kept)]]
    write(path, EVENTS[len(kept) :], resume=True)
    assert ids(path) == [event["id"] for event in EVENTS]


def test_an_empty_compressed_file_is_gone_on_with(tmp_path):
    (tmp_path / "events.gz").write_bytes(b"")
    assert ids(write(tmp_path / "events.gz", EVENTS[:1], resume=True)) == ["0"]


def test_a_damaged_file_is_named_and_never_shortened(tmp_path):
    path = write(tmp_path / "events.ndjson.gz", EVENTS)
    whole = path.read_bytes()
    damaged = whole[:400] + bytes(200) + whole[600:]
    path.write_bytes(damaged)
    for attempt in (lambda: list(read_lines(path)), lambda: EventFile(path, resume=True)):
        with pytest.raises(UsageError, match="damaged"):
            attempt()
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", [b"\n", b""])
def test_long_line_is_skipped_and_numbered(tmp_path, name, ending):
    content = b'{"n": 1}\n\n' + bytes(5000) + b"\n" + b'{"n": 4}\r\n' + b"x" * 100 + b"\n" + bytes(3_000_000) + ending
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    lines = list(numbered_lines(path, limit=100))
    assert lines == [(1, b'{"n": 1}'), (3, None), (4, b'{"n": 4}'), (5, b"x" * 100), (6, None)]


@pytest.mark.parametrize("piece", [b" " * 999 + b"\n", bytes(1000)], ids=["blank lines", "one line"])
def test_compressed_file_that_unpacks_too_far_is_refused(tmp_path, piece):
    path = tmp_path / "bomb.ndjson.gz"
    path.write_bytes(gzip.compress(piece * 24_000))
    with pytest.raises(UsageError, match="400 times"):
        for _ in numbered_lines(path):
            pass


def test_partial_line_longer_than_a_piece_is_cut_on_resume(tmp_path):
    path = tmp_path / "events.ndjson"
    path.write_bytes(b'{"id": "0"}\n' + b"x" * 2_500_000)
    assert ids(write(path, EVENTS[1:2], resume=True)) == ["0", "1"]
