"""`assay hardware` and `assay model`: what is known by name, and new names for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import rich_click as click

from assay import numbers
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from domain.errors import UnknownModel

__all__ = ["hardware", "model"]


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


@hardware.command("alias")
@click.argument("alias")
@click.argument("canonical")
@click.option("--reason")
@served
def alias_hardware(alias: str, canonical: str, reason: str | None, server: str | None, token: str | None) -> int:
    """Declare that ALIAS means CANONICAL, from now on and backwards."""
    return _declare("hardware", alias, canonical, reason, server, token)


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


@model.command("alias")
@click.argument("alias")
@click.argument("canonical")
@click.option("--reason")
@served
def alias_model(alias: str, canonical: str, reason: str | None, server: str | None, token: str | None) -> int:
    """Declare that ALIAS means CANONICAL, from now on and backwards."""
    return _declare("model", alias, canonical, reason, server, token)


def _declare(kind: Any, alias: str, canonical: str, reason: str | None, server: str | None, token: str | None) -> int:
    from assay.cli.connection import connected
    from domain.events import ALIAS_DECLARED, decode_event, encode_event, new_event
    from domain.payloads import AliasDeclared

    data = AliasDeclared(kind=kind, alias=alias, canonical=canonical, reason=reason)
    event = new_event(ALIAS_DECLARED, data, source="assay-cli", time=datetime.now(UTC))
    decode_event(encode_event(event))
    with connected(server, token) as client:
        answer = client.post_events([event])
        client.wait_for(answer["last_position"])
    say(f"{alias} now means {canonical} (position {answer['last_position']})")
    return 0
