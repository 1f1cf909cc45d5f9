"""PyTorch as a platform: one implementation for all of its devices, eager or compiled.

What did the work is seen operator by operator, in one more call under a dispatch mode: each operator with known
FLOPs counts by its FLOPs, with the device and the type of its inputs.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, ClassVar

from domain.compatibility.rules import TRAINABLE
from domain.configuration import Runtime, Workload
from domain.errors import UnsupportedPrecision
from runner.measure.generation import TorchGeneration, require_generation
from runner.measure.training import TorchTraining, require_compiler
from runner.platforms import torch_precision
from runner.platforms.base import Observation, Platform, Probe, Settings
from runner.platforms.data_parallel import RankTraining, local_batch_size, replicate, require_values, shard
from runner.platforms.execution_options import ExecutionOptions, read_options
from runner.platforms.shares import observation_of
from runner.platforms.splitting import split

__all__ = ["TorchPlatform"]

_MISSING = Probe(
    available=False,
    reason="torch is not installed.",
    remedy="Install the runner extra: pip install 'assay-bench[runner]'.",
)


class TorchPlatform(Platform):
    """Eager (or `torch.compile`d) execution of a module on one torch device."""

    device_type: ClassVar[str]

    def __init__(self) -> None:
        self._module: Any = None
        self._call: Any = None
        self._settings: Settings | None = None
        self._options: dict[str, Any] = {}
        self._trainer: TorchTraining | None = None
        self._asked = ExecutionOptions()
        self._remedy: str | None = None

    def _exists(self) -> str | None:
        """Return why torch has no such device here, or None where it has one."""
        raise NotImplementedError

    def _device_names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def probe(self) -> Probe:
        """Return whether the device exists, shown by a small matrix product on it."""
        if importlib.util.find_spec("torch") is None:
            return _MISSING
        import torch

        reason = self._exists()
        if reason:
            return Probe(
                available=False, reason=reason, remedy=self._remedy or f"Run on a machine with a {self.name} device."
            )
        try:
            product = torch.ones(8, 8, device=self.device_type) @ torch.ones(8, 8, device=self.device_type)
            total, where = float(product.sum().cpu()), product.device.type
        except RuntimeError as error:
            return Probe(available=False, reason=f"the device refused a small matrix product: {error}")
        if total != 512.0 or where != self.device_type:
            reason = f"a small matrix product gave {total} on {where}, not 512 on {self.device_type}."
            return Probe(available=False, reason=reason)
        evidence = f"torch {torch.__version__}: 8×8 matrix product on {product.device} gave the right sum"
        return Probe(available=True, devices=self._device_names(), evidence=evidence)

    def runtime(self) -> Runtime:
        """Return torch and its version, without the build's suffix."""
        try:
            version = importlib.metadata.version("torch").split("+")[0]
        except importlib.metadata.PackageNotFoundError:
            version = None
        return Runtime(name="torch", version=version)

    def precisions(self) -> tuple[str, ...]:
        """Return fp32 (no shortcuts), bf16, fp16, autocast over fp32 weights, and quantized weights."""
        quantized = () if self.refusals() else torch_precision.QUANTIZED
        return ("fp32", "bf16", "fp16", *torch_precision.AUTOCAST, *quantized)

    def refusals(self) -> dict[str, str]:
        """Return the quantized precisions where torchao is missing."""
        return torch_precision.refusals()

    def check(self, purpose: str, precision: str) -> None:
        """Refuse precisions that are not here, and those in which nothing can be trained."""
        super().check("inference", precision)
        if purpose == "training" and precision not in TRAINABLE:
            raise UnsupportedPrecision(
                f"nothing is trained in {precision}: small updates are lost, or there are no gradients.",
                field="precision",
                remedy="Train in fp32, bf16, amp-bf16 or amp-fp16.",
            )

    def load(self, model: Any, settings: Settings) -> None:
        """Move the module to the device in the precision asked for; fp32 means IEEE fp32, never tf32.

        For training the module is put in training mode with dropout as its config says, unless the settings say no.
        """
        import torch

        torch.set_num_threads(settings.threads)
        torch.set_float32_matmul_precision("high" if settings.precision == "tf32" else "highest")
        self._settings = settings
        self._asked = read_options(settings.options, platform=self.name, names=self.known_options)
        self._allow_tf32(settings.precision == "tf32")
        if settings.purpose == "generation":
            require_generation(model)
        device = settings.device or self.device_type
        dtype = getattr(torch, torch_precision.DTYPES[settings.precision])
        rank = settings.rank
        if rank is not None and rank.strategy == "tensor":
            split(model.to(dtype=dtype), rank, self.device_type)
            self._options |= {"tensor_parallel": rank.size}
        self._module = model.to(device=device, dtype=dtype)
        self._module.train(settings.purpose == "training" and settings.dropout)
        if settings.precision in (*torch_precision.QUANTIZED, "fp8"):
            self._options |= torch_precision.quantize(self._module, settings.precision, device)
        self._call = self._module
        if rank is not None and rank.strategy != "tensor":
            require_values(self._module)
            if rank.strategy == "fsdp2":
                shard(self._module, rank, self.device_type)
            self._options |= {"data_parallel": rank.size, "strategy": rank.strategy, "nodes": rank.nodes}
            self._options |= {"backend": "gloo" if self.device_type == "cpu" else "nccl"}
        self.synchronize()

    def _allow_tf32(self, allowed: bool) -> None:
        """Set the switch for tf32 convolutions where the device has one."""

    def weights_dtype(self, precision: str) -> str:
        """Return the type itself: torch makes weights in any."""
        return torch_precision.DTYPES[precision]

    def compile(self) -> bool:
        """Wrap the module with `torch.compile` where asked; its work happens in the first calls."""
        assert self._settings is not None
        if self._settings.compiled:
            self._call = _compiled(self._module)
            self._options |= {"compiler": "inductor"}
        return self._settings.compiled

    def free_batch(self) -> bool:
        """Return that a module takes any batch; a compiled one would be compiled again for each size."""
        assert self._settings is not None
        return not self._settings.compiled

    def compiling(self) -> int | None:
        """Return how many graphs torch.compile has made."""
        if self._settings is None or not self._settings.compiled:
            return None
        from torch._dynamo.utils import counters

        return int(counters["stats"]["unique_graphs"])

    def place(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return tensors on the device, floating ones in the module's precision."""
        return {name: self._placed(value) for name, value in inputs.items()}

    def _placed(self, value: Any) -> Any:
        import torch

        assert self._settings is not None
        if isinstance(value, dict):
            return {name: self._placed(each) for name, each in value.items()}
        if isinstance(value, list) and value and not isinstance(value[0], int | float):
            return [self._placed(each) for each in value]
        if isinstance(value, bool):
            return value
        dtype = getattr(torch, torch_precision.DTYPES[self._settings.precision])
        tensor = torch.as_tensor(value)
        return tensor.to(
            device=self._settings.device or self.device_type,
            dtype=dtype if tensor.is_floating_point() else tensor.dtype,
        )

    @contextmanager
    def _around(self, *, watched: bool = False) -> Iterator[None]:
        """Surround a call: without gradients where nothing is trained, with autocast where that was asked for."""
        import torch

        assert self._settings is not None
        with ExitStack() as stack:
            if self._settings.purpose != "training":
                # Compiled graphs keep buffers between calls, which inference mode forbids to change; and it hides
                # from who watches what a linear layer consists of.
                plain = watched or self._settings.compiled
                stack.enter_context(torch.no_grad() if plain else torch.inference_mode())
            narrow = torch_precision.AUTOCAST.get(self._settings.precision)
            if narrow is not None:
                stack.enter_context(torch.autocast(self._autocast_device(), dtype=getattr(torch, narrow)))
                stack.enter_context(torch_precision.autocast_refusals())
            yield

    def _autocast_device(self) -> str:
        assert self._settings is not None
        return (self._settings.device or self.device_type).split(":")[0]

    def run(self, inputs: Any) -> Any:
        """Call the module once."""
        with self._around():
            return self._call(**inputs)

    def generator(self, inputs: Any, output_tokens: int) -> TorchGeneration:
        """Return greedy steps; a compiled decoder gets a cache of fixed size, so that its shapes stay the same."""
        return TorchGeneration(
            self._module,
            inputs,
            call=self._call,
            context=self._around,
            fixed_tokens=output_tokens if self._call is not self._module else None,
        )

    def trainer(self, inputs: Any, workload: Workload, learning_rate: float) -> TorchTraining:
        """Return training steps; gradients are scaled where autocast is fp16."""
        import torch

        assert self._settings is not None
        scaler = torch.amp.GradScaler(self._autocast_device()) if self._settings.precision == "amp-fp16" else None
        kind: Callable[..., TorchTraining] = TorchTraining
        rank = self._settings.rank
        if rank is not None:
            # With dropout off two runs are compared, and what is compared is the loss of the whole batch.
            kind = partial(RankTraining, averaging=not self._settings.dropout, strategy=rank.strategy)
            self._options["local_batch_size"] = local_batch_size(workload, rank)
            if rank.strategy == "ddp" and self._call is self._module:
                self._call = replicate(self._module, inputs, self._around, rank, self.device_type)
        self._trainer = kind(
            self._module,
            inputs,
            workload,
            learning_rate,
            synchronize=self.synchronize,
            call=self._call,
            compiled=self._settings.compiled,
            context=self._around,
            scaler=scaler,
        )
        return self._trainer

    def outputs(self, result: Any) -> list[tuple[str, Any]]:
        """Return the floating outputs as float32 arrays."""
        from runner.platforms.outputs import flatten

        return [(name, tensor.detach().float().cpu().numpy()) for name, tensor in flatten(result)]

    def observe(self, inputs: Any) -> Observation:
        """Return the device and precision that carried most FLOPs of one call, and the share that was elsewhere."""
        assert self._settings is not None
        return observation_of(
            self._work(inputs),
            self._settings.precision,
            at_home=lambda device: device.split(":")[0] == self.device_type,
            platform_of=self._platform_of,
            details=self._compile_details(),
        )

    def _compile_details(self) -> dict[str, Any]:
        if self.compiling() is None:
            return {}
        from torch._dynamo.utils import counters

        return {"graphs": self.compiling(), "graph_breaks": sum(counters["graph_break"].values())}

    def _work(self, inputs: Any) -> Counter[tuple[str, str]]:
        """Return FLOPs by (device, precision); of parameters and outputs, by elements, where no operator is known."""
        from runner.platforms.outputs import flatten

        recorder = self._recorder()
        with recorder:
            result = self._once(inputs)
        self.synchronize()
        work: Counter[tuple[str, str]] = Counter(recorder.work)
        if not work:
            tensors = [*self._module.parameters(), *(tensor for _, tensor in flatten(result))]
            work.update({(str(t.device), str(t.dtype).removeprefix("torch.")): t.numel() for t in tensors})
        named: Counter[tuple[str, str]] = Counter()
        for (device, dtype), flops in work.items():
            named[(device, torch_precision.observed_name(dtype))] += flops
        return named

    def _recorder(self) -> Any:
        from runner.platforms.work import WorkRecorder

        return WorkRecorder()

    def _once(self, inputs: Any) -> Any:
        """Do the kind of work that was measured once, without the compiler, and without changing weights."""
        assert self._settings is not None
        watched = partial(self._around, watched=True)
        if self._settings.purpose == "generation":
            steps = TorchGeneration(self._module, inputs, context=watched)
            steps.prefill()
            steps.decode()
            return steps.last_output
        with watched():
            result = self._module(**inputs)
        if self._settings.purpose == "training":
            result.loss.backward()
            self._module.zero_grad(set_to_none=True)
        return result

    def _platform_of(self, device: str) -> str:
        return self.name if device.split(":")[0] == self.device_type else device.split(":")[0]

    def options(self) -> dict[str, Any]:
        """Return how weights were quantized and which compiler ran."""
        return dict(self._options)

    def close(self) -> None:
        """Drop the module."""
        self._module = self._call = self._trainer = None


def _compiled(module: Any) -> Any:
    """Return the compiled module; raises PartMissing where the compiler for the processor's kernels is missing."""
    import torch

    if next(module.parameters()).device.type == "cpu":
        require_compiler("torch compiles the module", "compiled", "measure without --compiled")
    return torch.compile(module)
