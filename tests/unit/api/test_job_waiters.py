"""Claims that wait for a job: who is woken, and that nothing which woke somebody is lost."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from api.jobs.claims import Waiters
from api.jobs.queue import Places

ALL = frozenset({"cuda", "cpu"})


def places(*queues: str) -> Places:
    return Places(dict.fromkeys(queues, ("0", "acme-one")), ALL)


@pytest.fixture
def waiters():
    return Waiters()


@pytest.fixture
def join(waiters):
    """Lets a claim join that waits for jobs of some queues; its second result ends it."""
    with ExitStack() as stack:

        def join(*queues: str):
            own = stack.enter_context(ExitStack())
            waiter = own.enter_context(waiters.waiting())
            waiter.begin()
            waiter.places, waiter.trying = places(*queues), set()
            return waiter, own.close

        yield join


def woken(*pairs):
    return [waiter.event.is_set() for waiter, _ in pairs]


def test_a_job_wakes_one_claim_that_may_take_it_the_oldest(waiters, join):
    claims = [join("cuda"), join("cpu"), join("cpu")]
    waiters.wake("cpu")
    assert woken(*claims) == [False, True, False]


def test_who_gets_a_job_wakes_the_next_and_who_gets_none_does_not(waiters, join):
    first, second, third = claims = [join("cpu"), join("cpu"), join("cpu")]
    waiters.wake("cpu")
    first[0].begin()
    first[1]()  # It has a job, and where one was there may be another.
    assert woken(*claims[1:]) == [True, False]
    second[0].begin()
    second[0].trying = set()  # There was none.
    second[1]()
    assert woken(third) == [False]


def test_a_claim_whose_asker_leaves_passes_on_what_woke_it(waiters, join):
    first, second = join("cpu"), join("cpu", "cuda")
    waiters.wake("cpu")
    first[1]()
    assert woken(second) == [True]


def test_a_job_that_comes_during_a_try_wakes_again(waiters, join):
    (waiter, _) = only = join("cpu")
    waiters.wake("cpu")
    waiter.begin()
    waiters.wake("cpu")
    waiter.trying = set()
    assert woken(only) == [True] and waiter.woken == {"cpu"}


def test_a_queue_that_a_claim_does_not_know_wakes_it(waiters, join):
    claims = [join("cpu")]
    waiters.wake("new")
    assert woken(*claims) == [True]


def test_a_service_that_stops_wakes_all(waiters, join):
    claims = [join("cpu"), join("cuda")]
    waiters.close()
    assert woken(*claims) == [True, True] and waiters.closed
