"""`assay fleet`: the cheapest machines that serve several models and their loads."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from assay.cli.options import AS_OF, WORDS, as_json, served
from assay.cli.output import answers, grid, print_json, say
from domain.answers import FleetPlan, FleetProof, answer_document
from domain.errors import TraceNeeded, UsageError
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client

__all__ = ["fleet"]

SHOWN = 8
_LOAD = re.compile(
    r"(?P<model>[^=]+)=(?P<rate>[0-9][0-9.eE+]*) ?(?P<unit>items|requests|tokens)?/s(?::(?P<limits>.+))?"
)
_OWN = re.compile(r"(?P<slug>[^=]+)=(?P<count>[0-9]{1,5})(?:@(?P<cost>[0-9.]+))?")
_BY_NAME = {"items_per_s": "items/s", "requests_per_s": "requests/s", "tokens_per_s": "tokens/s"}


class Load(click.ParamType[dict[str, Any]]):
    """`bert-base-uncased=200/s:max_latency_ms=50`: a model, how much of it, and its constraints."""

    name = "MODEL=RATE/s[:limit=value…]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        """Return the load as a member of the question."""
        if isinstance(value, dict):
            return value
        match = _LOAD.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not a load; write bert-base-uncased=200/s:max_latency_ms=50", param, ctx)
        load: dict[str, Any] = {"model": match["model"], f"{match['unit'] or 'items'}_per_s": _value(match["rate"])}
        for limit in (match["limits"] or "").split(":"):
            name, equals, said = limit.partition("=")
            if limit and not equals:
                self.fail(f"{limit!r} of {value!r} is not name=value", param, ctx)
            if limit:
                load[name.strip().replace("-", "_")] = _value(said)
        return load


class Owned(click.ParamType[tuple[str, dict[str, Any]]]):
    """`nvidia-t4=2@0.05`: machines that are there, and what an hour of one costs."""

    name = "SLUG=COUNT[@USD]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, dict[str, Any]]:
        """Return the slug, and the member of the question."""
        if isinstance(value, tuple):
            return value
        match = _OWN.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not owned hardware; write nvidia-t4=2 or nvidia-t4=2@0.05", param, ctx)
        cost = {} if match["cost"] is None else {"usd_per_hour": float(match["cost"])}
        return match["slug"], {"count": int(match["count"]), **cost}


def _value(said: str) -> Any:
    try:
        number = float(said)
    except ValueError:
        return {"true": True, "false": False}.get(said.strip(), said.strip())
    return int(number) if number.is_integer() and "." not in said and "e" not in said.lower() else number


@click.command(
    epilog="""\b
Examples:
  assay fleet --load bert-base-uncased=200/s --load vit-base=50/s:max_latency_ms=50
  assay fleet --load bert-base-uncased=2000/s --hardware nvidia-l4,nvidia-t4 --max-machines 4
  assay fleet --load resnet-50=100/s --own nvidia-t4=2@0.05 --hardware own
  assay fleet services.yaml --utilisation 0.5 --json"""
)
@click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="[FILE.yaml]"
)
@click.option("--load", "loads", type=Load(), multiple=True, help="May be repeated; limits as recommend has them.")
@click.option("--hardware", multiple=True, type=WORDS, metavar="SLUG,…|own|all", help="all: whatever has a price.")
@click.option("--own", type=Owned(), multiple=True, help="Machines that are there; may be repeated.")
@click.option("--regions", type=WORDS, help="Rent only there.")
@click.option("--providers", type=WORDS, help="Rent only from these.")
@click.option("--spot", is_flag=True, default=None, help="Spot prices count too.")
@click.option("--utilisation", type=float, metavar="U", help="How busy a device may be; 0.7 by default.")
@click.option("--memory-headroom", type=float, metavar="H", help="Share of memory that stays free; 0.1 by default.")
@click.option("--max-machines", type=click.IntRange(min=1), metavar="N")
@click.option("--as-of", type=AS_OF)
@served
@as_json
def fleet(
    file: Path | None,
    loads: tuple[dict[str, Any], ...],
    hardware: tuple[list[str], ...],
    own: tuple[tuple[str, dict[str, Any]], ...],
    server: str | None,
    token: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Find the cheapest machines that serve several models, several on one machine where they fit.

    FILE.yaml holds the question as `POST /v1/fleets` takes it; flags add to it. Exit code 1 where a load cannot be served.
    """
    from assay.cli.connection import reading

    question = _read(file) if file else {}
    question["loads"] = [*question.get("loads", []), *loads]
    question |= {name: value for name, value in flags.items() if value is not None}
    named = [slug for slugs in hardware for slug in slugs]
    if named:
        question["hardware"] = named[0] if named in (["own"], ["all"]) else named
    if own:
        question["own"] = {**question.get("own", {}), **dict(own)}
    with reading(server, token) as client:
        answer = _asked(client, question)
    if as_json:
        print_json(answer_document(answer))
    else:
        _tell(answer)
    return 0 if answer.feasible else 1


def _read(path: Path) -> dict[str, Any]:
    import yaml

    try:
        question = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not YAML: {error}.", field="FILE.yaml", remedy="docs/fleet.md has one.") from error
    if not isinstance(question, dict) or not isinstance(question.get("loads", []), list):
        raise UsageError(f"{path} holds no question.", field="FILE.yaml", remedy="Write loads: and a list of them.")
    return question


def _asked(client: Client, question: dict[str, Any]) -> FleetPlan:
    """Ask; a model without an operator trace is traced here, where torch is installed, and asked about again."""
    from assay.cli.ask.asking import ask

    tried: set[int] = set()
    while True:
        try:
            return client.fleet(**question)
        except TraceNeeded as missing:
            at = re.match(r"loads\[(\d+)\]", missing.field or "")
            if at is None or int(at[1]) in tried:
                raise
            tried.add(int(at[1]))
            load = question["loads"][int(at[1])]
            sizes = {name: load[name] for name in ("mode", "sequence_length", "image_size") if name in load}
            ask(client, partial(client.recommend, **sizes), load["model"], load)


def _tell(answer: FleetPlan) -> None:
    console = answers()
    for note in answer.notes:
        say(f"[dim]{note}[/dim]")
    for load in answer.unmet:
        console.print(f"{load.name or load.model or 'Together'}: {load.why}", markup=False)
    if not answer.feasible:
        return
    console.print(_machines(answer))
    console.print()
    console.print(_loads(answer))
    console.print()
    console.print(
        f"{formatting.money(answer.usd_per_hour)} an hour, {formatting.money(answer.usd_per_month)} a month. {_proof(answer.proof)}"
    )
    if answer.ends:
        console.print(
            f"At the expected speeds it would be {formatting.money(answer.ends.expected)}, at the optimistic end of their "
            f"intervals {formatting.money(answer.ends.optimistic)}."
        )
    for alternative in answer.alternatives:
        machines = ", ".join(f"{count} {name}" for name, count in alternative.machines.items())
        console.print(f"{alternative.what}: {formatting.money(alternative.usd_per_hour)} ({machines})", markup=False)
    if answer.unknown:
        console.print()
        console.print("[bold]Not known[/bold]")
        for doubt in answer.unknown[:SHOWN]:
            console.print(f"  {doubt.what}", markup=False)
            if doubt.command:
                console.print(f"    {doubt.command}", markup=False, soft_wrap=True)
    console.print()
    rules = Counter(item.rule for item in answer.excluded)
    if rules:
        counts = ", ".join(f"{rule} ({count})" for rule, count in sorted(rules.items()))
        console.print(f"[dim]left out, as --json names them: {counts}[/dim]")
    for assumption in answer.assumptions:
        console.print(f"[dim]{assumption}[/dim]")


def _machines(answer: FleetPlan) -> Any:
    rows: list[list[str]] = []
    for machine in answer.machines:
        what = [str(machine.count), machine.machine, formatting.money(machine.usd_per_hour)]
        for place in machine.places:
            count = str(place.count)
            for run in place.runs:
                how = f"{run.platform} {run.precision} batch {run.batch_size}"
                rows.append(
                    [
                        *what,
                        count,
                        run.name or run.model.rpartition("/")[2],
                        how,
                        formatting.share(run.utilisation),
                        formatting.memory(run.memory_bytes),
                        run.basis,
                    ]
                )
                what, count = ["", "", ""], ""
    columns: list[str | tuple[str, str]] = [
        ("#", "right"),
        "machine",
        ("each/h", "right"),
        ("places", "right"),
        "runs",
        "as",
        ("busy", "right"),
        ("memory", "right"),
        ("basis", "fixed"),
    ]
    return grid("The cheapest machines", columns, rows)


def _loads(answer: FleetPlan) -> Any:
    rows = [
        [
            load.name or load.model.rpartition("/")[2],
            f"{formatting.significant(load.rate)} {_BY_NAME[load.unit]}",
            f"{formatting.significant(load.could_serve)} {_BY_NAME[load.unit]}",
        ]
        for load in answer.loads
    ]
    return grid(None, ["load", ("asked", "right"), ("with the rest as it is up to", "right")], rows)


def _proof(proof: FleetProof | None) -> str:
    if proof is None:
        return ""
    if proof.proven:
        return "Nothing cheaper serves them."
    return f"At most {formatting.share(proof.gap)} could be saved: the search was stopped."
