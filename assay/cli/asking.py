"""`assay recommend` and `assay predict`: the questions this all is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from assay import numbers
from assay.cli.explaining import class_line, parts_table
from assay.cli.options import AS_OF, NUMBERS, WORDS, as_json, modelled, served
from assay.cli.output import answers, print_json, say
from assay.cli.tables import NOT_COVERED, excluded_table, ranked_table
from domain.errors import TraceNeeded, UnknownModel

if TYPE_CHECKING:
    from assay.client import Client

__all__ = ["ask", "predict", "recommend", "tell_answer"]


@click.command(
    epilog="""\b
Examples:
  assay recommend bert-base-uncased
  assay recommend vit-base --objective throughput --hardware own --top 5
  assay recommend bert-base-uncased --max-latency-ms 20 --percentile p95 --json
  assay recommend ./my-checkpoint --hardware nvidia-l4,nvidia-rtx-4090
  assay recommend ./exported.onnx --platform cpu,openvino"""
)
@click.argument("model")
@modelled
@click.option(
    "--objective",
    type=click.Choice(["latency", "throughput", "cost", "energy", "memory"]),
    default="latency",
    show_default=True,
)
@click.option("--percentile", type=click.Choice(["p50", "p90", "p95", "p99"]), default="p50", show_default=True)
@click.option("--max-latency-ms", type=float, metavar="X")
@click.option("--min-throughput-per-s", type=float, metavar="X")
@click.option("--max-memory-mb", type=float, metavar="X", help="MB = 10^6 bytes.")
@click.option("--max-usd-per-hour", type=float, metavar="X")
@click.option(
    "--hardware", multiple=True, type=WORDS, metavar="SLUG,…|own|all", help="May be repeated; all by default."
)
@click.option("--platform", type=WORDS)
@click.option("--precision", type=WORDS)
@click.option("--batch-sizes", type=NUMBERS)
@click.option("--as-of", type=AS_OF, help="Ask as of a position of the log, or of a snapshot.")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--record", is_flag=True, help="Keep question and answer in the log.")
@served
@as_json
def recommend(
    model: str, hardware: tuple[list[str], ...], server: str | None, token: str | None, as_json: bool, **flags: Any
) -> int:
    """Rank hardware, platform, precision and batch for a model, each with interval, basis and evidence.

    Exit code 1 where nothing can be recommended, and the answer says why.
    """
    from assay.cli.connection import connected

    question = {name: value for name, value in flags.items() if value is not None}
    named = [slug for slugs in hardware for slug in slugs]
    if named:
        question["hardware"] = named[0] if named in (["own"], ["all"]) else named
    with connected(server, token) as client:
        answer = ask(client, lambda name: client.recommend(name, **question), model, flags)
    if as_json:
        print_json(answer)
    else:
        tell_answer(answer)
    return 0 if answer["ranked"] else 1


@click.command(
    epilog="Example: assay predict resnet-50 --hardware nvidia-rtx-4090 --platform cuda --precision amp-fp16 --batch-size 32"
)
@click.argument("model")
@click.option("--hardware", required=True, metavar="SLUG")
@click.option("--platform", required=True)
@click.option("--precision", required=True)
@click.option("--batch-size", type=click.IntRange(min=1), default=1, show_default=True)
@modelled
@click.option("--as-of", type=AS_OF)
@click.option(
    "--record", is_flag=True, help="Keep it in the log, to be scored when it is measured (assay predictor accuracy)."
)
@served
@as_json
def predict(model: str, server: str | None, token: str | None, as_json: bool, **flags: Any) -> int:
    """Predict one configuration, whether it was measured or not, with interval and basis."""
    from assay.cli.connection import connected

    question = {name: value for name, value in flags.items() if value is not None}
    with connected(server, token) as client:
        answer = ask(client, lambda name: client.predict(name, **question), model, flags)
    if as_json:
        print_json(answer)
    else:
        for line in _prediction_lines(answer):
            answers().print(line)
        if answer.get("explanation"):
            answers().print()
            answers().print(parts_table(answer["explanation"]))
            answers().print(f"[dim]{class_line(answer['explanation'])}[/dim]")
    return 0 if answer.get("latency_ms") is not None else 1


def ask(
    client: Client, question: Callable[[str], dict[str, Any]], model: str, flags: Mapping[str, Any]
) -> dict[str, Any]:
    """Ask about a model; where the service lacks an operator trace, trace it here, post that, and ask again.

    A folder with a config is asked for by the id that its measurements have, an ONNX file by that of its trace.
    """
    try:
        return question(_identity(model))
    except (TraceNeeded, UnknownModel) as missing:
        events = _traced(model, flags, missing)
        answer = client.post_events(events)
        client.wait_for(answer["last_position"])
        return question(events[0]["data"]["model"]["id"])


def _identity(model: str) -> str:
    if _is_onnx(model):
        from runner.onnx_trace import trace_onnx

        return str(trace_onnx(Path(model))["model"]["id"])
    if not Path(model).is_dir():
        return model
    from runner.sources import resolve

    return resolve(model, "random").id


_SIZES = ("sequence_length", "image_size", "audio_seconds", "frames", "input_tokens", "output_tokens")


def _is_onnx(model: str) -> bool:
    return model.lower().endswith(".onnx")


def _traced(model: str, flags: Mapping[str, Any], missing: Exception) -> list[dict[str, Any]]:
    """Return the facts of the phases that the work consists of."""
    from domain.events import MODEL_TRACED, new_event

    try:
        traces = _traces_of(model, flags)
    except ModuleNotFoundError:
        raise missing from None
    when = datetime.now(UTC)
    return [
        new_event(MODEL_TRACED, data, source="assay-cli", subject=data["model"]["id"], time=when) for data in traces
    ]


def _traces_of(model: str, flags: Mapping[str, Any]) -> list[dict[str, Any]]:
    from domain.configuration import Workload

    work = Workload(mode=flags.get("mode") or "inference", **{name: flags.get(name) for name in _SIZES})
    if _is_onnx(model):
        from runner.onnx_trace import trace_onnx

        data = trace_onnx(Path(model), work)
        unknown = ", ".join(data["tracer"]["unknown"])
        if unknown:
            say(f"[dim]operators not understood, counted by what they move alone: {unknown}[/dim]")
        return [data]
    from runner.sources import resolve
    from runner.tracing import phases_of, trace

    source = resolve(model, "random")
    say(f"[dim]tracing the operators of {model} (no weights are loaded)[/dim]")
    return [trace(source, work, phase=phase) for phase in phases_of(source, work)]


def tell_answer(answer: Mapping[str, Any], top: int | None = None) -> None:
    """Print an answer as people read it: the table, why the first, what was left out, what to measure next."""
    console = answers()
    if answer.get("abstained"):
        console.print(f"No recommendation: {answer['abstained']}", soft_wrap=False)
    if answer["ranked"]:
        console.print(ranked_table(answer, top))
        if any(row["basis"] == "measured" for row in answer["ranked"][:top]):
            console.print("[dim]measured rows: the 95 % interval of the median[/dim]")
        if any(row.get("interval_covered") is False for row in answer["ranked"][:top]):
            console.print(f"[dim]{NOT_COVERED} its interval is not covered by measurement[/dim]")
        console.print()
        for row in answer["ranked"][: min(top or 3, 3)]:
            console.print(f"{row['rank']}. {row['why']}", markup=False)
        best = answer["ranked"][0]
        if best.get("evidence"):
            shown = ", ".join(best["evidence"][:3])
            console.print(f"[dim]evidence of rank 1: {shown}{' …' if len(best['evidence']) > 3 else ''}[/dim]")
    left_out = excluded_table(answer)
    if left_out is not None:
        console.print()
        console.print(left_out)
    if answer.get("suggestions"):
        console.print()
        console.print("[bold]Where to look next[/bold]")
        for suggestion in answer["suggestions"][:3]:
            console.print(f"  {_suggested(suggestion)}", markup=False, soft_wrap=True)


def _suggested(suggestion: Any) -> str:
    if isinstance(suggestion, Mapping):
        command = suggestion.get("command") or ""
        why = suggestion.get("why") or suggestion.get("reason") or ""
        return f"{command}   {why}".rstrip()
    return str(suggestion)


def _prediction_lines(answer: Mapping[str, Any]) -> list[str]:
    if answer.get("latency_ms") is None:
        return [f"abstained: {answer.get('abstained') or answer.get('why') or 'nothing is known'}"]
    latency = numbers.latency(answer["latency_ms"], answer.get("latency_ms_low"), answer.get("latency_ms_high"))
    return [
        f"latency     {latency}",
        f"throughput  {numbers.throughput(answer.get('throughput_per_s'))}",
        f"memory      {numbers.memory(answer.get('peak_memory_bytes'))}",
        f"basis       {answer.get('basis')}",
        f"why         {answer.get('why')}",
    ]
