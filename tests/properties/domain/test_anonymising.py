"""Whatever text stands in whatever field of an event: what is private in it does not leave."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.events import DATA_TYPES, Decoded, decode_event, encode_event, new_event
from domain.sharing.anonymising import Anonymiser
from domain.sharing.bundles import SHARED_TYPES

USER, HOST, PROJECT = "alice", "build-box-17", "secretproject"
WORDS = (
    USER,
    f"{HOST}.corp.example",
    f"{HOST}.local",
    PROJECT,
    "10.17.3.99",
    "GPU-8f3c1234-aa11-bb22-cc33-123456789abc",
)
"""Private parts that are words, for fields that take no spaces."""
SENTENCES = (
    *WORDS,
    f"/home/{USER}/models/{PROJECT}/weights.bin",
    f"C:\\Users\\{USER}\\models\\weights.bin",
    f"\\\\{HOST}\\share\\weights.bin",
    f"~{USER}/weights.bin",
    f"./{PROJECT}/weights.bin",
    f"https://{USER}:hunter2pass@git.corp.example/{PROJECT}.git?token=abc",
    f"s3://{PROJECT}/weights.bin",
    f"{USER}@{HOST}",
    f"{USER}.smith@corp.example",
    "fe80::1ff:fe23:4567:890a",
    "2001:db8::8a2e:370:7334",
    "00:1a:2b:3c:4d:5e",
    "00-1A-2B-3C-4D-5E",
    "serial number 0323418012345",
    "S/N: PF3K9Q2X",
    f"hostname={HOST}",
    f"user: {USER}",
    "HF_TOKEN=hf_abcdefghijklmnop1234",
    "hf_abcdefghijklmnop1234",
    "ghp_abcdefghijklmnop1234567890",
    "AKIAIOSFODNN7EXAMPLE",
    "Bearer abc.def-ghi",
    f"DATABASE_URL='postgres://{USER}@{HOST}/x'",
    f"LD_LIBRARY_PATH=/opt/{PROJECT}/lib",
)
FORBIDDEN = (
    *(USER, HOST, PROJECT, "hunter2pass", "10.17.3.99", "8f3c1234", "1ff:fe23", "8a2e:370", "00:1a:2b", "00-1A-2B"),
    *("0323418012345", "PF3K9Q2X", "hf_abcdef", "ghp_abc", "AKIAIOS", "abc.def-ghi", "corp.example"),
)


def planted(shape: Any, plant: Callable[[bool], str], name: str = "") -> Any:
    """Return a value of a type in which every member is there and every text is `plant(whether it may have spaces)`."""
    arms = typing.get_args(shape)
    if typing.get_origin(shape) is Annotated:
        meta = arms[1]
        if arms[0] is str:
            return (
                plant(meta.pattern is None)
                if meta.pattern is None or "sha256" not in meta.pattern
                else "sha256:" + "0" * 64
            )
        return 1.0 if arms[0] is float else 1
    if typing.get_origin(shape) is typing.Literal:
        return arms[0] if "measured" not in arms else "measured"
    if isinstance(shape, types.UnionType) or typing.get_origin(shape) is typing.Union:
        return planted(next(arm for arm in arms if arm is not type(None)), plant, name)
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct):
        return {
            field.encode_name: planted(field.type, plant, field.encode_name)
            for field in msgspec.structs.fields(shape)
            if field.encode_name not in ("latency_ms", "ci95")
        }
    if typing.get_origin(shape) is list:
        return [planted(arms[0], plant, name)]
    if typing.get_origin(shape) is dict:
        return {plant(True): planted(arms[1], plant, name)}
    if typing.get_origin(shape) is tuple:
        return [planted(arm, plant, name) for arm in arms]
    return {
        str: lambda: plant(True),
        int: lambda: 1,
        float: lambda: 0.5,
        bool: lambda: True,
        Any: lambda: {"a": [plant(True)]},
    }[shape]()


def event_of(type_: str, plant: Callable[[bool], str]) -> Decoded:
    data = planted(DATA_TYPES[type_], plant)
    if "metrics" in data:
        data["metrics"] = {"throughput_per_s": 5.0}
    event = new_event(
        type_, data, source=f"urn:{USER}:{HOST}", subject=PROJECT, time=datetime(2026, 11, 20, 14, 5, 7, tzinfo=UTC)
    )
    return decode_event(encode_event({**event, "signer": f"ed25519:{USER}", "hostname": HOST}))


def anonymiser(**more: Any) -> Anonymiser:
    return Anonymiser(b"s" * 32, names=[USER, HOST, PROJECT], **more)


@pytest.mark.parametrize("type_", SHARED_TYPES)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_no_planted_secret_leaves_in_any_field(type_: str, data: st.DataObject) -> None:
    secrets = data.draw(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=3))
    word = data.draw(st.sampled_from(WORDS))
    around = data.draw(
        st.sampled_from(["{}", "could not open {}", "{}: no such file", "in '{}' (twice)", "a,{},b", "[{}]"])
    )
    event = event_of(type_, lambda spaces: around.format(" and ".join(secrets)) if spaces else word)
    scrubbing = anonymiser()
    scrubbing.learn([event])
    text = json.dumps(scrubbing.event(event), ensure_ascii=False)
    assert not [secret for secret in FORBIDDEN if secret.lower() in text.lower()], text
    decode_event(text)


@pytest.mark.parametrize("type_", SHARED_TYPES)
def test_what_is_shared_says_when_only_by_day_and_names_no_event_of_the_log(type_: str) -> None:
    event = event_of(type_, lambda spaces: "plain text" if spaces else "plain")
    shared = anonymiser().event(event)
    assert shared["time"] == "2026-11-20T00:00:00+00:00"
    assert anonymiser(times="hour").event(event)["time"] == "2026-11-20T14:00:00+00:00"
    assert anonymiser(times="exact").event(event)["time"] == "2026-11-20T14:05:07+00:00"
    assert shared["id"] != event.id and shared["data"]["run_id"] != "plain"
    assert shared == anonymiser().event(event)
    assert Anonymiser(b"t" * 32).event(event)["id"] != shared["id"]
    assert set(shared) == {"specversion", "id", "source", "type", "time", "datacontenttype", "data"}


@pytest.mark.parametrize(
    "text",
    [
        "torch 2.13.0+cpu",
        "Debian GNU/Linux 12 (bookworm)",
        "Intel(R) Xeon(R) Processor",
        "google-bert/bert-base-uncased",
        "fp16/bf16 at 3 tokens/s",
        "c10::Error in at::Tensor",
        "sse4_2 avx fma avx512_bf16 amx_tile",
        "a 64 x 64 product in fp32, bf16 was right",
        "550.54.15",
        "12:30:45",
        "6.1.0-28-amd64",
    ],
)
def test_what_is_not_private_stays(text: str) -> None:
    scrubbing = anonymiser()
    assert scrubbing.text(text) == text
    assert not scrubbing.counts


def test_a_private_model_goes_by_the_name_it_was_given_and_a_public_one_by_its_own(build: Any) -> None:
    private = decode_event(encode_event(build.measurement(model="acme/secret-7b")))
    shared = anonymiser(models={"acme/secret-7b": "private-7b"}).event(private)
    assert shared["data"]["model"]["id"] == "private-7b" and "family" not in shared["data"]["model"]
    assert "acme" not in json.dumps(shared["data"]["model"])
    path = decode_event(encode_event(build.measurement(model="/data/llm/ours")))
    first, second = (anonymiser().event(path)["data"]["model"]["id"] for _ in range(2))
    assert first == second and first.startswith("private-")
    public = decode_event(encode_event(build.measurement(model="google-bert/bert-base-uncased")))
    assert Anonymiser(b"s" * 32, names=["bert"]).event(public)["data"]["model"]["id"] == "google-bert/bert-base-uncased"


def test_which_code_was_measured_does_not_leave() -> None:
    context = {"repository": "git.example.org/a/b", "branch": "launch", "commit": "c0ffee", "pull_request": "77"}
    event = new_event("assay.run.started.v1", {"run_id": "r", "kind": "bench", "context": context}, source="urn:a")
    shared = json.dumps(anonymiser().event(decode_event(encode_event(event)))["data"])
    assert "kind" in shared and not [text for text in context.values() if text in shared]
