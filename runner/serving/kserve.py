"""Tensors in the words of the Open Inference Protocol (KServe v2): JSON, and the binary extension."""

from __future__ import annotations

from typing import Any

import msgspec

from domain.errors import InvalidInput, MalformedBody
from runner.serving.contract import Tensor
from runner.serving.exchange import KINDS, TensorSpec

__all__ = ["HEADER", "InferRequest", "read_request", "read_tensors", "write_response"]

HEADER = "Inference-Header-Content-Length"
_DTYPES = {
    "BOOL": "?",
    "UINT8": "<u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "<i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}


class InferInput(msgspec.Struct):
    """One input tensor; its numbers are in `data`, or follow the JSON as so many bytes."""

    name: str
    datatype: str
    shape: list[int]
    data: list[Any] | None = None
    parameters: dict[str, Any] = {}


class WantedOutput(msgspec.Struct):
    """An output that is asked for."""

    name: str
    parameters: dict[str, Any] = {}


class InferRequest(msgspec.Struct):
    """The JSON of an inference request."""

    inputs: list[InferInput]
    id: str | None = None
    outputs: list[WantedOutput] = []
    parameters: dict[str, Any] = {}


_REQUEST = msgspec.json.Decoder(InferRequest)


def read_request(body: bytes, header_length: str | None) -> tuple[InferRequest, memoryview]:
    """Return the request and the bytes that follow its JSON; MalformedBody where the body is neither."""
    length = len(body)
    if header_length is not None:
        if not header_length.isdecimal() or not int(header_length) <= len(body):
            raise MalformedBody(
                f"{header_length!r} is no length of the JSON in a body of {len(body)} bytes.",
                field=HEADER,
                remedy="Send the number of bytes of the JSON, or leave the header out.",
            )
        length = int(header_length)
    try:
        return _REQUEST.decode(body[:length]), memoryview(body)[length:]
    except msgspec.DecodeError as error:
        raise MalformedBody(
            f"the request cannot be read: {error}.",
            field="body",
            remedy='Send {"inputs": [{"name": …, "datatype": …, "shape": […], "data": […]}]}.',
        ) from None


def read_tensors(request: InferRequest, binary: memoryview, specs: tuple[TensorSpec, ...]) -> list[Tensor]:
    """Return the inputs as arrays of the model's own types; InvalidInput names the input that does not fit."""
    by_name = {spec.name: spec for spec in specs}
    tensors, offset = [], 0
    for given in request.inputs:
        spec = by_name.pop(given.name, None)
        if spec is None:
            raise InvalidInput(
                f"the model has no further input {given.name!r}.",
                field="inputs",
                remedy=f"Its inputs are {', '.join(spec.name for spec in specs)}.",
            )
        array, offset = _array(given, binary, offset)
        _require_shape(array.shape, spec)
        if given.datatype != spec.datatype:
            raise InvalidInput(
                f"{given.name} is {given.datatype}, and the model takes {spec.datatype}.",
                field=f"inputs.{given.name}.datatype",
                remedy=f"Send it as {spec.datatype}.",
            )
        tensors.append(Tensor(name=given.name, array=array))
    if by_name:
        raise InvalidInput(
            f"the input {next(iter(by_name))} is missing.",
            field="inputs",
            remedy=f"Send {', '.join(spec.name for spec in specs)}.",
        )
    if offset != len(binary):
        raise InvalidInput(
            f"{len(binary) - offset} bytes of the body belong to no input.",
            field="inputs",
            remedy="Say binary_data_size for each input whose bytes follow the JSON.",
        )
    return tensors


def _array(given: InferInput, binary: memoryview, offset: int) -> tuple[Any, int]:
    import numpy as np

    field = f"inputs.{given.name}"
    dtype = _DTYPES.get(given.datatype)
    if dtype is None:
        raise InvalidInput(
            f"the datatype {given.datatype!r} is not taken.",
            field=f"{field}.datatype",
            remedy=f"One of {', '.join(_DTYPES)}.",
        )
    if not given.shape or any(size < 0 for size in given.shape):
        raise InvalidInput(
            f"{given.shape} is no shape.", field=f"{field}.shape", remedy="Give the batch first, every axis 0 or more."
        )
    count = 1
    for size in given.shape:
        count *= size
    length = given.parameters.get("binary_data_size")
    if (given.data is None) == (length is None):
        raise InvalidInput(
            "an input has its numbers either in data, or as bytes after the JSON.",
            field=field,
            remedy="Send data, or parameters.binary_data_size.",
        )
    if given.data is None:
        if not isinstance(length, int) or length != count * np.dtype(dtype).itemsize or offset + length > len(binary):
            raise InvalidInput(
                f"{length!r} bytes are not those of a {given.datatype} tensor of shape {given.shape} in this body.",
                field=f"{field}.parameters.binary_data_size",
                remedy=f"Send {count * np.dtype(dtype).itemsize} bytes.",
            )
        array = np.frombuffer(binary[offset : offset + length], np.dtype(dtype)).reshape(given.shape)
        return array.astype(np.dtype(dtype).newbyteorder("="), copy=False), offset + length
    try:
        values = np.asarray(given.data)
        if values.size != count or values.dtype.kind not in "bifu":
            raise ValueError(f"{values.size} numbers for the shape {given.shape}")
        with np.errstate(all="raise", under="ignore"):
            return values.astype(np.dtype(dtype).newbyteorder("=")).reshape(given.shape), offset
    except (ValueError, TypeError, OverflowError, FloatingPointError) as error:
        raise InvalidInput(
            f"the data cannot be read: {error}.", field=f"{field}.data", remedy="Send as many numbers as the shape has."
        ) from None


def _require_shape(shape: tuple[int, ...], spec: TensorSpec) -> None:
    same = len(shape) == len(spec.shape)
    if not same or any(wanted not in (-1, size) for size, wanted in zip(shape, spec.shape, strict=True)):
        raise InvalidInput(
            f"{spec.name} has the shape {list(shape)}, and the model takes {list(spec.shape)} (-1: any).",
            field=f"inputs.{spec.name}.shape",
            remedy="Pad or cut it to that shape.",
        )
    if 0 in shape:
        raise InvalidInput(f"{spec.name} is empty.", field=f"inputs.{spec.name}.shape", remedy="Send one item or more.")


def write_response(name: str, request: InferRequest, outputs: list[Tensor]) -> tuple[bytes, int | None]:
    """Return the body of an answer, and the length of its JSON where bytes follow it."""
    wanted = {output.name: output for output in request.outputs}
    unknown = wanted.keys() - {tensor.name for tensor in outputs}
    if unknown:
        raise InvalidInput(
            f"the model has no output {sorted(unknown)[0]!r}.",
            field="outputs",
            remedy=f"Its outputs are {', '.join(tensor.name for tensor in outputs)}.",
        )
    every = bool(request.parameters.get("binary_data_output"))
    described: list[dict[str, Any]] = []
    blobs: list[bytes] = []
    for tensor in outputs:
        if wanted and tensor.name not in wanted:
            continue
        binary = bool(wanted[tensor.name].parameters.get("binary_data", every)) if wanted else every
        head: dict[str, Any] = {
            "name": tensor.name,
            "datatype": KINDS[str(tensor.array.dtype)],
            "shape": list(tensor.array.shape),
        }
        if binary:
            blobs.append(tensor.array.tobytes())
            head["parameters"] = {"binary_data_size": len(blobs[-1])}
        else:
            head["data"] = tensor.array.ravel().tolist()
        described.append(head)
    answer = {"model_name": name, "model_version": "1", "outputs": described}
    if request.id is not None:
        answer["id"] = request.id
    text = msgspec.json.encode(answer)
    return b"".join((text, *blobs)), len(text) if blobs else None
