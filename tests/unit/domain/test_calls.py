"""Calls: what one is by the model's task, how much work it is, and how an answer says it."""

from __future__ import annotations

import pytest

from domain.answers import Sizes
from domain.calls import CallPlan, Part, Pipeline, Subject, kind_of, parts_of, planned, usual_sizes
from domain.catalogues.models import catalogue, find

WHISPER = Subject(category="audio", family="whisper", task="automatic-speech-recognition", generates=True)
CTC = Subject(category="audio", family="wav2vec2", task="automatic-speech-recognition")
HUBERT = Subject(category="audio", family="hubert", task="feature-extraction")
GPT = Subject(category="text_generation", family="gpt2", task="text-generation", generates=True)
T5 = Subject(category="text_to_text", family="t5", task="text2text-generation", generates=True)
LLAVA = Subject(category="multimodal", family="llava", task="image-text-to-text", generates=True)
CLIP = Subject(category="multimodal", family="clip", task="zero-shot-image-classification")
LOCAL_CLIP = Subject(category="multimodal", family="clip")
SDXL = Subject(category="diffusion", family="unet", task="text-to-image", pipeline=Pipeline(steps=50, guided=True))
UNET = Subject(category="diffusion", family="unet", task="text-to-image")
BERT = Subject(category="embedding", family="bert", task="feature-extraction")


def call(subject: Subject, plain: Sizes, request: Sizes | None = None, **how: bool) -> CallPlan:
    """A call as an answer has it where nothing was measured."""
    request = request or Sizes()
    kind = kind_of(subject, "inference", request, **how)
    usual = usual_sizes(kind, subject, request, plain)
    sizes = Sizes(**{**usual.stated(), **request.stated()})
    return planned(CallPlan(kind=kind, subject=subject, sizes=usual), sizes, request)


@pytest.mark.parametrize(
    ("subject", "request_", "how", "kind"),
    [
        (WHISPER, Sizes(), {}, "transcription"),
        (WHISPER, Sizes(), {"forward": True}, "forward pass"),
        (CTC, Sizes(), {}, "transcription"),
        (HUBERT, Sizes(), {}, "recording"),
        (GPT, Sizes(), {}, "generation"),
        (GPT, Sizes(sequence_length=64), {}, "forward pass"),
        (GPT, Sizes(input_tokens=8, output_tokens=4), {"served": True}, "request"),
        (T5, Sizes(), {}, "forward pass"),
        (T5, Sizes(output_tokens=8), {}, "generation"),
        (LLAVA, Sizes(), {}, "generation"),
        (CLIP, Sizes(), {}, "image and text"),
        (LOCAL_CLIP, Sizes(), {}, "image and text"),
        (SDXL, Sizes(), {}, "image"),
        (SDXL, Sizes(), {"forward": True}, "forward pass"),
        (UNET, Sizes(), {}, "forward pass"),
        (BERT, Sizes(), {}, "forward pass"),
        (
            Subject(category="audio", family="musicgen", task="text-to-audio", generates=True),
            Sizes(),
            {},
            "forward pass",
        ),
        (Subject(), Sizes(), {}, "forward pass"),
    ],
)
def test_a_call_is_what_the_task_of_the_model_makes_of_it(subject, request_, how, kind) -> None:
    assert kind_of(subject, "inference", request_, **how) == kind


def test_a_training_step_is_one_whatever_the_model() -> None:
    assert {kind_of(subject, "training", Sizes()) for subject in (WHISPER, GPT, SDXL)} == {"training step"}


def test_thirty_seconds_of_speech_are_one_window_and_a_hundred_tokens_by_the_stated_rate() -> None:
    told = call(WHISPER, Sizes(audio_seconds=30.0))
    assert told.sizes == Sizes(audio_seconds=30.0, output_tokens=100)
    assert told.parts == (Part("prefill", 1), Part("decode", 99))
    document = told.document()
    assert (document.unit, document.what) == (
        "transcription",
        "30 s of audio: one encoder pass and 100 generated tokens",
    )
    assert document.items == {"audio_seconds": 30.0, "encoder_passes": 1, "output_tokens": 100}
    assert document.assumed.startswith("100 tokens, 3.33 a second")
    assert "150 words a minute" in document.assumed


def test_a_short_clip_costs_a_whole_window_and_a_long_one_a_window_for_each_thirty_seconds() -> None:
    short = call(WHISPER, Sizes(audio_seconds=30.0), Sizes(audio_seconds=1.5))
    assert (short.windows, short.sizes.output_tokens, short.parts[0]) == (1, 5, Part("prefill", 1))
    long = call(WHISPER, Sizes(audio_seconds=30.0), Sizes(audio_seconds=95.0))
    assert (long.windows, long.sizes.output_tokens) == (4, 317)
    assert long.parts == (Part("prefill", 4), Part("decode", 313))
    assert long.document().what == "95 s of audio: 4 encoder passes of 30 s and 317 generated tokens"
    assert long.run_sizes == Sizes(audio_seconds=30.0, output_tokens=80)
    assert long.traced_sizes == Sizes(audio_seconds=30.0)


def test_tokens_that_are_asked_for_are_not_assumed() -> None:
    told = call(WHISPER, Sizes(audio_seconds=30.0), Sizes(output_tokens=12))
    assert (told.sizes.output_tokens, told.document().assumed) == (12, None)


def test_a_model_without_a_decoder_hears_the_recording_in_one_pass() -> None:
    told = call(CTC, Sizes(audio_seconds=10.0), Sizes(audio_seconds=95.0))
    assert (told.hears, told.parts) == (True, (Part("forward", 1),))
    assert told.document().what == "95 s of audio in one pass"
    assert not told.composed


def test_an_image_is_text_encoders_steps_and_decoder_doubled_where_the_pipeline_is_guided() -> None:
    told = call(SDXL, Sizes(sequence_length=77, image_size=1024), Sizes(steps=30))
    assert told.sizes == Sizes(image_size=1024, steps=30)
    assert told.parts == (Part("text_encoder", 1, 2), Part("forward", 30, 2), Part("vae_decoder", 1, 1))
    assert told.document().what == "one image of 1024 × 1024 pixels in 30 steps, each with the prompt and without"
    assert told.document().items == {"steps": 30, "denoiser_passes": 60}
    assert told.run_sizes == Sizes(image_size=1024)
    plain = parts_of("inference", {"steps": 4, "image_size": 1024})
    assert plain == (Part("text_encoder", 1), Part("forward", 4), Part("vae_decoder", 1))


def test_where_forward_passes_alone_were_measured_a_generation_becomes_one() -> None:
    generation = CallPlan(kind="generation", subject=GPT, sizes=Sizes(input_tokens=512, output_tokens=128))
    assert planned(generation, Sizes(sequence_length=128), Sizes()).document().what == "a forward pass of 128 tokens"
    assert planned(generation, generation.sizes, Sizes()).document().what == (
        "a prompt of 512 tokens and 128 generated tokens"
    )


@pytest.mark.parametrize(
    ("subject", "plain", "what"),
    [
        (CLIP, Sizes(sequence_length=77, image_size=224, images=1), "one image and one text"),
        (
            LLAVA,
            Sizes(image_size=336, images=1, input_tokens=128),
            "one image, a prompt of 128 tokens and 128 generated tokens",
        ),
        (BERT, Sizes(sequence_length=1), "a forward pass of 1 token"),
        (
            Subject(category="video", family="xclip"),
            Sizes(sequence_length=77, image_size=224, frames=8),
            "a forward pass of 8 frames of 224 × 224 pixels and 77 tokens",
        ),
    ],
)
def test_what_one_call_is_is_said_in_a_line(subject: Subject, plain: Sizes, what: str) -> None:
    assert call(subject, plain).document().what == what


def test_only_speech_of_a_length_that_a_row_does_not_say_is_never_guessed() -> None:
    assert not call(WHISPER, Sizes(audio_seconds=30.0)).of_unsaid_rows
    assert call(SDXL, Sizes(image_size=1024)).of_unsaid_rows
    assert call(BERT, Sizes(sequence_length=128)).of_unsaid_rows


def test_pipelines_of_the_catalogue_have_their_steps_with_a_source() -> None:
    steps = {model.id: model.pipeline.steps for model in catalogue() if model.pipeline and model.variant != "small"}
    assert steps == {
        "stable-diffusion-v1-5/stable-diffusion-v1-5": 50,
        "stabilityai/stable-diffusion-xl-base-1.0": 50,
        "stabilityai/stable-diffusion-3-medium-diffusers": 28,
        "black-forest-labs/FLUX.1-dev": 50,
        "black-forest-labs/FLUX.1-schnell": 4,
    }
    assert all(model.pipeline.source for model in catalogue() if model.pipeline)
    assert not find("flux-dev").pipeline.guided
