"""`assay browser`: the verbs of real browsers."""

from __future__ import annotations

import rich_click as click

from assay.cli.measure.browser_setup import check, install

__all__ = ["browser"]


@click.group()
def browser() -> None:
    """Run models in real browsers: install what pages need, and see what each browser can do."""


browser.add_command(install)
browser.add_command(check)
