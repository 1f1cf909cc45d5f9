"""Tokens and who may append which event: for each type the scope that a token needs, and the rule on whose facts it may touch.

The table stands in docs/events.md, "Who may append what", for people; a test keeps the two the same.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal, get_args

import msgspec

from domain.events import (
    ALERT_CHANGED,
    ALERT_RAISED,
    ALIAS_DECLARED,
    BASELINE_NAMED,
    DELIVERY_OBSERVED,
    ENDPOINT_CHANGED,
    HARDWARE_DESCRIBED,
    JOB_CANCELLED,
    JOB_FAILED,
    JOB_FINISHED,
    JOB_REQUESTED,
    JOB_STARTED,
    KERNEL_MEASURED,
    MEASUREMENT_FAILED,
    MEASUREMENT_RECORDED,
    MEASUREMENT_RETRACTED,
    MODEL_DESCRIBED,
    MODEL_TRACED,
    OPERATION_PERFORMED,
    PREDICTION_ISSUED,
    PREDICTOR_CHOSEN,
    PREDICTOR_TRAINED,
    PRICE_PUBLISHED,
    QUALITY_MEASURED,
    RECOMMENDATION_ISSUED,
    RUN_FINISHED,
    RUN_STARTED,
    SAMPLES_RECORDED,
    SNAPSHOT_NAMED,
    TEST_REPORTED,
    VARIANT_CREATED,
)

__all__ = [
    "OTHER_TYPES",
    "PAGE_SOURCE",
    "PERMISSIONS",
    "PREFIX",
    "SCOPES",
    "SERVICE_SOURCE",
    "SHARED_SOURCE",
    "Permission",
    "Rule",
    "Scope",
    "Token",
    "permission_for",
]

PREFIX = "assay_"
"""What every secret begins with."""
Scope = Literal["append", "read", "jobs", "work", "admin"]
SCOPES: tuple[str, ...] = get_args(Scope)
SERVICE_SOURCE = "urn:assay:service"
"""Source of the events that the service itself appends; from outside only an admin may use it."""
SHARED_SOURCE = "urn:assay:shared:"
"""Begins the source of events that came in a signed bundle, before its signer; from outside only an admin may use it."""
PAGE_SOURCE = "urn:assay:page:"
"""Begins the source of what a page with a link sent, before its device; from outside only an admin may use it."""

Rule = Literal["source", "run", "target", "name", "artifact", "service"]
"""What a token without the scope admin may touch with an event.

`source`: nothing more than facts of the event's own source. `run`: a run that no other source started. `target`: what
the same source appended. `name`: an id that no catalogue has and that only the same source used. `artifact`: a digest
whose artifact is stored; binds an admin and an open service too. `service`: nobody may send it, the service writes it.
"""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a token; `prefix` is the beginning of its secret, `source` the only one it appends as."""

    id: str
    prefix: str
    name: str
    source: str | None
    scopes: list[str]
    expires_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime

    def valid(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def allows(self, scope: str) -> bool:
        """Whether it covers a scope; admin covers all."""
        return scope in self.scopes or "admin" in self.scopes


class Permission(msgspec.Struct, frozen=True):
    """The scope that a type needs beside `append`, which the route itself needs, and its rule; no scope allows None."""

    scope: Literal["append", "jobs", "admin"] | None
    rule: Rule


_OWN_FACT = Permission("append", "source")
_ADMIN_ONLY = Permission("admin", "source")

PERMISSIONS: dict[str, Permission] = {
    RUN_STARTED: Permission("append", "run"),
    RUN_FINISHED: Permission("append", "run"),
    MEASUREMENT_RECORDED: _OWN_FACT,
    MEASUREMENT_FAILED: _OWN_FACT,
    MEASUREMENT_RETRACTED: Permission("append", "target"),
    SAMPLES_RECORDED: _OWN_FACT,
    TEST_REPORTED: _OWN_FACT,
    HARDWARE_DESCRIBED: _OWN_FACT,
    MODEL_DESCRIBED: _OWN_FACT,
    MODEL_TRACED: _OWN_FACT,
    KERNEL_MEASURED: _OWN_FACT,
    ALIAS_DECLARED: Permission("append", "name"),
    PRICE_PUBLISHED: Permission("jobs", "source"),
    PREDICTOR_TRAINED: Permission("admin", "artifact"),
    PREDICTOR_CHOSEN: Permission("admin", "artifact"),
    PREDICTION_ISSUED: _ADMIN_ONLY,
    RECOMMENDATION_ISSUED: _ADMIN_ONLY,
    VARIANT_CREATED: _OWN_FACT,
    QUALITY_MEASURED: _OWN_FACT,
    ENDPOINT_CHANGED: _OWN_FACT,
    DELIVERY_OBSERVED: _OWN_FACT,
    BASELINE_NAMED: _ADMIN_ONLY,
    SNAPSHOT_NAMED: _ADMIN_ONLY,
    OPERATION_PERFORMED: Permission(None, "service"),
    ALERT_RAISED: Permission(None, "service"),
    ALERT_CHANGED: Permission(None, "service"),
    JOB_REQUESTED: Permission(None, "service"),
    JOB_STARTED: Permission(None, "service"),
    JOB_FINISHED: Permission(None, "service"),
    JOB_FAILED: Permission(None, "service"),
    JOB_CANCELLED: Permission(None, "service"),
}
OTHER_TYPES = _OWN_FACT
"""What a type needs that is not ours."""

_VERSION = re.compile(r"\.v\d+\Z")
_ANY_VERSION = {_VERSION.sub("", type_): permission for type_, permission in PERMISSIONS.items()}


def permission_for(type_: str) -> Permission:
    """Return the permission of a type; another version of a type that we know needs what this version needs.

    A newer version may take effect when the tables are rebuilt by a newer program, so it must not be open before.
    """
    permission = PERMISSIONS.get(type_)
    return permission or _ANY_VERSION.get(_VERSION.sub("", type_), OTHER_TYPES)
