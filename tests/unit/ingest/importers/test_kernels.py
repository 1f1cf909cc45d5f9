"""Tables of kernel timings: what their rows say, what is wrong with some, on excerpts written by hand."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as parquet
import pytest

from domain.kernels import expanded
from domain.payloads import KernelRuns
from ingest.importers import IMPORTERS, Summary, import_paths
from ingest.importers.files import File
from ingest.importers.refusals import Refused
from ingest.importers.unknown_names import unresolved

GEMM = """\
framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency
VLLM,0.20.0,NVIDIA B200,gemm,vllm_default,bfloat16,128,5120,10240,0.0212897774246
VLLM,0.20.0,NVIDIA B200,gemm,vllm_default,bfloat16,64,5120,10240,0.0201
VLLM,0.20.0,NVIDIA B200,gemm,vllm_default,nvfp4,64,5120,10240,0.0141
VLLM,0.20.0,NVIDIA B200,gemm,DeepGemm,fp8_block,64,5120,10240,0.0601
VLLM,0.20.0,NVIDIA B200,gemm,vllm_default,bfloat16,64,5120,,0.0201
VLLM,0.20.0,NVIDIA B200,gemm,vllm_default,bfloat16,64,-1,10240,0.0201
VLLM,0.20.0,NVIDIA B200,gemm,vllm_default,bfloat16,6.5,5120,10240,0.0201
VLLM,0.20.0,NVIDIA B200,gemm,vllm_default,bfloat16,64,5120,10240,0
VLLM,0.20.0,NVIDIA B200,gemm,vllm_default,bfloat16,64,5120,10240,fast
"""
GEMM_TOGETHER = """\
device,device_name,framework,version,kernel_source,dtype,m,n,k,latency_ms
b200_sxm,NVIDIA B200,vllm,0.20.0,vllm_default,bfloat16,64,5120,10240,0.0201
b200_sxm,NVIDIA B200,vllm,0.20.0,vllm_default,bfloat16,128,5120,10240,0.02128977742
"""
CONTEXT = """\
framework,version,device,op_name,kernel_source,batch_size,isl,num_heads,num_key_value_heads,head_dim,beam_width,attn_dtype,kv_cache_dtype,step,latency
VLLM,0.20.0,NVIDIA H200,context_attention,fa3,4,128,64,8,128,1,bfloat16,fp8,0,0.0129
VLLM,0.20.0,NVIDIA H200,context_attention,fa3,1,128,64,8,128,1,bfloat16,fp8,0,0.0091
VLLM,0.20.0,NVIDIA H200,context_attention,fa3,1,128,64,8,128,4,bfloat16,fp8,0,0.0091
VLLM,0.20.0,NVIDIA H200,generation_attention,fa3,32,1,48,8,256,1,bfloat16,bfloat16,127,0.0469
VLLM,0.20.0,NVIDIA H200,sideways_attention,fa3,32,1,48,8,256,1,bfloat16,bfloat16,127,0.0469
"""
ENCODER = """\
kind,device,device_name,framework,version,kernel_source,dtype,kv_cache_dtype,batch,isl,step,num_heads,num_kv_heads,head_dim,window_size,latency_ms
encoder,l40s,NVIDIA L40S,trtllm,1.3.0rc20,torch_flow,bfloat16,,1,256,,16,,72,,0.0231
context,l40s,NVIDIA L40S,sglang,0.5.14,triton,fp8,fp8,1,256,0,16,4,128,128,0.0331
"""
MOE = """\
framework,version,device,op_name,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,distribution,latency
SGLang,0.5.14,NVIDIA GB300,moe,triton,w4a16_mxfp4,16,2048,768,8,128,1,4,power_law_1.2,0.0611
SGLang,0.5.14,NVIDIA GB300,moe,triton,w4a16_mxfp4,16,2048,768,8,128,1,4,power_law_1.2,0.0613
SGLang,0.5.14,NVIDIA GB300,moe,triton,w4a16_mxfp4,16,2048,768,8,128,1,4,balanced,0.0511
"""
ALLREDUCE = """\
framework,version,device,op_name,kernel_source,allreduce_dtype,num_gpus,message_size,latency,backend
vLLM,0.20.0,NVIDIA B200,all_reduce,vLLM_custom_graph,bfloat16,2,128,0.00700128,vllm_graph
vLLM,0.20.0,NVIDIA B200,all_reduce,vLLM_custom_eager,bfloat16,2,128,0.01989216,vllm_eager
vLLM,0.20.0,NVIDIA B200,all_reduce,vLLM_custom_graph,bfloat16,8,128,0.00739424,vllm_graph
"""
NCCL = """\
framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency
TRTLLM,2.29.2,NVIDIA B300 SXM6 AC,all_gather,NCCL,half,8,256,0.02201
TRTLLM,2.29.2,NVIDIA B300 SXM6 AC,all_gather,NCCL,half,8,256,0.02213
VLLM,2021.17.2-5,Intel(R) Graphics [0xe211],all_reduce,oneCCL,int8,2,512,0.0155
"""
NEUSIGHT = """\
OPName,Latency,Device,Torch Version,CUDNN Version,Kernel Name,Warps per SM,CUDA Version,Kernels,B,M,N,K
bmm,0.2385919988,NVIDIA L4,p2.1.0,8902,ampere_sgemm_128x128_nn,52.9,cu121,;x,192,96,196,64
bmm,8.7181758880,NVIDIA L4,p2.1.0,8902,ampere_sgemm_32x32_nn,1059.3,cu121,;x,2560,384,128,64
linear,0.5,NVIDIA L4,p2.1.0,8902,ampere_sgemm_128x128_nn,1059.3,cu121,;x,8,384,128,64
gelu,0.5,NVIDIA L4,p2.1.0,8902,gelu_kernel,1059.3,cu121,;x,8,384,128,64
rotate,0.5,NVIDIA L4,p2.1.0,8902,rotate_kernel,1059.3,cu121,;x,8,384,128,64
"""
NEUSIGHT_TOGETHER = """\
op,device,torch_version,set,b,m,n,k,h,in_channels,out_channels,kernel_size,input_size,stride,padding,latency_ms,kernel_name
linear,Tesla P4,2.1.0,train,1,2048,2048,2048,,,,,,,,15.5,maxwell_sgemm
linear,Tesla P4,2.1.0,train,1,16,16,16,,,,,,,,0.045,maxwell_sgemm
linear,Tesla P4,2.1.0,test,1,2048,2048,2048,,,,,,,,4.5,maxwell_sgemm
conv,Tesla P4,2.1.0,train,2,,,,,64,128,3,56,2,1,1.25,winograd
add,AMD Instinct MI100,2.4.1,train,128,,,,512,,,,,,,0.018,vectorized
softmax,AMD Instinct MI100,2.4.1,train,128,,,,,,,,,,,0.018,softmax
"""
MODEL_OPERATORS = """\
device,model,mode,sequence,batch,op,input_shapes,output_shape,dtype,count,op_ms,fw_ms,bw_ms,acc_ms
Tesla_T4,bert_large,inf,512,8,Linear,"[[8,512,1024]]","(8,512,4096)",float32,24,9.5,9.5,0.0,0.0
Tesla_T4,bert_large,train,512,8,Linear,"[[8,512,1024]]","(8,512,4096)",float32,24,30.5,9.5,20.0,1.0
Tesla_T4,bert_large,inf,512,8,addmm,"[[768],[512,256],[256,768]]","(512,768)",float32,1,0.9,0.9,0.0,0.0
Tesla_T4,bert_large,inf,512,8,matmul,"[[8,16,512,64],[8,16,64,512]]","(8,16,512,512)",float32,24,3.5,3.5,0.0,0.0
Tesla_T4,bert_large,inf,512,8,softmax,"[[8,16,512,512]]","(8,16,512,512)",float32,24,1.5,1.5,0.0,0.0
Tesla_T4,bert_large,inf,512,8,view,"[[8,512,1024],[1]]","(8,512,16,64)",float32,24,0.014,0.014,0.0,0.0
Tesla_T4,bert_large,inf,512,8,matmul,"[[8,16,512,64],[8,16,32,512]]","(8,16,512,512)",float32,24,3.5,3.5,0.0,0.0
Tesla_T4,bert_large,inf,512,8,softmax,all of it,"(8,16,512,512)",float32,24,1.5,1.5,0.0,0.0
"""
MLX = """\
chip,device,mlx,torch,op,dims,backend,ms
M2 Max,M2 Max (cores: 4E+8P+38GPU),0.5.0,2.2.1,Linear,dim=100x1024x256 dim=256x1024 dim=1024,mlx_gpu,4.85
M2 Max,M2 Max (cores: 4E+8P+38GPU),0.5.0,2.2.1,Linear,dim=100x1024x256 dim=256x1024 dim=1024,mlx_gpu_compile,4.81
M2 Max,M2 Max (cores: 4E+8P+38GPU),0.5.0,2.2.1,MatMul,dim=1000x64x256 dim=256x32,torch_cpu,9.5
M2 Max,M2 Max (cores: 4E+8P+38GPU),0.5.0,2.2.1,ReLU,dim=64x128,torch_mps,0.02
A100,A100 80GB 80GB PCIe,,,Conv1d,dim=16x1000x80 dim=128x11x80,torch_cuda,0.31
A100,A100 80GB 80GB PCIe,,,Sort,dim=64x128x1024 axi=0,torch_cpu,55.5
A100,A100 80GB 80GB PCIe,,,MatMul,dim=64x7 dim=8x32,torch_cuda,0.31
A100,A100 80GB 80GB PCIe,,,MatMul,dim=64x8 dim=8x32,torch_tpu,0.31
"""
ENGINES, OPERATORS = IMPORTERS["aiconfigurator-kernels"], IMPORTERS["neusight-operators"]
PRODUCT = "device,device_name,framework,version,kernel_source,dtype,m,n,k,latency_ms\n"


def parquet_of(content: str) -> bytes:
    table = pyarrow.csv.read_csv(io.BytesIO(content.encode()))
    times = table.schema.get_field_index("latency_ms")
    table = table.set_column(times, "latency_ms", table["latency_ms"].cast(pa.float32()))
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()


COLUMNS, COLUMNS_NAME = parquet_of(GEMM_TOGETHER), "gemm.parquet"
"""The same as Parquet; damaged by tests/properties under this name."""


def rows_of(data):
    """The timings of an event as dictionaries."""
    columns = {
        name: expanded(KernelRuns(**column) if isinstance(column, dict) else column)
        for name, column in data["columns"].items()
    }
    return [
        {**data.get("fixed", {}), **{name: values[row] for name, values in columns.items()}}
        for row in range(data["timings"])
    ]


def marked(data):
    return [row.get("mark") for row in rows_of(data)]


def by(found, *path):
    def key(data):
        value = data
        for part in path:
            value = value.get(part) if value else None
        return value

    return {key(data): data for data in found.data}


def products(*rows, device="nvidia_h100", name="NVIDIA H100 80GB HBM3", dtype="bfloat16"):
    return PRODUCT + "".join(
        f"{device},{name},vllm,0.24.0,linear,{dtype},{','.join(str(value) for value in row)}\n" for row in rows
    )


def test_matrix_products_as_the_repository_has_them(reads):
    found = reads(ENGINES, GEMM, "gemm_perf.txt")
    wide = by(found, "types", "published")
    assert set(wide) == {"bfloat16", "nvfp4", "fp8_block"}
    bf16 = wide["bfloat16"]
    assert (bf16["hardware"], bf16["device_name"]) == (
        {"id": "nvidia-b200-sxm", "kind": "gpu", "count": 1},
        "NVIDIA B200",
    )
    assert bf16["execution"] == {
        "platform": "cuda",
        "runtime": {"name": "vllm", "version": "0.20.0"},
        "precision": "bf16",
    }
    assert (bf16["operator"], bf16["kernel"]) == ("gemm", "vllm_default")
    assert [(row["m"], row["n"], row["k"], row["latency_ms"]) for row in rows_of(bf16)] == [
        (64, 5120, 10240, 0.0201),
        (128, 5120, 10240, 0.021289777),
    ]
    assert bf16["method"] == {
        "statistic": "mean", "launch": "graph", "buffers": "rotated", "samples": 6, "warmups": 3,
    }  # fmt: skip
    assert wide["nvfp4"]["execution"]["precision"] == "fp4"
    # vLLM's blocks of 8 bits ran without a graph, and quantise the activations within the time.
    blocks = wide["fp8_block"]["method"]
    assert (blocks["launch"], blocks["includes"]) == ("eager", ["activation-quantisation"])
    assert [(refused.row, refused.field) for refused in found.refused] == [
        (6, "k"), (7, "n"), (8, "m"), (9, "latency_ms"), (10, "latency_ms"),
    ]  # fmt: skip
    assert found.ended["measured"] == 4 and found.ended["failed"] == 5


def test_both_spellings_and_both_kinds_of_file_give_the_same_event(reads):
    raw = [row for row in reads(ENGINES, GEMM, "gemm_perf.txt").rows if row["data"]["execution"]["precision"] == "bf16"]
    together = reads(ENGINES, GEMM_TOGETHER, "gemm.csv").rows
    columns = reads(ENGINES, COLUMNS, COLUMNS_NAME).rows
    assert [row["id"] for row in raw] == [row["id"] for row in together] == [row["id"] for row in columns]


def test_the_order_of_the_rows_does_not_matter(reads):
    header, *lines = GEMM_TOGETHER.splitlines(keepends=True)
    there = reads(ENGINES, GEMM_TOGETHER, "a.csv").rows
    back = reads(ENGINES, header + "".join(reversed(lines)), "b.csv").rows
    assert [row["id"] for row in there] == [row["id"] for row in back]


def test_refused_rows_can_be_mended_where_they_stand(reads):
    refused = reads(ENGINES, GEMM, "gemm_perf.txt").refused
    mended = refused[-1].content.replace("fast", "0.5")
    again = reads(ENGINES, mended, "gemm_perf.txt")
    assert again.refused == [] and rows_of(again.data[0])[0]["latency_ms"] == 0.5


def test_attention_by_its_phase_with_the_types_of_its_cache(reads):
    found = reads(ENGINES, CONTEXT, "context_attention_perf.txt")
    phases = by(found, "phase")
    context, generation = phases["context"], phases["generation"]
    assert context["types"] == {
        "published": "bfloat16", "activations": "bf16", "arithmetic": "bf16", "kv_cache": "fp8",
    }  # fmt: skip
    assert [(row["batch"], row["query_tokens"], row["cached_tokens"]) for row in rows_of(context)] == [
        (1, 128, 0),
        (4, 128, 0),
    ]
    assert context["fixed"]["heads"] == 64 and context["fixed"]["kv_heads"] == 8
    assert "window_size" not in context["fixed"]
    assert rows_of(generation)[0]["cached_tokens"] == 127
    assert [(refused.row, refused.field) for refused in found.refused] == [(4, "beam_width"), (6, "op")]
    together = by(reads(ENGINES, ENCODER, "attention.csv"), "phase")
    assert "kv_heads" not in together["encoder"]["fixed"]
    assert together["context"]["fixed"]["window_size"] == 128


def test_experts_keep_their_repeats_and_what_their_words_mean(reads):
    found = reads(ENGINES, MOE, "moe_perf.txt")
    skewed = next(data for data in found.data if data["fixed"]["distribution"] == "power_law_1.2")
    assert [row["latency_ms"] for row in rows_of(skewed)] == [0.0611, 0.0613]
    assert (skewed["fixed"]["experts"], skewed["fixed"]["expert_parallel"]) == (128, 4)
    assert skewed["types"] == {
        "published": "w4a16_mxfp4", "weights": "fp4", "activations": "fp16", "arithmetic": "fp16",
    }  # fmt: skip
    assert found.refused == []


def test_collectives_count_elements_and_say_whether_a_graph_replays_them(reads):
    found = reads(ENGINES, ALLREDUCE, "custom_allreduce_perf.txt")
    said = {(data["hardware"]["count"], data["method"].get("launch")): data for data in found.data}
    assert set(said) == {(2, "graph"), (2, "eager"), (8, "graph")}
    assert said[8, "graph"]["fixed"] == {"ranks": 8, "elements": 128}
    assert said[2, "eager"]["name"] == "all_reduce"
    library = reads(ENGINES, NCCL, "nccl_perf.txt")
    nccl, oneccl = (by(library, "execution", "runtime", "name")[name] for name in ("nccl", "oneccl"))
    assert (nccl["hardware"]["id"], nccl["execution"]["runtime"]["version"]) == ("nvidia-b300-sxm", "2.29.2")
    assert [row["latency_ms"] for row in rows_of(nccl)] == [0.02201, 0.02213]
    assert nccl["types"] == {"published": "half", "activations": "fp16"}
    assert (oneccl["hardware"]["id"], oneccl["execution"]["platform"]) == ("intel-arc-pro-b60", "xpu")


def test_the_contracted_size_of_neusight_is_its_n(reads):
    found = reads(OPERATORS, NEUSIGHT, "bmm.csv")
    operators = by(found, "operator")
    bmm, linear = operators["bmm"], operators["gemm"]
    assert [(row["batch"], row["m"], row["n"], row["k"]) for row in rows_of(bmm)] == [
        (192, 96, 64, 196),
        (2560, 384, 64, 128),
    ]
    assert [row["kernel"] for row in rows_of(bmm)] == ["ampere_sgemm_128x128_nn", "ampere_sgemm_32x32_nn"]
    assert bmm["execution"]["runtime"] == {"name": "torch", "version": "2.1.0"}
    assert bmm["types"]["arithmetic"] == "fp32"
    assert (bmm["method"]["launch"], bmm["method"]["buffers"]) == ("eager", "warm")
    # A linear layer is one product of all rows of its batch.
    assert rows_of(linear)[0] | {"m": 8 * 384, "n": 64, "k": 128} == rows_of(linear)[0]
    assert [(refused.row, refused.field) for refused in found.refused] == [(5, "h"), (6, "op")]


def test_a_device_that_was_measured_at_two_speeds_is_doubtful_where_it_was_slow(reads):
    found = reads(OPERATORS, NEUSIGHT_TOGETHER, "ops.csv")
    products = {data["fixed"]["split"]: data for data in found.data if data["operator"] == "gemm"}
    assert [(row["m"], row.get("mark")) for row in rows_of(products["train"])] == [(16, None), (2048, "two-speeds")]
    assert products["train"]["marks"]["two-speeds"]["verdict"] == "suspect"
    assert "marks" not in products["test"]
    operators = by(found, "operator")
    assert rows_of(operators["convolution"])[0] == {
        "batch": 2, "in_channels": 64, "out_channels": 128, "height": 56, "width": 56, "kernel_height": 3, "kernel_width": 3,
        "stride": 2, "padding": 1, "kernel": "winograd", "split": "train", "latency_ms": 1.25,
    }  # fmt: skip
    added = operators["elementwise"]
    assert (added["execution"]["platform"], added["hardware"]["id"]) == ("rocm", "amd-instinct-mi100")
    assert rows_of(added)[0] | {"rows": 128, "row_size": 512, "inputs": 2} == rows_of(added)[0]
    assert [(refused.row, refused.field) for refused in found.refused] == [(7, "h")]


def test_operators_of_models_by_their_pass_with_how_often_they_are_called(reads):
    found = reads(IMPORTERS["neusight-model-operators"], MODEL_OPERATORS, "ops.csv")
    said = {(data["name"], data["phase"]): data for data in found.data}
    assert set(said) == {
        ("Linear", "forward"), ("Linear", "backward"), ("Linear", "accumulation"), ("addmm", "forward"),
        ("matmul", "forward"), ("softmax", "forward"), ("view", "forward"),
    }  # fmt: skip
    forward = rows_of(said["Linear", "forward"])
    assert [(row["mode"], row["m"], row["n"], row["k"], row["calls"]) for row in forward] == [
        ("inference", 4096, 4096, 1024, 24),
        ("training", 4096, 4096, 1024, 24),
    ]
    assert forward[0]["part_of"] == "neusight/bert_large" and forward[0]["model_sequence"] == 512
    assert forward[0]["shape"] == "[[8,512,1024]]->[8,512,4096]"
    assert rows_of(said["Linear", "backward"])[0]["latency_ms"] == 20
    assert rows_of(said["addmm", "forward"])[0] | {"m": 512, "n": 768, "k": 256} == rows_of(said["addmm", "forward"])[0]
    matmul = rows_of(said["matmul", "forward"])[0]
    assert (matmul["batch"], matmul["m"], matmul["n"], matmul["k"]) == (128, 512, 512, 64)
    assert said["view", "forward"]["operator"] == "other"
    assert rows_of(said["view", "forward"])[0]["elements"] == 8 * 512 * 1024
    assert [(refused.row, refused.field) for refused in found.refused] == [(8, "input_shapes"), (9, "input_shapes")]


def test_operators_of_mlx_on_the_device_that_ran_them(reads):
    found = reads(IMPORTERS["mlx-benchmark"], MLX, "mlx.csv")
    linear = [data for data in found.data if data["name"] == "Linear"]
    assert [data["execution"]["compiled"] for data in linear] == [False, True]
    assert {data["hardware"]["id"] for data in linear} == {"apple-m2-max-gpu"}
    assert linear[0]["execution"]["runtime"] == {"name": "mlx", "version": "0.5.0"}
    assert rows_of(linear[0])[0] | {"m": 102400, "n": 1024, "k": 256} == rows_of(linear[0])[0]
    names = by(found, "name")
    product = names["MatMul"]
    assert (product["hardware"]["id"], product["execution"]["runtime"]) == (
        "apple-m2-max",
        {"name": "torch", "version": "2.2.1"},
    )
    # One matrix for all of the batch: the batch's rows are rows of one product.
    assert rows_of(product)[0] | {"batch": 1, "m": 64000, "n": 32, "k": 256} == rows_of(product)[0]
    assert marked(names["ReLU"]) == ["rounded"]
    convolution = names["Conv1d"]
    assert convolution["hardware"]["id"] == "nvidia-a100-pcie-80gb" and "arithmetic" not in convolution["types"]
    assert (rows_of(convolution)[0]["kernel_width"], rows_of(convolution)[0]["height"]) == (11, 1)
    assert names["Sort"]["hardware"] == {"id": "intel-xeon-gold-6254", "kind": "cpu", "count": 1}
    assert [(refused.row, refused.field) for refused in found.refused] == [(8, "dims"), (9, "backend")]


def test_what_physics_does_not_allow_is_invalid_and_what_a_cache_explains_suspect(reads):
    # An H100 has 989 TFLOP/s in bf16, 3,350 GB/s and 52 MB of cache.
    rows = [
        (8192, 8192, 8192, 1.5),
        (8192, 8192, 8192, 0.9),
        (16, 4096, 4096, 0.02),
        (16, 4096, 4096, 0.008),
        (16, 65536, 16384, 0.7),
        (16, 65536, 16384, 0.5),
    ]
    (data,) = reads(ENGINES, products(*rows), "gemm.csv").data
    found = {(row["m"], row["n"], row["latency_ms"]): row["mark"] for row in rows_of(data)}
    assert found == {
        (8192, 8192, 1.5): None, (8192, 8192, 0.9): "beats-peak", (16, 4096, 0.02): None, (16, 4096, 0.008): "in-cache",
        (16, 65536, 0.7): None, (16, 65536, 0.5): "beats-memory",
    }  # fmt: skip
    assert {name: mark["verdict"] for name, mark in data["marks"].items()} == {
        "beats-peak": "invalid", "in-cache": "suspect", "beats-memory": "invalid",
    }  # fmt: skip
    assert "989 TFLOP/s of nvidia-h100-sxm" in data["marks"]["beats-peak"]["reason"]


def test_attention_over_a_narrow_cache_may_compute_in_its_type(reads):
    header = ENCODER.splitlines(keepends=True)[0]
    row = "context,h100_sxm,NVIDIA H100 80GB HBM3,trtllm,1.3,t,bfloat16,{},8,16384,0,32,8,128,0,12.0\n"
    wide, narrow = (reads(ENGINES, header + row.format(cache), f"{cache}.csv").data[0] for cache in ("bfloat16", "fp8"))
    assert marked(wide) == ["beats-peak"] and "marks" not in narrow


def test_a_cpu_may_be_faster_than_at_its_base_clock(reads):
    mlx = MLX.splitlines(keepends=True)[0]
    line = "M1 Max,M1 Max (64GB),0.2.0,,Linear,dim=100x1024x512 dim=512x1024 dim=1024,mlx_cpu,{}\n"
    boosted, never = (
        reads(IMPORTERS["mlx-benchmark"], mlx + line.format(time), "m.csv").data[0] for time in (60.5, 1.5)
    )
    assert boosted["marks"]["beats-base-clock"]["verdict"] == "suspect"
    assert never["marks"]["beats-peak"]["verdict"] == "invalid"


@pytest.mark.parametrize("device", ["NVIDIA H100 80GB HBM3", "Acme Accelerator"])
@pytest.mark.parametrize("factor", [1000, 0.001])
def test_seconds_among_milliseconds_are_invalid_on_any_device(reads, device, factor):
    rows = [[size, 4096, 4096, 0.02 + size / 5000] for size in range(64, 1024, 64)]
    rows[7][3] *= factor
    (data,) = reads(ENGINES, products(*rows, name=device, device=device), "gemm.csv").data
    assert [row["m"] for row in rows_of(data) if row["mark"] == "mixed-units"] == [rows[7][0]]
    assert data["marks"]["mixed-units"]["verdict"] == "invalid"


def test_a_table_that_is_a_thousand_times_too_slow_is_suspect(reads):
    rows = [(8192, 8192, 1024 * factor, 1500.0 * factor) for factor in range(1, 9)]
    (data,) = reads(ENGINES, products(*rows), "gemm.csv").data
    assert marked(data) == ["far-too-slow"] * 8 and data["marks"]["far-too-slow"]["verdict"] == "suspect"


def test_the_same_rows_under_another_name_of_the_device_count_once(reads):
    rows = [(size, 4096, 4096, 0.0212345 + size / 7000) for size in range(64, 1024, 64)]
    once = products(*rows)
    twice = once + products(*rows, (7, 4096, 4096, 0.019), name="NVIDIA H100 SXM").removeprefix(PRODUCT)
    found = reads(ENGINES, twice, "gemm.csv")
    assert sum(data["timings"] for data in found.data) == len(rows) + 1
    assert len(found.refused) == len(rows)
    assert found.refused[0].field == "device" and "another name of nvidia-h100-sxm" in found.refused[0].reason


def test_the_same_figures_under_another_device_are_suspect(reads):
    rows = [(size, 4096, 4096, 0.0212345 + size / 7000) for size in range(32, 1024, 32)]
    other = products(*rows, device="h200_sxm", name="NVIDIA H200").removeprefix(PRODUCT)
    found = by(reads(ENGINES, products(*rows) + other, "gemm.csv"), "hardware", "id")
    assert "marks" not in found["nvidia-h100-sxm"]
    assert set(marked(found["nvidia-h200-sxm"])) == {"same-figures"}
    assert "nvidia-h100-sxm" in found["nvidia-h200-sxm"]["marks"]["same-figures"]["reason"]


def test_coarse_times_that_agree_by_chance_are_no_copies(reads):
    rows = [(size, 64, 64, round(0.03 + size / 700, 2)) for size in range(16, 160, 16)]
    other = [(*row[:3], row[3] if row[0] == 16 else row[3] + 0.01) for row in rows]
    table = products(*rows) + products(*other, name="NVIDIA H100 SXM").removeprefix(PRODUCT)
    assert reads(ENGINES, table, "gemm.csv").refused == []


def test_a_long_table_becomes_events_below_the_limit_of_the_log(reads):
    rng = random.Random(3)
    rows = [(m, n, 4096, 0.01 + m * n * rng.uniform(1, 1.1) / 1e7) for n in range(64, 4096, 64) for m in range(1, 400)]
    lines = [*products(*rows).splitlines(keepends=True)]
    header, body = lines[0], lines[1:]
    first = reads(ENGINES, header + "".join(body), "gemm.csv")
    assert len(first.rows) > 1 and sum(data["timings"] for data in first.data) == len(rows)
    rng.shuffle(body)
    assert [row["id"] for row in reads(ENGINES, header + "".join(body), "again.csv").rows] == [
        row["id"] for row in first.rows
    ]
    taken = [(row["m"], row["n"]) for data in first.data for row in rows_of(data)]
    assert sorted(taken) == sorted((m, n) for m, n, *_ in rows)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("aiconfigurator-kernels", GEMM.replace("gemm_dtype", "gemm_type")),
        ("aiconfigurator-kernels", "version https://git-lfs.github.com/spec/v1\noid sha256:35\nsize 10469286\n"),
        ("neusight-operators", NEUSIGHT.replace("Latency", "Time")),
        ("neusight-model-operators", MODEL_OPERATORS.replace("input_shapes", "shapes")),
        ("mlx-benchmark", MLX.replace("dims", "size")),
    ],
)
def test_tables_with_other_columns_are_refused_whole_and_say_which(tmp_path, name, content):
    path = tmp_path / "table.csv"
    path.write_text(content)
    assert not IMPORTERS[name].sniff(File(path, path.name, given=True))
    (refused,) = [item for item in import_paths(name, [path]) if isinstance(item, Refused)]
    assert "column" in refused.reason


@pytest.mark.parametrize(
    ("name", "content", "file"),
    [
        ("aiconfigurator-kernels", GEMM, "gemm_perf.txt"),
        ("aiconfigurator-kernels", MOE, "moe_perf.txt"),
        ("aiconfigurator-kernels", NCCL, "nccl_perf.txt"),
        ("aiconfigurator-kernels", ENCODER, "attention.csv"),
        ("neusight-operators", NEUSIGHT, "bmm.csv"),
        ("neusight-operators", NEUSIGHT_TOGETHER, "ops.csv"),
        ("neusight-model-operators", MODEL_OPERATORS, "ops.csv"),
        ("mlx-benchmark", MLX, "mlx.csv"),
    ],
)
def test_auto_recognises_them(tmp_path, name, content, file):
    path = tmp_path / file
    path.write_text(content)
    events = [item for item in import_paths("auto", [path]) if isinstance(item, dict)]
    assert {event["source"] for event in events} == {f"urn:assay:importer:{name}"}


def test_a_device_that_the_catalogue_lacks_is_named_with_how_to_add_it(reads):
    summary = Summary()
    found = reads(ENGINES, products((64, 64, 64, 0.02), name="Acme Accelerator", device="acme"), "gemm.csv")
    for _ in summary.watch(found.rows):
        pass
    (name,) = unresolved(summary.names, {})
    assert (name.kind, name.name, name.rows) == ("hardware", "acme-accelerator", 1)
    assert "docs/hardware-catalogue.md" in name.remedy and "assay hardware alias acme-accelerator" in name.remedy


def test_the_summary_counts_timings_and_marks(reads):
    summary = Summary()
    for _ in summary.watch(reads(OPERATORS, NEUSIGHT_TOGETHER, "ops.csv").rows):
        pass
    assert dict(summary.timings) == {"urn:assay:importer:neusight-operators": 5}
    assert dict(summary.caught) == {"two-speeds": 1} and dict(summary.verdicts) == {"suspect": 1}
    assert dict(summary.origins) == {"imported": 5}
