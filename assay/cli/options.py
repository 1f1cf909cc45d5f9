"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import rich_click as click

__all__ = [
    "AMOUNTS",
    "AS_OF",
    "BATCHES",
    "DEVICE",
    "NUMBERS",
    "OBJECTIVE",
    "PART",
    "POINTS",
    "WORDS",
    "as_json",
    "engined",
    "modelled",
    "noded",
    "served",
    "thresholds_option",
    "verbose",
]

Verb = TypeVar("Verb", bound=Callable[..., Any])


class Words(click.ParamType[list[str]]):
    """`cpu,openvino`: words between commas."""

    name = "a,b"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """Return the words in order; an empty one is wrong usage."""
        if isinstance(value, list):
            return value
        words = [word.strip() for word in str(value).split(",")]
        if not all(words):
            self.fail(f"{value!r} has an empty word; write a,b", param, ctx)
        return words


class Numbers(click.ParamType[list[int]]):
    """`1,8,32`: whole numbers of 1 or more between commas."""

    name = "1,8"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Return the numbers in order; anything under 1 is wrong usage."""
        if isinstance(value, list):
            return value
        try:
            numbers = [int(word) for word in str(value).split(",")]
        except ValueError:
            self.fail(f"{value!r} is not a list of whole numbers; write 1,8", param, ctx)
        if any(number < 1 for number in numbers):
            self.fail(f"{value!r}: each must be 1 or more", param, ctx)
        return numbers


class Batches(Numbers):
    """`1,8,32` or `1..64`: whole numbers, or the powers of two from one to another, both ends with them."""

    name = "1,8|1..64"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Return the numbers in order."""
        first, dots, last = str(value).partition("..")
        if isinstance(value, list) or not dots:
            return super().convert(value, param, ctx)
        low, high = (super(Batches, self).convert(end, param, ctx)[0] for end in (first, last))
        if low > high:
            self.fail(f"{value!r} ends before it begins; write 1..64", param, ctx)
        powers = (1 << power for power in range(high.bit_length()))
        return sorted({low, high, *(size for size in powers if low <= size <= high)})


class Objective(click.ParamType[str | dict[str, float]]):
    """`latency`, or `latency:0.7,cost:0.3`: one name, or names with weights."""

    name = "NAME[:WEIGHT,…]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | dict[str, float]:
        """Return the name, or the weights; the service knows which names there are."""
        if isinstance(value, dict) or ":" not in value:
            return value
        weights: dict[str, float] = {}
        for part in value.split(","):
            name, colon, weight = part.strip().partition(":")
            try:
                weights[name] = float(weight) if colon else 1.0
            except ValueError:
                self.fail(f"{part!r} has no number for its weight; write latency:0.7,cost:0.3", param, ctx)
        return weights


class DeviceAtHand(click.ParamType[dict[str, Any]]):
    """`cuda:0=nvidia-l4@6000`: a program's name for a device, its hardware, and the MB that are free on it."""

    name = "NAME=SLUG[@MB]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        """Return the device as the question has it; without a name it goes by its hardware."""
        if isinstance(value, dict):
            return value
        name, equals, rest = str(value).partition("=")
        hardware, at, free = (rest if equals else name).partition("@")
        document: dict[str, Any] = {"hardware": hardware} | ({"name": name} if equals else {})
        try:
            return document | ({"free_memory_mb": float(free)} if at else {})
        except ValueError:
            self.fail(f"{free!r} is not a number of MB; write cuda:0=nvidia-l4@6000", param, ctx)


class Amounts(click.ParamType[list[float]]):
    """`0.5,10`: numbers above 0 between commas."""

    name = "0.5,10"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[float]:
        """Return the numbers in order; anything not above 0 is wrong usage."""
        if isinstance(value, list):
            return value
        try:
            amounts = [float(word) for word in str(value).split(",")]
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers; write 0.5,10", param, ctx)
        if not all(0 < amount < float("inf") for amount in amounts):
            self.fail(f"{value!r}: each must be above 0", param, ctx)
        return amounts


class Points(click.ParamType[float]):
    """`0.5pt`: percentage points, 0 to 100; the unit may be left out."""

    name = "POINTS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the points; anything else is wrong usage."""
        text = str(value).strip().lower().removesuffix("pt").strip()
        try:
            points = float(text)
        except ValueError:
            self.fail(f"{value!r} is no number of percentage points; write 0.5pt", param, ctx)
        if not 0 <= points <= 100:
            self.fail(f"{value!r}: between 0 and 100 points", param, ctx)
        return points


class State(click.ParamType[int | str]):
    """`184203` or `release 1.4`: a position of the log, or the name that `assay snapshot create` gave to one."""

    name = "POSITION|SNAPSHOT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the position, or the name as it is: the service knows what it stands for."""
        text = str(value)
        if text.isascii() and text.isdigit():
            return int(text)
        if not text[:1].isalpha():
            self.fail(f"{text!r} is neither a position of the log nor the name of a snapshot", param, ctx)
        return text


class Part(click.ParamType[tuple[int, int]]):
    """`2/8`: a part of a plan and how many parts there are."""

    name = "K/N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Return both numbers; a part that is not there is wrong usage."""
        if isinstance(value, tuple):
            return value
        number, _, count = str(value).partition("/")
        if not (number + count).isascii() or not number.isdecimal() or not count.isdecimal():
            self.fail(f"{value!r} is no part; write 2/8 for the second of eight", param, ctx)
        if not 1 <= int(number) <= int(count):
            self.fail(f"{value!r}: parts count from 1 to N; write 1/8 to 8/8", param, ctx)
        return int(number), int(count)


PART = Part()
WORDS = Words()
NUMBERS = Numbers()
BATCHES = Batches()
OBJECTIVE = Objective()
DEVICE = DeviceAtHand()
AMOUNTS = Amounts()
POINTS = Points()
AS_OF = State()


def thresholds_option(verb: Verb) -> Verb:
    """Add `--thresholds`."""
    return click.option(
        "--thresholds",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Thresholds per configuration and figure, a YAML file (docs/regressions.md); --alert is for the rest.",
    )(verb)


def served(verb: Verb) -> Verb:
    """Add `--server` and `--token`."""
    verb = click.option("--token", envvar="ASSAY_TOKEN", metavar="TOKEN", help="Bearer token (ASSAY_TOKEN).")(verb)
    return click.option(
        "--server", envvar="ASSAY_SERVER", metavar="URL", help="Service to ask (ASSAY_SERVER); else the local one."
    )(verb)


def as_json(verb: Verb) -> Verb:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="The answer as JSON, alone on stdout.")(verb)


def noded(verb: Verb) -> Verb:
    """Add the options that name the machines of a training on ranks."""
    for option in (
        click.option(
            "--node-wait",
            "node_wait_s",
            type=click.FloatRange(min=1),
            default=120,
            show_default=True,
            metavar="S",
            help="How long nodes wait for each other.",
        ),
        click.option(
            "--node-rank", type=click.IntRange(min=0), metavar="K", help="Which of --nodes this is; 0 has the events."
        ),
        click.option(
            "--nodes",
            type=WORDS,
            metavar="HOST[:PORT],HOST…",
            help="Machines whose ranks train together; run the same command on each.",
        ),
    ):
        verb = option(verb)
    return verb


def verbose(verb: Verb) -> Verb:
    """Add `--verbose`."""
    return click.option("--verbose", is_flag=True, help="Also what each figure rests on, and why.")(verb)


def modelled(verb: Verb) -> Verb:
    """Add the options that say what a model is asked to do."""
    for option in reversed(
        (
            click.option(
                "--mode",
                type=click.Choice(["inference", "training"]),
                default="inference",
                show_default=True,
                help="What the model is asked to do.",
            ),
            click.option("--sequence-length", type=click.IntRange(min=1), metavar="N", help="Tokens of one item."),
            click.option("--image-size", type=click.IntRange(min=1), metavar="N", help="Side of one image in pixels."),
            click.option("--audio-seconds", type=float, metavar="S", help="Seconds of one recording."),
            click.option("--frames", type=click.IntRange(min=1), metavar="N", help="Frames of one clip."),
            click.option("--input-tokens", type=click.IntRange(min=1), metavar="N", help="Tokens of the prompt."),
            click.option("--output-tokens", type=click.IntRange(min=1), metavar="N", help="Tokens to generate."),
            click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Denoising steps of one image."),
            click.option(
                "--call",
                type=click.Choice(["usual", "forward"]),
                help="What one call is: as a user of the model means it (a transcription, an image), or one forward pass.",
            ),
            click.option("--concurrency", type=click.IntRange(min=1), metavar="N", help="Requests at a time, served."),
        )
    ):
        verb = option(verb)
    return verb


def engined(verb: Verb) -> Verb:
    """Add the options that say how a language model is served."""
    for option in reversed(
        (
            click.option(
                "--runtime",
                "--engine",
                "runtime",
                metavar="NAME",
                help="Engine of a language model: vllm, sglang, tensorrt-llm, llama.cpp, llama.cpp-vulkan, mlx, openvino, "
                "transformers; or runtime of a traced model: torch, tensorrt, onnxruntime, tensorflow, qairt, tflite.",
            ),
            click.option(
                "--offload",
                is_flag=True,
                help="Layers of a language model that do not fit stay in the host's memory: an estimate.",
            ),
            click.option(
                "--host-memory-mb", type=float, metavar="X", help="With --offload: the host's memory; else 64 GB."
            ),
            click.option(
                "--host-bandwidth-gb-per-s",
                type=float,
                metavar="X",
                help="With --offload: how fast the host reads its memory; else 89.6 (two channels of DDR5-5600).",
            ),
        )
    ):
        verb = option(verb)
    return verb
