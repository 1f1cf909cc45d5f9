"""Engines: where they run, which weights they read, and what of a device they usually reach."""

from __future__ import annotations

import pytest

from domain.catalogues import engines
from domain.vocabulary import PLATFORMS, PRECISIONS, STORED_ONLY, WEIGHT_BITS

ENGINES = engines.catalogue()
PAIRS = [(engine, platform) for engine in ENGINES.values() for platform in engine.platforms]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda engine: engine.name)
def test_an_engine_runs_on_known_platforms_with_weights_that_a_question_can_name(engine: engines.Engine) -> None:
    assert set(engine.platforms) <= set(PLATFORMS)
    assert set(engine.precisions) <= {*PRECISIONS, *WEIGHT_BITS, *STORED_ONLY}
    assert engine.source
    for kept in engine.formats.values():
        assert 2 <= kept.bits <= 32
        assert kept.arithmetic in PRECISIONS


@pytest.mark.parametrize(
    ("engine", "platforms"),
    [
        ("vllm", {"cuda", "rocm", "xpu"}),
        ("sglang", {"cuda", "rocm"}),
        ("tensorrt-llm", {"cuda"}),
        ("llama.cpp", {"cuda", "rocm", "mps", "xpu", "cpu"}),
        ("mlx", {"mps"}),
        ("openvino", {"openvino"}),
    ],
)
def test_engines_run_where_their_documentation_says(engine: str, platforms: set[str]) -> None:
    assert set(ENGINES[engine].platforms) == platforms


@pytest.mark.parametrize(
    ("spelled", "name"),
    [("vLLM", "vllm"), (" Ollama ", "llama.cpp"), ("lm-studio", "llama.cpp"), ("TensorRT-LLM", "tensorrt-llm"),
     ("trtllm", "tensorrt-llm"), ("MLX-LM", "mlx"), ("openvino-genai", "openvino"), ("accelerate", "transformers")],
)  # fmt: skip
def test_an_engine_is_found_by_any_of_its_names(spelled: str, name: str) -> None:
    found = engines.find(spelled)
    assert found is not None
    assert found.name == name


def test_an_unknown_engine_has_nearest_ones() -> None:
    assert engines.find("lama.cp") is None
    assert "llama.cpp" in engines.nearest("lama.cp")
    assert engines.nearest("") == ()


@pytest.mark.parametrize(
    ("platform", "precision", "name"),
    [
        ("cuda", "fp16", "vllm"),
        ("cuda", "int4", "vllm"),
        ("cuda", "q4_k_m", "llama.cpp"),
        ("mps", "fp16", "llama.cpp"),
        ("mps", "int4", "mlx"),
        ("mps", "q6_k", "llama.cpp"),
        ("cpu", "fp32", "llama.cpp"),
        ("openvino", "int4", "openvino"),
        ("openvino", "q4_k_m", None),
        ("directml", "fp16", None),
    ],
)
def test_the_usual_engine_is_one_that_runs_the_weights(platform: str, precision: str, name: str | None) -> None:
    usual = engines.usual(platform, precision)
    assert (None if usual is None else usual.name) == name


def test_gguf_files_are_read_by_llama_cpp_alone() -> None:
    for engine in ENGINES.values():
        assert (engine.format("q4_k_m") is not None) == engine.name.startswith("llama.cpp")


def test_groups_of_weights_have_their_scales() -> None:
    assert engines.format_of("mlx", "int4").bits == 4.5
    assert engines.format_of("llama.cpp", "q8_0").bits == WEIGHT_BITS["q8_0"]
    assert engines.format_of("vllm", "fp8").bits == 8
    # Of what nobody knows, the precision tells the bits.
    assert engines.format_of("acme-server", "int8").bits == 8
    assert engines.format_of("acme-server", "").bits == 16


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].name}-{pair[1]}")
def test_what_an_engine_reaches_is_stated_with_where_it_is_from(pair: tuple[engines.Engine, str]) -> None:
    engine, platform = pair
    kind = "gpu" if platform == "openvino" else None
    known = engines.efficiency_of(engine.name, platform, kind)
    assert known is not None
    assert known.source
    for share in (*known.decode.values(), *known.prefill.values()):
        assert 0.02 <= share.value <= 1.1
        assert share.width >= 0.1
    assert 0 <= known.launch_s < 1e-3
    if not any(share.rows for share in known.decode.values()):
        assert known.source.startswith("no published row")
        assert all(share.width >= 0.5 for share in known.decode.values())


def test_one_platform_has_figures_by_kind_of_device_where_they_differ() -> None:
    cpu, gpu = (engines.efficiency_of("openvino", "openvino", kind) for kind in ("cpu", "gpu"))
    assert cpu is not None and gpu is not None
    assert cpu.kind == "cpu" and gpu.kind == "gpu"
    assert engines.efficiency_of("acme-server", "cuda") is None
