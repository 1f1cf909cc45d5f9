"""`assay model trace`: the operators of models, many at once, on torch's meta device without weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import rich_click as click

from assay.cli.options import WORDS, as_json, served
from assay.cli.output import answers, grid, print_json, say
from assay.cli.progress import counting
from domain.configuration import Workload
from domain.errors import AssayError, UsageError
from domain.vocabulary import MODES
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client

__all__ = ["SIZES", "is_onnx", "trace_events", "trace_models"]

SIZES = ("sequence_length", "image_size", "audio_seconds", "frames", "input_tokens", "output_tokens")
_TOGETHER = 20
"""Events in a request: what is traced is kept soon, and a second run goes on after it."""
_ROWS = 100_000
_MEASURED = f"SELECT DISTINCT model_id, mode, {', '.join(SIZES)} FROM measurements WHERE model_id IS NOT NULL"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A model and the work that its operators are wanted of."""

    model: str
    work: Workload


class Untraced(msgspec.Struct, frozen=True, kw_only=True):
    """A model that could not be traced, and why."""

    model: str
    why: str


class Tracing(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of `assay model trace` came to."""

    wanted: int
    traced: int
    events: int
    failed: list[Untraced]


@click.command(
    "trace",
    epilog="""\b
Examples:
  assay model trace bert-base-uncased --sequence-lengths 128,384
  assay model trace --family resnet
  assay model trace --missing --source timm       # what an import measured and nobody traced
  assay model trace timm/resnet50d --mode training""",
)
@click.argument("models", nargs=-1, metavar="[MODEL]…")
@click.option(
    "--family", metavar="F", help="Every model of a family: of the catalogue, and of timm where it is installed."
)
@click.option(
    "--missing", is_flag=True, help="Every model and size that was measured and has no trace: asks the service."
)
@click.option(
    "--source", metavar="TEXT", help="With --missing: only rows whose source has this in its name, such as timm."
)
@click.option("--mode", type=click.Choice(MODES), default="inference", show_default=True)
@click.option("--sequence-lengths", type=WORDS, help="In tokens; the model's usual one by default.")
@click.option("--image-size", type=click.IntRange(min=1), help="Side in pixels; the model's usual one by default.")
@served
@as_json
def trace_models(
    models: Sequence[str],
    family: str | None,
    missing: bool,
    source: str | None,
    mode: str,
    sequence_lengths: list[str] | None,
    image_size: int | None,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Trace the operators of models and post them, so that they are predicted; needs torch, no weights and no device.

    A model takes a second or two. What is traced is kept at once: a run that is cut off is taken up by the next one
    with --missing. Exit code 1 where a model could not be traced.
    """
    from assay.cli.connection import connected

    if not (models or family or missing):
        raise UsageError("no model is named.", field="MODEL", remedy="Name models, or give --family or --missing.")
    if source and not missing:
        raise UsageError("--source narrows --missing.", field="source", remedy="Add --missing, or leave it out.")
    lengths: list[int | None] = [_whole(length) for length in sequence_lengths or ()] or [None]
    works = [Workload(mode=mode, sequence_length=length, image_size=image_size) for length in lengths]
    named = [*models, *(_of_family(family) if family else ())]
    wanted = [Wanted(model=name, work=work) for name in dict.fromkeys(named) for work in works]
    with connected(server, token) as client:
        if missing:
            wanted += _missing(client, source)
        answer = _traced(client, wanted)
    if as_json:
        print_json(answer)
    else:
        say(
            f"{formatting.count(answer.traced)} of {formatting.count(answer.wanted)} traced, {formatting.count(answer.events)} traces posted"
        )
        if answer.failed:
            rows = [[item.model, item.why] for item in answer.failed]
            answers().print(grid("Not traced", ["model", "why"], rows))
    return 1 if answer.failed else 0


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(
            f"{text!r} is no length.", field="sequence_lengths", remedy="Whole numbers of tokens: 128,384."
        )
    return int(text)


def _of_family(family: str) -> list[str]:
    """Return the models of a family: the catalogue's, and timm's where it is installed. Raises UsageError for none."""
    from domain.catalogues.models import catalogue, timm_family

    names = [item.id for item in catalogue() if item.family == family]
    try:
        import timm
    except (ImportError, RuntimeError):
        say("[dim]timm cannot be imported here: its models of the family are left out[/dim]")
    else:
        names += [f"timm/{name}" for name in timm.list_models() if timm_family(name) == family]
    if not names:
        families = ", ".join(sorted({item.family for item in catalogue() if item.family}))
        raise UsageError(
            f"no model is of the family {family!r}.", field="family", remedy=f"The catalogue has {families}."
        )
    return names


def _missing(client: Client, source: str | None) -> list[Wanted]:
    """Return the work that was measured and that no trace, of the log or shipped, is of."""
    from predictor.features.shipped_traces import shipped_works

    statement = _MEASURED
    if source:
        statement += f" AND contains(lower(source), lower('{source.replace(chr(39), chr(39) * 2)}'))"
    measured = client.query(statement, as_="arrow", limit=_ROWS).to_pylist()
    traced = client.query("SELECT model_id, mode, phase, workload FROM traces", as_="arrow", limit=_ROWS).to_pylist()
    names = {row["model_id"] for row in measured}
    book = _book([*shipped_works(names), *traced])
    wanted = []
    for row in measured:
        sizes = {name: row[name] for name in SIZES}
        if book.work(row["model_id"], row["mode"], sizes) is None:
            work = Workload(mode=row["mode"] or "inference", **sizes)
            wanted.append(Wanted(model=row["model_id"], work=work))
    return wanted


def _book(rows: Iterable[Mapping[str, Any]]) -> Any:
    from predictor.features.traces import TraceBook, trace_from_data

    return TraceBook(
        trace_from_data(
            {
                "model": {"id": row["model_id"]},
                "workload": {
                    **msgspec.json.decode(row["workload"] or "{}"),
                    "mode": row["mode"],
                    "phase": row["phase"],
                },
                "operators": [],
            }
        )
        for row in rows
    )


def _traced(client: Client, wanted: Sequence[Wanted]) -> Tracing:
    """Trace one after the other and post in portions; a model that cannot be traced does not end the run."""
    failed: dict[str, str] = {}
    events: list[dict[str, Any]] = []
    posted = traced = 0
    with counting("tracing", len(wanted)) as advance:
        for item in wanted:
            try:
                # A model that failed fails at every size, and building it can take a minute.
                if item.model not in failed:
                    events += trace_events(item.model, item.work)
                    traced += 1
            except AssayError as error:
                failed[item.model] = error.detail
            except Exception as error:
                failed[item.model] = f"{type(error).__name__}: {error}"
            if len(events) >= _TOGETHER:
                posted += _post(client, events)
                events = []
            advance(1)
        posted += _post(client, events)
    return Tracing(
        wanted=len(wanted),
        traced=traced,
        events=posted,
        failed=[Untraced(model=name, why=why.split("\n")[0]) for name, why in sorted(failed.items())],
    )


def _post(client: Client, events: Sequence[dict[str, Any]]) -> int:
    if events:
        client.wait_for(client.post_events(events)["last_position"])
    return len(events)


def is_onnx(model: str) -> bool:
    """Whether a name is that of an ONNX file."""
    return model.lower().endswith(".onnx")


def trace_events(
    model: str, work: Workload, *, forward: bool | None = None, apart: bool = False
) -> list[dict[str, Any]]:
    """Return the events of the phases that the work consists of; what building and tracing raise is passed on.

    With `forward` the work is a call as its user means it (false), or a forward pass (true). With `apart` a process of its own
    traces, which takes half as long for one model.
    """
    from assay.cli.connection import event_source
    from domain.events import MODEL_TRACED, new_event
    from runner.tracing.child import trace_apart

    when = datetime.now(UTC)
    phases = trace_apart(model, work, forward) if apart and not is_onnx(model) else None
    return [
        new_event(MODEL_TRACED, data, source=event_source(), subject=data["model"]["id"], time=when)
        for data in phases or _phases(model, work, forward)
    ]


def _phases(model: str, work: Workload, forward: bool | None) -> Iterator[dict[str, Any]]:
    if is_onnx(model):
        from runner.tracing.onnx_trace import trace_onnx

        data = trace_onnx(Path(model), work)
        unknown = ", ".join(data["tracer"]["unknown"])
        if unknown:
            say(f"[dim]operators not understood, counted by what they move alone: {unknown}[/dim]")
        yield data
        return
    from runner.models.sources import resolve
    from runner.tracing.trace import traced_phases

    yield from traced_phases(resolve(model, "random"), work, forward)
