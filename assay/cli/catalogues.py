"""`assay hardware` and `assay model`: what is known by name, and new names for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import rich_click as click
from rich.markup import escape

from assay import numbers
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from domain.errors import UnknownModel, UsageError

__all__ = ["hardware", "model"]

Verb = TypeVar("Verb", bound=Callable[..., Any])


def _aliasing(verb: Verb) -> Verb:
    """Add what the alias verbs have in common."""
    for option in (
        served,
        click.option(
            "--file", "path", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
            help="Many at once, from a file that `assay import --names FILE` has written and you filled in.",
        ),
        click.option("--reason", help="Why; it stays in the log."),
        click.argument("canonical", required=False),
        click.argument("alias", required=False),
    ):  # fmt: skip
        verb = option(verb)
    return verb


@click.group(epilog="Examples: assay hardware list --kind gpu · assay hardware show rtx4090")
def hardware() -> None:
    """Hardware by slug: the catalogue's figures with their sources, and aliases."""


@hardware.command("list")
@click.option("--kind", type=click.Choice(["cpu", "gpu", "npu", "tpu", "other"]))
@as_json
def list_hardware(kind: str | None, as_json: bool) -> int:
    """List the catalogue."""
    from domain.hardware import catalogue

    found = [spec for spec in catalogue().values() if kind in (None, spec.kind)]
    if as_json:
        print_json(found)
        return 0
    rows = [
        [
            spec.id,
            str(spec.kind),
            _flops(spec.peak("fp32")),
            _flops(spec.peak("bf16") or spec.peak("fp16")),
            numbers.memory(spec.memory_bytes.value) if spec.memory_bytes else numbers.MISSING,
            f"{numbers.significant(spec.memory_bandwidth_bytes_per_s.value / 1e9)} GB/s"
            if spec.memory_bandwidth_bytes_per_s
            else numbers.MISSING,
            ", ".join(spec.platforms),
        ]
        for spec in found
    ]
    heads: list[str | tuple[str, str]] = [
        "hardware",
        "kind",
        ("fp32", "right"),
        ("16 bit", "right"),
        ("memory", "right"),
        ("bandwidth", "right"),
        "platforms",
    ]
    answers().print(grid(f"{len(found)} in the catalogue, dense FLOP/s", heads, rows))
    return 0


@hardware.command("show")
@click.argument("name")
@as_json
def show_hardware(name: str, as_json: bool) -> int:
    """Show one, each figure with how it is known."""
    from domain.hardware import require

    spec = require(name)
    if as_json:
        print_json(spec)
        return 0
    rows = [
        [
            path,
            numbers.significant(figure.value, 4),
            figure.status,
            str(figure.formula or figure.source or numbers.MISSING),
        ]
        for path, figure in spec.figures().items()
    ]
    answers().print(
        grid(f"{spec.id}: {spec.name} ({spec.vendor})", ["figure (SI)", ("value", "right"), "status", "from"], rows)
    )
    say(f"platforms: {', '.join(spec.platforms)}; also called: {', '.join(spec.aliases) or 'nothing else'}")
    return 0


def _flops(figure: Any) -> str:
    return f"{numbers.significant(figure.value / 1e12)} T" if figure else numbers.MISSING


@hardware.command(
    "alias", epilog="Examples: assay hardware alias my-gpu nvidia-l4 · assay hardware alias --file names.yaml"
)
@_aliasing
def alias_hardware(**said: Any) -> int:
    """Declare that ALIAS means CANONICAL, from now on and backwards."""
    return _declare("hardware", **said)


@click.group(epilog="Examples: assay model list --category vision · assay model show bert-base-uncased")
def model() -> None:
    """Models by id: the catalogue, and aliases."""


@model.command("list")
@click.option("--category")
@as_json
def list_models(category: str | None, as_json: bool) -> int:
    """List the catalogue."""
    from domain.models import catalogue

    found = [entry for entry in catalogue() if category in (None, entry.category)]
    if as_json:
        print_json([_model_row(entry) for entry in found])
        return 0
    rows = [
        [
            entry.id,
            entry.key_class or "",
            entry.variant,
            entry.category,
            numbers.count(entry.parameters),
            ", ".join(entry.aliases[:2]),
        ]
        for entry in found
    ]
    answers().print(
        grid(
            f"{len(found)} models",
            ["model", "class", "variant", "category", ("parameters", "right"), "also called"],
            rows,
        )
    )
    return 0


@model.command("show")
@click.argument("name")
@as_json
def show_model(name: str, as_json: bool) -> int:
    """Show one, with where its parameter count comes from."""
    from domain.models import find, nearest

    entry = find(name)
    if entry is None:
        raise UnknownModel(name, nearest(name), remedy="A directory with a config.json works as well.")
    told = _model_row(entry)
    if as_json:
        print_json({**told, "config": entry.config})
    else:
        answers().print(grid(entry.id, ["", "value"], [[key, str(value)] for key, value in told.items() if value]))
    return 0


def _model_row(entry: Any) -> dict[str, Any]:
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(entry)
    row.pop("config", None)
    return row


@model.command(
    "alias",
    epilog="Examples: assay model alias my-bert google-bert/bert-base-uncased · assay model alias --file names.yaml",
)
@_aliasing
def alias_model(**said: Any) -> int:
    """Declare that ALIAS means CANONICAL, from now on and backwards."""
    return _declare("model", **said)


def _declare(
    kind: Any,
    *,
    alias: str | None,
    canonical: str | None,
    path: Path | None,
    reason: str | None,
    server: str | None,
    token: str | None,
) -> int:
    from assay.cli.connection import connected
    from domain.events import ALIAS_DECLARED, decode_event, encode_event, new_event
    from domain.payloads import AliasDeclared

    time = datetime.now(UTC)
    events = []
    for name, meant in _declared(kind, alias, canonical, path).items():
        data = AliasDeclared(kind=kind, alias=name, canonical=meant, reason=reason)
        events.append(new_event(ALIAS_DECLARED, data, source="assay-cli", time=time))
        decode_event(encode_event(events[-1]))
    with connected(server, token) as client:
        answer = client.post_events(events)
        client.wait_for(answer["last_position"])
    for event in events[:20]:
        said = event["data"]
        say(escape(f"{said['alias']} now means {said['canonical']}{_doubt(kind, said['canonical'])}"))
    more = f"{numbers.count(len(events))} aliases" if len(events) > 1 else "declared"
    say(f"{more} (position {answer['last_position']})")
    return 0


def _declared(kind: str, alias: str | None, canonical: str | None, path: Path | None) -> Mapping[str, str]:
    """Return what is to be declared: the one pair that was typed, or those of a file."""
    from assay.cli.namefile import read_names

    if path is None:
        if alias is None or canonical is None:
            raise UsageError(
                "an alias and what it means are needed.", field="alias", remedy="Type both, or name a file with --file."
            )
        return {alias: canonical}
    if alias is not None:
        raise UsageError("aliases were typed and named in a file.", field="file", remedy="Give the one or the other.")
    found = read_names(path, kind)
    if not found:
        raise UsageError(
            f"nothing is filled in under `{kind}:` of {path.name}.", field="file",
            remedy="Write the canonical id behind a name.",
        )  # fmt: skip
    return found


def _doubt(kind: str, canonical: str) -> str:
    """Return a remark on a canonical id that the catalogue does not have: it may be one of the user's own, or mistyped."""
    from domain import hardware, models

    known = models.find(canonical) if kind == "model" else hardware.find(canonical)
    return "" if known else " (which is in no catalogue)"
