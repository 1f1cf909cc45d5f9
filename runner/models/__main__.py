"""The table of models in docs/models.md: `python -m runner.models docs/models.md` writes it anew."""

from __future__ import annotations

import sys
from pathlib import Path

from domain.catalogues.models import CatalogueModel, catalogue

__all__ = ["main", "table", "with_table"]

BEGIN = "<!-- models: written by `python -m runner.models docs/models.md` -->"
END = "<!-- end of models -->"


def table() -> str:
    """Return the catalogue as a Markdown table, one published model a line."""
    small = {model.family: model.id for model in catalogue() if model.variant == "small"}
    lines = ["| model | family | class | parameters | small variant |", "| --- | --- | --- | --- | --- |"]
    for model in catalogue():
        if model.variant == "small" and model.id.startswith("assay/"):
            continue
        cells = (f"`{model.id}`", model.family, f"`{model.class_name}`", _count(model), f"`{small[model.family]}`")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _count(model: CatalogueModel) -> str:
    if model.parameters is not None:
        return f"{model.parameters:,}"
    return f"about {model.parameters_about:,}" if model.parameters_about else "none for this class"


def with_table(text: str) -> str:
    """Return the page with the table between its two marks written anew."""
    before, _, rest = text.partition(BEGIN)
    _, result, after = rest.partition(END)
    if not result:
        raise ValueError(f"the page lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main(path: Path) -> None:
    """Write the table into the page at `path`."""
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
