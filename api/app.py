"""The application: its routes, its parts for as long as it lives, and how it says no."""

from __future__ import annotations

import logging

from litestar import Litestar
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

from api import answers, comparisons, events, health, query, rows
from api.access import guard
from api.parts import opened
from api.problems import EXCEPTION_HANDLERS
from api.settings import Settings

__all__ = ["create_app", "end_streams"]

VERSION = "0.1.0"
QUESTION_LIMIT_BYTES = 256 * 1024
"""Of every body but that of `POST /v1/events`, which has limits of its own."""


def create_app(settings: Settings | None = None) -> Litestar:
    """Return the service set up by `settings`, or by the environment; its parts open when the server starts it."""
    chosen = settings or Settings.from_environment()
    tables = [rows.router, comparisons.router, query.router, answers.router] if chosen.projects else []
    logging.getLogger("litestar").setLevel(logging.WARNING)
    return Litestar(
        [events.router, health.router, *tables],
        lifespan=[lambda app: opened(app, chosen)],
        guards=[guard],
        exception_handlers=EXCEPTION_HANDLERS,
        request_max_body_size=QUESTION_LIMIT_BYTES,
        logging_config=None,
        openapi_config=OpenAPIConfig(
            title="Assay",
            version=VERSION,
            description="Which hardware should run this model? Measured where we measured, predicted where we did not.",
            path="/schema",
            render_plugins=[JsonRenderPlugin(path=["/", "/openapi.json"])],
            use_handler_docstrings=True,
        ),
    )


async def end_streams(app: Litestar) -> None:
    """End the answers that would go on for ever, so that a server which waits for open answers can stop."""
    parts = getattr(app.state, "parts", None)
    if parts is not None:
        await parts.positions.close()
