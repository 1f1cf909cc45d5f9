"""Claims beside evidence: whether what was seen agrees with what a document says, and where documents disagree.

Nothing is ever made of both: a claim keeps its words, the evidence its events, and this module says how they lie to each
other. A figure that was published is never refuted by another machine's; the ratio is said, and that the hardware differs.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from domain.compatibility.claims import LEVELS, WORKS, Claim
from domain.compatibility.states import FAR_FASTER, NOT_SLOWER, best_of, machine_bound, works

__all__ = ["VERDICTS", "beside", "opposed", "seen_of"]

Row = Mapping[str, Any]

VERDICTS = {
    "agrees": "what was seen is what the document says; a figure is within a factor of two",
    "contradicted": "what was seen is not what the document says",
    "other level": "it works, and by our rules at another level; the document does not say what its levels mean",
    "exceeded": "the document says that it was mocked, simulated, limited or partial; it runs here",
    "differs": "a figure is off by more than a factor of two; the published one names no hardware",
    "unobserved": "nobody tried it here, or not the same work",
}
APART = 2.0
"""Factor between two figures from which they differ: hardware of one class and year lies closer together."""

_SIZES = {
    "sequence_length": "tokens",
    "input_tokens": "tokens in",
    "output_tokens": "out",
    "image_size": "px",
    "audio_seconds": "s of audio",
    "frames": "frames",
}


def seen_of(claim: Claim, cells: Iterable[Row]) -> list[Row]:
    """Return the best cell of each model that a claim is about, of those judged cells that say something.

    A failure for want of memory, time or the platform says something of the machine alone, and refutes nothing.
    """
    models: dict[str, list[Row]] = {}
    for cell in cells:
        telling = works(cell["state"]) or (works(cell["state"]) is False and not machine_bound(cell))
        if cell["platform"] == claim.platform and telling and claim.target.holds(cell):
            models.setdefault(str(cell["model_id"]), []).append(cell)
    return [best_of(of_model) for of_model in models.values()]


def beside(claim: Claim, cells: Sequence[Row], rows: Iterable[Row]) -> dict[str, Any]:
    """Return what stands beside a claim: `verdict`, `how` in words, `evidence_ids`, and of figures ours and the ratio.

    `cells` are judged cells, `rows` best measurements; those of other models and platforms are passed over. Ours is the
    figure in fp32, or where that was not measured, the fastest: no document says which precision its figures are of.
    """
    if claim.says is not None:
        return {**_nothing(), **_support(claim.says, seen_of(claim, cells))}
    if claim.metric in ("speedup_low", "speedup_high"):
        return {**_nothing(), **_speedup(claim, seen_of(claim, cells))}
    mine = [
        (value, row)
        for row in rows
        if row["platform"] == claim.platform and claim.target.holds(row) and (value := _figure(claim, row)) is not None
    ]
    if not mine or not claim.value:
        return _nothing()
    value, row = min(
        mine, key=lambda item: (item[1]["precision"] != "fp32", item[1]["origin"] != "measured", -_speed(item[1]))
    )
    factor = value / claim.value
    sizes = [f"{row[name]:g} {word}" for name, word in _SIZES.items() if row[name] is not None]
    where = ", ".join((row["model_id"], row["hardware_id"], row["precision"] or "precision not said", *sizes))
    process = "; ours is the memory of the whole process" if claim.metric == "peak_memory_bytes" else ""
    return {
        **_nothing(),
        "verdict": "agrees" if 1 / APART <= factor <= APART else "differs",
        "ours": value,
        "ratio": factor,
        "how": f"ours is {factor:.3g} times theirs ({where}); different hardware{process}",
        "where": where,
        "hardware": row["hardware_id"],
        "evidence_ids": [row["event_id"]],
    }


def _nothing() -> dict[str, Any]:
    return {
        "verdict": "unobserved",
        "how": None,
        "ours": None,
        "ratio": None,
        "where": None,
        "hardware": None,
        "states": {},
        "evidence_ids": [],
    }


def _support(says: str, seen: Sequence[Row]) -> dict[str, Any]:
    if not seen:
        return {}
    working = [cell for cell in seen if works(cell["state"])]
    most = 2 * len(working) >= len(seen)
    share = f"{len(working)} of {len(seen)} models work here ({_named(working or seen)})"
    states: dict[str, int] = {}
    for cell in seen:
        states[cell["state"]] = states.get(cell["state"], 0) + 1
    document = {
        "states": states,
        "evidence_ids": [cell["evidence"] for cell in seen],
        "how": f"claimed {says}; {share}",
    }
    if says == "unsupported":
        return {**document, "verdict": "contradicted" if most else "agrees"}
    if not most:
        return {**document, "verdict": "contradicted" if says in WORKS or says in ("partial", "limited") else "agrees"}
    if says not in WORKS:
        return {**document, "verdict": "exceeded"}
    speeds = [cell["speedup"] for cell in working if cell.get("speedup") is not None]
    if says not in LEVELS or not speeds:
        return {**document, "verdict": "agrees"}
    speed = statistics.median(speeds)
    level = LEVELS[0] if speed >= FAR_FASTER else LEVELS[1] if speed >= NOT_SLOWER else LEVELS[2]
    how = f"claimed {says}; {share}, at {speed:.3g} times the CPU, which is {level}"
    return {**document, "how": how, "ratio": speed, "verdict": "agrees" if level == says else "other level"}


def _named(cells: Sequence[Row], most: int = 3) -> str:
    names = sorted(str(cell["model_id"]) for cell in cells)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _speedup(claim: Claim, seen: Sequence[Row]) -> dict[str, Any]:
    speeds = [cell["speedup"] for cell in seen if cell.get("speedup") is not None]
    if not speeds or not claim.value:
        return {}
    ours = statistics.median(speeds)
    below = ours < claim.value if claim.metric == "speedup_low" else False
    above = ours > claim.value if claim.metric == "speedup_high" else False
    evidence = [item for cell in seen for item in (cell.get("speedup_evidence") or ())]
    how = f"ours is {ours:.3g} times the CPU, the median of {len(speeds)} models; different hardware"
    return {
        "verdict": "differs" if below or above else "agrees",
        "ours": ours,
        "ratio": ours / claim.value,
        "how": how,
        "evidence_ids": evidence,
    }


def _figure(claim: Claim, row: Row) -> float | None:
    """Return our figure of the metric of a claim, where a row did the same kind of work."""
    batch, latency = row["batch_size"], row["latency_p50_ms"] or row["latency_mean_ms"]
    if row["mode"] != "inference" or any(row.get(name) not in (None, size) for name, size in claim.sizes.items()):
        return None
    generates = row["output_tokens"] is not None
    if claim.metric == "tokens_per_s":
        tokens_per_s = row["tokens_per_s"] if generates else None
    elif claim.metric == "realtime_factor" and row["family"] == "whisper":
        # Neither one forward pass nor a few tokens are a transcript: speech has about three tokens a second.
        whole = generates and row["output_tokens"] >= 2 * (row["audio_seconds"] or 0)
        tokens_per_s = row["realtime_factor"] if whole else None
    elif claim.metric == "latency_ms":
        tokens_per_s = latency if batch == claim.sizes.get("batch_size") else None
    elif batch != 1 or generates:
        tokens_per_s = None
    elif claim.metric == "item_ms":
        tokens_per_s = latency
    elif claim.metric == "frame_ms":
        tokens_per_s = latency / row["frames"] if latency and row["frames"] else None
    elif claim.metric == "realtime_factor":
        tokens_per_s = 1000 * row["audio_seconds"] / latency if latency and row["audio_seconds"] else None
    else:
        tokens_per_s = row.get(str(claim.metric))
    return None if tokens_per_s is None else float(tokens_per_s)


def _speed(row: Row) -> float:
    latency = row["latency_p50_ms"] or row["latency_mean_ms"]
    return float(row["batch_size"] / latency) if latency and row["batch_size"] else 0.0


def opposed(claims: Sequence[Claim]) -> dict[str, list[str]]:
    """Return, by claim, the others that say the opposite of the same: it works or not, or a figure over a tenth apart.

    Two claims are of the same where they name the same model, family or category in the same words of the vocabulary.
    """
    groups: dict[tuple[Any, ...], list[Claim]] = {}
    for claim in claims:
        for target in (*claim.target.models, *claim.target.families, *claim.target.categories):
            key = (target, claim.platform, claim.metric, tuple(sorted(claim.sizes.items())))
            groups.setdefault(key, []).append(claim)
    opposed: dict[str, dict[str, None]] = {}
    for members in groups.values():
        for member in members:
            for other in members:
                if member.id != other.id and _opposite(member, other):
                    opposed.setdefault(member.id, {})[other.id] = None
    return {name: list(others) for name, others in opposed.items()}


def _opposite(claim: Claim, other: Claim) -> bool:
    if claim.value is not None and other.value is not None:
        return max(claim.value, other.value) > 1.1 * min(claim.value, other.value)
    return ((claim.says in WORKS) and other.says in ("unsupported", "mocked")) or (
        (other.says in WORKS) and claim.says in ("unsupported", "mocked")
    )
