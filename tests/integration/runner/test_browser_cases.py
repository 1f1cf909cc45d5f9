"""Whole cases in a real browser: a model is exported, runs in a page, is right, and its row says what ran.

They need onnxruntime-web, which `assay browser install` brings. ASSAY_TEST_BROWSERS names its folder, and makes its absence
a failure; without it the folder of this user is looked into.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
import msgspec
import numpy
import psutil
import pytest
from onnx import TensorProto, helper, numpy_helper

from assay.home import data_folder
from domain.errors import PartMissing, UnsupportedWorkload
from runner.browser.locations import BrowserProgram, find_browsers, onnxruntime_web
from runner.browser.page import Page, open_page
from runner.browser.platform import runtime_files
from runner.browser.server import PageFailed
from runner.campaign.bench import run_plan
from runner.campaign.plan import Plan, Sweep, in_browsers, make_plan
from runner.campaign.rehearsal import rehearse
from runner.campaign.verify import run_verification
from runner.contract import PlatformContract
from runner.measure.stopping import Method
from runner.platforms.registry import create
from runner.selftest import run_selftest

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An ASSAY_HOME of these tests with the browsers' files of this machine."""
    named = os.environ.get("ASSAY_TEST_BROWSERS")
    folder = Path(named) if named else data_folder() / "cache" / "browser"
    try:
        onnxruntime_web(folder)
        if not find_browsers(folder):
            raise PartMissing("no browser was found.")
    except PartMissing as missing:
        if named:
            raise
        pytest.skip(missing.detail)
    root = tmp_path_factory.mktemp("home")
    (root / "cache").mkdir()
    (root / "cache" / "browser").symlink_to(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(root))
        yield root


def plan(*platforms: str, browsers: tuple[str, ...] = ("chromium",), **how: Any) -> Plan:
    sweep = Sweep(models=("bert-tiny",), platforms=platforms, sequence_lengths=(16,), **how)
    method = Method(iterations=12, budget_s=1.0)
    return make_plan(*in_browsers(sweep, browsers, headed=False), weights="random", method=method, timeout_s=120)


def events_of(run: Callable[..., Any], asked: Plan, home: Path, name: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    run(asked, events.append, cache=home / "cache")
    return [event["data"] for event in events if event["type"] == name]


@pytest.fixture(scope="module")
def tested(home: Path) -> dict[str, Any]:
    """The verification of a model in WebAssembly; it is exported then."""
    (one,) = events_of(run_verification, plan("wasm"), home, "assay.test.reported.v1")
    return one


def test_a_model_in_webassembly_gives_what_torch_gives_and_its_row_says_where(tested: dict[str, Any]) -> None:
    assert (tested["outcome"], tested["stage"]) == ("passed", "verify"), tested.get("failure")
    assert all(output["cosine"] >= 0.9999 for output in tested["checks"]["outputs"])
    assert tested["execution"]["runtime"]["name"] == "onnxruntime-web"
    assert tested["execution"]["options"]["engine"] == "blink"


def test_a_measured_page_records_browser_isolation_threads_and_clock(home: Path) -> None:
    (row,) = events_of(run_plan, plan("wasm", threads=(2,)), home, "assay.measurement.recorded.v1")
    options, details = row["execution"]["options"], row["observed"]["details"]
    assert row["execution"]["platform"] == "wasm"
    assert row["execution"]["threads"] == 2
    assert options["build"] == "ort-wasm-simd-threaded"
    assert options["browser_version"][0].isdigit()
    assert details["threads"] == {"asked": 2, "had": 2}
    assert details["isolated"] is True
    assert details["processors_busy"] > 0
    assert details["nodes"].keys() == {"CPUExecutionProvider"}
    assert row["conditions"]["timer_resolution_ms"] == details["clock_step_ms"] <= 0.1
    assert row["samples"]["n"] == 12
    assert row["metrics"]["peak_memory_bytes"] > 50e6
    assert row["metrics"]["compile_ms"] > 0
    load = details["load"]
    assert row["metrics"]["load_ms"] >= max(load["fetch_ms"], load["runtime_ms"]) > 0
    assert load["bytes"] > 1e6
    assert load["digest_ms"] > 0
    assert load["warm_ms"] > 0
    assert "browser=chromium" in row["observed"]["requested"]["options"]


def test_a_browser_that_is_not_here_is_one_outcome_and_harms_no_other(home: Path) -> None:
    options = (("browser=/nowhere/firefox",), ("browser=chromium",))
    asked = plan("wasm", browsers=(), options=options)
    tested = events_of(run_verification, asked, home, "assay.test.reported.v1")
    assert [each["outcome"] == "passed" for each in tested] == [False, True]
    assert (tested[0]["outcome"], tested[0]["stage"]) == ("unsupported", "resolve")
    assert "/nowhere" not in str(tested[0]["execution"]["options"]), "folders of this machine stay on it"


@pytest.mark.torture
def test_sound_has_a_real_time_factor_and_its_features_are_timed_apart_in_the_page(home: Path) -> None:
    sweep = Sweep(models=("assay/wav2vec2-small",), platforms=("wasm",), audio_seconds=(0.5,))
    method = Method(iterations=8)
    asked = make_plan(*in_browsers(sweep, ("chromium",), headed=False), weights="random", method=method, timeout_s=120)
    (row,) = events_of(run_plan, asked, home, "assay.measurement.recorded.v1")
    metrics, preprocessing = row["metrics"], row["observed"]["details"]["preprocessing"]
    assert metrics["realtime_factor"] == pytest.approx(500 / metrics["latency_ms"]["mean"])
    assert 0 < metrics["preprocess_ms"] < metrics["latency_ms"]["p50"]
    assert (preprocessing["by"], preprocessing["kind"], preprocessing["seconds"]) == ("page", "normalise", 0.5)


@pytest.mark.usefixtures("tested")
@pytest.mark.torture
def test_what_a_deadline_ends_leaves_no_browser(home: Path) -> None:
    before = _marked()
    asked = msgspec.structs.replace(plan("wasm"), method=Method(iterations=10**6), timeout_s=12.0)
    (failed,) = events_of(run_plan, asked, home, "assay.measurement.failed.v1")
    assert (failed["outcome"], failed["stage"]) == ("timeout", "run")
    psutil.wait_procs([*(_marked() - before)], timeout=20)
    assert _marked() <= before


def wrapper(folder: Path, program: BrowserProgram, *, before: str = "", flags: str = "") -> Path:
    """A program of the user's own that starts a browser with other settings, as --browser takes one."""
    variables = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in program.variables.items())
    path = folder / program.engine
    path.write_text(f'#!/bin/sh\n{variables}{before}exec {shlex.quote(program.path)} "$@" {flags}\n')
    path.chmod(0o755)
    return path


def engine(name: str) -> BrowserProgram:
    """The browser of an engine, or no test where it is not here."""
    programs = [program for program in find_browsers() if program.engine == name]
    if not programs or (name == "webkit" and shutil.which("Xvfb") is None):
        pytest.skip(f"{name} is not here")
    return programs[0]


@pytest.mark.usefixtures("tested")
def test_no_adapter_and_a_flag_that_is_off_are_outcomes_and_harm_no_other(home: Path, tmp_path: Path) -> None:
    off = "--disable-gpu --disable-software-rasterizer --disable-features=WebMachineLearningNeuralNetwork"
    path = wrapper(tmp_path, engine("chromium"), flags=off)
    tested = events_of(
        run_verification, plan("webgpu", "webnn", "wasm", browsers=(str(path),)), home, "assay.test.reported.v1"
    )
    ends = {each["execution"]["platform"]: (each["outcome"], each["stage"]) for each in tested}
    assert ends == {
        "webgpu": ("unsupported", "resolve"),
        "webnn": ("unsupported", "resolve"),
        "wasm": ("passed", "verify"),
    }
    reasons = {each["execution"]["platform"]: str(each.get("failure")) for each in tested}
    assert "adapter" in reasons["webgpu"]
    assert "navigator.ml" in reasons["webnn"]


@pytest.mark.usefixtures("tested")
def test_a_model_that_webassembly_has_no_memory_for_is_out_of_memory(home: Path, tmp_path: Path) -> None:
    path = wrapper(tmp_path, engine("chromium"), flags="--js-flags=--wasm-max-mem-pages=400")
    (tested,) = events_of(run_verification, plan("wasm", browsers=(str(path),)), home, "assay.test.reported.v1")
    assert (tested["outcome"], tested["stage"]) == ("out_of_memory", "compile")
    assert "bad_alloc" in str(tested["failure"])


@pytest.mark.usefixtures("tested")
def test_two_threads_are_refused_by_a_browser_without_shared_memory(home: Path) -> None:
    engine("webkit")
    asked = plan("wasm", browsers=("webkit",), threads=(2,))
    (failed,) = events_of(run_plan, asked, home, "assay.measurement.failed.v1")
    assert (failed["outcome"], failed["stage"]) == ("unsupported", "load")
    assert "SharedArrayBuffer" in str(failed["failure"])


@pytest.mark.torture
@pytest.mark.usefixtures("tested")
def test_a_clock_whose_steps_are_longer_than_a_call_makes_the_row_suspect(home: Path, tmp_path: Path) -> None:
    resisting = """for word in "$@"; do
  [ "$previous" = --profile ] && echo 'user_pref("privacy.resistFingerprinting", true);' >> "$word/user.js"
  previous=$word
done
"""
    path = wrapper(tmp_path, engine("firefox"), before=resisting)
    asked = msgspec.structs.replace(plan("wasm", browsers=(str(path),)), method=Method(iterations=6))
    (row,) = events_of(run_plan, asked, home, "assay.measurement.recorded.v1")
    step, details = row["conditions"]["timer_resolution_ms"], row["observed"]["details"]
    assert step >= 1.0
    assert details["calls_per_sample"] > 1
    assert 0 < row["metrics"]["latency_ms"]["p50"] < step
    assert row["validity"]["verdict"] == "suspect"
    assert any("resolution" in reason for reason in row["validity"]["metrics"]["latency_ms"]["reasons"])
    assert any("clock steps" in doubt for doubt in details["doubts"])


@pytest.mark.usefixtures("tested")
def test_a_page_that_is_hidden_midway_makes_the_row_suspect(home: Path, tmp_path: Path) -> None:
    path = wrapper(tmp_path, engine("chromium"), flags="--remote-debugging-port=0")
    with ThreadPoolExecutor(1) as pool:
        hidden = pool.submit(
            minimise_window, {each.name for each in Path(tempfile.gettempdir()).glob("assay-browser-*")}
        )
        (row,) = events_of(run_plan, plan("wasm", browsers=(str(path),)), home, "assay.measurement.recorded.v1")
        assert hidden.result(), "the window was minimised while its page worked"
    assert row["validity"]["verdict"] == "suspect"
    assert any("hidden" in reason for reason in row["validity"]["reasons"])


def minimise_window(others: set[str]) -> bool:
    """Minimise the window of the next browser that opens a port, once its page has a Worker."""
    from websockets.sync.client import connect

    end = monotonic() + 60
    while monotonic() < end:
        sleep(0.02)
        for folder in Path(tempfile.gettempdir()).glob("assay-browser-*"):
            address = folder / "data" / "DevToolsActivePort"
            if folder.name in others or not address.is_file():
                continue
            with suppress(OSError, ValueError, LookupError, httpx.HTTPError):
                base = f"http://127.0.0.1:{address.read_text().split()[0]}/json"
                targets = httpx.get(base, trust_env=False).json()
                (page,) = [each for each in targets if each["type"] == "page" and "key=" in each["url"]]
                if not any(each["type"] == "worker" for each in targets):
                    continue
                with connect(page["webSocketDebuggerUrl"], proxy=None) as socket:
                    window = command(socket, "Browser.getWindowForTarget")["windowId"]
                    command(socket, "Browser.setWindowBounds", windowId=window, bounds={"windowState": "minimized"})
                return True
    return False


def command(socket: Any, method: str, **params: Any) -> dict[str, Any]:
    socket.send(json.dumps({"id": 1, "method": method, "params": params}))
    answer: dict[str, Any] = json.loads(socket.recv())["result"]
    return answer


def test_a_lost_device_is_named_and_the_browser_ends(home: Path) -> None:
    with open_page("webgpu", ("browser=chromium",)) as page:
        load_identity(page)
        before = page.processes()
        (gpu,) = [each for each in before if "--type=gpu-process" in psutil.Process(each).cmdline()]

        def lose(message: dict[str, Any]) -> None:
            if message["kind"] == "progress":
                with suppress(psutil.Error):
                    psutil.Process(gpu).kill()

        method = {"budget_ms": 60_000, "most": 10**9}
        with pytest.raises(PageFailed, match="GPU was lost") as caught:
            page.do("measure", deadline_s=60.0, on_message=lose, method=method, progress_ms=50)
        assert (caught.value.name, caught.value.stage) == ("DeviceLost", "run")
        profile = page.running.profile
    assert not profile.exists()


def load_identity(page: Page) -> None:
    """Let the page open a model that multiplies with ones."""
    size = [64, 64]
    value = numpy.ones(size, numpy.float32)
    names = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name in ("x", "y")]
    weights = [numpy_helper.from_array(value, "w")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", names[:1], names[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    page.do(
        "load",
        "compile",
        "feed",
        backend="webgpu",
        runtime=runtime_files(page, "webgpu"),
        model={"url": page.offer("model", model), "bytes": len(model), "data": []},
        inputs=[{"name": "x", "type": "float32", "dims": size, "url": page.offer("x", value.tobytes())}],
    )


@pytest.mark.torture
def test_clap_that_hangs_in_webnn_ends_at_the_deadline_and_the_next_case_runs(home: Path) -> None:
    if not engine("chromium").installed:
        pytest.skip("the installed Chromium has WebNN")
    sweep = Sweep(models=("assay/clap-small", "bert-tiny"), platforms=("webnn",))
    asked = make_plan(*in_browsers(sweep, ("chromium",), headed=False), weights="random", timeout_s=25)
    before = _marked()
    tested = events_of(run_verification, asked, home, "assay.test.reported.v1")
    assert [(each["outcome"], each["stage"]) for each in tested] == [("timeout", "compile"), ("passed", "verify")]
    psutil.wait_procs([*(_marked() - before)], timeout=20)
    assert _marked() <= before


@pytest.mark.torture
def test_arrivals_are_refused_in_a_page(home: Path) -> None:
    asked = plan("wasm", scenario="server", target_qps=(5.0,))
    (failed,) = events_of(run_plan, asked, home, "assay.measurement.failed.v1")
    assert (failed["outcome"], failed["failure"]["error"]) == ("unsupported", UnsupportedWorkload.__name__)


def test_a_rehearsed_plan_leaves_no_browser_open(home: Path) -> None:
    before = _marked()
    cases = rehearse(plan("wasm", precisions=("fp32", "int8")), home / "cache")
    assert [(each.case.precision, each.why) for each in cases] == [("fp32", None), ("int8", None)]
    assert _marked() <= before


def test_a_probe_leaves_no_browser_open() -> None:
    before = _marked()
    assert create("wasm").probe().available
    assert _marked() <= before


@pytest.mark.torture
@pytest.mark.parametrize("platform", ["wasm", "webgpu", "webnn"])
def test_a_self_test_finds_nothing_wrong(home: Path, platform: str) -> None:
    if not create(platform).probe().available:
        pytest.skip(f"no browser here has {platform}")
    found = run_selftest(platform, lambda _: None, cache=home / "cache")
    assert found.passed, found.checks
    assert {check.name for check in found.checks if check.outcome == "skipped"} <= {"device", "power"}


@pytest.mark.torture
class TestWasm(PlatformContract):
    name = "wasm"


def _marked() -> set[psutil.Process]:
    """Return the processes whose command names a profile of ours and that were started from this home."""
    named = set()
    for process in psutil.process_iter(["cmdline"]):
        with suppress(psutil.Error):
            ours = process.environ().get("ASSAY_HOME") == os.environ["ASSAY_HOME"]
            if ours and any("assay-browser-" in word for word in process.info["cmdline"] or ()):
                named.add(process)
    return named
