"""`assay bench --endpoint`: measuring what is already served, on hardware that the operator states."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import rich_click as click
from click import get_current_context
from click.core import ParameterSource

from assay.cli.options import AMOUNTS, NUMBERS
from assay.cli.output import answers, print_json, say
from domain.errors import UsageError
from domain.vocabulary import PLATFORMS, PRECISIONS, SCENARIOS

if TYPE_CHECKING:
    from domain.payloads import RunContext

__all__ = ["bench_endpoint", "endpoint_options"]

_OF_ENDPOINTS = (
    "endpoint",
    "api",
    "named",
    "served_as",
    "hardware",
    "count",
    "runtime",
    "tensor_parallel",
    "concurrency",
    "request_rate",
    "slo",
    "tokenizer",
    "body",
    "key_variable",
    "request_timeout",
    "no_stream",
    "seed",
)
_OF_SCENARIOS = ("scenario", "target_qps", "target_latency", "min_duration", "min_queries")
_OF_THIS_MACHINE = (
    "models_set",
    "category",
    "plan_file",
    "weights",
    "mode",
    "image_sizes",
    "images",
    "audio_seconds",
    "frames",
    "optimizers",
    "gradient_checkpointing",
    "compiled",
    "limit",
    "threads",
    "memory_limit_mb",
    "trust_remote_code",
    "allow_pickle",
    "low_memory",
    "verify_only",
    "benchmark_only",
    "dry_run",
    "part",
)
_UNKNOWN = "unknown"


def endpoint_options(verb: Any) -> Any:
    """Add what says which endpoint is measured, under which load, and what its operator states."""
    for option in reversed(
        (
            click.option("--scenario", type=click.Choice(SCENARIOS), help="As MLPerf means it; docs/endpoints.md."),
            click.option("--target-qps", type=AMOUNTS, help="Server scenario: queries a second, as they come."),
            click.option(
                "--target-latency",
                type=click.FloatRange(min=0, min_open=True),
                metavar="MS",
                help="Server: bound of p99; single stream: of p90.",
            ),
            click.option(
                "--min-duration",
                type=click.FloatRange(min=0),
                default=0.0,
                metavar="S",
                help="At least so long; MLPerf asks for 600.",
            ),
            click.option(
                "--min-queries",
                type=click.IntRange(min=0),
                default=0,
                metavar="N",
                help="At least so many; MLPerf asks for 100.",
            ),
            click.option(
                "--endpoint", metavar="URL", help="Measure what is served there; nothing of its machine is seen."
            ),
            click.option(
                "--api",
                type=click.Choice(["openai", "tgi", "ovms", "http"]),
                default="openai",
                show_default=True,
                help="How it is asked.",
            ),
            click.option("--model", "named", metavar="NAME", help="The model that the endpoint serves."),
            click.option("--served-as", metavar="NAME", help="What the endpoint calls it, where that is another name."),
            click.option("--hardware", metavar="SLUG", help="You state: on what it is served; `unknown` is an answer."),
            click.option(
                "--count",
                type=click.IntRange(min=1),
                default=1,
                metavar="N",
                help="You state: devices of that hardware.",
            ),
            click.option("--runtime", metavar="NAME[==V]", help="You state: the software, such as vllm==0.11.0."),
            click.option(
                "--tensor-parallel",
                type=click.IntRange(min=1),
                metavar="N",
                help="You state: devices that share a layer.",
            ),
            click.option("--concurrency", type=NUMBERS, help="Requests under way at a time; each number is a row."),
            click.option("--request-rate", type=AMOUNTS, help="Requests a second of a Poisson process instead."),
            click.option(
                "--slo", metavar="ttft=MS,tpot=MS,latency=MS", help="What a good request keeps: gives goodput."
            ),
            click.option(
                "--tokenizer", type=click.Path(), metavar="FILE", help="tokenizer.json: exact prompts, counts checked."
            ),
            click.option(
                "--body",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                help="The request of --api http.",
            ),
            click.option(
                "--key-variable",
                default="ASSAY_ENDPOINT_KEY",
                show_default=True,
                metavar="VARIABLE",
                help="Where its key stands.",
            ),
            click.option(
                "--request-timeout",
                type=click.FloatRange(min=0.1),
                default=60.0,
                show_default=True,
                metavar="S",
                help="Nothing came for so long: failed.",
            ),
            click.option("--no-stream", is_flag=True, help="Measure whole answers: no time to the first token."),
            click.option(
                "--seed",
                type=click.IntRange(min=0),
                default=0,
                show_default=True,
                metavar="N",
                help="Of prompts and arrivals.",
            ),
        )
    ):
        verb = option(verb)
    return verb


def bench_endpoint(
    how: dict[str, Any],
    out: Path | None,
    resume: bool,
    server: str | None,
    token: str | None,
    *,
    as_json: bool,
    context: RunContext | None,
) -> int | None:
    """Measure the endpoint that is named and return the exit code; None where none is named, with `how` relieved.

    What only endpoints have is taken out of `how`; given without one it is wrong usage.
    """
    served = {name: how.pop(name) for name in _OF_ENDPOINTS}
    scenario = {name: how.pop(name) for name in _OF_SCENARIOS}
    if served["endpoint"] is None:
        _refuse(
            _OF_ENDPOINTS,
            "is of endpoints alone.",
            "Leave it out: without --endpoint URL this machine is measured; choose by --platform.",
        )
        _take_scenario(how, scenario)
        return None
    _refuse(_OF_THIS_MACHINE, "is not heard with --endpoint: what is served is as it is.", "Leave it out.")
    plan = _plan({**how, **served, **scenario})
    return _perform(plan, out, resume, server, token, as_json=as_json, context=context)


def _take_scenario(how: dict[str, Any], scenario: dict[str, Any]) -> None:
    """Give a plan of this machine's own what was said of a scenario, as a plan has it."""
    how["method"] = {
        "min_duration_s": scenario["min_duration"],
        "min_queries": scenario["min_queries"],
        "target_latency_ms": scenario["target_latency"],
    }
    how["scenario"] = scenario["scenario"] or ("server" if scenario["target_qps"] else None)
    how["target_qps"] = scenario["target_qps"]
    if scenario["min_duration"]:
        how["timeout_s"] = max(how["timeout_s"], 2 * scenario["min_duration"] + 60)


def _refuse(names: tuple[str, ...], why: str, remedy: str) -> None:
    context = get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        if name in names and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{parameter.opts[0]} {why}", field=parameter.opts[0].lstrip("-").replace("-", "_"), remedy=remedy
            )


def _plan(how: dict[str, Any]) -> Any:
    from runner.endpoint.figures import objective_of
    from runner.endpoint.load import Stop
    from runner.endpoint.plan import Sizes, plan_of
    from runner.endpoint.target import target_of
    from runner.measure.stopping import Method

    stated = _stated(how)
    served_as = how["served_as"] or _model_named(how)
    target = target_of(how["endpoint"], how["api"], served_as, os.environ.get(how["key_variable"]) or None)
    scenario, rates = _load_of(how)
    sizes = Sizes(
        scenario=scenario,
        rates=rates,
        **{
            name: tuple(how[name])
            for name in ("input_tokens", "output_tokens", "batch_sizes", "sequence_lengths", "concurrency")
            if how[name] is not None
        },
    )
    stop = Stop(
        method=Method(budget_s=how["budget_s"], iterations=how["iterations"], percentile=how["percentile"]),
        min_duration_s=how["min_duration"],
        min_queries=how["min_queries"],
        timeout_s=max(how["timeout_s"], how["min_duration"] + how["request_timeout"]),
    )
    body: Path | None = how["body"]
    return plan_of(
        target,
        stated,
        sizes,
        stop,
        rule=_rule(scenario, how, rates) if how["scenario"] not in (None, "serving") else None,
        objective=objective_of(how["slo"]) if how["slo"] else None,
        patience_s=how["request_timeout"],
        seed=how["seed"],
        tokenizer=how["tokenizer"],
        streams=not how["no_stream"],
        body=body.read_bytes() if body else None,
        content_type="application/json" if body is None or body.suffix == ".json" else "application/octet-stream",
    )


def _rule(scenario: str, how: dict[str, Any], rates: tuple[float, ...]) -> Any:
    from runner.measure.scenarios import Rule

    return Rule(
        scenario=scenario,
        min_duration_s=how["min_duration"],
        min_queries=how["min_queries"],
        target_latency_ms=how["target_latency"],
        target_qps=rates[0] if len(rates) == 1 else None,
    )


def _load_of(how: dict[str, Any]) -> tuple[str, tuple[float, ...]]:
    """Return the scenario and its rates: `--target-qps` is the server's, `--request-rate` that of plain serving."""
    if how["request_rate"] and how["target_qps"]:
        raise UsageError("contradicts --request-rate.", field="target_qps", remedy="Give one of them.")
    if how["target_qps"] and how["scenario"] is None:
        how["scenario"] = "server"
    scenario = how["scenario"] or "serving"
    return scenario, tuple(how["target_qps"] or how["request_rate"] or ())


def _model_named(how: dict[str, Any]) -> str:
    names = [*how["models"], *([how["named"]] if how["named"] else [])]
    if len(names) != 1:
        raise UsageError(
            "an endpoint serves one model at a time." if names else "which model it serves is not said.",
            field="model",
            remedy="Say --model NAME, once.",
        )
    return str(names[0])


def _stated(how: dict[str, Any]) -> Any:
    """Return what the operator states; each part has to be said, because nothing of it can be seen."""
    from domain.catalogues.hardware import find, slug
    from runner.endpoint.target import Stated, runtime_of

    if not how["hardware"]:
        raise UsageError(
            "on which hardware the model is served cannot be seen from here.",
            field="hardware",
            remedy="State it: --hardware nvidia-l4, or --hardware unknown.",
        )
    existing = find(how["hardware"])
    device = existing.id if existing else slug(how["hardware"])
    source = get_current_context().get_parameter_source("precisions")
    for name, values, value in (
        ("platform", how["platforms"] or [], bool(how["platforms"])),
        ("precision", how["precisions"], source is ParameterSource.COMMANDLINE),
    ):
        if not value or len(values) != 1:
            example = "cuda" if name == "platform" else "fp16"
            raise UsageError(
                f"which {name} serves the model cannot be seen from here.",
                field=name,
                remedy=f"State one: --{name} {example}, or --{name} {'other' if name == 'platform' else _UNKNOWN}.",
            )
    platform, precision = how["platforms"][0], how["precisions"][0]
    if platform not in PLATFORMS:
        raise UsageError(f"{platform!r} is no platform.", field="platform", remedy=f"One of {', '.join(PLATFORMS)}.")
    if precision not in (*PRECISIONS, _UNKNOWN):
        known_words = f"One of {', '.join(PRECISIONS)}, or {_UNKNOWN}."
        raise UsageError(f"{precision!r} is no precision.", field="precision", remedy=known_words)
    model = _model_named(how)
    try:
        from domain.configuration import Identifier

        msgspec.convert(model, Identifier)
    except msgspec.ValidationError:
        raise UsageError(
            f"{model!r} is no name of a model.",
            field="model",
            remedy="Leave out spaces and quotes, and give what the endpoint calls it by --served-as.",
        ) from None
    return Stated(
        model=model,
        hardware=device,
        kind=existing.kind if existing else "other" if device == _UNKNOWN else None,
        count=how["count"],
        platform=platform,
        precision=precision,
        runtime=runtime_of(how["runtime"]) if how["runtime"] else None,
        tensor_parallel=how["tensor_parallel"],
    )


def _perform(
    plan: Any,
    out: Path | None,
    resume: bool,
    server: str | None,
    token: str | None,
    *,
    as_json: bool,
    context: RunContext | None,
) -> int:
    from assay.cli.measure.destination import both, destination
    from assay.cli.measure.endpoint_table import scenario_notes, served_table
    from assay.cli.measure.run_output import progress
    from assay.cli.tables import doubts, failures_table
    from runner.endpoint.bench import cases_done, run_endpoint

    if resume and out is None:
        raise UsageError("goes with --out.", field="resume", remedy="Name the file that the interrupted run wrote.")
    done = cases_done(out) if resume and out and out.exists() else set()
    kept: list[dict[str, Any]] = []
    with destination(out, resume, server, token) as deliver, progress() as show:
        report = run_endpoint(plan, both(kept.append, deliver), show, done=done, context=context)
    notes, valid = scenario_notes(kept)
    exit_code = max(report.exit_code, 0 if valid else 1)
    if as_json:
        print_json(kept)
        return exit_code
    for make in (served_table, failures_table):
        table = make(kept)
        if table is not None:
            answers().print(table)
            answers().print()
    for note in [*doubts(kept), *notes]:
        say(note)
    return exit_code
