"""Reading ahead: the same pieces in the same order, errors where they arose, and nothing left running."""

import threading

import pytest

from ingest.projection.advance import read_ahead


def test_pieces_come_in_order_and_the_next_is_fetched_while_one_is_worked_on():
    fetched = []
    second = threading.Event()

    def pieces():
        for number in range(4):
            fetched.append(number)
            if number == 1:
                second.set()
            yield number

    ahead = read_ahead(pieces())
    assert next(ahead) == 0
    assert second.wait(5)
    assert list(ahead) == [1, 2, 3]
    assert fetched == [0, 1, 2, 3]
    assert list(read_ahead(iter([]))) == []


def test_an_error_comes_after_the_pieces_before_it():
    def pieces():
        yield 1
        yield 2
        raise OSError("away")

    ahead = read_ahead(pieces())
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(OSError, match="away"):
        next(ahead)


def test_leaving_early_ends_the_thread_and_closes_the_source():
    ended = threading.Event()

    def pieces():
        try:
            yield from range(1_000_000)
        finally:
            ended.set()

    source = pieces()
    ahead = read_ahead(source)
    next(ahead)
    ahead.close()
    source.close()
    assert ended.is_set()
    assert not [thread for thread in threading.enumerate() if thread.name == "read-ahead"]
