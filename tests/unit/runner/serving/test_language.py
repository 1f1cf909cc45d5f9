"""Which models an engine serves, and what is said where none can."""

from __future__ import annotations

from typing import Any

import pytest

from domain.errors import AssayError, PartMissing, UsageError
from runner.serving.contract import EndpointSpec
from runner.serving.engines import find_engines
from runner.serving.language import engine_platforms, language_model


def spec(model: str, **more: Any) -> EndpointSpec:
    return EndpointSpec(name="chat", model=model, **more)


def test_model_that_writes_text_is_served_by_an_engine_and_others_are_not() -> None:
    source = language_model(spec("gpt2"))
    assert source is not None
    assert source.task == "text-generation"
    assert language_model(spec("bert-tiny", weights="random")) is None


@pytest.mark.parametrize(
    ("asked", "field"),
    [(spec("bert-tiny", engine="vllm"), "engine"), (spec("gpt2", weights="random"), "weights")],
)
def test_what_no_engine_can_serve_is_refused(asked: EndpointSpec, field: str) -> None:
    with pytest.raises(UsageError) as refused:
        language_model(asked)
    assert refused.value.field == field


def test_platforms_are_those_of_installed_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    for engine in ("vllm", "ovms", "transformers"):
        if engine in find_engines():
            assert engine_platforms(engine)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    assert find_engines() == {}
    for engine in (None, "vllm", "ovms", "transformers"):
        with pytest.raises(AssayError) as refused:
            engine_platforms(engine)
        assert isinstance(refused.value, PartMissing)
        assert "pip install" in str(refused.value.remedy) or "PATH" in str(refused.value.remedy)
