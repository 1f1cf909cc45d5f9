"""`assay endpoint`: the group of commands about served models."""

from __future__ import annotations

import rich_click as click

from assay.cli.endpoints.checking import check

__all__ = ["endpoint"]


@click.group(
    epilog="""\b
Examples:
  assay endpoint check http://127.0.0.1:8080 --model vit"""
)
def endpoint() -> None:
    """Served models, and checks of what serves them."""


endpoint.add_command(check)
