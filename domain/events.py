"""Events: the CloudEvents 1.0 envelope, the data of each type, and the gate that every event passes.

`decode_event` is that gate: it checks the envelope and, for the types that we know, the data, and says what is
wrong by the path of the field. An unknown type passes with its envelope checked; unknown members of known data
pass and are named as warnings. The bytes are kept as they were sent.
"""

from __future__ import annotations

import functools
import hashlib
import re
import typing
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import uuid_utils

from domain import payloads
from domain.canonical import is_plain, require_interoperable, same_members
from domain.checks import check, unknown_members
from domain.configuration import Execution, Hardware, Identifier, Model, Workload
from domain.errors import InvalidEvent, InvalidInput, MalformedBody, PayloadTooLarge
from domain.measured import Environment, Observed, Provenance

__all__ = [
    "ALERT_CHANGED",
    "ALERT_RAISED",
    "ALIAS_DECLARED",
    "BASELINE_NAMED",
    "DATA_TYPES",
    "DELIVERY_OBSERVED",
    "ENDPOINT_CHANGED",
    "EVENT_LIMIT_BYTES",
    "HARDWARE_DESCRIBED",
    "JOB_CANCELLED",
    "JOB_FAILED",
    "JOB_FINISHED",
    "JOB_REQUESTED",
    "JOB_STARTED",
    "KERNEL_MEASURED",
    "MEASUREMENT_FAILED",
    "MEASUREMENT_RECORDED",
    "MEASUREMENT_RETRACTED",
    "MODEL_DESCRIBED",
    "MODEL_TRACED",
    "OPERATION_PERFORMED",
    "PREDICTION_ISSUED",
    "PREDICTOR_CHOSEN",
    "PREDICTOR_TRAINED",
    "PRICE_PUBLISHED",
    "QUALITY_MEASURED",
    "RECOMMENDATION_ISSUED",
    "RUN_FINISHED",
    "RUN_STARTED",
    "SAMPLES_RECORDED",
    "SNAPSHOT_NAMED",
    "TEST_REPORTED",
    "UUID",
    "VARIANT_CREATED",
    "Attestation",
    "Decoded",
    "Event",
    "decode_event",
    "encode_event",
    "new_event",
    "uuid7",
]

RUN_STARTED = "assay.run.started.v1"
RUN_FINISHED = "assay.run.finished.v1"
MEASUREMENT_RECORDED = "assay.measurement.recorded.v1"
MEASUREMENT_FAILED = "assay.measurement.failed.v1"
MEASUREMENT_RETRACTED = "assay.measurement.retracted.v1"
SAMPLES_RECORDED = "assay.samples.recorded.v1"
TEST_REPORTED = "assay.test.reported.v1"
HARDWARE_DESCRIBED = "assay.hardware.described.v1"
MODEL_DESCRIBED = "assay.model.described.v1"
MODEL_TRACED = "assay.model.traced.v1"
KERNEL_MEASURED = "assay.kernel.measured.v1"
ALIAS_DECLARED = "assay.alias.declared.v1"
PRICE_PUBLISHED = "assay.price.published.v1"
PREDICTOR_TRAINED = "assay.predictor.trained.v1"
PREDICTOR_CHOSEN = "assay.predictor.chosen.v1"
PREDICTION_ISSUED = "assay.prediction.issued.v1"
RECOMMENDATION_ISSUED = "assay.recommendation.issued.v1"
OPERATION_PERFORMED = "assay.operation.performed.v1"
BASELINE_NAMED = "assay.baseline.named.v1"
SNAPSHOT_NAMED = "assay.snapshot.named.v1"
ALERT_RAISED = "assay.alert.raised.v1"
ALERT_CHANGED = "assay.alert.changed.v1"
JOB_REQUESTED = "assay.job.requested.v1"
JOB_STARTED = "assay.job.started.v1"
JOB_FINISHED = "assay.job.finished.v1"
JOB_FAILED = "assay.job.failed.v1"
JOB_CANCELLED = "assay.job.cancelled.v1"
VARIANT_CREATED = "assay.variant.created.v1"
QUALITY_MEASURED = "assay.quality.measured.v1"
ENDPOINT_CHANGED = "assay.endpoint.changed.v1"
DELIVERY_OBSERVED = "assay.delivery.observed.v1"

DATA_TYPES: dict[str, type[msgspec.Struct]] = {
    RUN_STARTED: payloads.RunStarted,
    RUN_FINISHED: payloads.RunFinished,
    MEASUREMENT_RECORDED: payloads.MeasurementRecorded,
    MEASUREMENT_FAILED: payloads.MeasurementFailed,
    MEASUREMENT_RETRACTED: payloads.MeasurementRetracted,
    SAMPLES_RECORDED: payloads.SamplesRecorded,
    TEST_REPORTED: payloads.TestReported,
    HARDWARE_DESCRIBED: payloads.HardwareDescribed,
    MODEL_DESCRIBED: payloads.ModelDescribed,
    MODEL_TRACED: payloads.ModelTraced,
    KERNEL_MEASURED: payloads.KernelMeasured,
    ALIAS_DECLARED: payloads.AliasDeclared,
    PRICE_PUBLISHED: payloads.PricePublished,
    PREDICTOR_TRAINED: payloads.PredictorTrained,
    PREDICTOR_CHOSEN: payloads.PredictorChosen,
    PREDICTION_ISSUED: payloads.PredictionIssued,
    RECOMMENDATION_ISSUED: payloads.RecommendationIssued,
    OPERATION_PERFORMED: payloads.OperationPerformed,
    BASELINE_NAMED: payloads.BaselineNamed,
    SNAPSHOT_NAMED: payloads.SnapshotNamed,
    ALERT_RAISED: payloads.AlertRaised,
    ALERT_CHANGED: payloads.AlertChanged,
    JOB_REQUESTED: payloads.JobRequested,
    JOB_STARTED: payloads.JobStarted,
    JOB_FINISHED: payloads.JobFinished,
    JOB_FAILED: payloads.JobFailed,
    JOB_CANCELLED: payloads.JobCancelled,
    VARIANT_CREATED: payloads.VariantCreated,
    QUALITY_MEASURED: payloads.QualityMeasured,
    ENDPOINT_CHANGED: payloads.EndpointChanged,
    DELIVERY_OBSERVED: payloads.DeliveryObserved,
}
"""The types we know and the structure of their data."""

EVENT_LIMIT_BYTES = 256 * 1024
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2262, 1, 1, tzinfo=UTC)
"""Bounds of `time`: what every store and every frame of data can hold, nanoseconds included."""

Shape = TypeVar("Shape", bound=msgspec.Struct)
Attestation = Literal["anonymous", "bound", "signed", "service"]
"""How the log knows who appended an event.

`anonymous`: no token, or a token that may use any source. `bound`: a token that is bound to this source.
`signed`: a valid signature by a key that is registered for this source. `service`: the service wrote it itself.
"""
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f]+$(?!\n)")]


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The attributes that CloudEvents 1.0 defines; `time` is RFC 3339 with an offset."""

    specversion: str
    id: str
    source: Text
    type: Text
    subject: Text | None = None
    time: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    data: Any = None


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """An event that passed the gate.

    `raw` is its text as sent, `digest` the SHA-256 of that text, `data` the checked structure of a known type.
    `signed` says that it carries a signature, right or wrong; `attestation` is set by whoever lets the event in: the gate
    itself knows nobody.
    """

    id: str
    type: str
    source: str
    subject: str | None
    time: datetime | None
    digest: bytes
    raw: bytes
    data: msgspec.Struct | None
    warnings: tuple[str, ...] = ()
    signed: bool = False
    attestation: Attestation = "anonymous"

    @property
    def event(self) -> dict[str, Any]:
        """The envelope as a JSON object."""
        value: dict[str, Any] = msgspec.json.decode(self.raw)
        return value


_ShortText = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class _Written(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event as runners write it; the time as text, because a moment has several spellings.

    The texts need no pattern: JSON without a backslash has no control characters.
    """

    specversion: str
    id: str
    source: _ShortText
    type: str
    subject: _ShortText | None = None
    time: str | None = None
    datacontenttype: str | None = None
    signer: str | None = None
    signature: str | None = None
    data: Any = None


_decode_moment = msgspec.json.Decoder(Annotated[datetime, msgspec.Meta(tz=True)]).decode
_RECURRING = (Identifier, Model, Workload, Execution, Hardware, Provenance, Environment, Observed)
"""Types of members that many events of a run share to the letter; they are decoded once."""
_PARTS_KEPT = 512
_PART_BYTES = 4096
"""Longer parts are decoded each time, so that what is kept has a bound."""
_TYPE_MEMBER = b'"type":"'
_ABSENT = msgspec.Raw()


class _Quick:
    """Decodes events of one type that are as runners write them; parts that recur are remembered by their text."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._shape = DATA_TYPES[name]
        self._parts = []
        fields: list[tuple[str, Any, Any]] = []
        for field in msgspec.structs.fields(self._shape):
            kind = next((kind for kind in _RECURRING if kind in (field.type, *typing.get_args(field.type))), None)
            default: dict[str, Any] = {"default": field.default, "default_factory": field.default_factory}
            if kind is not None:
                read = _reader(kind)
                self._parts.append((field.name, functools.lru_cache(_PARTS_KEPT)(read), read))
                default = {} if field.required else {"default": _ABSENT}
            fields.append((field.name, field.type if kind is None else msgspec.Raw, msgspec.field(**default)))
        data = msgspec.defstruct("Data", fields, frozen=True, kw_only=True, omit_defaults=True)
        event = msgspec.defstruct("Plain", [("data", data, None)], bases=(_Written,), frozen=True, kw_only=True)
        self.decode = msgspec.json.Decoder(typing.cast("type[_Written]", event)).decode

    def data(self, written: msgspec.Struct) -> msgspec.Struct | None:
        """Return the data with its parts decoded; None where one of them is not as runners write it."""
        members = msgspec.structs.asdict(written)
        for name, recent, read in self._parts:
            text = bytes(members[name])
            members[name] = part = None if not text else recent(text) if len(text) <= _PART_BYTES else read(text)
            if text and part is None:
                return None
        imported = members.get("imported")
        return self._shape(**members) if imported is None or _is_closed(imported) else None


def _reader(kind: Any) -> Callable[[bytes], Any]:
    """Return what decodes a part from its text, to None where the text is not as runners write it."""
    decode = msgspec.json.Decoder(kind).decode

    def read(text: bytes) -> Any:
        try:
            part = decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return part if same_members(text, msgspec.json.encode(part)) and _is_closed(part) else None

    return read


def _is_closed(part: Any) -> bool:
    """Return whether members that may hold anything hold nothing that the long way refuses."""
    return all(is_plain(getattr(part, name, None)) for name in ("options", "details", "original"))


_QUICK = {name.encode(): _Quick(name) for name in (MEASUREMENT_RECORDED, MEASUREMENT_FAILED, SAMPLES_RECORDED)}
"""The types that come by the million, and whose members all have types."""
_STANDARD = frozenset(Event.__struct_fields__) | {"data_base64"}
_EXTENSION = re.compile(r"[a-z0-9]{1,40}")
_PATH = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_OF_THE_LOG = frozenset({"attestation", "expired", "position", "whence"})
"""Names of extension attributes that would be mistaken for what the log says of an event."""
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def uuid7() -> str:
    """Return a new time-ordered UUID."""
    return str(uuid_utils.uuid7())


def new_event(
    type: str,  # noqa: A002 - the envelope's own word
    data: Any,
    *,
    source: str,
    time: datetime | None = None,
    subject: str | None = None,
    id: str | None = None,  # noqa: A002
) -> dict[str, Any]:
    """Return an envelope around `data` (a payload or a mapping), ready to be encoded."""
    event: dict[str, Any] = {"specversion": "1.0", "id": id or uuid7(), "source": source, "type": type}
    if subject is not None:
        event["subject"] = subject
    if time is not None:
        event["time"] = time.isoformat()
    event["datacontenttype"] = "application/json"
    event["data"] = msgspec.to_builtins(data)
    return event


def encode_event(event: dict[str, Any]) -> bytes:
    """Return the event as one line of JSON without the line's end."""
    return msgspec.json.encode(event)


def decode_event(raw: bytes | str) -> Decoded:
    """Check one event and return it; raise MalformedBody, PayloadTooLarge or InvalidEvent, naming the field."""
    text = raw.encode() if isinstance(raw, str) else bytes(raw)
    if len(text) > EVENT_LIMIT_BYTES:
        raise PayloadTooLarge(
            f"the event has {len(text):,} bytes; {EVENT_LIMIT_BYTES:,} is the limit.",
            remedy="Put raw samples into assay.samples.recorded events of their own, or split them.",
        )
    return _as_written(text) or _whatever(text)


def _as_written(text: bytes) -> Decoded | None:
    """Return what a text holds that is as our own runners write it; None where that is not certain, for whatever reason.

    Written again from its structures, such a text has the same length and as many members: there is none that they do
    not know, none twice and no other spelling of a number. The long way round costs three times as much.
    """
    if b"\\" in text:
        return None
    start = text.find(_TYPE_MEMBER) + len(_TYPE_MEMBER)
    quick = _QUICK.get(text[start : text.find(b'"', start)])
    if quick is None:
        return None
    try:
        envelope = quick.decode(text)
        if envelope.type != quick.name or envelope.data is None:
            return None
        if not same_members(text, msgspec.json.encode(envelope)):
            return None
        data = quick.data(envelope.data)
        if data is None:
            return None
        time = None if envelope.time is None else _decode_moment(f'"{envelope.time}"')
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    _check_envelope(envelope, time)
    _check_data(data)
    return _passed(text, envelope, time, data, (), signed=envelope.signature is not None)


def _whatever(text: bytes) -> Decoded:
    """Return what any text holds, or raise what is wrong with it."""
    try:
        event = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedBody(
            f"not valid JSON: {error}.", remedy="Send one JSON object; NaN and Infinity are not JSON."
        ) from error
    if not isinstance(event, dict):
        raise InvalidEvent(
            "an event is a JSON object.", field="$", remedy="Send an object with specversion, id, source and type."
        )
    envelope = _envelope(event)
    data, warnings = _data(envelope)
    require_interoperable(text, event)
    return _passed(text, envelope, envelope.time, data, warnings, signed="signature" in event)


def _passed(
    text: bytes,
    envelope: Event | _Written,
    time: datetime | None,
    data: msgspec.Struct | None,
    warnings: tuple[str, ...],
    *,
    signed: bool,
) -> Decoded:
    return Decoded(
        id=envelope.id,
        type=envelope.type,
        source=envelope.source,
        subject=envelope.subject,
        time=time,
        digest=hashlib.sha256(text).digest(),
        raw=text,
        data=data,
        warnings=warnings,
        signed=signed,
    )


def _envelope(event: dict[str, Any]) -> Event:
    for name in event.keys() - _STANDARD:
        if not _EXTENSION.fullmatch(name) or not isinstance(event[name], str | int | bool):
            raise InvalidEvent(
                "not a CloudEvents extension attribute: those are named in lower-case letters and digits, and hold a "
                "string, an integer or a boolean.",
                field=name[:60],
                remedy="Move what belongs to the fact into data.",
            )
    for name in _OF_THE_LOG & event.keys():
        raise InvalidEvent(
            "this attribute is the log's own.", field=name, remedy="Leave it out; the log gives it to every event."
        )
    if "data_base64" in event:
        raise InvalidEvent("binary data is not taken.", field="data_base64", remedy="Send JSON in data.")
    envelope = _convert(event, Event, "")
    _check_envelope(envelope, envelope.time)
    return envelope


def _check_envelope(envelope: Event | _Written, time: datetime | None) -> None:
    if envelope.specversion != "1.0":
        raise InvalidEvent(f"{envelope.specversion!r} is not supported.", field="specversion", remedy='Send "1.0".')
    if not UUID.fullmatch(envelope.id):
        raise InvalidEvent(
            "not a UUID in its lower-case form with hyphens.",
            field="id",
            remedy="Use a UUID, version 7 for new events.",
        )
    if time is not None and not EARLIEST <= time < LATEST:
        raise InvalidEvent(
            f"{time.isoformat()} is not between 1970 and 2261.",
            field="time",
            remedy="Send the moment at which it happened, or leave it out where that is not known.",
        )
    if envelope.datacontenttype not in (None, "application/json"):
        raise InvalidEvent(
            f"{envelope.datacontenttype!r} is not taken.",
            field="datacontenttype",
            remedy="Send application/json or leave it out.",
        )


def _data(envelope: Event) -> tuple[msgspec.Struct | None, tuple[str, ...]]:
    shape = DATA_TYPES.get(envelope.type)
    if shape is None:
        return None, ()
    if not isinstance(envelope.data, dict):
        raise InvalidEvent(
            "missing, or not an object.", field="data", remedy=f"{envelope.type} needs the members in docs/events.md."
        )
    data = _convert(envelope.data, shape, "data")
    _check_data(data)
    return data, tuple(unknown_members(envelope.data, shape, "data"))


def _check_data(data: msgspec.Struct) -> None:
    try:
        check(data)
    except InvalidInput as error:
        raise InvalidEvent(
            error.detail, field=f"data.{error.field}" if error.field else "data", remedy=error.remedy
        ) from error


def _convert(value: dict[str, Any], shape: type[Shape], prefix: str) -> Shape:
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        match = _PATH.match(str(error))
        what, path = (match["what"], match["path"]) if match else (str(error), None)
        missing = re.search(r"missing required field `(.+?)`", what)
        if missing:
            path = f"{path}.{missing[1]}" if path else missing[1]
            what = "required, and missing"
        field = ".".join(filter(None, (prefix, path))) or "$"
        raise InvalidEvent(f"{what}.", field=field, remedy="The catalogue of events says what it takes.") from error
