"""The page that runs a model on the first backend that works: in a real browser, served by its own serve.py.

The runtime of these tests multiplies its input by a number in the model's file, in the place of onnxruntime-web.
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from assay.cli.measure.browser_example import Evidence, ModelFile, PageChoice, Rung, write_page
from assay.cli.measure.browser_links import BUILDS
from assay.home import data_folder
from dashboard import gallery
from domain.answers.links import ReferenceRule
from domain.configuration import Workload
from domain.errors import PartMissing
from runner.browser.locations import onnxruntime_web

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser_page")]
RUNTIME = b"""
export const env = { wasm: {}, webgpu: {}, versions: {} };
export class Tensor { constructor(type, data, dims) { Object.assign(this, { type, data, dims }); } }
export const InferenceSession = { create: async (file) => {
  const factor = Number(new TextDecoder().decode(file));
  if (factor === 0) await new Promise(() => {});
  const run = async ({ x }) => ({ y: new Tensor("float32", x.data.map((value) => factor * value), x.dims) });
  return { run, outputNames: ["y"], release: async () => {} };
} };
"""
INPUT = np.random.default_rng(7).normal(size=(1, 16)).astype("<f4")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    try:
        path = gallery.find_browser()
    except PartMissing as missing:
        if os.environ.get("ASSAY_REQUIRE_BROWSER") == "1":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-features=WebMachineLearningNeuralNetwork"]
        )
        yield browser
        browser.close()


@pytest.fixture
def phone(chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    yield context.new_page()
    context.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Writes a page whose rungs are (backend, factor of its model), serves it with its own serve.py, and returns its address."""
    processes = []

    def serve(*rungs: tuple[str, float], evidence: Evidence | None = None) -> str:
        folder, runtime = tmp_path / "page", tmp_path / "runtime"
        (folder / "model").mkdir(parents=True)
        runtime.mkdir()
        for name in {name for files in BUILDS.values() for name in files}:
            (runtime / name).write_bytes(RUNTIME)
        order = [
            Rung(
                backend=backend,
                precision="fp32",
                evidence=evidence,
                note=None if evidence else "not measured",
                model=_model_file(folder, number, factor),
                runtime=dict(zip(("module", "mjs", "wasm"), (f"ort/{name}" for name in BUILDS[backend]), strict=True)),
                tolerance=ReferenceRule(cosine=0.9999, relative=1e-3),
            )
            for number, (backend, factor) in enumerate(rungs)
        ]
        (folder / "reference.json").write_bytes(
            msgspec.json.encode({"inputs": [_array("x", INPUT)], "outputs": [_array("y", 2 * INPUT)]})
        )
        choice = PageChoice(
            model="acme/doubler",
            weights="random",
            workload=Workload(mode="inference", batch_size=1),
            hardware=None,
            runtime="0",
            basis="why",
            order=order,
            deadline_s=2.0,
            warm_up_ms=50.0,
            measure_ms=50.0,
        )
        write_page(folder, runtime, choice)
        command = [sys.executable, str(folder / "serve.py"), "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        processes.append(process)
        assert process.stdout is not None
        return process.stdout.readline().strip()

    yield serve
    for process in processes:
        process.kill()
        process.communicate()


def _model_file(folder: Path, number: int, factor: float) -> ModelFile:
    content = str(factor).encode()
    path = f"model/{number}.onnx"
    (folder / path).write_bytes(content)
    return ModelFile(path=path, bytes=len(content), digest=f"sha256:{hashlib.sha256(content).hexdigest()}")


def _array(name: str, array: Any) -> dict[str, Any]:
    data = base64.b64encode(array.astype("<f4").tobytes()).decode()
    return {"name": name, "type": "float32", "dims": list(array.shape), "data": data}


def came_to(page: Any, url: str, state: str = "done") -> list[str]:
    """Open the page, wait for its end, and return what it says of each backend."""
    page.goto(url)
    page.wait_for_selector(f"html[data-state={state}]", timeout=30_000)
    return [cell.inner_text() for cell in page.query_selector_all("tbody td:last-child")]


def test_the_page_falls_back_from_absent_wrong_and_hanging_backends_and_says_why(served: Any, phone: Any) -> None:
    url = served(("webnn", 2), ("wasm", 3), ("wasm", 0), ("wasm", 2), ("wasm", 2))
    requests: list[str] = []
    phone.on("request", lambda request: requests.append(request.url))
    absent, wrong, hanging, used, last = came_to(phone, url)
    for words, said in (
        ("navigator.ml", absent),
        ("is wrong", wrong),
        ("no answer within 2 s", hanging),
        ("used", used),
    ):
        assert words in said
    assert last == "not tried"
    assert phone.get_attribute("html", "data-backend") == "wasm"
    assert "wasm runs it" in phone.inner_text("#ran")
    assert phone.evaluate("self.crossOriginIsolated")
    assert phone.is_hidden("#warning")
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    assert {request for request in requests if not request.startswith((url, "data:", "blob:"))} == set()


def test_the_first_backend_that_works_is_used_and_the_others_are_tried_when_asked(served: Any, phone: Any) -> None:
    evidence = Evidence(
        row="row-1", p50_ms=1.5, low_ms=1.4, high_ms=1.6, browser="chromium", browser_version="1", verdict="valid", hardware="here"
    )  # fmt: skip
    url = served(("wasm", 2), ("wasm", 2), ("wasm", -2), evidence=evidence)
    assert came_to(phone, url)[1:] == ["not tried", "not tried"]
    measured = phone.inner_text("tbody tr:first-child td:nth-child(3)")
    for words in ("1.50 ms", "chromium", "valid", "row-1"):
        assert words in measured
    phone.click("#every")
    phone.wait_for_selector("html[data-state=all]", timeout=30_000)
    used, works, wrong = [cell.inner_text() for cell in phone.query_selector_all("tbody td:last-child")]
    assert used.startswith("used")
    assert works.startswith("works")
    assert "is wrong" in wrong


def test_a_model_that_is_not_the_one_that_was_written_is_not_run(served: Any, phone: Any, tmp_path: Path) -> None:
    url = served(("wasm", 2))
    (tmp_path / "page" / "model" / "0.onnx").write_bytes(b"4")
    (said,) = came_to(phone, url, "none")
    assert "digest" in said
    (tmp_path / "page" / "model" / "0.onnx").unlink()
    (said,) = came_to(phone, url, "none")
    assert "404" in said
    assert "No backend" in phone.inner_text("#ran")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ASSAY_HOME with the onnxruntime-web of this machine."""
    folder = Path(os.environ.get("ASSAY_TEST_BROWSERS") or data_folder() / "cache" / "browser")
    try:
        onnxruntime_web(folder)
    except PartMissing as missing:
        if os.environ.get("ASSAY_REQUIRE_BROWSER") == "1":
            raise
        pytest.skip(missing.detail)
    (tmp_path / "home" / "cache").mkdir(parents=True)
    (tmp_path / "home" / "cache" / "browser").symlink_to(folder)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    return tmp_path


def test_a_real_model_runs_in_the_page_of_a_new_installation(home: Path, phone: Any) -> None:
    out = home / "page"
    words = [
        "browser",
        "example",
        "bert-tiny",
        "--out",
        str(out),
        "--sequence-length",
        "16",
        "--precision",
        "int8",
        "--json",
    ]
    result = subprocess.run([sys.executable, "-m", "assay.cli", *words], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    choice = msgspec.json.decode(result.stdout)
    assert [rung["backend"] for rung in choice["order"]] == ["webnn", "webgpu", "wasm"]
    assert [rung["note"] for rung in choice["order"]] == ["not measured"] * 3
    assert sorted(path.name for path in (out / "model").iterdir()) == ["int8.onnx"]
    command = [sys.executable, str(out / "serve.py"), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            came_to(phone, process.stdout.readline().strip())
        finally:
            process.kill()
    assert phone.get_attribute("html", "data-backend") == "wasm"
    assert "outputs right" in phone.inner_text("tr.used")
