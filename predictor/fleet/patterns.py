"""What can stand together on one device: replicas of different loads whose memory fits side by side."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import msgspec

from predictor.fleet.replicas import Replica, fastest_first

__all__ = ["Pattern", "patterns_of"]

COMBINATIONS = 20_000
"""Of more ways to combine replicas on one device, those between the fastest and the smallest are left out; of nine loads
those two can be combined in as many ways."""
CONSIDERED = 40
"""So many ways to share a device are weighed; where there are more, those with the most and the fastest loads."""


class Pattern(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Replicas that share one device, or one alone on `width` devices."""

    hardware: str
    replicas: tuple[Replica, ...]
    width: int = 1

    @property
    def memory_bytes(self) -> float:
        """What its replicas hold of a device together, in bytes; 0 where it is not known."""
        return sum(replica.memory_bytes or 0.0 for replica in self.replicas)


def patterns_of(
    replicas: Sequence[Replica], room_bytes: Mapping[str, float | None], end: int, *, together: bool = True
) -> list[Pattern]:
    """Return the patterns worth considering on every device: each load alone, and those together that cannot be bettered.

    To those nothing can be added, and none of them be made faster, in the memory that there is. `room_bytes` is the memory
    that may be used on a device; where it is not known, or a replica's need is not, or `together` is false, a replica has
    the device for itself.
    """
    patterns: list[Pattern] = []
    for hardware in sorted({replica.hardware for replica in replicas}):
        room = room_bytes.get(hardware)
        here = [replica for replica in replicas if replica.hardware == hardware and _fits(replica, room)]
        for load in sorted({item.load for item in here}):
            for width in sorted({item.width for item in here if item.load == load}):
                ranked = fastest_first([item for item in here if (item.load, item.width) == (load, width)], end)
                patterns.append(Pattern(hardware=hardware, replicas=(ranked[0],), width=width))
        if room is not None and together:
            patterns += _shared(hardware, here, room, end)
    return patterns


def _fits(replica: Replica, room: float | None) -> bool:
    return room is None or replica.memory_bytes is None or replica.memory_bytes <= room


def _shared(hardware: str, here: Sequence[Replica], room: float, end: int) -> list[Pattern]:
    choices: list[list[Replica]] = []
    for load in sorted({item.load for item in here}):
        fits = [item for item in here if item.load == load and item.width == 1 and item.memory_bytes is not None]
        if fits:
            choices.append(fastest_first(fits, end))
    choices = _thinned(choices)
    ranked: list[tuple[float, int, Pattern]] = []
    for chosen in itertools.product(*(range(len(choice) + 1) for choice in choices)):
        replicas = [choices[place][index] for place, index in enumerate(chosen) if index < len(choices[place])]
        left = room - sum(replica.memory_bytes or 0.0 for replica in replicas)
        if replicas and left >= 0 and not _improvable(chosen, choices, left):
            value = sum(
                choices[place][index].rates[end] / choices[place][0].rates[end]
                for place, index in enumerate(chosen)
                if index < len(choices[place])
            )
            ranked.append((-value, len(ranked), Pattern(hardware=hardware, replicas=tuple(replicas))))
    return [pattern for *_, pattern in sorted(ranked, key=lambda item: item[:2])[:CONSIDERED]]


def _thinned(choices: list[list[Replica]]) -> list[list[Replica]]:
    """Keep the fastest and the smallest, and of those between as many as can be combined."""
    kept = max((len(choice) for choice in choices), default=0)
    while kept > 2 and _combinations(choices, kept) > COMBINATIONS:
        kept -= 1
    return [choice if len(choice) <= kept else [*choice[: kept - 1], choice[-1]] for choice in choices]


def _combinations(choices: Sequence[Sequence[Replica]], kept: int) -> int:
    total = 1
    for choice in choices:
        total *= min(len(choice), kept) + 1
    return total


def _improvable(chosen: Sequence[int], choices: Sequence[Sequence[Replica]], left: float) -> bool:
    """Whether one load could be faster, or be there at all, in the memory that is left.

    If several steps together improve a pattern, each of them alone does: a faster replica never needs less memory.
    """
    for place, index in enumerate(chosen):
        if index == 0:
            continue
        held = (choices[place][index].memory_bytes or 0.0) if index < len(choices[place]) else 0.0
        if (choices[place][index - 1].memory_bytes or 0.0) - held <= left:
            return True
    return False
