"""One model on one device, as a plan sees it: how much it serves when it is always busy, and the memory that it holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from domain.answers import RankedOption
from domain.errors import UsageError
from predictor.answering.constraints import SEEN
from predictor.fleet.question import Load

__all__ = ["ENDS", "Replica", "fastest_first", "rates_of", "replicas_of"]

ENDS = ("pessimistic", "expected", "optimistic")


class Replica(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A configuration of a load. `rates` are its throughput in the load's unit at the three `ENDS`.

    `memory_bytes` is what it holds of each of its `width` devices, None where that is not known.
    """

    load: int
    hardware: str
    width: int
    rates: tuple[float, float, float]
    memory_bytes: float | None
    memory_basis: str
    entry: RankedOption


def replicas_of(index: int, load: Load, entries: Iterable[RankedOption]) -> list[Replica]:
    """Return the entries of an answer as replicas of a load; those without throughput, or sureness of it, serve nothing."""
    replicas: list[Replica] = []
    for entry in entries:
        rates = rates_of(entry, load)
        if rates is not None and rates[0] > 0:
            memory, basis = _memory(entry)
            replicas.append(
                Replica(
                    load=index,
                    hardware=entry.hardware,
                    width=entry.hardware_count or 1,
                    rates=rates,
                    memory_bytes=memory,
                    memory_basis=basis,
                    entry=entry,
                )
            )
    return replicas


def rates_of(entry: RankedOption, load: Load) -> tuple[float, float, float] | None:
    """Return the throughput of an entry in a load's unit: at the pessimistic end of its interval, itself, the optimistic.

    A figure that somebody saw may have no interval, and the three are one; an estimate without one promises nothing: None.
    Raises UsageError where a load of tokens has items without tokens.
    """
    each = 1.0
    if load.unit == "tokens_per_s":
        rate, low, high = entry.tokens_per_s, entry.tokens_per_s_low, entry.tokens_per_s_high
        if rate and low and high:
            return float(low), float(rate), float(high)
        each = _tokens(entry, load)
    rate = entry.throughput_per_s
    latency, low, high = entry.latency_ms, entry.latency_ms_low, entry.latency_ms_high
    if not rate:
        return None
    rate = each * float(rate)
    if latency and low and high:
        return rate * min(1.0, latency / high), rate, rate * max(1.0, latency / low)
    return (rate, rate, rate) if entry.basis in SEEN else None


def _tokens(entry: RankedOption, load: Load) -> float:
    """Tokens of an item: those that it generates, where it generates some, else those that it reads."""
    tokens = entry.output_tokens or load.output_tokens or entry.sequence_length or load.sequence_length
    if not tokens:
        raise UsageError(
            "an item of this model has no tokens.",
            field="tokens_per_s",
            remedy="Give items_per_s, or say output_tokens or sequence_length.",
        )
    return float(tokens)


def _memory(entry: RankedOption) -> tuple[float | None, str]:
    """What is set aside for an entry, in bytes, and what that is."""
    peak, high = entry.peak_memory_bytes, entry.memory_high_bytes
    if high:
        return float(high), "high end of the interval"
    if peak:
        return float(peak), "measured peak" if entry.basis in SEEN else "predicted peak"
    return None, "not known"


def fastest_first(replicas: Sequence[Replica], end: int) -> list[Replica]:
    """Return those of one load on one device that no other beats in both rate and memory, the fastest first.

    One whose memory is not known can only be alone on its device, and stands for itself.
    """
    ranked = sorted(replicas, key=lambda entry: (-entry.rates[end], _bytes(entry), _named(entry)))
    best: list[Replica] = []
    for item in ranked:
        if not best or _bytes(item) < _bytes(best[-1]):
            best.append(item)
    return best


def _bytes(replica: Replica) -> float:
    return float("inf") if replica.memory_bytes is None else replica.memory_bytes


def _named(replica: Replica) -> tuple[str, str, int, str]:
    entry = replica.entry
    return (entry.platform, entry.precision, entry.batch_size or 0, entry.configuration)
