"""The earlier framework's hardware detection: `hardware_detection_*.json`, in two shapes.

**Nested**: `hardware.<platform>` true or false, and `details.<platform>`; the CPU's name stands only in `details.openvino.device_info.CPU.full_name`.
**Flat**: `<platform>`, `<platform>_error`, `cuda_devices`, `openvino_device_info`, `system`. Each device becomes a description: the CPU with what is said of the
platforms that need no other device, and each CUDA device. Memory is in 2^30 bytes, and in 2^20 where the file says MB. Without the CPU's
name the CPU is not described. `webnn` and `webgpu` are true where Node is installed, which proves no browser; they are not taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from domain.canonical import drop_nulls
from domain.events import HARDWARE_DESCRIBED
from ingest.importers.document import Document, environment
from ingest.importers.files import File
from ingest.importers.identity import hardware_of, row_id
from ingest.importers.legacy.vocabulary import has_members, platform_of
from ingest.importers.reading import BadFile, json_document, number, text, whole
from ingest.importers.refusals import BadRow, Refused

__all__ = ["SeedHardware"]

NAME = "seed-hardware"
VERSION = 1
_NOT_TAKEN = frozenset(("webnn", "webgpu"))


class SeedHardware:
    """Hardware detection (JSON)."""

    name = NAME
    title = "earlier framework: hardware_detection_*.json, the devices and platforms of a machine"

    def sniff(self, file: File) -> bool:
        """Return whether the file is a detection of hardware."""
        nested = has_members(file, "hardware", "details", "cuda", "openvino", "cpu")
        flat = has_members(file, "cuda_device_count", "openvino_devices", "system")
        return (nested or flat) and not has_members(file, "benchmarks")

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run and the descriptions of its devices; see Importer."""
        result = json_document(file)
        if not isinstance(result, dict):
            raise BadFile("is not an object of hardware")
        try:
            machine = _flat(result) if "system" in result else _nested(result)
            described = [drop_nulls(data) for data in _described(machine)]
        except BadRow as bad:
            raise BadFile(f"{bad.field} {bad.reason}") from None
        document = Document(
            file,
            NAME,
            version=VERSION,
            source="earlier framework, hardware detection",
            hardware=[data["hardware"] for data in described],
            environment=machine["environment"],
        )
        events = document.events([])
        yield next(events)
        for data in described:
            yield {
                "specversion": "1.0",
                "id": row_id(NAME, VERSION, HARDWARE_DESCRIBED, data),
                "source": f"urn:assay:importer:{NAME}",
                "type": HARDWARE_DESCRIBED,
                "subject": document.run_id,
                "datacontenttype": "application/json",
                "data": data,
            }
        yield from events


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _nested(row: Mapping[str, Any]) -> dict[str, Any]:
    details = {word: _object(value) for word, value in _object(row.get("details")).items()}
    cpu, cuda, openvino = (details.get(word, {}) for word in ("cpu", "cuda", "openvino"))
    named = _object(_object(openvino.get("device_info")).get("CPU"))
    memory = _object(cpu.get("memory"))
    return {
        "available": _object(row.get("hardware")),
        "reasons": {word: text(detail, "reason") for word, detail in details.items()},
        "versions": {"openvino": text(openvino, "version"), "cuda": text(cuda, "cuda_version")},
        "cpu": text(named, "full_name"),
        "cores": whole(_object(cpu.get("cores")), "physical"),
        "memory_bytes": number(memory, "total", unit="mib"),
        "gpus": cuda.get("devices"),
        "environment": environment(
            _known(
                {
                    "openvino": text(openvino, "version"),
                    "cuda": text(cuda, "cuda_version"),
                    "cudnn": text(cuda, "cudnn_version"),
                }
            ),
            os=text(cpu, "system"),
            machine=text(cpu, "architecture"),
            python=text(cpu, "python_version"),
        ),
    }


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    system = _object(row.get("system"))
    words = [word for word in row if platform_of(word) and isinstance(row[word], bool)]
    return {
        "available": {word: row[word] for word in words},
        "reasons": {word: text(row, f"{word}_error") for word in words},
        "versions": {"openvino": text(row, "openvino_version"), "cuda": None},
        "cpu": text(_object(row.get("openvino_device_info")), "CPU"),
        "cores": None,
        "memory_bytes": number(system, "total_memory", unit="gib"),
        "gpus": row.get("cuda_devices"),
        "environment": environment(
            _known({"openvino": text(row, "openvino_version")}),
            os=text(system, "platform"),
            kernel=text(system, "platform_release"),
            machine=text(system, "architecture"),
            python=text(system, "python_version"),
        ),
    }


def _known(libraries: dict[str, str | None]) -> dict[str, str]:
    return {name: version for name, version in libraries.items() if version}


def _described(machine: dict[str, Any]) -> Iterator[dict[str, Any]]:
    probes = {
        platform: {
            "platform": platform,
            "available": available is True,
            "reason": machine["reasons"].get(word),
            "runtime": {"name": word, "version": version} if (version := machine["versions"].get(word)) else None,
        }
        for word, available in machine["available"].items()
        if (platform := platform_of(word)) and platform not in _NOT_TAKEN
    }
    gpus = [gpu for gpu in machine["gpus"] if isinstance(gpu, dict)] if isinstance(machine["gpus"], list) else []
    cuda = probes.pop("cuda", None) if gpus else None
    if machine["cpu"]:
        cores = machine["cores"]
        yield {
            "hardware": hardware_of(machine["cpu"], kind="cpu", cores=cores),
            "name": machine["cpu"],
            "platforms": list(probes.values()),
            "spec": {"memory_bytes": _figure(machine["memory_bytes"]), "cores": _figure(cores)},
            "environment": machine["environment"],
        }
    for gpu in gpus:
        name = text(gpu, "name")
        if name:
            yield {
                "hardware": hardware_of(name, kind="gpu"),
                "name": name,
                "vendor": "nvidia",
                "platforms": [cuda] if cuda else [],
                "spec": {
                    "memory_bytes": _figure(number(gpu, "total_memory", unit="gib")),
                    "cores": _figure(whole(gpu, "multi_processor_count")),
                },
                "environment": machine["environment"],
            }


def _figure(value: float | None) -> dict[str, Any] | None:
    if value is None or not 1 <= value < 2**53:
        return None
    return {"value": round(value), "status": "unverified", "source": "the earlier framework's hardware detection"}
