"""What may be compared with what, and the ratios that follow. Pure: rows in, rows out.

Two figures are compared only where model and workload agree in everything; each kind of comparison says below what else
must agree. What is left to differ (a version, a thread count, whose number it is) is named beside the ratio. Ratios of
several models are joined by the geometric mean, with how many there are and their range beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from domain.comparison.slower_precisions import without_quantization
from presentation.reports.content import Row
from presentation.reports.evidence import HOW, WORK, where_words, worst

__all__ = [
    "contests",
    "differing",
    "faster",
    "geometric",
    "memory_ratio",
    "option",
    "over_cpu",
    "over_fp32",
    "paired",
    "ratio",
    "rivals",
    "scaling",
    "speed",
    "training_over_inference",
    "winners",
    "work",
]

Pairs = list[dict[str, Any]]
_SHAPE = tuple(name for name in WORK if name not in ("mode", "scenario", "optimizer", "gradient_checkpointing"))
_MACHINE = ("model", "hardware", "hardware_count", "platform")
_SOFTWARE = ("runtime", "runtime_version", "compiled", "layout", "threads", "streams", "parallelism", "options")


def work(row: Row) -> tuple[Any, ...]:
    """Return the whole workload."""
    return tuple(row.get(name) for name in WORK)


def option(row: Row) -> tuple[Any, ...]:
    """Return what a buyer chooses: hardware, how many of it, platform and precision."""
    return tuple(row.get(name) for name in ("hardware", "hardware_count", "platform", "precision"))


def speed(row: Row) -> float:
    """Return items a second, or calls a second where nobody said how many items a call has; 0 where neither is known."""
    if row.get("throughput_per_s"):
        return float(row["throughput_per_s"])
    return 1000.0 / row["latency_ms"] if row.get("latency_ms") else 0.0


def ratio(row: Row, base: Row) -> dict[str, float | None]:
    """Return how many times the work of `base` a row does in the same time, as `factor`, `factor_low`, `factor_high`.

    The ratio of the latencies, or of the throughputs where one is unknown. The interval spans the ends of both sides'
    95 % intervals, and is missing where one side has none: it is wider than a 95 % interval of the ratio would be.
    """
    for name, inverse in (("latency_ms", True), ("throughput_per_s", False)):
        above, below = (base, row) if inverse else (row, base)
        if not (above.get(name) and below.get(name)):
            continue
        ends = [
            above.get(f"{name}_low"),
            above.get(f"{name}_high"),
            below.get(f"{name}_low"),
            below.get(f"{name}_high"),
        ]
        spread = all(ends)
        return {
            "factor": above[name] / below[name],
            "factor_low": ends[0] / ends[3] if spread else None,  # type: ignore[operator]
            "factor_high": ends[1] / ends[2] if spread else None,  # type: ignore[operator]
        }
    return {"factor": None, "factor_low": None, "factor_high": None}


def memory_ratio(row: Row, base: Row) -> float | None:
    """Return the peak memory of a row over that of another; None where one is unknown."""
    if row.get("peak_memory_bytes") and base.get("peak_memory_bytes"):
        return float(row["peak_memory_bytes"] / base["peak_memory_bytes"])
    return None


def differing(row: Row, base: Row, without: Sequence[str] = ()) -> str:
    """Name what differs between two rows in how the work was done and recorded: `threads 2 / 16`."""
    texts = [
        f"{words} {_word(row.get(name))} / {_word(base.get(name))}"
        for name, words in HOW.items()
        if name not in without and (row.get(name) or None) != (base.get(name) or None)
    ]
    return ", ".join(texts)


def _word(value: Any) -> str:
    return "not said" if value is None else "yes" if value is True else "no" if value is False else str(value)


def paired(row: Row, base: Row, without: Sequence[str] = ()) -> dict[str, Any]:
    """Return a row beside what it is compared with: the ratio, that of the memory, and what differs."""
    return {
        **row,
        **worst([row, base]),
        **ratio(row, base),
        "memory_ratio": memory_ratio(row, base),
        "differs": differing(row, base, without) or None,
        "baseline": where_words(base),
        "baseline_hardware": base["hardware"],
        "baseline_platform": base.get("platform"),
        "baseline_precision": base.get("precision"),
        "baseline_latency_ms": base.get("latency_ms"),
        "baseline_throughput_per_s": base.get("throughput_per_s"),
        "baseline_peak_memory_bytes": base.get("peak_memory_bytes"),
    }


def geometric(ratios: Iterable[float | None]) -> dict[str, Any]:
    """Join ratios: their geometric mean as `factor`, their range as `smallest` and `largest`, and `pairs`, how many."""
    matching_ratios = [ratio for ratio in ratios if ratio]
    if not matching_ratios:
        return {"factor": None, "smallest": None, "largest": None, "pairs": 0}
    mean = math.exp(math.fsum(map(math.log, matching_ratios)) / len(matching_ratios))
    return {
        "factor": mean,
        "smallest": min(matching_ratios),
        "largest": max(matching_ratios),
        "pairs": len(matching_ratios),
    }


def faster(rows: Iterable[Row]) -> Row:
    """Return the fastest of some rows; of equal ones the earliest in the log."""
    return min(rows, key=lambda row: (-speed(row), row.get("position") or 0))


def over_cpu(rows: Sequence[Row]) -> Pairs:
    """Compare with the plain CPU: platform `cpu`, not compiled, the same model, workload and precision.

    The baseline is that of the same hardware; where there is none, the fastest of any hardware, so that nothing is
    flattered. `own_cpu` says which of the two it is. Rows without a baseline are left out.
    """
    plain: dict[Any, list[Row]] = {}
    for row in rows:
        if row.get("platform") == "cpu" and not row.get("compiled") and speed(row):
            plain.setdefault((row["model"], work(row), row.get("precision")), []).append(row)
    result = []
    for row in rows:
        existing = plain.get((row["model"], work(row), row.get("precision")), [])
        if not existing or not speed(row) or (row.get("platform") == "cpu" and not row.get("compiled")):
            continue
        own = [item for item in existing if item["hardware"] == row["hardware"]]
        base = faster(own or existing)
        hidden = ("runtime", "runtime_version") if row.get("platform") != "cpu" else ()
        result.append({**paired(row, base, hidden), "own_cpu": bool(own)})
    return sorted(result, key=lambda pair: -(pair["factor"] or 0))


def over_fp32(rows: Sequence[Row]) -> Pairs:
    """Compare narrower types with fp32: the same model, workload, hardware, platform and software in every setting.

    Options that say how weights were quantised are no setting of the software: they follow from the precision.
    """
    keys = (*_MACHINE, *WORK, *_SOFTWARE[:-1], "plain_options")
    plain = [{**row, "plain_options": repr(sorted(without_quantization(row.get("options")).items()))} for row in rows]
    pairs = _against(plain, lambda row: row.get("precision") == "fp32", keys, without=("options",))
    return [{name: value for name, value in pair.items() if name != "plain_options"} for pair in pairs]


def training_over_inference(rows: Sequence[Row]) -> Pairs:
    """Compare a training step with an inference call: the same model, sizes, hardware, platform, precision, software.

    `factor` is how many inference calls one step takes: the latency of training over that of inference.
    """
    keys = (*_MACHINE, "precision", *_SHAPE, *_SOFTWARE)
    matching_rows = [row for row in rows if row.get("mode") in ("inference", "training")]
    result = []
    for pair in _against(matching_rows, lambda row: row["mode"] == "inference", keys):
        turned = {
            "factor": _inverse(pair["factor"]),
            "factor_low": _inverse(pair["factor_high"]),
            "factor_high": _inverse(pair["factor_low"]),
        }
        result.append({**pair, **turned})
    return sorted(result, key=lambda pair: -(pair["factor"] or 0))


def _inverse(value: float | None) -> float | None:
    return 1 / value if value else None


def _against(
    rows: Sequence[Row], is_base: Callable[[Row], bool], keys: Sequence[str], without: Sequence[str] = ()
) -> Pairs:
    """Pair each other row with the fastest base that agrees with it in `keys`."""
    bases: dict[Any, list[Row]] = {}
    for row in rows:
        if is_base(row) and speed(row):
            bases.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    pairs = []
    for row in rows:
        base = bases.get(tuple(row.get(key) for key in keys))
        if base and not is_base(row) and speed(row):
            pairs.append(paired(row, faster(base), without))
    return sorted(pairs, key=lambda pair: -(pair["factor"] or 0))


def scaling(rows: Sequence[Row]) -> Pairs:
    """Follow one configuration over its batch sizes, all else alike: one row a series, from the smallest to the largest.

    `gain` is throughput at the largest over that at the smallest; `efficiency` is the gain over how many times larger the
    batch is: 1 where twice the batch does twice the items in a second. `points` holds the rows by batch.
    """
    keys = (*_MACHINE, "precision", *(name for name in WORK if name != "batch_size"), *_SOFTWARE)
    series: dict[Any, dict[int, Row]] = {}
    for row in rows:
        if row.get("batch_size") and row.get("throughput_per_s"):
            kept = series.setdefault(tuple(row.get(key) for key in keys), {})
            existing = kept.get(row["batch_size"])
            kept[row["batch_size"]] = row if existing is None else faster([existing, row])
    result = []
    for by_batch in series.values():
        if len(by_batch) < 2:
            continue
        points = [by_batch[size] for size in sorted(by_batch)]
        first, last = points[0], points[-1]
        gain = last["throughput_per_s"] / first["throughput_per_s"]
        result.append(
            {
                **last,
                **worst([first, last]),
                "batch_from": first["batch_size"],
                "batch_to": last["batch_size"],
                "throughput_from_per_s": first["throughput_per_s"],
                "throughput_to_per_s": last["throughput_per_s"],
                "gain": gain,
                "efficiency": gain / (last["batch_size"] / first["batch_size"]),
                "memory_ratio": memory_ratio(last, first),
                "best_batch": faster(points)["batch_size"],
                "points": points,
            }
        )
    return sorted(result, key=lambda item: (str(item.get("family")), item["model"], -item["efficiency"]))


def contests(rows: Sequence[Row]) -> list[list[Row]]:
    """Return, for each model and workload that ran in several ways, the fastest row of each way, fastest first.

    A way is hardware × platform × precision; versions, threads and compilation are what a way may choose.
    """
    ways: dict[Any, dict[Any, list[Row]]] = {}
    for row in rows:
        if speed(row):
            ways.setdefault((row["model"], work(row)), {}).setdefault(option(row), []).append(row)
    return [
        sorted((faster(option) for option in options.values()), key=lambda row: (-speed(row), option_words(row)))
        for options in ways.values()
        if len(options) > 1
    ]


def option_words(row: Row) -> str:
    """Name an option for ordering."""
    return "\x00".join(str(part) for part in option(row))


def winners(rows: Sequence[Sequence[Row]]) -> list[tuple[Row, int]]:
    """Return a row of each option that was the fastest of a contest, and of how many, most first."""
    counts: dict[Any, list[Row]] = {}
    for contest in rows:
        counts.setdefault(option(contest[0]), []).append(contest[0])
    ordered = sorted(counts.values(), key=lambda won: (-len(won), option_words(won[0])))
    return [(won[0], len(won)) for won in ordered]


def rivals(rows: Sequence[Row]) -> Pairs:
    """Compare hardware with hardware: the same model, workload and precision, each side on its fastest platform.

    One row a pair, the faster one first: geometric mean, range and number of the ratios, and in how many it was faster.
    """
    sides: dict[Any, dict[tuple[Any, Any], list[Row]]] = {}
    for row in rows:
        if speed(row):
            cell = sides.setdefault((row["model"], work(row), row.get("precision")), {})
            cell.setdefault((row["hardware"], row.get("hardware_count")), []).append(row)
    met: dict[tuple[Any, Any], list[tuple[Row, Row]]] = {}
    for cell in sides.values():
        best = {name: faster(value) for name, value in cell.items()}
        names = sorted(best, key=str)
        for place, item in enumerate(names):
            for other in names[place + 1 :]:
                met.setdefault((item, other), []).append((best[item], best[other]))
    return sorted((_rivalry(pairs) for pairs in met.values()), key=lambda pair: (-pair["pairs"], -pair["factor"]))


def _rivalry(pairs: Sequence[tuple[Row, Row]]) -> dict[str, Any]:
    joined = geometric(ratio(value, other)["factor"] for value, other in pairs)
    if joined["factor"] is not None and joined["factor"] < 1:
        pairs = [(other, value) for value, other in pairs]
        joined = geometric(ratio(value, other)["factor"] for value, other in pairs)
    first, second = pairs[0]
    ratios = [ratio(value, other)["factor"] or 0 for value, other in pairs]
    platforms = {value.get("platform") for value, _ in pairs}
    return {
        **worst([row for pair in pairs for row in pair]),
        **joined,
        "factor": joined["factor"] or 0.0,
        "hardware": first["hardware"],
        "hardware_count": first.get("hardware_count"),
        "platform": platforms.pop() if len(platforms) == 1 else None,
        "other": second["hardware"],
        "models": len({value["model"] for value, _ in pairs}),
        "faster_in": sum(ratio > 1 for ratio in ratios),
    }
