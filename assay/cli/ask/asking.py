"""`assay recommend` and `assay predict`: the questions this all is for."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import rich_click as click

from assay.cli.ask.answer_text import tell_answer
from assay.cli.ask.prediction_text import prediction_lines, tell_explanation, tell_faster
from assay.cli.measure.tracing import SIZES, is_onnx, trace_events
from assay.cli.options import (
    AS_OF,
    BATCHES,
    DEVICE,
    OBJECTIVE,
    POINTS,
    WORDS,
    as_json,
    engined,
    modelled,
    served,
    verbose,
)
from assay.cli.output import answers, complain, print_json, say
from domain.answers import Explanation, Faster, Recommendation
from domain.catalogues.language_config import is_decoder, read_config
from domain.errors import TraceNeeded, UnknownModel, Untraceable, UsageError
from presentation.launch import FORMS, snippet

if TYPE_CHECKING:
    from assay.client import Client

__all__ = ["ask", "predict", "recommend"]

Answer = TypeVar("Answer")


@click.command(
    epilog="""\b
Examples:
  assay recommend bert-base-uncased
  assay recommend vit-base --objective throughput --hardware own --top 5
  assay recommend vit-base --objective latency:0.3,cost:0.7 --batch-sizes 1..64
  assay recommend bert-base-uncased --max-latency-ms 20 --percentile p95 --json
  assay recommend bert-base-uncased --device cuda:0=nvidia-l4@6000 --device cpu=intel-xeon-2c
  assay recommend ./my-checkpoint --hardware nvidia-l4,nvidia-rtx-4090
  assay recommend ./exported.onnx --platform cpu,openvino
  assay recommend ./config.json --hardware nvidia-rtx-4090,apple-m4-max-gpu     # a language model by its sizes
  assay recommend llama3.1:70b --precision q4_k_m --runtime llama.cpp --offload
  assay recommend bert-base-uncased --hardware nvidia-l4 --all-configurations
  assay recommend vit-base --max-quality-loss 0.5pt --max-size-mb 100      # its variants too; docs/variants.md
  assay recommend bert-base-uncased --provider aws --objective cost --format terraform > main.tf"""
)
@click.argument("model")
@modelled
@click.option(
    "--objective",
    type=OBJECTIVE,
    default="latency",
    show_default=True,
    metavar="NAME|NAME:WEIGHT,…",
    help="latency, throughput, cost, energy or memory, or a weighted mix.",
)
@click.option(
    "--percentile",
    type=click.Choice(["p50", "p90", "p95", "p99"]),
    default="p50",
    show_default=True,
    help="Of the latency.",
)
@click.option("--max-latency-ms", type=float, metavar="X", help="Of one call, at the percentile.")
@click.option("--max-ttft-ms", type=float, metavar="X", help="Time to the first token.")
@click.option("--max-tpot-ms", type=float, metavar="X", help="Time per token after the first.")
@click.option("--min-throughput-per-s", type=float, metavar="X", help="Items a second.")
@click.option("--min-tokens-per-s", type=float, metavar="X", help="Of all requests together.")
@click.option("--max-memory-mb", type=float, metavar="X", help="MB = 10^6 bytes, of one device.")
@click.option("--max-power-w", type=float, metavar="X", help="What the devices are rated for.")
@click.option("--max-usd-per-hour", type=float, metavar="X", help="US dollars, for all machines.")
@click.option(
    "--max-quality-loss",
    "max_quality_loss_pt",
    type=POINTS,
    metavar="POINTS",
    help="Of variants and precisions, for example 0.5pt: the upper end of the measured 95 % interval must be within it.",
)
@click.option("--max-size-mb", type=float, metavar="X", help="Of the model's files on disk, MB = 10^6 bytes.")
@click.option(
    "--confidence",
    type=float,
    default=0.8,
    show_default=True,
    metavar="P",
    help="Probability with which an estimate must meet the limits; 0.5 goes by the estimate alone.",
)
@click.option(
    "--hardware",
    multiple=True,
    type=WORDS,
    metavar="SLUG,…|own|all",
    help="These devices, your own, or all, which is the default. May be repeated.",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    type=DEVICE,
    metavar="NAME=SLUG[@MB]",
    help="A device at hand, with the MB that are free on it; may be repeated. Says which to use now, and then which.",
)
@click.option("--vendor", "vendors", type=WORDS, help="Hardware of these vendors only, for example intel.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Devices that work side by side.")
@click.option(
    "--platform", type=WORDS, help="These platforms only, for example cuda,openvino; `web` is wasm,webgpu,webnn."
)
@click.option("--precision", type=WORDS, help="These precisions only, for example fp16,int8.")
@click.option("--compiled/--eager", default=None, help="Only compiled modules, or only eager ones; both by default.")
@click.option(
    "--per-hardware/--all-configurations",
    default=True,
    show_default=True,
    help="The best configuration of each device, or every precision, batch and platform of it.",
)
@click.option("--batch-sizes", type=BATCHES, help="1,8,32, or 1..64 for the powers of two between.")
@click.option("--region", "regions", type=WORDS, help="Prices of these regions only.")
@click.option("--provider", "providers", type=WORDS, help="Prices of these providers only, for example aws,own.")
@click.option("--spot", is_flag=True, help="Spot prices as well: cheaper, and taken away at any time.")
@engined
@click.option("--as-of", type=AS_OF, help="Ask as of a position of the log, or of a snapshot.")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Places of the answer.")
@click.option("--record", is_flag=True, help="Keep question and answer in the log.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", *FORMS]),
    metavar="FORM",
    help="table (the default), json, or a snippet that launches the first place: terraform, k8s, skypilot, slurm.",
)
@verbose
@served
@as_json
def recommend(
    model: str,
    hardware: tuple[list[str], ...],
    devices: tuple[dict[str, Any], ...],
    server: str | None,
    token: str | None,
    form: str | None,
    as_json: bool,
    verbose: bool,
    **flags: Any,
) -> int:
    """Rank devices for a model, each at its best platform, precision, batch and compilation, with interval and evidence.

    Exit code 1 where nothing can be recommended, and the answer says why.
    """
    from assay.cli.connection import reading

    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} are two forms of the answer: choose one.")
    form = "json" if as_json else form
    question = {name: value for name, value in flags.items() if value is not None}
    named = [slug for slugs in hardware for slug in slugs]
    if named:
        question["hardware"] = named[0] if named in (["own"], ["all"]) else named
    if devices:
        question["devices"] = list(devices)
    with reading(server, token) as client:
        answer = ask(client, lambda name, **more: client.recommend(name, **question, **more), model, flags)
    if form in FORMS and (answer["abstained"] or not answer["ranked"]):
        complain(f"nothing is recommended, so that there is nothing to launch: {answer['abstained']}")
    elif form in FORMS:
        sys.stdout.write(snippet(msgspec.convert(answer, Recommendation), form))
    elif form == "json":
        print_json(answer)
    else:
        tell_answer(msgspec.convert(answer, Recommendation), verbose=verbose)
    return 0 if answer["ranked"] and not answer["abstained"] else 1


@click.command(
    epilog="Example: assay predict resnet-50 --hardware nvidia-rtx-4090 --platform cuda --precision amp-fp16 --batch-size 32"
)
@click.argument("model")
@click.option("--hardware", required=True, metavar="SLUG", help="The device, for example nvidia-l4.")
@click.option("--platform", required=True, help="For example cuda or openvino.")
@click.option("--precision", required=True, help="For example fp16 or int8.")
@click.option("--batch-size", type=click.IntRange(min=1), default=1, show_default=True, help="Items of one call.")
@click.option("--compiled/--eager", default=None, help="A compiled module, or an eager one; what is usual by default.")
@modelled
@engined
@click.option("--as-of", type=AS_OF, help="Ask as of a position of the log, or of a snapshot.")
@click.option(
    "--record", is_flag=True, help="Keep it in the log, to be scored when it is measured (assay predictor accuracy)."
)
@verbose
@served
@as_json
def predict(model: str, server: str | None, token: str | None, as_json: bool, verbose: bool, **flags: Any) -> int:
    """Predict one configuration, whether it was measured or not, with interval and evidence."""
    from assay.cli.connection import reading

    question = {name: value for name, value in flags.items() if value is not None}
    with reading(server, token) as client:
        answer = ask(client, lambda name, **more: client.predict(name, **question, **more), model, flags)
    if as_json:
        print_json(answer)
    else:
        for line in prediction_lines(answer, verbose=verbose):
            answers().print(line, markup=False)
        if answer.get("explanation") and verbose:
            answers().print()
            tell_explanation(msgspec.convert(answer["explanation"], Explanation))
        if answer.get("faster"):
            answers().print()
            tell_faster(msgspec.convert(answer["faster"], Faster))
    return 0 if answer.get("latency_ms") is not None or answer.get("tpot_ms") is not None else 1


def ask(client: Client, question: Callable[..., Answer], model: str, flags: Mapping[str, Any]) -> Answer:
    """Ask about a model; where the service lacks an operator trace, trace it here, post that, and ask again.

    A folder with a config is asked for by the id that its measurements have, an ONNX file by that of its trace. Of a
    language model its config goes along, as `config`: sizes are all that is needed of it where an engine serves it.
    """
    config, unread = (None, None) if flags.get("call") == "forward" else _decoder_config(model)
    try:
        return _asked(client, question, model, flags, config)
    except (ImportError, TraceNeeded, UnknownModel, Untraceable, UsageError) as error:
        if unread is None or getattr(error, "field", None) not in (None, "model"):
            raise
        raise unread from error


def _asked(
    client: Client,
    question: Callable[..., Answer],
    model: str,
    flags: Mapping[str, Any],
    config: Mapping[str, Any] | None,
) -> Answer:
    try:
        return question(_identity(model)) if config is None else question(_folder_id(Path(model)), config=config)
    except (TraceNeeded, UnknownModel) as missing:
        events = _traced(model, flags, missing)
        answer = client.post_events(events)
        # What ships takes traces without a position.
        if answer["last_position"] is not None:
            client.wait_for(answer["last_position"])
        return question(events[0]["data"]["model"]["id"])


def _decoder_config(model: str) -> tuple[dict[str, Any] | None, UsageError | None]:
    """The members of a language model's config that tell sizes, where a file or a folder with one is named.

    None for anything else, whose operators are traced; of a language model whose config is not to be read so, with why.
    """
    path = Path(model)
    path = path / "config.json" if path.is_dir() else path
    if path.suffix != ".json" or not path.is_file():
        return None, None
    try:
        config = json.loads(path.read_bytes())
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}.", field="MODEL", remedy="Name a config.json.") from error
    if not isinstance(config, dict) or not is_decoder(config):
        return None, None
    try:
        return read_config(config, model).members, None
    except UsageError as unread:
        return None, unread


def _folder_id(path: Path) -> str:
    """The id of a model by its files: the published one where the folder is that of a catalogue model."""
    folder = path if path.is_dir() else path.parent if path.name == "config.json" else path.with_suffix("")
    if folder.is_dir() and (folder / "config.json").is_file():
        try:
            return _identity(str(folder))
        except (ImportError, UnknownModel, UsageError):
            pass
    return f"local/{folder.resolve().name}"


def _identity(model: str) -> str:
    if is_onnx(model):
        from runner.tracing.onnx_trace import trace_onnx

        return str(trace_onnx(Path(model))["model"]["id"])
    path = Path(model)
    if not (path.is_dir() or (path.is_file() and path.suffix == ".json")):
        return model
    from runner.models.sources import resolve

    return resolve(model, "random").id


def _traced(model: str, flags: Mapping[str, Any], missing: Exception) -> list[dict[str, Any]]:
    """Return the facts of the phases that the work consists of."""
    from domain.configuration import Workload

    work = Workload(mode=flags.get("mode") or "inference", **{name: flags.get(name) for name in SIZES})
    if not is_onnx(model):
        say(f"[dim]tracing the operators of {model} (no weights are loaded)[/dim]")
    try:
        return trace_events(model, work, forward=flags.get("call") == "forward", apart=True)
    except ModuleNotFoundError:
        raise missing from None
