"""Who looks at the dashboard, and what they may see: a role from a claim of the identity provider."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from domain.errors import UsageError

__all__ = ["LOCAL", "Person", "Role", "Rules", "person", "read_rules", "values_of"]

Role = Literal["viewer", "operator"]


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which values of a claim make an operator or a viewer, and for how many hours a sign-in lasts.

    Without `viewers` everybody who can sign in is one. `claim` may lead into objects by dots (`realm_access.roles`).
    """

    claim: str = "groups"
    operators: tuple[str, ...] = ()
    viewers: tuple[str, ...] | None = None
    hours: float = 12.0


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """One reader. `role` None may see nothing, and `why` says what holds them off; `signed_in` until they sign out."""

    name: str = ""
    role: Role | None = None
    signed_in: bool = False
    why: str | None = None


LOCAL = Person(role="operator")
"""Whoever sits at this machine, where nobody has to sign in."""


def read_rules(section: Mapping[str, Any]) -> Rules:
    """Read the table `[assay]` beside the provider's. Raises UsageError, which names the field."""
    try:
        convert = msgspec.convert(dict(section), Rules)
    except msgspec.ValidationError as problem:
        raise UsageError(
            f"[assay] is not understood: {problem}.",
            field="assay",
            remedy="It has claim, operators, viewers (lists of text) and hours; docs/sign-in.md shows one.",
        ) from problem
    if not convert.hours > 0:
        raise UsageError("a sign-in lasts some time.", field="hours", remedy="Give hours above 0, such as 12.")
    return convert


def person(claims: Mapping[str, Any], rules: Rules, now: datetime) -> Person:
    """Return whom the provider's claims tell of. What has no time, or is older than the rules allow, counts no more."""
    if not claims.get("is_logged_in"):
        return Person()
    name = str(next((claims[key] for key in ("name", "preferred_username", "email", "sub") if claims.get(key)), "?"))
    if _age(claims, now) > timedelta(hours=rules.hours):
        return Person(name=name, why=f"The sign-in has expired: it lasts {rules.hours:g} h.")
    role = _role(claims, rules)
    why = None if role else f"{name} is signed in, but no value of `{rules.claim}` gives a role here."
    return Person(name=name, role=role, signed_in=True, why=why)


def values_of(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    """Return the values of a claim, one or a list; none where it is missing or not text.

    An address counts only where the provider says that it is verified: anybody could claim another's.
    """
    if claim == "email" and claims.get("email_verified") is not True:
        return frozenset()
    none: Any = claims.get(claim)
    if none is None:
        none = claims
        for part in claim.split("."):
            none = none.get(part) if isinstance(none, Mapping) else None
    values = none if isinstance(none, list | tuple) else [none]
    return frozenset(value for value in values if isinstance(value, str))


def _role(claims: Mapping[str, Any], rules: Rules) -> Role | None:
    held = values_of(claims, rules.claim)
    if held & set(rules.operators):
        return "operator"
    return "viewer" if rules.viewers is None or held & set(rules.viewers) else None


def _age(claims: Mapping[str, Any], now: datetime) -> timedelta:
    issued = claims.get("iat")
    if not isinstance(issued, int | float) or isinstance(issued, bool):
        return timedelta.max
    return now - datetime.fromtimestamp(issued, UTC)
