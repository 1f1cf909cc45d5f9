"""`assay alerts routes`: check the routes file, send a test message, and see what became of messages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
import rich_click as click

from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from domain.errors import UsageError
from presentation import formatting

if TYPE_CHECKING:
    from domain.answers.deliveries import AlertDeliveries, RouteDeliveries
    from domain.history.routes import Owner, Quiet, Route, Routes

__all__ = ["routes"]

_FILE = click.option(
    "--file", "file", type=click.Path(path_type=Path), help="By default ASSAY_ALERTS, or alerts.yaml in ASSAY_HOME."
)
_SHOWN = 3


class Covered(msgspec.Struct, frozen=True, kw_only=True):
    """What a part of the file takes of the catalogue, and the patterns that take nothing of it."""

    name: str
    models: int
    hardware: int
    unmatched: list[str]


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `check`: what owners and routes take, and by route the variables that are not set here."""

    file: str
    owners: list[Covered]
    routes: list[Covered]
    unset: dict[str, list[str]]


@click.group()
def routes() -> None:
    """Where alerts are sent: webhooks, Slack and mail, by model, hardware and owner (docs/alert-routes.md)."""


@routes.command(
    "check",
    epilog="""\b
Examples:
  assay alerts routes check
  assay alerts routes check --file alerts.yaml --json""",
)
@_FILE
@as_json
def check(file: Path | None, as_json: bool) -> int:
    """Check the routes file and show what each route and owner takes of the models and hardware of the catalogue.

    Exit code 2 with the field and a remedy where the file cannot be used. Nothing is sent.
    """
    from api.alerts.receivers import missing_variables

    path, decoded = _read(file)
    models, hardware = _catalogue()
    checked = Checked(
        file=str(path),
        owners=[_covered(owner.name, owner.models, owner.hardware, models, hardware) for owner in decoded.owners],
        routes=[_route_covered(route, decoded.owners, models, hardware) for route in decoded.routes],
        unset={route.name: missing_variables(route, os.environ) for route in decoded.routes},
    )
    if as_json:
        print_json(checked)
        return 0
    _print(decoded, checked, len(models), len(hardware))
    return 0


@routes.command(
    "test",
    epilog="""\b
Examples:
  assay alerts routes test nlp-on-call
  ASSAY_NLP_SECRET=whsec_… assay alerts routes test nlp-on-call --file alerts.yaml""",
)
@click.argument("name")
@_FILE
@as_json
def test(name: str, file: Path | None, as_json: bool) -> int:
    """Send a test message on a route now, also in quiet hours, and say what came back.

    The secrets are those of this shell's environment. Exit code 1 where the message was not delivered.
    """
    import asyncio
    import uuid
    from datetime import UTC, datetime

    from api.alerts.receivers import send
    from domain.history.notices import trial_message

    path, decoded = _read(file)
    route = next((each for each in decoded.routes if each.name == name), None)
    if route is None:
        known = ", ".join(each.name for each in decoded.routes) or "none"
        raise UsageError(f"{path.name} has no route {name!r}.", field="name", remedy=f"Routes: {known}.")
    message = trial_message(route.name, datetime.now(UTC), decoded.service)
    outcome = asyncio.run(send(route, str(uuid.uuid4()), message))
    if as_json:
        print_json(outcome)
    else:
        word = "delivered" if outcome.delivered else "not delivered"
        answers().print(f"{word}: {outcome.detail}", markup=False)
    return 0 if outcome.delivered else 1


@routes.command(
    "status",
    epilog="""\b
Examples:
  assay alerts routes status
  assay alerts routes status --server https://assay.example.org --json""",
)
@served
@as_json
def status(server: str | None, token: str | None, as_json: bool) -> int:
    """Show how the messages of each route stand: pending, delivered, failed, and the last error. Needs the scope admin.

    Exit code 1 where messages failed or a receiver is gone.
    """
    from assay.cli.connection import connected
    from domain.answers.deliveries import AlertDeliveries

    with connected(server, token) as client:
        content = client.fetch("/v1/alerts/deliveries", "application/json").content
    answer = msgspec.json.decode(content, type=AlertDeliveries)
    if as_json:
        print_json(answer)
    else:
        _print_status(answer)
    return 1 if any(route.failed or route.stopped for route in answer.routes) else 0


def _print_status(answer: AlertDeliveries) -> None:
    rows = [
        [
            route.route,
            _state(route),
            f"{route.pending:,}",
            f"{route.held:,}",
            f"{route.delivered:,}",
            f"{route.failed:,}",
            formatting.date(route.last_delivered_at),
            route.last_error or formatting.MISSING,
        ]
        for route in answer.routes
    ]
    figures: list[str | tuple[str, str]] = [(name, "right") for name in ("pending", "held", "delivered", "failed")]
    columns = ["route", ("state", "fixed"), *figures, ("last delivered", "fixed"), "last error"]
    answers().print(grid("Messages about alerts", columns, rows))
    if answer.error:
        say(f"the routes file cannot be used, and the last good one holds: {answer.error}")
    if not answer.routes:
        say("the service has no routes, so no alert is sent")


def _state(route: RouteDeliveries) -> str:
    if not route.known:
        return "not in the file"
    return "receiver is gone" if route.stopped else "in use"


def _read(file: Path | None) -> tuple[Path, Routes]:
    """Return the file's path and its routes; UsageError where there is none."""
    from api.alerts.routes_file import VARIABLE, routes_path
    from assay.home import find_home
    from domain.history.routes import decode_routes

    path = file or routes_path(find_home().path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        remedy = "Write it (docs/alert-routes.md has an example), or name one with --file."
        raise UsageError(f"there is no {path}, so no alert is sent.", field=VARIABLE, remedy=remedy) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"{path} cannot be read: {reason}.", field=VARIABLE, remedy="Check the path.") from None
    return path, decode_routes(text, path.name)


def _catalogue() -> tuple[list[str], list[str]]:
    from domain.catalogues import hardware, models

    return [model.id for model in models.catalogue()], list(hardware.catalogue())


def _covered(
    name: str, model_globs: Sequence[str], hardware_globs: Sequence[str], models: list[str], hardware: list[str]
) -> Covered:
    pairs = [(models, model_globs), (hardware, hardware_globs)]
    taken = [sum(_fits(each, globs) for each in names) for names, globs in pairs]
    unmatched = [
        glob for names, globs in pairs for glob in globs if names and not any(_fits(each, [glob]) for each in names)
    ]
    return Covered(name=name, models=taken[0], hardware=taken[1], unmatched=unmatched)


def _route_covered(route: Route, owners: Sequence[Owner], models: list[str], hardware: list[str]) -> Covered:
    """Return what a route takes: what its patterns take, of what its owners own."""
    named = [owner for owner in owners if owner.name in route.match.owners]
    if named:
        models = [each for each in models if any(_fits(each, owner.models) for owner in named)]
        hardware = [each for each in hardware if any(_fits(each, owner.hardware) for owner in named)]
    return _covered(route.name, route.match.models, route.match.hardware, models, hardware)


def _fits(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name.lower(), glob.lower()) for glob in globs)


def _print(decoded: Routes, checked: Checked, models: int, hardware: int) -> None:
    if decoded.owners:
        rows = [
            [owner.name, f"{owner.models} of {models}", f"{owner.hardware} of {hardware}"] for owner in checked.owners
        ]
        answers().print(grid("Owners", ["owner", "models", "hardware"], rows))
    if not decoded.routes:
        say("the file has no routes, so no alert is sent")
        return
    rows = [
        [
            route.name,
            _receiver(route),
            f"{covered.models} of {models}",
            f"{covered.hardware} of {hardware}",
            _conditions(route),
            "; ".join(_period(period) for period in route.quiet) or "never",
        ]
        for route, covered in zip(decoded.routes, checked.routes, strict=True)
    ]
    answers().print(grid("Routes", ["route", "to", "models", "hardware", "takes", "quiet"], rows))
    for covered in (*checked.owners, *checked.routes):
        for glob in covered.unmatched:
            say(f"{covered.name}: {glob!r} fits nothing of the catalogue; models and hardware of your own may")
    for name, variables in checked.unset.items():
        if variables:
            say(f"{name}: {', '.join(variables)} not set in this shell; the service needs it")


def _receiver(route: Route) -> str:
    """Return where a route goes, without the path of an address."""
    webhook, email = route.to.webhook, route.to.email
    if webhook is not None:
        place = urlsplit(webhook.url).netloc if webhook.url else f"${webhook.url_env}"
        return f"{webhook.format} {place}"
    if email is not None:
        return f"mail {', '.join(email.to[:_SHOWN])}" + (
            f" and {len(email.to) - _SHOWN} more" if len(email.to) > _SHOWN else ""
        )
    return ""


def _conditions(route: Route) -> str:
    match = route.match
    parts = ["/".join(match.directions)]
    parts += [f"{'/'.join(match.kinds)} only"] if len(match.kinds) == 1 else []
    parts += [f"owners {', '.join(match.owners)}"] if match.owners else []
    parts += [f"platforms {', '.join(match.platforms)}"] if match.platforms != ("*",) else []
    parts += [f"from {match.min_change * 100:g} %"] if match.min_change else []
    parts += [f"every {route.digest.every}"] if route.digest.every else []
    return ", ".join(parts)


def _period(period: Quiet) -> str:
    days = "" if len(period.days) == 7 else f" {' '.join(period.days)}"
    return f"{period.begin}–{period.end}{days} {period.timezone}"
