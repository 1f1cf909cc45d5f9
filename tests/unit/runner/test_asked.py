"""Options of an execution: read, refused, and a batch cut for streams."""

from __future__ import annotations

import numpy as np
import pytest

from domain.errors import UsageError
from runner.platforms.execution_options import ExecutionOptions, batch_parts, read_options
from runner.platforms.torch_eager import Cpu, Cuda, Mps, Rocm

CUDA = Cuda.known_options


def test_options_are_read() -> None:
    assert read_options((), platform="cuda", names=CUDA) == ExecutionOptions()
    assert read_options(("cuda-graphs",), platform="cuda", names=CUDA) == ExecutionOptions(graphs=True)
    assert read_options(("streams=4",), platform="cuda", names=CUDA) == ExecutionOptions(streams=4)
    assert read_options(("device-map",), platform="rocm", names=Rocm.known_options) == ExecutionOptions(device_map=True)
    assert read_options(("tensor-parallel=2",), platform="cpu", names=Cpu.known_options) == ExecutionOptions(
        strategy="tensor", ranks=2
    )
    assert read_options(("data-parallel=4",), platform="cpu", names=CUDA) == ExecutionOptions(strategy="ddp", ranks=4)
    assert read_options(("fsdp=2",), platform="cpu", names=CUDA) == ExecutionOptions(strategy="fsdp2", ranks=2)


@pytest.mark.parametrize(
    ("words", "known", "said"),
    [
        (("cuda-graphs",), Mps.known_options, "It has none"),
        (("cuda-graphs",), Cpu.known_options, "It has data-parallel, fsdp, tensor-parallel"),
        (("turbo",), CUDA, "It has cuda-graphs, data-parallel, device-map, fsdp, streams, tensor-parallel"),
        (("tensor-parallel",), CUDA, "tensor-parallel=2"),
        (("tensor-parallel=1",), CUDA, "tensor-parallel=2"),
        (("tensor-parallel=2", "device-map"), CUDA, "no other option"),
        (("fsdp=2", "data-parallel=2"), CUDA, "no other option"),
        (("fsdp=1",), CUDA, "fsdp=2"),
        (("streams",), CUDA, "streams=4"),
        (("streams=0",), CUDA, "streams=4"),
        (("cuda-graphs", "streams=2"), CUDA, "one stream of one device"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_with_what_can(
    words: tuple[str, ...], known: frozenset[str], said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        read_options(words, platform="this", names=known)
    assert refused.value.field == "options" and said in str(refused.value)


def test_a_batch_is_cut_evenly_and_what_has_none_goes_to_every_part() -> None:
    ids = np.arange(12).reshape(4, 3)
    first, second = batch_parts({"ids": ids, "scale": np.float32(2), "table": np.zeros((7, 2)), "flag": True}, 2)
    assert np.array_equal(np.concatenate([first["ids"], second["ids"]]), ids)
    assert first["table"].shape == second["table"].shape == (7, 2)
    assert first["flag"] is second["flag"] is True
    with pytest.raises(UsageError, match="multiple of 3"):
        batch_parts({"ids": ids}, 3)
