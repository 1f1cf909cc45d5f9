"""JSON, lines of JSON and CSV as other tools write them, and as they should not: what is wrong is named by its line."""

from __future__ import annotations

import json

import pytest

from ingest.importers import reading
from ingest.importers.files import File
from ingest.importers.reading import BadFile, csv_rows, csv_text, json_document, json_lines, number, text, whole
from ingest.importers.refusals import BadRow, Refused


@pytest.fixture
def written(tmp_path):
    def write(content, name="x.json"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return File(path, name)

    return write


def test_what_nobody_can_have_measured_is_missing(written):
    assert json_document(written('{"a": NaN, "b": -Infinity, "c": 1}')) == {"a": None, "b": None, "c": 1}


@pytest.mark.parametrize(
    ("content", "reason", "row"),
    [
        ("", "is not JSON", 1),
        ('{"a": 1,\n "b": }', "is not JSON", 2),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "names the member 'c' twice", None),
        ("[" * 100_000, "is nested too deeply", None),
        ("1" * 5000, "is not JSON", None),
        (b'{"a": "\xff"}', "is not text in UTF-8", None),
        ('{"a": 1}'.encode("utf-16")[:-1], "is not text in UTF-16", None),
    ],
)
def test_a_document_that_is_none_is_refused_with_its_line(written, content, reason, row):
    with pytest.raises(BadFile, match=reason) as caught:
        json_document(written(content))
    assert caught.value.row == row


def test_half_a_character_is_no_character(written):
    value = json_document(written('{"\\ud800": ["a\\udfff", "\\ud83d\\ude00"]}'))
    assert value == {"\ufffd": ["a\ufffd", "\U0001f600"]}
    json.dumps(value, ensure_ascii=False).encode()


def test_a_document_that_would_not_fit_is_refused(written, monkeypatch):
    monkeypatch.setattr(reading, "JSON_BYTES", 10)
    with pytest.raises(BadFile, match="more than"):
        json_document(written('{"a": 1234567}'))


def test_lines_go_on_after_a_bad_one(written, monkeypatch):
    monkeypatch.setattr(reading, "LINE_CHARACTERS", 50)
    long = json.dumps({"long": "x" * 200})
    found = list(json_lines(written(b'{"a": 1}\n\n{"a": \n{"b": "\xff"}\n' + long.encode() + b'\n{"a": 6}')))
    assert [row for row, _ in found] == [1, 3, 4, 5, 6]
    assert [value for _, value in found if not isinstance(value, BadFile)] == [{"a": 1}, {"a": 6}]
    reasons = [value.reason for _, value in found if isinstance(value, BadFile)]
    assert reasons[0].startswith("is not JSON")
    assert reasons[1:] == ["is not text in UTF-8", "is a line of more than 50 characters"]


def test_rows_of_a_table_go_on_after_a_bad_one(written):
    content = b'\nmodel, ms\nbert ,1\nt5\n\ngpt,\xff\n"a"b,3\nvit,4\n'
    rows = list(csv_rows(written(content, "x.csv")))
    assert [item for item in rows if not isinstance(item, Refused)] == [
        (3, {"model": "bert", "ms": "1"}),
        (8, {"model": "vit", "ms": "4"}),
    ]
    refused = [(item.row, item.reason) for item in rows if isinstance(item, Refused)]
    assert refused[0] == (4, "has 1 fields where the header has 2")
    assert refused[1] == (6, "is not text in UTF-8")
    assert refused[2][0] == 7
    assert rows[1].content == "model,ms\nt5\n"


def test_a_column_named_twice_is_two_values_for_one_name(written):
    with pytest.raises(BadFile, match="'ms' twice"):
        list(csv_rows(written("model,ms,ms\nbert,1,2\n", "x.csv")))
    assert list(csv_rows(written("model,,\nbert,1,2\n", "x.csv"))) == [(2, {"model": "bert", "": "2"})]


def test_a_line_without_end_does_not_fill_the_memory(written, monkeypatch):
    monkeypatch.setattr(reading, "LINE_CHARACTERS", 100)
    rows = list(csv_rows(written("model,ms\n" + "x," * 500 + "\nbert,1\n", "x.csv")))
    assert isinstance(rows[0], Refused)
    assert rows[1:] == [(3, {"model": "bert", "ms": "1"})]


def test_utf_16_that_breaks_off_is_refused_there(written):
    (row, refused) = csv_rows(written("model,ms\nbert,1\nt5,2".encode("utf-16") + b"\x00", "x.csv"))
    assert row[1]["model"] == "bert"
    assert refused.reason == "is not text in UTF-16"


@pytest.mark.parametrize(
    ("said", "value"),
    [
        (1.5, 1.5), (3, 3.0), ("2.5", 2.5), (" 2.5 ", 2.5), ("1e3", 1000.0), ("1,234.5", 1234.5), ("1,234,567.0", 1234567.0),
        (None, None), ("", None), ("N/A", None), ("nan", None), ("inf", None), (float("nan"), None), (10**400, None),
        ("1e400", None), (0, None), ("0.0", None),
    ],
)  # fmt: skip
def test_numbers(said, value):
    assert number({"x": said}, "x") == value


@pytest.mark.parametrize(
    "said", [True, [1], {"a": 1}, "fast", "1,234", "1.234,5", "1_000", "0x10", "12 ms", -1, "-0.5"]
)
def test_what_is_no_number_or_can_be_read_in_two_ways_is_refused(said):
    with pytest.raises(BadRow):
        number({"x": said}, "x")


def test_units_and_zeros():
    assert number({"x": "2"}, "x", unit="s") == 2000.0
    assert number({"x": 3}, "x", unit="mib") == 3 * 2**20
    assert number({"x": 0}, "x", zero=True) == 0.0
    assert number({"x": 1e306}, "x", unit="s") is None
    assert number({"x": 1e-320}, "x", unit="ns") is None
    assert number({}, "x") is None


def test_whole_numbers_and_texts():
    assert whole({"x": "8.0"}, "x") == 8
    with pytest.raises(BadRow, match="whole"):
        whole({"x": 1.5}, "x")
    with pytest.raises(BadRow, match="whole"):
        whole({"x": 2.0**53}, "x")
    assert text({"x": " bert "}, "x") == "bert"
    assert [text({"x": value}, "x") for value in ("n/a", None, [], {}, True)] == [None] * 5


def test_the_content_of_a_refusal_reads_back(written):
    values = ['a,"b"\nc', "1"]
    (row,) = csv_rows(written(csv_text([["model", "ms"], values]), "x.csv"))
    assert list(row[1].values()) == values
