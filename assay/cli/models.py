"""`assay model`: what is known of models by name, and new names for them."""

from __future__ import annotations

from typing import Any

import rich_click as click

from assay import numbers
from assay.cli.aliasing import aliasing, declare
from assay.cli.options import as_json
from assay.cli.output import answers, grid, print_json
from domain.errors import UnknownModel

__all__ = ["model"]


@click.group(epilog="Examples: assay model list --category vision · assay model show bert-base-uncased")
def model() -> None:
    """Models by id: the catalogue, and aliases."""


@model.command("list")
@click.option("--category")
@as_json
def list_models(category: str | None, as_json: bool) -> int:
    """List the catalogue."""
    from domain.models import catalogue

    found = [entry for entry in catalogue() if category in (None, entry.category)]
    if as_json:
        print_json([_model_row(entry) for entry in found])
        return 0
    rows = [
        [
            entry.id,
            entry.key_class or "",
            entry.variant,
            entry.category,
            numbers.count(entry.parameters),
            ", ".join(entry.aliases[:2]),
        ]
        for entry in found
    ]
    answers().print(
        grid(
            f"{len(found)} models",
            ["model", "class", "variant", "category", ("parameters", "right"), "also called"],
            rows,
        )
    )
    return 0


@model.command("show")
@click.argument("name")
@as_json
def show_model(name: str, as_json: bool) -> int:
    """Show one, with where its parameter count comes from."""
    from domain.models import find, nearest

    entry = find(name)
    if entry is None:
        raise UnknownModel(name, nearest(name), remedy="A directory with a config.json works as well.")
    told = _model_row(entry)
    if as_json:
        print_json({**told, "config": entry.config})
    else:
        answers().print(grid(entry.id, ["", "value"], [[key, str(value)] for key, value in told.items() if value]))
    return 0


def _model_row(entry: Any) -> dict[str, Any]:
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(entry)
    row.pop("config", None)
    return row


@model.command(
    "alias",
    epilog="Examples: assay model alias my-bert google-bert/bert-base-uncased · assay model alias --file names.yaml",
)
@aliasing
def alias_model(**said: Any) -> int:
    """Declare that ALIAS means CANONICAL, from now on and backwards."""
    return declare("model", **said)
