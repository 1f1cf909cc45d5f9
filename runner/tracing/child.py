"""Trace one model in a process of its own, which imports of torch and transformers only what a trace runs.

Nearly all of the time of a trace is imports, and no call on the meta device uses what most of them bring: torch's compiler,
its distributed tensors, and the optional packages that transformers imports where they are installed. A process that
goes on afterwards may need them, so that they are left out in one that ends with the trace.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from domain.configuration import Workload

__all__ = ["main", "trace_apart"]

_OPTIONAL = ("accelerate", "scipy", "sklearn", "torchao")
"""Packages that transformers does without where they are not installed."""
_COMPILER = "torch._dynamo"
_DECORATORS = ("allow_in_graph", "assume_constant_result", "disable")


class _Task(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `traced_phases`, the model by its name."""

    model: str
    work: Workload
    forward: bool | None


class _Compiler(ModuleType):
    """torch's compiler before it is loaded: decorators of it change nothing, and whatever else is asked of it loads it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self.__spec__ is None or self.__spec__.loader is None:
            raise AttributeError(name)
        self.__class__ = ModuleType  # type: ignore[assignment]
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def trace_apart(model: str, work: Workload, forward: bool | None) -> list[dict[str, Any]] | None:
    """Return what `traced_phases` gives of a model, by a new process; None where it fails, for whatever reason.

    Trace in this process then: that takes longer, and raises what is wrong.
    """
    if work.gradient_checkpointing:
        # Recomputing goes through wrappers of the compiler, and what they refer to lives longer.
        return None
    root = str(Path(__file__).resolve().parents[__name__.count(".")])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    process = subprocess.run(
        [sys.executable, "-P", "-m", __name__],
        input=msgspec.json.encode(_Task(model=model, work=work, forward=forward)),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    if process.returncode:
        return None
    sys.stderr.write(process.stderr.decode(errors="replace"))
    result: list[dict[str, Any]] = msgspec.json.decode(process.stdout)
    return result


def main() -> None:
    """Read a task from standard input and write the data of its phases to standard output."""
    # A third of the time of importing so much is the search for garbage, of which there is none.
    gc.disable()
    output, sys.stdout = sys.stdout.buffer, sys.stderr
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=_Task)
    _leave_out()
    from runner.models.sources import resolve
    from runner.tracing.trace import traced_phases

    output.write(msgspec.json.encode([*traced_phases(resolve(task.model, "random"), task.work, task.forward)]))
    output.flush()
    # What was loaded is not taken apart again.
    os._exit(0)


def _leave_out() -> None:
    """Let imports find neither the optional packages nor, where it is only mentioned, torch's compiler."""
    hidden: dict[str, Any] = dict.fromkeys(_OPTIONAL)
    sys.modules.update(hidden)
    import torch

    # As in a build of torch without the library.
    torch.distributed.is_available = lambda: False
    spec = find_spec(_COMPILER)
    if spec is None or _COMPILER in sys.modules:
        return
    compiler = _Compiler(_COMPILER)
    compiler.__spec__, compiler.__path__ = spec, spec.submodule_search_locations or []
    compiler.__dict__.update(dict.fromkeys(_DECORATORS, _unchanged))
    sys.modules[_COMPILER] = torch._dynamo = compiler


def _unchanged(function: Any = None, *_: Any, **__: Any) -> Any:
    return _unchanged if function is None else function


if __name__ == "__main__":
    main()
