"""The platforms wasm, webgpu and webnn: onnxruntime-web in a page of a real browser, which times its own calls.

The model is exported once as ONNX. This process serves it to the page, gives it tasks, and sleeps until it answers; no
clock of this process is in any time of a call. What the page cannot do is an error of its own, with the browser's words.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from domain.compatibility.pages import web_options
from domain.configuration import Runtime, Workload
from domain.errors import AssayError
from domain.statistics import median
from domain.verdicts import COARSE_TIMER
from runner.browser.facts import Taken, backends_of, doubts_of, observation, placement_of
from runner.browser.page import Page, open_page
from runner.measure.preprocessing import REPEATS, Extraction, extraction_of
from runner.measure.stopping import MAXIMUM_SAMPLES, Method, StopReason
from runner.platforms.base import Converted, Observation, Platform, Preprocessing, Probe, Recipe, Settings

if TYPE_CHECKING:
    import numpy as np

__all__ = ["BrowserPlatform", "PageTimer", "Wasm", "WebGpu", "WebNn", "extract", "offered_model", "runtime_files"]

_MODEL, _RESULT = "model.onnx", "result/"
_QUANTIZED = {"int8": "int8.onnx", "int4": "int4.onnx"}
_BUILDS = {
    "wasm": ("ort.wasm.min.mjs", "ort-wasm-simd-threaded"),
    "webgpu": ("ort.webgpu.min.mjs", "ort-wasm-simd-threaded.asyncify"),
    "webnn": ("ort.webgpu.min.mjs", "ort-wasm-simd-threaded.asyncify"),
}
"""Modules of onnxruntime-web. The plain build is the one whose code V8 has optimised after a second or two."""
_WARM_UP_S = 10.0
"""The least budget of warm-up: an engine optimises code while it runs."""
_LEAST_WARM_UP_S = {"wasm": 2.0, "webgpu": 0.5, "webnn": 0.5}
_LOAD_PARTS = ("fetch_ms", "digest_ms", "runtime_ms")
_WARM_BYTES = 2**28
"""Models up to this size are loaded a second time from the browser's cache; of larger ones that would take too long."""
_DEVICES = ("cpu", "gpu", "npu")


class BrowserPlatform(Platform):
    """onnxruntime-web in a browser. `backend` is its execution provider."""

    converts = True
    forms = ("onnx", "checkpoint")
    backend: ClassVar[str]
    known_options = frozenset({"browser", "headed"})

    def __init__(self) -> None:
        self._page: Page | None = None
        self._options: tuple[str, ...] = ()
        self._settings: Settings | None = None
        self._path: Path | None = None
        self._stages: dict[str, float] = {}
        self._threads = 1
        self._loaded: dict[str, float] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._timer: PageTimer | None = None

    def probe(self) -> Probe:
        """Return whether a browser of this machine computes with the backend, by opening a page in it."""
        try:
            return self.probe_for(())
        finally:
            self.close()

    def probe_for(self, options: tuple[str, ...]) -> Probe:
        """Return the same for the browser that the options name; the page stays open for `load`."""
        self.close()
        self._options = options
        try:
            self._page = open_page(self.name, options)
        except AssayError as error:
            return Probe(available=False, reason=error.detail, remedy=error.remedy or "Run assay browser check.")
        works = backends_of(self._page.environment)[self.backend]
        if not works.available:
            name = self._page_name()
            self.close()
            remedy = works.remedy or "Name another browser with --browser; assay browser check shows them."
            return Probe(available=False, reason=f"{name}: {works.reason}.", remedy=remedy)
        return Probe(available=True, devices=works.devices, evidence=f"{self._page_name()}: {works.evidence}")

    def _page_name(self) -> str:
        return self._page.name if self._page else "the browser"

    def runtime(self) -> Runtime:
        """Return onnxruntime-web and its version."""
        from runner.browser.locations import ONNXRUNTIME_WEB

        return Runtime(name="onnxruntime-web", version=ONNXRUNTIME_WEB)

    def precisions(self) -> tuple[str, ...]:
        """Return fp32, fp16 by casting the graph, and weights in 8 and in 4 bits."""
        return ("fp32", "fp16", "int8", "int4")

    def convert(self, module: Any, inputs: dict[str, Any], folder: Path, recipe: Recipe) -> None:
        """Write the graph with the shapes of the inputs, and its quantized form beside it."""
        from runner.platforms.onnx_export import export, quantize, quantize_to_4_bits

        export(module, inputs, folder / _MODEL, before_outputs=_RESULT)
        if recipe.precision == "int8":
            quantize(folder / _MODEL, folder / _QUANTIZED["int8"])
        elif recipe.precision == "int4":
            quantize_to_4_bits(folder / _MODEL, folder / _QUANTIZED["int4"])

    def load(self, model: Any, settings: Settings) -> None:
        """Open a page where none is open, and let it read the runtime and the model's file of the precision."""
        from runner.platforms.onnx_export import halve

        assert isinstance(model, Converted)
        self._settings = settings
        self._path = model.folder / _QUANTIZED.get(settings.precision, _MODEL)
        if not self._path.exists():
            # The graph of a variant is quantized itself.
            self._path = model.folder / _MODEL
        if settings.precision == "fp16":
            halved = model.folder / "fp16.onnx"
            self._path = halved if halved.exists() else halve(self._path, edges=settings.narrow_edges)
        page = self._page = self._page or open_page(self.name, settings.options)
        device = settings.device if settings.device in _DEVICES else None
        task: dict[str, Any] = {
            "backend": self.backend,
            "device_type": device or "cpu",
            "threads": self._asked_threads(page, settings),
            "runtime": runtime_files(page, self.backend),
            "model": offered_model(page, self._path),
            "progress_ms": None,
        }
        model = task["model"]
        self._loaded = {"bytes": model["bytes"] + sum(each["bytes"] for each in model["data"])}
        self._note(page.do("load", **task))

    def _asked_threads(self, page: Page, settings: Settings) -> int:
        """Return one thread where the page can have no more and nobody asked for more; it refuses what was asked for."""
        possible = page.environment.get("isolated") and page.environment.get("shared_memory")
        return settings.threads if self.backend == "wasm" and (possible or settings.threads_named) else 1

    def threads_used(self) -> int | None:
        """Return the threads of onnxruntime in the page; those of WebNN are the browser's and not told."""
        return self._threads if self.backend == "wasm" else None

    def compile(self) -> bool:
        """Let the page make its session: the graph is read, fused and prepared for the backend."""
        self._note(self.page.do("compile"))
        return True

    def place(self, inputs: dict[str, Any]) -> Any:
        """Let the page make tensors of the inputs."""
        self._shapes = {name: tuple(value.shape) for name, value in inputs.items()}
        self.page.do("feed", inputs=[_offered_input(self.page, *item) for item in inputs.items()])
        return inputs

    def run(self, inputs: Any) -> Any:  # noqa: ARG002
        """Call the model once in the page and return its outputs."""
        messages = self.page.do("call")
        said = next(message for message in messages if message["kind"] == "outputs")
        self._stages.setdefault("first_run_ms", said["ms"])
        return said["outputs"]

    def outputs(self, result: Any) -> list[tuple[str, Any]]:
        """Return the outputs as arrays."""
        return [(each["name"].removeprefix(_RESULT), _array(each)) for each in result]

    def timer(self) -> PageTimer:
        """Return what lets the page time its calls."""
        self._timer = self._timer or PageTimer(self.page, self.backend)
        return self._timer

    def stage_times(self) -> dict[str, float]:
        """Return `load_ms`, `compile_ms` and `first_run_ms` by the page's clock; starting the browser is in none."""
        return self._stages

    def preprocessing(self, checkpoint: Path | None, family: str | None, workload: Workload) -> Preprocessing | None:
        """Return the time of extracting the features of one batch of sound, by the page, in JavaScript."""
        extraction = extraction_of(checkpoint, family, workload, self._shapes)
        if extraction is None:
            return None
        times, _ = extract(self.page, extraction, extraction.sound())
        members = ("extractor", "source", "kind", "rate", "seconds", "batch", "fft", "hop", "mels")
        facts = {name: getattr(extraction, name) for name in members}
        details = {"by": "page", **{name: value for name, value in facts.items() if value is not None}, "n": len(times)}
        return Preprocessing(ms=median(times), details=details)

    def observe(self, inputs: Any) -> Observation:  # noqa: ARG002
        """Return where the nodes went, as the log of one more session tells, and what the page says of itself."""
        assert self._settings is not None
        page = self.page
        lines = [line for message in page.do("observe") for line in message.get("lines", ())]
        beside = None
        if self.backend == "webnn" and self._settings.device in ("gpu", "npu") and self._timer:
            answers = page.do("beside", method=self._timer.method_of(Method(budget_s=2.0)))
            beside = next(message["ms"] for message in answers if message.get("beside"))
        environment, placement = page.environment, placement_of(lines)
        seen = observation(self.backend, self._settings, environment, placement, threads=self._threads)
        taken = self._timer.taken if self._timer else Taken()
        doubts = doubts_of(self.backend, self._settings, environment, taken, beside=beside)
        details = {**seen.details, "flags": list(page.running.flags), "load": self._load_details()}
        if taken.calls_per_sample > 1:
            details["calls_per_sample"] = taken.calls_per_sample
        if self._timer:
            details["processors_busy"] = round(self._timer.processors_busy, 2)
        if beside:
            details["beside_cpu"] = {"p50_ms": median(beside), "n": len(beside)}
        return Observation(
            device=seen.device,
            platform=self.name,
            precision=seen.precision,
            fallback_share=seen.fallback_share,
            details=details | ({"doubts": doubts} if doubts else {}),
        )

    def _load_details(self) -> dict[str, Any]:
        """Return the parts of loading, and the time of a second one from the browser's cache, for models of usual size."""
        if self._loaded.get("bytes", 0) <= _WARM_BYTES:
            said = self.page.do("warm")
            warm_ms = next((message["warm_ms"] for message in said if message.get("warm_ms") is not None), None)
            return {**self._loaded, **({} if warm_ms is None else {"warm_ms": warm_ms})}
        return self._loaded

    def options(self) -> dict[str, Any]:
        """Return the browser and its version, the build of the runtime, and how the weights were quantized."""
        assert self._settings is not None
        page = self.page
        browser = {
            "browser": page.program.name,
            "browser_version": page.running.version,
            "engine": page.running.engine,
            "build": _BUILDS[self.backend][1],
        }
        return browser | web_options(self.backend, self._settings.precision, self._settings.device)

    def processes(self) -> list[int]:
        """Return the ids of the browser's processes."""
        return self._page.processes() if self._page else []

    def peak_memory_bytes(self) -> int | None:
        """Return the highest memory of the browser's processes together that was seen after a step of the page."""
        return self._page.peak_memory_bytes if self._page else None

    def close(self) -> None:
        """End the browser."""
        if self._page is not None:
            self._page.close()
        self._page = None

    @property
    def page(self) -> Page:
        """The page that is open; only asked after `load`."""
        assert self._page is not None
        return self._page

    def _note(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            if message["kind"] == "phase" and "ms" in message:
                self._stages[f"{message['stage']}_ms"] = message["ms"]
                self._threads = message.get("threads", self._threads)
                self._loaded |= {name: message[name] for name in _LOAD_PARTS if name in message}


class PageTimer:
    """Calls that the page times by its own clock, while this process sleeps."""

    def __init__(self, page: Page, backend: str) -> None:
        self._page, self._backend = page, backend
        self.taken = Taken()
        self.processors_busy = 0.0
        """Processors that the browser's processes used while the series was taken, on average."""
        self._loops: tuple[float, float] | None = None

    def method_of(self, method: Method) -> dict[str, Any]:
        """Return the method as tasks have it."""
        return {
            "warm_up_ms": max(method.warmup_s, _WARM_UP_S) * 1e3,
            "least_warm_up_ms": _LEAST_WARM_UP_S[self._backend] * 1e3,
            "budget_ms": method.budget_s * 1e3,
            "iterations": method.iterations,
            "least": method.minimum_samples,
            "most": MAXIMUM_SAMPLES,
        }

    def warm_up(self, method: Method) -> tuple[list[float], bool]:
        """Let the page call until its times are steady; return them in ms, and whether they became so."""
        messages = self._page.do("warm_up", method=self.method_of(method))
        said = next(message for message in messages if "warm_up" in message)
        return said["warm_up"], bool(said["steady"])

    def series(self, method: Method) -> tuple[list[float], StopReason, float, list[int]]:
        """Let the page take the samples; return them in ms, why they ended, their wall time in s, and memory in bytes."""
        began, used = perf_counter(), self._page.processor_s()
        messages = self._page.do("measure", method=self.method_of(method))
        self.processors_busy = (self._page.processor_s() - used) / (perf_counter() - began)
        said = next(message for message in messages if message["kind"] == "samples")
        self.taken = msgspec.convert(said, Taken)
        before, after = said["loop_ms"]
        self._loops = (before, after)
        return said["ms"], said["stopped_by"], said["elapsed_ms"] / 1e3, [self._page.memory_bytes()]

    def bare_ms(self, calls: int) -> float:
        """Return the mean time of calls in ms, from one reading of the page's clock before and one after all of them."""
        messages = self._page.do("bare", method={"calls": calls})
        return next(float(message["bare_ms"]) for message in messages if "bare_ms" in message)

    def conditions(self) -> dict[str, float]:
        """Return what the page's clock and its fixed loop say, by their names in `domain.conditions`."""
        step = float(self._page.environment.get("clock_step_ms") or 0.0)
        result = {"timer_resolution_ms": step} if step else {}
        if self._loops and min(self._loops) > COARSE_TIMER * step:
            result["speed_ratio"] = self._loops[0] / self._loops[1]
        return result


class Wasm(BrowserPlatform):
    """WebAssembly in a real browser, on the processor."""

    name = backend = "wasm"


class WebGpu(BrowserPlatform):
    """WebGPU in a real browser, on the adapter that it gives."""

    name = backend = "webgpu"


class WebNn(BrowserPlatform):
    """WebNN in a real browser; `device` is the type of a context: cpu, gpu or npu."""

    name = backend = "webnn"


def extract(
    page: Page, extraction: Extraction, sound: np.ndarray[Any, Any], *, reply: bool = False
) -> tuple[list[float], np.ndarray[Any, Any] | None]:
    """Let a page extract the features of a batch of one sound; return its times in ms and, with `reply`, the features."""
    recipe: dict[str, Any] = {"kind": extraction.kind, "batch": extraction.batch, "repeats": REPEATS, "reply": reply}
    recipe["sound"] = page.offer("sound", sound.astype("<f4").tobytes())
    if extraction.filters is not None:
        recipe |= {"fft": extraction.fft, "hop": extraction.hop, "mels": extraction.mels}
        recipe["filters"] = page.offer("filters", extraction.filters.astype("<f4").tobytes())
    said = next(message["features"] for message in page.do("features", features=recipe) if "features" in message)
    return said["ms"], _array(said) if reply else None


def runtime_files(page: Page, backend: str) -> dict[str, str]:
    """Return the addresses of onnxruntime-web's build for a backend, as tasks have them."""
    module, build = _BUILDS[backend]
    files = {"module": module, "mjs": f"{build}.mjs", "wasm": f"{build}.wasm"}
    return {name: page.address(f"ort/{file}") for name, file in files.items()}


def offered_model(page: Page, path: Path) -> dict[str, Any]:
    """Offer a graph and its external data to a page, and return them as tasks have them."""
    import onnx
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    model = onnx.load(str(path), load_external_data=False)
    tensors = [*model.graph.initializer, *(each.t for node in model.graph.node for each in node.attribute)]
    named = {ExternalDataInfo(each).location: None for each in tensors if uses_external_data(each)}
    data = [{"path": name, **_offered_file(page, path.parent / name)} for name in named]
    return {**_offered_file(page, path), "data": data}


def _offered_file(page: Page, path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"url": page.offer(digest, path), "bytes": path.stat().st_size, "digest": f"sha256:{digest}"}


def _offered_input(page: Page, name: str, value: Any) -> dict[str, Any]:
    import numpy as np

    array = np.ascontiguousarray(np.asarray(value))
    url = page.offer(f"input-{name}", array.astype(array.dtype.newbyteorder("<")).tobytes())
    return {"name": name, "type": str(array.dtype), "dims": list(array.shape), "url": url}


def _array(output: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.frombuffer(base64.b64decode(output["data"]), "<f4").astype(np.float32).reshape(output["dims"])
