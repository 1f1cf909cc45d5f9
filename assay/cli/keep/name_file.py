"""The file of names that resolve to nothing: an import writes it, a person fills it in, `alias --file` declares them.

YAML: under `model:` and `hardware:` a line for each name, behind whose colon its canonical id is to be written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assay.staging import Staged
from domain.errors import UsageError

if TYPE_CHECKING:
    from ingest.importers.unknown_names import Unresolved

__all__ = ["read_names", "write_names"]

KINDS = ("model", "hardware")


def write_names(path: Path, names: Sequence[Unresolved], *, force: bool = False) -> None:
    """Write the names with nothing behind them, each with its rows and its nearest ids as a comment."""
    lines = ["# Write the canonical id behind a name, or nothing where it is one of its own. Then:"]
    lines += [f"#   assay {kind} alias --file {path.name}" for kind in KINDS]
    for kind in KINDS:
        matching_names = [name for name in names if name.kind == kind]
        lines += [f"{kind}:"] if matching_names else []
        for item in matching_names:
            near = f"; nearest: {', '.join(item.nearest)}" if item.nearest else ""
            lines.append(f"  {json.dumps(item.name)}:  # {item.rows} {'row' if item.rows == 1 else 'rows'}{near}")
    with Staged(force=force) as staged:
        staged.file(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_names(path: Path, kind: str) -> dict[str, str]:
    """Return alias → canonical id of a kind; names with nothing behind them are left out.

    UsageError, naming the line or the name, where the file is not of that shape.
    """
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path.name} cannot be read: {error}", field="file", remedy=_SHAPE) from error
    said = (document or {}).get(kind) if isinstance(document or {}, dict) else None
    if not isinstance(said, dict):
        raise UsageError(f"{path.name} has nothing under `{kind}:`.", field="file", remedy=_SHAPE)
    for alias, canonical in said.items():
        if not isinstance(alias, str) or not isinstance(canonical, str | None):
            raise UsageError(
                f"{alias!r}: {canonical!r} are not two names.", field="file", remedy="Put them into quotes."
            )
    return {alias: canonical.strip() for alias, canonical in said.items() if canonical and canonical.strip()}


_SHAPE = (
    'A line is `"name in the file": canonical-id`, under `model:` or `hardware:`; `assay import --names` writes it.'
)
