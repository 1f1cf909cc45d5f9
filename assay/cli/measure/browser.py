"""`assay browser`: the verbs of real browsers."""

from __future__ import annotations

import rich_click as click

from assay.cli.measure.browser_example import example
from assay.cli.measure.browser_links import accept, devices, link, links, revoke
from assay.cli.measure.browser_setup import check, install

__all__ = ["browser"]


@click.group()
def browser() -> None:
    """Run models in real browsers: set them up here, or let any phone or laptop measure by a link."""


browser.add_command(install)
browser.add_command(check)
browser.add_command(example)
browser.add_command(link)
browser.add_command(links)
browser.add_command(revoke)
browser.add_command(devices)
browser.add_command(accept)
