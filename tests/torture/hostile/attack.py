"""Plays the cases against a service and judges: what each got, and in what state the service and its log are then."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msgspec
import psutil

from domain.errors import AssayError
from domain.events import decode_event
from tests.torture.hostile import bodies, injection, wire
from tests.torture.hostile.case import ANSWER_S, Case, Outcome, play
from tests.torture.processes import Served

__all__ = ["MEMORY_BYTES", "Attack", "cases", "sample", "table"]

AT_ONCE = 8
MEMORY_BYTES = 1_200_000_000
"""More than this the service itself may never take; the children that run users' SQL have a limit of their own."""


def cases(schema: dict[str, Any]) -> list[Case]:
    """Return every hostile input there is for a service with this OpenAPI schema."""
    families = [*bodies.FAMILIES, *wire.FAMILIES, *injection.families(schema)]
    return [case for family in families for case in family()]


def sample(chosen: Sequence[Case], most: int) -> list[Case]:
    """Return about `most` of the cases, evenly from every family."""
    found: list[Case] = []
    counts = Counter(case.family for case in chosen)
    for family, count in counts.items():
        own = [case for case in chosen if case.family == family]
        step = max(1, count // max(3, count * most // len(chosen)))
        found += own[::step]
    return found


class Attack(msgspec.Struct, kw_only=True):
    """What was played and what came of it; `wrong` is empty where all is as it must be."""

    played: list[tuple[Case, Outcome]]
    wrong: list[str]
    peak_bytes: int
    kept: int

    @classmethod
    def on(cls, served: Served, chosen: Iterable[Case]) -> Attack:
        """Play the cases, a few at a time, then look at the service and into its log."""
        chosen = list(chosen)
        with _Memory(served) as memory, ThreadPoolExecutor(AT_ONCE) as pool:
            outcomes = list(pool.map(lambda case: _patiently(case, served.port), chosen))
        played = list(zip(chosen, outcomes, strict=True))
        wrong = [f"{case.family}: {case.name}: {said}" for case, outcome in played if (said := _wrong(case, outcome))]
        if memory.peak_bytes > MEMORY_BYTES:
            wrong.append(f"{memory.peak_bytes:,} bytes of memory were taken")
        if served.health()[0] != 200:
            wrong.append(f"not ready afterwards: {served.health()}")
        kept, bad = _log(served, played)
        return cls(played=played, wrong=wrong + bad, peak_bytes=memory.peak_bytes, kept=kept)


def _patiently(case: Case, port: int) -> Outcome:
    """Play a case, and again for as long as others are in its way: it is itself that has to be judged."""
    until = time.monotonic() + ANSWER_S
    while (outcome := play(case, port)).status == 429 and time.monotonic() < until:
        time.sleep(0.2)
    return outcome


def _wrong(case: Case, outcome: Outcome) -> str | None:
    if outcome.status == -1:
        return f"no answer within {outcome.took_s:.0f} s"
    if outcome.status == 0 and not case.closes:
        return "closed without an answer"
    if outcome.status >= 500 and not _documented(outcome):
        return f"answered {outcome.status}: {outcome.more[:200]!r}"
    if outcome.status in case.forbidden:
        return f"must not be answered with {outcome.status}: {outcome.more[:200]!r}"
    return None


def _documented(outcome: Outcome) -> bool:
    """Whether a refusal says when to come back."""
    return outcome.status == 503 and b"retry-after:" in outcome.head.lower()


def _as_sent(line: bytes) -> bytes:
    """Return an event of the log without what the log adds: position and time of recording first, attestation last."""
    return b"{" + line.split(b'",', 1)[1].rpartition(b',"attestation":"')[0] + b"}"


def _log(served: Served, played: Sequence[tuple[Case, Outcome]]) -> tuple[int, list[str]]:
    """Read the log back: every event passes the gate, none was smuggled in, and what was sent comes back unchanged."""
    wrong: list[str] = []
    stored: dict[str, bytes] = {}
    after, limit = 0, 1000
    with httpx.Client(base_url=served.url, trust_env=False, timeout=60) as client:
        while True:
            answer = client.get(
                "/v1/events", params={"after": after, "limit": limit}, headers={"Accept": "application/x-ndjson"}
            )
            if answer.status_code != 200:
                wrong.append(f"the log cannot be read after position {after}: {answer.text[:300]}")
                break
            lines = answer.content.split(b"\n")
            for line in filter(None, lines):
                head = msgspec.json.decode(line, type=dict[str, Any])
                after = head["position"]
                raw = _as_sent(line)
                stored[head["id"]] = raw
                try:
                    decode_event(raw)
                except AssayError as error:
                    wrong.append(f"position {after} would not pass the gate: {error}")
                if head["source"] == wire.SMUGGLED:
                    wrong.append(f"position {after} was smuggled in by {head['subject']}")
            if len(lines) <= limit:
                break
    for case, outcome in played:
        if case.event is not None and outcome.status == 200:
            identifier = msgspec.json.decode(case.event, type=dict[str, Any])["id"]
            if stored.get(identifier) != case.event:
                wrong.append(f"{case.family}: {case.name}: came back changed")
    return len(stored), wrong


class _Memory:
    """Watches what the service takes, every 20 ms."""

    def __init__(self, served: Served) -> None:
        self.peak_bytes = 0
        self._served = served
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        assert self._served.process is not None
        own = psutil.Process(self._served.process.pid)
        while not self._stop.wait(0.02):
            self.peak_bytes = max(self.peak_bytes, own.memory_info().rss)


def table(attack: Attack) -> str:
    """Return what each family got, as Markdown."""
    counts: dict[str, Counter[str]] = {}
    for case, outcome in attack.played:
        got = {0: "closed", -1: "none"}.get(outcome.status, str(outcome.status))
        counts.setdefault(case.family, Counter())[got] += 1
    lines = ["| family | inputs | what they got |", "| --- | ---: | --- |"]
    for family, found in counts.items():
        got = ", ".join(f"{status} × {count}" for status, count in sorted(found.items()))
        lines.append(f"| {family} | {found.total():,} | {got} |")
    lines.append(f"| all | {len(attack.played):,} | |")
    return "\n".join(lines)
