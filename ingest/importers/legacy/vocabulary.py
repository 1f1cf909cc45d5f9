"""What the earlier framework's files have in common: its words for platforms, its times, its machines and its flags.

The framework (endomorphosis/ipfs_accelerate_py, 2025) wrote some fifteen shapes of JSON, and later a DuckDB file. Its times have no
offset and are taken as UTC, except where they are seconds since 1970. `memory_mb` is 2^20 bytes (psutil's bytes divided by 1024 twice), `total_memory_gb`
2^30. Its files name a platform and seldom a device: what is not named is `unknown-cpu`, `unknown-gpu`, `unknown-npu` or
`unknown-device`. Host names and user names are not taken; models on a private path are `local/<last part>`.

Where a record stands in its file is `imported.original.record`: the names of the members that lead to it, joined by `/`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from domain.catalogues import models
from domain.vocabulary import CATEGORIES
from ingest.importers.document import environment
from ingest.importers.files import File
from ingest.importers.identity import hardware_of, model_of
from ingest.importers.reading import number, text
from ingest.importers.refusals import BadRow

__all__ = [
    "NOWHERE",
    "Machine",
    "category_of",
    "error_of",
    "flags_of",
    "has_members",
    "machine_of",
    "model_named",
    "moment",
    "platform_of",
    "record_at",
    "simulated_platforms",
]

_PLATFORMS = {
    "cpu": "cpu",
    "cuda": "cuda",
    "gpu": "cuda",
    "nvidia": "cuda",
    "openvino": "openvino",
    "mps": "mps",
    "apple": "mps",
    "rocm": "rocm",
    "amd": "rocm",
    "amd rocm": "rocm",
    "qualcomm": "qnn",
    "qnn": "qnn",
    "snpe": "qnn",
    "webnn": "webnn",
    "webgpu": "webgpu",
    "wasm": "wasm",
}
_UNKNOWN = {
    "cpu": ("unknown-cpu", "cpu"),
    "cuda": ("unknown-gpu", "gpu"),
    "rocm": ("unknown-gpu", "gpu"),
    "mps": ("unknown-gpu", "gpu"),
    "qnn": ("unknown-npu", "npu"),
}
_MODALITIES = {"text": None, "vision": "vision", "image": "vision", "audio": "audio", "multimodal": "multimodal"}
_SAYS = re.compile(r"simul|mock|fake|dummy|placeholder", re.IGNORECASE)
_KINDS = frozenset(("implementation_type", "implementation", "initialization_type", "result_type", "device", "status"))
_ERROR = re.compile(r"\b([A-Z][A-Za-z0-9]*(?:Error|Exception|Interrupt|Warning))\b(?::\s*(.*))?")
_COMPACT = re.compile(r"\d{8}_\d{6}")
_FIRST_S, _LAST_S = 946_684_800, 4_102_444_800
"""2000 and 2100 in seconds since 1970: what a number must lie between to be a time."""
DEPTH = 3
"""Flags are looked for in objects so deep inside a record."""


class Machine(NamedTuple):
    """What a file says of the machine: the names of its devices as far as it names them, and the environment."""

    gpu: str | None = None
    cpu: str | None = None
    cores: int | None = None
    environment: dict[str, Any] | None = None

    def hardware(self, platform: str) -> dict[str, Any]:
        """Return the hardware that a platform runs on here; an unknown one where the file does not name it."""
        if platform == "cuda" and self.gpu:
            return hardware_of(self.gpu, kind="gpu")
        if platform == "cpu" and self.cpu:
            return hardware_of(self.cpu, kind="cpu", cores=self.cores)
        id_, kind = _UNKNOWN.get(platform, ("unknown-device", "other"))
        return {"id": id_, "kind": kind, "count": 1}


NOWHERE = Machine()


def has_members(file: File, *names: str) -> bool:
    """Return whether a JSON file's beginning has members of all these names."""
    if file.suffix != ".json":
        return False
    head = file.head()
    return all(f'"{name}"' in head for name in names)


def platform_of(word: Any) -> str | None:
    """Return our word for a platform, or None where it is none of the framework's."""
    return _PLATFORMS.get(str(word).strip().lower()) if isinstance(word, str) else None


def moment(value: Any) -> str | None:
    """Return a time as ISO 8601 with an offset, or None; `20250302_221825`, ISO without offset, seconds since 1970."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC).isoformat() if _FIRST_S < value < _LAST_S else None
    if not isinstance(value, str):
        return None
    try:
        if _COMPACT.fullmatch(value):
            moment = datetime.strptime(value, "%Y%m%d_%H%M%S").replace(tzinfo=UTC)
        else:
            moment = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.isoformat() if 2000 <= moment.year < 2100 else None


def model_named(name: Any, *, family: Any = None, modality: Any = None) -> dict[str, Any]:
    """Return the model of a record; BadRow where it has no name.

    A path becomes `local/<last part>`. The framework's families of tasks are our categories.
    """
    said = text({"model": name}, "model")
    if said is None:
        raise BadRow("model", "is missing")
    if said.startswith(("/", "~", ".")) or re.match(r"[A-Za-z]:\\", said):
        said = "local/" + re.split(r"[\\/]", said.rstrip("\\/"))[-1]
    category = family if family in CATEGORIES else _MODALITIES.get(str(modality).lower())
    return model_of(said, category=category)


def category_of(skill: str) -> str | None:
    """Return the category of what the framework calls a model in short, such as `bert`."""
    result = models.find(skill)
    return result.category if result else None


def machine_of(info: Mapping[str, Any] | None) -> Machine:
    """Return the machine that a `system_info`, or a test's `metadata`, describes."""
    if not isinstance(info, Mapping):
        return NOWHERE
    devices = info.get("cuda_devices")
    first = devices[0] if isinstance(devices, list) and devices else None
    gpu = text(first, "name") if isinstance(first, dict) else None
    libraries = {
        name: version
        for name, field in (
            ("torch", "torch_version"),
            ("transformers", "transformers_version"),
            ("numpy", "numpy_version"),
            ("cuda", "cuda_version"),
            ("openvino", "openvino_version"),
        )
        if (version := text(info, field)) is not None and version != "mocked"
    }
    said = {
        "os": text(info, "platform"),
        "kernel": text(info, "os_release"),
        "machine": text(info, "architecture"),
        "python": (text(info, "python_version") or "").split(" ")[0] or None,
        "memory_bytes": _bytes(info),
    }
    return Machine(gpu=gpu, environment=environment(libraries, **said))


def _bytes(info: Mapping[str, Any]) -> int | None:
    try:
        result = number(info, "total_memory_gb", unit="gib")
    except BadRow:
        return None
    return round(result) if result else None


def flags_of(record: Any, path: str = "", depth: int = DEPTH) -> dict[str, Any]:
    """Return the members of a record that say that something was simulated or mocked, by their path.

    A member says so by its name and a true value, or is one that names the kind of implementation and has such a word.
    """
    row: dict[str, Any] = {}
    if not isinstance(record, dict) or depth == 0:
        return row
    for name, value in record.items():
        here = f"{path}.{name}" if path else str(name)
        if isinstance(value, dict):
            row |= flags_of(value, here, depth - 1)
        elif isinstance(value, bool):
            if value and _SAYS.search(name):
                row[here] = value
        elif isinstance(value, str) and name in _KINDS and _SAYS.search(value):
            row[here] = value
    return row


def simulated_platforms(document: Mapping[str, Any]) -> set[str]:
    """Return the platforms that a file, when it was looked at again later, was said to hold simulated figures of."""
    named = document.get("simulated_hardware")
    words = named if isinstance(named, list) else []
    return {platform for word in words if (platform := platform_of(word))}


def error_of(said: str) -> tuple[str, str]:
    """Return the kind of error and what it says, from a traceback or a sentence; `error` where it names no kind."""
    lines = [line.strip() for line in said.strip().splitlines() if line.strip()]
    for line in reversed(lines):
        if match := _ERROR.search(line):
            return match[1][:64], line[:2000]
    return "error", (lines[-1] if lines else "no reason is given")[:2000]


def record_at(*names: Any) -> str:
    """Return where a record stands in its file."""
    return "/".join(str(name) for name in names if name != "")
