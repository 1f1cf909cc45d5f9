"""What one call of a model is to the person who asks: a transcription, a generation, an image, or one forward pass.

A model's task decides, `--call forward` asks for a single forward pass, and the sizes of an item say how much work it
is. Times, rates and evidence of an answer are of this call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from domain.answers import Call, Sizes

__all__ = [
    "CALLS",
    "PROMPT_TOKENS",
    "TOKENS_PER_S",
    "TOKENS_SOURCE",
    "USUAL_REQUEST",
    "CallPlan",
    "Part",
    "Pipeline",
    "Subject",
    "kind_of",
    "parts_of",
    "planned",
    "usual_sizes",
    "window_of",
]

CALLS = ("usual", "forward")
"""What can be asked for: what a user of the model means by a call, or a single forward pass."""
TRANSCRIPTION, RECORDING, GENERATION, IMAGE, PAIR = (
    "transcription",
    "recording",
    "generation",
    "image",
    "image and text",
)
FORWARD, TRAINING, REQUEST = "forward pass", "training step", "request"

PROMPT_TOKENS = 4
"""Start, language, task and no-timestamps: what every Whisper transcription begins with."""
TOKENS_PER_S = 150 / 60 * 4 / 3
TOKENS_SOURCE = "150 words a minute (NCVS), 4 tokens for 3 words (OpenAI)"
"""National Center for Voice and Speech: the average rate of English speakers in the US; OpenAI: What are tokens."""
USUAL_REQUEST = Sizes(input_tokens=1024, output_tokens=128)
"""What one request of a language model is where nobody says it."""
_WINDOWS_S = {"whisper": 30.0}
"""Seconds of audio that an encoder always reads, by family: shorter recordings are padded, longer ones cut."""
_SPEECH = "automatic-speech-recognition"
_MADE_SOUND = ("text-to-audio", "text-to-speech")
_OF_IMAGE_AND_TEXT = ("zero-shot-image-classification",)
_TWO_TOWERS = ("clip", "siglip", "chinese_clip", "altclip", "align", "groupvit")
"""Families that compare an image with a text, whose configs name no task."""
_READS_IMAGES = ("image-text-to-text", "image-to-text")


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """How a diffusion pipeline makes an image: usual denoising steps, and whether each also runs without the prompt."""

    steps: int
    guided: bool


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What of a model decides what a call of it is; `generates` where its prompt and its decoding step are traced."""

    category: str | None = None
    family: str | None = None
    task: str | None = None
    generates: bool = False
    pipeline: Pipeline | None = None


class Part(NamedTuple):
    """One phase of a call as it is traced: how often it runs, with how many items of a batch each time."""

    phase: str
    times: float
    items: int = 1


def window_of(family: str | None) -> float | None:
    """Return the seconds of audio that the encoder of a family always reads; None where it reads any length."""
    return _WINDOWS_S.get(family or "")


def kind_of(subject: Subject, mode: str, request: Sizes, *, forward: bool = False, served: bool = False) -> str:
    """Return what one call is: the unit that an answer says."""
    if mode == "training":
        return TRAINING
    if served:
        return REQUEST
    if forward or request.sequence_length is not None:
        return GENERATION if request.output_tokens and not forward else FORWARD
    if subject.pipeline is not None:
        return IMAGE
    if subject.category == "audio" and subject.task not in _MADE_SOUND:
        return TRANSCRIPTION if subject.task == _SPEECH else RECORDING
    if request.output_tokens:
        return GENERATION
    if subject.task in _OF_IMAGE_AND_TEXT or (subject.task is None and subject.family in _TWO_TOWERS):
        return PAIR
    generates = subject.category == "text_generation" or subject.task in _READS_IMAGES
    return GENERATION if generates and subject.generates else FORWARD


def usual_sizes(kind: str, subject: Subject, request: Sizes, plain: Sizes) -> Sizes:
    """Return the sizes of a call of this kind where the request does not say them; `plain` are those of a forward pass."""
    if kind == TRANSCRIPTION:
        seconds = request.audio_seconds or window_of(subject.family) or plain.audio_seconds
        tokens = None if seconds is None or not subject.generates else max(1, math.ceil(seconds * TOKENS_PER_S - 1e-9))
        return Sizes(audio_seconds=seconds, output_tokens=tokens)
    if kind == IMAGE and subject.pipeline is not None:
        return Sizes(image_size=plain.image_size, steps=subject.pipeline.steps)
    if kind == GENERATION:
        return replace(plain, sequence_length=None, output_tokens=plain.output_tokens or USUAL_REQUEST.output_tokens)
    return plain


def parts_of(
    mode: str, sizes: Mapping[str, Any], *, family: str | None = None, guided: bool = False
) -> tuple[Part, ...]:
    """Return the phases of which a call of these sizes consists, in the order in which they run.

    Every window of audio is read by a prefill that gives its first token; a step of a guided pipeline runs the denoiser
    for the prompt and without it.
    """
    if mode == "training":
        return (Part("training", 1),)
    if sizes.get("steps"):
        both = 2 if guided else 1
        return (Part("text_encoder", 1, both), Part("forward", float(sizes["steps"]), both), Part("vae_decoder", 1))
    if sizes.get("output_tokens"):
        windows = _windows(sizes.get("audio_seconds"), family)
        return (Part("prefill", windows), Part("decode", max(0.0, sizes["output_tokens"] - windows)))
    return (Part("forward", _windows(sizes.get("audio_seconds"), family)),)


def _windows(seconds: float | None, family: str | None) -> int:
    window = window_of(family)
    return 1 if window is None or seconds is None else max(1, math.ceil(seconds / window))


class CallPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model at its sizes: of which kind, and how many requests are under way at a time."""

    kind: str
    sizes: Sizes
    subject: Subject
    mode: str = "inference"
    concurrency: int | None = None
    assumed: bool = False
    """Whether the number of tokens follows from the length of the speech."""

    @property
    def guided(self) -> bool:
        """Whether each denoising step also runs without the prompt."""
        return self.subject.pipeline is not None and self.subject.pipeline.guided

    @property
    def parts(self) -> tuple[Part, ...]:
        """The phases of the call."""
        sizes = self.sizes.stated()
        return parts_of(self.mode, sizes, family=self.subject.family, guided=self.guided)

    @property
    def windows(self) -> int:
        """How often the encoder reads."""
        return _windows(self.sizes.audio_seconds, self.subject.family)

    @property
    def hears(self) -> bool:
        """Whether an item is a recording, so that its rate is a multiple of real time."""
        return self.kind in (TRANSCRIPTION, RECORDING) and self.sizes.audio_seconds is not None

    @property
    def composed(self) -> bool:
        """Whether measurements of parts of the model stand for the call together."""
        return self.kind == IMAGE or (self.kind == TRANSCRIPTION and self.sizes.output_tokens is not None)

    @property
    def of_unsaid_rows(self) -> bool:
        """Whether an imported row that says no sizes is taken for such a call: the length of speech is never guessed."""
        return not (self.kind == TRANSCRIPTION and self.sizes.output_tokens is not None)

    @property
    def traced_sizes(self) -> Sizes:
        """The sizes at which the phases of the call are traced: those of one window of audio."""
        window = window_of(self.subject.family)
        audio = self.sizes.audio_seconds if window is None or self.sizes.audio_seconds is None else window
        return replace(self.sizes, audio_seconds=audio, output_tokens=None, steps=None)

    @property
    def run_sizes(self) -> Sizes:
        """The sizes of the run of `assay bench` that comes nearest: one window of audio, one step of a denoiser."""
        if self.kind == IMAGE:
            return Sizes(image_size=self.sizes.image_size)
        tokens = self.sizes.output_tokens
        share = None if tokens is None else math.ceil(tokens / self.windows)
        return replace(self.traced_sizes, output_tokens=share)

    def document(self) -> Call:
        """Return the call as an answer says it."""
        what, items = _WORDS[self.kind](self)
        tokens = self.sizes.output_tokens
        note = f"{tokens:,} tokens, {TOKENS_PER_S:.3g} a second: {TOKENS_SOURCE}" if self.assumed else None
        return Call(unit=self.kind, what=what, items=items, assumed=note)


def planned(call: CallPlan, sizes: Sizes, request: Sizes) -> CallPlan:
    """Return the call at the sizes that were chosen for an answer; what was measured may make it a forward pass.

    `request` are the sizes that somebody asked for.
    """
    kind = call.kind
    if kind in (GENERATION, FORWARD):
        kind = GENERATION if sizes.output_tokens else FORWARD
    assumed = kind == TRANSCRIPTION and sizes.output_tokens is not None and request.output_tokens is None
    return replace(call, kind=kind, sizes=sizes, assumed=assumed)


_Said = tuple[str, dict[str, float]]


def _transcription(call: CallPlan) -> _Said:
    seconds, tokens = call.sizes.audio_seconds or 0.0, call.sizes.output_tokens
    if tokens is None:
        text = " and one text" if call.sizes.sequence_length else ""
        return f"{seconds:g} s of audio{text} in one pass", {"audio_seconds": seconds, "passes": 1}
    windows = call.windows
    passes = "one encoder pass" if windows == 1 else f"{windows} encoder passes of {window_of(call.subject.family):g} s"
    items = {"audio_seconds": seconds, "encoder_passes": windows, "output_tokens": tokens}
    return f"{seconds:g} s of audio: {passes} and {_counted(tokens, 'generated token')}", items


def _recording(call: CallPlan) -> _Said:
    if call.sizes.audio_seconds is None:
        return _forward(call)
    return _transcription(call) if call.sizes.output_tokens is None else _generation(call)


def _generation(call: CallPlan) -> _Said:
    sizes = call.sizes
    read = [_images(sizes.images)] if sizes.image_size is not None else []
    if sizes.audio_seconds is not None:
        read.append(f"{sizes.audio_seconds:g} s of audio")
    if sizes.input_tokens is not None:
        read.append(f"a prompt of {_counted(sizes.input_tokens, 'token')}")
    made = _counted(sizes.output_tokens or 0, "generated token")
    items = {
        name: float(size)
        for name, size in sizes.stated().items()
        if name in ("input_tokens", "output_tokens", "images")
    }
    return " and ".join([*([", ".join(read)] if read else []), made]), items


def _image(call: CallPlan) -> _Said:
    side, steps = call.sizes.image_size, call.sizes.steps or 0
    pixels = f" of {side} × {side} pixels" if side else ""
    twice = ", each with the prompt and without" if call.guided else ""
    passes = steps * (2 if call.guided else 1)
    return f"one image{pixels} in {_counted(steps, 'step')}{twice}", {"steps": steps, "denoiser_passes": passes}


def _pair(call: CallPlan) -> _Said:
    images = call.sizes.images or 1
    return f"{_images(images)} and one text", {"images": images, "texts": 1}


def _forward(call: CallPlan) -> _Said:
    size = _one_item(call.sizes)
    kind = f"a {call.kind}" if call.kind in (FORWARD, TRAINING) else "a forward pass"
    return f"{kind} of {size}" if size else kind, {}


def _request(call: CallPlan) -> _Said:
    sizes, together = call.sizes, call.concurrency or 1
    items = {name: float(size) for name, size in sizes.stated().items() if name in ("input_tokens", "output_tokens")}
    said = [
        f"{size:,} tokens {way}" for size, way in ((sizes.input_tokens, "in"), (sizes.output_tokens, "out")) if size
    ]
    at_once = f", {together} at a time" if together > 1 else ""
    return f"a request{' of ' + ' and '.join(said) if said else ''}{at_once}", items


_WORDS = {
    TRANSCRIPTION: _transcription,
    RECORDING: _recording,
    GENERATION: _generation,
    IMAGE: _image,
    PAIR: _pair,
    FORWARD: _forward,
    TRAINING: _forward,
    REQUEST: _request,
}


def _one_item(sizes: Sizes) -> str:
    said = []
    if sizes.image_size is not None:
        many = _images(sizes.images) if sizes.frames is None else _counted(sizes.frames, "frame")
        said.append(f"{many} of {sizes.image_size} × {sizes.image_size} pixels")
    if sizes.audio_seconds is not None:
        said.append(f"{sizes.audio_seconds:g} s of audio")
    length = sizes.sequence_length or sizes.input_tokens
    if length is not None:
        said.append(_counted(length, "token"))
    return " and ".join(said)


def _images(count: int | None) -> str:
    return "one image" if count in (None, 1) else f"{count} images"


def _counted(count: float, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
