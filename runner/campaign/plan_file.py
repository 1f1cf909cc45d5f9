"""Plans as YAML files: read, checked against the shape of a plan, and every mistake named with its line.

assay: 1
name: nightly
weights: random
sweeps:
  - models: [bert-base-uncased, gpt2]
    platforms: [cpu, openvino]
    precisions: [fp32, bf16]
    batch_sizes: [1, 8]
  - category: vision
    modes: [training]
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from domain.catalogues.models import in_category, models_set
from domain.errors import AssayError, UsageError
from runner.campaign.plan import Plan, Sweep, make_plan
from runner.measure.stopping import Method
from runner.protocol.nodes import DEFAULT_WAIT_S, read_nodes

__all__ = ["PlanFile", "chosen_models", "read_plan"]

_LIMIT_BYTES = 1_000_000
_STEP = re.compile(r"\.([A-Za-z_]+)|\[(\d+)\]")
_UNKNOWN = re.compile(r"unknown field `(.+?)`")


class Entry(Sweep, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sweep of a file: besides models by name it takes a set and a category of the catalogue."""

    models_set: Literal["small", "key", "all"] | None = None
    category: str | None = None


class PlanFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file. `budget_s` and `timeout_s` in s; `verify` and `benchmark` say what is done with the cases, in this order.

    `device` is one device of the platforms, as `assay detect` lists them.
    """

    assay: Literal[1]
    sweeps: tuple[Entry, ...]
    name: str | None = None
    device: str | None = None
    weights: Literal["auto", "pretrained", "random"] = "auto"
    budget_s: float = 5.0
    iterations: int | None = None
    percentile: str = "p50"
    limit: int | None = None
    timeout_s: float = 600.0
    memory_limit_bytes: int | None = None
    verify: bool = False
    benchmark: bool = True
    low_memory: bool = False
    trust_remote_code: bool = False
    allow_pickle: bool = False
    nodes: tuple[str, ...] = ()
    node_wait_s: float = DEFAULT_WAIT_S

    def plan(self, node_rank: int | None = None) -> Plan:
        """Return the plan of one of its nodes; raises as make_plan and read_nodes do."""
        return make_plan(
            *(_sweep(entry) for entry in self.sweeps),
            weights=self.weights,
            method=Method(budget_s=self.budget_s, iterations=self.iterations, percentile=self.percentile),
            device=self.device,
            limit=self.limit,
            timeout_s=self.timeout_s,
            memory_limit_bytes=self.memory_limit_bytes,
            low_memory=self.low_memory,
            trust_remote_code=self.trust_remote_code,
            allow_pickle=self.allow_pickle,
            nodes=read_nodes(self.nodes, node_rank, self.node_wait_s),
        )


def read_plan(path: Path) -> PlanFile:
    """Return the plan in a file, its names and sizes checked; UsageError naming file, line, field and remedy."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", field="plan", remedy="Check the path.") from error
    if len(text.encode()) > _LIMIT_BYTES:
        raise UsageError(f"{path} is over {_LIMIT_BYTES:,} bytes.", field="plan", remedy="Split the plan.")
    try:
        # An alias of an alias of an alias … is a bomb, and no plan needs one.
        aliased = next((token for token in yaml.scan(text) if isinstance(token, yaml.AliasToken)), None)
        if aliased is not None:
            raise _wrong(path, aliased.start_mark.line, "plan", "aliases are not taken.", "Write the value out.")
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        raise _wrong(path, line, "plan", f"not YAML: {error.problem}.", "Check indentation and brackets.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _wrong(path, 0, "plan", f"not YAML: {error}.", "Check the file.") from error
    _refuse_repeated(path, tree)
    try:
        plan = msgspec.convert(value, PlanFile)
    except msgspec.ValidationError as error:
        raise _misshapen(path, tree, str(error)) from error
    _check_sweeps(path, tree, plan)
    return plan


def chosen_models(named: Sequence[str], set_name: str | None, category: str | None) -> list[str]:
    """Return the models named, those of a set and those of a category, each once; UsageError for an empty category."""
    chosen = list(named)
    if set_name:
        chosen += [model.id for model in models_set(set_name)]
    if category:
        chosen += [model.id for model in in_category(category)]
    return list(dict.fromkeys(chosen))


def _sweep(entry: Entry) -> Sweep:
    fields = {name: getattr(entry, name) for name in Sweep.__struct_fields__}
    return Sweep(**{**fields, "models": tuple(chosen_models(entry.models, entry.models_set, entry.category))})


def _check_sweeps(path: Path, tree: Any, plan_file: PlanFile) -> None:
    """Plan each sweep alone, so that an error names its line."""
    for index, entry in enumerate(plan_file.sweeps):
        alone = msgspec.structs.replace(plan_file, sweeps=(entry,))
        try:
            alone.plan(0 if plan_file.nodes else None)
        except AssayError as error:
            node = _at(tree, [("sweeps", None), (None, index)])
            where = _key_line(node, error.field) if error.field else None
            error.detail = f"{path.name}, line {(node.start_mark.line if where is None else where) + 1}: {error.detail}"
            raise


def _misshapen(path: Path, tree: Any, message: str) -> UsageError:
    what, _, place = message.partition(" - at `$")
    steps = [(name or None, int(index) if index else None) for name, index in _STEP.findall(place.rstrip("`"))]
    node = _at(tree, steps)
    unknown = _UNKNOWN.search(what)
    field = ".".join(name for name, _ in steps if name) or "plan"
    line = node.start_mark.line if node is not None else 0
    if not unknown:
        return _wrong(path, line, field, f"{what}.", "The documentation of plans says what each member takes.")
    name = unknown[1]
    struct_fields__ = Entry.__struct_fields__ if steps else PlanFile.__struct_fields__
    near = difflib.get_close_matches(name, struct_fields__, n=1)
    remedy = f"Did you mean {near[0]}?" if near else f"Known members: {', '.join(struct_fields__)}."
    inner = _key_line(node, name)
    return _wrong(path, line if inner is None else inner, name, "no member of a plan is called so.", remedy)


def _wrong(path: Path, line: int, field: str, detail: str, remedy: str) -> UsageError:
    return UsageError(f"{path.name}, line {line + 1}: {detail}", field=field, remedy=remedy)


def _at(node: Any, steps: list[tuple[str | None, int | None]]) -> Any:
    """Return the node that a path leads to, or the last one on the way."""
    for name, index in steps:
        inner = None
        if index is not None and isinstance(getattr(node, "value", None), list) and index < len(node.value):
            inner = node.value[index]
        elif name is not None:
            inner = next((value for key, value in _members(node) if key.value == name), None)
        if inner is None or isinstance(inner, tuple):
            return node
        node = inner
    return node


def _members(node: Any) -> list[Any]:
    value = getattr(node, "value", None)
    return value if isinstance(value, list) and all(isinstance(item, tuple) for item in value) else []


def _key_line(node: Any, name: str) -> int | None:
    """Return the line of a member; errors name one value (`platform`) where a plan has the list (`platforms`)."""
    names = {name, f"{name}s", name.partition("[")[0]}
    return next((key.start_mark.line for key, _ in _members(node) if key.value in names), None)


def _refuse_repeated(path: Path, tree: Any) -> None:
    rest = [tree]
    for node in rest:
        seen: set[str] = set()
        members = _members(node)
        for key, value in members:
            if str(key.value) in seen:
                raise _wrong(path, key.start_mark.line, str(key.value), "named twice.", "Keep one of them.")
            seen.add(str(key.value))
            rest.append(value)
        if not members and isinstance(getattr(node, "value", None), list):
            rest.extend(node.value)
