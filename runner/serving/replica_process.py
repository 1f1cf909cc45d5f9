"""The process of a replica: it loads one case as a measurement does, shows what did the work, and answers calls."""

from __future__ import annotations

import socket
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import msgspec

from domain.errors import AssayError, PlatformUnavailable
from runner.campaign.discovery import Announcer
from runner.machine.processor import threads_allowed
from runner.machine.scrub import scrub
from runner.measure.prepared_case import CARD, INPUTS, available, built_for, read_arrays, set_threads
from runner.platforms.base import Converted, Observation, Platform, Settings
from runner.platforms.registry import word
from runner.protocol.child import classify
from runner.protocol.tasks import Case, Failed, Serve
from runner.serving.contract import Tensor
from runner.serving.exchange import KINDS, Answer, Buffer, Infer, Loaded, Refused, Reply, TensorSpec

__all__ = ["require_observed", "serve"]

_FALLBACK = 0.05
"""A larger share of the work on another device, or in another precision, is not what was asked for."""
_CLOSE = {"fp32": 1e-3, "tf32": 5e-3}
_CLOSE_NARROW = 5e-2
"""How far answers of a joined call may be from those of single calls, as a share of the largest number in them."""
_SEQUENCES = frozenset({"input_ids", "attention_mask", "token_type_ids"})


def serve(task: Serve, speaker: Announcer) -> dict[str, Any]:
    """Load the case and answer calls until the other end closes; raises where something else than was asked for ran."""
    connection = Connection(socket.socket(fileno=task.socket).detach())
    inputs, outputs = Buffer(task.inputs), Buffer(task.outputs)
    loaded = _Model(task, speaker)
    speaker.reach("run")
    connection.send_bytes(msgspec.msgpack.encode(loaded.card))
    decoder = msgspec.msgpack.Decoder(Infer)
    while True:
        try:
            call = decoder.decode(connection.recv_bytes())
        except (EOFError, ConnectionError):
            loaded.platform.close()
            return {}
        connection.send_bytes(msgspec.msgpack.encode(_answered(loaded, call, inputs, outputs)))


def _answered(loaded: _Model, call: Infer, inputs: Buffer, outputs: Buffer) -> Reply:
    try:
        given = {tensor.name: tensor.array for tensor in inputs.read(call.heads, call.size)}
        values, call_ms = loaded.call(given)
        heads, size = outputs.write(values)
        return Answer(heads=heads, size=size, call_ms=call_ms)
    except Exception as error:
        outcome, remedy = classify(error)
        detail = error.detail if isinstance(error, AssayError) else str(error)
        return Refused(
            failed=Failed(
                stage="run",
                outcome=outcome,
                error=type(error).__name__,
                message=scrub(detail or repr(error)),
                remedy=remedy,
            )
        )


class _Model:
    """A platform with the model loaded, and its card."""

    def __init__(self, task: Serve, speaker: Announcer) -> None:
        import numpy as np

        case = task.case
        speaker.reach("resolve")
        self.platform: Platform = available(case)
        self._fixed: dict[str, Any] = {}
        settings = Settings(
            precision=case.precision,
            threads=case.threads or threads_allowed(),
            device=case.device,
            compiled=case.compiled,
            options=case.options,
            threads_named=case.threads is not None,
        )
        raw, model, checkpoint = self._load(task, settings, speaker)
        free = task.max_batch > 1 and self.platform.free_batch()
        speaker.reach("compile")
        self.platform.compile()
        self._example = {}
        for name, value in raw.items():
            if isinstance(value, bool | dict | list):
                self._fixed[name] = value
            else:
                self._example[name] = np.asarray(value)
        speaker.reach("first_run")
        first, _ = self.call(self._example)
        observed = self.platform.observe(self.platform.place({**self._example, **self._fixed}))
        require_observed(case, observed)
        self._joined, why = (task.max_batch, None) if task.max_batch == 1 else self._try_joining(case, free, first)
        if why is None and task.max_batch > 1:
            # The memory of the largest call is taken before the endpoint says that it is ready.
            self.call({name: np.repeat(array, task.max_batch, axis=0) for name, array in self._example.items()})
            self._joined = task.max_batch
        self.card = Loaded(
            model=model,
            runtime=self.platform.runtime(),
            threads=self.platform.threads_used() or settings.threads,
            options=self.platform.options(),
            device=observed.device,
            platform=observed.platform,
            precision=observed.precision,
            inputs=tuple(self._spec(name, array) for name, array in self._example.items()),
            outputs=tuple(self._output_spec(tensor) for tensor in first),
            max_batch=self._joined,
            unjoined=why,
            length=next((array.shape[1] for name, array in self._example.items() if name == "input_ids"), None),
            checkpoint=checkpoint,
        )

    def _load(self, task: Serve, settings: Settings, speaker: Announcer) -> tuple[dict[str, Any], dict[str, Any], Any]:
        """Load the module, or its converted form; return example inputs, the model as rows have it, and its checkpoint."""
        if task.folder is None:
            set_threads(task.case)
            built, inputs, _ = built_for(task.case, self.platform.weights_dtype(task.case.precision), speaker)
            self.platform.load(built.module, settings)
            location = built.source.location
            # What no number type of numpy holds is given in fp32, and placed in the model's own type.
            wide = {name: _widened(value) for name, value in inputs.items()}
            return wide, msgspec.to_builtins(built.model()), str(location) if location else None
        speaker.reach("load")
        folder = Path(task.folder)
        card = msgspec.json.decode((folder / CARD).read_bytes())
        self.platform.load(Converted(folder=folder), settings)
        return read_arrays(folder / INPUTS), card["model"], card.get("checkpoint")

    def call(self, inputs: dict[str, Any]) -> tuple[list[Tensor], float]:
        """Return the outputs of one call, and the time of placing and running it in ms."""
        import numpy as np

        started = perf_counter_ns()
        result = self.platform.run(self.platform.place({**inputs, **self._fixed}))
        self.platform.synchronize()
        took = (perf_counter_ns() - started) / 1e6
        return [Tensor(name=name, array=np.asarray(array)) for name, array in self.platform.outputs(result)], took

    def _try_joining(self, case: Case, free: bool, first: list[Tensor]) -> tuple[int, str | None]:
        """Return 1 and why calls cannot be joined, or None where two joined items are answered as each alone."""
        import numpy as np

        if not free:
            return 1, "the platform runs one fixed batch."
        if any(array.ndim == 0 or len(array) != 1 for array in self._example.values()):
            return 1, "its inputs have no common batch axis."
        if any(tensor.array.ndim == 0 or len(tensor.array) != 1 for tensor in first):
            return 1, "its outputs have no batch axis."
        other = {name: _varied(array) for name, array in self._example.items()}
        try:
            second, _ = self.call(other)
            both, _ = self.call({name: np.concatenate([self._example[name], other[name]]) for name in other})
        except Exception as error:
            return 1, f"two joined items could not be run ({type(error).__name__})."
        allowed = _CLOSE.get(case.precision, _CLOSE_NARROW)
        for one, two, joined in zip(first, second, both, strict=True):
            expected = np.concatenate([one.array, two.array])
            if joined.array.shape != expected.shape:
                return 1, "the outputs of joined items are not those of each in a row."
            largest = float(np.abs(expected).max(initial=0.0)) or 1.0
            if not float(np.abs(joined.array - expected).max(initial=0.0)) <= allowed * largest:
                return 1, f"answers of joined items differ from those of each alone by more than {allowed:.1%}."
        return 0, None

    def _spec(self, name: str, array: Any) -> TensorSpec:
        shape = [int(size) for size in array.shape]
        if shape and self._joined > 1:
            shape[0] = -1
        if name in _SEQUENCES and not self.platform.converts and len(shape) == 2:
            shape[1] = -1
        return TensorSpec(name=name, datatype=KINDS[str(array.dtype)], shape=tuple(shape))

    def _output_spec(self, tensor: Tensor) -> TensorSpec:
        shape = [int(size) for size in tensor.array.shape]
        if shape and self._joined > 1:
            shape[0] = -1
        if not self.platform.converts and len(shape) == 3 and _SEQUENCES & self._example.keys():
            shape[1] = -1
        return TensorSpec(name=tensor.name, datatype=KINDS[str(tensor.array.dtype)], shape=tuple(shape))


def require_observed(case: Case, observed: Observation) -> None:
    """Raise PlatformUnavailable where another platform or precision did the work than was asked for."""
    for field, wanted, seen in (
        ("platform", word(case.platform), observed.platform),
        ("precision", case.precision, observed.precision),
    ):
        if wanted != seen:
            raise PlatformUnavailable(
                f"{wanted} was asked for, and {seen} did the work.",
                field=field,
                remedy=f"Ask for {seen}, or name platforms that may take over with --failover.",
            )
    if observed.fallback_share > _FALLBACK:
        raise PlatformUnavailable(
            f"{observed.fallback_share:.0%} of the work fell back to another device or precision.",
            field="platform",
            remedy="Take another platform or precision, or name platforms that may take over with --failover.",
        )


def _varied(array: Any) -> Any:
    """Return an item like another one that gives other answers."""
    import numpy as np

    if array.dtype.kind == "f":
        return (np.roll(array, 1, axis=-1) * np.float32(0.5)).astype(array.dtype)
    return np.ascontiguousarray(array[..., ::-1])


def _widened(value: Any) -> Any:
    return value.float() if getattr(value, "is_floating_point", None) and value.is_floating_point() else value
