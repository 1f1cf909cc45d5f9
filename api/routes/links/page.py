"""The page of a link and the files that it fetches, with the headers that a page needs for threads."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import anyio
from litestar import Request, Response, Router, get
from litestar.params import PathParameter
from litestar.response import File, Stream

import domain
from api.container import Container
from api.http.access import OPEN
from api.routes.links.routes import files_of
from domain.catalogues import hardware
from domain.errors import NotFound

__all__ = ["router"]

ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
POLICY = (
    "default-src 'none'; script-src 'self' blob: 'wasm-unsafe-eval'; worker-src 'self' blob:; style-src 'self'; "
    "connect-src 'self' blob:; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TYPES = {"html": "text/html", "mjs": "text/javascript", "css": "text/css", "wasm": "application/wasm"}
_REST = re.compile(r"bytes=([0-9]{1,12})-")
_PIECE_BYTES = 1024**2
_OPEN = {"scope": OPEN}
_FOLDER = files(domain) / "data" / "browser"
PAGE = "link.html"
_SERVED = frozenset({PAGE, "link.mjs", "link.css", "link-store.mjs", "offline.mjs", "page.mjs", "worker.mjs"})


@get("/browser/", opt=_OPEN, include_in_schema=False)
async def page() -> Response[bytes]:
    """Return the page of a link; the token stands behind the # of its address and is not sent with this request."""
    return _static(PAGE)


@get("/browser/{name:str}", opt=_OPEN, include_in_schema=False)
async def part(name: Annotated[str, PathParameter(max_length=100)]) -> Response[bytes]:
    """Return a script or a style of the page."""
    if name not in _SERVED:
        raise NotFound(f"the page has no {name!r}.", field="name", remedy="Open the whole address of a link.")
    return _static(name)


@get("/browser/files/{digest:str}", opt=_OPEN, include_in_schema=False)
async def file(
    request: Request[Any, Any, Any], digest: Annotated[str, PathParameter(pattern=r"^[0-9a-f]{64}(\.mjs|\.wasm)?$")]
) -> File | Stream | Response[None]:
    """Return a file of the runtime or a model by its digest, from `Range: bytes=N-` on where that is sent.

    What a digest names never changes.
    """
    container: Container = request.app.state.parts
    name, _, suffix = digest.partition(".")
    path = files_of(container).path(name)
    if not path.exists():
        raise NotFound(f"no file {name}.", field="digest", remedy="Open the link again.")
    headers = {**ISOLATED, "Cache-Control": "public, max-age=31536000, immutable"}
    if match := _REST.fullmatch(request.headers.get("range", "")):
        return _rest(path, int(match[1]), headers)
    return File(
        path=path,
        media_type=_TYPES.get(suffix, "application/octet-stream"),
        headers=headers,
        content_disposition_type="inline",
    )


@get("/browser/hardware.json", opt=_OPEN, include_in_schema=False)
async def choices() -> Response[list[dict[str, str]]]:
    """Return the devices of the catalogue, for the person at the page to pick theirs from."""
    rows = [{"id": spec.id, "name": spec.name} for spec in hardware.catalogue().values()]
    return Response(rows, headers={**ISOLATED, "Cache-Control": "public, max-age=3600"})


def _rest(path: Path, start: int, headers: dict[str, str]) -> Stream | Response[None]:
    """Return the file from a byte on: a page that was closed in the middle goes on there."""
    size = path.stat().st_size
    if start >= size:
        return Response(None, status_code=416, headers={**headers, "Content-Range": f"bytes */{size}"})

    async def pieces() -> AsyncIterator[bytes]:
        async with await anyio.open_file(path, "rb") as handle:
            await handle.seek(start)
            while piece := await handle.read(_PIECE_BYTES):
                yield piece

    more = {"Content-Range": f"bytes {start}-{size - 1}/{size}", "Content-Length": str(size - start)}
    return Stream(pieces, status_code=206, media_type="application/octet-stream", headers={**headers, **more})


def _static(name: str) -> Response[bytes]:
    content = (_FOLDER / name).read_bytes()
    headers = {**ISOLATED, "Cache-Control": "no-cache"}
    if name == PAGE:
        headers["Content-Security-Policy"] = POLICY
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)


router = Router("/", route_handlers=[page, part, file, choices], tags=["links"])
