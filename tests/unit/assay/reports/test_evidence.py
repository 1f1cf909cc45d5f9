from __future__ import annotations

from typing import Any

from presentation.reports import evidence


def test_a_row_has_its_median_with_interval_and_the_throughput_that_follows(row: Any) -> None:
    made = row(10.0, batch_size=8, throughput_per_s=None)
    assert (made["latency_ms"], made["latency_ms_low"], made["latency_ms_high"]) == (10.0, 9.9, 10.1)
    assert made["throughput_per_s"] == 800.0
    assert made["throughput_per_s_low"] == 800.0 * 10.0 / 10.1
    assert made["evidence"] == ["00000000-0000-7000-8000-000000000001"]


def test_a_mean_in_place_of_a_median_is_said(row: Any) -> None:
    made = row(None, latency_mean_ms=7.0, latency_mean_ci95_low_ms=6.5, latency_mean_ci95_high_ms=7.5)
    assert (made["latency_ms"], made["statistic"]) == (7.0, "mean")
    (column,) = [column for column in evidence.FIGURES if column.key == "latency_ms"]
    assert column.show is not None
    assert column.show(made).endswith("(mean)")


def test_missing_stays_missing(row: Any) -> None:
    made = row(None, latency_mean_ms=None, throughput_per_s=None, peak_memory_bytes=None)
    assert made["latency_ms"] is made["statistic"] is made["throughput_per_s"] is None
    shown = {column.key: column.show(made) for column in evidence.FIGURES if column.show}
    assert shown["latency_ms"] == shown["throughput_per_s"] == shown["peak_memory_bytes"] == "—"


def test_the_words_of_work_and_place(row: Any) -> None:
    made = row(batch_size=8, input_tokens=64, output_tokens=16, hardware_count=2, compiled=True)
    assert evidence.work_words(made) == "inference, single stream, batch 8, 128 tokens, 64 tokens in, 16 out"
    assert evidence.where_words(made) == "acme-one × 2 · cpu · fp32 · compiled"
    assert "batch not said" in evidence.work_words(row(batch_size=None, throughput_per_s=None))
    assert "precision not said" in evidence.where_words(row(precision=None))


def test_simulated_suspect_and_unjudged_rows_say_so(row: Any) -> None:
    assert evidence.origin_words(row()) == "● measured"
    assert evidence.origin_words(row(origin="imported", verdict="suspect")) == "○ imported\n⚠ suspect"
    assert evidence.origin_words(row(origin="simulated")) == "SIMULATED"
    assert evidence.origin_words(row(origin="imported", verdict=None)) == "○ imported, not judged"


def test_a_figure_of_several_rows_is_as_good_as_the_weakest(row: Any) -> None:
    joined = evidence.worst(
        [row(), row(origin="imported", verdict="suspect"), row(origin="simulated", verdict="valid")]
    )
    assert (joined["origin"], joined["verdict"], len(joined["evidence"])) == ("simulated", "suspect", 3)
    assert evidence.worst([row(), row(verdict=None)])["verdict"] is None


def test_rows_of_one_name_are_told_apart_by_what_differs_or_by_the_event(row: Any) -> None:
    one, other = evidence.told_apart([row(), row(threads=16)])
    assert (one["distinct"], other["distinct"]) == ("threads 2", "threads 16")
    one, other = evidence.told_apart([row(), row()])
    assert one["distinct"] != other["distinct"]
    assert evidence.told_apart([row()])[0]["distinct"] is None


def test_the_evidence_names_an_event_once_in_the_order_of_the_log(row: Any) -> None:
    first, second = row(), row(verdict="suspect", verdict_reasons=["too fast", "one sample"])
    table = evidence.evidence_table([second, first, second])
    assert [made["position"] for made in table.rows] == sorted({first["position"], second["position"]})
    assert "too fast; one sample" in table.words(table.rows[-1])
