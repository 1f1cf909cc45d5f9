"""Which state of the log is asked for: a position, or the name that a position was given."""

from __future__ import annotations

import asyncio
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import msgspec
from litestar.params import QueryParameter

from domain.errors import UnknownSnapshot, UsageError

if TYPE_CHECKING:
    from api.container import Container

__all__ = ["AsOf", "Asked", "named", "placed", "resolved"]

_LONGEST = 100
AsOf = Annotated[
    str | None,
    QueryParameter(max_length=_LONGEST, description="Answer as of this position of the log, or of this snapshot."),
]
"""In a query string."""
Asked = Annotated[int, msgspec.Meta(ge=0)] | Annotated[str, msgspec.Meta(max_length=_LONGEST)] | None
"""In a body."""


class _Question(Protocol):
    """A question of a state of the log, a struct."""

    @property
    def as_of(self) -> int | str | None: ...


Placed = TypeVar("Placed", bound=_Question)
_POSITION = re.compile(r"[0-9]{1,18}", re.ASCII)


async def resolved(
    container: Container, as_of: int | str | None, min_position: int | None = None, *, field: str = "as_of"
) -> int | None:
    """Return the position that is asked for, None for the newest; UnknownSnapshot for a name that no position has.

    Names are those of the newest state, or of one that holds at least `min_position`.
    """
    if as_of is None or isinstance(as_of, int):
        return as_of
    if _POSITION.fullmatch(as_of):
        return int(as_of)
    if not as_of[:1].isalpha():
        raise UsageError(
            f"{as_of!r} is neither a position nor the name of one.",
            field=field,
            remedy="Give a position of 0 or more, or a name from `assay snapshot list`.",
        )
    await container.reach(min_position)
    result = await asyncio.to_thread(named, container, as_of, field)
    return int(result["named_position"])


async def placed(container: Container, question: Placed) -> Placed:
    """Return the question with a position in the place of a snapshot's name, once the tables have reached it."""
    position = await resolved(container, question.as_of)
    await container.reach(position, "as_of")
    return msgspec.structs.replace(question, as_of=position)  # type: ignore[type-var]


def named(container: Container, name: str, field: str = "as_of") -> dict[str, Any]:
    """Return the row of a named position; UnknownSnapshot, with the nearest names, where there is none."""
    with container.tables(None) as tables:
        rows = tables.snapshots(name=name).to_pylist()
        if rows:
            row: dict[str, Any] = rows[0]
            return row
        existing = tables.snapshots(columns=["name"]).column("name").to_pylist()
    raise UnknownSnapshot(name, get_close_matches(name, existing), field=field, remedy="GET /v1/snapshots lists them.")
