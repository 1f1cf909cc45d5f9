"""`assay bench` measures models on this machine; `assay verify` checks their outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from click import core, get_current_context
from rich.markup import escape

from assay.cli.measure.calibrating import calibrate_plan, calibrated_first, shown_calibration
from assay.cli.measure.destination import both, destination
from assay.cli.measure.endpoint import bench_endpoint, endpoint_options
from assay.cli.measure.run_context import context_option, end_with_worker, run_context
from assay.cli.measure.run_output import progress, tell_plan
from assay.cli.options import AMOUNTS, NUMBERS, PART, WORDS, as_json, noded, served
from assay.cli.output import answers, print_json, say
from assay.cli.output_files import OutputFile, overwritable, resumable
from domain.errors import UsageError
from domain.vocabulary import MODES

if TYPE_CHECKING:
    from domain.payloads import RunContext, TestReported
    from runner.campaign.plan import Plan

__all__ = ["Expecting", "bench", "expected_and_recorded", "expecting", "verify"]

Expecting = Callable[[Sequence[dict[str, Any]], Path | None], int]
"""Takes the events of a verification and the file that it resumed; returns the exit code of the comparison."""
_FILE = click.Path(dir_okay=False, path_type=Path)


def expected_and_recorded(verb: Any) -> Any:
    """Add `--expect` and `--record`."""
    verb = click.option(
        "--record",
        type=OutputFile(replaces=_holds_expectations),
        metavar="FILE",
        help="Keep what is found as expectations; a file of expectations is made anew.",
    )(verb)
    return click.option(
        "--expect", type=_FILE, metavar="FILE", help="Compare what is found with expectations kept earlier."
    )(verb)


def expecting(record: Path | None, expect: Path | None, *, as_json: bool) -> Expecting:
    """Return what compares and keeps the outcome; a file that cannot be read or written is a UsageError at once."""
    from assay.staging import Staged
    from runner.campaign.expectations import compare_tests, comparison_lines, expectations_of, read, write

    expected = read(expect) if expect else None

    def settle(events: Sequence[dict[str, Any]], resumed: Path | None) -> int:
        tests = list(_tests([*_lines(resumed), *events]))
        differences = compare_tests(expected, tests) if expected else []
        for line in comparison_lines(differences) if expected else ():
            say(escape(line)) if as_json else answers().print(line, highlight=False, markup=False, soft_wrap=True)
        if record:
            with Staged(force=True) as staged:
                write(staged.file(record), expectations_of(tests))
            say(f"expectations written to {record}; compare with --expect {record}")
        return 1 if any(each.state in ("different", "missing") for each in differences) else 0

    return settle


def _holds_expectations(path: Path) -> bool:
    from runner.campaign.expectations import read

    try:
        read(path)
    except UsageError:
        return False
    return True


def _lines(path: Path | None) -> Iterable[dict[str, Any]]:
    import msgspec

    from runner.spool.event_file import read_lines

    return map(msgspec.json.decode, read_lines(path, whole_only=True)) if path else ()


def _tests(events: Iterable[dict[str, Any]]) -> Iterable[TestReported]:
    import msgspec

    from domain.events import TEST_REPORTED
    from domain.payloads import TestReported

    return (msgspec.convert(event["data"], TestReported) for event in events if event["type"] == TEST_REPORTED)


_BESIDE_A_FILE = {
    "plan_file",
    "part",
    "node_rank",
    "out",
    "resume",
    "verify_only",
    "benchmark_only",
    "dry_run",
    "calibrate",
    "record",
    "expect",
    "server",
    "token",
    "as_json",
    "force",
    "context",
}
_OF_THE_PLAN = ("weights", "device", "limit", "timeout_s", "low_memory", "trust_remote_code", "allow_pickle")


def _chosen(verb: Any) -> Any:
    """Add what `bench` and `verify` share: which models, on what."""
    for option in reversed(
        (
            click.argument("models", nargs=-1, metavar="MODEL…"),
            click.option("--models-set", type=click.Choice(["small", "key", "all"]), help="A set of the catalogue."),
            click.option("--category", metavar="C", help="The catalogue's models of one category, such as vision."),
            click.option(
                "--plan",
                "plan_file",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                help="A YAML file that says all of this; docs/plans.md has its members.",
            ),
            click.option("--platform", "platforms", type=WORDS, help="Platforms; all that are present by default."),
            click.option(
                "--precision",
                "precisions",
                type=WORDS,
                show_default="fp32; of a variant that of its form",
                help="Precisions to compute in.",
            ),
            click.option(
                "--weights", type=click.Choice(["auto", "pretrained", "random"]), default="auto", show_default=True
            ),
            click.option("--mode", type=click.Choice(MODES), default="inference", show_default=True),
            click.option("--batch-sizes", type=NUMBERS, default="1", show_default=True),
            click.option(
                "--sequence-lengths",
                "--sequence-length",
                type=NUMBERS,
                help="Tokens of one item; the model's default else.",
            ),
            click.option("--image-sizes", "--image-size", type=NUMBERS, help="Sides of one image in pixels."),
            click.option("--images", type=NUMBERS, help="Images of one item."),
            click.option("--audio-seconds", type=AMOUNTS, help="Seconds of one recording."),
            click.option("--frames", type=NUMBERS, help="Frames of one clip."),
            click.option("--input-tokens", type=NUMBERS, help="Tokens of the prompt that is generated from."),
            click.option(
                "--output-tokens", type=NUMBERS, help="Tokens to generate; prefill and decode are measured separately."
            ),
            click.option(
                "--optimizers",
                type=WORDS,
                default="adamw",
                show_default=True,
                help="Of training: adamw, adamw-8bit, sgd.",
            ),
            click.option("--gradient-checkpointing", is_flag=True, help="Train with less memory and more work."),
            click.option("--compiled", is_flag=True, help="Compile the module (torch.compile)."),
            click.option("--device", metavar="NAME", help="One device of the platforms, as `assay detect` lists them."),
            click.option(
                "--option",
                "options",
                multiple=True,
                metavar="NAME[=N]",
                help="Further options of a platform: tensor-parallel=2, data-parallel=2, fsdp=2, cuda-graphs, streams=4, "
                "device-map.",
            ),
            click.option(
                "--browser",
                "browsers",
                type=WORDS,
                metavar="B,…",
                help="Of wasm, webgpu and webnn: chromium, firefox, webkit, or the path of a program.",
            ),
            click.option("--headed", is_flag=True, help="Show the browser's window."),
            click.option("--limit", type=click.IntRange(min=1), metavar="N", help="The first N models only."),
            click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads of one measurement."),
            click.option(
                "--timeout", "timeout_s", type=click.FloatRange(min=1), default=600, show_default=True, metavar="S"
            ),
            click.option(
                "--out",
                type=OutputFile(folder=True, resumes=True),
                help="Write the events to a file (.gz: compressed), send nothing; in a folder it is named for you.",
            ),
            context_option,
            click.option("--memory-limit-mb", type=click.IntRange(min=1), metavar="MB", help="Of one measurement."),
            resumable("With --out: leave out what the file already holds."),
            overwritable,
            click.option("--trust-remote-code", is_flag=True, help="Run code that comes with a checkpoint."),
            click.option("--allow-pickle", is_flag=True, help="Open pickled weights (.bin), which can run code."),
        )
    ):
        verb = option(verb)
    return verb


@click.command(
    epilog="""\b
Examples:
  assay bench bert-base-uncased --platform cpu,openvino --precision fp32,bf16 --batch-sizes 1,8
  assay bench gpt2 --input-tokens 128 --output-tokens 32
  assay bench vit-base-patch16-224 --mode training --optimizers adamw,sgd
  assay bench bert-base-uncased --mode training --batch-sizes 8 --option data-parallel=2
  assay bench gpt2 --mode training --batch-sizes 8 --option fsdp=2 --nodes a,b --node-rank 0
  assay bench --models-set small --out here.ndjson
  assay bench --plan nightly.yaml --dry-run
  assay bench --plan nightly.yaml --part 2/8 --out part-2.ndjson
  assay bench resnet-50 --platform openvino --calibrate
  assay bench bert-tiny --platform cpu,wasm,webnn --browser chromium,firefox
  assay bench resnet-50 --scenario server --target-qps 20 --target-latency 15
  assay bench --endpoint http://127.0.0.1:8000 --model gpt2 --hardware nvidia-l4 --platform cuda --precision fp16 \\
              --concurrency 1,8,32"""
)
@_chosen
@click.option(
    "--budget",
    "budget_s",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    metavar="S",
    help="Seconds of steady measuring a configuration.",
)
@click.option("--iterations", type=click.IntRange(min=1), metavar="N", help="A fixed number of samples instead.")
@noded
@click.option(
    "--percentile",
    type=click.Choice(["p50", "p90", "p95", "p99"]),
    default="p50",
    show_default=True,
    help="Measure on until this one is supported.",
)
@calibrated_first
@click.option("--part", type=PART, help="Only part K of N of the cases, K from 1; the parts together are the plan.")
@click.option("--low-memory", is_flag=True, help="Make weights in bf16 from the start: fp32 is measured as bf16.")
@click.option("--verify-only", is_flag=True, help="Verify each configuration and measure none.")
@click.option("--benchmark-only", is_flag=True, help="Measure only, also where the plan says to verify first.")
@click.option(
    "--dry-run", is_flag=True, help="Measure nothing; list the cases, how long they take and what cannot run."
)
@endpoint_options
@served
@as_json
def bench(
    out: Path | None,
    resume: bool,
    verify_only: bool,
    benchmark_only: bool,
    dry_run: bool,
    calibrate: bool,
    part: tuple[int, int] | None,
    context: str,
    server: str | None,
    token: str | None,
    as_json: bool,
    **how: Any,
) -> int:
    """Measure models on this machine: one configuration, one process of its own; every result is an event.

    Lists make a sweep of all their combinations, which stops growing where memory ran out. Without --out the events go
    through the spool to the service. Exit code 1 where a configuration failed.

    With --endpoint what is already served is measured: its hardware is what you state, and rows say so.
    """
    del how["force"]
    end_with_worker()
    code_state = run_context(context)
    if (code := bench_endpoint(how, out, resume, server, token, as_json=as_json, context=code_state)) is not None:
        return code
    if verify_only and benchmark_only:
        raise UsageError("contradicts --verify-only.", field="benchmark_only", remedy="Give one of them.")
    whole, first_verify, then_measure = _plan(**how)
    plan = whole.part(*part) if part else whole
    if dry_run:
        return tell_plan(plan, as_json=as_json)
    steps = [(True, first_verify or verify_only), (False, then_measure and not verify_only)]
    if plan.nodes and any(wanted for verifies, wanted in steps if verifies) and not benchmark_only:
        raise UsageError("several nodes measure, and verify nothing.", field="verify", remedy="Leave out verifying.")
    if plan.nodes and plan.nodes.rank:
        return _take_part(plan, as_json=as_json)
    chosen = [False] if benchmark_only else [verifies for verifies, wanted in steps if wanted]
    return _perform(plan, chosen, out, resume, server, token, as_json=as_json, calibrate=calibrate, context=code_state)


@click.command(
    epilog="""\b
Examples:
  assay verify bert-tiny --platform cpu,openvino --precision fp32,bf16
  assay verify bert-tiny --platform wasm --browser firefox
  assay verify bert-tiny --record expected.json
  assay verify bert-tiny --expect expected.json"""
)
@_chosen
@expected_and_recorded
@served
@as_json
def verify(
    out: Path | None,
    resume: bool,
    record: Path | None,
    expect: Path | None,
    context: str,
    server: str | None,
    token: str | None,
    as_json: bool,
    **how: Any,
) -> int:
    """Does it run, and does it run right? Outputs are compared with fp32 on the CPU; every outcome is a test event.

    With --expect what is found is compared with what was found before, and differences are explained. Exit code 1
    where a test did not pass, is not as expected, or was expected and not run.
    """
    del how["force"]
    settle = expecting(record, expect, as_json=as_json)
    code_state = run_context(context)
    plan = _plan(**how)[0]
    return _perform(plan, [True], out, resume, server, token, as_json=as_json, settle=settle, context=code_state)


def _take_part(plan: Plan, *, as_json: bool) -> int:
    """Run this node's ranks of the plan's cases, whose events the first node has; return the exit code."""
    from assay.home import find_home
    from runner.campaign.bench import follow_plan

    with progress() as show:
        report = follow_plan(plan, show, cache=find_home().cache)
    return _report([], [report], as_json=as_json)


def _perform(
    plan: Any,
    steps: list[bool],
    out: Path | None,
    resume: bool,
    server: str | None,
    token: str | None,
    *,
    as_json: bool,
    settle: Expecting | None = None,
    calibrate: bool = False,
    context: RunContext | None = None,
) -> int:
    """Verify (True) or measure (False), step by step, into one destination; the worst exit code counts."""
    from assay.home import find_home
    from runner.campaign.bench import run_plan
    from runner.campaign.verify import run_verification

    out, cache = _file(out, resume), find_home().cache
    kept: list[dict[str, Any]] = []
    reports = []
    done = {verifies: _already_there(out, resume, verifies=verifies) for verifies in steps}
    with destination(out, resume, server, token) as deliver:
        if calibrate:
            reports.append(calibrate_plan(plan, out if resume else None, both(kept.append, deliver)))
        for verifies in steps:
            work = run_verification if verifies else run_plan
            with progress() as show:
                listeners = both(kept.append, deliver)
                reports.append(work(plan, listeners, show, done=done[verifies], cache=cache, context=context))
    exit_code = _report(kept, reports, as_json=as_json)
    return max(exit_code, settle(kept, out if resume else None)) if settle else exit_code


def _plan(
    models: tuple[str, ...],
    models_set: str | None,
    category: str | None,
    plan_file: Path | None,
    mode: str,
    gradient_checkpointing: bool,
    compiled: bool,
    threads: int | None,
    options: tuple[str, ...],
    memory_limit_mb: int | None,
    budget_s: float = 5.0,
    iterations: int | None = None,
    percentile: str = "p50",
    method: dict[str, Any] | None = None,
    scenario: str | None = None,
    browsers: list[str] | None = None,
    headed: bool = False,
    nodes: list[str] | None = None,
    node_rank: int | None = None,
    node_wait_s: float = 120.0,
    **how: Any,
) -> tuple[Any, bool, bool]:
    """Return the plan of the flags or of a file, and whether it verifies and whether it measures."""
    from runner.campaign.plan import Sweep, in_browsers, make_plan
    from runner.campaign.plan_file import read_plan
    from runner.measure.stopping import Method
    from runner.protocol.nodes import read_nodes

    named = {name: how.pop(name) for name in _OF_THE_PLAN if name in how}
    if plan_file is not None:
        _require_file_alone()
        file = read_plan(plan_file)
        return file.plan(node_rank), file.verify, file.benchmark
    sweep = Sweep(
        models=tuple(_models(models, models_set, category)),
        modes=(mode,),
        gradient_checkpointing=(gradient_checkpointing,),
        compiled=(compiled,),
        threads=(threads,) if threads else (),
        options=(options,),
        scenario=scenario or "single_stream",
        **{name: tuple(value) for name, value in how.items() if value is not None},
    )
    plan = make_plan(
        *(in_browsers(sweep, browsers or (), headed=headed) if browsers or headed else [sweep]),
        method=Method(budget_s=budget_s, iterations=iterations, percentile=percentile, **(method or {})),
        memory_limit_bytes=memory_limit_mb * 1_000_000 if memory_limit_mb else None,
        nodes=read_nodes(nodes or (), node_rank, node_wait_s),
        **named,
    )
    return plan, False, True


def _require_file_alone() -> None:
    """Raise UsageError where something was typed that the plan's file says: it would not be heard."""
    context = get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        if name not in _BESIDE_A_FILE and context.get_parameter_source(name) is core.ParameterSource.COMMANDLINE:
            opt = parameter.opts[0] if parameter.opts[0].startswith("-") else "MODEL"
            raise UsageError(
                f"{opt} is not heard beside --plan.",
                field=opt.lstrip("-").replace("-", "_"),
                remedy="Say it in the file (docs/plans.md has its members), or leave out --plan.",
            )


def _models(named: tuple[str, ...], models_set: str | None, category: str | None) -> list[str]:
    from runner.campaign.plan_file import chosen_models

    if chosen := chosen_models(named, models_set, category):
        return chosen
    raise UsageError("no model is named.", field="MODEL", remedy="Name models, or give --models-set or --category.")


def _file(out: Path | None, resume: bool) -> Path | None:
    """Return the file to write: in a folder, the one that is named by this machine's hardware and the month."""
    if out is None or not out.is_dir():
        return out
    from runner.campaign.publication import new_file

    return new_file(out, datetime.now(UTC).date(), resume=resume)


def _already_there(out: Path | None, resume: bool, *, verifies: bool) -> set[str]:
    from domain.events import MEASUREMENT_RECORDED, TEST_REPORTED
    from runner.campaign.resume import cases_in

    type_ = TEST_REPORTED if verifies else MEASUREMENT_RECORDED
    if resume and out is None:
        raise UsageError("goes with --out.", field="resume", remedy="Name the file that the interrupted run wrote.")
    return cases_in(out, type_) if resume and out and out.exists() else set()


def _report(events: list[dict[str, Any]], reports: list[Any], *, as_json: bool) -> int:
    from assay.cli.measure.endpoint_table import scenario_notes
    from assay.cli.tables import (
        doubts,
        failures_table,
        measured_parts,
        measurements_table,
        ranks_table,
        verifications_table,
    )

    notes, valid = scenario_notes(events)
    exit_code = max((int(report.exit_code) for report in reports), default=0) or int(not valid)
    if as_json:
        print_json(events)
        return exit_code
    for make in (
        shown_calibration,
        measurements_table,
        measured_parts,
        ranks_table,
        verifications_table,
        failures_table,
    ):
        table = make(events)
        if table is not None:
            answers().print(table)
            answers().print()
    for note in [*doubts(events), *notes, *(note for report in reports for note in report.notes)]:
        say(note)
    return exit_code
