"""Parts: what events say again and again. Each distinct text is read once, by the gate's own types, into one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from domain.canonical import canonical
from domain.configuration import Execution, Hardware, Identifier, Model, Workload, canonical_part
from domain.errors import InvalidInput
from domain.payloads import Environment, Metrics, Observed, Provenance, SamplesReference, Validity
from domain.verdicts import energy_verdict
from ingest.projection.names import Names

__all__ = ["PARTS", "Dimension", "Poison", "check_metrics", "part_row"]

Shape = TypeVar("Shape")
Row = Sequence[Any]
Read = Callable[[Mapping[str, Names], Sequence[str]], Row]


class Poison(Exception):
    """Events that cannot be projected, whatever is tried: the reason by position."""

    def __init__(self, letters: dict[int, str]) -> None:
        super().__init__(f"{len(letters)} events cannot be projected")
        self.letters = letters


def _decoded(text: str, shape: type[Shape]) -> Shape:
    return msgspec.json.decode(text, type=shape)


def _said(text: str, shape: type[Shape]) -> Shape | None:
    return _decoded(text, shape) if text else None


def _json(value: Any) -> str | None:
    return None if value is None else canonical(msgspec.to_builtins(value)).decode()


def _model(names: Mapping[str, Names], texts: Sequence[str]) -> Row:
    model = _decoded(texts[0], Model)
    return (
        names["model"].resolve(model.id),
        model.id,
        model.category,
        model.family,
        model.architecture,
        model.task,
        model.revision,
        model.parameters,
        model.weights,
    )


def _hardware(names: Mapping[str, Names], texts: Sequence[str]) -> Row:
    hardware = _decoded(texts[0], Hardware)
    return names["hardware"].resolve(hardware.id), hardware.id, hardware.kind, hardware.count


def _workload(_: Mapping[str, Names], texts: Sequence[str]) -> Row:
    workload = _decoded(texts[0], Workload)
    return *msgspec.structs.astuple(workload), canonical_part(msgspec.to_builtins(workload))


def _execution(_: Mapping[str, Names], texts: Sequence[str]) -> Row:
    request = _decoded(texts[0], Execution)
    observed = _said(texts[1], Observed) or Observed()
    wanted = observed.requested
    actual = msgspec.structs.replace(
        request, platform=observed.platform or request.platform, precision=observed.precision or request.precision
    )
    return (
        actual.platform,
        actual.precision,
        (wanted and wanted.platform) or request.platform,
        (wanted and wanted.precision) or request.precision,
        observed.device,
        wanted and wanted.device,
        observed.fallback_share,
        request.runtime and request.runtime.name,
        request.runtime and request.runtime.version,
        request.compiled,
        request.layout,
        request.threads,
        request.streams,
        _json(request.parallelism),
        request.power_limit_w,
        _json(request.options),
        _json((observed.details or {}).get("scenario")),
        _json(_training_ranks(observed)),
        canonical_part(msgspec.to_builtins(actual)),
    )


def _training_ranks(observed: Observed) -> dict[str, Any] | None:
    """Return the ranks of a training and what their communication took; None where there were none."""
    details = observed.details or {}
    return {name: details[name] for name in ("ranks", "communication")} if "communication" in details else None


def _context(_: Mapping[str, Names], texts: Sequence[str]) -> Row:
    environment = _said(texts[3], Environment)
    return _decoded(texts[2], Identifier), environment and environment.fingerprint, *_provenance(texts[4])


def _provenance(text: str) -> Row:
    return msgspec.structs.astuple(_decoded(text, Provenance))


def _judgement(_: Mapping[str, Names], texts: Sequence[str]) -> Row:
    validity = _said(texts[0], Validity)
    if validity is None:
        return None, None, None, None
    raw = msgspec.json.decode(texts[0])
    return validity.verdict, _json(raw.get("reasons")), _json(raw.get("metrics")), energy_verdict(validity)


class Dimension(NamedTuple):
    """A kind of part: its table, the columns with its texts, the types of all its columns, and what reads the texts."""

    table: str
    sent: tuple[str, ...]
    columns: Mapping[str, pa.DataType]
    read: Read


_TEXT, _INTEGER, _NUMBER, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()


def _part(table: str, sent: tuple[str, ...], read: Read, **columns: pa.DataType) -> Dimension:
    return Dimension(table, sent, {"id": _INTEGER, **dict.fromkeys(sent, _TEXT), **columns}, read)


PARTS: Mapping[str, Dimension] = {
    "model": _part(
        "model_part",
        ("model_sent",),
        _model,
        model_id=_TEXT,
        model_id_posted=_TEXT,
        category=_TEXT,
        family=_TEXT,
        architecture=_TEXT,
        task=_TEXT,
        revision=_TEXT,
        parameters=_INTEGER,
        weights=_TEXT,
    ),
    "hardware": _part(
        "hardware_part",
        ("hardware_sent",),
        _hardware,
        hardware_id=_TEXT,
        hardware_id_posted=_TEXT,
        hardware_kind=_TEXT,
        hardware_count=_INTEGER,
    ),
    "workload_id": _part(
        "workload_part",
        ("workload_sent",),
        _workload,
        mode=_TEXT,
        scenario=_TEXT,
        batch_size=_INTEGER,
        sequence_length=_INTEGER,
        image_size=_INTEGER,
        images=_INTEGER,
        audio_seconds=_NUMBER,
        frames=_INTEGER,
        input_tokens=_INTEGER,
        output_tokens=_INTEGER,
        steps=_INTEGER,
        concurrency=_INTEGER,
        arrival_rate_per_s=_NUMBER,
        optimizer=_TEXT,
        gradient_checkpointing=_FLAG,
        workload=_TEXT,
    ),
    "execution_id": _part(
        "execution_part",
        ("execution_sent", "observed_sent"),
        _execution,
        platform=_TEXT,
        precision=_TEXT,
        platform_asked=_TEXT,
        precision_asked=_TEXT,
        device=_TEXT,
        device_asked=_TEXT,
        fallback_share=_NUMBER,
        runtime_name=_TEXT,
        runtime_version=_TEXT,
        compiled=_FLAG,
        layout=_TEXT,
        threads=_INTEGER,
        streams=_INTEGER,
        parallelism=_TEXT,
        power_limit_w=_NUMBER,
        options=_TEXT,
        scenario_result=_TEXT,
        training_ranks=_TEXT,
        execution=_TEXT,
    ),
    "context": _part(
        "context",
        ("source", "attestation", "run_sent", "environment_sent", "provenance_sent"),
        _context,
        run_id=_TEXT,
        environment_fingerprint=_TEXT,
        origin=_TEXT,
        provenance_source=_TEXT,
        reference=_TEXT,
        licence=_TEXT,
    ),
    "judgement": _part(
        "judgement",
        ("validity_sent",),
        _judgement,
        verdict=_TEXT,
        verdict_reasons=_TEXT,
        metric_verdicts=_TEXT,
        energy_verdict=_TEXT,
    ),
}


def part_row(kind: str, names: Mapping[str, Names], texts: Sequence[str]) -> Row:
    """Return the columns of a part after its texts; ValueError with the reason where they cannot be read."""
    try:
        return PARTS[kind].read(names, texts)
    except (msgspec.MsgspecError, InvalidInput, UnicodeError, RecursionError) as error:
        raise ValueError(f"{kind.removesuffix('_id')}: {error}") from error


def check_metrics(metrics: str | None, samples: str | None) -> str | None:
    """Return why metrics or the reference to samples are not what the gate takes, None where they are."""
    try:
        _decoded(metrics or "null", Metrics)
        _said(samples or "", SamplesReference)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return f"metrics: {error}"
    return None
