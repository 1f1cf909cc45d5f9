"""Write docs/cookbook.md: each recipe with its answer as a service gives it.

`python -m assay.cookbook --server URL --out docs/cookbook.md` asks a service that holds what ships and the events of `data/`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from domain.cookbook import Recipe, recipes

__all__ = ["page", "words"]

_INTRODUCTION = """# Cookbook

Ten questions, each with the command that asks it, the answer, and how to read it. The answers are those of an installation
with the measurements that come with Assay and nothing else:

    assay up                        # or assay serve
    assay post data/*.ndjson.gz

Yours will differ as soon as you measure. The tests ask every one of them; `python -m assay.cookbook` writes this page again.
"""


def words(recipe: Recipe) -> list[str]:
    """Return the command without its first word."""
    return shlex.split(recipe.command)[1:]


def page(answered: Callable[[Recipe], str]) -> str:
    """Return the cookbook; `answered` gives what a recipe's command prints."""
    parts = [_INTRODUCTION]
    for number, recipe in enumerate(recipes(), 1):
        ended = f"\nExit code {recipe.exit}.\n" if recipe.exit else ""
        parts.append(
            f"## {number}. {recipe.title}\n\n{recipe.asked}\n\n```console\n$ {recipe.command}\n{answered(recipe).rstrip()}\n```\n"
            f"{ended}\n{recipe.reading}\n"
        )
    return "\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask a service, and write the page."""
    from assay.cli import run

    parser = argparse.ArgumentParser(prog="python -m assay.cookbook", description=__doc__)
    parser.add_argument("--server", required=True, help="address of a service that holds the events of data/")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    args = parser.parse_args(arguments)

    def answered(recipe: Recipe) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            ended = run([*words(recipe), "--server", args.server])
        if ended != recipe.exit:
            raise SystemExit(f"{recipe.name} ended with {ended}, not {recipe.exit}:\n{printed.getvalue()}")
        return "\n".join(line.rstrip() for line in printed.getvalue().splitlines())

    args.out.write_text(page(answered), encoding="utf-8")


if __name__ == "__main__":
    main()
