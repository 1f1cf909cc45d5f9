"""Build hook of hatchling: move the top-level packages below `assay` in a wheel, and rewrite what imports them.

A clone keeps `api`, `domain`, `runner` and the others at the top. Installed, those names belong to nobody: a wheel owns the
single name `assay`. `[tool.hatch.build.targets.wheel.sources]` in pyproject.toml says what moves where; the hook writes each
module again with absolute imports that name the new places. See docs/adr/0014-one-top-level-name.md.

    python build_wheel.py FROM TO      # a copy of a folder of Python files, rewritten likewise: make wheel-test
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

__all__ = ["OWNER", "WheelHook", "moved_packages", "rewrite"]

OWNER = "assay"
_FROM = re.compile(rb"from\s+")


class WheelHook(BuildHookInterface[Any]):
    """Give hatchling the rewritten modules in place of those of the clone."""

    _folder: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the modules that change to a temporary folder; an editable install keeps the layout of the clone."""
        if version == "editable":
            return
        packages = moved_packages(self.build_config.target_config["sources"])
        changed: dict[str, bytes] = {}
        for file in self.build_config.builder.recurse_selected_project_files():
            if file.path.endswith(".py"):
                source = Path(file.path).read_bytes()
                try:
                    module = rewrite(source, packages)
                except (SyntaxError, ValueError) as error:
                    raise ValueError(f"{file.relative_path}: {error}") from error
                if module != source:
                    changed[file.distribution_path] = module
        self._folder = Path(tempfile.mkdtemp(prefix="assay-wheel-"))
        for path, module in changed.items():
            target = self._folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(module)
            build_data["force_include"][str(target)] = path

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's names
        """Remove the temporary folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder)


def moved_packages(sources: dict[str, str]) -> frozenset[str]:
    """Return the top-level packages that go below `assay` under their own names."""
    return frozenset(source for source, target in sources.items() if target == f"{OWNER}/{source}")


class _Edit(NamedTuple):
    line: int
    column: int
    """In bytes, as `ast` counts."""
    before: bytes
    after: bytes


def rewrite(source: bytes, packages: frozenset[str]) -> bytes:
    """Return a module in which absolute imports of `packages` name them below `assay`; all else stays, line by line.

    Raises ValueError for `import api.app` without `as`, which binds a name that only the clone has.
    """
    lines = source.splitlines(keepends=True)
    edits = sorted(_edits(ast.parse(source), lines, packages), reverse=True)
    for edit in edits:
        line = lines[edit.line]
        end = edit.column + len(edit.before)
        if line[edit.column : end] != edit.before:
            raise ValueError(f"line {edit.line + 1}: write the import on one line")
        lines[edit.line] = line[: edit.column] + edit.after + line[end:]
    return b"".join(lines)


def _edits(tree: ast.Module, lines: list[bytes], packages: frozenset[str]) -> Iterator[_Edit]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _top(node.module) in packages:
            start = _FROM.match(lines[node.lineno - 1], node.col_offset)
            column = start.end() if start else node.col_offset
            yield _edit(node.lineno, column, str(node.module))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _top(alias.name) not in packages:
                    continue
                if alias.asname is None and "." in alias.name:
                    parent, _, name = alias.name.rpartition(".")
                    raise ValueError(f"line {alias.lineno}: write `from {parent} import {name}`")
                bound = "" if alias.asname else f" as {alias.name}"
                yield _edit(alias.lineno, alias.col_offset, alias.name, bound)


def _edit(line: int, column: int, name: str, bound: str = "") -> _Edit:
    return _Edit(line - 1, column, name.encode(), f"{OWNER}.{name}{bound}".encode())


def _top(name: str | None) -> str:
    return (name or "").partition(".")[0]


def main(origin: str, target: str) -> None:
    """Copy a folder, and rewrite its Python files for the packages that the wheel moves."""
    project = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text(encoding="utf-8"))
    packages = moved_packages(project["tool"]["hatch"]["build"]["targets"]["wheel"]["sources"])
    shutil.copytree(origin, target, ignore=shutil.ignore_patterns("__pycache__"))
    for path in Path(target).rglob("*.py"):
        try:
            path.write_bytes(rewrite(path.read_bytes(), packages))
        except ValueError as error:
            raise SystemExit(f"{path}: {error}") from error


if __name__ == "__main__":
    main(*sys.argv[1:])
