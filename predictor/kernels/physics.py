"""What physics says of a kernel: a floor, arithmetic in tiles spread over units, and traffic, each at a fitted share.

The parameters of a class are few and hold on every device; `fitting` finds them. What they leave is learned by trees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from predictor.features.table import Array, Matrix
from predictor.kernels.columns import ATTENTION, MOVING, MOVING_KINDS, PRODUCT, Columns

__all__ = ["FEATURES", "START", "Parameters", "features_of", "seconds_of", "shares_of", "sustained"]

TILES = (
    (256, 128, 1.0),
    (128, 128, 0.95),
    (128, 64, 0.82),
    (64, 64, 0.67),
    (64, 32, 0.47),
    (16, 64, 0.3),
    (16, 16, 0.15),
)
"""Rows, columns and relative efficiency of the tiles that a matrix product is cut into; the best one counts."""
SPLITS = (1, 2, 4, 8)
"""Into how many parts the inner dimension may be cut, so that more units have work."""
DEPTH = 64
"""Steps of the inner loop are counted in as many elements."""
QUERIES, KEYS = 128, 256
"""Rows of queries that one unit works on, and keys of a step of it."""
POWER_YEAR = 2020.0
_TINY = 1e-12

START: dict[str, dict[str, float]] = {
    PRODUCT: {
        "compute": 0.84,
        "traffic": 0.84,
        "blend": 3.0,
        "step_ns": 13.0,
        "cache": 3.0,
        "resident": 0.1,
        "power": 1.0,
        "vector": 12.0,
        "halving": 4.0,
    },
    ATTENTION: {
        "compute": 0.6,
        "traffic": 0.7,
        "blend": 2.0,
        "step_ns": 200.0,
        "cache": 3.0,
        "resident": 0.1,
        "power": 1.0,
        "vector": 12.0,
        "halving": 4.0,
    },
    MOVING: {"traffic": 0.8, "cache": 3.0, "resident": 0.5, **{f"traffic.{kind}": 1.0 for kind in MOVING_KINDS[1:]}},
}
"""Parameters of each class with the values that a fit starts from, all above 0.

`compute` and `traffic` are the shares of peak and bandwidth that are reached; `blend` says how far arithmetic and traffic
overlap (1: not at all); `step_ns` is the latency of a step of the inner loop; `cache` is how many times as fast the cache is
as the memory, for what takes less than the share `resident` of it. `power` (pJ an FLOP of 16 bits in 2020), `vector` (how many
times as much one of 32 bits takes) and `halving` (years) say how much power arithmetic at full rate takes: a device that is
rated for less runs slower for longer than a moment."""
FLOOR_US = {"graph": 2.5, "eager": 12.0}
"""Microseconds below which no kernel stays, by how it is launched; a fit starts from these, and from the second elsewhere."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """Fitted parameters of a class: `values` by name as in `START`, and the floor in microseconds by regime."""

    values: dict[str, float]
    floors_us: dict[str, float]

    def floor_s(self, regime: np.ndarray) -> Array:
        """Return the floor of each kernel in seconds; an unknown regime counts as the slowest that is known."""
        floors = np.full(len(regime), max(self.floors_us.values()))
        for name, floor in self.floors_us.items():
            floors[regime == name] = floor
        return floors * 1e-6


def sustained(device: Mapping[str, Array], power: Array, halving: float) -> Array:
    """Return the share of its peak that a device's rated power sustains, 0 to 1; 1 where the rated power is not known.

    `power` is what an operation took in 2020 in pJ; it falls by half in `halving` years and grows with the clock to the
    power of 1.5.
    """
    needed = power * 1e-12 * 2.0 ** (-(device["year"] - POWER_YEAR) / halving) * (device["clock"] / 1.8e9) ** 1.5
    with np.errstate(invalid="ignore"):
        share = (1.0 + (needed / device["power"]) ** 4) ** -0.25
    return np.where(np.isnan(share), 1.0, share)


def _tiled(columns: Columns) -> Array:
    """Return the seconds of a product's arithmetic at peak when cut into the best tiles over the device's units."""
    size, device = columns.sizes, columns.device
    best: Array | None = None
    each = device["peak"] / device["units"]
    for rows, width, efficiency in TILES:
        tiles = size["batch"] * np.ceil(size["m"] / rows) * np.ceil(size["n"] / width)
        for split in SPLITS:
            depth = np.ceil(size["k"] / split / DEPTH) * DEPTH
            took = np.ceil(tiles * split / device["units"]) * (2.0 * rows * width * depth) / (each * efficiency)
            if split > 1:
                took = took + 8.0 * size["batch"] * size["m"] * size["n"] * split / device["bandwidth"]
            best = took if best is None else np.minimum(best, took)
    assert best is not None
    return best


def _product(columns: Columns) -> dict[str, Array]:
    size, device = columns.sizes, columns.device
    flops = 2.0 * size["batch"] * size["m"] * size["n"] * size["k"]
    moved = size["batch"] * (
        size["m"] * size["k"] / size["area"] * size["left_bytes"]
        + size["k"] * size["n"] * size["right_bytes"]
        + size["m"] * size["n"] * size["out_bytes"]
    )
    return {
        "ideal": flops / device["peak"],
        "compute": _tiled(columns),
        "bytes": moved,
        "steps": size["k"] / DEPTH,
    }


def _attention(columns: Columns) -> dict[str, Array]:
    size, device = columns.sizes, columns.device
    seen = size["keys"] * np.where(
        size["causal"] > 0, 0.5 + 0.5 * (1 - np.minimum(size["queries"] / size["keys"], 1)), 1.0
    )
    flops = 4.0 * size["batch"] * size["heads"] * size["queries"] * seen * size["width"]
    moved = (
        size["batch"]
        * size["width"]
        * (2 * size["heads"] * size["queries"] * size["bytes"] + 2 * size["kv_heads"] * size["keys"] * size["kv_bytes"])
    )
    blocks = size["batch"] * size["heads"] * np.ceil(size["queries"] / QUERIES)
    # Few blocks are cut along the keys as well, as decoding kernels do.
    split = np.clip(np.floor(device["units"] / np.maximum(blocks, 1.0)), 1.0, np.maximum(size["keys"] / KEYS, 1.0))
    waves = np.ceil(blocks * split / device["units"])
    padded = np.where(size["queries"] < QUERIES, np.minimum(QUERIES, 16.0 * np.ceil(size["queries"] / 16)), QUERIES)
    each = 4.0 * padded * (seen / split) * size["width"]
    return {
        "ideal": flops / device["peak"],
        "compute": np.maximum(waves * each / (device["peak"] / device["units"]), flops / device["peak"]),
        "bytes": moved,
        "steps": seen / split / KEYS,
    }


def _moving(columns: Columns) -> dict[str, Array]:
    size = columns.sizes
    moved = size["rows"] * size["moved"] * size["bytes"]
    zeros = np.zeros(len(columns))
    return {"ideal": zeros, "compute": zeros, "bytes": moved, "steps": zeros}


PARTS: dict[str, Callable[[Columns], dict[str, Array]]] = {PRODUCT: _product, ATTENTION: _attention, MOVING: _moving}


def _times(
    name: str, parameters: Parameters, columns: Columns, parts: Mapping[str, Array]
) -> tuple[Array, Array, Array]:
    """Return floor, arithmetic and traffic of each kernel in seconds."""
    values, device = parameters.values, columns.device
    floor = parameters.floor_s(columns.regime) + values.get("step_ns", 0.0) * 1e-9 * parts["steps"]
    rate = device["bandwidth"] * values["traffic"]
    if name == MOVING:
        rate = (
            rate
            * np.array([1.0, *(values[f"traffic.{kind}"] for kind in MOVING_KINDS[1:])])[
                columns.sizes["kind"].astype(np.intp)
            ]
        )
    resident = 1.0 / (1.0 + (parts["bytes"] / (device["cache"] * values["resident"])) ** 3)
    traffic = parts["bytes"] / rate * (1.0 - resident * (1.0 - 1.0 / max(values["cache"], 1.0)))
    compute = np.zeros(len(columns))
    if name != MOVING:
        full = parts["compute"] / values["compute"]
        # A moment's work is over before power limits the clock.
        long = 1.0 / (1.0 + 1e-4 / np.maximum(full, _TINY))
        width = columns.sizes["left_bytes" if name == PRODUCT else "bytes"]
        each = values["power"] * np.where(width > 2, values["vector"], width / 2)
        share = sustained(device, each, values["halving"])
        compute = full * (1.0 + long * (1.0 / share - 1.0))
    return floor, compute, traffic


def seconds_of(name: str, parameters: Parameters, columns: Columns, parts: Mapping[str, Array] | None = None) -> Array:
    """Return the seconds of kernels of a class; `parts` are those of `PARTS`, computed where they are not given."""
    floor, compute, traffic = _times(name, parameters, columns, PARTS[name](columns) if parts is None else parts)
    blend = parameters.values.get("blend", 1.0)
    return np.asarray(floor + (compute**blend + traffic**blend + _TINY**blend) ** (1.0 / blend), dtype=np.float64)


def shares_of(name: str, parameters: Parameters, columns: Columns) -> Matrix:
    """Return which share of a kernel's seconds are floor, arithmetic and traffic, (kernels, 3)."""
    times = np.column_stack(_times(name, parameters, columns, PARTS[name](columns)))
    return np.asarray(times / times.sum(axis=1)[:, None], dtype=np.float64)


FEATURES: dict[str, tuple[str, ...]] = {
    PRODUCT: (
        "log_batch", "log_m", "log_n", "log_k", "log_area", "floor", "balance", "log_seconds", "padding", "log_resident",
        "log_right_resident", "waves_64", "full_64", "waves_128", "full_128", "waves_256", "full_256", "aligned_m",
        "aligned_n", "aligned_k", "left_bytes", "right_bytes", "eager",
    ),
    ATTENTION: (
        "log_batch", "log_heads", "log_group", "log_queries", "log_keys", "log_width", "causal", "floor", "balance",
        "log_seconds", "padding", "log_resident", "log_blocks", "bytes", "kv_bytes", "eager",
    ),
    MOVING: ("kind", "log_rows", "log_row", "log_moved", "floor", "log_seconds", "log_resident", "log_each", "bytes", "eager"),
}  # fmt: skip
"""What trees of a class read: how a kernel lies against its device. No figure of a device itself is among them."""


def features_of(name: str, parameters: Parameters, columns: Columns) -> Matrix:
    """Return the features of kernels, (kernels, len(FEATURES[name]))."""
    parts = PARTS[name](columns)
    seconds = seconds_of(name, parameters, columns, parts)
    device = columns.device
    common = {
        "floor": np.log(parameters.floor_s(columns.regime) / seconds),
        "log_seconds": np.log(seconds),
        "log_resident": np.log(parts["bytes"] / device["cache"]),
        "eager": (columns.regime != "graph").astype(np.float64),
    }
    if name != MOVING:
        common["balance"] = np.log(np.maximum(parts["compute"], _TINY) * device["bandwidth"] / parts["bytes"])
        common["padding"] = np.log(np.maximum(parts["compute"], _TINY) / np.maximum(parts["ideal"], _TINY))
    own = _OWN[name](columns)
    return np.column_stack([(common | own)[feature] for feature in FEATURES[name]])


def _of_product(columns: Columns) -> dict[str, Array]:
    size, units = columns.sizes, columns.device["units"]
    values = {f"log_{side}": np.log2(np.maximum(size[side], 1.0)) for side in ("batch", "m", "n", "k", "area")}
    values["log_right_resident"] = np.log(size["k"] * size["n"] * size["right_bytes"] / columns.device["cache"])
    for rows, width in ((64, 64), (128, 128), (256, 128)):
        waves = size["batch"] * np.ceil(size["m"] / rows) * np.ceil(size["n"] / width) / units
        values[f"waves_{rows}"], values[f"full_{rows}"] = np.log(waves), waves / np.ceil(waves)
    for side in ("m", "n", "k"):
        values[f"aligned_{side}"] = sum((size[side] % step == 0).astype(np.float64) for step in (4, 8, 32, 128))
    return values | {"left_bytes": size["left_bytes"], "right_bytes": size["right_bytes"]}


def _of_attention(columns: Columns) -> dict[str, Array]:
    size = columns.sizes
    values = {f"log_{side}": np.log2(size[side]) for side in ("batch", "heads", "queries", "keys", "width")}
    values["log_group"] = np.log2(size["heads"] / size["kv_heads"])
    values["log_blocks"] = np.log(
        size["batch"] * size["heads"] * np.ceil(size["queries"] / QUERIES) / columns.device["units"]
    )
    return values | {name: size[name] for name in ("causal", "bytes", "kv_bytes")}


def _of_moving(columns: Columns) -> dict[str, Array]:
    size = columns.sizes
    return {
        "kind": size["kind"],
        "log_rows": np.log2(size["rows"]),
        "log_row": np.log2(size["row"]),
        "log_moved": np.log2(size["moved"] / size["row"]),
        "log_each": np.log(size["rows"] * size["row"] / columns.device["units"]),
        "bytes": size["bytes"],
    }


_OWN: dict[str, Callable[[Columns], dict[str, Array]]] = {
    PRODUCT: _of_product,
    ATTENTION: _of_attention,
    MOVING: _of_moving,
}
