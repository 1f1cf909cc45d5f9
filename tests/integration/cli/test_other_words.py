"""Words of other tools resolve or are named, and `assay help` and the completion of shells are there."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from assay.cli import VERBS


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("bench", "bert-base-uncased", "--training"), "--mode training"),
        (("bench", "bert-base-uncased", "--hardware", "cuda"), "--platform"),
        (("bench", "microsoft/resnet-50", "--sequence-lengths", "64", "--dry-run"), "sequence_lengths:"),
        (("benchmark_performance",), "bench"),
        (("recommend", "bert-base-uncased", "--hardware", "cuda"), "platform cuda"),
    ],
)  # fmt: skip
def test_what_is_no_word_here_is_named_with_what_is(typed, words, named):
    said = typed(*words, code=2)[1]
    assert named in said


def test_a_chip_is_asked_about_with_its_gpu(typed):
    asked = ("predict", "bert-base-uncased", "--platform", "mps", "--precision", "fp16", "--json", "--hardware")
    chip, gpu = (json.loads(typed(*asked, name)[0]) for name in ("Apple M3", "apple-m3-gpu"))
    assert chip["hardware"] == "apple-m3-gpu"
    assert chip["latency_ms"] == gpu["latency_ms"]


def test_a_precision_by_another_name_is_the_same_question(typed):
    asked = ("recommend", "bert-base-uncased", "--hardware", "intel-xeon-2c", "--platform", "openvino", "--json")
    ours, theirs = (typed(*asked, "--precision", name)[0] for name in ("bf16", "bfloat16"))
    assert ours == theirs


def test_help_is_a_verb(typed):
    assert all(f" {verb} " in typed("help")[0] for verb in VERBS)
    assert "--max-latency-ms" in typed("help", "recommend")[0]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_is_written_where_the_shell_reads_it(typed, shell, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    typed("completion", "install", shell)
    (path,) = [path for path in tmp_path.rglob("*assay*") if path.is_file()]
    assert path.read_text() == typed("completion", "show", shell)[0].removesuffix("\n")
    if shell == "bash":
        subprocess.run(["bash", "-n", str(path)], check=True)


def test_a_run_shows_the_parts_of_its_calls_and_steps(filled, typed):
    with filled.client() as client:
        rows = client.measurements(mode="training", hardware="intel-xeon-2c")
        step = next(row for row in rows if row["backward_ms"])
    shown = typed("runs", "show", step["run_id"])[0]
    assert "backward" in shown
    assert "optimizer" in shown


def test_a_trend_is_of_the_hardware_that_is_asked_for(typed):
    here = json.loads(
        typed("trends", "bert-base-uncased", "--hardware", "intel-xeon-2c", "--precision", "bf16", "--json")[0]
    )
    assert {line["precision"] for line in here["lines"]} == {"bf16"}
    assert "nothing was measured" in typed("trends", "bert-base-uncased", "--hardware", "nvidia-l4", code=1)[1]


def test_detect_promises_nothing_that_bench_refuses_and_leaves_nothing_out(typed, monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))  # Nothing that pages need is installed there.
    shown = typed("detect")[0]
    here = dict(re.findall(r"^(\S+) +(yes|no|in a browser) ", shown, re.MULTILINE))
    assert here["onnxruntime"] == "yes"
    assert "yes" not in {here[platform] for platform in ("wasm", "webgpu", "webnn")}


def test_a_comparison_is_narrowed_and_says_what_differs(typed):
    asked = ("compare", "models", "intel-xeon-2c", "--platform", "cpu", "--precision", "fp32", "--batch-size", "1")
    rows = json.loads(typed(*asked, "--json")[0])["rows"]
    assert {(row["platform"], row["precision"], row["batch_size"]) for row in rows} == {("cpu", "fp32", 1)}
    shown = typed(*asked)[0]
    assert re.search(r"model +mode +tokens +px", shown)
    assert max(map(len, shown.splitlines())) <= 100
