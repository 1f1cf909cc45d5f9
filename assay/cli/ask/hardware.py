"""`assay hardware`: what is known of hardware by name, and new names for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rich_click as click
from rich.markup import escape
from rich.table import Table

from assay.cli.ask.pricing import price_table
from assay.cli.ask.rooflines import kernels, roofline
from assay.cli.keep.aliasing import aliasing, declare
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from domain.catalogues.hardware import nearest
from domain.errors import NotFound, UnknownHardware
from presentation import formatting

__all__ = ["hardware"]

_COUNTED = ("measurements", "tests")
MACHINES = 12
"""Prices that are shown of one hardware."""


@click.group(epilog="Examples: assay hardware list --kind gpu · assay hardware show rtx4090")
def hardware() -> None:
    """Hardware by slug: figures with their sources, where it was seen, what it costs, and aliases."""


@hardware.command("list")
@click.option("--kind", type=click.Choice(["cpu", "gpu", "npu", "tpu", "other"]))
@click.option("--seen", is_flag=True, help="What the log tells of, instead of the catalogue.")
@served
@as_json
def list_hardware(kind: str | None, seen: bool, server: str | None, token: str | None, as_json: bool) -> int:
    """List the catalogue; with --seen the hardware of the log, and whether a runner of ours was on it."""
    if seen:
        return _list_seen(kind, server, token, as_json=as_json)
    from domain.catalogues.hardware import catalogue

    matching_catalogue = [spec for spec in catalogue().values() if kind in (None, spec.kind)]
    if as_json:
        print_json(matching_catalogue)
        return 0
    rows = [
        [
            spec.id,
            str(spec.kind),
            _flops(spec.peak("fp32")),
            _flops(spec.peak("bf16") or spec.peak("fp16")),
            formatting.memory(spec.memory_bytes.value) if spec.memory_bytes else formatting.MISSING,
            f"{formatting.significant(spec.memory_bandwidth_bytes_per_s.value / 1e9)} GB/s"
            if spec.memory_bandwidth_bytes_per_s
            else formatting.MISSING,
            ", ".join(spec.platforms),
        ]
        for spec in matching_catalogue
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
    answers().print(grid(f"{len(matching_catalogue)} in the catalogue, dense FLOP/s", heads, rows))
    return 0


def _list_seen(kind: str | None, server: str | None, token: str | None, *, as_json: bool) -> int:
    from assay.cli.connection import reading

    with reading(server, token) as client:
        matching_hardware = [row for row in client.hardware(kind=kind) if row["known"] != "catalogued"]
    if as_json:
        print_json(matching_hardware)
    else:
        rows = [
            [
                row["id"],
                row["kind"] or formatting.MISSING,
                row["known"],
                *(formatting.count(row[noun]) for noun in _COUNTED),
            ]
            for row in matching_hardware
        ]
        heads: list[str | tuple[str, str]] = [
            "hardware",
            "kind",
            ("known", "fixed"),
            *((noun, "right") for noun in _COUNTED),
        ]
        answers().print(grid(f"{len(matching_hardware)} in the log", heads, rows))
    return 0 if matching_hardware else 1


@hardware.command("show")
@click.argument("name")
@served
@as_json
def show_hardware(name: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Show one: its figures and how each is known, where it was seen, what it costs, and what is like it."""
    from assay.cli.connection import reading

    with reading(server, token) as client:
        try:
            hardware = client.one_hardware(name)["hardware"]
        except NotFound as error:
            raise UnknownHardware(name, nearest(name)) from error
    if as_json:
        print_json(hardware)
        return 0
    _say_instance(name)
    answers().print(_figures(hardware))
    if hardware.get("note"):
        say(escape(hardware["note"]))
    memory = hardware.get("memory_type") or "not said"
    say(f"{hardware['known']}; memory: {memory}; platforms: {', '.join(hardware.get('platforms') or {}) or 'not said'}")
    say(f"also called: {', '.join(hardware['aliases']) or 'nothing else'}")
    if hardware.get("parts"):
        say(f"its GPU and NPU: {', '.join(hardware['parts'])}")
    if hardware["kernel_timings"]:
        answers().print(_kernels(hardware["kernel_timings"]))
    for merge in hardware["merged"]:
        why = f" ({merge['reason']})" if merge["reason"] else ""
        say(escape(f"{merge['alias']} means {merge['canonical']}, declared at position {merge['position']}{why}"))
    for seen in hardware["environments"]:
        parts = ", ".join(str(seen[part]) for part in ("os", "driver", "machine") if seen[part])
        say(escape(f"seen in environment {seen['fingerprint']}: {parts or 'nothing said'}"))
    if hardware["prices"]:
        answers().print(
            price_table(hardware["prices"][:MACHINES], f"{len(hardware['prices'])} prices of it, US dollars an hour")
        )
        if any(row["stale"] for row in hardware["prices"]):
            say("* older than 90 days, or undated (docs/prices.md)")
    else:
        say("no price is known: assay price add, or import a price list")
    if hardware["siblings"]:
        say(f"most like it: {', '.join(item['id'] for item in hardware['siblings'])}")
    return 0


def _say_instance(name: str) -> None:
    from domain.catalogues import instances

    instance = instances.find(name)
    if instance is not None:
        memory = formatting.memory(instance.host_memory_bytes)
        host = f"{instance.vcpus or formatting.MISSING} vCPU, {memory}, {instance.host_cpu or 'processor not known'}"
        say(f"{instance.id} is {instance.count} × {instance.hardware}; host: {host}")


def _figures(row: Mapping[str, Any]) -> Table:
    from domain.catalogues.hardware import FIGURES

    figures = {name: row[name] for name in FIGURES if row.get(name)}
    for table in ("peak_flops", "sustained_flops"):
        figures |= {f"{table}.{precision}": figure for precision, figure in (row.get(table) or {}).items()}
    rows = [
        [
            path,
            formatting.significant(figure["value"], 4),
            figure["status"],
            str(figure.get("formula") or figure.get("source") or formatting.MISSING),
        ]
        for path, figure in figures.items()
    ]
    title = f"{row['id']}: {row['name'] or 'nameless'} ({row['vendor'] or 'vendor not said'})"
    return grid(title, ["figure (SI)", ("value", "right"), "status", "from"], rows)


def _kernels(rows: list[Mapping[str, Any]]) -> Table:
    total = formatting.count(sum(row["timings"] for row in rows))
    cells = [
        [
            row["operator"],
            row["platform"],
            ", ".join(row["runtimes"]) or formatting.MISSING,
            ", ".join(row["precisions"]) or formatting.MISSING,
            formatting.count(row["timings"]),
            formatting.count(row["suspect"]) if row["suspect"] else formatting.MISSING,
            formatting.count(row["invalid"]) if row["invalid"] else formatting.MISSING,
            ", ".join(row["origins"]),
        ]
        for row in rows
    ]
    heads: list[str | tuple[str, str]] = [
        ("operator", "fixed"),
        "platform",
        "runtimes",
        "precisions",
        ("timings", "right"),
        ("suspect", "right"),
        ("invalid", "right"),
        "origin",
    ]
    return grid(f"{total} timings of kernels", heads, cells)


def _flops(figure: Any) -> str:
    return f"{formatting.significant(figure.value / 1e12)} T" if figure else formatting.MISSING


@hardware.command(
    "alias", epilog="Examples: assay hardware alias my-gpu nvidia-l4 · assay hardware alias --file names.yaml"
)
@aliasing
def alias_hardware(**said: Any) -> int:
    """Declare that ALIAS means CANONICAL, from now on and backwards."""
    return declare("hardware", **said)


hardware.add_command(roofline)
hardware.add_command(kernels)
