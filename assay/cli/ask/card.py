"""`assay card`: this machine on one picture or page, made to be posted."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import rich_click as click
from rich.markup import escape

from assay.cli.options import WORDS, as_json, served
from assay.cli.output import answers, fitted, notes, print_json, say
from assay.cli.output_files import OutputFile, overwritable
from domain.errors import AssayError, PartMissing, Unavailable, UsageError
from domain.events import HARDWARE_DESCRIBED, KERNEL_MEASURED, MEASUREMENT_RECORDED, MODEL_TRACED

if TYPE_CHECKING:
    from assay.client import Client
    from presentation.card.content import Card, CardFigure, CardModel
    from presentation.card.evidence import Evidence, Machine
    from presentation.palette import Theme
    from runner.campaign.plan import Plan

__all__ = ["card"]

Event = dict[str, Any]
_FORMS = (".html", ".svg", ".png")
_TYPES = frozenset((HARDWARE_DESCRIBED, KERNEL_MEASURED, MEASUREMENT_RECORDED, MODEL_TRACED))
_IN_BROWSERS = ("wasm", "webgpu", "webnn")
_DEFAULT = "card.svg"
_BUDGET_S = 3.0
_MOST_MODELS = 5


def _is_card(path: Path) -> bool:
    """Whether an existing file is a card, which is made anew without --force."""
    from presentation.card.content import MARKER

    with path.open("rb") as file:
        return MARKER.encode() in file.read(2000)


@click.command(
    epilog="""\b
Examples:
  assay card
  assay card --out card.html
  assay card --measure --out card.png --dark
  assay card resnet-50 --out card.svg
  assay card --from here.ndjson --out there.html
  assay card --json"""
)
@click.argument("models", nargs=-1, metavar="[MODEL]…")
@click.option(
    "--out",
    type=OutputFile(parents=True, replaces=_is_card),
    metavar="FILE",
    help=f"Page or picture by its ending: .html, .svg or .png (1200 × 630); {_DEFAULT} by default.",
)
@click.option(
    "--from",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw the machine of a file of `assay bench --out` instead of this one.",
)
@click.option("--hardware", metavar="SLUG", help="Which device, where there are several; else the first accelerator.")
@click.option("--measure", is_flag=True, help="Measure what is missing first; says how long it takes at most.")
@click.option("--platform", "platforms", type=WORDS, help="With --measure: only these platforms.")
@click.option(
    "--budget",
    "budget_s",
    type=click.FloatRange(min=0.1),
    default=_BUDGET_S,
    show_default=True,
    metavar="S",
    help="With --measure: seconds of steady measuring a configuration.",
)
@click.option(
    "--light/--dark", "light", default=None, help="Colours; a page follows the reader's screen, a picture is light."
)
@overwritable
@served
@as_json
def card(
    models: tuple[str, ...],
    out: Path | None,
    files: tuple[Path, ...],
    hardware: str | None,
    measure: bool,
    platforms: list[str] | None,
    budget_s: float,
    light: bool | None,
    force: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Make a card of this machine: what it is, its measured roofline, and five models beside like machines.

    Figures are what was measured here, from the service or from the spool, and estimates where nothing was; MODEL comes
    first. One file without scripts or requests, free of host names, user names and serial numbers. Exit code 1 where
    --measure left a model without a measurement.
    """
    _check(models, out, files, measure=measure)
    with _answering(server, token) as client:
        result = _made(models, files, hardware, client, (platforms, budget_s, server, token) if measure else None)
    if not as_json or out is not None:
        _write(result, out, light, force=force)
    if as_json:
        print_json(result)
    else:
        _show(result)
    return 1 if measure and result.measured < len(result.rows) else 0


def _check(models: Sequence[str], out: Path | None, files: Sequence[Path], *, measure: bool) -> None:
    """Raise what is wrong with the options before anything is measured."""
    if out is not None and out.suffix.lower() not in _FORMS:
        raise UsageError(f"{out} has no ending of a card.", field="out", remedy=f"End it in {', '.join(_FORMS)}.")
    if out is not None and out.suffix.lower() == ".png" and importlib.util.find_spec("vl_convert") is None:
        raise PartMissing(
            "a PNG needs the package vl-convert-python.",
            field="out",
            remedy="pip install 'assay-bench[dashboard]', or name a file that ends in .svg or .html.",
        )
    if len(models) > _MOST_MODELS:
        raise UsageError(
            f"a card has room for {_MOST_MODELS} models, not {len(models)}.", field="MODEL", remedy="Name fewer."
        )
    if measure and files:
        raise UsageError("does not go with --from.", field="measure", remedy="Measure on the machine itself.")


@contextmanager
def _answering(server: str | None, token: str | None) -> Iterator[Client | None]:
    """Give a client of the service; None where none was named and none can be had in this installation."""
    from assay.cli.connection import reading

    with ExitStack() as stack:
        client = None
        try:
            client = stack.enter_context(reading(server, token))
        except (Unavailable, ModuleNotFoundError):
            if server:
                raise
        yield client


def _made(
    named: Sequence[str],
    files: Sequence[Path],
    hardware: str | None,
    client: Client | None,
    measuring: tuple[list[str] | None, float, str | None, str | None] | None,
) -> Card:
    """Gather what is known of the machine, measure what is missing where that is asked for, and return the card."""
    from presentation.card.evidence import events_evidence, service_evidence
    from presentation.card.gathering import chosen_models, gather

    events = list(_events_of(files) if files else _own_events())
    machine = _machine(events if files else [], files, hardware)
    rows = chosen_models(named)
    known = events_evidence(events, machine)
    if client is not None and not files:
        known = service_evidence(client, machine, [model.id for models in rows for model in models]).beside(known)
    if measuring is not None:
        known = events_evidence(_measured(machine, rows, known, *measuring), machine).beside(known)
    return gather(machine, rows, known, client, datetime.now(UTC))


def _machine(events: Iterable[Event], files: Sequence[Path], hardware: str | None) -> Machine:
    from presentation.card.evidence import machine_of

    if files:
        described = [event["data"] for event in events if event["type"] == HARDWARE_DESCRIBED]
    else:
        from runner.machine.detect import describe, detect

        with notes().status("looking at this machine"):
            described = describe(detect(browsers=False))
    machine = machine_of(described, hardware)
    if machine is not None:
        return machine
    ids = list(dict.fromkeys(item["hardware"]["id"] for item in described))
    if not ids:
        raise UsageError("describes no machine.", field="from", remedy="Name a file that `assay bench --out` wrote.")
    raise UsageError(f"{hardware} is not here.", field="hardware", remedy=f"Here are {', '.join(ids)}.")


class _Typed(msgspec.Struct):
    """An event's type; its other members are passed over."""

    type: str


def _events_of(files: Sequence[Path]) -> Iterator[Event]:
    """Yield the events of files that a card reads; raises UsageError for a line that is no event."""
    from domain.events import decode_event
    from runner.spool.event_file import read_lines

    for path in files:
        for number, line in enumerate(read_lines(path, whole_only=True), 1):
            try:
                if msgspec.json.decode(line, type=_Typed).type in _TYPES:
                    decode_event(line)
                    yield msgspec.json.decode(line)
            except (AssayError, msgspec.DecodeError) as error:
                raise UsageError(
                    f"line {number} of {path} is no event: {error}.",
                    field="from",
                    remedy="Name a file that `assay bench --out` wrote.",
                ) from error


def _own_events() -> Iterator[Event]:
    """Yield what this machine measured and no service has yet: the spool, and a calibration that was interrupted."""
    from assay.home import find_home
    from runner.spool.spool import Spool

    home = find_home()
    if home.spool.exists():
        with Spool(home.spool) as spool:
            yield from spool.waiting_events(_TYPES)
    if home.calibration.exists():
        yield from _events_of([home.calibration])


def _measured(
    machine: Machine,
    rows: Sequence[tuple[CardModel, ...]],
    known: Evidence,
    platforms: Sequence[str] | None,
    budget_s: float,
    server: str | None,
    token: str | None,
) -> list[Event]:
    """Measure models and kernels that are missing, into the spool and the service; return the events."""
    from assay.cli.measure.calibrating import CONFIGURATIONS
    from presentation.card.gathering import is_measured
    from runner.calibration.plan import DEFAULT_BUDGET_S
    from runner.campaign.plan import make_plan
    from runner.campaign.rehearsal import steady_bound_s
    from runner.measure.stopping import Method

    missing = [models[0] for models in rows if not is_measured(models, known)]
    calibrates = not known.kernels
    if not missing and not calibrates:
        say("everything on this card is measured already")
        return []
    sweeps = _sweeps(machine, missing or [models[0] for models in rows], platforms)
    plan = make_plan(*sweeps, method=Method(budget_s=budget_s))
    cases = len(plan.cases) if missing else 0
    count = len({sweep.platforms for sweep in sweeps})
    kernels_s = count * min(DEFAULT_BUDGET_S, CONFIGURATIONS * budget_s) if calibrates else 0.0
    minutes = math.ceil(((steady_bound_s(plan, cases) or 0.0) + kernels_s) / 60)
    what = [f"{len(missing)} model{'' if len(missing) == 1 else 's'} in {cases} configurations"] if missing else []
    what += [f"kernels on {count} platform{'' if count == 1 else 's'}"] if calibrates else []
    say(f"measuring {' and '.join(what)}: at most {minutes} min, and as long as loading and converting take")
    say("what is measured is kept when this is interrupted; the same command goes on")
    return _run(plan if missing else None, plan if calibrates else None, server, token)


def _run(benchmark: Plan | None, calibration: Plan | None, server: str | None, token: str | None) -> list[Event]:
    """Measure models by one plan and kernels by the platforms of the other; return the events."""
    from assay.cli.measure.calibrating import calibrate_plan
    from assay.cli.measure.destination import both, destination
    from assay.cli.measure.run_output import progress
    from assay.home import find_home
    from runner.campaign.bench import run_plan

    events: list[Event] = []
    complete = False
    try:
        with destination(None, False, server, token) as deliver:
            keep = both(events.append, deliver)
            if benchmark is not None:
                with progress() as show:
                    run_plan(benchmark, keep, show, cache=find_home().cache)
            if calibration is not None:
                calibrate_plan(calibration, None, keep)
            complete = True
    except (Unavailable, ModuleNotFoundError) as error:
        if not complete:
            raise
        say(f"what was measured waits in the spool: {escape(str(error))}")
    return events


def _sweeps(machine: Machine, models: Sequence[CardModel], platforms: Sequence[str] | None) -> list[Any]:
    """Return what is measured of each model: platforms of the device, in fp32 and in 16 bits where they have them."""
    from runner.campaign.plan import Sweep
    from runner.platforms.registry import names

    sweeps = []
    for platform, precisions in machine.spec.platforms.items():
        if platform not in names() or platform in _IN_BROWSERS or platform not in (platforms or [platform]):
            continue
        half = next((name for name in ("bf16", "fp16") if name in precisions), None)
        for model in models:
            sizes = {} if model.sizes is None else model.sizes.stated()
            lists: dict[str, Any] = {_PLURALS[name]: (value,) for name, value in sizes.items() if name in _PLURALS}
            chosen = ("fp32",) if half is None else ("fp32", half)
            sweeps.append(Sweep(models=(model.id,), platforms=(platform,), precisions=chosen, **lists))
    if not sweeps:
        raise Unavailable(
            f"no {'platform' if platforms is None else ' or '.join(platforms)} here can measure on {machine.name}.",
            field="measure" if platforms is None else "platform",
            remedy="`assay detect` says why; pip install 'assay-bench[runner]' brings torch and OpenVINO.",
        )
    return sweeps


_PLURALS = {
    "sequence_length": "sequence_lengths",
    "image_size": "image_sizes",
    "images": "images",
    "audio_seconds": "audio_seconds",
    "frames": "frames",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
}


def _write(card: Card, out: Path | None, light: bool | None, *, force: bool) -> None:
    from assay.staging import Staged, require_place
    from presentation.card import page, picture

    path = out or Path(_DEFAULT)
    replaces = path.is_file() and _is_card(path)
    if out is None:
        require_place(path, force=force or replaces, field="out", remedy="Name another with --out, or add --force.")
    theme: Theme | None = None if light is None else "light" if light else "dark"
    form = path.suffix.lower()
    if form == ".html":
        body = page.as_html(card, theme).encode()
    elif form == ".png":
        body = picture.png(card, theme or "light")
    else:
        body = picture.svg(card, theme or "light").encode()
    with Staged(force=force or replaces) as staged:
        staged.file(path).write_bytes(body)
    say(f"wrote {escape(str(path))} ({len(body) / 1000:.0f} kB)")


def _show(card: Card) -> None:
    """Print the card as a table."""
    from presentation import formatting
    from presentation.answer_words import short_name
    from presentation.card.content import call_words, headline, software_words

    rows, peers = card.rows, card.peers[:2]
    figures = [row.own for row in rows]
    columns = [
        ("model", "fixed", [row.model.label for row in rows]),
        ("one call", "fixed", [call_words(row.model.sizes) for row in rows]),
        ("this machine", "right", [headline(row.model.sizes, row.own).text for row in rows]),
        ("rests on", "fixed", ["not measured" if figure is None else _basis(figure) for figure in figures]),
        ("software", "fixed", ["" if figure is None else software_words(figure) for figure in figures]),
    ]
    for place, peer in enumerate(peers):
        others = [headline(row.model.sizes, row.peers[place]) for row in rows]
        columns.append((short_name(peer.id), "right", [f"{each.value} {each.short_unit}".rstrip() for each in others]))
    answers().print(fitted(card.title, columns, [head for head, _, _ in reversed(columns[5:])] + ["one call"]))
    for note in card.notes:
        say(escape(formatting.plain(f"{note}.")))


def _basis(figure: CardFigure) -> str:
    from presentation.card.content import BASIS_WORDS

    return "suspect" if figure.verdict == "suspect" else BASIS_WORDS.get(figure.basis, figure.basis)
