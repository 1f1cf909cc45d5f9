"""What the columns of a table mean, as a YAML file says it; every mistake in it is named with its line.

columns:
  model: {column: net}
  hardware: {value: NVIDIA L4}
  mode: {value: inference}
  platform: {column: where, rename: {gpu: cuda}}
  precision: {column: dtype}
  batch_size: {column: bs}
  latency_ms.mean: {column: time, unit: s}
  throughput_per_s: {column: ips, missing: ["-1"]}
  time: {column: when, zone: "+01:00"}
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from datetime import UTC, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from domain.configuration import Model, Parallelism, Workload
from domain.errors import UsageError
from domain.measured import Latency
from domain.metrics import METRICS

__all__ = ["OPEN", "TARGETS", "UNITS", "Source", "TableMapping", "Target", "parse_mapping", "read_mapping", "target_of"]

_LIMIT_CHARACTERS = 1_000_000
_OFFSET = re.compile(r"[0-9]{1,2}(?::[0-5][0-9])?")


class Target(NamedTuple):
    """Where a value goes: section and path in it; `kind` is what it is read as, `dimension` which units it takes."""

    section: str
    path: tuple[str, ...]
    kind: str = "text"
    dimension: str | None = None


class Source(NamedTuple):
    """Where a value comes from: a column, or the constant `value`; `line` is where the mapping says so, from 1.

    `factor` takes it into Assay's unit, `unit` is as written. `rename` replaces values, `missing` names those that mean
    "not there", `zone` is the offset of times that have none.
    """

    target: str
    line: int
    column: str | None = None
    value: Any = None
    unit: str | None = None
    factor: float = 1.0
    rename: Mapping[str, Any] = {}
    missing: frozenset[str] = frozenset()
    zone: timezone | None = None


class TableMapping(NamedTuple):
    """A mapping: its sources by target, and what it says of the table as a whole. `name` is its file's, for messages."""

    name: str
    sources: tuple[Source, ...]
    delimiter: str | None = None
    source: str | None = None
    licence: str | None = None
    text: str = ""

    def columns(self) -> list[str]:
        """Return the columns that are read, each once."""
        return list(dict.fromkeys(source.column for source in self.sources if source.column is not None))


UNITS: dict[str, dict[str, float]] = {
    "time": {
        "s": 1e3,
        "sec": 1e3,
        "seconds": 1e3,
        "ms": 1.0,
        "milliseconds": 1.0,
        "us": 1e-3,
        "µs": 1e-3,
        "microseconds": 1e-3,
        "ns": 1e-6,
        "nanoseconds": 1e-6,
        "min": 6e4,
        "minutes": 6e4,
    },
    "bytes": {
        "B": 1.0,
        "bytes": 1.0,
        "kB": 1e3,
        "KB": 1e3,
        "MB": 1e6,
        "GB": 1e9,
        "KiB": 2.0**10,
        "MiB": 2.0**20,
        "GiB": 2.0**30,
    },
    "share": {"share": 1.0, "%": 0.01},
    "power": {"W": 1.0, "mW": 1e-3, "kW": 1e3},
    "energy": {"J": 1.0, "mJ": 1e-3, "kJ": 1e3, "Wh": 3600.0},
    "rate": {"1/s": 1.0, "1/ms": 1e3, "1/min": 1 / 60, "1/h": 1 / 3600},
    "moment": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
}
"""Units by what they measure, and the factor to Assay's; a moment in one of its units counts from 1970."""
_DIMENSIONS = {"ms": "time", "B": "bytes", "share": "share", "W": "power", "J": "energy", "1/s": "rate"}
_NUMBERS = ("audio_seconds", "arrival_rate_per_s")
_WORDS = ("mode", "scenario", "optimizer")
OPEN = ("options", "libraries")
"""Targets that take any name behind them: `options.page_size`."""
_LONG = ("workload.", "execution.", "metrics.", "environment.")
"""Sections that may stand in front of a name."""


def _targets() -> dict[str, Target]:
    targets = {
        "model": Target("model", ("id",)),
        "hardware": Target("hardware", ("id",)),
        "hardware.kind": Target("hardware", ("kind",)),
        "hardware.count": Target("hardware", ("count",), "whole"),
        "hardware.cores": Target("hardware", ("cores",), "whole"),
        "platform": Target("execution", ("platform",), "word"),
        "precision": Target("execution", ("precision",), "precision"),
        "runtime": Target("runtime", ("name",)),
        "runtime.version": Target("runtime", ("version",)),
        "layout": Target("execution", ("layout",), "word"),
        "compiled": Target("execution", ("compiled",), "truth"),
        "threads": Target("execution", ("threads",), "whole"),
        "streams": Target("execution", ("streams",), "whole"),
        "power_limit_w": Target("execution", ("power_limit_w",), "number", "power"),
        "observed.device": Target("observed", ("device",)),
        "observed.platform": Target("observed", ("platform",), "word"),
        "observed.precision": Target("observed", ("precision",), "precision"),
        "observed.fallback_share": Target("observed", ("fallback_share",), "share", "share"),
        "memory_bytes": Target("environment", ("memory_bytes",), "whole", "bytes"),
        "time": Target("row", ("time",), "moment", "moment"),
        "simulated": Target("row", ("simulated",), "truth"),
        **{name: Target("row", (name,)) for name in ("outcome", "stage", "error", "message", "remedy", "test")},
    }
    for name in ("driver", "os", "kernel", "python", "cpu", "machine"):
        targets[name] = Target("environment", (name,))
    for name in Model.__struct_fields__:
        if name != "id":
            targets[f"model.{name}"] = Target("model", (name,), "whole" if name == "parameters" else "text")
    for name in Workload.__struct_fields__:
        kind = "word" if name in _WORDS else "number" if name in _NUMBERS else "whole"
        targets[name] = Target("workload", (name,), "truth" if name == "gradient_checkpointing" else kind)
    for name in Parallelism.__struct_fields__:
        targets[f"parallelism.{name}"] = Target("execution", ("parallelism", name), "whole")
    for name in Latency.__struct_fields__:
        if name == "n":
            targets["latency_ms.n"] = Target("metrics", ("latency_ms", name), "whole")
        elif name != "ci95":
            targets[f"latency_ms.{name}"] = Target("metrics", ("latency_ms", name), "number", "time")
    for name, metric in METRICS.items():
        if name != "latency_ms":
            kind = "bytes" if metric.unit == "B" else "number"
            targets[name] = Target("metrics", (name,), kind, _DIMENSIONS.get(metric.unit))
    return targets


TARGETS: dict[str, Target] = _targets()
"""What a column can be, by the name that a mapping uses."""
_REQUIRED = {
    "model": "model: {column: …}",
    "hardware": "hardware: {value: NVIDIA L4}",
    "mode": "mode: {value: inference}",
    "platform": "platform: {value: cuda}",
}
_MEMBERS = ("column", "value", "unit", "rename", "missing", "zone")
_TOP = ("columns", "delimiter", "source", "licence")


def read_mapping(path: Path) -> TableMapping:
    """Return the mapping in a file; UsageError naming file, line, field and remedy."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path.name} cannot be read: {error}.", field="mapping", remedy="Check the path.") from error
    return parse_mapping(text, path.name)


def parse_mapping(text: str, name: str) -> TableMapping:
    """Return the mapping that a text is; `name` is what messages call it. UsageError as `read_mapping`."""
    tree, value = _loaded(text, name)
    members = _members(tree)
    for key, node in members:
        if key.value not in _TOP:
            raise _wrong(name, key, str(key.value), "no member of a mapping is called so.", _near(key.value, _TOP))
        if key.value != "columns" and not isinstance(value[key.value], str):
            raise _wrong(name, node, str(key.value), "is no text.", "Put it in quotes.")
    columns = next((node for key, node in members if key.value == "columns"), None)
    entries = _members(columns)
    if not entries:
        remedy = "Write `columns:` and under it what each one is, such as `model: {column: net}`."
        raise _wrong(name, columns or tree, "columns", "names no columns.", remedy)
    sources = tuple(_source(name, key, node, value["columns"][key.value]) for key, node in entries)
    _require(name, columns, sources)
    delimiter = value.get("delimiter")
    if delimiter is not None and len(delimiter) != 1:
        raise _wrong(name, tree, "delimiter", "is not one character.", 'Write "\\t" for a tab.')
    return TableMapping(name, sources, delimiter, value.get("source"), value.get("licence"), text)


def _loaded(text: str, name: str) -> tuple[Any, dict[str, Any]]:
    """Return the tree with its lines, and the value; members once, no aliases, an object at the top."""
    if len(text) > _LIMIT_CHARACTERS:
        raise UsageError(f"{name} is over {_LIMIT_CHARACTERS:,} characters.", field="mapping", remedy="Shorten it.")
    try:
        # An alias of an alias of an alias … is a bomb, and no mapping needs one.
        alias = next((token for token in yaml.scan(text) if isinstance(token, yaml.AliasToken)), None)
        if alias is not None:
            raise _wrong(name, alias, "mapping", "aliases are not taken.", "Write the value out.")
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        rest = [tree]
        for node in rest:
            seen: set[str] = set()
            for key, inner in _members(node):
                if not isinstance(key.value, str) or key.value in seen:
                    raise _wrong(name, key, str(key.value)[:80], "named twice, or no name.", "Keep one of them.")
                seen.add(key.value)
                rest.append(inner)
        value = yaml.load(text, Loader=_AsWritten)  # a safe loader
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        remedy = "Check indentation, brackets and quotes."
        raise UsageError(f"{name}, line {line}: not YAML: {error.problem}.", field="mapping", remedy=remedy) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not YAML: {error}.", field="mapping", remedy="Check the file.") from error
    if not isinstance(value, dict):
        raise UsageError(f"{name}, line 1: is no object.", field="mapping", remedy="Begin with `columns:`.")
    return tree, value


class _AsWritten(yaml.SafeLoader):  # type: ignore[misc]
    """Keeps names as they are written: a column called `on`, `2` or `2024-01-01` is one, and no truth, number or date."""

    def construct_mapping(self, node: Any, deep: bool = True) -> dict[Any, Any]:
        return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}

    def construct_yaml_map(self, node: Any) -> Any:
        yield self.construct_mapping(node)


_AsWritten.add_constructor("tag:yaml.org,2002:map", _AsWritten.construct_yaml_map)
_AsWritten.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: loader.construct_yaml_str(node))


def _source(name: str, key: Any, node: Any, said: Any) -> Source:
    """Return where one target's value comes from."""
    written = str(key.value)
    target = next((written.removeprefix(long) for long in _LONG if written.startswith(long)), written)
    place = target_of(target)
    if place is None:
        remedy = "Say which: latency_ms.mean, latency_ms.p50 …" if target == "latency_ms" else _near(target, TARGETS)
        raise _wrong(name, key, written, "is nothing that an event has.", remedy)
    if not isinstance(said, dict):
        raise _wrong(name, node, written, "is no object.", f"Write {{column: {said}}} or {{value: {said}}}.")
    inner = {member.value: (member, value) for member, value in _members(node)}
    for member, (where, _) in inner.items():
        if member not in _MEMBERS:
            raise _wrong(name, where, written, f"{member!r} is no member.", _near(member, _MEMBERS))
    column, value, rename = _texts(inner, "column"), said.get("value"), said.get("rename") or {}
    if ("column" in said) == ("value" in said) or (not column and value is None):
        raise _wrong(name, node, written, "needs a column or a value, and not both.", "Name one of them.")
    if value == "?":
        raise _wrong(name, node, written, "is still the draft's question mark.", "Say what it is.")
    if isinstance(value, dict | list) or len(column) > 1 or not isinstance(rename, dict):
        raise _wrong(name, node, written, "is no single value.", "Write text, a number, or true and false.")
    unit, zone = next(iter(_texts(inner, "unit")), None), next(iter(_texts(inner, "zone")), None)
    return Source(
        target=target,
        line=key.start_mark.line + 1,
        column=next(iter(column), None),
        value=value,
        unit=unit,
        factor=_factor(name, node, written, place, unit),
        rename=rename,
        missing=frozenset(_texts(inner, "missing")),
        zone=_zone(name, node, written, place, zone),
    )


def _texts(inner: Mapping[str, tuple[Any, Any]], member: str) -> list[str]:
    """Return a member's text as it is written, or those of its list: a column called `on` is no truth."""
    node = inner[member][1] if member in inner else None
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    return [each.value for each in nodes if isinstance(each, yaml.ScalarNode) and each.value]


def target_of(name: str) -> Target | None:
    """Return where a target goes, or None where there is none of that name."""
    first, _, rest = name.partition(".")
    if first in OPEN and rest:
        return Target(
            "execution" if first == "options" else "environment", (first, rest), "any" if first == "options" else "text"
        )
    return TARGETS.get(name)


def _factor(name: str, node: Any, field: str, place: Target, unit: str | None) -> float:
    if unit is None:
        return 1.0
    units = UNITS.get(place.dimension or "", {})
    factor = units.get(unit)
    if factor is None:
        remedy = f"It takes {', '.join(units)}." if units else "It has no unit: leave that out."
        raise _wrong(name, node, field, f"{unit!r} is no unit of it.", remedy)
    return factor


def _zone(name: str, node: Any, field: str, place: Target, said: str | None) -> timezone | None:
    if said is None:
        return None
    remedy = 'Write "UTC" or an offset such as "+01:00".'
    sign, offset = said[:1], said[1:]
    hours, _, minutes = offset.partition(":")
    if place.kind != "moment":
        raise _wrong(name, node, field, "only a time has a zone.", "Leave it out.")
    if said in ("UTC", "Z"):
        return UTC
    if sign not in ("+", "-") or not _OFFSET.fullmatch(offset) or int(hours) > 14:
        raise _wrong(name, node, field, f"{said!r} is no offset.", remedy)
    shift = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return timezone(-shift if sign == "-" else shift)


def _require(name: str, columns: Any, sources: tuple[Source, ...]) -> None:
    """Refuse a mapping without what every row needs, and one that names a target in its short and its long form."""
    targets = [source.target for source in sources]
    for target in targets:
        if targets.count(target) > 1:
            raise _wrong(name, columns, target, "is named twice.", "Keep one of them.")
    for target, example in _REQUIRED.items():
        if target not in targets:
            raise _wrong(name, columns, target, "nothing says it.", f"Add `{example}`.")
    figures = [target for target in targets if (place := target_of(target)) is not None and place.section == "metrics"]
    if not figures and "outcome" not in targets:
        raise _wrong(
            name, columns, "columns", "no figure is named.", "Add one, such as `latency_ms.mean: {column: …}`."
        )


def _members(node: Any) -> list[Any]:
    return list(node.value) if isinstance(node, yaml.MappingNode) else []


def _near(said: object, existing: Any) -> str:
    near = difflib.get_close_matches(str(said), list(existing), n=1)
    return f"Did you mean {near[0]}?" if near else "The documentation of mappings has the names."


def _wrong(name: str, node: Any, field: str, detail: str, remedy: str) -> UsageError:
    line = node.start_mark.line + 1 if node is not None else 1
    return UsageError(f"{name}, line {line}: {detail}", field=field, remedy=remedy)
