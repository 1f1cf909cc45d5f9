from __future__ import annotations

from typing import Any

from dashboard.best_measured import best_of_each, columns, how_run, known_words, same_work_first, speed_words
from presentation import formatting


def row(hardware: str = "nvidia-l4", rate: float | None = 100.0, **changes: Any) -> dict[str, Any]:
    found = {
        "hardware": hardware, "hardware_count": 1, "model": "acme/tiny", "platform": "cuda", "precision": "fp16", "batch_size": 8,
        "throughput_per_s": rate, "latency_ms": 80.0, "latency_ms_low": 64.0, "latency_ms_high": 100.0, "sequence_length": 128,
        "basis": "measured", "origin": "measured", "verdict": "valid", "evidence": ["e-1"],
    }  # fmt: skip
    return found | changes


def test_what_is_invalid_simulated_or_without_a_rate_is_left_out() -> None:
    rows = [
        row(rate=9.0),
        row(rate=500.0, verdict="invalid"),
        row(rate=600.0, origin="simulated"),
        row("nvidia-t4", rate=None),
    ]
    assert [found["throughput_per_s"] for found in best_of_each(rows, "hardware")] == [9.0]


def test_several_devices_are_counted_as_one_of_them() -> None:
    rows = [row("nvidia-h100-sxm", 160.0, hardware_count=8), row("nvidia-l4", 30.0), row("nvidia-l4", 20.0)]
    best = best_of_each(rows, "hardware")
    assert [(found["hardware"], found["throughput_per_s"]) for found in best] == [
        ("nvidia-l4", 30.0),
        ("nvidia-h100-sxm", 160.0),
    ]
    told = {column.head: column for column in columns(best, "hardware")}
    assert told["Per device"].values == [30.0, 20.0]
    assert told["Hardware"].values == ["L4", "8 × H100 SXM"]


def test_another_size_is_no_rival_of_the_headline() -> None:
    rows = [row("a", 900.0, sequence_length=16), row("b", 100.0), row("c", 50.0)]
    alike, others = same_work_first(rows)
    assert [found["hardware"] for found in alike] == ["b", "c"]
    assert [found["hardware"] for found in others] == ["a"]
    assert same_work_first([]) == ([], [])


def test_a_table_has_raw_values_intervals_and_ways_to_what_they_rest_on() -> None:
    rows = best_of_each([row(), row("nvidia-t4", 40.0, latency_ms_low=None, latency_is_mean=True)], "hardware")
    told = {column.head: column for column in columns(rows, "hardware")}
    rate = told["Items/s"]
    assert (rate.values, rate.low, rate.high) == ([100.0, 40.0], [80.0, None], [125.0, None])
    assert rate.shown is not None and formatting.plain(rate.shown[0]) == "100 (80–120)"
    assert told["Latency ms"].shown == ["80.0", "80.0 †"], "a mean is marked"
    assert told["Hardware"].links == ["hardware?id=nvidia-l4", "hardware?id=nvidia-t4"]
    assert told["Known"].links == ["runs?row=e-1", "runs?row=e-1"]
    assert "Sequence length" not in told and "Load" not in told, "what is alike in all is said once, above"
    assert "Sequence length" in [column.head for column in columns([*rows, row(sequence_length=16)], "hardware")]


def test_an_interval_narrower_than_the_figures_is_not_written() -> None:
    sure = row(latency_ms_low=80.0, latency_ms_high=80.00001)
    assert formatting.plain(speed_words(best_of_each([sure], "hardware")[0])) == "100 items/s"


def test_what_is_served_has_a_load_in_place_of_a_batch_and_an_unknown_precision_is_missing() -> None:
    served = row(batch_size=None, concurrency=64, precision="unknown", unit="tokens/s")
    told = {column.head: column for column in columns([served], "hardware")}
    assert told["Load"].values == ["64 at a time"] and "Batch" not in told
    assert told["Precision"].values == [None] and told["Tokens/s"].values == [100.0]
    assert how_run(served) == "cuda · precision unknown · 64 at a time"


def test_an_estimate_is_called_one() -> None:
    assert [known_words(basis) for basis in ("measured", "imported", "predicted", "roofline")] == [
        "● measured",
        "○ imported",
        "▷ estimate",
        "┄ estimate (specs only)",
    ]
