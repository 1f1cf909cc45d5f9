"""`assay demo`: from nothing to a measured, explained recommendation, every part of it the real one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import rich_click as click

from assay.cli.ask.answer_text import tell_answer
from assay.cli.ask.asking import ask
from assay.cli.learn.training import tell_training
from assay.cli.measure.run_output import progress
from assay.cli.measure.sending import described, empty_spool
from assay.cli.output import answers, grid, notes
from assay.cli.tables import doubts, failures_table, measurements_table, verifications_table
from domain.answers import Recommendation
from domain.errors import ServiceUnavailable
from domain.operating_system import require_service_support
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client
    from runner.campaign.campaign import Campaign
    from runner.campaign.plan import Plan
    from runner.campaign.run import Progress

__all__ = ["demo"]

Result = TypeVar("Result")

MODELS = ("google-bert/bert-base-uncased", "google/vit-base-patch16-224", "openai/whisper-tiny")
PLATFORMS = ("cpu", "openvino")
PRECISIONS = ("fp32", "bf16")
BATCHES = (1, 2)
VERIFIED = "prajjwal1/bert-tiny"
MEASURED = MODELS[0]
NEVER_MEASURED = "FacebookAI/roberta-base"
TOP = 8
PUBLISHED = Path(__file__).resolve().parents[3] / "data"
"""The folder of published measurements in a checkout; an installed package has none."""


@click.command(epilog="Example: assay demo --budget 2")
@click.option(
    "--budget",
    "budget_s",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    metavar="S",
    help="Seconds of steady measuring a configuration.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="API port; 8000, or a free one.")
@click.option("--dashboard-port", type=click.IntRange(1, 65535), help="Dashboard port; 8501, or a free one.")
def demo(budget_s: float, port: int | None, dashboard_port: int | None) -> int:
    """Measure three models on this machine, train, and recommend hardware for one measured and one never seen.

    Ends by itself in under ten minutes on two cores. `assay up` then serves the same data.
    """
    from assay.client import Client
    from assay.home import find_home
    from assay.service import up

    require_service_support()
    began = time.monotonic()
    home = find_home()
    with ExitStack() as stack:
        _step(1, "Starting Postgres, the API and the dashboard")
        scratch = stack.enter_context(TemporaryDirectory(prefix="assay-", ignore_cleanup_errors=True))
        # None of it is timed, and all of it is over before the first measurement.
        surveyed = _aside(lambda: (_campaign(budget_s), *_verify(Path(scratch))))
        api_port, page_port = _port(port, 8000), _port(dashboard_port, 8501)
        url, page, _ = stack.enter_context(up(home, api_port, page_port))
        client = stack.enter_context(Client(url))
        notes().print(f"  API {url} · dashboard {page} · data {home.path}")
        _step(2, "Loading what was measured on other machines")
        _load(client)
        _step(3, "Looking at this machine, and verifying one model on each platform against fp32 on the CPU")
        campaign, verified, steps = surveyed.result()
        with progress() as show:
            for step in steps:
                show(step)
        _step(4, "Measuring three models on this machine")
        events = _measure(campaign) + verified
        _step(5, "Posting every result as an event, and projecting the log")
        _post(client, events)
        _step(6, "Training the predictor on what is there")
        trained = client.train()
        client.wait_for(trained["position"])
        tell_training(trained)
        _tell_results(events)
        for title, model in (("a model that was measured", MEASURED), ("a model that never was", NEVER_MEASURED)):
            answers().rule(f"Recommendation for {title}")
            _recommend(client, model)
    answers().rule("Done")
    answers().print(
        f"{formatting.count(time.monotonic() - began)} s. `make up` (or `assay up`) serves this data: the dashboard on "
        "http://127.0.0.1:8501, the API on http://127.0.0.1:8000."
    )
    return 0


def _aside(work: Callable[[], Result]) -> Future[Result]:
    """Do some work beside this thread. It ends with the process, so that Ctrl-C waits for none of it."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _step(number: int, title: str) -> None:
    notes().print(f"[bold]{number}/6 {title}[/bold]")


def _load(client: Client) -> None:
    """Post the published measurements: a second time nothing is new."""
    from runner.campaign.publication import contents_of, published_files
    from runner.spool.post import post_files

    files = published_files(PUBLISHED)
    if not files:
        notes().print("  none here: they come with a checkout of the code, in its folder data")
        return
    report = post_files(files, lambda lines: client.post_events(lines, batch=len(lines)))
    if report.last_position is not None:
        client.wait_for(report.last_position)
    text = f"{formatting.count(report.accepted)} new, {formatting.count(report.duplicate)} already there"
    refused = f", {report.refused_lines} refused: {report.refused[0].detail}" if report.refused else ""
    notes().print(f"  {described(contents_of(files))}; {text}{refused}", markup=False)


def _port(wanted_value: int | None, usual: int) -> int:
    from assay.service import free_port, require_free

    if wanted_value is not None:
        return wanted_value
    try:
        require_free("127.0.0.1", usual)
    except ServiceUnavailable:
        return free_port()
    return usual


def _campaign(budget_s: float) -> Campaign:
    """Survey this machine, and describe and trace the models that are to be measured."""
    from assay.home import find_home
    from runner.campaign.campaign import Campaign

    return Campaign(_plan(budget_s), trace=True, cache=find_home().cache)


def _plan(budget_s: float) -> Plan:
    """Return what is measured: every platform and precision of each model; larger batches of the one that is asked about.

    A larger batch of the others shows nothing that it does not show there, and takes a child and a conversion each.
    """
    from runner.campaign.plan import Sweep, make_plan
    from runner.measure.stopping import Method

    sweep = Sweep(models=MODELS, platforms=PLATFORMS, precisions=PRECISIONS, batch_sizes=BATCHES)
    plan = make_plan(sweep, weights="random", method=Method(budget_s=budget_s))
    cases = tuple(case for case in plan.cases if case.model == MEASURED or case.workload.batch_size == BATCHES[0])
    return msgspec.structs.replace(plan, cases=cases)


def _measure(campaign: Campaign) -> list[dict[str, Any]]:
    from runner.campaign.bench import run_campaign

    events: list[dict[str, Any]] = []
    with progress() as show:
        run_campaign(campaign, events.append, show)
    return events


def _verify(cache: Path) -> tuple[list[dict[str, Any]], list[Progress]]:
    """Return the events of a verification, and what to show of it.

    Its own cache: how long a conversion took beside other work must not stand in a later measurement.
    """
    from runner.campaign.plan import Sweep, make_plan
    from runner.campaign.verify import run_verification

    plan = make_plan(Sweep(models=(VERIFIED,), platforms=PLATFORMS), weights="random")
    events: list[dict[str, Any]] = []
    steps: list[Progress] = []
    run_verification(plan, events.append, steps.append, cache=cache)
    return events, steps


def _post(client: Client, events: list[dict[str, Any]]) -> None:
    from assay.home import find_home
    from runner.machine.signing import signer
    from runner.spool.spool import Spool

    home = find_home()
    signed = signer(home.path)
    with Spool(home.spool) as spool:
        spool.put([signed(event) for event in events])
        empty_spool(spool, client)


def _tell_results(events: list[dict[str, Any]]) -> None:
    for make in (measurements_table, verifications_table, failures_table):
        table = make(events)
        if table is not None:
            answers().print()
            answers().print(table)
    for doubt in doubts(events):
        answers().print(f"  {doubt}", markup=False)
    speedups = _speedups(events)
    if speedups:
        columns: list[str | tuple[str, str]] = [
            "model",
            ("batch", "right"),
            "fastest here",
            ("against plain CPU (torch, fp32)", "right"),
        ]
        answers().print()
        answers().print(grid("Speed-up over plain CPU", columns, speedups))
        answers().print()


def _speedups(events: list[dict[str, Any]]) -> list[list[str]]:
    """Return the fastest configuration of each model and batch against torch in fp32 on the CPU."""
    fastest: dict[tuple[str, int], tuple[float, str]] = {}
    plain: dict[tuple[str, int], float] = {}
    for event in events:
        if event["type"] != "assay.measurement.recorded.v1":
            continue
        data = event["data"]
        key = (data["model"]["id"], data["workload"]["batch_size"])
        latency, how = data["metrics"]["latency_ms"]["p50"], _how(data)
        if how == "cpu fp32":
            plain[key] = latency
        if key not in fastest or latency < fastest[key][0]:
            fastest[key] = (latency, how)
    return [
        [
            key[0].rpartition("/")[2],
            str(key[1]),
            f"{how}: {formatting.latency(latency)}",
            formatting.change(plain[key] / latency),
        ]
        for key, (latency, how) in sorted(fastest.items())
        if key in plain
    ]


def _how(data: Mapping[str, Any]) -> str:
    """Return the platform and precision that did the work."""
    observed = data.get("observed") or {}
    platform = observed.get("platform") or data["execution"]["platform"]
    return f"{platform} {observed.get('precision') or data['execution']['precision']}"


def _recommend(client: Client, model: str) -> None:
    for hardware in ("own", "all"):
        where = "on the hardware of this machine" if hardware == "own" else "on anything the catalogue knows"
        answers().print(f"[bold]{model.rpartition('/')[2]} {where}[/bold]")
        question: dict[str, Any] = {
            "hardware": hardware,
            "batch_sizes": list(BATCHES),
            "top": TOP,
            "per_hardware": hardware == "all",
        }
        answer = ask(client, partial(client.recommend, **question), model, {})
        tell_answer(msgspec.convert(answer, Recommendation), TOP)
        answers().print()
