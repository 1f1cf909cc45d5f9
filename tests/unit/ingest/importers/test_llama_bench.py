"""llama-bench: the three tests, models and quantization by name, builds with and without `backends`. The samples are ours."""

from __future__ import annotations

import csv
import io
import json

import pytest

from ingest.importers.serving.llama_bench import LlamaBench

READER = LlamaBench()
PROMPT = {
    "build_commit": "abcdef12", "build_number": 6000, "cpu_info": "AMD EPYC 7763 64-Core Processor",
    "gpu_info": "NVIDIA GeForce RTX 4090", "backends": "CUDA", "model_filename": "/home/somebody/gguf/Acme-Tiny-7B-Q4_K_M.gguf",
    "model_type": "qwen2 7B Q4_K - Medium", "model_size": 4677120000, "model_n_params": 7615616512, "n_batch": 2048,
    "n_ubatch": 512, "n_threads": 8, "cpu_mask": "0x0", "cpu_strict": False, "poll": 50, "type_k": "f16", "type_v": "f16",
    "n_gpu_layers": 99, "n_cpu_moe": 0, "split_mode": "layer", "main_gpu": 0, "no_kv_offload": False, "flash_attn": True,
    "devices": "auto", "tensor_split": "0.00", "tensor_buft_overrides": "none", "use_mmap": True, "embeddings": False,
    "no_op_offload": 0, "n_prompt": 512, "n_gen": 0, "n_depth": 0, "test_time": "2026-03-04T05:06:07Z",
    "avg_ns": 70000000, "stddev_ns": 1000000, "avg_ts": 7314.2857, "stddev_ts": 104.0,
    "samples_ns": [71000000, 69000000], "samples_ts": [7211.27, 7420.29],
}  # fmt: skip
GENERATION = {
    **PROMPT, "n_prompt": 0, "n_gen": 128, "n_depth": 1024, "test_time": "2026-03-04T05:06:09Z", "avg_ns": 1280000000,
    "stddev_ns": 0, "avg_ts": 100.0, "stddev_ts": 0.0, "samples_ns": [1280000000], "samples_ts": [100.0],
}  # fmt: skip
RESULTS = [PROMPT, GENERATION]
LINES = json.dumps(PROMPT) + "\n" + json.dumps(GENERATION) + "\n"
OLD = {
    "build_commit": "3469684", "build_number": 1275, "cuda": True, "opencl": False, "metal": False, "gpu_blas": True,
    "blas": True, "cpu_info": "13th Gen Intel(R) Core(TM) i9-13900K", "gpu_info": "NVIDIA GeForce RTX 3090 Ti",
    "model_filename": "models/7B/ggml-model-q4_0.gguf", "model_type": "llama 7B mostly Q4_0", "model_size": 3825065984,
    "model_n_params": 6738415616, "n_batch": 512, "n_threads": 16, "f16_kv": True, "n_gpu_layers": 10, "main_gpu": 0,
    "mul_mat_q": True, "tensor_split": "0.00", "n_prompt": 512, "n_gen": 128, "test_time": "2023-09-23T12:09:57Z",
    "avg_ns": 2000000000, "stddev_ns": 985423, "avg_ts": 320.0, "stddev_ts": 1.0, "samples_ns": [], "samples_ts": [],
}  # fmt: skip


def table(*rows):
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    names = [name for name in rows[0] if not name.startswith("samples")]
    flags = {True: "1", False: "0"}
    for row in rows:
        writer.writerow(
            [flags.get(row[name], row[name]) if isinstance(row[name], bool) else row[name] for name in names]
        )
    return ",".join(names) + "\n" + out.getvalue()


TABLE = table(PROMPT, GENERATION)


def test_a_prompt_is_a_pass_over_its_tokens(reads):
    read = reads(READER, RESULTS, "bench.json")
    event, data = read.rows[0], read.data[0]
    assert event["time"] == "2026-03-04T05:06:07+00:00"
    assert data["model"] == {
        "id": "Acme-Tiny-7B", "category": "text_generation", "family": "qwen2", "parameters": 7615616512,
    }  # fmt: skip
    assert data["workload"] == {
        "mode": "inference",
        "scenario": "single_stream",
        "batch_size": 1,
        "sequence_length": 512,
    }
    assert data["execution"] == {
        "platform": "cuda", "runtime": {"name": "llama.cpp", "version": "6000"}, "precision": "q4_k_m", "threads": 8,
        "options": {"quantization": "q4_k_m", "n_batch": 2048, "n_ubatch": 512, "type_k": "f16", "type_v": "f16", "flash_attn": True},
    }  # fmt: skip
    assert data["hardware"] == {"id": "nvidia-rtx-4090", "kind": "gpu", "count": 1}
    assert data["metrics"] == {"latency_ms": {"mean": 70.0, "stddev": 1.0, "min": 69.0, "max": 71.0, "n": 2}}
    assert data["imported"]["original"]["avg_ts (tokens/s)"] == 7314.2857
    assert data["environment"]["libraries"] == {"llama.cpp": "6000-abcdef12"}
    assert "somebody" not in json.dumps(event)


def test_a_generation_is_timed_by_token_at_its_depth(reads):
    data = reads(READER, RESULTS, "bench.json").data[1]
    assert data["workload"]["output_tokens"] == 128 and "input_tokens" not in data["workload"]
    assert data["metrics"]["tpot_ms"] == 10.0 and data["metrics"]["tokens_per_s"] == 100.0
    assert data["execution"]["options"]["n_depth"] == 1024


def test_lines_say_the_same_as_a_list(reads):
    listed, lines = reads(READER, RESULTS, "bench.json"), reads(READER, LINES, "bench.jsonl")
    assert [event["id"] for event in listed.rows] == [event["id"] for event in lines.rows]
    assert listed.ended["measured"] == 2


def test_a_table_says_the_same_without_the_samples(reads):
    listed, table_ = reads(READER, RESULTS, "bench.json"), reads(READER, TABLE, "bench.csv")
    for one, other in zip(listed.data, table_.data, strict=True):
        for part in ("model", "workload", "execution", "hardware", "environment"):
            assert one[part] == other[part]
        assert other["metrics"]["latency_ms"].items() <= one["metrics"]["latency_ms"].items()


def test_an_old_build_with_prompt_and_generation_and_some_layers_on_the_gpu(reads):
    (data,) = reads(READER, [OLD], "old.json").data
    assert data["model"]["id"] == "meta-llama/Llama-2-7b-hf" and data["model"]["family"] == "llama"
    assert data["execution"]["precision"] == "int4"
    assert data["execution"]["options"]["n_gpu_layers"] == 10
    assert (data["execution"]["platform"], data["hardware"]["id"]) == ("cuda", "nvidia-rtx-3090-ti")
    assert data["workload"]["input_tokens"] == 512 and data["workload"]["output_tokens"] == 128
    assert data["metrics"]["tokens_per_s"] == 64.0 and "tpot_ms" not in data["metrics"]


@pytest.mark.parametrize(
    ("members", "platform", "hardware", "count"),
    [
        ({"n_gpu_layers": 0}, "cpu", "amd-epyc-7763", 1),
        ({"backends": "CPU", "gpu_info": ""}, "cpu", "amd-epyc-7763", 1),
        (
            {"backends": "ROCm", "gpu_info": "AMD Instinct MI300X, AMD Instinct MI300X"},
            "rocm",
            "amd-instinct-mi300x",
            2,
        ),
        ({"backends": "Metal,BLAS", "gpu_info": "Apple M2 Max"}, "mps", "apple-m2-max-gpu", 1),
        ({"backends": "Vulkan", "gpu_info": ""}, "vulkan", "unknown-gpu", 1),
        ({"gpu_info": "NVIDIA L4, NVIDIA T4", "split_mode": "none", "main_gpu": 1}, "cuda", "nvidia-t4", 1),
        ({"backends": "CPU", "gpu_info": "", "cpu_info": ""}, "cpu", "unknown-cpu", 1),
    ],
)
def test_what_did_the_work(reads, members, platform, hardware, count):
    (data,) = reads(READER, [{**PROMPT, **members}], "bench.json").data
    assert (data["execution"]["platform"], data["hardware"]["id"], data["hardware"]["count"]) == (
        platform,
        hardware,
        count,
    )


@pytest.mark.parametrize(
    ("filename", "kind", "model", "precision"),
    [
        ("Acme-1B-Instruct-Q8_0.gguf", "llama 1B Q8_0", "Acme-1B-Instruct", "int8"),
        ("acme-8b-f16-00001-of-00003.gguf", "llama 8B F16", "acme-8b", "fp16"),
        ("ggml-org_acme-4b-GGUF_acme-4b-BF16.gguf", "gemma3 4B BF16", "acme-4b", "bf16"),
        ("acme-20b-mxfp4.gguf", "gpt-oss 20B MXFP4 MoE", "acme-20b", "fp4"),
        ("C:\\models\\acme.i1-IQ2_XXS.gguf", "llama 70B IQ2_XXS - 2.0625 bpw", "acme.i1", "iq2_xxs"),
        ("model.gguf", "llama 7B all F32", "meta-llama/Llama-2-7b-hf", "fp32"),
    ],
)
def test_names_lose_their_quantization(reads, filename, kind, model, precision):
    (data,) = reads(READER, [{**PROMPT, "model_filename": filename, "model_type": kind}], "bench.json").data
    assert (data["model"]["id"], data["execution"]["precision"]) == (model, precision)


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"avg_ns": "soon"}, "avg_ns"), ({"avg_ns": None}, "avg_ns"), ({"n_prompt": 0}, "n_prompt"),
        ({"n_gpu_layers": "many"}, "n_gpu_layers"), ({"test_time": "yesterday"}, "test_time"),
        ({"model_filename": None, "model_type": None}, "model_type"),
    ],
)  # fmt: skip
def test_a_bad_row_is_refused_alone_and_can_be_mended(reads, members, field):
    read = reads(READER, [{**PROMPT, **members}, GENERATION], "bench.json")
    (refused,) = read.refused
    assert (refused.row, refused.field, len(read.rows)) == (1, field, 1)
    (row,) = json.loads(refused.content)
    assert len(reads(READER, [{**row, **PROMPT}], "bench.json").rows) == 1


def test_a_broken_line_and_a_broken_row_of_a_table_leave_the_others(reads):
    lines = reads(READER, "{broken\n" + LINES, "bench.jsonl")
    assert (len(lines.rows), [one.row for one in lines.refused]) == (2, [1])
    rows = reads(READER, TABLE + '"1","2"\n', "bench.csv")
    assert (len(rows.rows), [one.row for one in rows.refused]) == (2, [4])


def test_only_its_own_files_are_recognised(place):
    for content, name in ((RESULTS, "a.json"), (LINES, "a.jsonl"), (TABLE, "a.csv"), ([OLD], "b.json")):
        assert READER.sniff(place(content, name))
    for content, name in (
        ([], "a.json"), ([{"name": "x", "unit": "ms", "value": 1}], "b.json"), ({"n_gen": 1}, "c.json"),
        ("model,batch\nx,1\n", "d.csv"), (LINES, "a.log"), ("", "e.jsonl"),
    ):  # fmt: skip
        assert not READER.sniff(place(content, name)), name
