"""Claims: what was typed in is complete and has its source; what stands beside each, and which documents disagree."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

from domain.catalogues.models import catalogue
from domain.compatibility.claims import claims, claims_of
from domain.compatibility.contradictions import VERDICTS, beside, opposed
from domain.compatibility.states import judged
from domain.vocabulary import CATEGORIES, PLATFORMS
from tests.unit.domain.test_compatibility import cell, stopped

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def named(identifier):
    """The claim of an id."""
    return next(claim for claim in claims() if claim.id == identifier)


def seen(*cells):
    """Judged cells."""
    return [judged(one, NOW) for one in cells]


def test_every_table_and_list_of_the_documents_is_there():
    counts = Counter(claim.id.partition(":")[0] for claim in claims())
    assert counts["family-chart"] == 5 * 6
    assert counts["key-models"] == 13 * 6
    assert counts["status-june"] == 12 * 3
    lists = {name: n for name, n in counts.items() if name.startswith(("not-on", "partly-on"))}
    assert lists == {
        "not-on-cuda": 3, "not-on-openvino": 3, "partly-on-openvino": 2, "not-on-mps": 6, "not-on-rocm": 4,
        "not-on-webnn": 7, "not-on-webgpu": 9,
    }  # fmt: skip
    assert sum(claim.metric is not None for claim in claims()) == 200


def test_every_claim_has_its_source_and_words_of_the_vocabulary():
    families = {model.family for model in catalogue()} | {"vision-t5", "audioldm"}
    assert len({claim.id for claim in claims()}) == len(claims())
    for claim in claims():
        assert claim.document and claim.section and claim.platform in PLATFORMS
        assert (claim.says is None) != (claim.value is None)
        assert claim.target.models or claim.target.families or claim.target.categories
        assert set(claim.target.families) <= families
        assert set(claim.target.categories) <= set(CATEGORIES)


@pytest.mark.parametrize(
    ("identifier", "metric", "value"),
    [
        ("march-text:LLAMA (opt-125m):cuda:latency_s", "latency_ms", 140.0),
        ("march-text:LLAMA (opt-125m):cuda:memory_mb", "peak_memory_bytes", 240e6),
        ("june-multimodal:LLaVA:cuda:memory_gb", "peak_memory_bytes", 2.4e9),
        ("march-audio:Whisper (tiny):cpu:work_per_audio", "realtime_factor", pytest.approx(1 / 1.8)),
        ("march-web-audio:Whisper (tiny):webnn:ms_per_audio_s", "realtime_factor", pytest.approx(1000 / 420)),
    ],
)
def test_figures_are_in_our_units(identifier, metric, value):
    claim = named(identifier)
    assert (claim.metric, claim.value) == (metric, value)


def test_what_a_document_calls_simulated_is_marked():
    marked = {claim.name for claim in claims() if claim.simulated}
    assert marked == {"Whisper (tiny)"}


def test_the_chart_counts_clip_as_vision():
    clip = {"model_id": "openai/clip-vit-base-patch32", "family": "clip", "category": "multimodal", "platform": "rocm"}
    of_chart = [claim for claim in claims_of(clip) if claim.id.startswith("family-chart")]
    assert [(claim.name, claim.says) for claim in of_chart] == [("Vision (ViT, CLIP, etc.)", "medium")]


BLIP = "not-on-openvino:BLIP:openvino"
BERT = "key-models:BERT:cuda"
CHART = "family-chart:Embedding (BERT, etc.):cuda"


@pytest.mark.parametrize(
    ("verdict", "identifier", "facts"),
    [
        ("contradicted", BLIP, cell(family="blip", platform="openvino")),
        ("agrees", BLIP, stopped("unsupported", "convert", family="blip", platform="openvino")),
        ("agrees", BERT, cell()),
        ("contradicted", BERT, stopped("unsupported", "compile", "NotImplementedError")),
        ("unobserved", BERT, stopped("out_of_memory")),
        ("unobserved", BERT, stopped("unsupported", "resolve", "PlatformUnavailable")),
        ("unobserved", BERT, cell(platform="openvino")),
        ("contradicted", BERT, cell(verified=False, stopped_error="Mismatch")),
        ("agrees", CHART, cell(verified=True, speedup=8.0)),
        ("other level", CHART, cell(verified=True, speedup=1.2)),
        ("agrees", CHART, cell(verified=True)),
        ("exceeded", "key-models:T5:openvino", cell(family="t5", platform="openvino")),
        ("agrees", "key-models:T5:openvino", stopped("error", family="t5", platform="openvino")),
        ("contradicted", "partly-on-openvino:MusicGen:openvino", stopped("error", family="musicgen", platform="openvino")),
    ],
)  # fmt: skip
def test_what_was_seen_beside_what_is_claimed(verdict, identifier, facts):
    found = beside(named(identifier), seen(facts), [])
    assert found["verdict"] == verdict
    assert verdict in VERDICTS
    assert found["evidence_ids"] == ([] if verdict == "unobserved" else ["e"])


def row(**told):
    """A measurement as the tables give it."""
    empty = dict.fromkeys(("sequence_length", "image_size", "audio_seconds", "frames", "input_tokens", "output_tokens", "latency_mean_ms",
                           "tokens_per_s", "realtime_factor", "first_run_ms", "preprocess_ms", "peak_memory_bytes"))  # fmt: skip
    return {
        **empty, "event_id": "m", "model_id": "prajjwal1/bert-tiny", "family": "bert", "category": "embedding",
        "hardware_id": "acme-cpu", "platform": "cpu", "precision": "fp32", "mode": "inference", "batch_size": 1,
        "sequence_length": 128, "latency_p50_ms": 8.6, "origin": "measured", **told,
    }  # fmt: skip


def test_a_figure_is_compared_with_the_same_work_and_the_ratio_says_that_the_hardware_differs():
    claim = named("march-embedding:BERT (tiny):cpu:item_ms")
    rows = [
        row(),
        row(precision="bf16", latency_p50_ms=1.0),
        row(batch_size=8, latency_p50_ms=2.0),
        row(mode="training"),
    ]
    found = beside(claim, [], rows)
    assert (found["ours"], found["ratio"], found["verdict"]) == (8.6, pytest.approx(2.0), "agrees")
    assert "different hardware" in found["how"] and "acme-cpu" in found["how"]
    assert beside(claim, [], [row(latency_p50_ms=8.7)])["verdict"] == "differs"
    assert beside(claim, [], [row(platform="cuda")])["verdict"] == "unobserved"


def test_a_forward_pass_is_not_a_transcript_nor_generated_tokens():
    whisper = row(model_id="openai/whisper-tiny", family="whisper", audio_seconds=30.0)
    claim = named("june-audio:Whisper (tiny):cpu:realtime_factor")
    assert beside(claim, [], [whisper])["verdict"] == "unobserved"
    assert beside(claim, [], [{**whisper, "output_tokens": 16, "realtime_factor": 90.0}])["verdict"] == "unobserved"
    assert beside(claim, [], [{**whisper, "output_tokens": 60, "realtime_factor": 14.0}])["verdict"] == "agrees"
    opt = row(model_id="facebook/opt-125m", family="opt", tokens_per_s=4000.0)
    assert beside(named("march-text:LLAMA (opt-125m):cpu:tokens_per_s"), [], [opt])["verdict"] == "unobserved"


def test_claimed_speed_ups_are_beside_the_median_of_the_category():
    low, high = (named(f"speed-ups:Embedding Models:cuda:speedup_{end}") for end in ("low", "high"))
    cells = seen(*(cell(model_id=name, speedup=speed) for name, speed in (("a", 3.0), ("b", 4.0), ("c", 40.0))))
    assert [beside(claim, cells, [])["verdict"] for claim in (low, high)] == ["differs", "agrees"]


def test_documents_that_disagree_with_each_other_are_found():
    found = opposed(claims())
    assert "status-june:LLaVA-Next:openvino" in found["not-on-openvino:LLaVA-Next:openvino"]
    assert "family-chart-before:Audio (Whisper, etc.):webnn" in found["family-chart:Audio (Whisper, etc.):webnn"]
    assert found["march-audio:Whisper (tiny):cuda:work_per_audio"] == ["june-audio:Whisper (tiny):cuda:realtime_factor"]
    assert all(one in found[other] for one, others in found.items() for other in others)
