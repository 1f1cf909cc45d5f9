"""Cells of Arrow tables on their way out: no leftover memory under nulls, no text that a spreadsheet runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMULA", "defused", "restored", "zeroed"]

FORMULA = "=+-@\t\r"
"""A text that begins with one of these is run by spreadsheets."""


def defused(column: Any) -> Any:
    """Return an Arrow array of texts with an apostrophe before each that a spreadsheet would run, or that has one.

    A text that begins with apostrophes and then such a sign gets one more, so that `restored` gives back every text.
    """
    import pyarrow.compute as compute

    return compute.replace_substring_regex(column, pattern=r"^('*[=+\-@\t\r])", replacement=r"'\1")


def restored(text: str) -> str:
    """Return a cell's text as it was before `defused`."""
    bare = text.lstrip("'")
    return text[1:] if text.startswith("'") and bare[:1] and bare[0] in FORMULA else text


def zeroed(table: pa.Table) -> pa.Table:
    """Return the table with zeros in the slots under its nulls, and each column in one chunk where that is possible.

    Producers of Arrow leave in these slots whatever the memory held before, and an Arrow stream sends it along. Equal rows
    are equal bytes afterwards.
    """
    import pyarrow as pa

    columns = []
    for column in table.columns:
        whole = column.combine_chunks()
        chunks = whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole]
        columns.append(pa.chunked_array([_zeroed(chunk) for chunk in chunks], column.type))
    return pa.table(columns, schema=table.schema) if columns else table


def _zeroed(array: pa.Array) -> pa.Array:
    import pyarrow as pa

    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _zeroed(array.storage))
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(_zeroed(array.indices), _zeroed(array.dictionary), ordered=kind.ordered)
    if pa.types.is_nested(kind):
        return _zeroed_nested(array)
    is_boolean = pa.types.is_boolean(kind)
    if pa.types.is_null(kind) or not (array.null_count or is_boolean):
        return array
    if is_boolean:
        values = _bits(array.fill_null(False))
    elif pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
        raw = pa.binary(kind.byte_width)
        filled = pa.Array.from_buffers(raw, len(array), array.buffers(), offset=array.offset).fill_null(
            bytes(kind.byte_width)
        )
        return pa.Array.from_buffers(kind, len(array), [_validity(array), filled.buffers()[1]], offset=filled.offset)
    else:
        filled = array.fill_null(pa.scalar("", kind))
        return pa.Array.from_buffers(kind, len(array), [_validity(array), *filled.buffers()[1:]], offset=filled.offset)
    return pa.Array.from_buffers(kind, len(array), [_validity(array), values])


def _zeroed_nested(array: pa.Array) -> pa.Array:
    """Return structs, lists and unions anew: what lies under a null has no values of its own."""
    import numpy as np
    import pyarrow as pa

    kind, length = array.type, len(array)
    buffers = [_validity(array)]
    if pa.types.is_struct(kind):
        # `flatten` carries the nulls of the struct down to its members.
        children = array.flatten()
    elif pa.types.is_fixed_size_list(kind):
        index = np.arange(length * kind.list_size)
        null = np.repeat(_mask(array), kind.list_size)
        values = array.values.slice(array.offset * kind.list_size, index.size)
        children = [values.take(pa.array(index, mask=null))]
    elif pa.types.is_union(kind) and kind.mode == "sparse":
        codes = array.type_codes.to_numpy(zero_copy_only=False)
        index = np.arange(length)
        buffers += [pa.py_buffer(codes.tobytes())]
        children = [
            array.field(at).take(pa.array(index, mask=codes != code)) for at, code in enumerate(kind.type_codes)
        ]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        offsets = array.offsets.to_numpy()
        sizes = np.where(_mask(array), 0, np.diff(offsets))
        ends = np.concatenate(([0], np.cumsum(sizes))).astype(offsets.dtype)
        buffers += [pa.py_buffer(ends.tobytes())]
        index = np.arange(ends[-1]) + np.repeat(offsets[:-1] - ends[:-1], sizes)
        children = [array.values.take(pa.array(index))]
    else:
        return array
    return pa.Array.from_buffers(kind, length, buffers, children=[_zeroed(child) for child in children])


def _mask(array: pa.Array) -> Any:
    return array.is_null().to_numpy(zero_copy_only=False)


def _validity(array: pa.Array) -> Any:
    return _bits(array.is_valid()) if array.null_count else None


def _bits(values: pa.BooleanArray) -> Any:
    import numpy as np
    import pyarrow as pa

    return pa.py_buffer(np.packbits(values.to_numpy(zero_copy_only=False), bitorder="little").tobytes())
