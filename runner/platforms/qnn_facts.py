"""What the QNN execution provider says of itself, read: where it computes, and how long each layer took in which unit.

Sources: ONNX Runtime's documentation of the QNN execution provider (provider options, profiling) and the serializer of
onnxruntime-qnn 2.7, whose files have the columns Msg Timestamp, Message, Time, Unit of Measurement, Timing Source, Event Level,
Event Identifier.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

__all__ = ["emulation", "layers_of", "provider_options", "times_of"]

_LAYER = re.compile(r"^(?P<name>.*?):?\s*OpId_(?P<id>\d+)")
_RUN = "QNN (execute) time"


def emulation(device_kinds: Sequence[str], machine: str) -> str | None:
    """Return why work would be simulated on the processor, or None where an NPU is there.

    `device_kinds` are those of the devices that the provider lists (NPU, GPU, CPU), `machine` the processor's architecture.
    """
    if "NPU" in device_kinds:
        return None
    if machine.lower() in ("x86_64", "amd64"):
        return "this processor has no Hexagon NPU; the library simulates one, thousands of times slower than it is"
    return "the provider lists no NPU; its libraries for this machine's Hexagon are missing, or its driver is"


def provider_options(backend_path: str, *, profile: str | None = None) -> dict[str, str]:
    """Return the options: the HTP backend at full clock, no fp32 graph lowered to fp16; layers timed where a file is named."""
    result = {"backend_path": backend_path, "enable_htp_fp16_precision": "0", "htp_performance_mode": "burst"}
    return result | ({"profiling_level": "detailed", "profiling_file_path": profile} if profile else {})


def _rows(text: str) -> list[dict[str, str]]:
    return [row for row in csv.DictReader(io.StringIO(text)) if (row.get("Time") or "").isdigit()]


def layers_of(text: str) -> list[dict[str, Any]]:
    """Return `{"layer", "time", "unit", "share"}` of each layer, summed over the calls in the file, longest first.

    Units are the backend's own (CYCLES, US) and are never added to each other: shares are of their unit.
    """
    times: dict[tuple[str, str], int] = defaultdict(int)
    for row in _rows(text):
        if row["Message"] == "NODE":
            name = row["Event Identifier"].removesuffix("(cycles)").strip()
            match = _LAYER.match(name)
            times[match["name"].strip() if match and match["name"].strip() else name, row["Unit of Measurement"]] += (
                int(row["Time"])
            )
    totals: dict[str, int] = defaultdict(int)
    for (_, unit), time in times.items():
        totals[unit] += time
    result = [
        {"layer": layer, "time": time, "unit": unit, "share": round(time / totals[unit], 4) if totals[unit] else 0.0}
        for (layer, unit), time in times.items()
    ]
    return sorted(result, key=lambda each: (-float(each["share"]), str(each["layer"])))


def times_of(text: str) -> dict[str, float]:
    """Return the mean of what the backend says of a call: ms by name, cycles and counts as they are."""
    result: dict[str, list[int]] = defaultdict(list)
    units: dict[str, str] = {}
    for row in _rows(text):
        if row["Event Level"] == "ROOT" and row["Message"] in ("EXECUTE", "BACKEND"):
            result[row["Event Identifier"]].append(int(row["Time"]))
            units[row["Event Identifier"]] = row["Unit of Measurement"]
    if _RUN not in result:
        return {}
    means = {name: sum(values) / len(values) for name, values in result.items()}
    return {name: value / 1e3 if units[name] == "US" else value for name, value in means.items()}
