"""The bare limit of the web stack: Litestar on granian, which returns the body that it got. Takes its port."""

from __future__ import annotations

import sys

from granian import Granian
from granian.constants import Interfaces
from litestar import Litestar, Request, Response, get, post


@post("/v1/events", status_code=200)
async def echo(request: Request[object, object, object]) -> Response[bytes]:
    """Return the body."""
    return Response(await request.body(), media_type="application/json")


@get("/health/live")
async def live() -> dict[str, bool]:
    """Say that it runs."""
    return {"live": True}


def create_app() -> Litestar:
    """Return the application."""
    return Litestar([echo, live], logging_config=None, openapi_config=None)


if __name__ == "__main__":
    Granian(
        "benchmarks.programs.bare_echo:create_app", factory=True, address="127.0.0.1", port=int(sys.argv[1]),
        interface=Interfaces.ASGI, workers=1, log_access=False, websockets=False,
    ).serve()  # fmt: skip
