"""What a prediction is made of and what would make it faster, in sentences with their figures."""

from __future__ import annotations

import pytest

from assay.cli.ask.prediction_text import tell_explanation, tell_faster
from domain.answers import Explanation, Faster, FasterChange, KernelTime, OperatorTime, OutputError, Part
from presentation.explained_time import kernel_lines, longest_lines, sum_line
from presentation.faster_words import change_words, checks, none_words, other_words
from presentation.formatting import plain

EXPLANATION = Explanation(
    latency_ms=4.0,
    roofline_ms=1.5,
    bottleneck="memory",
    told="bandwidth-bound: 60% of the roofline is traffic to and from memory",
    parts=[
        Part(group="matrix products", roofline_ms=1.0, learned_ms=2.0, ms=3.0),
        Part(group="moving data", roofline_ms=0.5, learned_ms=1.0, ms=1.5),
        Part(group="runtime beyond its kernels", roofline_ms=0.0, learned_ms=-0.51, ms=-0.51),
        Part(group="launches of the host", roofline_ms=0.0, learned_ms=0.01, ms=0.01),
    ],
    by_class_ms={"mm": 1.0, "norm": 0.5},
    kernels=[
        KernelTime(kind="moving data", calls=70, ms=1.5, arithmetic_ms=0.0, traffic_ms=0.5, launch_ms=1.0),
        KernelTime(kind="matrix products", calls=73, ms=3.0, arithmetic_ms=1.5, traffic_ms=1.2, launch_ms=0.3),
    ],
    longest=[
        OperatorTime(name="aten.addmm", kind="matrix products", sizes="(128 × 768) · (768 × 768)", calls=48, ms=1.8),
        OperatorTime(name="aten.add", kind="moving data", sizes="98,304 elements", calls=1, ms=0.45),
    ],
)


def change(**parts: object) -> FasterChange:
    whole: dict[str, object] = {
        "kind": "precision", "change": "fp16 in place of fp32", "platform": "cuda", "precision": "fp16",
        "batch_size": 8, "compiled": False, "runtime": "torch", "gain": 2.04, "gain_low": 1.31, "gain_high": 3.2,
        "probability": 0.9731, "latency_ms": 2.0, "throughput_per_s": 4000.0, "basis": "predicted",
        "command": "assay predict m --hardware nvidia-l4 --platform cuda --precision fp16 --batch-size 8 --eager",
        "outputs_change": True, "verify": "assay verify m --platform cuda --precision fp16", "output_error": None,
        "evidence": [],
    }  # fmt: skip
    return FasterChange(**{**whole, **parts})  # type: ignore[arg-type]


def test_parts_are_a_sum_with_their_signs_and_the_small_ones_are_the_rest() -> None:
    assert plain(sum_line(EXPLANATION)) == (
        "4.00 ms = matrix products 3.00 ms + moving data 1.50 ms − runtime beyond its kernels 0.510 ms + the rest 10.0 µs"
    )


def test_kernels_come_largest_first_with_what_they_consist_of() -> None:
    products, moving = map(plain, kernel_lines(EXPLANATION))
    assert products.startswith("matrix products: 3.00 ms in 73 calls")
    assert "arithmetic 50.0 %" in products
    assert "arithmetic" not in moving


def test_operators_have_their_calls_sizes_and_share_of_all_kernels() -> None:
    first, second = map(plain, longest_lines(EXPLANATION))
    assert first.startswith("48 × addmm (128 × 768) · (768 × 768): 1.80 ms, 40.0")
    assert second.startswith("add 98,304 elements: ")
    assert len(longest_lines(EXPLANATION, 1)) == 1


def test_a_change_says_its_gain_interval_and_probability() -> None:
    words = change_words(change())
    assert "2.04 times" in words and "1.3 to 3.2" in words and "97%" in words
    assert change_words(change(probability=1.0)).count("99%") == 1
    assert "measured 2.04 times" in change_words(change(basis="imported"))
    assert "a call takes 2.00 ms" in plain(change_words(change(kind="batch")))
    assert change_words(change(verify=None)).endswith("outputs change")


def test_what_changes_outputs_has_a_second_command_with_what_is_known() -> None:
    (_, command), (what, verify) = checks(change())
    assert command.startswith("assay predict") and verify.startswith("assay verify")
    known = OutputError(cosine=0.99913, max_absolute=0.1, outcome="passed", evidence="0198")
    assert "0.9991" in checks(change(output_error=known))[1][0] and "0.9991" not in what
    assert len(checks(change(outputs_change=False, verify=None))) == 1
    assert checks(change(command="assay bench m"))[0][0] == "measures it"
    assert "assay bench" in checks(change())[0][0]
    assert "assay bench" not in checks(change(runtime="tensorrt"))[0][0]


def test_none_says_why_and_others_are_named() -> None:
    assert other_words(Faster(best=change(), others=[], considered=3, why=None)) is None
    others = Faster(
        best=change(),
        others=[change(change="compiled in place of eager", gain=1.5, outputs_change=False)],
        considered=3,
        why=None,
    )
    assert other_words(others) == "also: compiled in place of eager 1.5 times"
    assert "none of 3" in none_words(Faster(best=None, others=[], considered=3, why="none of 3 changes gains"))


@pytest.mark.parametrize("best", [change(), None])
def test_a_terminal_has_100_columns_and_commands_stay_whole(
    best: FasterChange | None, capsys: pytest.CaptureFixture[str]
) -> None:
    tell_explanation(EXPLANATION)
    tell_faster(Faster(best=best, others=[change()] * 4, considered=9, why="none of 9 changes is surely faster" * 4))
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line.rstrip()) <= 100 for line in lines if "  assay " not in line)
    assert not best or f"  {best.command}" in lines
