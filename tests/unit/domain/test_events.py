"""The gate: what passes, what is refused, and by which field it is named."""

import copy
import functools
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import events
from domain.errors import AssayError, InvalidEvent, MalformedBody, PayloadTooLarge
from domain.events import DATA_TYPES, MEASUREMENT_RECORDED, decode_event, encode_event, new_event, uuid7

GOLDEN = Path(__file__).parents[2] / "golden"
MEASUREMENT = json.loads((GOLDEN / f"{MEASUREMENT_RECORDED}.json").read_text())


def changed(path: str, value: object) -> bytes:
    event = copy.deepcopy(MEASUREMENT)
    *parents, last = path.split(".")
    target = event
    for name in parents:
        target = target[name]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return json.dumps(event).encode()


def test_every_type_has_a_golden_event() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(DATA_TYPES)


@pytest.mark.parametrize("name", sorted(DATA_TYPES))
def test_golden_events_pass_without_warnings(name: str) -> None:
    decoded = decode_event((GOLDEN / f"{name}.json").read_bytes())
    assert decoded.type == name
    assert isinstance(decoded.data, DATA_TYPES[name])
    assert decoded.warnings == ()


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("id", "not-a-uuid", "id"),
        ("id", "0198C0DE-0000-7000-8000-00000000AAAA", "id"),
        ("specversion", "0.3", "specversion"),
        ("source", ..., "source"),
        ("type", "", "type"),
        ("time", "2026-11-20T14:05:00", "time"),
        ("time", "0001-01-01T00:00:00+14:00", "time"),
        ("time", "9999-12-31T23:59:59-14:00", "time"),
        ("time", "1969-12-31T23:59:59+00:00", "time"),
        ("time", "2262-01-01T00:00:00+00:00", "time"),
        ("datacontenttype", "text/plain", "datacontenttype"),
        ("data_base64", "AAAA", "data_base64"),
        ("Upper", 1, "Upper"),
        ("nested", {"a": 1}, "nested"),
        ("data", ..., "data"),
        ("data", [], "data"),
        ("data.run_id", ..., "data.run_id"),
        ("data.model", ..., "data.model"),
        ("data.model.id", "two words", "data.model.id"),
        ("data.metrics", {}, "data.metrics"),
        ("data.metrics.latency_ms.p50", -1.0, "data.metrics.latency_ms.p50"),
        ("data.metrics.latency_ms.p50", 0, "data.metrics.latency_ms.p50"),
        ("data.metrics.latency_ms.min", 99.0, "data.metrics.latency_ms.min"),
        ("data.metrics.latency_ms.ci95", {"p50": [2.0, 1.0]}, "data.metrics.latency_ms.ci95.p50"),
        ("data.metrics.peak_memory_bytes", 0, "data.metrics.peak_memory_bytes"),
        ("data.workload.batch_size", None, "data.workload.batch_size"),
        ("data.workload.batch_size", 0, "data.workload.batch_size"),
        ("data.execution.precision", None, "data.execution.precision"),
        ("data.observed", None, "data.observed"),
        ("data.observed.fallback_share", 1.5, "data.observed.fallback_share"),
        ("data.provenance.origin", "REAL", "data.provenance.origin"),
        ("data.model.parameters", 2**60, "data.model.parameters"),
    ],
)
def test_a_bad_field_is_named(path: str, value: object, field: str) -> None:
    with pytest.raises(InvalidEvent) as caught:
        decode_event(changed(path, value))
    assert caught.value.field == field
    assert caught.value.remedy


@pytest.mark.parametrize(
    "path",
    ["id", "source", "type", "data.model.id", "data.execution.platform", "data.samples.digest", "time"],
)
def test_a_newline_at_the_end_of_a_word_is_refused(path: str) -> None:
    word = MEASUREMENT
    for name in path.split("."):
        word = word[name]
    assert decode_event(changed(path, word))
    with pytest.raises(InvalidEvent) as caught:
        decode_event(changed(path, f"{word}\n"))
    assert caught.value.field == path


def test_a_newline_at_the_end_of_the_name_of_an_extension_is_refused() -> None:
    assert decode_event(changed("trace", "a"))
    with pytest.raises(InvalidEvent):
        decode_event(changed("trace\n", "a"))


@pytest.mark.parametrize(
    "raw", [b"", b"{", b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": 1e999}', b"[" * 100_000, b"\xff", rb'"\ud800"']
)
def test_what_is_not_json_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedBody):
        decode_event(raw)


def test_an_event_over_the_limit_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(PayloadTooLarge, match="262,144"):
        decode_event(b"{" + b" " * 262_144)


def test_imported_rows_may_leave_batch_and_precision_open() -> None:
    event = copy.deepcopy(MEASUREMENT)
    event["data"]["provenance"] = {"origin": "imported", "source": "somewhere"}
    del event["data"]["workload"]["batch_size"], event["data"]["execution"]["precision"], event["data"]["observed"]
    assert decode_event(encode_event(event)).data is not None


def test_unknown_members_are_kept_and_warned_of_by_path() -> None:
    raw = changed("data.model.colour", "blue")
    decoded = decode_event(raw)
    assert decoded.warnings == ("data.model.colour",)
    assert decoded.raw == raw


def test_an_unknown_type_and_extensions_pass() -> None:
    raw = json.dumps(
        {
            "specversion": "1.0",
            "id": uuid7(),
            "source": "x",
            "type": "com.example.thing",
            "traceparent": "00-1",
            "data": 3,
        }
    ).encode()
    decoded = decode_event(raw)
    assert decoded.data is None
    assert decoded.event["traceparent"] == "00-1"


def test_the_digest_is_that_of_the_text_as_sent() -> None:
    one, other = json.dumps(MEASUREMENT, indent=3).encode(), json.dumps(MEASUREMENT).encode()
    assert decode_event(one).digest == hashlib.sha256(one).digest() != decode_event(other).digest
    assert decode_event(one).event == decode_event(other).event == MEASUREMENT


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ('"x":1,"x":1', "x"),
        ('"x" : {"deep":1, "deep" :2}', "deep"),
        (r'"x":{"a":1,"\u0061":2}', "a"),
        (r'"x":{"says \":\" twice":1,"other":2,"other":3}', "other"),
        ('"x":9007199254740992', "data"),
        ('"x":[-9007199254740992]', "data"),
    ],
)
def test_what_two_readers_would_read_in_two_ways_is_refused(raw: str, field: str) -> None:
    event = {"specversion": "1.0", "id": uuid7(), "source": "x", "type": "com.example.thing"}
    text = json.dumps(event)[:-1] + ',"data":{' + raw + "}}"
    with pytest.raises(InvalidEvent) as caught:
        decode_event(text)
    assert caught.value.field == field
    assert caught.value.remedy


@pytest.mark.parametrize(("levels", "passes"), [(61, True), (62, False), (900, False)])
def test_an_event_is_sixty_four_levels_deep_at_the_most(levels: int, passes: bool) -> None:
    deep = "[" * levels + "1" + "]" * levels
    event = f'{{"specversion":"1.0","id":"{uuid7()}","source":"x","type":"y","data":{{"deep":{deep}}}}}'
    if passes:
        assert decode_event(event).type == "y"
        return
    with pytest.raises(InvalidEvent, match="64 deep"):
        decode_event(event)


def test_a_member_that_is_there_twice_among_thousands_is_found_in_one_pass() -> None:
    members = ",".join(f'"{number:x}":0' for number in range(20_000))
    event = f'{{"specversion":"1.0","id":"{uuid7()}","source":"x","type":"y","data":{{{members},"4e1f":1}}}}'
    with pytest.raises(InvalidEvent) as caught:
        decode_event(event)
    assert caught.value.field == "4e1f"


def test_quotes_colons_and_backslashes_in_strings_are_no_members() -> None:
    data = {'says ": twice': 'a ": b', "back\\slash\\": '\\":', "nested": [{"a": 1}, {"a": 2}], "largest": 2**53 - 1}
    event = {"specversion": "1.0", "id": uuid7(), "source": "x", "type": "com.example.thing", "data": data}
    assert decode_event(json.dumps(event)).event == event
    assert decode_event(json.dumps(event, indent=1, separators=(" , ", " : "))).event == event


def as_written(event: dict[str, object]) -> bytes:
    """Return the text as a runner writes it: the shortest spelling, without nulls and defaults."""
    return encode_event({**event, "data": msgspec.to_builtins(decode_event(json.dumps(event)).data)})


QUICK = as_written(MEASUREMENT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"batch_size":8', b'"batch_size":0'),
        (b'"batch_size":8', b'"batch_size":"8"'),
        (b'"p50":1.2,', b'"p50":9.2,'),
        (b'"specversion":"1.0"', b'"specversion":"1.1"'),
        (b'"origin":"measured"', b'"origin":"MEASURED"'),
        (b"T14:05:00", b"T14:75:00"),
        (b'"2026-11-20', b'"1926-11-20'),
        (b'"mode":"inference"', b'"mode":"inference","mode":"training"'),
        (b'"n":61', b'"m":61'),
        (b'"threads":2', b'"threads":9007199254740993'),
        (b'"id":"0198c0de-', b'"id":"0198C0DE-'),
        (b'"google-bert/bert-base-uncased"', b'"google-bert bert-base-uncased"'),
        (b'"threads":2', b'"threads":2,"options":{"a":9007199254740993}'),
        (b'"fallback_share":0.0', b'"fallback_share":0.0,"details":{"a":9007199254740993}'),
        (
            b'"mean":1.21,"min":1.1,"max":1.62,"stddev":0.04,"p50":1.2,',
            # Twice the same member, and yet as long as its shortest spelling.
            b'"mean":1,"min":1,"max":2,"max"  :2,"stddev":1,"p50":1,',
        ),
    ],
)
def test_the_quick_way_judges_as_the_long_way(old: bytes, new: bytes) -> None:
    assert old in QUICK
    text = QUICK.replace(old, new, 1)
    judged = []
    for spelling in (text, text + b" "):
        try:
            decoded = decode_event(spelling)
        except AssayError as error:
            judged.append((type(error), error.field, error.detail))
        else:
            judged.append((decoded.data, decoded.time, decoded.warnings))
    assert judged[0] == judged[1]


def test_both_ways_give_the_same_event() -> None:
    assert events._as_written(QUICK) is not None
    assert events._as_written(QUICK + b"\n") is None
    quick, long = decode_event(QUICK), decode_event(QUICK + b"\n")
    for name in ("id", "type", "source", "subject", "time", "data", "warnings", "event"):
        assert getattr(quick, name) == getattr(long, name)


@pytest.mark.parametrize(
    ("member", "is_signed"),
    [(b'"signature":"x",', True), (b'"signatur\\u0065":"x",', True), (b'"signed":"signature",', False), (b"", False)],
)
def test_a_signature_is_noticed_in_every_spelling(member: bytes, is_signed: bool) -> None:
    for text in (QUICK, QUICK + b"\n"):
        assert decode_event(text.replace(b'"data":', member + b'"data":', 1)).signed is is_signed


PARTS: dict[str, dict[str, Any]] = {
    "execution.options": {"attention": "sdpa", "limits": [1, 2.5]},
    "observed.details": {"types": {"f16": 0.9}, "breaks": 0},
    "imported": {"row": 3, "rules": ["unit"], "original": {"ms": 1.5}},
    "environment.libraries": {"torch": "2.13.0"},
}
SCALARS = [None, True, 0, 1, -1, 1.0, 1e16, 0.1, 2**53 - 1, 2**53, 2**70, "", "x", "x y", "fp16", "é", 'a"', "\x01"]
NESTED = [json.loads("[" * levels + "]" * levels) for levels in (59, 61)]
VALUES = st.sampled_from([*SCALARS, *NESTED, [], {}, [1, {"a": 2**53}]])
SPELLINGS = [
    (rb'("[a-z_0-9]+":(?:[0-9.]+|"[^"]*"))', rb"\1,\1"),
    (rb'("[a-z_0-9]+")(:(?:[0-9.]+|"[^"]*"))', rb"\1\2,\1 \2"),
    (rb"(\d+)\.0\b", rb"\1"),
    (rb":(\d+)([,}])", rb":\1.0\2"),
    (rb":(\d+)([,}])", rb":\1e0\2"),
    (rb",", rb", "),
    (rb'":', rb'" :'),
    (rb"00:00\b", rb"00:00Z"),
    (rb"\+00:00", rb"Z"),
    (rb'"type":"', rb'"type":"assay.samples.recorded.v1","type":"'),
]


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Draw the text of an event of a frequent type, of which a few things are not as a runner writes them."""
    name = draw(st.sampled_from([MEASUREMENT_RECORDED, events.MEASUREMENT_FAILED, events.SAMPLES_RECORDED]))
    event = json.loads(as_written(json.loads((GOLDEN / f"{name}.json").read_text())))
    for path in draw(st.lists(st.sampled_from(sorted(PARTS)), max_size=2, unique=True)):
        *parents, last = path.split(".")
        part = copy.deepcopy(PARTS[path])
        if draw(st.booleans()):
            part.get("original", part)["free"] = copy.deepcopy(draw(VALUES))
        functools.reduce(lambda item, parent: item.setdefault(parent, {}), parents, event["data"])[last] = part
    for _ in range(draw(st.integers(0, 2))):
        objects = [event]
        for item in objects:
            objects += [value for value in item.values() if isinstance(value, dict)]
        item = draw(st.sampled_from(objects))
        member = draw(st.sampled_from([*item, "signer", "unknown"]))
        if draw(st.booleans()):
            item[member] = copy.deepcopy(draw(VALUES))
        elif member in item:
            item[member] = item.pop(member)
    text = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
    for pattern, spelling in draw(st.lists(st.sampled_from(SPELLINGS), max_size=3)):
        matches = [*re.finditer(pattern, text)]
        if matches:
            match = draw(st.sampled_from(matches))
            text = text[: match.start()] + match.expand(spelling) + text[match.end() :]
    return text


@settings(max_examples=300)
@given(texts())
def test_the_quick_way_never_differs_from_the_long_way(text: bytes) -> None:
    def judged(way: Callable[[bytes], object]) -> object:
        try:
            return way(text)
        except AssayError as error:
            return type(error), error.field, error.detail, error.remedy

    quick = judged(events._as_written)
    hypothesis.event("quick" if isinstance(quick, events.Decoded) else "refused" if quick else "long")
    assert quick is None or quick == judged(events._whatever)


def test_a_new_event_is_version_7_and_passes() -> None:
    event = new_event(MEASUREMENT_RECORDED, MEASUREMENT["data"], source="assay-runner/test")
    decoded = decode_event(encode_event(event))
    assert decoded.id[14] == "7"
    assert decoded.source == "assay-runner/test"


@pytest.mark.parametrize(
    ("context", "field"),
    [
        ({"branch": "main", "commit": "a" * 40, "pull_request": "7", "repository": "github.com/acme/models"}, None),
        ({"branch": "x" * 256}, "data.context.branch"),
        ({"commit": "two words"}, "data.context.commit"),
        ({"pull_request": 7}, "data.context.pull_request"),
    ],
)
def test_context_of_a_run_is_short_texts(context: dict[str, object], field: str | None) -> None:
    event = json.loads((GOLDEN / "assay.run.started.v1.json").read_text())
    event["data"]["context"] = context
    if field is None:
        decoded = decode_event(json.dumps(event).encode())
        assert msgspec.to_builtins(decoded.data.context) == context and decoded.warnings == ()
        return
    with pytest.raises(InvalidEvent) as refused:
        decode_event(json.dumps(event).encode())
    assert refused.value.field == field
