"""`assay hardware`: what is known of hardware by name, and new names for it."""

from __future__ import annotations

from typing import Any

import rich_click as click

from assay import numbers
from assay.cli.aliasing import aliasing, declare
from assay.cli.options import as_json
from assay.cli.output import answers, grid, print_json, say

__all__ = ["hardware"]


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
@aliasing
def alias_hardware(**said: Any) -> int:
    """Declare that ALIAS means CANONICAL, from now on and backwards."""
    return declare("hardware", **said)
