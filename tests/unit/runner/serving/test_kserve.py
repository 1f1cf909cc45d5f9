"""The Open Inference Protocol: numbers as JSON and as bytes, and what is refused with which field."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from domain.errors import InvalidInput, MalformedBody
from runner.serving.contract import Tensor
from runner.serving.exchange import TensorSpec
from runner.serving.kserve import InferRequest, read_request, read_tensors, write_response

SPECS = (TensorSpec(name="x", datatype="FP32", shape=(-1, 2)),)


def tensors(document: dict[str, Any], binary: bytes = b"", specs: tuple[TensorSpec, ...] = SPECS) -> list[Tensor]:
    head = json.dumps(document).encode()
    request, rest = read_request(head + binary, str(len(head)) if binary else None)
    return read_tensors(request, rest, specs)


def given_input(**changes: Any) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]} | changes]}


@settings(deadline=None)
@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.int64, np.uint8, np.float16, np.bool_]),
        st.tuples(st.integers(1, 3), st.integers(1, 4)),
    )
)
def test_any_array_is_read_back_from_bytes_as_it_was_written(array: Any) -> None:
    body, length = write_response(
        "m", InferRequest(inputs=[], parameters={"binary_data_output": True}), [Tensor(name="x", array=array)]
    )
    head = json.loads(body[:length])["outputs"][0]
    specs = (TensorSpec(name="x", datatype=head["datatype"], shape=(-1, -1)),)
    (again,) = tensors({"inputs": [head]}, body[length:], specs)
    assert again.array.dtype == array.dtype
    assert again.array.tobytes() == array.tobytes()


@pytest.mark.parametrize("data", [[1, 2, 3, 4], [[1, 2], [3, 4]]])
def test_json_numbers_are_taken_flat_and_nested(data: list[Any]) -> None:
    (read,) = tensors(given_input(shape=[2, 2], data=data))
    assert read.array.tolist() == [[1, 2], [3, 4]]
    assert read.array.dtype == np.float32


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (given_input(name="y"), "inputs"),
        ({"inputs": []}, "inputs"),
        (given_input(datatype="BYTES"), "inputs.x.datatype"),
        (given_input(datatype="INT64"), "inputs.x.datatype"),
        (given_input(shape=[1, 3], data=[1, 2, 3]), "inputs.x.shape"),
        (given_input(shape=[]), "inputs.x.shape"),
        (given_input(shape=[-1, 2]), "inputs.x.shape"),
        (given_input(shape=[0, 2], data=[]), "inputs.x.shape"),
        (given_input(data=[1]), "inputs.x.data"),
        (given_input(data=["a", "b"]), "inputs.x.data"),
        (given_input(data=[[1], [1, 2]]), "inputs.x.data"),
        (given_input(data=None), "inputs.x"),
        (given_input(data=None, parameters={"binary_data_size": 8}), "inputs.x.parameters.binary_data_size"),
    ],
)
def test_wrong_input_is_refused_with_its_field(document: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        tensors(document)
    assert refused.value.field == field
    assert refused.value.remedy


@pytest.mark.parametrize(("body", "length"), [(b"{", None), (b"{}", "9"), (b"{}", "-1"), (b'{"inputs": 3}', None)])
def test_body_that_is_no_request_is_refused(body: bytes, length: str | None) -> None:
    with pytest.raises(MalformedBody):
        read_request(body, length)


def test_bytes_that_belong_to_no_input_are_refused() -> None:
    with pytest.raises(InvalidInput, match="belong to no input"):
        tensors(given_input(), b"1234")


def test_only_the_outputs_asked_for_are_sent_in_the_form_asked_for() -> None:
    request = InferRequest(inputs=[], outputs=[], parameters={})
    read, _ = read_request(b'{"inputs":[],"id":"7","outputs":[{"name":"b","parameters":{"binary_data":true}}]}', None)
    values = [Tensor(name=name, array=np.ones((1, 2), np.float32)) for name in "ab"]
    body, length = write_response("m", read, values)
    answer = json.loads(body[:length])
    assert answer["id"] == "7"
    assert [output["name"] for output in answer["outputs"]] == ["b"]
    assert len(body) - (length or 0) == 8
    assert [o["name"] for o in json.loads(write_response("m", request, values)[0])["outputs"]] == ["a", "b"]


def test_unknown_output_is_refused_with_those_that_there_are() -> None:
    read, _ = read_request(b'{"inputs":[],"outputs":[{"name":"z"}]}', None)
    with pytest.raises(InvalidInput) as refused:
        write_response("m", read, [Tensor(name="a", array=np.ones((1, 2), np.float32))])
    assert "a" in (refused.value.remedy or "")
