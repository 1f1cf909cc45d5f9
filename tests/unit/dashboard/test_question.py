from __future__ import annotations

import shlex
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import address
from dashboard.screens.recommend.question import (
    OBJECTIVES,
    PERCENTILES,
    Question,
    command,
    from_command,
    read_question,
    request,
)
from domain.cookbook import Recipe, recipes

SLUGS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=12)
NAMES = st.lists(SLUGS, max_size=3, unique=True).map(tuple)
SIZE = st.none() | st.integers(1, 100000)
LIMIT = st.none() | st.integers(1, 100000).map(lambda n: n / 8)
QUESTIONS = st.builds(
    Question,
    model=SLUGS.map(lambda name: f"org/{name}"),
    mode=st.sampled_from(["inference", "training"]),
    objective=st.sampled_from([*OBJECTIVES, "latency:0.7,cost:0.3", "cost:1,energy:2.5"]),
    pct=st.sampled_from(PERCENTILES),
    max_ms=LIMIT,
    max_ttft=LIMIT,
    max_tpot=LIMIT,
    min_per_s=LIMIT,
    min_tokens=LIMIT,
    max_gb=LIMIT,
    max_w=LIMIT,
    max_usd=LIMIT | st.just(1234567.891),
    confidence=st.sampled_from([0.5, 0.8, 0.95]),
    hw=st.lists(SLUGS, min_size=1, max_size=3, unique=True).map(tuple),
    vendor=NAMES,
    count=SIZE,
    compiled=st.sampled_from(["any", "compiled", "eager"]),
    image=SIZE,
    images=SIZE,
    device=st.lists(SLUGS.map(lambda slug: f"{slug}:0={slug}@6000"), max_size=2, unique=True).map(tuple),
    audio=LIMIT,
    frames=SIZE,
    input=SIZE,
    output=SIZE,
    concurrency=SIZE,
    region=NAMES,
    provider=NAMES,
    spot=st.booleans(),
    per_hw=st.booleans(),
    platform=NAMES,
    precision=NAMES,
    batch=st.lists(st.integers(1, 512), max_size=3, unique=True).map(tuple),
    seq=SIZE,
    as_of=st.none() | st.integers(0, 10**12),
    top=st.integers(1, 100),
    add=st.lists(SLUGS, max_size=3, unique=True).map(tuple),
)


@given(QUESTIONS)
def test_a_link_restores_the_question(question: Question) -> None:
    url = address.link("http://host:8501", "recommend", question)
    assert urlsplit(url).path == "/recommend"
    read = read_question(parse_qs(urlsplit(url).query))
    assert read == (question, [])


@given(QUESTIONS)
def test_parameters_without_defaults_restore_it_too(question: Question) -> None:
    assert read_question(address.parameters(question)) == (question, [])


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
        ("batch", "8..1", "rise"),
        ("seq", "0", "whole number"),
        ("objective", "latency:0.7,speed:1", "one of latency"),
        ("objective", "latency:0.7,cost:-1", "above zero"),
        ("objective", "latency:1,latency:2", "one of latency"),
        ("confidence", "1", "0.5 or more"),
        ("per_hw", "maybe", "yes, no"),
        ("view", "pie", "not a parameter"),
        ("as_of", "yesterday", "position"),
        ("colour", "red", "not a parameter"),
    ],
)
def test_what_is_not_understood_is_named_and_the_rest_is_kept(name: str, value: str, said: str) -> None:
    read = read_question({"model": ["m"], name: [value]})
    assert read.asked.model == "m"
    assert len(read.dropped) == 1
    assert name in read.dropped[0]
    assert said in read.dropped[0]


def test_a_request_has_the_units_of_the_api_and_nothing_empty() -> None:
    asked = request(Question(model="m", max_gb=16.0, max_ms=5.0, hw=("a", "b"), batch=(1, 8)))
    assert asked["max_memory_mb"] == 16000
    assert asked["max_latency_ms"] == 5
    assert asked["hardware"] == ["a", "b"]
    assert "precision" not in asked
    assert "max_usd_per_hour" not in asked


def test_the_command_is_safe_to_paste_and_asks_the_same() -> None:
    words = shlex.split(command(Question(model="it's; rm -rf /", hw=("own",), max_gb=16.0, pct="p95")))
    assert words[:3] == ["assay", "recommend", "it's; rm -rf /"]
    assert words[words.index("--hardware") + 1] == "own"
    assert words[words.index("--max-memory-mb") + 1] == "16000"
    assert words[words.index("--percentile") + 1] == "p95"
    assert "--objective" not in words


def test_a_mix_is_asked_with_its_weights() -> None:
    read = read_question({"model": ["m"], "objective": ["latency:0.70, cost"]})
    assert read.asked.objective == "latency:0.7,cost:1"
    assert request(read.asked)["objective"] == {"latency": 0.7, "cost": 1.0}


def test_switches_are_asked_as_the_api_knows_them() -> None:
    asked = request(Question(model="m", compiled="eager", spot=True, per_hw=False))
    assert (asked["compiled"], asked["spot"], asked["per_hardware"]) == (False, True, False)
    assert request(Question(model="m"))["compiled"] == "any"


@given(QUESTIONS)
def test_the_command_asks_the_same_question(question: Question) -> None:
    asked = from_command(command(question))
    assert asked is not None
    assert request(asked) == request(question)


ASKED = [recipe for recipe in recipes() if recipe.command.startswith("assay recommend")]


@pytest.mark.parametrize("recipe", ASKED, ids=lambda recipe: recipe.name)
def test_each_recipe_of_the_cookbook_has_an_address(recipe: Recipe) -> None:
    question = from_command(recipe.command)
    assert question is not None
    assert question.per_hw == ("--all-configurations" not in recipe.command)
    assert read_question(address.parameters(question)) == (question, [])
    again = from_command(command(question))
    assert again == question


def test_commands_that_this_page_cannot_ask_are_none_of_it() -> None:
    assert len(ASKED) >= 5
    assert from_command("assay fleet --load m=4/s") is None
    assert from_command("assay recommend m --record") is None
    assert from_command("assay recommend m --top many") is None
    assert from_command("assay recommend") is None


def test_memory_of_a_command_is_in_megabytes() -> None:
    question = from_command("assay recommend m --max-memory-mb 8200 --batch-sizes 1..4")
    assert question == Question(model="m", max_gb=8.2, batch=(1, 2, 4))
    assert request(question)["max_memory_mb"] == 8200


def test_devices_at_hand_stand_in_the_place_of_hardware() -> None:
    question = read_question({"model": ["m"], "device": ["cuda:0=nvidia-l4@6000,cpu=intel-xeon-2c", "nvidia-t4"]}).asked
    asked = request(question)
    assert asked["devices"] == [
        {"hardware": "nvidia-l4", "name": "cuda:0", "free_memory_mb": 6000.0},
        {"hardware": "intel-xeon-2c", "name": "cpu"}, {"hardware": "nvidia-t4"},
    ]  # fmt: skip
    assert "hardware" not in asked
    line = command(question)
    assert line.count("--device") == 3
    read = from_command(line)
    assert read is not None
    assert read.device == question.device
    assert "must be devices such as" in read_question({"device": ["cuda:0=@5"]}).dropped[0]
    assert "above zero" in read_question({"device": ["cuda:0=nvidia-l4@much"]}).dropped[0]
