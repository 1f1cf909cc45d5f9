"""Which requests one call answers, and what a full queue, a deadline and a client that has left come to."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.errors import InvalidInput, ServiceUnavailable, TooBusy
from runner.serving.batching import Batcher, DeadlinePassed, Request, join, split
from runner.serving.contract import Tensor


def request(
    rows: int = 1, *, width: int = 2, dtype: type = np.float32, first: float = 0.0, deadline_s: float = 30
) -> Request:
    array = (np.arange(rows * width).reshape(rows, width) + first).astype(dtype)
    return Request([Tensor(name="x", array=array)], deadline_s)


def batcher(**changes: float) -> Batcher:
    return Batcher(**({"max_batch": 4, "max_wait_ms": 0, "limit": 8} | changes))  # type: ignore[arg-type]


def test_requests_of_one_shape_and_type_are_joined_up_to_the_largest_batch() -> None:
    queue = batcher()
    sent = [request(2), request(1), request(2)]
    for each in sent:
        queue.submit(each)
    assert queue.take(0) == sent[:2]
    assert queue.take(0) == sent[2:]


@pytest.mark.parametrize("other", [{"width": 3}, {"dtype": np.int64}])
def test_requests_of_another_shape_or_type_are_answered_apart(other: dict[str, int]) -> None:
    queue, first, different, same = batcher(), request(), request(**other), request()  # type: ignore[arg-type]
    for each in (first, different, same):
        queue.submit(each)
    assert queue.take(0) == [first, same]
    assert queue.take(0) == [different]


@settings(deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=8))
def test_every_request_gets_its_own_rows_back(rows: list[int]) -> None:
    requests = [request(count, first=100.0 * index) for index, count in enumerate(rows)]
    parts = split([Tensor(name="y", array=join(requests)[0].array * 2)], requests)
    for sent, (part,) in zip(requests, parts, strict=True):
        assert (part.array == sent.inputs[0].array * 2).all()


def test_full_queue_refuses_with_a_time_to_come_back_and_keeps_what_it_has() -> None:
    queue = batcher(limit=2)
    sent = [request(), request()]
    for each in sent:
        queue.submit(each)
    with pytest.raises(TooBusy) as refused:
        queue.submit(request())
    assert refused.value.retry_after_s
    assert queue.take(0) == sent


def test_cancelled_requests_make_room_and_are_never_answered() -> None:
    queue, gone, stays = batcher(limit=1), request(), request()
    queue.submit(gone)
    gone.future.cancel()
    queue.submit(stays)
    assert queue.take(0) == [stays]


def test_request_past_its_deadline_fails_and_is_not_run() -> None:
    queue, late = batcher(), request(deadline_s=0)
    queue.submit(late)
    assert queue.take(0) == []
    with pytest.raises(DeadlinePassed):
        late.future.result(0)


def test_request_larger_than_a_call_is_refused_with_the_limit() -> None:
    with pytest.raises(InvalidInput, match="4"):
        batcher().submit(request(5))


def test_inputs_with_different_numbers_of_items_are_refused() -> None:
    with pytest.raises(InvalidInput, match="same number"):
        Request([Tensor(name="a", array=np.zeros((1, 2))), Tensor(name="b", array=np.zeros((2, 2)))], 1)


def test_single_client_never_waits_for_others() -> None:
    queue = batcher(max_wait_ms=10_000)
    began = time.monotonic()
    for _ in range(3):
        queue.submit(request())
        assert len(queue.take(5)) == 1
        queue.answered()
    assert time.monotonic() - began < 5


def test_worker_waits_for_as_many_as_came_during_the_call_before() -> None:
    queue = batcher(max_wait_ms=20_000)
    queue.submit(request())
    assert len(queue.take(0)) == 1
    for _ in range(2):
        queue.submit(request())
    queue.answered()
    late = threading.Timer(0.05, lambda: queue.submit(request()))
    late.start()
    assert len(queue.take(5)) == 3
    late.join()


def test_closed_queue_fails_what_waits_and_what_comes() -> None:
    queue, waiting = batcher(), request()
    queue.submit(waiting)
    queue.close(ServiceUnavailable("gone."))
    with pytest.raises(ServiceUnavailable):
        waiting.future.result(0)
    with pytest.raises(ServiceUnavailable):
        queue.submit(request())
