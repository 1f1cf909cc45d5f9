"""The work of a call is that of its phases: every operator as often, and with as many items, as it runs."""

from __future__ import annotations

from typing import Any

import pytest

from predictor.features.traces import TraceBook, joined, trace_from_data


def trace(phase: str, flops: float, weight: float, *, parameters: int = 100, peak: float = 10.0, **more: Any) -> Any:
    row = {
        "class": "mm",
        "count": 2,
        "flops": flops,
        "read_elements": 3.0,
        "write_elements": 5.0,
        "weight_elements": weight,
    }
    sizes = {name: more.pop(name) for name in ("audio_seconds", "image_size", "input_tokens") if name in more}
    totals = {"peak_activation_elements": peak, "parameters": parameters, **more.pop("totals", {})}
    return trace_from_data(
        {
            "model": {"id": "m", "parameters": parameters, **more},
            "workload": {"mode": "inference", "phase": phase, **sizes},
            "operators": [row],
            "totals": totals,
        }
    )


def flops(work: Any) -> float:
    return float((work.flops * work.count).sum())


def test_a_long_recording_is_a_prefill_of_each_window_and_a_step_of_each_further_token() -> None:
    book = TraceBook(
        [
            trace("prefill", 1000.0, 7.0, family="whisper", audio_seconds=30.0),
            trace("decode", 10.0, 7.0, family="whisper", audio_seconds=30.0),
            trace("forward", 1000.0, 7.0, family="whisper", audio_seconds=30.0),
        ]
    )
    work = book.work("m", "inference", {"audio_seconds": 95.0, "output_tokens": 317})
    assert work is not None
    assert flops(work) == 2 * (4 * 1000.0 + 313 * 10.0)
    assert work.count.tolist() == [8.0, 626.0]
    assert [row["count"] for row in work.operators] == [8, 626.0]
    assert work.parameters == 100
    single = book.work("m", "inference", {"audio_seconds": 30.0})
    assert single is not None
    assert (single.phase, flops(single)) == ("forward", 2000.0)


def test_an_image_of_a_guided_pipeline_doubles_what_grows_with_the_batch_and_no_weights() -> None:
    said = {"usual_steps": 50, "guided": 1}
    book = TraceBook(
        [
            trace("text_encoder", 10.0, 11.0, parameters=1000, peak=1.0, totals=said),
            trace("forward", 100.0, 13.0, parameters=5000, peak=20.0, image_size=512, family="unet"),
            trace("vae_decoder", 40.0, 17.0, parameters=300, peak=50.0, image_size=512),
        ]
    )
    work = book.work("m", "inference", {"image_size": 512, "steps": 20})
    assert work is not None
    assert flops(work) == 2 * (2 * 10.0 + 20 * 2 * 100.0 + 40.0)
    assert work.weights.tolist() == [11.0, 13.0, 17.0]
    assert work.activations.tolist() == [16.0, 16.0, 8.0]
    assert (work.parameters, work.totals["peak_activation_elements"], work.phase) == (6300, 50.0, "image")
    assert (work.family, work.image_size) == ("unet", 512)
    assert [(row["count"], row["flops"]) for row in work.operators] == [(2, 20.0), (40, 200.0), (2, 40.0)]
    assert book.pipeline("m").steps == 50


def test_an_image_of_one_step_is_named_after_its_denoiser() -> None:
    parts = [(trace("text_encoder", 1.0, 1.0), 1, 1), (trace("forward", 1.0, 1.0, family="unet"), 1, 1)]
    assert joined(parts, modules=True).family == "unet"


def test_a_pipeline_without_a_trace_of_a_module_has_no_work() -> None:
    book = TraceBook([trace("forward", 100.0, 13.0, image_size=512)])
    assert book.work("m", "inference", {"image_size": 512, "steps": 20}) is None
    assert book.work("m", "inference", {"image_size": 512}) is not None


@pytest.mark.parametrize("tokens", [1, 5])
def test_a_generation_is_its_prompt_and_a_step_of_each_token_after_the_first(tokens: int) -> None:
    book = TraceBook([trace("prefill", 100.0, 7.0, input_tokens=8), trace("decode", 10.0, 7.0, input_tokens=8)])
    work = book.work("m", "inference", {"input_tokens": 8, "output_tokens": tokens})
    assert work is not None
    assert flops(work) == 2 * (100.0 + (tokens - 1) * 10.0)
