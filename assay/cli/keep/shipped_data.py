"""`assay data`: measurements of others in the log or out of it, published ones that ship and shared ones in bundles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import rich_click as click

from assay.cli.keep.shared_data import (
    add_shared,
    bundle_table,
    names_a_place,
    quarantine,
    remove_shared,
    tell_added,
    trust,
)
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from domain.errors import UsageError
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client
    from domain.answers.sharing import SharedBundle
    from ingest.evidence import Source

__all__ = ["data"]

STATES = {"added": "in the log", "removed": "removed", "partly": "partly in the log", "absent": "not added"}


@click.group(
    epilog="""\b
Examples:
  assay data list
  assay data remove timm --reason "we compare our own runs only"
  assay data add timm
  assay data add theirs.assay.ndjson.gz https://example.org/theirs.assay.ndjson.gz
  assay data add git+https://example.org/evidence.git --dry-run
  assay data remove 37285270e196 --reason "their clock was wrong"
  assay data list --shared"""
)
def data() -> None:
    """Measurements of others: published ones that ship with Assay, and shared ones that somebody signed.

    A log that was empty began with all that ships (docs/shipped-data.md); docs/sharing.md tells of the others.
    """


data.add_command(trust)
data.add_command(quarantine)


@data.command(
    "list",
    epilog="""\b
Examples:
  assay data list
  assay data list --shared --json""",
)
@click.option("--shared", is_flag=True, help="The shared bundles alone, with their signers.")
@served
@as_json
def list_sources(shared: bool, server: str | None, token: str | None, as_json: bool) -> int:
    """List the sources: how many measurements, of when, whose, under which licence, and whether they are in the log."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        bundles = client.shared() if shared or not as_json else []
        states = {} if shared else _states(client)
    if shared:
        print_json(bundles) if as_json else bundle_table(bundles)
        return 0
    from ingest.evidence import sources

    listed = [_document(source, states) for source in sources()]
    if as_json:
        print_json(listed)
        return 0
    rows = [
        [
            item["name"],
            formatting.count(item["measurements"]),
            _dates(item),
            ", ".join(item["references"]),
            ", ".join(item["licences"]),
            STATES[item["state"]],
        ]
        for item in listed
    ]
    columns: list[str | tuple[str, str]] = [
        ("source", "fixed"),
        ("rows", "right"),
        ("measured", "fixed"),
        "published by",
        "licence",
        ("state", "fixed"),
    ]
    answers().print(grid(None, columns, rows))
    if bundles:
        bundle_table(bundles)
    return 0


@data.command(
    "add",
    epilog="""\b
Examples:
  assay data add                     # whatever ships and is missing
  assay data add timm ai-hub
  assay data add theirs.assay.ndjson.gz --dry-run
  assay data add bundles/            # every bundle of a folder
  assay data add git+https://example.org/evidence.git""",
)
@click.argument("sources", nargs=-1, metavar="[SOURCE]…")
@click.option(
    "--dry-run", is_flag=True, help="Of shared bundles: say what would be added and held back, and add nothing."
)
@served
@as_json
def add(sources: tuple[str, ...], dry_run: bool, server: str | None, token: str | None, as_json: bool) -> int:
    """Add sources that ship (all by default), or shared bundles: files, folders, addresses, git repositories.

    What is there already is left alone; what was removed counts again. A bundle that was cut or forged is refused whole.
    """
    from assay.cli.connection import connected

    places = [source for source in sources if names_a_place(source)]
    if places:
        if len(places) != len(sources):
            raise UsageError("bundles and sources that ship.", field="SOURCE", remedy="Add them one after the other.")
        with connected(server, token) as client:
            return tell_added(add_shared(client, places, dry_run=dry_run), as_json=as_json, dry_run=dry_run)
    if dry_run:
        raise UsageError("what ships is known.", field="dry-run", remedy="`assay data list` says what of it is there.")
    from ingest.evidence import events

    chosen = _chosen(sources)
    added = known = 0
    with connected(server, token) as client:
        last = 0
        for batch in events([source.name for source in chosen]):
            answer = client.post_events(batch, batch=len(batch))
            added, known = added + answer["accepted"], known + answer["duplicate"]
            last = max(last, answer["last_position"])
        undone = [_retraction(event_id=held, reason="added again") for held in _retracted(client, chosen)]
        if undone:
            last = client.post_events(undone)["last_position"]
        client.wait_for(last)
    if as_json:
        print_json({"added": added, "known": known, "restored": len(undone)})
    else:
        restored = f", {formatting.count(len(undone))} runs count again" if undone else ""
        say(f"{formatting.count(added)} events added, {formatting.count(known)} were there{restored}")
    return 0


@data.command(
    "remove",
    epilog="""\b
Examples:
  assay data remove timm --reason "we compare our own runs only"
  assay data remove 37285270e196 --reason "their clock was wrong"   # a bundle
  assay data remove "Jane's lab\"                                   # a signer""",
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE…")
@click.option("--reason", default="removed with assay data remove", show_default=True, help="Why; it stays in the log.")
@served
@as_json
def remove(sources: tuple[str, ...], reason: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Take sources that ship, bundles or signers out of answers and pages.

    The log keeps their rows, retracted, and `assay data add` brings them back.
    """
    from assay.cli.connection import connected

    with connected(server, token) as client:
        bundles = client.shared()
        shared = [name for name in sources if any(_is_of(bundle, name) for bundle in bundles)]
        ships = [name for name in sources if name not in shared]
        chosen = _chosen(ships) if ships else []
        count = remove_shared(client, shared, reason) if shared else 0
        states = _states(client)
        runs = [run for source in chosen for run in source.runs if states.get(run) == "added"]
        if runs:
            answer = client.post_events([_retraction(run_id=run, reason=reason) for run in runs])
            client.wait_for(answer["last_position"])
    count += len(runs)
    if as_json:
        print_json({"runs": count})
    else:
        say(f"{formatting.count(count)} runs of {', '.join(sources)} retracted: {reason}")
    return 0


def _is_of(bundle: SharedBundle, name: str) -> bool:
    """Return whether a name is that of a bundle, the beginning of its digest, or its signer."""
    digest = bundle.bundle.removeprefix("sha256:")
    return name in (bundle.signer, bundle.name) or (
        len(name) >= len("3728ab") and digest.startswith(name.removeprefix("sha256:"))
    )


def _chosen(names: Sequence[str]) -> list[Source]:
    """Return the named sources, or all; UsageError for one that does not ship."""
    from ingest.evidence import sources

    existing = {source.name: source for source in sources()}
    for name in names:
        if name not in existing:
            raise UsageError(
                f"no source is called {name!r}.", field="SOURCE", remedy=f"One of {', '.join(sorted(existing))}."
            )
    return [existing[name] for name in dict.fromkeys(names or sorted(existing))]


def _states(client: Client) -> dict[str, str]:
    """Return `added` or `removed` for each run that the log has."""
    return {run["run_id"]: "removed" if run["retracted_because"] else "added" for run in client.runs(origin="imported")}


def _document(source: Source, states: Mapping[str, str]) -> dict[str, Any]:
    counts = Counter(states.get(run, "absent") for run in source.runs)
    state = next(iter(counts)) if len(counts) == 1 else "partly"
    return {
        "name": source.name,
        "measurements": source.measurements,
        "undated": source.undated,
        "first": source.first,
        "last": source.last,
        "references": source.references,
        "licences": source.licences,
        "state": state,
    }


def _dates(item: Mapping[str, Any]) -> str:
    if item["first"] is None:
        return "undated"
    first, last = item["first"][:4], item["last"][:4]
    span = first if first == last else f"{first} to {last}"
    return f"{span}, else undated" if item["undated"] else span


def _retracted(client: Client, chosen: Sequence[Source]) -> list[str]:
    """Return the ids of the retractions in force of these sources' runs."""
    from domain.events import MEASUREMENT_RETRACTED

    runs = {run for source in chosen for run in source.runs}
    every = list(client.events(types=(MEASUREMENT_RETRACTED,)))
    undone = {event["data"].get("event_id") for event in every}
    return [event["id"] for event in every if event["data"].get("run_id") in runs and event["id"] not in undone]


def _retraction(*, reason: str, event_id: str | None = None, run_id: str | None = None) -> dict[str, Any]:
    from assay.cli.connection import event_source
    from domain.events import MEASUREMENT_RETRACTED, new_event
    from domain.payloads import MeasurementRetracted

    said = MeasurementRetracted(event_id=event_id, run_id=run_id, reason=reason)
    return new_event(MEASUREMENT_RETRACTED, said, source=event_source(), time=datetime.now(UTC))
