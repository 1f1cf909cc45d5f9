"""`assay endpoint check`: life-cycle checks of an endpoint, ours or a foreign one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from assay.cli.measure.destination import optional_destination
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, notes, print_json
from assay.cli.output_files import OutputFile, overwritable
from domain.errors import UsageError

if TYPE_CHECKING:
    from runner.serving.lifecycle import Lifecycle, ProtocolName

__all__ = ["check"]


@click.command(
    epilog="""\b
Examples:
  assay endpoint check http://127.0.0.1:8080 --model vit
  assay endpoint check http://127.0.0.1:8080 --create bert-tiny --cycles 20 --post
  assay endpoint check http://10.0.0.7:8000 --protocol openai --json"""
)
@click.argument("url")
@click.option("--model", metavar="NAME", help="The model, by the server's name for it; the first it lists by default.")
@click.option("--protocol", type=click.Choice(["kserve", "openai"]), help="What it speaks; found by asking by default.")
@click.option("--create", metavar="MODEL", help="Create an endpoint of this model in each cycle, and remove it.")
@click.option("--platform", metavar="P", help="With --create: where it is to run; the server chooses by default.")
@click.option("--cycles", default=1, show_default=True, metavar="N", help="How often everything is checked.")
@click.option("--timeout", default=60.0, show_default=True, metavar="S", help="Seconds that one answer may take.")
@click.option(
    "--key-variable",
    default="ASSAY_ENDPOINT_KEY",
    show_default=True,
    metavar="V",
    help="Variable with the server's key.",
)
@click.option("--post", is_flag=True, help="Send the outcome to the service as a test event.")
@click.option("--out", type=OutputFile(), help="Write the events to a file, to post later.")
@overwritable
@served
@as_json
def check(
    url: str,
    model: str | None,
    protocol: ProtocolName | None,
    create: str | None,
    platform: str | None,
    cycles: int,
    timeout: float,
    key_variable: str,
    post: bool,
    out: Path | None,
    force: bool,  # noqa: ARG001 - the type of --out reads it
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Check the life of an endpoint: ready, metadata, invoked, wrong input refused, many at once, removed, gone.

    URL is the base address of a server that speaks KServe v2 or OpenAI's protocol. Without --create, a model that is there
    is checked and left where it is. Exit code 1 where a check failed.
    """
    from runner.serving.lifecycle import check_endpoint, events_of

    if post and out is not None:
        raise UsageError(
            "goes without --post.", field="out", remedy="Write the file now and send it with `assay post`."
        )
    with notes().status(f"checking {url}") as status:
        result = check_endpoint(
            url,
            model=model,
            protocol=protocol,
            create=create,
            platform=platform,
            cycles=cycles,
            key=os.environ.get(key_variable),
            timeout_s=timeout,
            on_step=lambda step: status.update(f"cycle {step.cycle} of {cycles}: {step.check} {step.outcome}"),
        )
    with optional_destination(out, post, server, token) as tell:
        for event in events_of(result):
            tell(event)
    _show(result, as_json=as_json)
    return 0 if result.passed else 1


def _show(result: Lifecycle, *, as_json: bool) -> None:
    """Print every step as JSON, or a row a check: its counts, median time, and the first failure or the last thing seen."""
    if as_json:
        import msgspec

        counts = {outcome: result.count(outcome) for outcome in ("passed", "failed", "skipped")}
        print_json({"ok": result.passed, **counts, **msgspec.to_builtins(result)})
        return
    from domain.statistics import median
    from presentation import formatting

    rows = []
    for name in dict.fromkeys(step.check for step in result.steps):
        steps = [step for step in result.steps if step.check == name]
        worst = next((step for step in steps if step.outcome == "failed"), steps[-1])
        numbers = [str(result.count(outcome, name) or "—") for outcome in ("passed", "failed", "skipped")]
        times = [step.ms for step in steps if step.ms is not None]
        rows.append([name, *numbers, formatting.significant(median(times)) if times else "—", worst.said])
    failed = result.count("failed")
    verdict = "every check passed" if result.passed else f"{failed} failed" if failed else "nothing could be checked"
    columns: list[str | tuple[str, str]] = [
        ("check", "fixed"),
        ("passed", "right"),
        ("failed", "right"),
        ("skipped", "right"),
        ("ms", "right"),
        "what was seen",
    ]
    title = f"{result.model} at {result.url} ({result.protocol}, {result.cycles}×): {verdict}"
    answers().print(grid(title, columns, rows))
