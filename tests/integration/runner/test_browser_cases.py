"""Whole cases in a real browser: a model is exported, runs in a page, is right, and its row says what ran.

They need onnxruntime-web, which `assay browser install` brings. ASSAY_TEST_BROWSERS names its folder, and makes its absence
a failure; without it the folder of this user is looked into.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from assay.home import data_folder
from domain.errors import PartMissing, UnsupportedWorkload
from runner.browser.locations import find_browsers, onnxruntime_web
from runner.campaign.bench import run_plan
from runner.campaign.plan import Plan, Sweep, in_browsers, make_plan
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
    assert details["nodes"].keys() == {"CPUExecutionProvider"}
    assert row["conditions"]["timer_resolution_ms"] == details["clock_step_ms"] <= 0.1
    assert row["samples"]["n"] == 12
    assert row["metrics"]["peak_memory_bytes"] > 50e6
    assert row["metrics"]["compile_ms"] > 0
    assert "browser=chromium" in row["observed"]["requested"]["options"]


def test_a_browser_that_is_not_here_is_one_outcome_and_harms_no_other(home: Path) -> None:
    options = (("browser=/nowhere/firefox",), ("browser=chromium",))
    asked = plan("wasm", browsers=(), options=options)
    tested = events_of(run_verification, asked, home, "assay.test.reported.v1")
    assert [each["outcome"] == "passed" for each in tested] == [False, True]
    assert (tested[0]["outcome"], tested[0]["stage"]) == ("unsupported", "resolve")
    assert "/nowhere" not in str(tested[0]["execution"]["options"]), "folders of this machine stay on it"


@pytest.mark.usefixtures("tested")
def test_what_a_deadline_ends_leaves_no_browser(home: Path) -> None:
    before = _marked()
    asked = msgspec.structs.replace(plan("wasm"), method=Method(budget_s=600.0), timeout_s=12.0)
    (failed,) = events_of(run_plan, asked, home, "assay.measurement.failed.v1")
    assert (failed["outcome"], failed["stage"]) == ("timeout", "run")
    psutil.wait_procs([*(_marked() - before)], timeout=20)
    assert _marked() <= before


@pytest.mark.torture
def test_arrivals_are_refused_in_a_page(home: Path) -> None:
    asked = plan("wasm", scenario="server", target_qps=(5.0,))
    (failed,) = events_of(run_plan, asked, home, "assay.measurement.failed.v1")
    assert (failed["outcome"], failed["failure"]["error"]) == ("unsupported", UnsupportedWorkload.__name__)


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
    """Return the processes whose command names a profile of ours."""
    named = set()
    for process in psutil.process_iter(["cmdline"]):
        if any("assay-browser-" in word for word in process.info["cmdline"] or ()):
            named.add(process)
    return named
