"""aiconfigurator's measured serving: devices from parallelism, disaggregated workers, paths shortened. Samples are ours."""

from __future__ import annotations

import pytest

from domain.events import decode_event, encode_event
from ingest.importers.files import File
from ingest.importers.refusals import Refused
from ingest.importers.serving.aiconfigurator import AiConfigurator

SIZES = "{0}tp_size,{0}pp_size,{0}attention_dp_size,{0}moe_tp_size,{0}moe_ep_size"
HEADER = (
    "id,silicon_data_source,backend,backend_version,model_path,system,precision,mode,isl,osl,gemm_quant_mode,moe_quant_mode,"
    f"batch_size,{SIZES.format('')},prefill_batch_size,prefill_num_workers,{SIZES.format('prefill_')},"
    f"decode_batch_size,decode_num_workers,{SIZES.format('decode_')},silicon_ttft_ms,silicon_tpot_ms\n"
)
SOURCE = "db-dump/2026-01-02; silicon_concurrency=64; measured=2026-01-03T00:00:00.000Z; wip=False"
AGG = (
    f"one,{SOURCE},vllm,0.19.0,MiniMaxAI/MiniMax-M2.5,b200_sxm,fp4,agg,1024,512,nvfp4,nvfp4,"
    "32.0,2.0,1.0,2.0,1.0,4.0,,,,,,,,,,,,,,,250.5,20.25\n"
)
DISAGG = (
    f"two,{SOURCE},trtllm,1.1.0,deepseek-ai/DeepSeek-R1,gb200,fp8,disagg,8192,1024,fp8,fp8_block,,,,,,,"
    "1.0,2.0,1.0,1.0,4.0,1.0,4.0,16.0,3.0,8.0,1.0,1.0,1.0,8.0,700.0,9.5\n"
)


@pytest.fixture
def write(tmp_path):
    def written(content, name="silicon.csv"):
        (tmp_path / name).write_text(content)
        return File(tmp_path / name, name, given=True)

    return written


def read(file):
    items = list(AiConfigurator().rows(file))
    events = [item for item in items if not isinstance(item, Refused)]
    assert all(decode_event(encode_event(event)).warnings == () for event in events)
    return [event for event in events if ".run." not in event["type"]], [i for i in items if isinstance(i, Refused)]


def test_workers_that_fill_and_decode_are_counted_by_their_parallelism(write):
    (event,), refused = read(write(HEADER + AGG))
    data = event["data"]
    assert refused == []
    assert event["time"] == "2026-01-03T00:00:00+00:00"
    assert data["model"] == {"id": "MiniMaxAI/MiniMax-M2.5"}
    assert data["workload"] == {
        "mode": "inference", "scenario": "serving", "batch_size": 32, "input_tokens": 1024, "output_tokens": 512,
        "concurrency": 64,
    }  # fmt: skip
    assert data["execution"] == {
        "platform": "cuda", "runtime": {"name": "vllm", "version": "0.19.0"}, "precision": "fp4",
        "parallelism": {"tensor": 2, "pipeline": 1, "data": 2, "expert": 4},
        "options": {"gemm": "nvfp4", "moe": "nvfp4", "expert_tensor_parallel": 1},
    }  # fmt: skip
    assert data["hardware"] == {"id": "nvidia-b200-sxm", "kind": "gpu", "count": 4}
    assert data["metrics"] == {"ttft_ms": 250.5, "tpot_ms": 20.25}


def test_prefill_and_decode_apart_count_all_workers_and_keep_their_sizes(write):
    (event,), _ = read(write(HEADER + DISAGG))
    data = event["data"]
    assert data["hardware"] == {"id": "nvidia-gb200", "kind": "gpu", "count": 2 * 4 + 3 * 8}
    assert "parallelism" not in data["execution"] and "batch_size" not in data["workload"]
    assert data["execution"]["options"] == {
        "gemm": "fp8", "moe": "fp8_block", "serving": "disaggregated",
        "prefill": {"tensor": 1, "pipeline": 1, "attention_data": 4, "expert_tensor": 1, "expert": 4, "batch_size": 1, "workers": 2},
        "decode": {"tensor": 8, "pipeline": 1, "attention_data": 1, "expert_tensor": 1, "expert": 8, "batch_size": 16, "workers": 3},
    }  # fmt: skip
    assert "validity" not in data


def test_without_the_number_of_workers_the_count_is_a_guess_and_says_so(write):
    (event,), _ = read(write(HEADER + DISAGG.replace(",1.0,2.0,1.0,1.0,4.0", ",,,1.0,1.0,4.0")))
    data = event["data"]
    assert data["hardware"]["count"] == 4 + 3 * 8
    assert data["validity"]["verdict"] == "suspect" and data["imported"]["rules"] == ["devices-unknown"]


def test_the_path_of_whoever_made_the_table_is_shortened(write):
    private = AGG.replace(SOURCE, "source_file=/Users/jane/projects/x/Llama.csv; silicon_concurrency=8")
    (event,), _ = read(write(HEADER + private))
    assert event["data"]["workload"]["concurrency"] == 8
    assert "time" not in event
    assert event["data"]["imported"]["original"] == {
        "silicon_data_source": "source_file=…/Llama.csv; silicon_concurrency=8"
    }


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (AGG.replace("250.5", "-1"), "silicon_ttft_ms"), (AGG.replace("MiniMaxAI/MiniMax-M2.5", ""), "model_path"),
        (AGG.replace(",agg,", ",mixed,"), "mode"), (AGG.replace(",2.0,1.0,2.0", ",2.5,1.0,2.0"), "tp_size"),
    ],
)  # fmt: skip
def test_a_bad_row_is_refused_alone_with_a_file_to_mend(write, row, field):
    rows, (refused,) = read(write(HEADER + row + DISAGG))
    assert (refused.row, refused.field, len(rows)) == (2, field, 1)
    assert refused.content == HEADER + row


def test_recognised_by_its_header_and_read_twice_alike(write):
    file = write(HEADER + AGG + DISAGG)
    assert AiConfigurator().sniff(file)
    assert not AiConfigurator().sniff(write("model_path,system,isl\n", "other.csv"))
    assert list(AiConfigurator().rows(file)) == list(AiConfigurator().rows(file))
