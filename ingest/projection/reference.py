"""What the views mean, column by column: the page docs/tables.md, comments in the file, and what the API and the command line tell.

Meanings are written in reference.toml; names and types are those of an empty projection.
`python -m ingest.projection` prints the page.
"""

from __future__ import annotations

import functools
import hashlib
import re
import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.resources import files
from typing import Any

import duckdb
import msgspec

from domain.errors import UnknownView
from ingest.projection.fold import create
from ingest.projection.statements import SCHEMA_VERSION

__all__ = ["Column", "View", "comment", "examples", "page", "undescribed", "view", "views"]

_MEANING = re.compile(r"(?:\[(?P<unit>[^\]]+)\] )?(?P<meaning>.+)", re.DOTALL)
_COLUMNS = """
SELECT table_name, list({'name': column_name, 'type': data_type} ORDER BY column_index)
FROM duckdb_columns() WHERE NOT internal AND schema_name = 'main' AND database_name = current_database() GROUP BY table_name
"""
_MARKED = "best"
"""The view that is not documented: its comment says which meanings stand in the file."""
_WIDE = "measurements"
_MANY = 20
"""So many columns that another view has of it are not described twice on the page."""
_HEAD = "| column | type | unit | meaning |\n| --- | --- | --- | --- |\n"


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column of a view: its DuckDB type, its unit (`1` counts and shares, None where there is none) and its meaning."""

    name: str
    type: str
    unit: str | None
    meaning: str


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One stable view: what each of its rows is, what it is about, and its columns in their order."""

    name: str
    rows: str
    about: str
    columns: tuple[Column, ...]


@functools.cache
def views() -> tuple[View, ...]:
    """Return the documented views in the order of the page. A column that nobody described is left out."""
    shapes = _shapes()
    return tuple(
        View(name=name, rows=view["rows"], about=view["about"], columns=tuple(_columns(name, shapes[name])))
        for name, view in _reference()["views"].items()
        if name in shapes
    )


def view(name: str) -> View:
    """Return one documented view; UnknownView, with the nearest names, for another."""
    existing = {view.name: view for view in views()}
    if name not in existing:
        raise UnknownView(
            name, get_close_matches(name, existing), field="view", remedy="`assay query --schema` lists them."
        )
    return existing[name]


def examples() -> tuple[tuple[str, str], ...]:
    """Return the title and the SELECT of each example of the page."""
    return tuple((example["title"], example["sql"].strip()) for example in _reference()["examples"])


def undescribed() -> list[str]:
    """Return what is wrong with the reference: what nobody described, and descriptions of what is not there."""
    reference, shapes = _reference(), _shapes()
    described, tables = reference["views"], reference["tables"]
    wrong = [f"{name} is not described" for name in shapes if name not in described and name not in tables]
    wrong += [f"{name} is described and is not there" for name in (*described, *tables) if name not in shapes]
    used: set[str] = set()
    for name, value in described.items():
        own, there = value.get("columns", {}), {column["name"] for column in shapes.get(name, ())}
        wrong += [
            f"{name}.{item} is not described" for item in there if item not in own and item not in reference["common"]
        ]
        wrong += [f"{name}.{item} is described and is not there" for item in own if item not in there]
        used |= there - set(own)
    wrong += [f"{item} is described for all views and is in none" for item in reference["common"] if item not in used]
    return sorted(wrong)


def comment(connection: duckdb.DuckDBPyConnection) -> bool:
    """Write the meanings into the file as comments of views, where others stand there; return whether it was necessary.

    They are no part of what the tables are made by: another wording makes nothing anew. Tables get none: a writer whose
    transaction is open could not commit any more.
    """
    statements = list(_statements())
    mark = f"{_reference()['tables'][_MARKED]} ({hashlib.sha256(repr(statements).encode()).hexdigest()[:12]})"
    rows = connection.execute("SELECT comment FROM duckdb_views() WHERE view_name = ?", [_MARKED]).fetchall()
    if rows == [(mark,)]:
        return False
    connection.begin()
    connection.execute(";\n".join([*statements, f"COMMENT ON VIEW {_MARKED} IS {_quoted(mark)}"]))
    connection.commit()
    return True


def page() -> str:
    """Return docs/tables.md."""
    reference = _reference()
    shapes = _shapes()
    parts = [
        "<!-- Made by `python -m ingest.projection > docs/tables.md` from ingest/projection/reference.toml. -->",
        f"# Tables and views\n\nSchema version {SCHEMA_VERSION}.\n\n{reference['introduction'].strip()}",
        f"## The star\n\n{reference['star'].strip()}",
        f"## As of a position\n\n{reference['past'].strip()}",
        "## Views\n\n| view | one row is |\n| --- | --- |\n"
        + "\n".join(f"| [{view.name}](#{view.name}) | {view.rows} |" for view in views()),
        *(_section(view) for view in views()),
        "## Examples\n\nA test runs each of them.",
        *(f"**{title}**\n\n```sql\n{sql}\n```" for title, sql in examples()),
        "## Versions\n\n| schema | what changed |\n| --- | --- |\n"
        + "\n".join(f"| {version['version']} | {version['about']} |" for version in reference["versions"]),
        f"## The file\n\n{reference['file'].strip()}",
        "## Tables behind the views\n\nThe `id` of a part, a subject, a context or a judgement is the position of the first "
        "event that said it: the same log\ngives the same ids, however it was cut into batches.\n\n"
        "| table | what | columns |\n| --- | --- | --- |\n"
        + "\n".join(f"| `{name}` | {about} | {_names(shapes[name])} |" for name, about in reference["tables"].items()),
    ]
    return "\n\n".join(parts) + "\n"


def _names(shape: list[dict[str, str]]) -> str:
    return ", ".join(f"`{column['name']}`" for column in shape)


def _section(item: View) -> str:
    parts = [f"### {item.name}", f"One row: {item.rows}. {item.about}"]
    shared = () if item.name == _WIDE else tuple(column for column in item.columns if column in view(_WIDE).columns)
    own = [column for column in item.columns if column not in shared or len(shared) < _MANY]
    if len(own) < len(item.columns):
        parts.append(f"As in [{_WIDE}](#{_WIDE}): {', '.join(f'`{column.name}`' for column in shared)}.")
    if own:
        rows = (f"| `{column.name}` | {column.type} | {column.unit or ''} | {column.meaning} |" for column in own)
        parts.append(_HEAD + "\n".join(rows))
    return "\n\n".join(parts)


def _columns(name: str, shape: list[dict[str, str]]) -> Iterator[Column]:
    meanings = _meanings(name)
    for column in shape:
        match = _MEANING.fullmatch(meanings.get(column["name"], ""))
        if match is not None:
            yield Column(name=column["name"], type=column["type"], unit=match["unit"], meaning=match["meaning"])


def _meanings(name: str) -> dict[str, str]:
    reference = _reference()
    return {**reference["common"], **reference["views"][name].get("columns", {})}


def _statements() -> Iterator[str]:
    for view in views():
        yield f"COMMENT ON VIEW {view.name} IS {_quoted(f'One row: {view.rows}. {view.about}')}"
        meanings = _meanings(view.name)
        for column in view.columns:
            yield f"COMMENT ON COLUMN {view.name}.{column.name} IS {_quoted(meanings[column.name])}"


@functools.cache
def _reference() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("reference.toml").read_text("utf-8"))


@functools.cache
def _shapes() -> dict[str, list[dict[str, str]]]:
    """Return name and type of each column, by table and view, of an empty projection."""
    with duckdb.connect(config={"threads": 1}) as connection:
        create(connection)
        return dict(sorted(connection.execute(_COLUMNS).fetchall()))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
