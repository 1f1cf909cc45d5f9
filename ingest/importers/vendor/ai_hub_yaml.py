"""AI Hub Models' `perf.yaml`, read as profile jobs: both of its shapes (described in `ingest.importers.vendor.ai_hub`)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import yaml

from ingest.importers.files import File
from ingest.importers.reading import BadFile, number, text, whole
from ingest.importers.refusals import BadRow
from ingest.importers.tables.csv_drafts import in_bytes

__all__ = ["MIB", "Job", "jobs_of"]

MIB = 2**20
"""What AI Hub calls MB."""
_YAML_BYTES = 16 << 20


class Job(NamedTuple):
    """One profile job, whatever shape it came in: memory in bytes, `layers` by unit and in total."""

    row: int
    model: str
    component: str
    precision: str | None
    device: str
    runtime: str
    status: str | None
    latency_ms: float | None = None
    throughput_per_s: float | None = None
    memory: tuple[int | None, int | None] = (None, None)
    unit: str | None = None
    layers: Mapping[str, int | None] = {}
    tools: Mapping[str, str] = {}
    llm: tuple[Mapping[str, Any], ...] = ()
    about: Mapping[str, str] = {}
    time: str | None = None
    original: Mapping[str, Any] = {}


def jobs_of(file: File) -> Iterator[tuple[dict[str, Any], Job | BadRow]]:
    """Yield each job, or what is wrong with it, behind the smallest document that holds it alone.

    BadFile where the file is no YAML, larger than 16 MiB, has aliases, or holds no members.
    """
    tree = _loaded(file)
    if not isinstance(tree, dict):
        raise BadFile("is no perf.yaml: it holds no members")
    folder = _folder(file) or text(tree, "model")
    yield from _of_precisions(tree, folder) if "precisions" in tree else _of_models(tree, folder)


def _loaded(file: File) -> Any:
    if file.size() > _YAML_BYTES:
        raise BadFile(f"is YAML of more than {_YAML_BYTES >> 20} MiB")
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with file.open_text() as opened:
        written = opened.read()
    try:
        # An alias of an alias of an alias … is a bomb, and no perf.yaml has one.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(io.StringIO(written), Loader=loader)):
            raise BadFile("has YAML aliases, which are not taken")
        return yaml.load(written, Loader=loader)  # a safe loader
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise BadFile(f"is not YAML: {error.problem}", line) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadFile(f"is not YAML: {type(error).__name__}") from None


def _folder(file: File) -> str | None:
    """Return the model that the folder is named after, where it lies as it does in the repository (`models/<model>/`)."""
    parts = PurePosixPath(file.name).parts
    if len(parts) < 3 and file.path.name == file.base:
        parts = file.path.parts
    return parts[-2] if len(parts) >= 3 and parts[-3] == "models" else None


def _of_precisions(tree: dict[str, Any], folder: str | None) -> Iterator[tuple[dict[str, Any], Job | BadRow]]:
    """Yield each job of the new shape, with the smallest document that holds it."""
    named: dict[str, Any] = {"model": folder} if folder else {}
    for precision, components in _objects(tree, "precisions"):
        for component, detail in _objects(components, "components"):
            for device, ways in _objects(detail, "performance_metrics"):
                for runtime, said in _objects({"ways": ways}, "ways"):
                    inner = {"performance_metrics": {device: {runtime: said}}}
                    alone = {**named, "precisions": {precision: {"components": {component: inner}}}}
                    yield alone, _new_job(folder or component, component, precision, device, runtime, said)


def _new_job(model: str, component: str, precision: str, device: str, runtime: str, said: Any) -> Job | BadRow:
    if not isinstance(said, dict):
        return BadRow(runtime, "is no object")
    try:
        memory, layers = _object(said, "estimated_peak_memory_range_mb"), _object(said, "layer_counts")
        older, older_layers = _object(said, "estimated_peak_memory_range"), _object(said, "layer_info")
        llm = said.get("llm_metrics")
        entries = tuple(entry for entry in llm if isinstance(entry, dict)) if isinstance(llm, list) else ()
        if not entries and "tokens_per_second" in said:
            entries = (said,)
        latency_ms = number(said, "inference_time_milliseconds")
        return Job(
            row=1,
            model=model,
            component=component,
            precision=precision,
            device=device,
            runtime=runtime,
            status=text(said, "job_status"),
            latency_ms=number(said, "inference_time", unit="us") if latency_ms is None else latency_ms,
            throughput_per_s=number(said, "throughput"),
            memory=(
                in_bytes(memory, "min", MIB) or in_bytes(older, "min"),
                in_bytes(memory, "max", MIB) or in_bytes(older, "max"),
            ),
            unit=text(said, "primary_compute_unit"),
            layers=_layers(layers) if layers else _older_layers(older_layers),
            tools={str(name): str(value) for name, value in _object(said, "tool_versions").items() if value},
            llm=entries,
            original={f"estimated_peak_memory_range_mb.{end} (MiB)": value for end, value in memory.items() if value},
        )
    except BadRow as bad:
        return bad


def _of_models(tree: dict[str, Any], folder: str | None) -> Iterator[tuple[dict[str, Any], Job | BadRow]]:
    """Yield each job of the old shape, with the smallest document that holds it."""
    named: dict[str, Any] = {"model": folder} if folder else {}
    for model in _list(tree, "models"):
        component = text(model, "name") or "unknown"
        for entry in _list(model, "performance_metrics"):
            about = {name: entry[name] for name in ("reference_device_info", "timestamp") if name in entry}
            for runtime, said in entry.items():
                if runtime in about or not isinstance(said, dict):
                    continue
                alone: dict[str, Any] = {
                    **named,
                    "models": [{"name": component, "performance_metrics": [{runtime: said, **about}]}],
                }
                yield alone, _old_job(folder or component, component, runtime, said, entry)


def _old_job(model: str, component: str, runtime: str, said: dict[str, Any], entry: dict[str, Any]) -> Job | BadRow:
    try:
        device = _object(entry, "reference_device_info")
        name = text(device, "name")
        if name is None:
            raise BadRow("reference_device_info.name", "is missing")
        memory = _object(said, "estimated_peak_memory_range")
        system = " ".join(result for member in ("os_name", "os") if (result := text(device, member)))
        llm = (said,) if number(said, "tokens_per_second") else ()
        latency_ms = number(said, "inference_time", unit="us")
        return Job(
            row=1,
            model=model,
            component=component,
            precision=text(said, "precision"),
            device=name,
            runtime=runtime,
            status=text(said, "job_status"),
            latency_ms=latency_ms,
            throughput_per_s=number(said, "throughput"),
            memory=(in_bytes(memory, "min"), in_bytes(memory, "max")),
            unit=text(said, "primary_compute_unit"),
            layers=_older_layers(_object(said, "layer_info")),
            llm=llm,
            about={"machine": name}
            | {key: value for key, value in (("os", system), ("cpu", text(device, "chipset"))) if value},
            time=_time(entry.get("timestamp")),
            original={} if latency_ms is None else {"inference_time (us)": said["inference_time"]},
        )
    except BadRow as bad:
        return bad


def _time(said: Any) -> str | None:
    if hasattr(said, "isoformat"):
        said = said.isoformat()
    return said if isinstance(said, str) and said.endswith(("Z", "+00:00")) else None


def _layers(said: Mapping[str, Any]) -> dict[str, int | None]:
    return {unit: whole(said, unit) for unit in ("total", "npu", "gpu", "cpu")}


def _older_layers(said: Mapping[str, Any]) -> dict[str, int | None]:
    wholes = {unit: whole(said, f"layers_on_{unit}") for unit in ("npu", "gpu", "cpu")}
    return {"total": whole(said, "total_layers"), **wholes}


def _object(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    result = said.get(name)
    return result if isinstance(result, dict) else {}


def _objects(said: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the members of an object's object, by their names as text; nothing where it is none."""
    members = said.get(name) if isinstance(said, dict) else None
    if isinstance(members, dict):
        yield from ((str(key), value) for key, value in members.items())


def _list(said: Any, name: str) -> list[dict[str, Any]]:
    entries = said.get(name) if isinstance(said, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
