"""Whatever bytes a file holds, reading it gives values and refusals; and ids are those of RFC 8785 and RFC 9562."""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.canonical import canonical
from ingest.importers.files import File
from ingest.importers.identity import _NAMESPACE, row_id
from ingest.importers.reading import BadFile, csv_rows, json_document, json_lines, number, whole
from ingest.importers.refusals import BadRow, Refused, writable

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

texts = st.text(st.sampled_from('{}[]",:=+-@ \t\n\r\\0123456789.eE_aNn\x00\ufeff\u2028é😀\ud800'), max_size=60)
contents = (
    st.binary(max_size=120)
    | texts.map(lambda text: text.encode("utf-8", "surrogatepass"))
    | texts.map(lambda text: text.encode("utf-16", "surrogatepass"))
)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
numbers = st.floats(1e-4, 1e16) | st.integers(0, 10**6).map(float) | st.decimals(0, 10000, places=3).map(float)
values = st.recursive(
    scalars | numbers | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reading")


@QUICK
@given(contents)
def test_any_bytes_are_read_or_refused(place: Path, content: bytes) -> None:
    path = place / "x"
    path.write_bytes(content)
    file = File(path, "x.csv")
    assert isinstance(file.head(), str)
    with suppress(BadFile):
        json_document(file)
    for _, value in json_lines(file):
        assert not isinstance(value, BadFile) or value.reason
    with suppress(BadFile):
        for item in csv_rows(file):
            if isinstance(item, Refused):
                assert writable(item).reason
            else:
                "".join(item[1].values()).encode()


@QUICK
@given(values | texts)
def test_any_value_is_a_number_or_none_or_refused(value: object) -> None:
    for read in (number, whole):
        with suppress(BadRow):
            found = read({"x": value}, "x")
            assert found is None or 0 < found < float("inf")


@settings(max_examples=400, deadline=None)
@given(st.lists(values, max_size=4))
def test_ids_are_uuids_of_the_canonical_json(parts: list[object]) -> None:
    assert row_id(*parts) == str(uuid.uuid5(_NAMESPACE, canonical(parts).decode()))
