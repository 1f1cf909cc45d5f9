"""What QNN's profile says, on the file that onnxruntime-qnn 2.7 wrote of one product run twice (its HTP simulator)."""

from __future__ import annotations

import pytest

from runner.platforms.qnn import emulation, layers_of, provider_options, times_of

PROFILE = """Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier
0,FINALIZE,52833,US,BACKEND,ROOT,QNN (finalize) time
0,UNKNOWN,26401,US,BACKEND,SUB-EVENT,Graph Optimizations
0,BACKEND,0,COUNT,BACKEND,ROOT,Number of HVX threads used
0,BACKEND,13089,CYCLES,BACKEND,ROOT,Accelerator (execute) time (cycles)
0,NODE,6380,CYCLES,BACKEND,SUB-EVENT,Input OpId_2 (cycles)
0,NODE,3351,CYCLES,BACKEND,SUB-EVENT,MatMul0:OpId_17 (cycles)
0,NODE,3358,CYCLES,BACKEND,SUB-EVENT,Output OpId_3 (cycles)
0,BACKEND,97042,US,BACKEND,ROOT,Accelerator (execute) time
0,EXECUTE,97179,US,BACKEND,ROOT,QNN (execute) time
0,BACKEND,0,COUNT,BACKEND,ROOT,Number of HVX threads used
0,BACKEND,7068,CYCLES,BACKEND,ROOT,Accelerator (execute) time (cycles)
0,NODE,3239,CYCLES,BACKEND,SUB-EVENT,Input OpId_2 (cycles)
0,NODE,1346,CYCLES,BACKEND,SUB-EVENT,MatMul0:OpId_17 (cycles)
0,NODE,2483,CYCLES,BACKEND,SUB-EVENT,Output OpId_3 (cycles)
0,BACKEND,106672,US,BACKEND,ROOT,Accelerator (execute) time
0,EXECUTE,106789,US,BACKEND,ROOT,QNN (execute) time
"""


def test_layers_are_summed_over_calls_in_their_own_unit_longest_first() -> None:
    layers = layers_of(PROFILE)
    assert [(each["layer"], each["time"], each["unit"]) for each in layers] == [
        ("Input", 9619, "CYCLES"), ("Output", 5841, "CYCLES"), ("MatMul0", 4697, "CYCLES"),
    ]  # fmt: skip
    assert sum(each["share"] for each in layers) == pytest.approx(1, abs=1e-3)


def test_units_are_never_added() -> None:
    mixed = PROFILE + "0,NODE,40,US,BACKEND,SUB-EVENT,Softmax1:OpId_9\n"
    shares = {(each["layer"], each["unit"]): each["share"] for each in layers_of(mixed)}
    assert shares["Softmax1", "US"] == 1.0


def test_times_are_means_over_calls_in_ms_and_counts_stay_counts() -> None:
    found = times_of(PROFILE)
    assert found["QNN (execute) time"] == pytest.approx((97.179 + 106.789) / 2)
    assert found["Accelerator (execute) time (cycles)"] == pytest.approx((13089 + 7068) / 2)
    assert "QNN (finalize) time" not in found
    assert times_of("") == {} and layers_of("not,a,profile\n1,2,3\n") == []


@pytest.mark.parametrize(
    ("kinds", "machine", "said"),
    [
        (["NPU"], "aarch64", None),
        (["CPU", "NPU"], "ARM64", None),
        (["CPU"], "x86_64", "simulates one"),
        (["CPU"], "AMD64", "simulates one"),
        (["CPU"], "aarch64", "lists no NPU"),
    ],
)
def test_only_a_listed_npu_is_one(kinds: list[str], machine: str, said: str | None) -> None:
    found = emulation(kinds, machine)
    assert (found is None) if said is None else (said in str(found))


def test_layers_are_timed_only_where_a_file_is_named() -> None:
    assert "profiling_level" not in provider_options("libQnnHtp.so")
    timed = provider_options("libQnnHtp.so", profile="layers.csv")
    assert (timed["profiling_level"], timed["profiling_file_path"]) == ("detailed", "layers.csv")
