"""What is known of a cell of the compatibility matrix, said in one word, and how good that is, said in another.

A cell is a model on a platform in a precision; rows are those of the view `cells`. Nothing here is claimed by a document,
and nothing is predicted: a state is what was seen. The rules stand in `RULES`, as the API and the documentation give them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from domain.vocabulary import PLATFORMS

__all__ = [
    "FAR_FASTER",
    "FELL_BACK",
    "LEVELS",
    "NOTHING_SEEN",
    "NOT_SLOWER",
    "RULES",
    "STALE_DAYS",
    "STATES",
    "best_of",
    "grouped",
    "judged",
    "level_of",
    "machine_bound",
    "not_tried",
    "place",
    "state_of",
    "works",
]

Row = Mapping[str, Any]

STATES = {
    "verified": "it ran, and the newest test that compared its outputs found them right",
    "ran": "it ran; no test compared its outputs, or the newest ended before it could",
    "fell back": "it ran, but another device or precision did more than a tenth of the work",
    "wrong": "it ran, and the newest test that compared its outputs found them wrong",
    "out of memory": "it was tried, and memory ran out",
    "timeout": "it was tried, and did not end in its time",
    "error": "it was tried, and failed",
    "unsupported": "the platform, its runtime or the memory of the machine cannot do it",
    "unavailable": "the platform was not on the machine where it was tried; nothing is known of it",
    "skipped": "it was planned and left out; nothing is known of it",
    "claimed": "a document says so; nobody tried it here",
    "no evidence": "nobody tried it, and nothing is claimed",
}
"""Every state with its meaning, the best first."""
LEVELS = ("high", "medium", "low")
FAR_FASTER = 2.0
"""Speed over the plain CPU from which a platform is worth a move: below it, threads, compilation or a newer runtime may
gain as much on the CPU itself."""
NOT_SLOWER = 0.9
"""Speed over the plain CPU below which a platform is slower: within a tenth is what runs of one configuration differ by,
and where `assay regressions` begins to speak."""
FELL_BACK = 0.1
"""Share of the work done elsewhere from which the platform did not do it; the tolerance of verification."""
STALE_DAYS = 180
"""Age in days from which evidence is stale: two quarterly releases of torch or OpenVINO lie in between."""
RULES = {
    "high": f"verified, and at least {FAR_FASTER:g} times as fast as the plain CPU; on the CPU itself: verified",
    "medium": f"verified, and between {NOT_SLOWER:g} and {FAR_FASTER:g} times as fast or the speed not compared; or not verified "
    f"and at least {FAR_FASTER:g} times as fast, or on the CPU itself",
    "low": f"slower than {NOT_SLOWER:g} times the plain CPU; or outputs wrong, or more than {FELL_BACK:.0%} of the work fell back; "
    f"or not verified and not {FAR_FASTER:g} times as fast",
    "none": "it did not run, or nobody tried it",
    "speed": "the median, over the workloads that both did, of items a second over those of the plain CPU (not compiled, its best "
    "precision) of the same hardware, or where that has none, of any",
    "stale": f"last tried more than {STALE_DAYS} days before the position of the answer",
    "family": "of its models, the level and the state that at least half of those tried reach",
}
"""How a level follows from a state and a speed, in words."""

NOTHING_SEEN = ("unavailable", "skipped", "claimed", "no evidence")
"""States that say nothing of what works."""
_ABSENT = "PlatformUnavailable"
_ORDER = {state: index for index, state in enumerate(STATES)}
_STATE_OF = {"out_of_memory": "out of memory", "timeout": "timeout", "unsupported": "unsupported"}
_SCRIPT = ("SyntaxError", "IndentationError", "NameError", "ImportError", "ModuleNotFoundError", "AttributeError")
"""Errors of the script that tried it, before it reached the platform."""
_MACHINE = frozenset(
    (
        *_SCRIPT,
        _ABSENT,
        "PartMissing",
        "not-enough-memory",
        "NotEnoughMemory",
        "MemoryLimit",
        "KilledForMemory",
        "LargerThanMemory",
        "Timeout",
        "Interrupted",
        "CheckpointUnavailable",
    )
)
"""Errors that tell of the machine, its packages, the script that tried it or the time it had, and nothing of what the
platform can do."""


def state_of(cell: Row) -> str:
    """Return the state of a row of the view `cells`."""
    if cell["verified"] is True:
        return "verified"
    if cell["ran"] or cell["measured"]:
        if cell["verified"] is False:
            return "wrong"
        return "fell back" if (cell.get("fallback_share") or 0) > FELL_BACK else "ran"
    if cell.get("stopped_error") == "Fallback":
        return "fell back"
    if cell.get("stopped_outcome") is None:
        return "skipped" if cell["built"] is None else "claimed" if cell.get("outcome") == "passed" else "error"
    if cell.get("stopped_error") == _ABSENT:
        return "unavailable"
    return _STATE_OF.get(cell["stopped_outcome"], "error")


def works(state: str) -> bool | None:
    """Whether a state says that the model works there; None where it says nothing."""
    return None if state in NOTHING_SEEN else state in ("verified", "ran")


def not_tried(error: str | None) -> bool:
    """Whether an error says that nothing was tried: the platform was not there, or the script was broken."""
    return error == _ABSENT or error in _SCRIPT


def level_of(state: str, platform: str | None, speedup: float | None) -> str | None:
    """Return high, medium or low by `RULES`; None where it did not run."""
    if state in ("wrong", "fell back"):
        return "low"
    if state not in ("verified", "ran"):
        return None
    if platform == "cpu" or (speedup is not None and speedup >= FAR_FASTER):
        reached = 0
    elif speedup is None or speedup >= NOT_SLOWER:
        reached = 1
    else:
        reached = 2
    return LEVELS[min(reached + (state != "verified"), 2)]


def machine_bound(cell: Row) -> bool:
    """Whether what stopped it tells of the machine alone: another machine may do it, so no claim is refuted by it."""
    return cell.get("stopped_error") in _MACHINE or cell.get("stopped_outcome") in ("out_of_memory", "timeout")


def judged(cell: Row, now: datetime | None) -> dict[str, Any]:
    """Return the row with `state`, `level`, `age_days` at `now` (the time recorded at the position) and `stale`.

    What stopped it is left out where it works now.
    """
    state = state_of(cell)
    seen = cell.get("last_seen")
    age = max((now - seen).days, 0) if now is not None and seen is not None else None
    quiet = dict.fromkeys((name for name in cell if name.startswith("stopped_")), None) if works(state) else {}
    return {
        **cell,
        **quiet,
        "state": state,
        "level": level_of(state, cell["platform"], cell.get("speedup")),
        "age_days": age,
        "stale": None if age is None else age > STALE_DAYS,
    }


def place(platform: str | None) -> tuple[int, str]:
    """Return the place of a platform in the order of the vocabulary; what it does not list comes last."""
    return PLATFORMS.index(platform) if platform in PLATFORMS else len(PLATFORMS), str(platform)


def best_of(cells: Sequence[Row]) -> Row:
    """Return the cell that says the most for a model on a platform: by level, then state, then speed, then precision."""

    def rank(cell: Row) -> tuple[Any, ...]:
        level = LEVELS.index(cell["level"]) if cell["level"] else len(LEVELS)
        return level, _ORDER[cell["state"]], -(cell.get("speedup") or 0), str(cell.get("precision"))

    return min(cells, key=rank)


def grouped(cells: Iterable[Row], by: str) -> list[dict[str, Any]]:
    """Return one row a `family` or `category` and platform from judged cells, by category, name and platform.

    A model counts once, by the best of its precisions; one of which nothing was seen does not count. `state` and `level` are
    what at least half of the models reach, `tries` the runs of each cell put together, `states` how many models are in each, `stopped` what stopped most of the others.
    """
    groups: dict[tuple[Any, ...], dict[str, list[Row]]] = {}
    for cell in cells:
        if cell["state"] in NOTHING_SEEN:
            continue
        name = (cell["category"], cell["family"]) if by == "family" else (cell["category"],)
        groups.setdefault((*name, cell["platform"]), {}).setdefault(str(cell["model_id"]), []).append(cell)
    result = [
        _group(key, [best_of(of_model) for of_model in models.values()], list(models.values()))
        for key, models in groups.items()
    ]
    return sorted(result, key=lambda row: (str(row["category"]), str(row["family"]), place(row["platform"])))


def _group(key: tuple[Any, ...], best: list[Row], cells: list[list[Row]]) -> dict[str, Any]:
    states = Counter(str(cell["state"]) for cell in best)
    half = (len(best) - 1) // 2
    levels = sorted((cell["level"] for cell in best), key=lambda level: LEVELS.index(level) if level else len(LEVELS))
    stopped = Counter(_why(cell) for cell in best if not works(cell["state"]))
    speeds = sorted(cell["speedup"] for cell in best if cell.get("speedup") is not None)
    newest = max(best, key=lambda cell: (str(cell["last_seen"] or ""), cell["position"]))
    return {
        "category": key[0],
        "family": key[1] if len(key) == 3 else None,
        "platform": key[-1],
        "state": sorted((str(cell["state"]) for cell in best), key=_ORDER.__getitem__)[half],
        "level": levels[half],
        "models": len(best),
        "states": {state: states[state] for state in STATES if states[state]},
        "working": sum(works(cell["state"]) is True for cell in best),
        "speedup": speeds[(len(speeds) - 1) // 2] if speeds else None,
        "speedup_best": max((cell["speedup_best"] for cell in best if cell.get("speedup_best")), default=None),
        "stopped": stopped.most_common(1)[0][0] if stopped else None,
        "precisions": sorted(
            {str(item["precision"]) for of_model in cells for item in of_model if works(item["state"])}
        ),
        "tries": sum(cell["runs"] or 0 for of_model in cells for cell in of_model),
        "last_seen": newest["last_seen"],
        "age_days": newest["age_days"],
        "stale": newest["stale"],
        "evidence_ids": [cell["evidence"] for cell in best if cell.get("evidence")],
        "position": max(cell["position"] for cell in best),
    }


def _why(cell: Row) -> str:
    parts = (cell["state"], cell.get("stopped_stage"), cell.get("stopped_error"))
    return f"{parts[0]} at {parts[1]}: {parts[2]}" if parts[1] else str(parts[0])
