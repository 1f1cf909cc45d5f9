"""`assay hardware roofline` and `assay model operators`: how close to its limit a device ran, and what a call's time goes into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import rich_click as click

from assay.cli.options import AS_OF, as_json, served
from assay.cli.output import answers, grid, print_json, say
from domain.answers.kernels import KernelEstimate
from domain.kernels import SIZES
from domain.vocabulary import MODES
from presentation import formatting
from presentation.kernel_names import roof_words, sizes_words

__all__ = ["kernels", "operators", "roofline"]

Row = Mapping[str, Any]
Heads = list[str | tuple[str, str]]


@click.command(
    "roofline",
    epilog="""\b
Examples:
  assay hardware roofline nvidia-rtx-4090 --precision amp-fp16
  assay hardware roofline intel-xeon-2c --platform openvino --top 20""",
)
@click.argument("name")
@click.option("--platform", metavar="P", help="Points of one platform only.")
@click.option("--precision", metavar="X", help="Points of one precision only.")
@click.option("--mode", type=click.Choice(MODES), help="Points of one mode only.")
@click.option("--model", metavar="M", help="Points of one model only.")
@click.option(
    "--top", type=click.IntRange(min=1, max=200), default=10, show_default=True, help="Points that are shown."
)
@click.option("--as-of", type=AS_OF, help="As it was known at a position of the log, or at a snapshot.")
@served
@as_json
def roofline(name: str, top: int, server: str | None, token: str | None, as_json: bool, **filters: Any) -> int:
    """Show what was measured nearest to the roof of a device: the lower of its peak and what its bandwidth can feed."""
    from assay.cli.connection import reading

    with reading(server, token) as client:
        roofline = client.roofline(name, **filters)
    if as_json:
        print_json(roofline)
        return 0 if roofline["points"] else 1
    limits = [f"{roof['precision']} {_rate(roof['value'])}" for roof in roofline["roofs"]]
    feed = roofline["bandwidth_bytes_per_s"] or roofline["reached_bandwidth_bytes_per_s"]
    limits += [formatting.plain(formatting.si(feed["value"], "B/s"))] if feed else []
    say(f"{roofline['hardware']['id']}: {', '.join(limits) or 'neither its peak nor its bandwidth is known'}")
    _points("Nearest to its roof", [point for point in roofline["points"] if not point["over"]][:top])
    _points(f"Over a roof, to be checked ({roofline['above_count']})", roofline["above"][:top])
    say(f"{roofline['placed']} of {roofline['considered']} configurations have a place under the roof")
    for why, rows in roofline["left_out"].items():
        say(f"  {rows} {why}")
    return 0 if roofline["points"] else 1


def _points(title: str, rows: Sequence[Row]) -> None:
    if not rows:
        return
    heads: Heads = [
        "model",
        ("platform", "fixed"),
        ("precision", "fixed"),
        ("batch", "right"),
        ("of its roof", "right"),
    ]
    heads += [("reached", "right"), ("latency", "right"), "basis"]
    lines = [
        [
            row["model"] + (" (training)" if row["mode"] == "training" else ""),
            row["platform"],
            row["precision"],
            formatting.count(row["batch_size"]),
            formatting.plain(formatting.share(row["share"])),
            _rate(row["flops_per_s"]),
            formatting.plain(formatting.latency(row["latency_ms"], mean=row["latency_is_mean"])),
            _basis(row),
        ]
        for row in rows
    ]
    answers().print(grid(title, heads, lines))


def _basis(row: Row) -> str:
    return "simulated" if row["origin"] == "simulated" else str(row["basis"])


def _rate(value: float) -> str:
    return formatting.plain(formatting.si(value, "FLOP/s"))


@click.command(
    "kernels",
    epilog="""\b
Examples:
  assay hardware kernels nvidia-l4
  assay hardware kernels nvidia-rtx-4090 --precision fp16 --operator attention""",
)
@click.argument("name")
@click.option("--platform", metavar="P", help="By default the one with most timings, else its first.")
@click.option("--precision", metavar="X", help="By default the one with most timings, else its usual one.")
@click.option("--operator", type=click.Choice(list(SIZES)), help="Kernels of one operator only.")
@click.option("--as-of", type=AS_OF, help="As it was known at a position of the log, or at a snapshot.")
@served
@as_json
def kernels(name: str, server: str | None, token: str | None, as_json: bool, **filters: Any) -> int:
    """Show the roofs of a device, and what is estimated of the standard kernels beside what was measured of them."""
    from assay.cli.connection import reading

    with reading(server, token) as client:
        document = client.device_kernels(name, **filters)
    if as_json:
        print_json(document)
        return 0 if document.points or document.estimates else 1
    for roof in document.roofs:
        say(formatting.plain(roof_words(roof)))
    if document.estimates:
        title = f"Standard kernels on {document.hardware}, {document.platform}, {document.precision}"
        heads: Heads = ["kernel", "sizes", ("estimate", "right"), ("80 %", "right"), ("measured", "right")]
        heads += [("÷ estimate", "right"), "basis"]
        answers().print(grid(title, heads, [_kernel(item) for item in document.estimates]))
    if document.considered:
        placed, considered = formatting.count(document.placed), formatting.count(document.considered)
        say(f"{placed} measured kernels have a place under the roof, a sample of {considered} timings in the log")
    for reason, rows in document.left_out.items():
        say(f"  {formatting.count(rows)} {reason}")
    for note in document.notes:
        say(formatting.plain(note))
    return 0 if document.points or document.estimates else 1


def _kernel(item: KernelEstimate) -> list[str]:
    scale = formatting.latency_scale([item.latency_ms])
    measured = item.measured
    outside = "" if measured is None or measured.within is not False else " !"
    ends = (item.latency_ms_low, item.latency_ms_high)
    low, high = (formatting.significant(scale.of(end)) for end in ends)
    return [
        item.id,
        sizes_words(item.operator, item.sizes),
        formatting.plain(scale.show(item.latency_ms)),
        formatting.MISSING if item.latency_ms_low is None else f"{low}–{high}",
        formatting.MISSING if measured is None else formatting.plain(scale.show(measured.latency_ms)),
        formatting.MISSING if measured is None else f"{formatting.significant(measured.ratio)}{outside}",
        item.basis,
    ]


@click.command(
    "operators",
    epilog="""\b
Examples:
  assay model operators resnet-50
  assay model operators resnet-50 --hardware nvidia-rtx-4090 --platform cuda --precision fp16 --batch-size 8""",
)
@click.argument("name")
@click.option("--hardware", metavar="H", help="The device; without one only the work is shown.")
@click.option("--platform", metavar="P", help="Platform on it; its first by default.")
@click.option("--precision", metavar="X", help="fp32 by default.")
@click.option("--batch-size", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--sequence-length", type=click.IntRange(min=1), metavar="N", help="Tokens of one item, as traced.")
@click.option("--image-size", type=click.IntRange(min=1), metavar="N", help="Side of one image in pixels, as traced.")
@click.option("--mode", type=click.Choice(MODES), default="inference", show_default=True)
@click.option("--most", type=click.IntRange(min=1, max=200), default=10, show_default=True, help="Operators by name.")
@click.option("--as-of", type=AS_OF, help="As it was known at a position of the log, or at a snapshot.")
@served
@as_json
def operators(name: str, server: str | None, token: str | None, as_json: bool, **asked: Any) -> int:
    """Show what the time of a call goes into, operator by operator: the least that each takes on a device."""
    from assay.cli.connection import reading

    with reading(server, token) as client:
        operators = client.operators(name, **asked)
    if as_json:
        print_json(operators)
        return 0
    where = f" on {operators['hardware']}" if operators["basis"] == "roofline" else ""
    heads: Heads = ["operator", "class", ("calls", "right"), ("FLOPs", "right"), ("bytes", "right")]
    heads += [("least time", "right"), ("share", "right"), "bound"]
    title = f"{operators['model']}{where}, batch {operators['batch_size']}, {operators['mode']}"
    answers().print(grid(title, heads, [_operator(row, operators["basis"]) for row in operators["operators"]]))
    if operators["basis"] == "roofline":
        floor = formatting.plain(formatting.latency(operators["latency_ms"]))
        say(f"at least {floor} in all, by the device's figures: a roofline, not covered by measurement")
    else:
        say(f"no times: {operators['why_not']}; shares are of the bytes in fp32")
    return 0


def _operator(row: Row, basis: str) -> list[str]:
    share = row["share"] if basis == "roofline" else row["bytes_share"]
    return [
        row["name"],
        row["kind"],
        formatting.count(row["calls"]),
        formatting.plain(formatting.si(row["flops"], "")),
        formatting.plain(formatting.si(row["bytes"], "B")),
        formatting.plain(formatting.latency(row["ms"])),
        formatting.plain(formatting.share(share)),
        row["bound"] or formatting.MISSING,
    ]
