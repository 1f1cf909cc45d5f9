"""`assay fit`: the largest and the best batch, and the longest sequence, that a device's memory holds."""

from __future__ import annotations

from typing import Any

import rich_click as click
from rich.markup import escape

from assay.cli.options import AS_OF, WORDS, as_json, engined, served
from assay.cli.output import answers, grid, print_json, say
from domain.answers import CapacityAnswer, CapacityEntry, OutputError, answer_document
from presentation import formatting
from presentation.variant_words import loss_words

__all__ = ["fit", "tell_fit"]

SHOWN = 40


@click.command(
    epilog="""\b
Examples:
  assay fit bert-base-uncased
  assay fit vit-base --max-memory-mb 8000 --hardware nvidia-l4,nvidia-t4
  assay fit gpt2 --hardware nvidia-rtx-4090 --precision fp32,fp16 --sequence-length 128
  assay fit resnet-50 --mode training --hardware all --json"""
)
@click.argument("model")
@click.option(
    "--hardware",
    multiple=True,
    type=WORDS,
    metavar="SLUG,…|own|all",
    help="These devices, all, or your own, which is the default. May be repeated.",
)
@click.option("--max-memory-mb", type=float, metavar="X", help="MB = 10^6 bytes; else the device's memory.")
@click.option("--platform", type=WORDS, help="These platforms only, for example cuda,openvino.")
@click.option("--precision", type=WORDS, help="These precisions only, for example fp16,int8.")
@click.option(
    "--mode",
    type=click.Choice(["inference", "training"]),
    default="inference",
    show_default=True,
    help="What the model is asked to do.",
)
@click.option("--sequence-length", type=click.IntRange(min=1), metavar="N", help="Tokens of one item.")
@click.option("--image-size", type=click.IntRange(min=1), metavar="N", help="Side of one image in pixels.")
@click.option("--audio-seconds", type=float, metavar="S", help="Seconds of one recording.")
@click.option("--frames", type=click.IntRange(min=1), metavar="N", help="Frames of one clip.")
@click.option("--input-tokens", type=click.IntRange(min=1), metavar="N", help="Tokens of the prompt.")
@click.option("--output-tokens", type=click.IntRange(min=1), metavar="N", help="Tokens to generate.")
@engined
@click.option("--as-of", type=AS_OF, help="Ask as of a position of the log, or of a snapshot.")
@served
@as_json
def fit(
    model: str, hardware: tuple[list[str], ...], server: str | None, token: str | None, as_json: bool, **flags: Any
) -> int:
    """Print for each device, platform and precision which batches and lengths fit, and which batch is best.

    Exit code 1 where nothing is known; the answer says why.
    """
    from assay.cli.ask.asking import ask
    from assay.cli.connection import reading

    question = {name: value for name, value in flags.items() if value is not None}
    named = [slug for slugs in hardware for slug in slugs]
    if named:
        question["hardware"] = named[0] if named in (["own"], ["all"]) else named
    with reading(server, token) as client:
        answer = ask(client, lambda name, **more: client.fit(name, **question, **more), model, flags)
    if as_json:
        print_json(answer_document(answer))
    else:
        tell_fit(answer)
    return 0 if answer.fits else 1


def tell_fit(answer: CapacityAnswer) -> None:
    """Print what fits, a line a device, platform and precision; notes go to stderr."""
    console = answers()
    for note in answer.notes:
        say(f"[dim]{note}[/dim]")
    if not answer.fits:
        console.print(answer.abstained)
        return
    console.print(_table(answer))
    if len(answer.fits) > SHOWN:
        console.print(f"[dim]and {len(answer.fits) - SHOWN} more, with --json[/dim]")
    _tell_variants(answer)
    console.print()
    for why, shown in _whys(answer).items():
        console.print(f"[dim]longest, {shown}: {why}[/dim]")
    console.print("[dim]error: cosine of the outputs with those of fp32 on the CPU; — was not verified[/dim]")


def _tell_variants(answer: CapacityAnswer) -> None:
    """Name the variants that fit where the model itself does not, the smallest first."""
    if not answer.variants:
        return
    columns: list[str | tuple[str, str]] = ["variant", "how", ("memory", "right"), ("on disk", "right"), "quality loss"]
    rows = [
        [
            item.variant.recipe,
            f"{item.platform} {item.precision}",
            formatting.memory(item.peak_memory_bytes),
            formatting.memory(item.variant.bytes),
            loss_words(item.variant.quality),
        ]
        for item in answer.variants[:SHOWN]
    ]
    console = answers()
    console.print()
    console.print(grid("The model itself does not fit; these variants do, as measured", columns, rows))
    first = answer.variants[0]
    console.print(f"[dim]the smallest: {escape(first.variant.model)}[/dim]", soft_wrap=True)


def _table(answer: CapacityAnswer) -> Any:
    several = len({fit.hardware for fit in answer.fits[:SHOWN]}) > 1
    columns: list[str | tuple[str, str]] = [
        *(["hardware"] if several else []),
        "how",
        ("room", "right"),
        ("batch 1", "right"),
        ("largest", "right"),
        ("best", "right"),
        ("throughput", "right"),
        ("×fp32", "right"),
        ("longest", "right"),
        ("cosine", "right"),
    ]
    rows = [[*([fit.hardware] if several else []), *_row(fit)] for fit in answer.fits[:SHOWN]]
    sizes = ", ".join(
        f"{name.replace('_', ' ')} {value:.12g}" for name, value in sorted(answer.workload.stated().items())
    )
    where = "" if several else f" on {answer.fits[0].hardware}"
    return grid(f"What fits of {answer.model}{where}{f', {sizes}' if sizes else ''}", columns, rows)


def _row(row: CapacityEntry) -> list[str]:
    memory, best, error = row.memory, row.best, row.output_error
    peak = memory.peak_bytes if memory else None
    speedup = row.speedup_over_fp32
    return [
        f"{row.platform} {row.precision}",
        formatting.memory(row.room_bytes),
        formatting.memory(peak),
        formatting.count(row.largest_batch),
        formatting.count(best.batch_size if best else None),
        formatting.throughput(best.throughput_per_s if best else None),
        formatting.significant(speedup) if speedup else formatting.MISSING,
        formatting.count(row.longest.tokens),
        formatting.MISSING if error is None else _cosine(error),
    ]


def _cosine(error: OutputError) -> str:
    shown = formatting.MISSING if error.cosine is None else f"{error.cosine:.5f}"
    return shown if error.outcome == "passed" else f"{shown} ({error.outcome})"


def _whys(answer: CapacityAnswer) -> dict[str, str]:
    """Why the longest is what it is, with an example of where; each reason once."""
    matches: dict[str, str] = {}
    for fit in answer.fits[:SHOWN]:
        matches.setdefault(fit.longest.why, f"{fit.platform} {fit.precision}")
    return matches
