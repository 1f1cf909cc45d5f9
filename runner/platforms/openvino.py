"""OpenVINO: converted once by tracing, compiled with an explicit precision, run one request at a time.

The precision hint is always set: left alone, OpenVINO computes in bf16 where the processor can and calls it fp32.
What ran is read from the runtime's own graph: the precision of every layer that multiplies, weighted by its FLOPs.
"""

from __future__ import annotations

import importlib.util
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from domain.configuration import Runtime
from domain.errors import PartMissing, UnsupportedPrecision, UnsupportedWorkload, UsageError
from runner.measure.power.choice import host_meter
from runner.measure.power.hwmon import find_hwmon
from runner.measure.power.meter import Meter, Unread
from runner.platforms.base import Converted, Generator, Observation, Platform, Probe, Recipe, Settings
from runner.platforms.execution_options import batch_parts, read_options
from runner.platforms.openvino_recording import recorded, settled
from runner.platforms.openvino_work import fill, with_edges, work_of
from runner.platforms.shares import observation_of

__all__ = ["QUANTIZED", "OpenVino", "method_of", "quantized", "refusals"]

QUANTIZED = ("int8", "int4")
_GROUP_SIZES = (128, 64, 32)
_REMEDY = "pip install nncf"


def refusals() -> dict[str, str]:
    """Return why quantized precisions are not possible here, with the command that helps."""
    if importlib.util.find_spec("nncf") is None:
        return dict.fromkeys(QUANTIZED, f"nncf is not installed: {_REMEDY}.")
    return {}


def method_of(precision: str, purpose: str) -> dict[str, Any]:
    """Return the options that name how a model was quantized; none where it was not."""
    if precision == "int8" and purpose == "inference":
        return {"quantization": "nncf.quantize", "preset": "mixed", "calibration": "seeded inputs"}
    if precision == "int8":
        return {"quantization": "nncf.compress_weights", "weights": "int8_asym"}
    if precision == "int4":
        return {"quantization": "nncf.compress_weights", "weights": "int4_sym"}
    return {}


def quantized(model: Any, precision: str, purpose: str, calibration: Sequence[Mapping[str, Any]]) -> Any:
    """Return the quantized model; `calibration` are inputs by name, used where activations are quantized too."""
    if importlib.util.find_spec("nncf") is None:
        raise PartMissing(f"{precision} in OpenVINO needs nncf.", field="precision", remedy=_REMEDY)
    import nncf

    # It draws progress bars and tells every step, and a child's output is kept for what goes wrong.
    nncf.set_log_level(logging.ERROR)
    if precision == "int8" and purpose == "inference":
        dataset = nncf.Dataset(list(calibration), lambda inputs: dict(inputs))
        return nncf.quantize(model, dataset, preset=nncf.QuantizationPreset.MIXED, subset_size=len(calibration))
    if precision == "int8":
        return nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
    group = _group_size(model)
    if group is None:
        raise UnsupportedPrecision(
            "no weight matrix of this model has rows that are a multiple of 32, which four-bit groups need.",
            field="precision",
            remedy="Take int8.",
        )
    return nncf.compress_weights(
        model, mode=nncf.CompressWeightsMode.INT4_SYM, group_size=group, ratio=1.0, all_layers=True
    )


def _group_size(model: Any) -> int | None:
    """Return the largest group that divides the rows of every weight matrix, or those of any where none divides all."""
    widths = {
        int(shape[-1])
        for node in model.get_ops()
        if node.get_type_name() == "Constant" and len(shape := node.get_output_shape(0)) == 2 and min(shape) > 1
    }
    dividing = [size for size in _GROUP_SIZES if any(width % size == 0 for width in widths)]
    return next((size for size in dividing if all(width % size == 0 for width in widths)), min(dividing, default=None))


_HINTS = {"fp32": "f32", "bf16": "bf16", "fp16": "f16"}
_CAPABILITIES = {"FP32": "fp32", "BF16": "bf16", "FP16": "fp16"}
_MODEL, _PREFILL = "model.xml", "prefill.xml"
_CALIBRATION_SETS = 8
_RESULT = "result/"
"""Before the names of outputs: a graph has each name once, and some inputs are called what an output is."""


class OpenVino(Platform):
    """OpenVINO on one of the devices that it lists; the processor unless another is named."""

    name = "openvino"
    converts = True
    known_options: ClassVar[frozenset[str]] = frozenset({"streams"})
    forms = ("openvino", "checkpoint")

    def __init__(self) -> None:
        self._models: dict[str, Any] = {}
        self._compiled: dict[str, Any] = {}
        self._requests: list[Any] = []
        self._streams = 1
        self._card: Any = None
        self._settings: Settings | None = None

    def probe(self) -> Probe:
        """Return the devices that OpenVINO lists and that added two numbers; the evidence lists the others."""
        if importlib.util.find_spec("openvino") is None:
            return Probe(
                available=False,
                reason="openvino is not installed.",
                remedy="Install the runner extra: pip install 'assay-bench[runner]'.",
            )
        import openvino as ov

        listed = tuple(ov.Core().available_devices)
        if not listed:
            return Probe(available=False, reason="OpenVINO lists no device.", remedy="Install a driver for one.")
        result = {device: _sum_on(device) for device in listed}
        working = tuple(device for device, problem in result.items() if problem is None)
        problems = "; ".join(f"{device}: {problem}" for device, problem in result.items() if problem is not None)
        if not working:
            return Probe(available=False, reason=problems, remedy="Update the driver of that device.")
        evidence = (
            f"OpenVINO {ov.__version__.split('-')[0]}: a small model compiled for and ran on {', '.join(working)}"
        )
        return Probe(available=True, devices=working, evidence="; ".join(filter(None, (evidence, problems))))

    def runtime(self) -> Runtime:
        """Return openvino and its version, without the build's number."""
        import importlib.metadata

        try:
            version: str | None = importlib.metadata.version("openvino").split("-")[0]
        except importlib.metadata.PackageNotFoundError:
            version = None
        return Runtime(name="openvino", version=version)

    def precisions(self) -> tuple[str, ...]:
        """Return those that the device's own list of capabilities names; quantized ones need nncf too."""
        import openvino as ov

        capabilities = ov.Core().get_property(self._device(), "OPTIMIZATION_CAPABILITIES")
        plain = tuple(ours for theirs, ours in _CAPABILITIES.items() if theirs in capabilities)
        return (*plain, *(QUANTIZED if "INT8" in capabilities and not self.refusals() else ()))

    def refusals(self) -> dict[str, str]:
        """Return the quantized precisions where nncf is missing."""
        return refusals()

    def check(self, purpose: str, precision: str) -> None:
        """Refuse training, which OpenVINO does not do, and precisions that the device does not list."""
        if purpose == "training":
            raise UnsupportedWorkload(
                "OpenVINO runs models and does not train them.",
                field="mode",
                remedy="Train on cpu or on a graphics processor; measure inference here.",
            )
        super().check("inference", precision)

    def _device(self) -> str:
        return (self._settings.device if self._settings else None) or "CPU"

    def convert(self, module: Any, inputs: dict[str, Any], folder: Path, recipe: Recipe) -> None:
        """Write the graphs with fixed shapes, in fp32 or with the quantized weights that the recipe asks for."""
        import openvino as ov

        if recipe.purpose == "generation":
            from runner.platforms.openvino_decoder import convert_decoder, write_card

            graphs, card = convert_decoder(module, inputs)
            write_card(card, folder)
        else:
            graphs = {_MODEL: _forward_graph(module, inputs)}
        for name, graph in graphs.items():
            if recipe.precision in QUANTIZED:
                graph = quantized(graph, recipe.precision, recipe.purpose, _calibration(graph, inputs))
            ov.save_model(graph, str(folder / name), compress_to_fp16=False)

    def take(self, form: Path, inputs: dict[str, Any], folder: Path) -> None:
        """Write the graph of a variant with the shapes of the inputs, as graphs are that are converted here."""
        import openvino as ov

        graph = ov.Core().read_model(str(form / _MODEL))
        ports = {port.get_node().get_friendly_name(): port for port in graph.inputs}
        _require_inputs(ports, inputs)
        try:
            graph.reshape({port: list(inputs[name].shape) for name, port in ports.items()})
        except RuntimeError as error:
            shapes = ", ".join(f"{name} {port.get_partial_shape()}" for name, port in ports.items())
            raise UnsupportedWorkload(
                f"the graph of this variant takes {shapes} and no other shapes.",
                field="batch_sizes",
                remedy="Measure it at these sizes, or make the variant again from examples of the other.",
            ) from error
        ov.save_model(graph, str(folder / _MODEL), compress_to_fp16=False)

    def load(self, model: Any, settings: Settings) -> None:
        """Read the converted graphs from their folder."""
        import openvino as ov

        assert isinstance(model, Converted)
        self._settings = settings
        names = [name for name in (_MODEL, _PREFILL) if (model.folder / name).exists()]
        self._models = {name: ov.Core().read_model(str(model.folder / name)) for name in names}
        self._streams = read_options(settings.options, platform=self.name, names=self.known_options).streams
        if settings.purpose == "generation":
            from runner.platforms.openvino_decoder import read_card

            if self._streams > 1:
                raise UnsupportedWorkload(
                    "a generation is one stream: each token waits for the one before it.",
                    field="options",
                    remedy="Leave out streams, or the output tokens to measure one forward call.",
                )
            self._card = read_card(model.folder)

    def free_batch(self) -> bool:
        """Open the first axis of the inputs; False where the graph cannot be read so."""
        import openvino as ov

        model = self._models[_MODEL]
        shapes = {port: port.get_partial_shape() for port in model.inputs}
        if self._card is not None or any(shape.rank.get_length() == 0 for shape in shapes.values()):
            return False
        opened = {port: ov.PartialShape([-1, *list(shape)[1:]]) for port, shape in shapes.items()}
        try:
            model.reshape(opened)
        except RuntimeError:
            model.reshape(shapes)
            return False
        return True

    def compile(self) -> bool:
        """Compile for lowest latency with the precision and the threads that were asked for, and nothing cached."""
        import openvino as ov

        assert self._settings is not None
        plain = self._hint()
        options = {"INFERENCE_PRECISION_HINT": plain, "PERFORMANCE_HINT": "LATENCY"}
        if self._device() == "CPU":
            options["INFERENCE_NUM_THREADS"] = str(self._settings.threads)
            # Left alone, keys and values are kept in eight bits.
            options["KV_CACHE_PRECISION"] = plain
        if self._streams > 1:
            options |= {"PERFORMANCE_HINT": "THROUGHPUT", "NUM_STREAMS": str(self._streams)}
            _cut(self._models[_MODEL], self._streams)
        core = ov.Core()
        if self._settings.narrow_edges and plain != "f32":
            self._models = {name: with_edges(model, plain) for name, model in self._models.items()}
        self._compiled = {
            name: core.compile_model(model, self._device(), options) for name, model in self._models.items()
        }
        if self._card is None:
            self._requests = [self._compiled[_MODEL].create_infer_request() for _ in range(self._streams)]
        return True

    def place(self, inputs: dict[str, Any]) -> Any:
        """Give each request its part of the inputs, which stays there for every run; a generator takes them as they are."""
        if self._card is not None:
            return inputs
        for request, part in zip(self._requests, batch_parts(inputs, self._streams), strict=True):
            for port in self._compiled[_MODEL].inputs:
                fill(request, port, part[port.get_node().get_friendly_name()])
        return self._requests

    def run(self, inputs: Any) -> Any:
        """Start every request and wait for all of them."""
        for request in inputs:
            request.start_async()
        for request in inputs:
            request.wait()
        return inputs

    def generator(self, inputs: Any, output_tokens: int) -> Generator:  # noqa: ARG002
        """Return steps against states that the runtime keeps."""
        from runner.platforms.openvino_decoder import StatefulGeneration

        return StatefulGeneration(self._compiled[_MODEL], self._compiled.get(_PREFILL), self._card, inputs)

    def outputs(self, result: Any) -> list[tuple[str, Any]]:
        """Return copies of the output tensors, those of all requests put together."""
        import numpy as np

        return [
            (
                port.get_node().get_friendly_name().removeprefix(_RESULT),
                np.concatenate([np.atleast_1d(request.get_tensor(port).data.astype("float32")) for request in result])
                if self._streams > 1
                else result[0].get_tensor(port).data.astype("float32"),
            )
            for port in self._compiled[_MODEL].outputs
        ]

    def observe(self, inputs: Any) -> Observation:  # noqa: ARG002
        """Return the executing device and the precision that carries most FLOPs in the runtime's graphs."""
        assert self._settings is not None
        wanted = {device.split(".")[0] for device in (self._device(),)}
        work: Counter[tuple[str, str]] = Counter()
        for compiled in self._compiled.values():
            device = str(next(iter(compiled.get_property("EXECUTION_DEVICES"))))
            work.update({(device, precision): flops for precision, flops in work_of(compiled).items()})
        total = work.total()
        shares = {precision: 0.0 for _, precision in work}
        for (_, precision), flops in work.items():
            shares[precision] += flops / total
        return observation_of(
            work,
            self._settings.precision,
            at_home=lambda device: device.split(".")[0] in wanted,
            platform_of=lambda _: self.name,
            details={"precision_shares": {name: round(share, 4) for name, share in shares.items()}},
        )

    def options(self) -> dict[str, Any]:
        """Return how the weights were quantized, the streams, and the precision hint of a graph that stands for one operator."""
        assert self._settings is not None
        streams = {"streams": self._streams} if self._streams > 1 else {}
        own = {"inference_precision_hint": self._hint()} if self._settings.narrow_edges else {}
        return method_of(self._settings.precision, self._settings.purpose) | own | streams

    def _hint(self) -> str:
        assert self._settings is not None
        return _HINTS.get(self._settings.precision, "f32")

    def meter(self, device: str | None) -> Meter | Unread:
        """Return the processor's meter where it does the work; OpenVINO's other devices show no power to it."""
        if (device or "CPU").split(".")[0] == "CPU":
            return host_meter()
        return find_hwmon(("i915", "xe")) if str(device).startswith("GPU") else Unread(f"{device} shows no power.")

    def close(self) -> None:
        """Drop the request, the compiled graphs and the models."""
        self._requests, self._compiled, self._models = [], {}, {}


def _cut(model: Any, streams: int) -> None:
    """Give a graph with fixed shapes the batch of one stream; raises UsageError or UnsupportedWorkload where it cannot have it."""
    shapes = {port: list(port.get_shape()) for port in model.inputs}
    batch = next((shape[0] for shape in shapes.values() if shape), 1)
    if batch % streams:
        raise UsageError(
            f"a batch of {batch} cannot be split over {streams} streams.",
            field="options",
            remedy=f"Take a batch that is a multiple of {streams}.",
        )
    try:
        model.reshape({port: [batch // streams, *shape[1:]] for port, shape in shapes.items() if shape[:1] == [batch]})
    except RuntimeError as error:
        raise UnsupportedWorkload(
            f"the graph of this model has a batch of {batch} and takes no smaller one.",
            field="options",
            remedy="Measure it without streams.",
        ) from error


def _require_inputs(ports: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
    """Raise UnsupportedWorkload where a graph wants inputs that the model is not given."""
    if missing := sorted(ports.keys() - inputs.keys()):
        raise UnsupportedWorkload(
            f"the graph of this variant takes {', '.join(missing)}, and its model is given {', '.join(inputs)}.",
            field="model",
            remedy="Make the variant again with this version of Assay.",
        )


def _sum_on(device: str) -> str | None:
    """Return why a device cannot add two numbers, or None where it can."""
    import numpy as np
    import openvino as ov

    operand = ov.opset13.parameter([1], np.float32)
    try:
        compiled = ov.Core().compile_model(ov.Model([ov.opset13.add(operand, operand)], [operand]), device)
        total = float(compiled([np.ones(1, np.float32)])[0][0])
    except RuntimeError as error:
        return str(error).strip().splitlines()[-1]
    return None if total == 2.0 else f"1 + 1 gave {total}"


def _forward_graph(module: Any, inputs: dict[str, Any]) -> Any:
    """Return the graph of one forward pass with the shapes of the inputs made static and the outputs named."""
    import torch

    from runner.platforms.outputs import FlatOutputs, flatten

    with torch.no_grad():
        free, fixed = settled(module, inputs)
        names = [name for name, _ in flatten(module(**inputs))]
        model = recorded(FlatOutputs(module, list(free), fixed).eval(), tuple(free.values()))
    ports = list(model.inputs)
    if len(ports) != len(free):
        raise ValueError(f"the conversion kept {len(ports)} of {len(free)} inputs")
    for port, name in zip(ports, free, strict=True):
        port.get_node().set_friendly_name(name)
        port.get_tensor().set_names({name})
    model.reshape({port: list(tensor.shape) for port, tensor in zip(ports, free.values(), strict=True)})
    for port, name in zip(model.outputs, names, strict=True):
        port.get_node().set_friendly_name(_RESULT + name)
    return model


def _calibration(graph: Any, inputs: dict[str, Any]) -> list[dict[str, Any]]:
    """Return inputs of the graph for calibration: the given ones, and others like them with other noise."""
    import numpy as np

    names = [port.get_any_name() for port in graph.inputs]
    random = np.random.default_rng(0)
    sets = []
    for index in range(_CALIBRATION_SETS):
        chosen = {}
        for name in (name for name in names if name in inputs):
            array = np.asarray(inputs[name])
            # Noise stands for pixels and sound; the ids of a text are shuffled within it.
            if index and array.dtype.kind == "f":
                array = random.standard_normal(array.shape).astype(array.dtype)
            elif index and name.endswith("input_ids") and array.ndim == 2 and len(inputs) <= 2:
                array = random.permuted(array, axis=1)
            chosen[name] = array
        sets.append(chosen)
    return sets
