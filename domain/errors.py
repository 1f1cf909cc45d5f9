"""The one tree of errors that Assay raises on purpose.

AssayError
├── InvalidInput
│   ├── MalformedBody, InvalidEvent, PayloadTooLarge, ResultRefused
│   ├── UsageError, ImpossibleConstraint
│   ├── UnknownName: UnknownModel, UnknownHardware, UnknownPlatform, UnknownFormat, UnknownSnapshot, UnknownView
│   └── UnsupportedPrecision
├── UnsupportedWorkload
├── Untraceable
├── ConflictingEvent, VersionConflict, NameTaken, StateConflict
├── Expired, LinkEnded
├── TraceNeeded
├── NotFound
├── AccessError: Unauthenticated, Forbidden
├── Unavailable: PlatformUnavailable, ServiceUnavailable, PartMissing, ProjectionBehind, TooBusy
├── CorruptArtifact, LogAltered, PeerRefused
└── SpoolFull
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "AccessError",
    "AssayError",
    "ConflictingEvent",
    "CorruptArtifact",
    "Expired",
    "Forbidden",
    "ImpossibleConstraint",
    "InvalidEvent",
    "InvalidInput",
    "LinkEnded",
    "LogAltered",
    "MalformedBody",
    "NameTaken",
    "NotFound",
    "PartMissing",
    "PayloadTooLarge",
    "PeerRefused",
    "PlatformUnavailable",
    "ProjectionBehind",
    "ResultRefused",
    "ServiceUnavailable",
    "SpoolFull",
    "StateConflict",
    "TooBusy",
    "TraceNeeded",
    "Unauthenticated",
    "Unavailable",
    "UnknownFormat",
    "UnknownHardware",
    "UnknownModel",
    "UnknownName",
    "UnknownPlatform",
    "UnknownSnapshot",
    "UnknownView",
    "UnsupportedPrecision",
    "UnsupportedWorkload",
    "Untraceable",
    "UsageError",
    "VersionConflict",
    "error_document",
    "error_of",
    "unusable_file",
]


class AssayError(Exception):
    """Something a person can act on: what is wrong, in which field, and what to do about it.

    `retry_after_s` and `rejected` (one entry an event) are set where a service's answer gave them.
    """

    type = "error"
    """Stable name of the problem; the last part of the problem document's `type`."""
    status = 500
    """HTTP status that the API answers with."""
    exit_code = 1
    """Exit code of the command line: 1 refused or failed, 2 wrong usage, 3 a needed part is not available."""

    def __init__(self, detail: str, *, field: str | None = None, remedy: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.remedy = remedy
        self.retry_after_s: float | None = None
        self.rejected: list[dict[str, Any]] = []

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        then = f" {self.remedy}" if self.remedy else ""
        return f"{where}{self.detail}{then}"


class InvalidInput(AssayError):
    """What was sent or typed cannot be used as it is."""

    type = "invalid-input"
    status = 422
    exit_code = 2


class MalformedBody(InvalidInput):
    """The bytes are not JSON (or not the format that was declared)."""

    type = "malformed-body"
    status = 400


class InvalidEvent(InvalidInput):
    """An event breaks the envelope's or its type's rules; `field` is a path such as `data.metrics.latency_ms.p50`."""

    type = "invalid-event"


class PayloadTooLarge(InvalidInput):
    """A body or an event is over its limit."""

    type = "payload-too-large"
    status = 413


class ResultRefused(InvalidInput):
    """What a page measured cannot be believed: its outputs are wrong, or its times cannot be."""

    type = "result-refused"


class UsageError(InvalidInput):
    """A flag or a field of a question is wrong in itself."""

    type = "usage"


class ImpossibleConstraint(InvalidInput):
    """Constraints that no configuration could ever meet, such as a latency of zero."""

    type = "impossible-constraint"


class UnknownName(InvalidInput):
    """A name that resolves to nothing, with the nearest ones."""

    type = "unknown-name"
    noun = "name"

    def __init__(
        self, name: str, nearest: Sequence[str] = (), *, field: str | None = None, remedy: str | None = None
    ) -> None:
        hint = f"Nearest: {', '.join(nearest)}." if nearest else None
        super().__init__(
            f"no {self.noun} is known as {name!r}.",
            field=field or self.noun,
            remedy=" ".join(filter(None, (hint, remedy))),
        )
        self.name = name
        self.nearest = tuple(nearest)


class UnknownModel(UnknownName):
    """No model of that id, alias or path."""

    type = "unknown-model"
    noun = "model"


class UnknownHardware(UnknownName):
    """No hardware of that slug or alias."""

    type = "unknown-hardware"
    noun = "hardware"


class UnknownPlatform(UnknownName):
    """No platform of that name."""

    type = "unknown-platform"
    noun = "platform"


class UnknownFormat(UnknownName):
    """No importer of that name, or none that recognises the file."""

    type = "unknown-format"
    noun = "format"


class UnknownSnapshot(UnknownName):
    """No state of the log was given this name, or the name was taken away."""

    type = "unknown-snapshot"
    noun = "snapshot"


class UnknownView(UnknownName):
    """No documented view of that name."""

    type = "unknown-view"
    noun = "view"


class UnsupportedPrecision(InvalidInput):
    """The platform exists but cannot compute in that precision here."""

    type = "unsupported-precision"


class UnsupportedWorkload(AssayError):
    """Model, platform and precision exist, and this kind of work cannot be done with them: the detail says why."""

    type = "unsupported-workload"
    status = 422


class Untraceable(AssayError):
    """The model's operators cannot be counted without running it; the detail names the operator that stopped it."""

    type = "untraceable"
    status = 422


class ConflictingEvent(AssayError):
    """An id that the log knows with another body or source; a fact is never overwritten."""

    type = "conflicting-event"
    status = 409


class VersionConflict(AssayError):
    """A writer expected another state of a subject than the log holds; `version` is the one that it has."""

    type = "version-conflict"
    status = 409
    version: int | None = None


class NameTaken(AssayError):
    """The name stands for something else already, and is not moved without being asked to."""

    type = "name-taken"
    status = 409


class StateConflict(AssayError):
    """An alert or a job cannot go from the state that it is in to the one that was asked for, or a lease has ended."""

    type = "state-conflict"
    status = 409


class Expired(AssayError):
    """The fact is known, and its content was removed by the retention of raw samples."""

    type = "expired"
    status = 410


class LinkEnded(AssayError):
    """A link to measure in a browser has expired, was revoked, or has been used as often as it may be."""

    type = "link-ended"
    status = 410


class TraceNeeded(AssayError):
    """The service has no operator trace of this model at these sizes, and does not run torch to make one."""

    type = "trace-needed"
    status = 422


class NotFound(AssayError):
    """No such thing under this id."""

    type = "not-found"
    status = 404


class AccessError(AssayError):
    """Who asks may not."""

    type = "access"
    status = 403
    exit_code = 3


class Unauthenticated(AccessError):
    """A token is needed and none that is valid was given."""

    type = "unauthenticated"
    status = 401


class Forbidden(AccessError):
    """The token is valid and its scope or source does not cover this."""

    type = "forbidden"


class Unavailable(AssayError):
    """A part that this needs is not there now."""

    type = "unavailable"
    status = 503
    exit_code = 3


class PlatformUnavailable(Unavailable):
    """The platform is known, and this machine has no device or runtime for it."""

    type = "platform-unavailable"


class ServiceUnavailable(Unavailable):
    """The service, or its Postgres, does not answer."""

    type = "service-unavailable"


class PartMissing(Unavailable):
    """An optional package or program is not installed; the remedy is the command that installs it."""

    type = "part-missing"


class ProjectionBehind(Unavailable):
    """The tables have not reached the position that was asked for."""

    type = "projection-behind"


class TooBusy(Unavailable):
    """More is arriving than can be kept; come back after the time given."""

    type = "too-busy"
    status = 429


class CorruptArtifact(AssayError):
    """A predictor's bytes do not match their digest; it is refused and the last good one serves."""

    type = "corrupt-artifact"


class LogAltered(AssayError):
    """A row of the log is not as it was appended: its body, or the chain that it belongs to, does not match."""

    type = "log-altered"


class PeerRefused(AssayError):
    """A peer sent what it should not; nothing of the page is kept."""

    type = "peer-refused"
    status = 422


class SpoolFull(AssayError):
    """The runner's spool has reached its limit; measuring stops so that nothing is dropped."""

    type = "spool-full"
    status = 507


def error_document(error: AssayError) -> dict[str, str | None]:
    """Return an error as JSON that `error_of` reads in another process."""
    return {
        "name": type(error).__name__,
        "detail": error.detail,
        "field": error.field,
        "remedy": error.remedy,
    }


def error_of(document: dict[str, Any]) -> AssayError:
    """Return the error that `error_document` wrote in another process, of the same class."""
    kind = next((kind for kind in _kinds(AssayError) if kind.__name__ == document["name"]), AssayError)
    error = kind.__new__(kind)
    AssayError.__init__(error, document["detail"], field=document["field"], remedy=document["remedy"])
    return error


def _kinds(root: type[AssayError]) -> list[type[AssayError]]:
    return [root, *(kind for child in root.__subclasses__() for kind in _kinds(child))]


def unusable_file(error: OSError) -> ServiceUnavailable:
    """Return what to say of a file or folder that the system does not let Assay use as it must."""
    where = f"{error.filename} cannot be used" if error.filename else "a file cannot be used"
    return ServiceUnavailable(
        f"{where}: {error.strerror or error}.",
        field="ASSAY_HOME" if error.filename is None else None,
        remedy="See who owns it, whether its disk is full or read-only, and that a file is no folder.",
    )
