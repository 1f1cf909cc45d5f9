"""What the log says about a model: its measured and imported configurations, as options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from domain.answers import Sizes
from domain.configuration import browser_of
from domain.measured import STATED
from domain.verdicts import ENERGY
from ingest.sharing.trust import UNSIGNED
from predictor.answering.option import SIZE_NAMES, Option

__all__ = ["COLUMNS", "OF_SIGNERS", "chosen_sizes", "options_from_rows"]

Record = Mapping[str, Any]
COLUMNS = (
    "position",
    "event_id",
    "source",
    "time",
    "configuration",
    "hardware_id",
    "hardware_count",
    "platform",
    "platform_asked",
    "precision",
    "batch_size",
    "scenario",
    "concurrency",
    "arrival_rate_per_s",
    "device",
    "runtime_name",
    "runtime_version",
    "options",
    "compiled",
    "layout",
    "streams",
    "latency_mean_ms",
    "latency_p50_ms",
    "latency_p90_ms",
    "latency_p95_ms",
    "latency_p99_ms",
    "latency_n",
    "latency_p50_ci95_low_ms",
    "latency_p50_ci95_high_ms",
    "throughput_per_s",
    "tokens_per_s",
    "ttft_ms",
    "tpot_ms",
    "peak_memory_bytes",
    "device_memory_bytes",
    "kv_cache_bytes",
    "energy_j",
    "power_w",
    "energy_verdict",
    "metric_verdicts",
    "verdict",
    "verdict_reasons",
    "origin",
    "provenance_source",
    *SIZE_NAMES,
)
"""Columns of the view `measurements` that evidence is read from."""
_SIZES = itemgetter(*SIZE_NAMES)
OF_SIGNERS = ("trust", "signer")
"""Members of rows that came in signed bundles, beside the columns: the rank of their signer, and who it is."""
_TAKEN = "taken"
"""Where a row has the names of the sizes that it does not say."""


def chosen_sizes(rows: Sequence[Record], request: Sizes, usual: Sizes) -> Sizes:
    """Return the one set of sizes that an answer is about.

    Of what was measured and agrees with what is asked: the model's usual sizes, else the most measured; where nothing
    was, the asked with the usual ones in the gaps. Rows of other sizes are other workloads and are never mixed in.
    """
    # Thousands of rows have few different sizes.
    counted = Counter((row["origin"], _SIZES(row)) for row in rows).items()
    every: Counter[Sizes] = Counter()
    for (origin, value), count in counted:
        every[_sizes(origin, value, usual)] += count
    counts = {sizes: count for sizes, count in every.items() if agrees(sizes, request)}
    filled = {**usual.stated(), **request.stated()}
    if not counts:
        return Sizes(**filled)
    return max(counts, key=lambda sizes: (sizes.stated() == filled, counts[sizes], repr(sizes)))


def _sizes(origin: str, value: tuple[Any, ...], usual: Sizes) -> Sizes:
    """The sizes of a row; an imported one that says none of them is taken to have the model's usual ones.

    One that says the length of its prompts alone gives times a token, which hold for the usual length of an answer.
    """
    said = Sizes(**dict(zip(SIZE_NAMES, value, strict=True)))
    if origin != "imported":
        return said
    if not any(value):
        return usual
    if said.input_tokens and not said.output_tokens and usual.output_tokens:
        return msgspec.structs.replace(said, output_tokens=usual.output_tokens)
    return said


def agrees(sizes: Sizes, request: Sizes) -> bool:
    """Whether the sizes have every one that is asked."""
    stated = sizes.stated()
    return all(stated.get(name) == value for name, value in request.stated().items())


def options_from_rows(
    rows: Iterable[Record], sizes: Sizes, percentile: str, usual: Sizes | None = None, *, unsaid: bool = True
) -> list[Option]:
    """Return one option a configuration: measured before imported, valid before suspect, all its runs as evidence.

    Of imported rows those of the most trusted signers stand, the members `trust` and `signer` of a row say whose it is.

    Simulated and invalid rows are no evidence. The newest run gives the figures, the runs together the interval; energy
    comes from the newest run whose energy may be used. Imported rows that say no sizes count where `usual` are asked, and
    `unsaid` admits them.
    """
    groups: dict[str, list[Record]] = {}
    stated = sizes.stated().items()
    for row in rows:
        if row["origin"] not in ("measured", "imported") or row.get("verdict") == "invalid" or _queued(row):
            continue
        said = _SIZES(row)
        if not unsaid and not any(said):
            continue
        if _sizes(row["origin"], said, usual or Sizes()) == sizes:
            taken = {name: value for name, value in stated if row[name] is None}
            groups.setdefault(row["configuration"], []).append({**row, **taken, _TAKEN: list(taken)} if taken else row)
    return [_option(group, percentile) for group in groups.values()]


def _queued(row: Record) -> bool:
    """Whether requests came by themselves when we measured: its times are those of a queue, its rate is what was asked."""
    return row["origin"] == "measured" and row.get("arrival_rate_per_s") is not None


def _option(group: list[Record], percentile: str) -> Option:
    measured = [row for row in group if row["origin"] == "measured"]
    trusted = measured or _most_trusted(group)
    valid = [row for row in trusted if row.get("verdict") in ("valid", None)]
    # What was imported later is not newer: its date counts, and what has none stands behind what has one.
    runs = sorted(valid or trusted, key=lambda row: (*_dated(row), row["position"]))
    newest = runs[-1]
    latency, is_mean = _latency(newest, percentile)
    low, high = _interval(runs, percentile)
    throughput = newest.get("throughput_per_s")
    if throughput is None and latency and _at_once(newest):
        throughput = _at_once(newest) / latency * 1e3
    basis = newest["origin"]
    drawn = _drawn(trusted) or {}
    browser, browser_version = browser_of(newest.get("options"))
    return Option(
        hardware=newest["hardware_id"],
        platform=newest["platform"],
        precision=newest.get("precision") or "unknown",
        batch_size=newest.get("batch_size"),
        basis=basis,
        origin=basis,
        latency_ms=latency,
        low_ms=low,
        high_ms=high,
        covered=low is not None,
        is_mean=is_mean,
        throughput_per_s=throughput,
        ttft_ms=newest.get("ttft_ms"),
        tpot_ms=newest.get("tpot_ms"),
        tokens_per_s=newest.get("tokens_per_s") or _tokens_per_s(newest, latency),
        concurrency=newest.get("concurrency") if newest.get("scenario") == "serving" else None,
        kv_cache_bytes=newest.get("kv_cache_bytes"),
        peak_memory_bytes=newest.get("device_memory_bytes") or newest.get("peak_memory_bytes"),
        energy_j=drawn.get("energy_j"),
        energy_basis=basis if drawn.get("energy_j") is not None else None,
        energy_verdict=drawn.get("energy_verdict"),
        power_w=drawn.get("power_w"),
        runtime=newest.get("runtime_name"),
        runtime_version=newest.get("runtime_version"),
        browser=browser,
        browser_version=browser_version,
        compiled=bool(newest.get("compiled")),
        layout=newest.get("layout"),
        count=int(newest.get("hardware_count") or 1),
        n=newest.get("latency_n"),
        runs=len(runs),
        verdict=newest.get("verdict"),
        evidence=tuple(str(row["event_id"]) for row in reversed(runs)),
        why=_why(newest, len(runs), is_mean) + _energy_told(newest, drawn),
        key=newest["configuration"],
        position=int(newest["position"]),
        measured_at=newest.get("time"),
    )


def _most_trusted(rows: Sequence[Record]) -> list[Record]:
    """Return the imported rows of the highest trust: what no bundle brought stands with that of trusted signers."""
    highest = max(row.get("trust", UNSIGNED) for row in rows)
    return [row for row in rows if row.get("trust", UNSIGNED) == highest]


def _dated(row: Record) -> tuple[bool, str]:
    """Order imported rows by their dates; ours have positions in the order of their times."""
    time = row.get("time") if row["origin"] == "imported" else None
    return time is not None, "" if time is None else time.isoformat()


def _latency(row: Record, percentile: str) -> tuple[float | None, bool]:
    """The percentile; a mean only in the place of a median, and said so.

    A request takes as long as its first token and all others.
    """
    value = row.get(f"latency_{percentile}_ms")
    if value is None and percentile == "p50":
        value = row.get("latency_mean_ms")
        if value is None and row.get("throughput_per_s") and _at_once(row):
            value = _at_once(row) / row["throughput_per_s"] * 1e3
        if value is None and row.get("ttft_ms") and row.get("tpot_ms") and row.get("output_tokens"):
            value = row["ttft_ms"] + (row["output_tokens"] - 1) * row["tpot_ms"]
        return value, value is not None
    return value, False


def _at_once(row: Record) -> int:
    """Items of the calls, or served requests, under way at once; 0 where nobody said."""
    if row.get("scenario") == "serving":
        return row.get("concurrency") or 0
    return (row.get("batch_size") or 0) * (row.get("streams") or 1)


def _tokens_per_s(row: Record, latency: float | None) -> float | None:
    """Tokens a second of all requests under way, from how long one of them takes."""
    if not latency or row.get("scenario") != "serving" or not row.get("concurrency") or not row.get("output_tokens"):
        return None
    return float(row["concurrency"] * row["output_tokens"] / latency * 1e3)


def _interval(runs: list[Record], percentile: str) -> tuple[float | None, float | None]:
    """From the lowest to the highest end over the runs: a run's confidence interval, or the runs' own spread."""
    lows: list[float] = []
    highs: list[float] = []
    for row in runs:
        low, high = row.get("latency_p50_ci95_low_ms"), row.get("latency_p50_ci95_high_ms")
        if percentile == "p50" and low is not None and high is not None:
            lows.append(low)
            highs.append(high)
        elif len(runs) > 1 and (value := _latency(row, percentile)[0]) is not None:
            lows.append(value)
            highs.append(value)
    return (min(lows), max(highs)) if lows else (None, None)


def _why(row: Record, runs: int, is_mean: bool) -> str:
    times = "once" if runs == 1 else f"in {runs} runs"
    where = "at an endpoint, its hardware as stated," if row.get("device") == STATED else "here"
    text = f"measured {where} {times}" if row["origin"] == "measured" else f"imported, reported {times}"
    if row["origin"] == "imported" and row.get("provenance_source"):
        text += f" by {row['provenance_source']}" if row.get("signer") is None else f" by {row['signer']}"
    if row["origin"] == "imported" and row.get("time") is None:
        text += ", undated"
    if row.get("platform_asked") not in (None, row["platform"]):
        text += f"; {row['platform_asked']} was asked, {row['platform']} did the work"
    if _TAKEN in row:
        text += f"; {' and '.join(name.replace('_', ' ') for name in row[_TAKEN])} not said, and taken to be usual"
    if is_mean:
        text += "; the mean stands in for the median"
    if row.get("latency_n"):
        text += f", {row['latency_n']} samples"
    if row.get("verdict") == "suspect":
        text += _doubted("suspect", _json(row.get("verdict_reasons")) or [])
    return text


def _drawn(runs: Iterable[Record]) -> Record | None:
    """The newest run whose energy or power may be used, valid before suspect, whatever its times are worth."""
    matching_runs = [row for row in runs if row.get("energy_verdict") != "invalid" and _has_energy(row)]
    valid = [row for row in matching_runs if row.get("energy_verdict") in ("valid", None)]
    return max(valid or matching_runs, key=lambda row: int(row["position"]), default=None)


def _has_energy(row: Record) -> bool:
    return row.get("energy_j") is not None or row.get("power_w") is not None


def _energy_told(newest: Record, drawn: Record) -> str:
    """Say why the energy is doubted, or why there is none, where the reasons are not those of the times."""
    row = drawn or newest
    verdict = row.get("energy_verdict")
    judged = _json(row.get("metric_verdicts")) or {}
    said = next((judged[name].get("reasons") for name in ENERGY if name in judged), None) or []
    own = [reason for reason in said if reason not in (_json(newest.get("verdict_reasons")) or [])]
    return _doubted(f"energy {verdict}", own) if verdict in ("suspect", "invalid") else ""


def _doubted(what: str, reasons: Sequence[str]) -> str:
    return f"; {what}" + (f": {'; '.join(reasons)}" if reasons else "")


def _json(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, str) else value
