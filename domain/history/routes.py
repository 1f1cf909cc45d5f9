"""The routes file: who owns which models and hardware, and which alerts are sent where and when.

owners:
  - {name: nlp, models: ["*bert*"]}
routes:
  - name: nlp-on-call
    match: {owners: [nlp]}
    to: {webhook: {url: https://hooks.example.org/assay, secret_env: ASSAY_NLP_SECRET}}
    quiet: {from: "22:00", to: "07:00", timezone: Europe/Berlin}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, time, timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, get_args
from urllib.parse import parse_qsl, urlsplit
from zoneinfo import ZoneInfo

import msgspec

from domain.errors import UsageError
from domain.history.alerts import Alert, State
from domain.history.history import Change

__all__ = [
    "Digest",
    "Email",
    "Match",
    "Owner",
    "Quiet",
    "Receiver",
    "Route",
    "Routes",
    "Sendable",
    "Webhook",
    "decode_routes",
    "matching_changes",
    "next_due",
    "owners_of",
    "routes_for",
]

_LIMIT_CHARACTERS = 1_000_000
_LOOK_AHEAD = 60
"""Quiet periods in a row before a route counts as always quiet; seven a week and three of each day are 21."""
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*\Z")]
Glob = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
Variable = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[A-Z_][A-Z0-9_]*\Z")]
Clock = Annotated[str, msgspec.Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]\Z")]
Address = Annotated[str, msgspec.Meta(max_length=300, pattern=r"^[^@\s<>,;]+@[^@\s<>,;]+\Z")]
Host = Annotated[str, msgspec.Meta(max_length=253, pattern=r"^[A-Za-z0-9_.:-]+\Z")]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = get_args(Day)
Sendable = State | Literal["extended"]
"""What a route may send: the states of an alert, and that a further configuration joined one that was sent."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the file, which has no other members than those listed."""


class Owner(_Part, frozen=True, kw_only=True):
    """A name for whoever answers for these models on this hardware; `*` and `?` stand for any letters."""

    name: Name
    models: tuple[Glob, ...] = ("*",)
    hardware: tuple[Glob, ...] = ("*",)


class Match(_Part, frozen=True, kw_only=True):
    """Which alerts a route takes: every member must fit. `min_change` is a share: 0.1 leaves out changes under 10 %."""

    models: tuple[Glob, ...] = ("*",)
    hardware: tuple[Glob, ...] = ("*",)
    platforms: tuple[Glob, ...] = ("*",)
    owners: tuple[Name, ...] = ()
    directions: tuple[Literal["worse", "better"], ...] = ("worse",)
    kinds: tuple[Literal["performance", "functional"], ...] = ("performance", "functional")
    min_change: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 0.0


class Webhook(_Part, frozen=True, kw_only=True):
    """An address that takes JSON by POST: `url`, or the variable that holds one with a token in it.

    The format `assay` is signed by the secret in the variable `secret_env`.
    """

    url: Annotated[str, msgspec.Meta(max_length=2000)] | None = None
    url_env: Variable | None = None
    secret_env: Variable | None = None
    format: Literal["assay", "slack"] = "assay"
    allow_private: bool = False


class Email(_Part, frozen=True, kw_only=True, rename={"sender": "from"}):
    """A mail by SMTP. Without `port` it is the usual one of `tls`: 587 for starttls, 465 for tls, 25 for none."""

    to: Annotated[tuple[Address, ...], msgspec.Meta(min_length=1, max_length=100)]
    sender: Address
    host: Host
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
    tls: Literal["starttls", "tls", "none"] = "starttls"
    username: Annotated[str, msgspec.Meta(max_length=300)] | None = None
    password_env: Variable | None = None


class Quiet(_Part, frozen=True, kw_only=True, rename={"begin": "from", "end": "to"}):
    """A period in which nothing is sent, on the days on which it begins; an end that is no later is on the next day."""

    begin: Clock
    end: Clock
    timezone: str = "UTC"
    days: tuple[Day, ...] = DAYS


class Digest(_Part, frozen=True, kw_only=True):
    """Alerts within `every` (`15m`), or more than `above` at once, are one message."""

    every: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,4}[smhd]\Z")] | None = None
    above: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 10

    @property
    def window(self) -> timedelta:
        """How long alerts are gathered."""
        if self.every is None:
            return timedelta(0)
        return timedelta(seconds=int(self.every[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[self.every[-1]])


class Receiver(_Part, frozen=True, kw_only=True):
    """Where a route goes: one of the two."""

    webhook: Webhook | None = None
    email: Email | None = None


class Route(_Part, frozen=True, kw_only=True):
    """Where alerts that match are sent, except in quiet hours; `states` are those that are sent."""

    name: Name
    to: Receiver
    match: Match = Match()
    quiet: tuple[Quiet, ...] = ()
    digest: Digest = Digest()
    states: tuple[Sendable, ...] = ("new", "withdrawn")


class Routes(_Part, frozen=True, kw_only=True):
    """The whole file. `service` is the address of this service that messages link to."""

    owners: tuple[Owner, ...] = ()
    routes: tuple[Route, ...] = ()
    service: Annotated[str, msgspec.Meta(max_length=300, pattern=r"^https?://[^\s@?#]+\Z")] | None = None


def routes_for(alert: Alert, routes: Sequence[Route], owners: Sequence[Owner]) -> list[Route]:
    """Return the routes that take an alert in its state."""
    return [route for route in routes if alert.state in route.states and matching_changes(alert, route.match, owners)]


def matching_changes(alert: Alert, match: Match, owners: Sequence[Owner]) -> list[Change]:
    """Return the changes of an alert that a route is about; none where the route does not take the alert."""
    if alert.direction not in match.directions or alert.kind not in match.kinds:
        return []
    wanted = [owner for owner in owners if owner.name in match.owners]
    return [
        change
        for change in alert.changes
        if _fits(change.model, match.models)
        and _fits(change.hardware, match.hardware)
        and _fits(change.platform, match.platforms)
        and (change.kind == "functional" or abs(change.change) >= match.min_change)
        and (not match.owners or any(_owns(owner, change) for owner in wanted))
    ]


def owners_of(changes: Sequence[Change], owners: Sequence[Owner]) -> list[str]:
    """Return the names of those who own the model and the hardware of any of these changes, in the order of the file."""
    return [owner.name for owner in owners if any(_owns(owner, change) for change in changes)]


def _owns(owner: Owner, change: Change) -> bool:
    return _fits(change.model, owner.models) and _fits(change.hardware, owner.hardware)


def _fits(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name.lower(), glob.lower()) for glob in globs)


def next_due(moment: datetime, quiet: Sequence[Quiet]) -> datetime:
    """Return when what is ready at this moment may be sent, in UTC: then, or at the end of quiet hours."""
    due = moment.astimezone(UTC)
    for _ in range(_LOOK_AHEAD):
        end = max((end for period in quiet for begin, end in _spans(due, period) if begin <= due < end), default=None)
        if end is None:
            return due
        due = end
    raise UsageError("quiet hours never end.", field="quiet", remedy="Leave some time in which alerts are sent.")


def _spans(now: datetime, period: Quiet) -> Iterator[tuple[datetime, datetime]]:
    """Yield the beginning and end, in UTC, of the quiet periods around a moment.

    An hour that the clocks repeat is quiet both times; one that they skip counts as the moment after it.
    """
    zone = ZoneInfo(period.timezone)
    begin, end = time.fromisoformat(period.begin), time.fromisoformat(period.end)
    today = now.astimezone(zone).date()
    for day in (today - timedelta(days=1), today):
        if DAYS[day.weekday()] in period.days:
            last = day if end > begin else day + timedelta(days=1)
            yield min(_moments(datetime.combine(day, begin), zone)), max(_moments(datetime.combine(last, end), zone))


def _moments(local: datetime, zone: ZoneInfo) -> list[datetime]:
    return [local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]


_SECRET_PARTS = re.compile(
    r"whsec_|xox[a-z]-|hooks\.slack(?:-gov)?\.com/|/api/webhooks/[0-9]+/|webhook\.office\.com/|\blogic\.azure\.com[:/]",
    re.IGNORECASE,
)
"""What only secrets have in them, or the addresses of services that let in whoever knows the address."""
_SECRET_MEMBERS = {"secret": "secret_env", "password": "password_env", "token": "url_env", "pass": "password_env"}
_SECRET_QUERY = re.compile(r"token|secret|key|sig|auth|pass|code", re.IGNORECASE)
_UNKNOWN = re.compile(r"unknown field `(.+?)`")


def decode_routes(text: str, name: str = "alerts.yaml") -> Routes:
    """Return the routes of a file's text; UsageError naming the file, the path of the field, and the remedy."""
    value = _loaded(text, name)
    value = _listed(value)
    _refuse_secrets(value, "", name)
    try:
        routes = msgspec.convert(value, Routes)
    except msgspec.ValidationError as error:
        raise _misshapen(str(error), name) from None
    _check_names(routes, name)
    for index, route in enumerate(routes.routes):
        _check_route(route, f"routes[{index}]", routes, name)
    return routes


def _loaded(text: str, name: str) -> Any:
    import yaml

    if len(text) > _LIMIT_CHARACTERS:
        raise _wrong(name, "routes", f"the file is over {_LIMIT_CHARACTERS:,} characters.", "Use wider globs.")
    try:
        # An alias of an alias of an alias … is a bomb, and no route needs one.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise _wrong(name, "routes", "aliases are not taken.", "Write the value out.")
        value = yaml.load(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _wrong(
            name, "routes", f"line {line} is not YAML: {error.problem}.", "Check indentation and quotes."
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise _wrong(name, "routes", "is not YAML.", "Check the file's encoding, indentation and quotes.") from None
    if not isinstance(value, dict):
        raise _wrong(name, "routes", "has no members.", "Begin with `routes:`.")
    return value


def _loader() -> Any:
    """Return a safe loader that refuses a member which is named twice."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        pass

    def members(loader: Any, node: Any) -> dict[Any, Any]:
        # `on`, `22:00` and `2026-01-01` as members are names; as values they are quoted where they must be text.
        names = [str(key.value) for key, _ in node.value]
        twice = next((member for member in names if names.count(member) > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"{twice[:80]!r} is named twice", node.start_mark)
        return {key.value: loader.construct_object(inner, deep=True) for key, inner in node.value}

    Loader.add_constructor("tag:yaml.org,2002:map", members)
    # YAML 1.1 reads 22:00 as a number in base 60, which is what nobody means here.
    Loader.add_constructor("tag:yaml.org,2002:int", _whole_or_text)
    return Loader


def _whole_or_text(loader: Any, node: Any) -> Any:
    return node.value if ":" in node.value else loader.construct_yaml_int(node)


def _listed(value: dict[Any, Any]) -> dict[Any, Any]:
    """Return the file with a list where one quiet period stands alone."""
    routes = value.get("routes")
    if not isinstance(routes, list):
        return value
    listed = [
        {**route, "quiet": [route["quiet"]]}
        if isinstance(route, dict) and isinstance(route.get("quiet"), dict)
        else route
        for route in routes
    ]
    return {**value, "routes": listed}


def _refuse_secrets(value: Any, path: str, name: str) -> None:
    """Refuse a value that can only be a secret, without repeating it."""
    if isinstance(value, dict):
        for member, inner in value.items():
            inner_path = f"{path}.{member}" if path else str(member)
            if member in _SECRET_MEMBERS:
                instead = _SECRET_MEMBERS[member]
                raise _wrong(name, inner_path, "a secret does not stand in the file.", _remedy(instead))
            _refuse_secrets(inner, inner_path, name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _refuse_secrets(inner, f"{path}[{index}]", name)
    elif isinstance(value, str) and _SECRET_PARTS.search(value):
        instead = "url_env" if path.endswith("url") else "secret_env"
        raise _wrong(name, path, "a secret, or an address that is one, does not stand in the file.", _remedy(instead))


def _remedy(member: str) -> str:
    return f"Put it into an environment variable of the service and name that: `{member}: ASSAY_…`."


def _misshapen(message: str, name: str) -> UsageError:
    """Return the error for a value that has not the shape of the file."""
    what, _, place = message.partition(" - at `$")
    path = place.rstrip("`").removeprefix(".")
    unknown = _UNKNOWN.search(what)
    if unknown:
        return _wrong(
            name,
            f"{path}.{unknown[1]}".removeprefix("."),
            "no member is called so.",
            "docs/alert-routes.md lists them.",
        )
    if "matching regex" in what:
        # The pattern says what is allowed, not what was written, which may be a secret in the wrong place.
        return _wrong(name, path, "is not written as it must be.", _written_as(path))
    if "enum value" in what:
        return _wrong(name, path, "is none of the words it may be.", "docs/alert-routes.md lists them.")
    return _wrong(
        name, path or "routes", f"{what[0].lower()}{what[1:].replace('Object', 'it')}.", "See docs/alert-routes.md."
    )


def _written_as(path: str) -> str:
    member = path.rpartition(".")[2].partition("[")[0]
    return {
        "name": "Use letters, digits, spaces, dots, hyphens and underscores.",
        "every": "Write a number and s, m, h or d: 15m.",
        "from": 'Write a time as "22:00", or an address as assay@example.org.',
        "to": 'Write a time as "07:00", or an address as team@example.org.',
        "service": "Write https://assay.example.org, without a query.",
        "host": "Write the name of the mail server alone: mail.example.org.",
    }.get(member, "Name an environment variable in capital letters: ASSAY_ALERT_SECRET.")


def _check_names(routes: Routes, name: str) -> None:
    owners, sent = [owner.name for owner in routes.owners], [route.name for route in routes.routes]
    for member, names in (("owners", owners), ("routes", sent)):
        for index, each in enumerate(names):
            if each in names[:index]:
                raise _wrong(name, f"{member}[{index}].name", f"{each!r} is taken.", "Give each its own name.")


def _check_route(route: Route, path: str, routes: Routes, name: str) -> None:
    known = [owner.name for owner in routes.owners]
    for index, owner in enumerate(route.match.owners):
        if owner not in known:
            remedy = f"Known: {', '.join(known)}." if known else "Add it under `owners:`."
            raise _wrong(name, f"{path}.match.owners[{index}]", f"{owner!r} is no owner of the file.", remedy)
    webhook, email = route.to.webhook, route.to.email
    if (webhook is None) == (email is None):
        raise _wrong(name, f"{path}.to", "needs one of webhook and email.", "Write `webhook: {url: …}`.")
    if webhook is not None:
        _check_webhook(webhook, f"{path}.to.webhook", name)
    if email is not None:
        _check_email(email, f"{path}.to.email", name)
    for index, period in enumerate(route.quiet):
        try:
            ZoneInfo(period.timezone)
        except (KeyError, ValueError, OSError):
            remedy = "Name one of the IANA database: UTC, Europe/Berlin, America/New_York."
            raise _wrong(name, f"{path}.quiet[{index}].timezone", "is no time zone.", remedy) from None
    try:
        next_due(datetime(2026, 1, 1, tzinfo=UTC), route.quiet)
    except UsageError as error:
        raise _wrong(name, f"{path}.quiet", error.detail, str(error.remedy)) from None


def _check_webhook(to: Webhook, path: str, name: str) -> None:
    if (to.url is None) == (to.url_env is None):
        raise _wrong(name, f"{path}.url", "a webhook has one of url and url_env.", "Write url: https://…")
    if to.format == "assay" and to.secret_env is None:
        remedy = "Name the variable that holds it: `secret_env: ASSAY_ALERT_SECRET`."
        raise _wrong(name, f"{path}.secret_env", "the format assay is signed and needs a secret.", remedy)
    if to.url is not None:
        _check_url(to.url, f"{path}.url", name)


def _check_url(url: str, path: str, name: str) -> None:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises ValueError for a port that is none
    except ValueError:
        raise _wrong(name, path, "is no address.", "Write https://hooks.example.org/assay.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", url):
        raise _wrong(name, path, "is no address of a web server.", "Write https://hooks.example.org/assay.")
    secret = "@" in parts.netloc or any(_SECRET_QUERY.search(key) for key, _ in parse_qsl(parts.query, True))
    if secret:
        raise _wrong(name, path, "an address with a secret does not stand in the file.", _remedy("url_env"))


def _check_email(to: Email, path: str, name: str) -> None:
    if (to.username is None) != (to.password_env is None):
        raise _wrong(name, f"{path}.username", "username and password_env belong together.", "Give both or none.")
    if to.username is not None and to.tls == "none":
        remedy = "Use starttls or tls, or leave username and password_env out."
        raise _wrong(name, f"{path}.tls", "a password does not go over the network in the clear.", remedy)


def _wrong(name: str, field: str, detail: str, remedy: str) -> UsageError:
    return UsageError(f"{name}: {detail}", field=field, remedy=remedy)
