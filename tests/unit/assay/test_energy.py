"""Energy in words: what is told, with which verdict, and what is not told for what nobody read."""

from __future__ import annotations

from presentation import energy, formatting

READING = {
    "meter": "nvml", "scope": "board", "readings": 212, "seconds": 42.3, "longest_gap_s": 0.21, "counted_j": 1620.0,
    "integrated_j": 1611.0, "idle_w": 20.4, "idle_seconds": 1.0,
}  # fmt: skip
METRICS = {
    "energy_j": 0.432,
    "energy_per_item_j": 0.054,
    "power_w": 69.7,
    "idle_power_w": 20.4,
    "energy_above_idle_j": 0.3,
}


def told(**data):
    return {name: formatting.plain(words) for name, words in energy.lines(data)}


def test_energy_is_told_with_its_own_verdict_idle_and_method():
    judged = {"latency_ms": {"verdict": "suspect"}, "energy_j": {"verdict": "valid"}}
    found = told(metrics=METRICS, validity={"verdict": "suspect", "metrics": judged}, conditions={"energy": READING})
    assert found == {
        "Energy": "54.0 mJ an item, 0.432 J a call, 69.7 W on average",
        "Its verdict": "valid",
        "At rest": "20.4 W, in 1.00 s before the model was loaded; 0.300 J a call above it",
        "Read by": "nvml, board; 212 readings in 42.3 s; longest gap 0.210 s; "
        "counter 1,620 J, integral of power 1,610 J: 0.6 % apart",
    }


def test_an_invalid_energy_has_its_reason_and_no_figure():
    judged = {"energy_j": {"verdict": "invalid", "reasons": ["the power meter was not read for 4.0 s"]}}
    found = told(metrics={}, validity={"verdict": "valid", "metrics": judged}, conditions={"energy": READING})
    assert found["Energy"] == formatting.MISSING
    assert found["Its verdict"] == "invalid: the power meter was not read for 4.0 s"
    assert found["At rest"].startswith("20.4 W, in")


def test_why_energy_was_not_read_is_all_that_is_told_then():
    assert told(conditions={"energy": {"unread": "no counter"}}) == {"Read by": "not read: no counter"}
    assert told(metrics={"load_ms": 3.0}) == {}


def test_a_verdict_on_the_row_is_that_on_energy_only_where_no_metric_was_judged():
    assert told(metrics={"energy_j": 1.0}, validity={"verdict": "suspect"})["Its verdict"] == "suspect"
    alone = {"verdict": "suspect", "metrics": {"latency_ms": {"verdict": "suspect"}}}
    assert told(metrics={"energy_j": 1.0}, validity=alone)["Its verdict"] == "no verdict"


def test_one_figure_of_two_is_told_as_unchecked_and_rest_as_unmeasured():
    found = told(metrics={"energy_j": 1.0}, conditions={"energy": {"meter": "rapl", "counted_j": 5.0}})
    assert "its counter alone, with nothing to check it against" in found["Read by"]
    assert found["At rest"].startswith("not measured")
