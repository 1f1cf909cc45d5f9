"""What a page in each browser of this machine can really compute with, seen by opening one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from domain.errors import AssayError, PartMissing
from runner.browser.facts import Ability, Backend, backends_of
from runner.browser.locations import (
    ENGINES,
    ONNXRUNTIME_WEB,
    BrowserProgram,
    Engine,
    chromium_fits,
    find_browsers,
    how_to_get,
    onnxruntime_web,
)
from runner.browser.page import opened
from runner.machine.probes import Probe, ProbedDevice
from runner.machine.scrub import scrub

__all__ = ["BrowserReport", "Limits", "Report", "check", "look", "probe_browser"]

_BACKENDS: tuple[Backend, ...] = ("wasm", "webgpu", "webnn")
DEADLINE_S = 30.0
"""How long a page may take to answer, after its browser has started."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The largest pieces of memory that a page was given, to 64 MiB; 16 GiB is the most that was asked for."""

    array_buffer_bytes: int
    """A file of a model lies in one of these."""
    wasm_memory_bytes: int
    """The weights and the activations of the wasm backend lie in one of these together."""


class BrowserReport(msgspec.Struct, frozen=True, kw_only=True):
    """A browser and what a page in it could do; `reason` says why there was no page, `remedy` what helps."""

    name: str
    engine: Engine
    path: str | None = None
    version: str | None = None
    works: bool = False
    isolated: bool | None = None
    threads: int | None = None
    clock_step_us: float | None = None
    limits: Limits | None = None
    flags: tuple[str, ...] = ()
    backends: tuple[Ability, ...] = ()
    reason: str | None = None
    remedy: str | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All browsers of this machine, those that are missing, and the runtime that pages load."""

    onnxruntime_web: str | None
    """Its version; None where it is not installed."""
    browsers: tuple[BrowserReport, ...]
    remedies: tuple[str, ...] = ()


def check(*, folder: Path | None = None, on_browser: Callable[[str], None] | None = None) -> Report:
    """Open a page in each browser of this machine, one after the other, and report what it could do."""
    programs = find_browsers(folder)
    reports, remedies = [], list[str]()
    for program in programs:
        if on_browser:
            on_browser(program.name)
        reports.append(look(program))
    reports += [
        BrowserReport(name=engine, engine=engine, reason="not found", remedy=how_to_get(engine))
        for engine in ENGINES
        if all(program.engine != engine for program in programs)
    ]
    if chromium_fits() and not any(program.installed for program in programs):
        remedies.append("assay browser install (a Chromium with WebNN)")
    remedies += [report.remedy for report in reports if report.remedy]
    version: str | None = ONNXRUNTIME_WEB
    try:
        onnxruntime_web(folder)
    except PartMissing as missing:
        version = None
        remedies.append(missing.remedy or "")
    return Report(onnxruntime_web=version, browsers=tuple(reports), remedies=tuple(dict.fromkeys(remedies)))


def look(program: BrowserProgram, *, flags: Sequence[str] = (), deadline_s: float = DEADLINE_S) -> BrowserReport:
    """Open a page in a browser and report what it could do; never raises for what the browser does."""
    known: dict[str, Any] = {"name": program.name, "engine": program.engine, "path": program.path}
    try:
        with opened(program, flags=flags, deadline_s=deadline_s) as page:
            backends = backends_of(page.environment)
            limits = next(each["limits"] for each in page.do("limits", deadline_s=deadline_s) if "limits" in each)
            return BrowserReport(
                **known,
                version=page.running.version,
                flags=page.running.flags,
                works=backends["wasm"].available,
                isolated=page.environment["isolated"],
                threads=page.environment["hardware_concurrency"],
                clock_step_us=page.environment["clock_step_ms"] * 1000,
                limits=msgspec.convert(limits, Limits),
                backends=tuple(backends.values()),
            )
    except AssayError as error:
        return BrowserReport(**known, reason=scrub(error.detail), remedy=error.remedy)


def probe_browser() -> list[Probe]:
    """Return what became of wasm, webgpu and webnn, each in the first browser that has it, as `assay bench` chooses."""
    programs = find_browsers()
    reports = [look(program) for program in programs[:1]]
    if any(_first(reports, backend) is None for backend in _BACKENDS):
        with ThreadPoolExecutor(max(1, len(programs))) as pool:
            reports += pool.map(look, programs[1:])
    return [_probe(reports, backend) for backend in _BACKENDS]


def _first(reports: Sequence[BrowserReport], backend: Backend) -> tuple[BrowserReport, Ability] | None:
    """Return the first browser that has a backend."""
    pairs = ((report, ability) for report in reports for ability in report.backends)
    return next(((report, it) for report, it in pairs if it.backend == backend and it.available), None)


def _probe(reports: Sequence[BrowserReport], backend: Backend) -> Probe:
    pair = _first(reports, backend)
    if pair is None:
        return Probe(platform=backend, available=False, reason=_absence(reports, backend))
    report, ability = pair
    kind = "browser_gpu" if ability.software is False else "browser"
    return Probe(
        platform=backend,
        available=True,
        devices=(ProbedDevice(address=report.name, name=backend, kind=kind),),
        evidence=f"{report.name}: {ability.evidence}",
        runtime={"name": report.name, "version": report.version},
    )


def _absence(reports: Sequence[BrowserReport], backend: Backend) -> str:
    """Say of each browser why it has no such backend."""
    reasons = []
    for report in reports:
        reason = next((ability.reason for ability in report.backends if ability.backend == backend), report.reason)
        reasons.append(f"{report.name}: {reason}")
    return "; ".join(reasons) or f"no browser was found: {how_to_get('chromium')}"
