"""Evidence of a call from measurements of its parts, and the rates at which calls are done.

Published figures of Whisper are of its encoder and of a token of its decoder, those of diffusion pipelines of their
text encoder, denoiser and decoder of pictures. Parts of one device and software add up to a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from domain.calls import PROMPT_TOKENS, CallPlan
from domain.canonical import canonical, drop_nulls
from domain.catalogues import models
from domain.configuration import configuration_key
from predictor.answering.option import Option

__all__ = ["PART_COLUMNS", "composed_options", "part_names", "rated"]

Record = Mapping[str, Any]
_NAMED = {
    "encoder": "encoder",
    "decoder": "decoder",
    "text_encoder": "text_encoder",
    "unet": "denoiser",
    "transformer": "denoiser",
    "vae": "vae_decoder",
    "vae_decoder": "vae_decoder",
}
"""Parts by the names that follow a model's id in rows of them."""
_SOFTWARE = (
    "hardware_id",
    "hardware_count",
    "platform",
    "precision",
    "runtime_name",
    "runtime_version",
    "compiled",
    "layout",
    "threads",
    "streams",
)
PART_COLUMNS = (
    "position",
    "event_id",
    "source",
    "time",
    "model_id",
    "scenario",
    "batch_size",
    "audio_seconds",
    "image_size",
    "options",
    "execution",
    "latency_mean_ms",
    "latency_p50_ms",
    "latency_p50_ci95_low_ms",
    "latency_p50_ci95_high_ms",
    "ttft_ms",
    "tpot_ms",
    "peak_memory_bytes",
    "verdict",
    "origin",
    "provenance_source",
    *_SOFTWARE,
)
"""Columns of the view `measurements` that parts are read from."""


class _Figure(NamedTuple):
    """A time in ms of one part with its interval, and the events that it rests on."""

    ms: float
    low: float
    high: float
    rows: tuple[Record, ...]

    @property
    def bounded(self) -> bool:
        return self.low < self.high


class _Term(NamedTuple):
    """One summand of a call: a part, how often it runs, and how it is said."""

    figure: _Figure
    times: float
    words: str


def part_names(model: str) -> dict[str, str]:
    """Return the ids under which parts of a model are measured, each with the part that it is."""
    names = {f"{model}/{name}": part for name, part in _NAMED.items()}
    entry = models.find(model)
    return names if entry is None else names | {name: part for part, ids in entry.parts.items() for name in ids}


def composed_options(parts: Sequence[Record], rows: Sequence[Record], call: CallPlan, model: str) -> list[Option]:
    """Return one option for each device and software whose measured parts add up to the call.

    `parts` are rows of parts of the model, `rows` those of the model itself, of which times to the first token and per
    further token make a transcription. Simulated, invalid and served rows are none.
    """
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for row in parts:
        if _usable(row):
            groups.setdefault(_software(row), []).append(row)
    made = [_option(terms, call, model) for group in groups.values() if (terms := _terms(group, call))]
    return made + [_option(terms, call, model) for terms in _timed_by_token(rows, call)]


def _usable(row: Record) -> bool:
    return (
        row["origin"] in ("measured", "imported")
        and row.get("verdict") != "invalid"
        and row.get("scenario") in (None, "single_stream")
        and row.get("batch_size") in (None, 1)
    )


def _software(row: Record) -> tuple[Any, ...]:
    options = {name: value for name, value in _options(row).items() if name != "phase"}
    return (*(row.get(name) for name in _SOFTWARE), canonical(options))


def _options(row: Record) -> dict[str, Any]:
    options = row.get("options") or {}
    return dict(msgspec.json.decode(options) if isinstance(options, str) else options)


def _terms(rows: Sequence[Record], call: CallPlan) -> list[_Term]:
    """The summands of a call by the parts that a device was measured with; none where one is missing."""
    return _of_image(rows, call) if call.sizes.steps else _of_speech(rows, call)


def _of_speech(rows: Sequence[Record], call: CallPlan) -> list[_Term]:
    """Encoder and prompt of every window of audio, and the tokens after the first; a prompt that was not timed is decoded."""
    encoder = _figure([row for row in rows if row["part"] == "encoder"], "latency_ms")
    tokens = [row for row in rows if row["part"] == "decoder"]
    # A published step of an exported decoder is a call of it.
    decoded = [row for row in tokens if _options(row).get("phase") != "prompt"]
    step = _figure(decoded, "tpot_ms") or _figure(decoded, "latency_ms")
    if encoder is None or step is None:
        return []
    prompt = _figure([row for row in tokens if _options(row).get("phase") == "prompt"], "tpot_ms")
    windows, further = call.windows, max(0, (call.sizes.output_tokens or 1) - call.windows)
    return [
        _Term(encoder, windows, f"encoder {encoder.ms:.4g} ms for 30 s"),
        _Term(
            prompt or step,
            windows * PROMPT_TOKENS,
            f"prompt {PROMPT_TOKENS} × {prompt.ms:.3g} ms" if prompt else f"prompt {PROMPT_TOKENS} steps",
        ),
        _Term(step, further, f"{further:,} further tokens of {step.ms:.3g} ms"),
    ]


def _of_image(rows: Sequence[Record], call: CallPlan) -> list[_Term]:
    sides = {row["image_size"] for row in rows} - {None}
    if sides - {call.sizes.image_size}:
        return []
    said = {"text_encoder": "text encoder", "denoiser": "denoiser", "vae_decoder": "VAE decoder"}
    named = {"text_encoder": "text_encoder", "forward": "denoiser", "vae_decoder": "vae_decoder"}
    terms = []
    for part in call.parts:
        figure = _figure([row for row in rows if row["part"] == named[part.phase]], "latency_ms")
        if figure is None:
            return []
        times = part.times * part.items
        terms.append(_Term(figure, times, f"{said[named[part.phase]]} {times:g} × {figure.ms:.4g} ms"))
    return terms


def _timed_by_token(rows: Sequence[Record], call: CallPlan) -> list[list[_Term]]:
    """Transcriptions from times to the first token and per token; of several prompts the shortest counts, as ours is short."""
    if not call.sizes.output_tokens:
        return []
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for row in rows:
        of_call = (
            row.get("audio_seconds") == call.sizes.audio_seconds and row["output_tokens"] == call.sizes.output_tokens
        )
        one_window = row.get("audio_seconds") in (None, call.traced_sizes.audio_seconds)
        if _usable(row) and row.get("ttft_ms") and row.get("tpot_ms") and one_window and not of_call:
            groups.setdefault(_software(row), []).append(row)
    made = []
    for group in groups.values():
        shortest = min(row.get("input_tokens") or 0 for row in group)
        chosen = [row for row in group if (row.get("input_tokens") or 0) == shortest]
        first, token = _figure(chosen, "ttft_ms"), _figure(chosen, "tpot_ms")
        if first is None or token is None:
            continue
        further = max(0, call.sizes.output_tokens - call.windows)
        made.append(
            [
                _Term(first, call.windows, f"first token after {first.ms:.4g} ms"),
                _Term(token, further, f"{further:,} further tokens of {token.ms:.3g} ms"),
            ]
        )
    return made


def _figure(rows: Sequence[Record], name: str) -> _Figure | None:
    """The newest time of a part, measured before imported; the interval is that of its runs, else its own."""
    timed = [(row, ms) for row in rows if (ms := _time(row, name)) is not None]
    ours = [item for item in timed if item[0]["origin"] == "measured"]
    timed = ours or timed
    if not timed:
        return None
    row, ms = max(timed, key=lambda item: (*_dated(item[0]), item[0]["position"]))
    low, high = row.get("latency_p50_ci95_low_ms"), row.get("latency_p50_ci95_high_ms")
    ends = [ms, *(item for _, item in timed)]
    if name == "latency_ms" and low is not None and high is not None:
        ends += [low, high]
    return _Figure(ms, min(ends), max(ends), (row,))


def _time(row: Record, name: str) -> float | None:
    if name != "latency_ms":
        return row.get(name)
    p50 = row.get("latency_p50_ms")
    return row.get("latency_mean_ms") if p50 is None else p50


def _dated(row: Record) -> tuple[bool, str]:
    time = row.get("time")
    return time is not None, "" if time is None else time.isoformat()


def _option(terms: Sequence[_Term], call: CallPlan, model: str) -> Option:
    latency = sum(term.figure.ms * term.times for term in terms)
    bounded = any(term.figure.bounded for term in terms)
    rows = list({str(row["event_id"]): row for term in terms for row in term.figure.rows}.values())
    first = terms[0].figure.rows[0]
    origin = "measured" if all(row["origin"] == "measured" for row in rows) else "imported"
    peaks = [row.get("peak_memory_bytes") for row in rows]
    times = [row.get("time") for row in rows]
    return Option(
        hardware=first["hardware_id"],
        platform=first["platform"],
        precision=first.get("precision") or "unknown",
        batch_size=1,
        basis=origin,
        origin=origin,
        latency_ms=latency,
        low_ms=sum(term.figure.low * term.times for term in terms) if bounded else None,
        high_ms=sum(term.figure.high * term.times for term in terms) if bounded else None,
        covered=bounded,
        is_mean=True,
        throughput_per_s=1e3 / latency,
        peak_memory_bytes=None if None in peaks else float(sum(peak for peak in peaks if peak)),
        runtime=first.get("runtime_name"),
        runtime_version=first.get("runtime_version"),
        compiled=bool(first.get("compiled")),
        layout=first.get("layout"),
        count=int(first.get("hardware_count") or 1),
        runs=1,
        verdict=first.get("verdict"),
        evidence=tuple(str(row["event_id"]) for row in rows),
        why=_why(terms, call, first, origin),
        key=_key(first, call, model),
        position=max(int(row["position"]) for row in rows),
        measured_at=None if None in times else min(time for time in times if time is not None),
    )


def _why(terms: Sequence[_Term], call: CallPlan, first: Record, origin: str) -> str:
    """Name the parts, how many windows they are of, what is assumed, and who reported them."""
    windows = f"{call.windows} windows, each: " if call.hears and call.windows > 1 else ""
    text = f"{origin} parts added up: {windows}{', '.join(term.words for term in terms if term.times)}"
    if call.sizes.output_tokens:
        text += f"; {call.sizes.output_tokens:,} tokens {'assumed' if call.assumed else 'in all'}"
    source = first.get("provenance_source")
    text += f"; reported by {source}" if origin == "imported" and source else ""
    return text + (", undated" if origin == "imported" and first.get("time") is None else "")


def _key(first: Record, call: CallPlan, model: str) -> str | None:
    """Return the name that a measurement of the whole call would have; None where its execution was not read."""
    workload = {"mode": call.mode, "scenario": "single_stream", "batch_size": 1, **call.sizes.stated()}
    execution = first.get("execution")
    if execution is None:
        return None
    told = dict(msgspec.json.decode(execution) if isinstance(execution, str) else execution)
    count = int(first.get("hardware_count") or 1)
    return configuration_key(
        canonical(drop_nulls(workload)).decode(),
        canonical(drop_nulls(told)).decode(),
        model,
        first["hardware_id"],
        count,
    )[1]


def rated(options: Iterable[Option], call: CallPlan) -> list[Option]:
    """Return the options with the rates of their calls: tokens a second, and seconds of audio a second of work."""
    return [_rated(option, call) for option in options]


def _rated(option: Option, call: CallPlan) -> Option:
    rate, latency, tokens = option.throughput_per_s, option.latency_ms, call.sizes.output_tokens
    if rate is None or option.concurrency is not None:
        return option
    if call.hears and call.sizes.audio_seconds:
        option = msgspec.structs.replace(option, realtime_factor=rate * call.sizes.audio_seconds)
    if not tokens or option.tokens_per_s is not None or not latency:
        return option
    slow, fast = option.high_ms, option.low_ms
    return msgspec.structs.replace(
        option,
        tokens_per_s=rate * tokens,
        tokens_low_per_s=rate * tokens * latency / slow if slow else None,
        tokens_high_per_s=rate * tokens * latency / fast if fast else None,
    )
