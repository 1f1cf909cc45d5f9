"""whisper.cpp's `scripts/bench-all-gg.txt`: encoder and decoder of Whisper models on Apple and NVIDIA chips (MIT).

Columns: `device, device_label, os, backend, model, quantisation, threads, flash_attention, encoder_ms, decode_ms_per_token,
batch5_ms_per_token, prompt_ms_per_token, commit`. The encoder's time is of 30 s of audio; the others are of one token: decoded
alone, decoded in a batch of 5, and read as prompt. None of them is a transcription, so they are measurements of parts:
`<model>/encoder` has a latency, `<model>/decoder` times per token, the prompt's in the option `phase`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from domain.catalogues import models
from ingest.importers.draft import Draft
from ingest.importers.published.published_table import PublishedTable, Row, needed
from ingest.importers.reading import number, text, whole
from ingest.importers.refusals import BadRow
from ingest.importers.tables.csv_drafts import hardware_named

__all__ = ["WHISPER_CPP"]

_DEVICES = {
    "M1 Pro": ("Apple M1 Pro GPU", "gpu"),
    "M2 Ultra": ("Apple M2 Ultra GPU", "gpu"),
    "M5 Max": ("Apple M5 Max GPU", "gpu"),
    "RTX 5090": ("NVIDIA GeForce RTX 5090", "gpu"),
    "DGX Spark": ("NVIDIA DGX Spark", "gpu"),
    "V100": ("V100", "gpu"),
}
_QUANTISED = {"f16": "fp16", "q8_0": "int8", "q5_0": "int5", "q5_1": "int5", "q4_0": "int4", "q4_1": "int4"}
_SECONDS = 30.0


def _drafts(line: int, row: Row) -> Iterator[Draft]:
    device, backend, model, quantisation = needed(row, "device", "backend", "model", "quantisation")
    if quantisation not in _QUANTISED:
        raise BadRow("quantisation", f"is none of {', '.join(_QUANTISED)}")
    name, kind = _DEVICES.get(device, (device, None))
    known = models.find(f"openai/whisper-{model}")
    identity = known.id if known else f"openai/whisper-{model}"
    platform = "cuda" if "CUDA" in backend else "mps" if "METAL" in backend else "other"
    execution: dict[str, Any] = {
        "platform": platform,
        "runtime": {"name": "whisper.cpp", "version": text(row, "commit")},
        "precision": _QUANTISED[quantisation],
        "threads": whole(row, "threads"),
        "options": {"flash_attention": row.get("flash_attention") == "1", "quantisation": quantisation},
    }

    def part(of: str, batch: int, metrics: dict[str, Any], **options: str) -> Draft:
        return Draft(
            row=line,
            model={"id": f"{identity}/{of}", "category": "audio", "family": "whisper"},
            workload={
                "mode": "inference",
                "scenario": "single_stream",
                "batch_size": batch,
                "audio_seconds": _SECONDS if of == "encoder" else None,
            },
            execution={**execution, "options": {**execution["options"], **options}},
            hardware=hardware_named(name, kind),
            metrics=metrics,
        )

    found = {field: number(row, field) for field in _TIMES}
    if not any(found.values()):
        raise BadRow("encoder_ms", "no time is given")
    if found["encoder_ms"]:
        yield part("encoder", 1, {"latency_ms": {"mean": found["encoder_ms"]}})
    if found["decode_ms_per_token"]:
        yield part("decoder", 1, {"tpot_ms": found["decode_ms_per_token"]})
    if found["batch5_ms_per_token"]:
        yield part("decoder", 5, {"tpot_ms": found["batch5_ms_per_token"]})
    if found["prompt_ms_per_token"]:
        yield part("decoder", 1, {"tpot_ms": found["prompt_ms_per_token"]}, phase="prompt")


_TIMES = ("encoder_ms", "decode_ms_per_token", "batch5_ms_per_token", "prompt_ms_per_token")
WHISPER_CPP = PublishedTable(
    "whisper-cpp",
    "whisper.cpp bench-all results (ggml-org), as CSV",
    columns={"backend", "quantisation", "flash_attention", *_TIMES},
    drafts=_drafts,
    licence="MIT",
    reference="ggml-org/whisper.cpp scripts/bench-all-gg.txt",
)
