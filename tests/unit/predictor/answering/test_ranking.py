import msgspec

from predictor.answering.objective import better, tied
from predictor.answering.option import Option
from predictor.answering.question import Question
from predictor.answering.ranked_entry import compared
from predictor.answering.ranking import constrained, ordered

MEASURED = Option(
    hardware="a", platform="cpu", precision="fp32", batch_size=4, basis="measured", latency_ms=10.0, low_ms=9.9,
    high_ms=10.1, covered=True, throughput_per_s=400.0, peak_memory_bytes=1e9,
)  # fmt: skip


def other(**changes: object) -> Option:
    return msgspec.structs.replace(MEASURED, **{"hardware": "b", **changes})


def test_a_lucky_figure_does_not_beat_a_measurement() -> None:
    wide = other(basis="roofline", latency_ms=8.0, low_ms=3.0, high_ms=21.0)
    assert ordered([wide, MEASURED], "latency") == [MEASURED, wide]
    sure = other(basis="predicted", latency_ms=8.0, low_ms=7.5, high_ms=8.6)
    assert ordered([MEASURED, sure], "latency") == [sure, MEASURED]


def test_what_was_measured_is_ordered_by_what_was_measured() -> None:
    faster = other(latency_ms=9.95, low_ms=5.0, high_ms=30.0)
    assert ordered([MEASURED, faster], "latency") == [faster, MEASURED]
    assert ordered([MEASURED, other(throughput_per_s=401.0)], "throughput")[0].hardware == "b"
    assert ordered([MEASURED, other(peak_memory_bytes=2e9)], "memory")[0].hardware == "a"


def test_ties_are_within_each_others_interval() -> None:
    assert tied(MEASURED, other(latency_ms=10.05, low_ms=9.9, high_ms=10.2), "latency")
    assert not tied(MEASURED, other(latency_ms=10.5, low_ms=9.9, high_ms=11.0), "latency")
    assert not tied(MEASURED, other(latency_ms=10.05, low_ms=None, high_ms=None), "latency")


def test_estimates_from_specifications_err_alike_so_that_devices_are_told_apart() -> None:
    wide = {"basis": "roofline", "method": "roofline", "covered": False}
    slow = other(hardware="slow", latency_ms=18.0, low_ms=6.0, high_ms=54.0, **wide)
    fast = other(hardware="fast", latency_ms=6.0, low_ms=2.0, high_ms=18.0, **wide)
    apart = msgspec.structs.replace(fast, method="trees")
    alone, together = better(apart, slow, "latency"), better(fast, slow, "latency")
    assert alone is not None and together is not None and 0.5 < alone < 0.75 < 0.9 < together < 1
    assert not tied(fast, slow, "latency")
    # Other software on one of them makes something else of the work, and nothing cancels.
    assert better(msgspec.structs.replace(fast, platform="openvino"), slow, "latency") == alone
    assert tied(fast, msgspec.structs.replace(slow, latency_ms=7.0, low_ms=2.3, high_ms=21.0), "latency")


def test_what_stands_first_with_the_larger_value_says_by_what() -> None:
    sure = other(basis="predicted", latency_ms=9.6, low_ms=8.5, high_ms=10.7)
    wide = other(basis="predicted", latency_ms=7.6, low_ms=5.1, high_ms=11.2)
    assert ordered([wide, sure], "latency") == [sure, wide]
    told = compared(sure, wide, "latency")
    assert told is not None
    assert told.startswith("26% more latency than the next (better with a probability of")
    assert told.endswith("; both are taken at their unfavourable end")
    assert "unfavourable" not in str(compared(other(latency_ms=5.0, low_ms=4.9, high_ms=5.1), MEASURED, "latency"))


def test_each_constraint_leaves_out_by_its_name_with_the_figures() -> None:
    for limit, detail in (
        ({"max_latency_ms": 5.0}, "10 ms against 5"),
        ({"min_throughput_per_s": 500.0}, "400 items/s against 500"),
        ({"max_memory_mb": 500.0}, "1000 MB against 500"),
        ({"max_usd_per_hour": 1.0}, "the figure is not known"),
    ):
        kept, left = constrained([MEASURED], Question(model="m", **limit).checked())
        assert kept == []
        assert (left[0][1].rule, left[0][1].detail) == (next(iter(limit)), detail)
    assert constrained([MEASURED], Question(model="m", max_latency_ms=10.0).checked())[0] == [MEASURED]


def test_an_objective_without_its_figure_is_no_answer() -> None:
    _, left = constrained([MEASURED], Question(model="m", objective="cost").checked())
    assert left[0][1].rule == "no price"
    _, left = constrained([MEASURED], Question(model="m", objective="energy").checked())
    assert left[0][1].rule == "no energy figure"


def test_cost_is_price_over_throughput() -> None:
    priced = msgspec.structs.replace(MEASURED, usd_per_hour=3.6)
    assert priced.usd_per_million == 3.6 / 3600 / 400 * 1e6
