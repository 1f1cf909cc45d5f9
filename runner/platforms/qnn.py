"""Qualcomm's neural processor (HTP) through onnxruntime-qnn. Without one its library simulates it, and rows say so.

Left alone the library lowers fp32 graphs to fp16; here fp32 stays what it is, and fp16 is a graph that was cast. What the
backend leaves to the processor is read from the runtime's own profile. A simulation counts as work that fell back to
the processor: its times say nothing.
"""

from __future__ import annotations

import csv
import importlib
import importlib.metadata
import importlib.util
import io
import platform as host
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from domain.configuration import Runtime
from domain.errors import PlatformUnavailable
from runner.measure.power.battery import find_battery
from runner.measure.power.meter import Meter, Unread
from runner.platforms.base import Observation, Probe
from runner.platforms.onnx_runtime import OnnxRuntime
from runner.platforms.onnx_runtime_work import work_of
from runner.platforms.shares import observation_of

__all__ = ["Qnn", "emulation", "layers_of", "provider_options", "times_of"]

_LAYER = re.compile(r"^(?P<name>.*?):?\s*OpId_(?P<id>\d+)")
_RUN = "QNN (execute) time"


def emulation(device_kinds: Sequence[str], machine: str) -> str | None:
    """Return why work would be simulated on the processor, or None where an NPU is there.

    `device_kinds` are those of the devices that the provider lists (NPU, GPU, CPU), `machine` the processor's architecture.
    """
    if "NPU" in device_kinds:
        return None
    if machine.lower() in ("x86_64", "amd64"):
        return "this processor has no Hexagon NPU; the library simulates one, thousands of times slower than it is"
    return "the provider lists no NPU; its libraries for this machine's Hexagon are missing, or its driver is"


def provider_options(backend_path: str, *, profile: str | None = None) -> dict[str, str]:
    """Return the options: the HTP backend at full clock, no fp32 graph lowered to fp16; layers timed where a file is named."""
    result = {"backend_path": backend_path, "enable_htp_fp16_precision": "0", "htp_performance_mode": "burst"}
    return result | ({"profiling_level": "detailed", "profiling_file_path": profile} if profile else {})


def _rows(text: str) -> list[dict[str, str]]:
    return [row for row in csv.DictReader(io.StringIO(text)) if (row.get("Time") or "").isdigit()]


def layers_of(text: str) -> list[dict[str, Any]]:
    """Return `{"layer", "time", "unit", "share"}` of each layer, summed over the calls in the file, longest first.

    Units are the backend's own (CYCLES, US) and are never added to each other: shares are of their unit.
    """
    times: dict[tuple[str, str], int] = defaultdict(int)
    for row in _rows(text):
        if row["Message"] == "NODE":
            name = row["Event Identifier"].removesuffix("(cycles)").strip()
            match = _LAYER.match(name)
            times[match["name"].strip() if match and match["name"].strip() else name, row["Unit of Measurement"]] += (
                int(row["Time"])
            )
    totals: dict[str, int] = defaultdict(int)
    for (_, unit), time in times.items():
        totals[unit] += time
    result = [
        {"layer": layer, "time": time, "unit": unit, "share": round(time / totals[unit], 4) if totals[unit] else 0.0}
        for (layer, unit), time in times.items()
    ]
    return sorted(result, key=lambda each: (-float(each["share"]), str(each["layer"])))


def times_of(text: str) -> dict[str, float]:
    """Return the mean of what the backend says of a call: ms by name, cycles and counts as they are."""
    result: dict[str, list[int]] = defaultdict(list)
    units: dict[str, str] = {}
    for row in _rows(text):
        if row["Event Level"] == "ROOT" and row["Message"] in ("EXECUTE", "BACKEND"):
            result[row["Event Identifier"]].append(int(row["Time"]))
            units[row["Event Identifier"]] = row["Unit of Measurement"]
    if _RUN not in result:
        return {}
    means = {name: sum(values) / len(values) for name, values in result.items()}
    return {name: value / 1e3 if units[name] == "US" else value for name, value in means.items()}


_CPU = "CPUExecutionProvider"
_MOST_LAYERS = 40


class Qnn(OnnxRuntime):
    """The HTP backend, or its simulation."""

    name = "qnn"
    provider: ClassVar[str] = "QNNExecutionProvider"

    def probe(self) -> Probe:
        """Return whether a product ran on the HTP backend and was right; the evidence says where it was simulated."""
        missing = [name for name in ("onnxruntime_qnn", "onnx", "onnxscript") if importlib.util.find_spec(name) is None]
        if missing:
            return Probe(
                available=False,
                reason=f"{' and '.join(missing).replace('_', '-')} {'is' if len(missing) == 1 else 'are'} not installed.",
                remedy="Install the extra: pip install 'assay-bench[qnn]' (Windows and Linux).",
            )
        try:
            _devices()
        except (RuntimeError, OSError, AttributeError) as error:
            reason = f"the QNN library cannot be loaded: {str(error).strip().splitlines()[0]}"
            return Probe(available=False, reason=reason, remedy="Install onnxruntime 1.24 or newer beside it.")
        try:
            problem = self._tried()
        except Exception as error:
            # The library's own errors are no RuntimeError, and a probe never raises.
            problem = f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"
        if problem:
            return Probe(
                available=False, reason=problem, remedy="Check the NPU's driver and the libraries of the backend."
            )
        emulated = self.emulated()
        where = f"SIMULATED: {emulated}" if emulated else "on the NPU"
        evidence = f"onnxruntime-qnn {self.runtime().version}: an 8×8 product on the HTP backend was right; {where}"
        return Probe(available=True, devices=("htp-simulator" if emulated else "htp",), evidence=evidence)

    def emulated(self) -> str | None:
        """Return why there is only a simulation here, or None where an NPU does the work."""
        return emulation([str(device.device.type.name) for device in _devices()], host.machine())

    def runtime(self) -> Runtime:
        """Return onnxruntime-qnn and its version."""
        try:
            return Runtime(name="onnxruntime-qnn", version=importlib.metadata.version("onnxruntime-qnn"))
        except importlib.metadata.PackageNotFoundError:
            return Runtime(name="onnxruntime-qnn")

    def precisions(self) -> tuple[str, ...]:
        """Return fp32, and fp16 by casting the graph."""
        return ("fp32", "fp16")

    def compile(self) -> bool:
        """Cast the graph where fp16 is asked for, and make the session: the backend prepares its own graph in it."""
        assert self._path is not None
        assert self._settings is not None
        if self._settings.precision == "fp16":
            from runner.platforms.onnx_export import halve

            self._path = halve(self._path, edges=self._settings.narrow_edges)
        return super().compile()

    def _opened(self, model: Any, *, threads: int, profile: str | None = None, layers: str | None = None) -> Any:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        if profile:
            options.enable_profiling, options.profile_file_prefix = True, profile
        backend = importlib.import_module("onnxruntime_qnn").get_qnn_htp_path()
        options.add_provider_for_devices(list(_devices()), provider_options(backend, profile=layers))
        session = ort.InferenceSession(model, options)
        if session.get_providers()[0] != self.provider:
            raise PlatformUnavailable(
                f"{self.provider} did not start, and onnxruntime took {session.get_providers()[0]} without an error.",
                field="platform",
                remedy="Check the NPU's driver; name the platform onnxruntime to measure the processor.",
            )
        return session

    def observe(self, inputs: Any) -> Observation:  # noqa: ARG002
        """Return which share of the FLOPs the backend took, how long its layers were, and whether it was simulated."""
        assert self._path is not None
        assert self._settings is not None
        with tempfile.TemporaryDirectory() as folder:
            whole, _ = self._profiled(_on_processor(str(self._path), str(Path(folder) / "whole")))
            layers = Path(folder) / "layers.csv"
            threads = self._settings.threads
            own, nodes = self._profiled(
                self._opened(str(self._path), threads=threads, profile=str(Path(folder) / "own"), layers=str(layers))
            )
            text = layers.read_text("utf-8", errors="replace") if layers.exists() else ""
        total = whole.total()
        # A graph that the backend took is one node of the profile, whose FLOPs nothing tells: they are the rest.
        left = 0 if any(of == self.provider for of, _ in own) else own.total()
        emulated = self.emulated()
        home = "cpu" if emulated else "htp"
        work = Counter({("cpu", "fp32"): left, (home, self._settings.precision): max(0, total - left)})
        return observation_of(
            +work,
            self._settings.precision,
            at_home=lambda device: device == "htp",
            platform_of=lambda device: "cpu" if device == "cpu" and not emulated else self.name,
            details={
                "nodes": nodes,
                "backend": "htp",
                "layers": layers_of(text)[:_MOST_LAYERS],
                "times": times_of(text),
                **({"emulated": emulated} if emulated else {}),
            },
        )

    def _profiled(self, session: Any) -> tuple[Counter[tuple[str, str]], dict[str, int]]:
        """Return FLOPs and nodes by provider of one call of a session that is profiled."""
        session.run_with_iobinding(self._bound(session))
        return work_of(Path(session.end_profiling()))

    def options(self) -> dict[str, Any]:
        """Return the backend, and that it was simulated."""
        return {"backend": "htp", **({"emulated": True} if self.emulated() else {})}

    def meter(self, device: str | None) -> Meter | Unread:  # noqa: ARG002
        """Return the battery's meter: nothing shows the NPU's own power."""
        return Unread("a simulation has no power.") if self.emulated() else find_battery()


def _on_processor(path: str, prefix: str) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.enable_profiling, options.profile_file_prefix = True, prefix
    return ort.InferenceSession(path, options, providers=[_CPU])


@cache
def _devices() -> tuple[Any, ...]:
    """Return the devices that the provider lists, its NPUs alone where it has some; registers its library once."""
    import onnxruntime as ort

    qnn = importlib.import_module("onnxruntime_qnn")
    ort.register_execution_provider_library(qnn.EP_NAME, qnn.get_library_path())
    matching_ep_devices = [device for device in ort.get_ep_devices() if device.ep_name == qnn.EP_NAME]
    if not matching_ep_devices:
        raise RuntimeError("the provider lists no device")
    npus = [device for device in matching_ep_devices if device.device.type.name == "NPU"]
    return tuple(npus or matching_ep_devices)
