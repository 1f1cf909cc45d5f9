"""The earlier framework's skill tests: ten shapes become tests and times, and stand-ins are seen. The samples are ours."""

from __future__ import annotations

import pytest

from ingest.importers.legacy.skills import SeedSkills

BERT = {
    "status": {
        "init": "Success", "cpu_init": "Success (REAL)", "cpu_handler": "Success (REAL)", "cpu_embedding_type": "torch.float32",
        "cuda_init": "Success (REAL)", "cuda_handler": "Success (REAL)",
        "cuda_benchmark": {"average_inference_time": 0.0026073455810546875, "iterations": 3, "cuda_device": "Quadro P4000", "cuda_memory_used_mb": 68.4},
        "apple_tests": "Apple Silicon not available", "qualcomm_init": "Success (MOCK)", "qualcomm_tests": "Error: tensors differ in size",
    },
    "examples": [
        {"input": "Batch of 2 texts", "timestamp": "2025-02-28T19:30:26.070932", "elapsed_time": 0.0105490779876708984,
         "implementation_type": "REAL", "platform": "CPU", "test_type": "batch"},
        {"input": "a fox", "output": {"performance_metrics": {"is_simulated": True}}, "elapsed_time": 0.0021843910217285156,
         "implementation_type": "REAL", "platform": "CUDA", "is_simulated": True},
    ],
    "metadata": {"model_name": "prajjwal1/bert-tiny", "test_timestamp": "2025-02-28T21:13:02.650471", "python_version": "3.12.3 (main)",
                 "torch_version": "2.6.0+cu124", "transformers_version": "4.46.0", "platform_status": {"cuda": "Ready (REAL)"}},
}  # fmt: skip


def by_record(found):
    return {data["imported"]["original"]["record"]: data for data in found.data}


def test_statuses_become_a_test_a_platform_and_examples_times(reads):
    found = reads(SeedSkills(), BERT, "hf_bert_test_results.json")
    rows = by_record(found)
    assert list(rows) == ["cpu", "examples[0]", "cuda", "examples[1]", "cuda_benchmark", "mps", "qnn"]
    cpu = rows["cpu"]
    assert (cpu["test"], cpu["outcome"], cpu["provenance"]["origin"]) == ("skill", "passed", "imported")
    assert cpu["checks"] == {"statuses": {"cpu_init": "Success (REAL)", "cpu_handler": "Success (REAL)"}}
    assert cpu["model"]["id"] == "prajjwal1/bert-tiny" and cpu["hardware"]["id"] == "unknown-cpu"
    assert cpu["environment"]["libraries"] == {"torch": "2.6.0+cu124", "transformers": "4.46.0"}
    assert cpu["environment"]["python"] == "3.12.3"
    call = rows["examples[0]"]
    assert call["metrics"] == {"first_run_ms": pytest.approx(10.5490779876)}
    assert call["workload"]["batch_size"] == 2 and "validity" not in call
    assert rows["cuda"]["provenance"]["origin"] == rows["examples[1]"]["provenance"]["origin"] == "simulated"
    measured = rows["cuda_benchmark"]
    assert measured["metrics"]["latency_ms"] == {"mean": pytest.approx(2.6073455), "n": 3}
    assert measured["hardware"]["id"] == "nvidia-quadro-p4000" and measured["provenance"]["origin"] == "imported"
    assert rows["mps"]["outcome"] == "skipped"
    assert (rows["qnn"]["outcome"], rows["qnn"]["failure"]["message"]) == ("error", "Error: tensors differ in size")
    assert found.rows[1]["time"] == "2025-02-28T19:30:26.070932+00:00"


def one(reads, content, name="hf_clip_test_results.json"):
    return by_record(reads(SeedSkills(), content, name))


def test_a_success_after_a_failed_start_is_a_stand_ins(reads):
    rows = one(reads, {"cuda_init": "Failed CUDA initialization", "cuda_handler": "Success (REAL)",
                       "cuda_example": {"performance": {"inference_time": 0.10044527053}, "is_simulated": False}})  # fmt: skip
    assert rows["cuda"]["imported"]["rules"] == ["failed-start"] == rows["cuda_example"]["imported"]["rules"]
    assert (
        rows["cuda"]["model"] == {"id": "skill/clip", "category": "multimodal"}
        or rows["cuda"]["model"]["id"] == "skill/clip"
    )
    honest = one(reads, {"cuda_init": "Failed CUDA initialization", "cuda_tests": "Error: no device"})
    assert (honest["cuda"]["outcome"], honest["cuda"]["stage"]) == ("failed", "load")
    assert honest["cuda"]["provenance"]["origin"] == "imported"


@pytest.mark.parametrize(
    ("content", "record", "rule"),
    [
        ({"cpu_init": "Success (REAL)", "cpu_x_example": {"elapsed_time": 0.1, "platform": "CPU"}}, "cpu", "typed-figures"),
        ({"cpu_init": "Success (REAL)", "cpu_x_time": 0.0000679492950}, "cpu_x_time", "impossible-speed"),
        ({"cpu_init": "Success (REAL)", "cpu_output": "Example generated text from T5"}, "cpu", "canned-answer"),
        ({"cpu_init": "Success (REAL)", "cpu_processor_type": "MagicMock"}, "cpu", "simulated-flag"),
        ({"cpu_init": "Success (REAL)", "metadata": {"using_mocks": True}}, "cpu", "simulated-flag"),
        ({"cpu_init": "Success (REAL)", "metadata": {"transformers_version": "mocked"}}, "cpu", "simulated-flag"),
        ({"cuda_total_time": 0.175371646, "cuda_generation_time": 0.08, "cuda_generated_tokens": 9, "cuda_tokens_per_second": 112.5},
         "cuda_generation_time", "typed-figures"),
        ({"cuda_init": "Success (REAL)", "cuda_capabilities": {"memory_allocated_mb": 0.0}, "cuda_example": {"elapsed_time": 0.0024340152}},
         "cuda_example", "no-device-counters"),
    ],
)  # fmt: skip
def test_what_gives_a_stand_in_away(reads, content, record, rule):
    assert rule in one(reads, content)[record]["imported"]["rules"]


def test_results_inside_other_files_are_read_the_same(reads):
    script = {
        "test_file": "test_hf_bert.py",
        "elapsed_time": 9.9,
        "return_code": 0,
        "stdout": "",
        "stderr": "",
        "json_result": BERT,
    }
    shapes = {
        "results/": {"metadata": {"timestamp": "2025-02-28T00:06:13", "model": "hf_bert"}, "results": BERT},
        "skill_tests/test_hf_bert.py/json_result/": {"timestamp": "2025-02-28T00:06:13", "command": "x", "skill_tests": {"test_hf_bert.py": script}},
        "json_result/": script,
        "test_hf_bert/": {"test_hf_bert": BERT},
        "cpu/test_hf_bert/": {"cpu": {"test_hf_bert": BERT}},
    }  # fmt: skip
    ids = [event["id"] for event in reads(SeedSkills(), BERT, "hf_bert_test_results.json").rows]
    for prefix, content in shapes.items():
        found = reads(SeedSkills(), content, "x.json")
        assert [record.removeprefix(prefix) for record in by_record(found)] == [
            "cpu", "examples[0]", "cuda", "examples[1]", "cuda_benchmark", "mps", "qnn",
        ], prefix  # fmt: skip
        assert [event["id"] for event in found.rows] == ids, "the same fact, wherever it stands"


def test_scripts_that_ended_badly_are_tests_and_output_that_is_no_json_is_refused(reads):
    runs = {"timestamp": "2025-02-28T01:28:40", "command": "x", "skill_tests": {
        "test_hf_llama.py": {"return_code": 1, "stdout": "", "stderr": "SyntaxError: unterminated string literal"},
        "test_hf_clap.py": {"return_code": 0, "stdout": "{…", "json_parse_error": "Expecting value"},
    }}  # fmt: skip
    found = reads(SeedSkills(), runs, "performance_test_skills_x.json")
    (data,) = found.data
    assert (data["model"]["id"], data["failure"]["error"], data["stage"]) == ("skill/llama", "SyntaxError", "resolve")
    (refused,) = found.refused
    assert refused.field == "skill_tests/test_hf_clap.py/json_result" and "Expecting value" in refused.reason
    (text,) = reads(SeedSkills(), {"cpu": {"test_hf_clip": "'transformers'"}}, "hardware_all_results.json").data
    assert text["execution"]["platform"] == "cpu" and text["outcome"] == "error"


def test_ways_of_calling_a_model_have_latencies(reads):
    ways = {
        "results": {
            "pipeline_cuda": {"model": "bert-base-uncased", "device": "cuda", "pipeline_success": True},
            "from_pretrained_cpu": {"success": True, "model": "gpt2", "device": "cpu"},
            "openvino": {"model": "gpt2", "device": "openvino", "success": False, "error": "OSError: no such model"},
        },
        "performance": {
            "pipeline_cuda": {"avg_time": 0.0100313027, "min_time": 0.0095205307, "max_time": 0.011024475, "load_time": 40.948, "num_runs": 3},
            "from_pretrained_cpu": {"avg_time": 0.3, "min_time": 0.27, "max_time": 0.33, "num_runs": 3},
        },
        "metadata": {"model": "bert-base-uncased", "timestamp": "2025-03-01T16:54:12.692089"},
    }  # fmt: skip
    rows = one(reads, ways, "bert_test_x.json")
    timed = rows["performance/pipeline_cuda"]
    assert timed["metrics"]["load_ms"] == pytest.approx(40948.0) and timed["metrics"]["latency_ms"]["n"] == 3
    assert timed["execution"] == {"platform": "cuda", "options": {"way": "pipeline"}} and "validity" not in timed
    assert rows["performance/from_pretrained_cpu"]["imported"]["rules"] == ["typed-figures", "round-spread"]
    assert rows["results/from_pretrained_cpu"]["provenance"]["origin"] == "simulated"
    assert (rows["results/openvino"]["outcome"], rows["results/openvino"]["failure"]["error"]) == ("error", "OSError")


def test_platforms_with_objects_of_their_own_and_single_models(reads):
    rows = one(reads, {"results": {"cpu": {"init": "Success", "handler_created": "Success", "execution_time": 1.2023482322, "success": True}},
                       "metadata": {"model_id": "openai/clip-vit-base-patch32", "timestamp": "2025-03-05T19:33:43"}}, "clip_cpu_test.json")  # fmt: skip
    assert rows["results/cpu"]["outcome"] == "passed"
    assert rows["results/cpu/execution_time"]["metrics"] == {"first_run_ms": pytest.approx(1202.3482322)}
    single = {"model": "prajjwal1/bert-tiny", "platform": "cuda", "success": False, "execution_time": 0, "total_execution_time": 2.9,
              "error": "no", "traceback": "Traceback\nTypeError: unexpected keyword\n", "timestamp": "2025-03-06T21:39:21"}  # fmt: skip
    assert one(reads, single)[""]["failure"]["error"] == "TypeError"


@pytest.mark.parametrize("status", [{}, {"cpu": "UNKNOWN"}, {"cpu_init": 3}, {"cpu_example": {"elapsed_time": 0}}])
def test_nothing_said_is_nothing_taken(reads, status):
    assert reads(SeedSkills(), status, "hf_x_test_results.json").rows == []


def test_a_time_that_is_none_is_refused_and_the_rest_goes_on(reads):
    found = reads(
        SeedSkills(), {"cpu_init": "Success", "cpu_example": {"elapsed_time": "long"}}, "hf_x_test_results.json"
    )
    assert [refused.field for refused in found.refused] == ["cpu_example/elapsed_time"]
    assert len(found.rows) == 1


def test_tests_of_remote_services_are_not_skill_tests(place):
    assert SeedSkills().sniff(place(BERT, "hf_bert_test_results.json"))
    assert not SeedSkills().sniff(
        place({"endpoint_handler": "Success", "test_endpoint": "Success"}, "claude_test_results.json")
    )
    check = {"stats": {}, "detailed_results": [{"return_code": 0, "stdout": '{"cpu_init": "Success"}'}]}
    assert not SeedSkills().sniff(place(check, "model_functionality.json"))
