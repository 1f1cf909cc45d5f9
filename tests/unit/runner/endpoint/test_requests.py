"""What is sent: addresses, prompts, bodies, arrivals and objectives."""

from __future__ import annotations

import itertools
import json
import statistics
from pathlib import Path

import pytest

from domain.errors import UsageError
from runner.endpoint.faults import EndpointFault
from runner.endpoint.figures import Objective, objective_of
from runner.endpoint.link import request_bytes
from runner.endpoint.prompts import Prompts, counter_of
from runner.endpoint.protocols import EXTRAS, language_call, tensors
from runner.endpoint.target import APIS, runtime_of, target_of
from runner.measure.arrivals import poisson


def test_arrivals_are_exponential_and_the_same_for_a_seed() -> None:
    drawn = list(itertools.islice(poisson(50.0, seed=3), 20_000))
    gaps = [later - earlier for earlier, later in itertools.pairwise([0.0, *drawn])]
    assert statistics.fmean(gaps) == pytest.approx(0.02, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(0.02, rel=0.03)
    assert drawn[:5] == list(itertools.islice(poisson(50.0, seed=3), 5))
    assert drawn[:5] != list(itertools.islice(poisson(50.0, seed=4), 5))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("127.0.0.1:8000", "http://"),
        ("ftp://host/v1", "http://"),
        ("http://", "http://"),
        ("http://host:port", "port"),
        ("http://host/v1?key=1", "query"),
        ("http://host/v1\r\nX: y", "character"),
        ("http://me:secret@host", "password"),
    ],
)
def test_what_is_no_address_is_refused_by_name(url: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        target_of(url, "openai", "m")
    assert caught.value.field == "endpoint"
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("url", "api", "path"),
    [
        ("http://h:1", "openai", "/v1/chat/completions"),
        ("http://h:1/v1/", "openai", "/v1/chat/completions"),
        ("http://h:1/proxy/v1/completions", "openai", "/proxy/v1/completions"),
        ("http://h:1", "ovms", "/v3/chat/completions"),
        ("http://h:1", "tgi", "/generate_stream"),
        ("http://h:1/generate", "tgi", "/generate"),
    ],
)
def test_each_api_has_its_path(url: str, api: str, path: str) -> None:
    assert api in APIS
    assert language_call(target_of(url, api, "m"), 8, streams=True).path == path  # type: ignore[arg-type]


def test_a_request_asks_for_exactly_so_many_tokens() -> None:
    target = target_of("https://h/v1/completions", "openai", "served")
    call = language_call(target, 32, streams=True)
    full = json.loads(call.body("one two", EXTRAS[0]))
    assert full == {
        "model": "served", "prompt": "one two", "temperature": 0, "stream": True, "max_tokens": 32,
        "stream_options": {"include_usage": True}, "ignore_eos": True, "min_tokens": 32,
    }  # fmt: skip
    assert json.loads(call.body("one two", ())).keys() == {"model", "prompt", "temperature", "stream", "max_tokens"}


def test_a_request_goes_to_its_host_with_its_key() -> None:
    target = target_of("https://h/v1", "openai", "m", "k")
    sent = request_bytes(target, "POST", "/v1", b"{}", {"Accept": "*/*"}).decode()
    assert sent.startswith("POST /v1 HTTP/1.1\r\nHost: h\r\n")
    assert "Authorization: Bearer k\r\n" in sent
    assert sent.endswith("Content-Length: 2\r\n\r\n{}")
    assert target_of("http://[::1]:80", "openai", "m").authority == "[::1]"
    assert target_of("http://h:8080", "openai", "m").authority == "h:8080"


def test_prompts_differ_and_are_the_same_for_a_seed() -> None:
    one, other = Prompts(20, 1), Prompts(20, 1)
    drawn = [one.next() for _ in range(50)]
    assert len(set(drawn)) == 50
    assert all(len(prompt.split()) == 20 for prompt in drawn)
    assert drawn == [other.next() for _ in range(50)]


def test_a_prompt_is_corrected_by_what_the_server_counted() -> None:
    prompts = Prompts(20, 1)
    assert prompts.fit(27)
    assert len(prompts.next().split()) == 13
    assert not prompts.fit(20)


def test_a_tokenizer_makes_prompts_exact(tmp_path: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import Whitespace

    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = {
        piece: at for at, piece in enumerate(["[UNK]", *letters, *(f"##{one}" for one in letters), "time", "year"])
    }
    tokenizer = Tokenizer(WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    count = counter_of(str(tmp_path))
    assert count("time year way") == 5
    prompts = Prompts(7, 0, lambda text: 1 + len(text.split()))
    assert len(prompts.next().split()) == 6
    assert prompts.exact
    assert not prompts.fit(99)


@pytest.mark.parametrize("content", ["", "{}"])
def test_what_is_no_tokenizer_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "tokenizer.json"
    with pytest.raises(UsageError, match=r"holds no tokenizer\.json"):
        counter_of(str(tmp_path))
    file.write_text(content)
    with pytest.raises(UsageError, match="is no tokenizer"):
        counter_of(str(file))


def test_an_objective_is_read_and_refused_by_its_part() -> None:
    assert objective_of("ttft=200, tpot=50") == Objective(ttft_ms=200.0, tpot_ms=50.0)
    for text in ("ttft", "ttft=0", "ttft=nan", "speed=3", "ttft=200,"):
        with pytest.raises(UsageError) as caught:
            objective_of(text)
        assert caught.value.field == "slo"


def test_a_runtime_is_a_name_and_perhaps_a_version() -> None:
    assert runtime_of("vllm==0.11.0").version == "0.11.0"
    assert runtime_of("tgi").version is None
    with pytest.raises(UsageError, match="names no runtime"):
        runtime_of("=1")


def test_tensors_have_the_batch_in_their_first_open_axis() -> None:
    described = b'{"name":"m","inputs":[{"name":"ids","datatype":"INT64","shape":[-1,-1]},{"name":"x","datatype":"FP32","shape":[-1,2]}]}'
    ids, x = json.loads(tensors(described, 2, 3))["inputs"]
    assert (ids["shape"], ids["data"]) == ([2, 3], [1] * 6)
    assert (x["shape"], x["data"]) == ([2, 2], [0.5] * 4)
    with pytest.raises(UsageError) as caught:
        tensors(described, 2, None)
    assert caught.value.field == "sequence_lengths"
    with pytest.raises(EndpointFault, match="is not what this API sends"):
        tensors(b"<html>", 1, None)
