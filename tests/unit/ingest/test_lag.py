"""How far the tables are behind the log, asked by several at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from ingest.projection.lag import LagAsker


class SlowLog:
    """A log of 200 events that answers when it is let."""

    connected = False

    def __init__(self):
        self.asked = threading.Event()
        self.let = threading.Event()

    def lag(self, position):
        self.asked.set()
        assert self.let.wait(30)
        return 200, 200 - position, 0.0


def test_a_question_about_an_earlier_position_answers_none_about_a_later_one():
    log = SlowLog()
    asker = LagAsker(log, timeout_s=30)
    with ThreadPoolExecutor(2) as pool:
        early = pool.submit(asker.ask, 0)
        assert log.asked.wait(30)
        late = pool.submit(asker.ask, 200)
        log.let.set()
        assert early.result(30) == (200, 200, 0.0)
        assert late.result(30) == (200, 0, 0.0)
