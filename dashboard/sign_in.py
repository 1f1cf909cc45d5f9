"""Signing in by OpenID Connect where a provider is configured: who looks, the page for those who do not, and the way back.

Streamlit does the protocol (`st.login`, `st.user`); here is what it leaves open. A sign-in ends on the first page in a new
session, so the address that was asked for waits in a cookie of ten minutes, and is opened only where it is one of our pages.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, quote, unquote, urlencode

import msgspec
import streamlit as st

from dashboard.frame import escape
from domain.errors import UsageError

__all__ = [
    "ENVIRONMENT",
    "LOCAL",
    "Person",
    "Role",
    "Rules",
    "admitted",
    "badge",
    "goal",
    "person",
    "providers",
    "read_rules",
    "reader",
    "remember",
    "return_to",
    "values_of",
]

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
        rules = msgspec.convert(dict(section), Rules)
    except msgspec.ValidationError as problem:
        raise UsageError(
            f"[assay] is not understood: {problem}.",
            field="assay",
            remedy="It has claim, operators, viewers (lists of text) and hours; docs/sign-in.md shows one.",
        ) from problem
    if not rules.hours > 0:
        raise UsageError("a sign-in lasts some time.", field="hours", remedy="Give hours above 0, such as 12.")
    return rules


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
    member: Any = claims.get(claim)
    if member is None:
        member = claims
        for part in claim.split("."):
            member = member.get(part) if isinstance(member, Mapping) else None
    values = member if isinstance(member, list | tuple) else [member]
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


ENVIRONMENT = "ASSAY_SIGN_IN"
"""Names the file with the tables `[auth]` and `[assay]`; where it does, nobody gets in without."""
_COOKIE = "assay_asked_for"
_COOKIE_S = 600
_COOKIE_BYTES = 3500


def reader() -> Person:
    """Return who looks at the page now. Raises UsageError where the sign-in is configured in a way that is not understood."""
    sections = _sections()
    if sections is None:
        return LOCAL if _local_only() else Person(role="viewer")
    return person(st.user.to_dict(), read_rules(sections.get("assay", {})), datetime.now(UTC))


def admitted(person: Person, page: Any) -> bool:
    """Whether the reader may see pages at all; where not, show how to sign in instead."""
    if person.role is not None:
        return True
    st.title("Assay", anchor=False)
    if person.signed_in:
        with st.container(border=True, key="no-role"):
            st.markdown(
                f"**{escape(person.why or '')}**  \nAsk whoever keeps this dashboard for access, or sign in as another."
            )
            st.button("Sign out", on_click=st.logout, icon=":material/logout:")
        return False
    st.markdown(":gray[Which hardware should run this model? Measured, predicted, and always saying which.]")
    remember(page.url_path, {name: st.query_params.get_all(name) for name in st.query_params})
    with st.container(border=True, key="sign-in", width=480):
        st.markdown(
            f"**{escape(person.why or 'Sign in to see the measurements.')}**  \nThe address that you opened comes after it."
        )
        for name in providers(_sections() or {}):
            words = "Sign in" if name is None else f"Sign in with {name.capitalize()}"
            st.button(
                words,
                key=f"sign in {name}",
                icon=":material/login:",
                on_click=st.login,
                args=() if name is None else (name,),
            )
    return False


def badge(person: Person) -> None:
    """Say in the menu who is signed in as what, with the way out."""
    if person.signed_in:
        with st.sidebar.container(key="signed-in"):
            st.caption(f"Signed in as **{escape(person.name)}** · {person.role or 'no role'}")
            if person.role:
                st.button("Sign out", on_click=st.logout, icon=":material/logout:", type="tertiary")


def providers(sections: Mapping[str, Any]) -> list[str | None]:
    """Return the names of the providers that are configured; None stands for the one without a name."""
    auth = sections.get("auth", {})
    named = [name for name, value in auth.items() if isinstance(value, Mapping) and "client_id" in value]
    return [*([None] if "client_id" in auth else []), *named]


def remember(path: str, params: Mapping[str, list[str]]) -> None:
    """Keep in the browser which page was asked for; a query that is too long for a cookie is left out."""
    text = f"{path}?{urlencode(params, doseq=True)}" if params else path
    value = quote(text, safe="")
    _set_cookie(value if len(value) <= _COOKIE_BYTES else quote(path, safe=""))


def goal(cookie: str | None, record: Mapping[str, Any]) -> tuple[str, dict[str, list[str]]] | None:
    """Return the page and the parameters that a cookie tells of; None for what is not one of our pages."""
    path, _, query = unquote(cookie or "").partition("?")
    return (path, parse_qs(query)) if (path or query) and path in record else None


def return_to(page: Any, record: Mapping[str, Any]) -> None:
    """After a sign-in open what was asked for before it. Once a session, and not where something is asked for now."""
    kept = st.context.cookies.get(_COOKIE)
    if not kept or st.session_state.get("sign-in returned") == "done":
        return
    if st.session_state.get("sign-in returned") is None:
        st.session_state["sign-in returned"] = "going"
        result = goal(kept, record)
        if result is not None and not page.url_path and not st.query_params:
            st.switch_page(record[result[0]], query_params=result[1])
    st.session_state["sign-in returned"] = "done"
    _set_cookie("", seconds=0)


def _set_cookie(value: str, seconds: int = _COOKIE_S) -> None:
    written = f"{_COOKIE}={value}; Max-Age={seconds}; Path=/; SameSite=Lax"
    st.html(f"<script>document.cookie = {json.dumps(written)}</script>", unsafe_allow_javascript=True)


def _sections() -> dict[str, Any] | None:
    """Return the tables of the file of secrets; None where no sign-in is configured.

    What is there and cannot be read shuts the door: a slip in that file must not let everybody in.
    """
    demanded = bool(os.environ.get(ENVIRONMENT))
    if not st.secrets.load_if_toml_exists():
        files = [name for name in st.get_option("secrets.files") if demanded or Path(name).exists()]
        if demanded or files:
            raise UsageError(
                f"the file of the sign-in cannot be read: {', '.join(files) or os.environ[ENVIRONMENT]}.",
                field=ENVIRONMENT,
                remedy="It is TOML with the tables [auth] and [assay]; docs/sign-in.md shows one.",
            )
        return None
    row: dict[str, Any] = st.secrets.to_dict()
    if not providers(row):
        if demanded or "auth" in row:
            raise UsageError(
                "the file of the sign-in names no provider.",
                field="auth",
                remedy="Give client_id, client_secret and server_metadata_url in [auth]; docs/sign-in.md shows one.",
            )
        return None
    return row


def _local_only() -> bool:
    """Whether only programs on this machine reach the dashboard."""
    address = st.get_option("server.address")
    try:
        return address == "localhost" or ipaddress.ip_address(address or "").is_loopback
    except ValueError:
        return False
