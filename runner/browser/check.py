"""What a page in each browser of this machine can really compute with, seen by opening one."""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import msgspec

from domain.errors import AssayError, PartMissing
from runner.browser.drivers import driver_for
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
from runner.machine.probes import Probe, ProbedDevice
from runner.machine.scrub import scrub

__all__ = ["Ability", "BrowserReport", "Report", "check", "look", "probe_browser"]

Backend = Literal["wasm", "webgpu", "webnn"]
_BACKENDS: tuple[Backend, ...] = ("wasm", "webgpu", "webnn")
DEADLINE_S = 30.0
"""How long a page may take to answer, after its browser has started."""
_LOOK_S = 0.5
_PAGE = b"""<!doctype html><meta charset="utf-8"><title>Assay checks this browser</title>
<link rel="icon" href="data:,"><script>
const send = (seen) => fetch("said" + location.search, { method: "POST", body: JSON.stringify(seen) });
const worker = new Worker("worker.mjs", { type: "module" });
worker.onmessage = ({ data }) => send(data);
worker.onerror = (event) => send({ broke: event.message || "the worker did not start" });
</script>"""
_WORKER = b"""
const clockStep = () => {
  let step = Infinity;
  for (let last = performance.now(), end = last + 60; last < end;) {
    const now = performance.now();
    if (now > last) { step = Math.min(step, now - last); last = now; }
  }
  return step * 1000;
};
const wasm = () => {
  const add = [0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,1,127,3,2,1,0,7,7,1,3,97,100,100,0,0,
    10,9,1,7,0,32,0,32,1,106,11];
  const simd = [0,97,115,109,1,0,0,0,1,5,1,96,0,1,123,3,2,1,0,10,10,1,8,0,65,0,253,15,253,98,11];
  const threads = () => {
    try {
      return new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer instanceof SharedArrayBuffer;
    } catch { return false; }
  };
  try {
    const sum = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array(add))).exports.add(2, 3);
    return { sum, simd: WebAssembly.validate(new Uint8Array(simd)), threads: threads() };
  } catch (error) { return { reason: String(error) }; }
};
const webgpu = async () => {
  if (!navigator.gpu) return { reason: "no navigator.gpu" };
  try {
    const adapter = await navigator.gpu.requestAdapter();
    if (!adapter) return { reason: "no adapter" };
    const info = adapter.info ?? {};
    const device = await adapter.requestDevice();
    device.destroy();
    return { name: [info.vendor, info.architecture, info.device, info.description].filter(Boolean).join(" "),
      fallback: info.isFallbackAdapter ?? adapter.isFallbackAdapter ?? null, fp16: adapter.features.has("shader-f16") };
  } catch (error) { return { reason: String(error) }; }
};
const webnn = async () => {
  if (!navigator.ml) return { reason: "no navigator.ml" };
  const granted = [];
  let reason = null;
  for (const deviceType of ["cpu", "gpu", "npu"]) {
    try { await navigator.ml.createContext({ deviceType }); granted.push(deviceType); }
    catch (error) { reason ??= String(error); }
  }
  return { granted, reason };
};
const step = clockStep();
postMessage({ agent: navigator.userAgent, isolated: crossOriginIsolated, threads: navigator.hardwareConcurrency,
  clock_step_us: Number.isFinite(step) ? step : null, wasm: wasm(), webgpu: await webgpu(), webnn: await webnn() });
"""
_SOFTWARE = ("swiftshader", "llvmpipe", "lavapipe", "basic render", "cpu")
"""Words in the names of adapters that are the processor."""


class Ability(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a page could use a backend: `evidence` says what it did, or `reason` why it did nothing."""

    backend: Backend
    available: bool
    evidence: str | None = None
    reason: str | None = None
    features: tuple[str, ...] = ()
    """What the backend has: SIMD and threads, fp16, or the WebNN devices that were granted."""
    adapter: str | None = None
    software: bool | None = None
    """WebGPU only: the adapter is the processor in place of a GPU."""


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
        with _page() as (url, said), driver_for(program, flags=flags).open(url) as running:
            known |= {"version": running.version, "flags": running.flags}
            end = monotonic() + deadline_s
            while (seen := _next(said)) is None:
                fault = running.fault() or ("its page did not answer in time" if monotonic() > end else None)
                if fault:
                    return BrowserReport(
                        **known, reason=fault, remedy="Try it again; if it stays so, take another browser."
                    )
    except AssayError as error:
        return BrowserReport(**known, reason=scrub(error.detail), remedy=error.remedy)
    return _report(known, seen)


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


def _report(known: dict[str, Any], seen: dict[str, Any]) -> BrowserReport:
    """Return the report of a page that answered."""
    if "broke" in seen:
        return BrowserReport(**known, reason=f"the page failed: {seen['broke']}")
    backends = (_wasm(seen["wasm"]), _webgpu(seen["webgpu"]), _webnn(seen["webnn"]))
    return BrowserReport(
        **known,
        works=backends[0].available,
        isolated=seen["isolated"],
        threads=seen["threads"],
        clock_step_us=seen["clock_step_us"],
        backends=backends,
    )


def _wasm(seen: dict[str, Any]) -> Ability:
    if seen.get("sum") != 5:
        return Ability(backend="wasm", available=False, reason=seen.get("reason") or f"2 and 3 gave {seen.get('sum')}")
    features = tuple(word for word, there in (("SIMD", seen["simd"]), ("threads", seen["threads"])) if there)
    evidence = f"a WebAssembly module added 2 and 3, with {' and '.join(features) or 'neither SIMD nor threads'}"
    return Ability(backend="wasm", available=True, evidence=evidence, features=features)


def _webgpu(seen: dict[str, Any]) -> Ability:
    if "name" not in seen:
        return Ability(backend="webgpu", available=False, reason=str(seen.get("reason")))
    name = seen["name"] or "unnamed"
    software = bool(seen["fallback"]) or any(word in name.lower() for word in _SOFTWARE)
    features = ("fp16",) if seen["fp16"] else ()
    evidence = f"an adapter gave a device: {name}{' (software)' if software else ''}"
    return Ability(
        backend="webgpu", available=True, evidence=evidence, features=features, adapter=name, software=software
    )


def _webnn(seen: dict[str, Any]) -> Ability:
    granted = seen.get("granted") or []
    if not granted:
        return Ability(backend="webnn", available=False, reason=str(seen.get("reason")))
    # A browser grants `gpu` and `npu` on machines that have neither.
    evidence = f"contexts were made for {', '.join(granted)}; which device works is not told"
    return Ability(backend="webnn", available=True, evidence=evidence, features=tuple(granted))


def _next(said: queue.SimpleQueue[dict[str, Any]]) -> dict[str, Any] | None:
    with suppress(queue.Empty):
        return said.get(timeout=_LOOK_S)
    return None


@contextmanager
def _page() -> Iterator[tuple[str, queue.SimpleQueue[dict[str, Any]]]]:
    """Serve the page on loopback, isolated, and pass on what it posts."""
    said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    key = secrets.token_urlsafe(24)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.partition("?")[0]
            content = {"/": (_PAGE, "text/html"), "/worker.mjs": (_WORKER, "text/javascript")}.get(name)
            self._answer(*((200, *content) if content else (404, b"", "text/plain")))

        def do_POST(self) -> None:
            body = self.rfile.read(min(int(self.headers.get("content-length") or 0), 1 << 16))
            if self.path == f"/said?key={key}":
                with suppress(msgspec.DecodeError):
                    said.put(msgspec.json.decode(body, type=dict[str, Any]))
            self._answer(200, b"", "text/plain")

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            headers = {
                "Content-Type": kind,
                "Content-Length": str(len(body)),
                "Cross-Origin-Opener-Policy": "same-origin",
            }
            headers |= {"Cross-Origin-Embedder-Policy": "require-corp", "Cross-Origin-Resource-Policy": "same-origin"}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/?key={key}", said
        finally:
            server.shutdown()
