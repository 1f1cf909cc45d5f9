"""`assay scaffold`: write a test file for each model from what the log has, and run such files with a report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import rich_click as click

from assay.cli.confirming import confirm, confirmed
from assay.cli.options import WORDS, as_json, served
from assay.cli.output import answers, grid, print_json, say
from assay.cli.scaffold.checking import check
from domain.errors import AssayError, UsageError

if TYPE_CHECKING:
    from assay.cli.scaffold.generated import Planned
    from assay.cli.scaffold.recorded import Recorded
    from assay.client import Client
    from runner.campaign.plan import Plan

__all__ = ["scaffold"]

State = Literal["written", "would write", "unchanged", "changed", "would change", "exists", "skipped"]
_SECONDS_A_CASE = 25
_LONG_S = 120
_OF_A_FOLDER = "local/"
"""Begins the ids of models that are folders of somebody's disk."""
_OF_THE_LOG = (
    "SELECT DISTINCT model_id FROM (SELECT model_id FROM measurements WHERE origin = 'measured' "
    "UNION ALL SELECT model_id FROM tests WHERE origin = 'measured') ORDER BY model_id"
)
WORKFLOWS = {
    "github": (
        Path(".github/workflows/assay-models.yml"),
        """\
# Tests of models, written by `assay scaffold test --ci github`.
name: model tests

on:
  push:
    branches: [main]
  pull_request:

permissions:
  contents: read

jobs:
  models:
    # Times are judged on the hardware that measured them: take a runner of your own for that.
    runs-on: ubuntu-latest
    timeout-minutes: 45
    steps:
      - uses: actions/checkout@v4
        with:
          persist-credentials: false
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: pip install "assay-bench[runner]" pytest
      - run: assay scaffold check {folder} --format markdown >> "$GITHUB_STEP_SUMMARY"
""",
    ),
    "gitlab": (
        Path(".gitlab/assay-models.yml"),
        """\
# Tests of models, written by `assay scaffold test --ci gitlab`. In .gitlab-ci.yml:
#   include: .gitlab/assay-models.yml
model tests:
  image: python:3.12
  stage: test
  timeout: 45 minutes
  # Times are judged on the hardware that measured them: name a runner of your own by its tag for that.
  script:
    - pip install --quiet "assay-bench[runner]" pytest
    - assay scaffold check {folder} --format markdown | tee assay-models.md
  artifacts:
    when: always
    paths: [assay-models.md]
""",
    ),
}


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one file; `left_out` are cases for which it has no room, `without_time` those without a certain time, `diff` what a refresh changes."""

    model: str
    file: str
    state: State
    cases: int = 0
    without_time: list[str] = []
    known_failures: int = 0
    left_out: list[str] = []
    reason: str = ""
    diff: str = ""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; `own` and `threads` are this machine's hardware and what a process may use of it."""

    models: tuple[str, ...]
    everything: bool
    matrix: bool
    platforms: list[str] | None
    folder: Path
    refresh: bool
    dry_run: bool
    yes: bool
    trust: bool
    server: str | None
    token: str | None
    own: str
    threads: int


@click.group(
    epilog="""\b
Examples:
  assay scaffold test bert-tiny
  assay scaffold check tests/models"""
)
def scaffold() -> None:
    """Keep what was measured as tests: one pytest file a model, for a team's own repository and CI.

    docs/model-tests.md shows a file and says what each check accepts.
    """


@scaffold.command(
    "test",
    epilog="""\b
Examples:
  assay scaffold test bert-tiny vit-tiny --out tests/models
  assay scaffold test ./my-checkpoint --platform cpu,openvino --yes
  assay scaffold test --all --ci github
  assay scaffold test --from-matrix --dry-run
  assay scaffold test bert-tiny --refresh
  assay scaffold test bert-tiny --events here.ndjson""",
)
@click.argument("models", nargs=-1, metavar="MODEL…")
@click.option("--all", "everything", is_flag=True, help="Every model that the log has tests or measurements of.")
@click.option(
    "--from-matrix",
    "matrix",
    is_flag=True,
    help="The cells of the compatibility matrix that passed, and those that failed as known failures (xfail).",
)
@click.option("--platform", "platforms", type=WORDS, help="These platforms only; what is measured first runs on cpu.")
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("tests/models"),
    show_default=True,
    metavar="DIR",
    help="The folder of the files; it is made.",
)
@click.option("--ci", type=click.Choice([*WORKFLOWS]), help="Write a workflow that runs the files as well.")
@click.option("--refresh", is_flag=True, help="Renew files that exist: show the diff, and ask.")
@click.option("--dry-run", is_flag=True, help="Write and measure nothing; say what would be.")
@click.option(
    "--events",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Events that `assay bench --out` wrote, in place of the log.",
)
@click.option("--trust-remote-code", "trust", is_flag=True, help="Run code that comes with a checkpoint.")
@confirmed
@served
@as_json
def test(
    models: tuple[str, ...],
    everything: bool,
    matrix: bool,
    platforms: list[str] | None,
    folder: Path,
    ci: str | None,
    refresh: bool,
    dry_run: bool,
    events: Path | None,
    trust: bool,
    yes: bool,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Write one pytest file a model, with what the log has as expectations: what ran, what it gave, how fast.

    A model of which nothing is known is measured first. Files that exist are left alone; --refresh renews the lines
    between their marks and nothing else. Exit code 1 where a file could not be written or was left alone.
    """
    from runner.machine.detect import own_hardware
    from runner.machine.processor import threads_allowed

    if not (models or everything or matrix):
        raise UsageError("no model is named.", field="MODEL", remedy="Name models, or give --all or --from-matrix.")
    request = Request(
        models=models,
        everything=everything or (matrix and not models),
        matrix=matrix,
        platforms=platforms,
        folder=folder,
        refresh=refresh,
        dry_run=dry_run,
        yes=yes,
        trust=trust,
        server=server,
        token=token,
        own=own_hardware().id,
        threads=threads_allowed(),
    )
    planned, skipped = _of_file(request, events) if events else _of_log(request)
    entries = [*_write(request, planned), *skipped]
    if ci:
        entries.append(_workflow(request, ci))
    if as_json:
        print_json(entries)
    else:
        _tell(entries, request)
    return 1 if any(entry.state in ("exists", "skipped") for entry in entries) else 0


scaffold.add_command(check)


def _of_file(request: Request, path: Path) -> tuple[list[Planned], list[Entry]]:
    """Return the files to write from a file of events; what it lacks is skipped, with the command that measures it."""
    from assay.cli.scaffold.recorded import from_events, ids_in, read_events

    events = read_events(path)
    names = _named(request, ids_in(events))
    planned, skipped = [], []
    for name, model in names.items():
        recorded = from_events(model, events, request.own, platforms=request.platforms, failures=request.matrix)
        if recorded.cells or recorded.failures:
            planned.append(_planned(request, name, recorded, None))
        else:
            skipped.append(_nothing(name, f"{path} has nothing of it; `assay bench {name} --out FILE` measures it"))
    return planned, [*skipped, *_unnamed(request, ids_in(events))]


def _of_log(request: Request) -> tuple[list[Planned], list[Entry]]:
    """Return the files to write from the log; models of which it has nothing are measured first."""
    from assay.cli.connection import reading
    from assay.cli.scaffold.recorded import from_client

    planned, missing, ids = [], [], []
    with reading(request.server, request.token) as client:
        if request.everything:
            ids = [str(row[0]) for row in client.query(_OF_THE_LOG)["rows"]]
        names = _named(request, ids)
        for name, model in names.items():
            recorded = from_client(client, model, request.own, platforms=request.platforms, matrix=request.matrix)
            if recorded.cells or recorded.failures:
                planned.append(_planned(request, name, recorded, client))
            else:
                missing.append(name)
    measured, skipped = _measured_first(request, missing)
    return [*planned, *measured], [*skipped, *_unnamed(request, ids)]


def _named(request: Request, ids: Sequence[str]) -> dict[str, str]:
    """Return what the files call their models, each with its id: as typed, and all `ids` where everything is asked for."""
    from domain.catalogues.models import find
    from runner.models.sources import resolve

    names: dict[str, str] = {}
    for typed in request.models:
        entry = find(typed)
        if entry is not None and not Path(typed).is_dir():
            names[entry.id] = entry.id
        else:
            names[typed] = resolve(typed, trust_remote_code=request.trust).id
    for identity in ids if request.everything else ():
        if identity not in names.values() and not identity.startswith(_OF_A_FOLDER):
            names[identity] = identity
    return names


def _unnamed(request: Request, ids: Sequence[str]) -> list[Entry]:
    """Return an entry for each folder's model that only its path can name."""
    if not request.everything:
        return []
    named = set(_named(request, ids).values())
    reason = "it is a folder on somebody's disk: name its path"
    return [_nothing(each, reason) for each in ids if each.startswith(_OF_A_FOLDER) and each not in named]


def _nothing(name: str, reason: str) -> Entry:
    return Entry(model=name, file="", state="skipped", reason=reason)


def _planned(request: Request, name: str, recorded: Recorded, client: Client | None) -> Planned:
    """Return what the file of one model holds."""
    from assay.cli.scaffold.generated import fitting
    from assay.cli.scaffold.recorded import case_of, expected_of

    how: dict[str, Any] = {"own": request.own, "threads": request.threads, "trust": request.trust}
    fetch = client.event if client else None
    # A file has room for a few: further events are not fetched.
    expected = [expected_of(cell, name, fetch, **how) for cell in recorded.cells[:_MOST_CASES]]
    failures = [(case_of(each.data, name, **how), each) for each in recorded.failures[:_MOST_CASES]]
    planned = fitting(name, expected, failures)
    further = len(recorded.cells[_MOST_CASES:]) + len(recorded.failures[_MOST_CASES:])
    left_out = [*planned.left_out, *([f"{further} more"] if further else [])]
    return msgspec.structs.replace(planned, left_out=left_out)


_MOST_CASES = 8


def _measured_first(request: Request, missing: Sequence[str]) -> tuple[list[Planned], list[Entry]]:
    """Verify and measure models of which the log has nothing, and return their files, and those that did not run."""
    from assay.cli.scaffold.recorded import from_events
    from runner.campaign.plan import Sweep, make_plan
    from runner.models.sources import resolve

    if not missing:
        return [], []
    platforms = tuple(request.platforms or ("cpu",))
    if request.dry_run:
        reason = f"nothing is known of it: it would be measured on {', '.join(platforms)}"
        return [], [
            Entry(model=name, file=_place(request, name), state="would write", reason=reason) for name in missing
        ]
    plans, skipped = {}, []
    for name in missing:
        try:
            plans[name] = make_plan(Sweep(models=(name,), platforms=platforms), trust_remote_code=request.trust)
        except AssayError as error:
            if name in request.models:
                raise
            # Somebody posted it to the log; that it cannot be loaded here concerns no other model.
            skipped.append(_nothing(name, error.detail))
    missing = list(plans)
    if not missing:
        return [], skipped
    seconds = _SECONDS_A_CASE * len(missing) * len(platforms)
    what = (
        f"The log has nothing of {', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}: measuring {len(missing)} "
    )
    what += f"model{'s' * (len(missing) > 1)} on {', '.join(platforms)} takes about {max(1, round(seconds / 60))} min."
    if seconds > _LONG_S:
        confirm(what, yes=request.yes)
    say(what)
    events = _measured(request, plans)
    planned = []
    for name in missing:
        model = resolve(name, trust_remote_code=request.trust).id
        recorded = from_events(model, events, request.own, platforms=None, failures=request.matrix)
        if recorded.cells or recorded.failures:
            planned.append(_planned(request, name, recorded, None))
        else:
            skipped.append(_nothing(name, f"it did not run; `assay verify {name}` says why"))
    return planned, skipped


def _measured(request: Request, plans: dict[str, Plan]) -> list[dict[str, Any]]:
    """Return the events of verifying several models at once, and of measuring them one after the other."""
    from assay.cli.measure.destination import destination
    from assay.cli.measure.run_output import progress
    from runner.campaign.bench import run_plan
    from runner.campaign.campaign import survey_machine
    from runner.campaign.verify import run_verification

    kept: list[dict[str, Any]] = []
    turn = Lock()
    with destination(None, False, request.server, request.token) as deliver:

        def take(event: dict[str, Any]) -> None:
            with turn:
                kept.append(event)
                deliver(event)

        first = next(iter(plans.values()))
        survey_machine(first.platforms)
        with ThreadPoolExecutor(min(len(plans), os.cpu_count() or 1)) as pool:
            for done in [pool.submit(run_verification, plan, take) for plan in plans.values()]:
                done.result()
        for plan in plans.values():
            with progress() as show:
                run_plan(plan, take, show)
    return kept


def _place(request: Request, model: str) -> str:
    from assay.cli.scaffold.generated import file_name

    return (request.folder / file_name(model)).as_posix()


def _write(request: Request, planned: Sequence[Planned]) -> list[Entry]:
    """Write the files, all or none, and return what became of each; a refresh shows its diff and asks first."""
    from assay.cli.scaffold.generated import diff, new_text, refreshed

    entries: list[Entry] = []
    texts: dict[Path, str] = {}
    for each, path in zip(planned, _paths(request, planned), strict=True):
        text, state, changes = new_text(each), "written", ""
        if path.exists():
            text, state = "", "exists"
            if request.refresh:
                before = path.read_text(encoding="utf-8")
                text = refreshed(before, each, path)
                changes = diff(path, before, text)
                state = "changed" if changes else "unchanged"
        if state in ("written", "changed"):
            texts[path] = text
            state = {"written": "would write", "changed": "would change"}[state] if request.dry_run else state
        entries.append(
            Entry(
                model=each.model,
                file=path.as_posix(),
                state=state,  # type: ignore[arg-type]
                cases=len(each.expected),
                without_time=[str(expected) for expected in each.expected if expected.took is None],
                known_failures=len(each.failures),
                left_out=each.left_out,
                diff=changes,
                reason="--refresh shows what would change" if state == "exists" else "",
            )
        )
    if not request.dry_run:
        _agree(request, entries)
        _store(texts, force=request.refresh)
    return entries


def _paths(request: Request, planned: Sequence[Planned]) -> list[Path]:
    """Return the file of each model; where two have the same short name, the owner is part of it."""
    from assay.cli.scaffold.generated import file_name

    short = [file_name(each.model) for each in planned]
    names = [
        file_name(each.model.replace("/", "-")) if short.count(name) > 1 else name
        for each, name in zip(planned, short, strict=True)
    ]
    return [request.folder / name for name in names]


def _agree(request: Request, entries: Sequence[Entry]) -> None:
    changed = [entry for entry in entries if entry.state == "changed"]
    if not changed:
        return
    if not request.yes:
        for entry in changed:
            click.echo(entry.diff, err=True, nl=False)
    confirm(f"{len(changed)} file{'s' * (len(changed) > 1)} change as shown.", yes=request.yes)


def _store(texts: dict[Path, str], *, force: bool) -> None:
    from assay.staging import Staged

    with Staged(force=force) as staged:
        for path, text in texts.items():
            staged.file(path).write_text(text, encoding="utf-8", newline="\n")


def _workflow(request: Request, ci: str) -> Entry:
    """Write the workflow of a CI system, where none is there yet."""
    path, template = WORKFLOWS[ci]
    text = template.format(folder=request.folder.as_posix())
    entry = Entry(model="", file=path.as_posix(), state="written")
    if path.exists():
        same = path.read_text(encoding="utf-8") == text
        reason = "" if same else "it differs from what would be written: move it away to have it anew"
        return msgspec.structs.replace(entry, state="unchanged" if same else "exists", reason=reason)
    if request.dry_run:
        return msgspec.structs.replace(entry, state="would write")
    _store({path: text}, force=False)
    return entry


def _tell(entries: Sequence[Entry], request: Request) -> None:
    rows = [[entry.file or entry.model, entry.state, str(entry.cases or ""), _remark(entry)] for entry in entries]
    answers().print(grid(None, ["file", ("state", "fixed"), ("cases", "right"), "remark"], rows))
    if request.refresh and (request.dry_run or request.yes):
        for entry in entries:
            click.echo(entry.diff, nl=False)
    if any(entry.state == "written" for entry in entries):
        say(f"run them with `assay scaffold check {request.folder}`, or with pytest")


def _remark(entry: Entry) -> str:
    words = [entry.reason] if entry.reason else []
    words += [f"no certain time of {', '.join(entry.without_time)}: assay bench"] if entry.without_time else []
    words += [f"{entry.known_failures} known to fail"] if entry.known_failures else []
    words += [f"no room for {', '.join(entry.left_out)}"] if entry.left_out else []
    return "; ".join(words)
