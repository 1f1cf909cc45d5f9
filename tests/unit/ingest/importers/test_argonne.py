"""LLM-Inference-Bench's table: what throughput counts there, and what llama.cpp's batch is. The samples are ours."""

from __future__ import annotations

import pytest

from domain.events import decode_event, encode_event
from ingest.importers.files import File
from ingest.importers.refusals import Refused
from ingest.importers.serving.argonne import Argonne

HEADER = "Hardware,Num of Hardware,Framework,Model,Input Output Length,Batch Size,Latency,Throughput\n"
VLLM = "Nvidia H100 GPU,2,vLLM,meta-llama/Llama-2-7b-hf,256,16,2.0,4096.0\n"
LLAMA_CPP = "AMD MI250 GPU,1,llama.cpp,Qwen/Qwen2-7B,512,64,4.0,256.0\n"


@pytest.fixture
def write(tmp_path):
    def written(content, name="All_results.csv"):
        (tmp_path / name).write_text(content)
        return File(tmp_path / name, name, given=True)

    return written


def read(file):
    items = list(Argonne().rows(file))
    events = [item for item in items if not isinstance(item, Refused)]
    assert all(decode_event(encode_event(event)).warnings == () for event in events)
    rows = [event["data"] for event in events if ".run." not in event["type"]]
    return rows, [item for item in items if isinstance(item, Refused)]


def test_throughput_counts_prompt_and_output_and_latency_is_the_whole_generation(write):
    (row,), refused = read(write(HEADER + VLLM))
    assert refused == []
    assert row["model"]["id"] == "meta-llama/Llama-2-7b-hf"
    assert row["workload"] == {
        "mode": "inference", "scenario": "offline", "batch_size": 16, "input_tokens": 256, "output_tokens": 256,
    }  # fmt: skip
    assert row["execution"] == {"platform": "cuda", "runtime": {"name": "vllm"}}
    assert row["hardware"] == {"id": "nvidia-h100-sxm", "kind": "gpu", "count": 2}
    # 16 prompts of 256 and 16 answers of 256 in 2 s: 2048 tokens a second come out, 8 answers a second.
    assert row["metrics"] == {"latency_ms": {"mean": 2000.0}, "tokens_per_s": 2048.0, "throughput_per_s": 8.0}
    assert row["imported"] == {
        "row": 2, "original": {"Latency (s)": 2.0, "Throughput (tokens/s, prompt and output)": 4096.0},
    }  # fmt: skip
    assert row["provenance"]["licence"] == "BSD-3-Clause"


def test_llama_cpp_ran_one_sequence_whatever_its_batch_column_says(write):
    (row,), _ = read(write(HEADER + LLAMA_CPP))
    assert row["workload"]["batch_size"] == 1
    assert row["execution"]["options"] == {"n_batch": 64}
    assert row["execution"]["platform"] == "rocm"
    assert row["metrics"]["throughput_per_s"] == pytest.approx(0.25)
    assert "validity" not in row


@pytest.mark.parametrize(
    ("device", "count", "latency", "verdict"),
    [
        ("Intel PVC GPU", 1, 18.7, "invalid"), ("Intel PVC GPU", 1, 45.4, "suspect"),
        ("Intel PVC GPU", 2, 18.7, None), ("Intel Max 1550", 1, 18.7, None),
    ],
)  # fmt: skip
def test_the_series_whose_times_hold_a_set_up_says_so(write, device, count, latency, verdict):
    tokens_per_s = 16 * 512 / latency
    (row,), _ = read(
        write(HEADER + f"{device},{count},vLLM,meta-llama/Llama-2-7b-hf,256,16,{latency},{tokens_per_s}\n")
    )
    assert row["hardware"]["id"] == "intel-data-center-gpu-max-1550"
    assert row.get("validity", {}).get("verdict") == verdict
    assert row["imported"].get("rules") == (["warm-up-inside"] if verdict else None)


def test_a_rate_that_fits_no_batch_is_suspect(write):
    (row,), _ = read(write(HEADER + VLLM.replace(",2,vLLM", ",1,vLLM").replace("4096.0", "9096.0")))
    assert row["validity"]["verdict"] == "suspect" and row["imported"]["rules"] == ["inconsistent-rate"]


@pytest.mark.parametrize(
    ("hardware", "slug", "platform"),
    [
        ("Nvidia A100 GPU", "nvidia-a100-sxm-80gb", "cuda"), ("Intel PVC GPU", "intel-data-center-gpu-max-1550", "xpu"),
        ("Habana Gaudi2", "intel-gaudi2", "hpu"), ("SambaNova SN40L", "sambanova-sn40l", "other"),
        ("Acme X1 GPU", "acme-x1-gpu", "other"),
    ],
)  # fmt: skip
def test_devices_by_the_names_of_the_table(write, hardware, slug, platform):
    (row,), _ = read(write(HEADER + VLLM.replace("Nvidia H100 GPU", hardware)))
    assert (row["hardware"]["id"], row["execution"]["platform"]) == (slug, platform)


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (VLLM.replace("2.0,", "fast,"), "Latency"), (VLLM.replace(",256,", ",0,"), "Input Output Length"),
        (VLLM.replace("meta-llama/Llama-2-7b-hf", ""), "Model"), (VLLM.replace(",16,", ",1.5,"), "Batch Size"),
    ],
)  # fmt: skip
def test_a_bad_row_is_refused_alone_with_a_file_to_mend(write, row, field):
    rows, (refused,) = read(write(HEADER + row + VLLM))
    assert (refused.row, refused.field, len(rows)) == (2, field, 1)
    assert refused.content == HEADER + row


def test_recognised_by_its_header_and_read_twice_alike(write):
    file = write(HEADER + VLLM + LLAMA_CPP)
    assert Argonne().sniff(file)
    assert not Argonne().sniff(write("model,latency\n", "other.csv"))
    assert list(Argonne().rows(file)) == list(Argonne().rows(file))
