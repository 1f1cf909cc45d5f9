"""ONNX Runtime: exported once, run on the processor or on CUDA through the execution provider of that name.

Rows say where the work was done (`cpu`, `cuda`) as their platform and `onnxruntime` as their runtime. The library
takes its own CPU provider where another one fails, without an error: a session that did is refused, and what each
node ran on is read from the library's own profile.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

from domain.configuration import Runtime
from domain.errors import PlatformUnavailable
from runner.measure.power.meter import Unread
from runner.platforms.base import Converted, Observation, Platform, Probe, Recipe, Settings
from runner.platforms.onnx_runtime_work import work_of
from runner.platforms.shares import observation_of

__all__ = ["OnnxRuntime", "OnnxRuntimeCuda"]

_MODEL, _INT8, _RESULT = "model.onnx", "int8.onnx", "result/"
_DEVICES = {"CPUExecutionProvider": "cpu", "CUDAExecutionProvider": "cuda"}


class OnnxRuntime(Platform):
    """ONNX Runtime on the processor."""

    name = "onnxruntime"
    converts = True
    forms = ("onnx", "checkpoint")
    provider: ClassVar[str] = "CPUExecutionProvider"

    def __init__(self) -> None:
        self._path: Path | None = None
        self._session: Any = None
        self._settings: Settings | None = None
        self._inputs: dict[str, Any] = {}
        self._binding: Any = None

    def probe(self) -> Probe:
        """Return whether the provider exists and multiplied two matrices right."""
        missing = [name for name in ("onnxruntime", "onnx", "onnxscript") if importlib.util.find_spec(name) is None]
        if missing:
            return Probe(
                available=False,
                reason=f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed.",
                remedy="Install the extra: pip install 'assay-bench[onnxruntime]'.",
            )
        import onnxruntime as ort

        offered = ort.get_available_providers()
        if self.provider not in offered:
            reason = f"onnxruntime {ort.__version__} offers {', '.join(offered)}, not {self.provider}."
            return Probe(
                available=False, reason=reason, remedy="Install the build for it: pip install onnxruntime-gpu."
            )
        problem = self._tried()
        if problem:
            return Probe(available=False, reason=problem, remedy="Check the driver and the libraries of that provider.")
        evidence = f"onnxruntime {ort.__version__}: {self.provider} multiplied two 8×8 matrices right"
        return Probe(available=True, devices=(self._device(),), evidence=evidence)

    def _tried(self) -> str | None:
        """Return why a small product does not work on the provider, or None where it does."""
        import numpy as np

        try:
            session = self._opened(_product(), threads=1)
            (answer,) = session.run(None, {"x": np.full((8, 8), 0.5, np.float32)})
        except (RuntimeError, PlatformUnavailable) as error:
            return str(error).strip().splitlines()[-1]
        return None if bool((answer == 2.0).all()) else f"a small matrix product gave {answer.flat[0]}, not 2"

    def runtime(self) -> Runtime:
        """Return onnxruntime and its version."""
        for package in ("onnxruntime", "onnxruntime-gpu"):
            try:
                return Runtime(name="onnxruntime", version=importlib.metadata.version(package))
            except importlib.metadata.PackageNotFoundError:
                continue
        return Runtime(name="onnxruntime")

    def precisions(self) -> tuple[str, ...]:
        """Return fp32, and int8 weights with activations that are quantized as they come."""
        return ("fp32", "int8")

    def convert(self, module: Any, inputs: dict[str, Any], folder: Path, recipe: Recipe) -> None:
        """Write the graph with the shapes of the inputs; for int8 its quantized form beside it."""
        from runner.platforms.onnx_export import export, quantize

        export(module, inputs, folder / _MODEL, before_outputs=_RESULT)
        if recipe.precision == "int8":
            quantize(folder / _MODEL, folder / _INT8)

    def load(self, model: Any, settings: Settings) -> None:
        """Choose the file of the precision; it is read when the session is made."""
        assert isinstance(model, Converted)
        self._settings = settings
        quantized = model.folder / _INT8
        # The graph of a variant is quantized itself.
        self._path = quantized if settings.precision == "int8" and quantized.exists() else model.folder / _MODEL

    def compile(self) -> bool:
        """Make the session: the graph is read, fused and laid out for the provider."""
        assert self._path is not None
        assert self._settings is not None
        self._session = self._opened(str(self._path), threads=self._settings.threads)
        return True

    def _opened(self, model: Any, *, threads: int, profile: str | None = None) -> Any:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        if profile:
            options.enable_profiling, options.profile_file_prefix = True, profile
        session = ort.InferenceSession(model, options, providers=[self._chosen()])
        if session.get_providers()[0] != self.provider:
            raise PlatformUnavailable(
                f"{self.provider} did not start, and onnxruntime took {session.get_providers()[0]} without an error.",
                field="platform",
                remedy="Check its driver and libraries; name the platform onnxruntime to measure the processor.",
            )
        return session

    def _chosen(self) -> Any:
        return self.provider

    def _device(self) -> str:
        return "cpu"

    def place(self, inputs: dict[str, Any]) -> Any:
        """Bind the inputs on the device once, and let the outputs stay there."""
        self._inputs = inputs
        self._binding = self._bound(self._session)
        return self._binding

    def _bound(self, session: Any) -> Any:
        import numpy as np
        import onnxruntime as ort

        binding = session.io_binding()
        kind, _, index = self._device().partition(":")
        for port in session.get_inputs():
            array = np.ascontiguousarray(np.asarray(self._inputs[port.name]))
            if port.type == "tensor(float16)":
                array = array.astype(np.float16)
            binding.bind_ortvalue_input(port.name, ort.OrtValue.ortvalue_from_numpy(array, kind, int(index or 0)))
        for port in session.get_outputs():
            binding.bind_output(port.name, kind, int(index or 0))
        return binding

    def run(self, inputs: Any) -> Any:
        """Run the session on what is bound."""
        self._session.run_with_iobinding(inputs)
        return inputs

    def outputs(self, result: Any) -> list[tuple[str, Any]]:
        """Return copies of the outputs."""
        names = [port.name.removeprefix(_RESULT) for port in self._session.get_outputs()]
        return [
            (name, array.astype("float32")) for name, array in zip(names, result.copy_outputs_to_cpu(), strict=True)
        ]

    def observe(self, inputs: Any) -> Observation:  # noqa: ARG002
        """Return by which provider and in which type the FLOPs of one more call were done, as its profile tells."""
        assert self._path is not None
        assert self._settings is not None
        with tempfile.TemporaryDirectory() as folder:
            profile = str(Path(folder) / "profile")
            session = self._opened(str(self._path), threads=self._settings.threads, profile=profile)
            session.run_with_iobinding(self._bound(session))
            work, nodes = work_of(Path(session.end_profiling()))
        own = self._device()
        return observation_of(
            Counter({(own if of == self.provider else _DEVICES.get(of, of), how): n for (of, how), n in work.items()}),
            self._settings.precision,
            at_home=lambda device: device == own,
            platform_of=lambda device: device.partition(":")[0],
            details={"nodes": nodes},
        )

    def options(self) -> dict[str, Any]:
        """Return how the weights were quantized."""
        assert self._settings is not None
        if self._settings.precision != "int8":
            return {}
        return {"quantization": "onnxruntime.quantize_dynamic", "weights": "int8", "activations": "dynamic uint8"}

    def close(self) -> None:
        """Drop the session."""
        self._session, self._binding, self._inputs = None, None, {}


class OnnxRuntimeCuda(OnnxRuntime):
    """ONNX Runtime on an NVIDIA device: IEEE fp32 unless tf32 is asked for, and fp16 by casting the graph."""

    name = "onnxruntime-cuda"
    provider = "CUDAExecutionProvider"

    def precisions(self) -> tuple[str, ...]:
        """Return fp32, tf32 and fp16."""
        return ("fp32", "tf32", "fp16")

    def _device(self) -> str:
        return (self._settings.device if self._settings else None) or "cuda:0"

    def _chosen(self) -> Any:
        tf32 = self._settings is not None and self._settings.precision == "tf32"
        index = self._device().partition(":")[2]
        return (self.provider, {"device_id": index or "0", "use_tf32": "1" if tf32 else "0"})

    def compile(self) -> bool:
        """Cast the graph where fp16 is asked for, and make the session."""
        assert self._path is not None
        assert self._settings is not None
        if self._settings.precision == "fp16":
            from runner.platforms.onnx_export import halve

            self._path = halve(self._path, edges=self._settings.narrow_edges)
        return super().compile()

    def watcher(self, device: str | None) -> Unread:  # noqa: ARG002
        """Return why the device is not watched: its index here and the driver's need not be the same."""
        return Unread("onnxruntime does not tell which of the driver's devices it uses.", "Measure the platform cuda.")

    def synchronize(self) -> None:
        """Wait for the outputs on the device."""
        if self._binding is not None:
            self._binding.synchronize_outputs()


def _product() -> bytes:
    """Return an ONNX model of one product: x (8×8) by a matrix of halves."""
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    side = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [8, 8])
    out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [8, 8])
    halves = numpy_helper.from_array(np.full((8, 8), 0.5, np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "product", [side], [out], [halves])
    opset = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())
