"""Drivers are tried with the real browsers of this machine: each ends in time and leaves nothing."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import psutil
import pytest

from assay.cli import run
from domain.errors import PlatformUnavailable
from runner.browser.check import look, probe_browser
from runner.browser.drivers import base, driver_for
from runner.browser.drivers import chromium as chromium_driver
from runner.browser.locations import ENGINES, BrowserProgram, find_browsers, how_to_get

ROOT = Path(__file__).parents[3]
PAGES = {
    "/quiet": "<script>fetch('/up'); console.log('hello from the page')</script>",
    "/loop": "<script>fetch('/up'); setTimeout(() => { while (true); }, 100)</script>",
}
PAGE_PROCESS = {
    "chromium": lambda process: "--type=renderer" in process.cmdline(),
    "firefox": lambda process: process.cmdline()[-1:] == ["tab"],
    "webkit": lambda process: process.name().startswith("WebKitWebProces"),
}
PATIENCE_S = 20.0

pytestmark = [pytest.mark.browser, pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")]


def program(engine):
    programs = [each for each in find_browsers() if each.engine == engine]
    if not programs or (engine == "webkit" and shutil.which("Xvfb") is None):
        absent = f"{engine} is not here: {how_to_get(engine)}"
        if engine == "chromium" and os.environ.get("ASSAY_REQUIRE_BROWSER") == "1":
            pytest.fail(absent)
        pytest.skip(absent)
    return programs[0]


@pytest.fixture(params=ENGINES)
def browser(request):
    return program(request.param)


@pytest.fixture
def chromium():
    return program("chromium")


class Site:
    """A server of pages that says when a page is up."""

    def __init__(self):
        self.up = threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path == "/up":
                    site.up.set()
                body = PAGES.get(self.path, "").encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()


@pytest.fixture
def site():
    site = Site()
    yield site
    site.server.shutdown()
    site.server.server_close()


@contextmanager
def opened(browser, url, **options):
    running = driver_for(browser, **options).open(url)
    try:
        yield running
    finally:
        running.end()


def until(condition):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.02)
    return condition()


def processes_of(profile):
    """Living processes that inherited the profile's variable or name it."""
    return [each for each in base._family(Path(profile), []) if each.pid != os.getpid()]


def tree(pid):
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def alive(processes):
    return [each for each in processes if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


def assert_nothing_stays(running, processes):
    assert until(lambda: not alive(processes)), alive(processes)
    assert processes_of(running.profile) == []
    assert not running.profile.exists()


class TestRunning:
    def test_opens_page_and_ends_with_nothing_left(self, browser, site):
        with opened(browser, f"{site.url}/quiet") as running:
            assert site.up.wait(PATIENCE_S)
            processes = tree(running.pid)
            assert running.alive()
            assert running.fault() is None
            assert running.version.split(".")[0].isdigit()
            assert running.engine == {"chromium": "blink", "firefox": "gecko", "webkit": "webkit"}[browser.engine]
            assert running.flags
            if browser.engine != "webkit":
                assert until(lambda: any("hello from the page" in line for line in running.console()))
        assert not running.alive()
        assert_nothing_stays(running, processes)

    def test_page_that_never_rests_is_ended(self, browser, site):
        with opened(browser, f"{site.url}/loop") as running:
            assert site.up.wait(PATIENCE_S)
            page = next(each for each in tree(running.pid) if PAGE_PROCESS[browser.engine](each))
            assert until(lambda: any(busy(each) for each in tree(running.pid))), page
            processes = tree(running.pid)
            assert running.alive()
            began = time.monotonic()
            running.end()
            assert time.monotonic() - began < 10
        assert_nothing_stays(running, processes)

    def test_crash_of_the_page_is_told_while_the_browser_lives(self, browser, site):
        with opened(browser, f"{site.url}/quiet") as running:
            assert site.up.wait(PATIENCE_S)
            processes = tree(running.pid)
            for each in processes:
                if PAGE_PROCESS[browser.engine](each):
                    each.kill()
            assert until(running.fault) is not None
            assert "page crashed" in running.fault()
            assert not running.alive()
            assert alive(processes[:1])
        assert_nothing_stays(running, processes)

    def test_killed_browser_is_told_with_its_signal(self, browser, site):
        with opened(browser, f"{site.url}/quiet") as running:
            assert site.up.wait(PATIENCE_S)
            processes = tree(running.pid)
            os.kill(running.pid, signal.SIGKILL)
            assert until(running.fault) == "the browser was ended by signal 9"
        assert_nothing_stays(running, processes)

    def test_browser_ends_with_the_process_that_started_it(self, browser, site):
        code = (
            f"import sys, time; from {driver_for.__module__} import driver_for; "
            f"from {find_browsers.__module__} import find_browsers; "
            "program = next(each for each in find_browsers() if each.engine == sys.argv[1]); "
            "running = driver_for(program).open(sys.argv[2]); print(running.profile, flush=True); time.sleep(600)"
        )
        command = [sys.executable, "-c", code, browser.engine, f"{site.url}/loop"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
            profile = Path(owner.stdout.readline().strip())
            assert site.up.wait(PATIENCE_S)
            assert processes_of(profile)
            owner.kill()
        assert until(lambda: not profile.exists())
        assert until(lambda: not processes_of(profile))


def busy(process):
    try:
        return process.cpu_percent(interval=0.1) > 40
    except psutil.Error:
        return False


class TestStart:
    @pytest.mark.parametrize(
        ("engine", "script", "word"),
        [
            ("firefox", "exit 3", "exited with status 3"),
            ("chromium", "echo no display >&2; exit 1", "no display"),
            ("chromium", "sleep 600", "was not answered"),
            ("firefox", "sleep 600", "did not give an address"),
        ],
    )
    def test_program_that_is_no_browser_is_refused_and_leaves_nothing(
        self, tmp_path, monkeypatch, engine, script, word
    ):
        monkeypatch.setattr(base, "START_S", 1.0)
        fake = tmp_path / "browser"
        fake.write_text(f"#!/bin/sh\n{script}\n")
        fake.chmod(0o755)
        profiles = []
        monkeypatch.setattr(base.Profile, "environment", recording(base.Profile.environment, profiles))
        with pytest.raises(PlatformUnavailable, match=word) as refusal:
            driver_for(BrowserProgram(name="browser", engine=engine, path=str(fake))).open("about:blank")
        assert refusal.value.field == "browser"
        assert [path for path in profiles if path.exists()] == []
        assert [each for path in profiles for each in processes_of(path)] == []

    def test_program_that_cannot_be_started_is_refused(self, tmp_path):
        missing = BrowserProgram(name="gone", engine="chromium", path=str(tmp_path / "gone"))
        with pytest.raises(PlatformUnavailable, match="gone did not start"):
            driver_for(missing).open("about:blank")

    @pytest.mark.skipif(sys.platform != "linux", reason="other systems have a display for every user")
    def test_window_without_display_is_refused_before_anything_starts(self, browser, monkeypatch):
        monkeypatch.delenv("DISPLAY", raising=False)
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        with pytest.raises(PlatformUnavailable, match="display") as refusal:
            driver_for(browser, headed=True).open("about:blank")
        assert refusal.value.field == "headed"

    def test_chromium_runs_without_sandbox_where_the_system_has_none(self, chromium, site, tmp_path, monkeypatch):
        monkeypatch.setattr(chromium_driver, "user_id", lambda: 1000)
        wrapper = tmp_path / "chromium"
        real = shlex.quote(chromium.path)
        wrapper.write_text(
            f'#!/bin/sh\ncase "$*" in *--no-sandbox*) exec {real} "$@";; esac\necho "No usable sandbox!" >&2\nexit 1\n'
        )
        wrapper.chmod(0o755)
        with opened(msgspec.structs.replace(chromium, path=str(wrapper)), f"{site.url}/quiet") as running:
            assert site.up.wait(PATIENCE_S)
            assert running.flags[0] == "--no-sandbox"

    def test_profile_is_new_each_time(self, chromium, site):
        with opened(chromium, f"{site.url}/quiet") as first, opened(chromium, f"{site.url}/quiet") as second:
            assert first.profile != second.profile
            assert first.profile.parent == second.profile.parent


def recording(environment, profiles):
    def recorded(self):
        profiles.append(self.path)
        return environment(self)

    return recorded


class TestLook:
    def test_check_finds_what_detect_finds_and_names_what_is_missing(self, chromium, capsys):
        assert run(["browser", "check", "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        here = {each.path for each in find_browsers()}
        assert {item["path"] for item in report["browsers"] if item["path"]} == here
        for item in report["browsers"]:
            if item["path"] is None:
                assert item["remedy"] == how_to_get(item["engine"])
                continue
            assert item["works"], item
            assert item["isolated"]
            assert item["clock_step_us"] > 0
            assert item["limits"]["array_buffer_bytes"] >= 2**30
            assert 2**30 <= item["limits"]["wasm_memory_bytes"] <= 2**32
            assert "WebAssembly" in item["backends"][0]["evidence"]
            assert all(ability["available"] or ability["reason"] for ability in item["backends"])
        for probe in probe_browser():
            having = [
                {"name": item["name"], "version": item["version"]}
                for item in report["browsers"]
                for ability in item["backends"]
                if ability["backend"] == probe.platform and ability["available"]
            ]
            assert probe.available == bool(having)
            assert probe.runtime == (having[0] if having else None)

    def test_backend_that_is_switched_off_is_named(self, chromium):
        report = look(chromium, flags=["--disable-features=WebMachineLearningNeuralNetwork"])
        webnn = next(ability for ability in report.backends if ability.backend == "webnn")
        assert report.works
        assert not webnn.available
        assert webnn.reason.startswith("no navigator.ml")

    def test_absent_adapter_is_named(self, chromium):
        report = look(chromium, flags=["--disable-gpu", "--disable-software-rasterizer"])
        webgpu = next(ability for ability in report.backends if ability.backend == "webgpu")
        assert report.works
        assert not webgpu.available
        assert "adapter" in webgpu.reason

    def test_page_that_does_not_answer_ends_at_its_deadline(self, chromium):
        began = time.monotonic()
        report = look(chromium, flags=["--blink-settings=scriptEnabled=false"], deadline_s=1.0)
        assert time.monotonic() - began < 10
        assert not report.works
        assert "within 1 s" in report.reason
