"""Training steps with a torch module on one batch: the loss is the one its own head computes from labels.

Where the forward pass ends and the loss begins is not in any interface. The last module that runs before the forward
pass returns is the head; what follows it is the loss. It is found in one step that is not measured, and only it
carries a hook.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any

from domain.configuration import Workload
from domain.errors import PartMissing, UnsupportedWorkload

__all__ = ["TorchTraining", "enable_checkpointing", "make_optimizer", "require_compiler"]

_EIGHT_BITS = "adamw-8bit"


def make_optimizer(name: str, parameters: Any, learning_rate: float) -> Any:
    """Return AdamW, AdamW with its moments in 8 bits, or plain SGD, with their defaults for all but the rate.

    Raises PartMissing where the one in 8 bits lacks torchao, or the compiler that makes its step.
    """
    import torch

    kinds = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD, _EIGHT_BITS: _adamw_8bit}
    if name not in kinds:
        raise UnsupportedWorkload(
            f"no optimizer is known as {name!r}.", field="optimizer", remedy=f"One of {', '.join(kinds)}."
        )
    return kinds[name]([each for each in parameters if each.requires_grad], lr=learning_rate)


def _adamw_8bit(parameters: Sequence[Any], lr: float) -> Any:
    """Return torchao's AdamW, which keeps both moments of parameters with at least 4,096 elements in blocks of 8 bits."""
    if importlib.util.find_spec("torchao") is None:
        raise PartMissing(
            f"{_EIGHT_BITS} needs torchao.", field="optimizer", remedy="pip install 'assay-bench[quantization]'"
        )
    if any(parameter.device.type == "cpu" for parameter in parameters):
        require_compiler("adamw-8bit compiles its step", "optimizer", "train with adamw")
    optim = importlib.import_module("torchao.optim")
    return optim.AdamW8bit(parameters, lr=lr)


def require_compiler(what: str, field: str, instead: str) -> None:
    """Raise PartMissing where torch finds no C++ compiler, which it needs to compile for the processor."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler as error:
        raise PartMissing(
            f"{what}, which needs a C++ compiler, and none was found.",
            field=field,
            remedy=f"Install g++ or clang++ (apt-get install g++), or {instead}.",
        ) from error


def enable_checkpointing(module: Any) -> None:
    """Let activations be computed again in the backward pass; raises UnsupportedWorkload where the class cannot."""
    able = getattr(module, "supports_gradient_checkpointing", False)
    if not able:
        raise UnsupportedWorkload(
            f"{type(module).__name__} has no gradient checkpointing.",
            field="gradient_checkpointing",
            remedy="Train it without.",
        )
    how = {"use_reentrant": False}
    # transformers 5 is about to drop the older name.
    if hasattr(module, "activation_checkpointing_enable"):
        module.activation_checkpointing_enable(activation_checkpointing_kwargs=how)
    else:
        module.gradient_checkpointing_enable(gradient_checkpointing_kwargs=how)


class TorchTraining:
    """Steps on one batch of inputs with labels.

    `call` is the module, or what it was compiled to or wrapped in; `context` surrounds the forward pass (autocast), and `scaler`
    guards small gradients where it is given. Raises UnsupportedWorkload where the module computes no loss from them.
    """

    def __init__(
        self,
        module: Any,
        inputs: Mapping[str, Any],
        workload: Workload,
        learning_rate: float,
        *,
        synchronize: Callable[[], None],
        call: Callable[..., Any] | None = None,
        compiled: bool = False,
        context: Callable[[], AbstractContextManager[Any]] | None = None,
        scaler: Any = None,
    ) -> None:
        self._module = module
        self._call = module if call is None else call
        self._inputs = dict(inputs)
        self._synchronize = synchronize
        self._context = context or nullcontext
        self._scaler = scaler
        self._loss: Any = None
        self._head_done: float | None = None
        if workload.gradient_checkpointing:
            enable_checkpointing(module)
        # A compiled graph is one piece: a hook inside would break it in two.
        if not compiled:
            self._mark_head()
        self._optimizer = make_optimizer(workload.optimizer or "adamw", module.parameters(), learning_rate)

    def _mark_head(self) -> None:
        """Find the module that ends last in a forward pass, and note the time whenever it does."""
        import torch

        ended: list[Any] = []
        # Some classes hold their loss function as a module of their own.
        losses = torch.nn.modules.loss._Loss
        inner = [each for each in self._module.modules() if each is not self._module and not isinstance(each, losses)]
        hooks = [each.register_forward_hook(lambda item, *_: ended.append(item)) for each in inner]
        try:
            with torch.no_grad(), self._context():
                self._require_loss(self._module(**self._inputs))
        finally:
            for hook in hooks:
                hook.remove()
        if ended:
            ended[-1].register_forward_hook(self._note_head)

    def _note_head(self, *_: Any) -> None:
        self._synchronize()
        self._head_done = perf_counter()

    def _require_loss(self, output: Any) -> None:
        if getattr(output, "loss", None) is None:
            raise UnsupportedWorkload(
                f"{type(self._module).__name__} computes no loss from these inputs.",
                field="mode",
                remedy="Take a class with a task's head, or measure inference.",
            )

    def forward(self) -> float | None:
        """Compute outputs and loss; return when the loss began, None where that is unknown."""
        self._head_done = None
        with self._context():
            output = self._call(**self._inputs)
        self._require_loss(output)
        self._loss = output.loss
        return self._head_done

    def backward(self) -> None:
        """Compute gradients, scaled where a scaler is there."""
        loss = self._loss if self._scaler is None else self._scaler.scale(self._loss)
        loss.backward()

    def update(self) -> None:
        """Step, and drop the gradients."""
        if self._scaler is None:
            self._optimizer.step()
        else:
            self._scaler.step(self._optimizer)
            self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)

    def loss(self) -> float:
        """Return the last loss."""
        return float(self._loss.detach().float().cpu())

    def gradients_finite(self) -> bool:
        """Return whether all gradients are finite."""
        import torch

        grads = [each.grad for each in self._module.parameters() if each.grad is not None]
        return bool(grads) and all(bool(torch.isfinite(gradient).all()) for gradient in grads)
