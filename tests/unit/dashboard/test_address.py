from __future__ import annotations

import shlex
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import address
from dashboard.address import Comparison, Question

SLUGS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=12)
LIMIT = st.none() | st.integers(1, 100000).map(lambda n: n / 8)
QUESTIONS = st.builds(
    Question,
    model=SLUGS.map(lambda name: f"org/{name}"),
    mode=st.sampled_from(["inference", "training"]),
    objective=st.sampled_from(address.OBJECTIVES),
    pct=st.sampled_from(address.PERCENTILES),
    max_ms=st.none() | st.sampled_from([0.5, 10.0, 250.0]),
    max_gb=st.none() | st.sampled_from([0.25, 16.0]),
    max_usd=st.none() | st.sampled_from([2.5]),
    hw=st.lists(SLUGS, min_size=1, max_size=3, unique=True).map(tuple),
    platform=st.lists(SLUGS, max_size=3, unique=True).map(tuple),
    precision=st.lists(SLUGS, max_size=3, unique=True).map(tuple),
    batch=st.lists(st.integers(1, 512), max_size=3, unique=True).map(tuple),
    seq=st.none() | st.integers(1, 100000),
    as_of=st.none() | st.integers(0, 10**12),
    top=st.integers(1, 100),
)


@given(QUESTIONS)
def test_a_link_restores_the_question(question: Question) -> None:
    url = address.link("http://host:8501", "recommend", question)
    assert urlsplit(url).path == "/recommend"
    read = address.read_question(parse_qs(urlsplit(url).query))
    assert read == (question, [])


@given(QUESTIONS)
def test_parameters_without_defaults_restore_it_too(question: Question) -> None:
    assert address.read_question(address.parameters(question)) == (question, [])


def test_a_link_says_the_defaults_and_the_address_bar_does_not() -> None:
    assert address.parameters(Question(model="m")) == {"model": ["m"]}
    assert "objective=latency" in address.link("http://h", "recommend", Question(model="m"))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("objective", "speed", "one of latency"),
        ("max_ms", "-1", "above zero"),
        ("max_ms", "nan", "above zero"),
        ("max_ms", "ten", "above zero"),
        ("batch", "1,two", "whole number"),
        ("seq", "0", "whole number"),
        ("as_of", "yesterday", "position"),
        ("colour", "red", "not a parameter"),
    ],
)
def test_what_is_not_understood_is_named_and_the_rest_is_kept(name: str, value: str, said: str) -> None:
    read = address.read_question({"model": ["m"], name: [value]})
    assert read.asked.model == "m"
    assert len(read.dropped) == 1
    assert name in read.dropped[0]
    assert said in read.dropped[0]


def test_a_comparison_round_trips() -> None:
    asked = Comparison(model="a/b", metric="memory", scale="log", platform=("cpu",), batch=8, basis="measured", as_of=7)
    query = urlsplit(address.link("http://h", "compare", asked)).query
    assert address.read_comparison(parse_qs(query)) == (asked, [])


def test_a_request_has_the_units_of_the_api_and_nothing_empty() -> None:
    asked = address.request(Question(model="m", max_gb=16.0, max_ms=5.0, hw=("a", "b"), batch=(1, 8)))
    assert asked["max_memory_mb"] == 16000
    assert asked["max_latency_ms"] == 5
    assert asked["hardware"] == ["a", "b"]
    assert "precision" not in asked
    assert "max_usd_per_hour" not in asked


def test_the_command_is_safe_to_paste_and_asks_the_same() -> None:
    words = shlex.split(address.command(Question(model="it's; rm -rf /", hw=("own",), max_gb=16.0, pct="p95")))
    assert words[:3] == ["assay", "recommend", "it's; rm -rf /"]
    assert words[words.index("--hardware") + 1] == "own"
    assert words[words.index("--max-memory-mb") + 1] == "16000"
    assert words[words.index("--percentile") + 1] == "p95"
    assert "--objective" not in words


def test_the_command_that_checks_a_row() -> None:
    row = {"platform": "openvino", "precision": "int8", "batch_size": 8, "sequence_length": None}
    assert address.verify_command("a/b", row) == "assay bench a/b --platform openvino --precision int8 --batch-sizes 8"
