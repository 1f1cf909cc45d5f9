"""Published tables of whole models: what their rows say, on excerpts written by hand."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from ingest.importers import IMPORTERS
from ingest.importers.files import File

TENSORRT_BERT = """\
device,model,precision,sequence,batch,mean_ms,p95_ms,p99_ms,tensorrt_listed,cuda_listed,commit,date
NVIDIA T4 (16GB),bert-base,int8-qat,128,8,4.5,4.6,4.7,8.0.1,11.3,abcdef12,2021-07-01
NVIDIA T4 (16GB),bert-base,fp16,128,1,3.0,9.0,4.0,8.0.1,11.3,abcdef12,2021-07-01
"""
DEEP_LEARNING_EXAMPLES = """\
framework,task,model,variant,mode,serving,device,device_memory_gb,system,nodes,gpus,precision,batch,batch_scope,sequence,concurrency,throughput,throughput_unit,latency_mean_ms,latency_p50_ms,latency_p90_ms,latency_p95_ms,latency_p99_ms,latency_max_ms,latency_unstated_ms,backend,source_file,source_line
PyTorch,Classification,ConvNets/resnet50v1.5,,inference,,A100,80,DGX A100,,1,amp,4,,,,800,images/s,5.0,4.9,,5.2,,,,,a.md,7
PyTorch,Classification,ConvNets/resnet50v1.5,,training,,V100,16,DGX-1,2,8,tf32,32,per GPU,,,9000,images/s,,,,,,,,,a.md,8
TensorFlow,Translation,GNMT,,training,,T4,,,,1,fp16,128,,,,5000,tokens/s,,,,,,,,,b.md,1
PyTorch,Speech,FastPitch,,inference,,T4,,,,1,fp16,1,,,,9999,frames/s,,,,,,,,,c.md,1
PyTorch,Other,TFT,,inference,triton,A30,,,,1,fp16,16,,,8,,,,12.0,,,,,,NVIDIA TensorRT,d.md,3
"""
PYTORCH_GPU_BENCHMARK = """\
device,vendor,gpus,model,mode,precision,batch,batch_source,mean_ms,p10_ms,p50_ms,p90_ms,min_ms,max_ms,repeats,torch,rocm,cuda
AMD_Radeon_RX_6800,AMD,1,resnet50,inference,fp16,12,config,50.5,49,50,52,48,60,50,2.4.1,6.1,
TITAN_RTX,Nvidia,4,vgg16,train,fp64,12,assumed,500,490,499,520,480,600,50,1.4.0,,10.1
TITAN_RTX,NVIDIA,1,vgg16,elsewhere,fp64,12,config,500,490,499,520,480,600,50,1.4.0,,10.1
"""
NEUSIGHT_LABELS = """\
device,model,mode,sequence,batch,variant,layers,e2e_ms,fw_ms,bw_ms,op_sum_trace_ms,op_sum_ms,op_sum_matmul_ms,trace_dtype
AMD_Instinct_MI100,bert_large,inf,512,16,eager,24,261.2,261.2,,1,2,3,x
Tesla_V100-PCIE-32GB,gpt2_large,train,1024,4,tp4,36,900,300,600,1,2,3,x
"""
OPENVINO_PLATFORMS = """\
platform,base_platform,device_kind,model,precision,throughput,throughput_unit,latency,latency_unit,note
x,Intel® Core™ i7-1185G7,iGPU,resnet-50,INT8,300,FPS,4.5,ms,
x,Intel® Core™ i9-13900K,CPU,llama-2-7b-chat,INT4,15,tokens/s,66,ms/token,
x,Intel® Arc™ A770M,dGPU,stable-diffusion-v2-1,FP16,,,6.5,s,
x,Intel® Core™ i3-8100,CPU,ssd-resnet34-1200,FP32,2,FPS,12,ms,latency equals that of resnet-50
x,Intel® Core™ i3-8100,CPU,resnet-50,FP32,2,images,,,
"""
OPENVINO_LLM = """\
system,device_kind,model,precision,input_tokens,first_token_latency_ms,next_token_latency_ms,peak_rss_mb,batch
Core Ultra 7 258V,iGPU,acme/small,INT4-MIXED,1024,500,20.5,4000,1
"""
OPENVINO_MODEL_SERVER = """\
platform,device_kind,model,precision,direct_throughput_fps,model_server_throughput_fps
Intel® Xeon® Gold 6238M CPU-only,CPU,resnet-50,INT8,500.5,480.5
"""
NEURAL_COMPRESSOR = """\
release,release_date,section,framework,model,example,device,sockets,cores_per_instance,instances,batch,int8_throughput_per_s,fp32_throughput_per_s,int8_latency_ms,fp32_latency_ms,int8_accuracy,fp32_accuracy
v2.3,2023-09-01,PyTorch,pytorch 2.0.1+cpu,resnet18,,Intel Xeon Platinum 8480+,1,4,14,1,4000,900,,,69.7%,69.8%
v1.7,2021-10-01,TF,tensorflow 2.5.0,resnet50v1.0,,Intel Xeon 8280 (CLX8280),1,4,,1,,,7.64,21.54,74%,74%
v1.7,2021-10-01,TF,tensorflow 2.5.0,nothing,,Intel Xeon 8280 (CLX8280),1,4,,1,,,,,74%,74%
"""
WHISPER_CPP = """\
device,device_label,os,backend,model,quantisation,threads,flash_attention,encoder_ms,decode_ms_per_token,batch5_ms_per_token,prompt_ms_per_token,commit
M2 Ultra,M2 Ultra,,METAL,small,q5_1,1,1,60.5,2.5,0.7,0.05,8a67c55c
M2 Ultra,M2 Ultra,,METAL,small,q9_9,1,1,60.5,2.5,0.7,0.05,8a67c55c
"""
HAT = """\
device,device_kind,task,sequence,batch,encoder_embed_dim,encoder_layer_num,encoder_ffn_embed_dim_avg,encoder_self_attention_heads_avg,decoder_embed_dim,decoder_layer_num,decoder_ffn_embed_dim_avg,decoder_self_attention_heads_avg,decoder_ende_attention_heads_avg,decoder_arbitrary_ende_attn_avg,encoder_ms,decoder_ms,encoder_std_ms,decoder_std_ms
raspberrypi,cpu,wmt14ende,30,1,512,6,1877.3,6,640,3,1706.7,6,2.7,1.3,2000,6000,1,1
xeon,cpu,wmt14ende,30,1,512,6,1877.3,6,640,3,1706.7,6,2.7,1.3,10,40,1,1
xeon,cpu,wmt14ende,30,1,512,6,1877.3,6,640,3,1706.7,6,2.7,1.3,10,,1,1
"""
SGLANG_COOKBOOK = """\
model,gpu,machine_gpus,sglang_version,tensor_parallel,data_parallel,expert_parallel,quantization,kv_cache_dtype,speculative,dataset,input_len,output_len,images,num_requests,max_concurrency,request_rate,request_per_s,output_tok_per_s,e2e_mean_ms,e2e_p50_ms,e2e_p90_ms,e2e_p99_ms,ttft_mean_ms,ttft_p50_ms,tpot_mean_ms,tpot_p50_ms
acme/large,MI300X,8,0.5.8,4,2,,fp8,,EAGLE,random,1024,512,,100,16,inf,2.5,1280,6000,5900,7000,8000,200,190,11,10.5
acme/large,H800,8,0.5.8,,,,,,,random,1024,512,,100,16,64,,,,,,,,,,
"""
SGLANG_DIFFUSION = """\
model,gpu,machine_gpus,sglang_version,tensor_parallel,data_parallel,expert_parallel,quantization,dataset,task,cache_dit,num_requests,max_concurrency,latency_mean_s,latency_p50_s,latency_p99_s,peak_memory_max_mb,request_per_s
acme/painter,B200,1,0.5.6,,,,,vbench,t2i,0,10,1,5.5,5.4,6.0,28000,0.18
"""


@pytest.fixture
def table(reads):
    """Read rows under a header with the importer of a name."""

    def read(name, content):
        return reads(IMPORTERS[name], content, "table.csv")

    return read


def figures(row):
    return row["metrics"], row["execution"]["precision"], row["hardware"]


def test_tensorrt_bert(table):
    found = table("tensorrt-bert", TENSORRT_BERT)
    (row,) = found.data
    assert row["model"]["id"] == "google-bert/bert-base-uncased"
    assert (row["workload"]["sequence_length"], row["workload"]["batch_size"]) == (128, 8)
    assert row["metrics"]["latency_ms"] == {"mean": 4.5, "p95": 4.6, "p99": 4.7}
    assert row["execution"] == {
        "platform": "cuda", "runtime": {"name": "tensorrt", "version": "8.0.1"}, "precision": "int8",
        "options": {"quantisation": "qat"},
    }  # fmt: skip
    assert row["hardware"]["id"] == "nvidia-t4"
    assert found.rows[0]["time"].startswith("2021-07-01")
    # A 95th percentile above the 99th cannot be.
    assert [refused.row for refused in found.refused] == [3]


def test_deep_learning_examples(table):
    found = table("deep-learning-examples", DEEP_LEARNING_EXAMPLES)
    one, many, tokens, served = found.data
    assert one["model"]["id"] == "microsoft/resnet-50" and one["model"]["category"] == "vision"
    assert (one["execution"]["precision"], one["hardware"]["id"]) == ("amp-fp16", "nvidia-a100-sxm-80gb")
    assert one["metrics"] == {"latency_ms": {"mean": 5.0, "p50": 4.9, "p95": 5.2}, "throughput_per_s": 800.0}
    assert (many["hardware"], many["workload"]["batch_size"]) == (
        {"id": "nvidia-v100-sxm-16gb", "kind": "gpu", "count": 16},
        512,
    )
    assert many["execution"]["parallelism"] == {"data": 16} and many["workload"]["mode"] == "training"
    assert tokens["metrics"] == {"tokens_per_s": 5000.0}
    assert (served["workload"]["scenario"], served["workload"]["concurrency"]) == ("server", 8)
    assert served["execution"]["runtime"]["name"] == "tensorrt"
    # Frames are no items of work: a row with nothing else gives no figure.
    assert [(refused.row, refused.field) for refused in found.refused] == [(5, "throughput")]


def test_deep_learning_examples_name_the_variant_and_the_size_of_the_input(table):
    header = DEEP_LEARNING_EXAMPLES.splitlines()[0] + ",section,other"
    bert, jasper = "TensorFlow2/LanguageModeling/BERT/README.md", "PyTorch/SpeechRecognition/Jasper/README.md"

    def row(model, *, line, sequence="", serving="", framework="PyTorch", file="a.md", section="", other=""):
        values = (
            f"{framework},Other,{model},,inference,{serving},T4,,,,1,fp16,1,,{sequence},,,,5.0,,,,,,,,{file},{line}"
        )
        return f"{values},{section},{other}"

    rows = [
        row("BERT", line=832, sequence=128, file=bert),
        row("BERT", line=865, sequence=128, file=bert),
        row("BERT", line=3, section="Fine-tuning NVIDIA DGX A100"),
        row("BERT/dist4l", line=4, serving="triton"),
        row("Transformer-XL", line=5, sequence=64, section="NVIDIA T4 > Base model"),
        row("Transformer-XL", line=6, sequence=128, section="NVIDIA T4 > Large model"),
        row("nnUNet", line=7, other="Dimension=2; Resolution=192x160"),
        row("ConvNets/efficientnet_v1", line=8, other="Resolution=380x380"),
        *(row("Jasper", line=line, file=jasper) for line in (706, 711, 720)),
    ]
    found = table("deep-learning-examples", "\n".join((header, *rows, "")))
    assert found.refused == []
    sizes = ("sequence_length", "image_size", "audio_seconds")
    said = [
        (data["model"]["id"], {n: data["workload"][n] for n in sizes if n in data["workload"]}) for data in found.data
    ]
    assert said == [
        ("google-bert/bert-large-uncased", {"sequence_length": 128}),
        ("google-bert/bert-base-uncased", {"sequence_length": 128}),
        ("google-bert/bert-large-uncased", {"sequence_length": 384}),
        ("deep-learning-examples/bert/dist4l", {"sequence_length": 384}),
        ("deep-learning-examples/transformer-xl/base", {"sequence_length": 64}),
        ("deep-learning-examples/transformer-xl/large", {"sequence_length": 128}),
        ("deep-learning-examples/nnunet/2d", {}),
        ("timm/efficientnet_b4", {"image_size": 380}),
        ("deep-learning-examples/jasper", {"audio_seconds": 2.0}),
        ("deep-learning-examples/jasper", {"audio_seconds": 7.0}),
        ("deep-learning-examples/jasper", {"audio_seconds": 16.7}),
    ]


def test_pytorch_gpu_benchmark(table):
    found = table("pytorch-gpu-benchmark", PYTORCH_GPU_BENCHMARK)
    one, four = found.data
    assert (one["model"]["id"], one["workload"]["image_size"]) == ("microsoft/resnet-50", 224)
    assert (one["execution"]["platform"], one["execution"]["precision"]) == ("rocm", "fp16")
    assert one["metrics"]["latency_ms"] == {"mean": 50.5, "p50": 50.0, "p90": 52.0, "min": 48.0, "max": 60.0, "n": 50}
    assert one["environment"]["libraries"] == {"rocm": "6.1"}
    # Whether the batch of four GPUs is that of each is not said.
    assert "batch_size" not in four["workload"] and four["imported"]["original"]["batch"] == 12
    assert four["execution"]["options"] == {"copy": "included", "optimizer_step": False}
    assert (four["hardware"]["count"], four["execution"]["parallelism"]) == (4, {"data": 4})
    assert (four["execution"]["platform"], four["hardware"]["id"]) == ("cuda", "nvidia-titan-rtx")
    assert [refused.field for refused in found.refused] == ["mode"]


def test_neusight_labels(table):
    found = table("neusight-labels", NEUSIGHT_LABELS)
    inference, training = found.data
    assert (inference["model"]["id"], inference["execution"]["platform"]) == ("neusight/bert_large", "rocm")
    assert inference["metrics"] == {"latency_ms": {"mean": 261.2}}
    assert training["metrics"] == {"latency_ms": {"mean": 900.0}, "forward_ms": 300.0, "backward_ms": 600.0}
    assert training["hardware"] == {"id": "nvidia-v100-pcie-32gb", "kind": "gpu", "count": 4}
    assert training["execution"]["parallelism"] == {"tensor": 4}


def test_openvino_platforms(table):
    found = table("openvino-platforms", OPENVINO_PLATFORMS)
    rate, latency, tokens, each, image, slow, copied = found.data
    assert (rate["metrics"], rate["workload"]["scenario"]) == ({"throughput_per_s": 300.0}, "offline")
    assert (latency["metrics"], latency["workload"]["batch_size"]) == ({"latency_ms": {"p50": 4.5}}, 1)
    assert rate["hardware"] == {"id": "intel-core-i7-1185g7-igpu", "kind": "gpu", "count": 1}
    assert rate["execution"]["options"] == {"device": "GPU"}
    assert (tokens["metrics"], each["metrics"]) == ({"tokens_per_s": 15.0}, {"tpot_ms": 66.0})
    assert image["metrics"] == {"latency_ms": {"p50": 6500.0}}
    assert "validity" not in slow and copied["validity"]["verdict"] == "invalid"
    assert [refused.field for refused in found.refused] == ["throughput_unit"]


def test_openvino_counts_the_tokens_of_bert(table):
    header = OPENVINO_PLATFORMS.splitlines()[0]
    rows = [
        f"x,Intel® Core™ i3-8100,CPU,{model},FP32,2,FPS,12,ms,"
        for model in ("bert-base-cased", "bert-large-uncased-whole-word-masking-squad-0001", "resnet-50")
    ]
    found = table("openvino-platforms", "\n".join((header, *rows, "")))
    lengths = {(data["model"]["id"], data["workload"].get("sequence_length")) for data in found.data}
    assert lengths == {
        ("google-bert/bert-base-uncased", 128),
        ("google-bert/bert-large-uncased", 384),
        ("microsoft/resnet-50", None),
    }


def test_openvino_language_models_and_model_server(table):
    (row,) = table("openvino-llm", OPENVINO_LLM).data
    assert row["metrics"] == {"ttft_ms": 500.0, "tpot_ms": 20.5, "peak_memory_bytes": 4_000_000_000}
    assert row["hardware"]["id"] == "intel-core-ultra-7-258v-igpu"
    assert (row["execution"]["precision"], row["execution"]["options"]["quantisation"]) == ("int4", "mixed")
    direct, served = table("openvino-model-server", OPENVINO_MODEL_SERVER).data
    assert direct["metrics"] == {"throughput_per_s": 500.5} and served["metrics"] == {"throughput_per_s": 480.5}
    assert served["execution"]["runtime"]["name"] == "openvino-model-server"


def test_neural_compressor(table):
    found = table("neural-compressor", NEURAL_COMPRESSOR)
    int8, fp32, narrow, wide = found.data
    assert (int8["execution"]["precision"], int8["metrics"]) == ("int8", {"throughput_per_s": 4000.0})
    assert (int8["execution"]["streams"], int8["execution"]["threads"]) == (14, 4)
    assert int8["execution"]["runtime"] == {"name": "torch", "version": "2.0.1+cpu"}
    assert fp32["metrics"] == {"throughput_per_s": 900.0} and fp32["imported"]["original"]["fp32_accuracy"] == "69.8%"
    assert (narrow["metrics"], wide["metrics"]) == ({"latency_ms": {"mean": 7.64}}, {"latency_ms": {"mean": 21.54}})
    assert narrow["hardware"]["id"] == "intel-xeon-platinum-8280"
    assert [refused.row for refused in found.refused] == [4]


def test_whisper_cpp_measures_parts_and_no_transcription(table):
    found = table("whisper-cpp", WHISPER_CPP)
    encoder, decoder, five, prompt = found.data
    assert (encoder["model"]["id"], encoder["metrics"]) == (
        "openai/whisper-small/encoder",
        {"latency_ms": {"mean": 60.5}},
    )
    assert encoder["workload"]["audio_seconds"] == 30.0
    assert (decoder["model"]["id"], decoder["metrics"]) == ("openai/whisper-small/decoder", {"tpot_ms": 2.5})
    assert (five["workload"]["batch_size"], five["metrics"]) == (5, {"tpot_ms": 0.7})
    assert prompt["execution"]["options"] == {"flash_attention": True, "quantisation": "q5_1", "phase": "prompt"}
    assert (encoder["execution"]["platform"], encoder["hardware"]["id"]) == ("mps", "apple-m2-ultra-gpu")
    assert [refused.field for refused in found.refused] == ["quantisation"]


def test_hat(table):
    found = table("hat", HAT)
    slow, fast = found.data
    assert slow["metrics"] == {"latency_ms": {"mean": 8000.0}} and fast["metrics"] == {"latency_ms": {"mean": 50.0}}
    assert slow["model"]["id"] == fast["model"]["id"] and slow["model"]["id"].startswith("hat/wmt14ende-")
    assert (slow["hardware"]["id"], fast["hardware"]["id"]) == ("raspberry-pi-4", "intel-xeon-e5-2640-v4")
    assert (slow["workload"]["input_tokens"], slow["workload"]["output_tokens"]) == (30, 30)
    assert [refused.row for refused in found.refused] == [4]


def test_sglang_cookbook(table):
    found = table("sglang-cookbook", SGLANG_COOKBOOK)
    (row,) = found.data
    assert row["hardware"] == {"id": "amd-instinct-mi300x", "kind": "gpu", "count": 8}
    assert row["execution"]["parallelism"] == {"tensor": 4, "data": 2}
    assert (row["execution"]["platform"], row["execution"]["precision"]) == ("rocm", "fp8")
    assert row["execution"]["options"]["speculative"] == "EAGLE"
    assert (row["metrics"]["ttft_ms"], row["metrics"]["tpot_ms"], row["metrics"]["tokens_per_s"]) == (
        190.0,
        10.5,
        1280.0,
    )
    assert row["metrics"]["latency_ms"] == {"mean": 6000.0, "p50": 5900.0, "p90": 7000.0, "p99": 8000.0, "n": 100}
    assert "arrival_rate_per_s" not in row["workload"] and row["workload"]["concurrency"] == 16
    assert [refused.row for refused in found.refused] == [3]
    (image,) = table("sglang-diffusion", SGLANG_DIFFUSION).data
    assert image["metrics"]["latency_ms"] == {"mean": 5500.0, "p50": 5400.0, "p99": 6000.0, "n": 10}
    assert image["metrics"]["peak_memory_bytes"] == 28_000_000_000


HUB = {
    "model": "albert_base_v2_hf", "component": "Albert-Base-V2-Hf", "precision": "float",
    "device": "Samsung Galaxy S24", "chipset": "qualcomm-snapdragon-8gen3", "form_factor": "Phone", "runtime": "onnx",
    "status": "Passed", "latency_ms": 0.248, "mem_min_mb": 0.0, "mem_max_mb": 3.0, "compute_unit": "NPU",
    "layers_total": 537, "layers_npu": 500, "layers_gpu": None, "layers_cpu": 37, "qairt": "2.37.1",
    "tflite": None, "onnx_runtime": "1.23.0", "context_length": None, "ttft_min_ms": None, "ttft_max_ms": None,
    "tokens_per_s": None,
}  # fmt: skip


def test_ai_hub_with_more_columns_and_its_history(table, reads, tmp_path):
    llm = {
        **HUB,
        "latency_ms": None,
        "context_length": 4096,
        "ttft_min_ms": 90,
        "ttft_max_ms": 90,
        "tokens_per_s": 12.5,
    }
    lines = [",".join("" if value is None else str(value) for value in row.values()) for row in (HUB, llm)]
    plain, tokens = table("ai-hub", "\n".join([",".join(HUB), *lines, ""])).data
    assert plain["metrics"] == {"latency_ms": {"mean": 0.248}, "peak_memory_bytes": 3 * 2**20}
    assert plain["environment"]["libraries"] == {"qairt": "2.37.1", "onnx_runtime": "1.23.0"}
    assert plain["observed"]["fallback_share"] == pytest.approx(37 / 537)
    assert (tokens["metrics"], tokens["execution"]["options"]["context_length"]) == (
        {"tokens_per_s": 12.5, "ttft_ms": 90.0},
        4096,
    )
    row = {name: value for name, value in HUB.items() if name != "status"} | {"release_date": "2026-02-11"}
    written = pa.table({name: [value] for name, value in row.items()})
    index = written.schema.get_field_index("latency_ms")
    narrow = written.set_column(index, "latency_ms", written.column(index).cast(pa.float32()))
    parquet.write_table(narrow, tmp_path / "history.parquet")
    file = File(tmp_path / "history.parquet", "history.parquet", given=True)
    assert IMPORTERS["ai-hub"].sniff(file)
    _, event, _ = IMPORTERS["ai-hub"].rows(file)
    assert event["time"].startswith("2026-02-11")
    # The figure as it was written, not as 32 bits spell it in 64.
    assert event["data"]["metrics"]["latency_ms"] == {"mean": 0.248}


def test_each_table_is_recognised_by_its_own_importer_alone(place):
    headers = {
        "hat": "device,task,encoder_embed_dim,decoder_layer_num,encoder_ms,decoder_ms",
        "openvino-platforms": "base_platform,device_kind,throughput_unit,latency_unit",
        "sglang-diffusion": "gpu,sglang_version,cache_dit,latency_mean_s,peak_memory_max_mb",
    }
    for name, header in headers.items():
        file = place(header + "\n", f"{name}.csv")
        assert [other for other, importer in IMPORTERS.items() if importer.sniff(file)] == [name]
