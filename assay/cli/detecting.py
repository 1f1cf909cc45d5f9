"""`assay detect`: what this machine is, and what works on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import rich_click as click

from assay import numbers
from assay.cli.options import as_json
from assay.cli.output import answers, grid, notes, print_json

__all__ = ["detect"]


@click.command(epilog="Example: assay detect --json")
@as_json
def detect(as_json: bool) -> int:
    """Say what hardware this machine has and which platforms work on it, each tried and not assumed."""
    from runner.detect import describe
    from runner.detect import detect as look

    with notes().status("trying each platform"):
        found = describe(look())
    if as_json:
        print_json(found)
        return 0
    for item in found:
        spec = item.get("spec") or {}
        answers().print(
            grid(
                f"{item['hardware']['id']}  ({item.get('name') or item['hardware']['kind']})",
                ["figure", ("value", "right"), "how we know"],
                list(_figures(spec)),
            )
        )
        answers().print()
        rows = [
            [
                probe["platform"],
                "yes" if probe["available"] else "no",
                ", ".join(probe.get("devices") or []) or "—",
                (probe.get("evidence") if probe["available"] else probe.get("reason")) or "—",
            ]
            for probe in item.get("platforms", [])
        ]
        if rows:
            answers().print(grid(None, ["platform", "here", "devices", "evidence, or why not"], rows))
            answers().print()
    return 0


def _figures(spec: dict[str, Any]) -> Iterator[list[str]]:
    for name, figure in spec.items():
        if not figure:
            continue
        nested = figure if "value" not in figure else {"": figure}
        for part, one in nested.items():
            how = one.get("formula") or one.get("source") or ""
            yield [f"{name} {part}".strip(), _amount(name, one["value"]), f"{one['status']}: {how}".rstrip(": ")]


def _amount(name: str, value: float) -> str:
    if "bytes_per_s" in name:
        return f"{numbers.significant(value / 1e9)} GB/s"
    if "bytes" in name:
        return numbers.memory(value)
    if "flops" in name:
        return f"{numbers.significant(value / 1e12)} TFLOP/s"
    if name.endswith("_hz"):
        return f"{numbers.significant(value / 1e9)} GHz"
    if name.endswith("_w"):
        return f"{numbers.significant(value)} W"
    return numbers.count(value)
