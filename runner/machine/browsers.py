"""Browsers on this machine, and what a page in one of them can really compute with."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from domain.operating_system import user_id
from runner.machine.probes import Probe, ProbedDevice

__all__ = ["Browser", "find_browsers", "probe_browser"]

_COMMANDS = ("google-chrome", "google-chrome-stable", "microsoft-edge", "chromium", "chromium-browser", "firefox")
_MACOS = (
    ("google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
    ("microsoft-edge", "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge"),
    ("chromium", "/Applications/Chromium.app/Contents/MacOS/Chromium"),
    ("firefox", "/Applications/Firefox.app/Contents/MacOS/firefox"),
)
_WINDOWS = (
    ("google-chrome", "Google/Chrome/Application/chrome.exe"),
    ("microsoft-edge", "Microsoft/Edge/Application/msedge.exe"),
    ("firefox", "Mozilla Firefox/firefox.exe"),
)
_PROGRAM_FOLDERS = ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA")
_TIMEOUT_S = 20
_SOFTWARE = re.compile("swiftshader|llvmpipe|lavapipe|basic render|cpu", re.IGNORECASE)
"""Adapters that are the CPU in a GPU's clothes."""

_PAGE = """<!doctype html><body></body><script>
(async () => {
  const seen = { agent: navigator.userAgent };
  const add = [0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,1,127,3,2,1,0,7,7,1,3,97,100,100,0,0,
    10,9,1,7,0,32,0,32,1,106,11];
  try { seen.wasm = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array(add))).exports.add(2, 3); }
  catch (error) { seen.wasm = String(error); }
  try {
    const adapter = navigator.gpu ? await navigator.gpu.requestAdapter() : undefined;
    const info = adapter && adapter.info;
    seen.webgpu = adapter ? [info.vendor, info.architecture, info.device, info.description].filter(Boolean).join(" ")
      : (navigator.gpu ? "no adapter" : "no navigator.gpu");
    seen.adapter = Boolean(adapter);
  } catch (error) { seen.webgpu = String(error); seen.adapter = false; }
  try {
    seen.webnn = Boolean(navigator.ml && await navigator.ml.createContext());
    if (!seen.webnn) seen.webnnReason = "no navigator.ml";
  } catch (error) { seen.webnn = false; seen.webnnReason = String(error); }
  document.body.textContent = "ASSAY" + JSON.stringify(seen) + "ASSAY";
})();
</script>"""


class Browser(msgspec.Struct, frozen=True, kw_only=True):
    """An installed browser; `path` is private to this machine and goes into no event."""

    name: str
    path: str


def find_browsers() -> list[Browser]:
    """Return the installed browsers, the one to use first, each program once."""
    browsers = [Browser(name=name, path=path) for name in _COMMANDS if (path := shutil.which(name))]
    if sys.platform == "darwin":
        browsers += [Browser(name=name, path=path) for name, path in _MACOS if Path(path).is_file()]
    if sys.platform == "win32":
        roots = [Path(root) for name in _PROGRAM_FOLDERS if (root := os.environ.get(name))]
        places = [(name, root / path) for name, path in _WINDOWS for root in roots]
        browsers += [Browser(name=name, path=str(path)) for name, path in places if path.is_file()]
    unique = {str(Path(browser.path).resolve()): browser for browser in reversed(browsers)}
    return list(reversed(unique.values()))


def probe_browser() -> list[Probe]:
    """Open a page in the first Chromium-like browser and return what wasm, webgpu and webnn did there."""
    browsers = [browser for browser in find_browsers() if browser.name != "firefox"]
    if not browsers:
        names = ", ".join(browser.name for browser in find_browsers())
        reason = f"only {names} was found, which this probe does not drive" if names else "no browser was found"
        return [Probe(platform=platform, available=False, reason=reason) for platform in ("wasm", "webgpu", "webnn")]
    return _judge(browsers[0], _look(browsers[0]))


def _look(browser: Browser) -> dict[str, object]:
    """What the page saw, or `{"broke": why}`."""
    with tempfile.TemporaryDirectory(prefix="assay-browser-", ignore_cleanup_errors=True) as folder:
        page = Path(folder, "probe.html")
        page.write_text(_PAGE, encoding="utf-8")
        command = [browser.path, "--headless", "--no-first-run", f"--user-data-dir={folder}/profile"]
        command += ["--enable-unsafe-webgpu", "--virtual-time-budget=3000", "--dump-dom", page.as_uri()]
        if user_id() == 0:
            command.insert(1, "--no-sandbox")  # Chromium refuses to start as root with its sandbox
        try:
            done = subprocess.run(
                command, capture_output=True, encoding="utf-8", errors="replace", timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return {"broke": f"{browser.name} did not answer in {_TIMEOUT_S} s"}
        except OSError as error:
            return {"broke": f"{browser.name} did not start: {error.strerror}"}
    written = re.search(r"<body>ASSAY(\{.*\})ASSAY", done.stdout)
    if written:
        with contextlib.suppress(json.JSONDecodeError):
            return dict(json.loads(written.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")))
    return {"broke": f"{browser.name} ended with {done.returncode} and rendered no answer"}


def _judge(browser: Browser, seen: dict[str, object]) -> list[Probe]:
    if "broke" in seen:
        broke = str(seen["broke"])
        return [Probe(platform=platform, available=False, reason=broke) for platform in ("wasm", "webgpu", "webnn")]
    version = re.search(r"(?:Chrome|Edg)/([\d.]+)", str(seen.get("agent", "")))
    runtime: dict[str, str | None] = {"name": browser.name, "version": version.group(1) if version else None}

    def probe(platform: str, worked: bool, evidence: str, reason: str, *, on_gpu: bool = False) -> Probe:
        kind = "browser_gpu" if on_gpu else "browser"
        return Probe(
            platform=platform,
            available=worked,
            devices=(ProbedDevice(address=browser.name, name=platform, kind=kind),) if worked else (),
            evidence=f"{browser.name}: {evidence}" if worked else None,
            reason=None if worked else f"{browser.name}: {reason}",
            runtime=runtime,
        )

    wasm, webgpu = seen.get("wasm"), str(seen.get("webgpu"))
    return [
        probe("wasm", wasm == 5, "a WebAssembly module added 2 and 3", f"WebAssembly gave {wasm}"),
        probe(
            "webgpu",
            bool(seen.get("adapter")),
            f"an adapter was given: {webgpu or 'unnamed'}",
            webgpu,
            on_gpu=not _SOFTWARE.search(webgpu),
        ),
        probe("webnn", bool(seen.get("webnn")), "a WebNN context was made", str(seen.get("webnnReason"))),
    ]
