"""A query as the address tells it, the examples to start from, where an error is, and what may be drawn of a result."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from dashboard.address import SCALES, Params, Read, one_of, position, text, understood

__all__ = [
    "EXAMPLES",
    "KINDS",
    "Drawing",
    "Example",
    "Query",
    "addressed",
    "drawing",
    "is_number",
    "line_of",
    "packed",
    "read_query",
    "unpacked",
]

LONGEST = 2000
"""Characters of SQL that stand in an address as they are; longer texts are packed."""
LONGEST_PACKED = 4000
"""Characters that a packed text may have: addresses beyond 8 kB are cut by some servers."""
LONGEST_SQL = 20_000
KINDS = ("bar", "line", "point")
_NUMBERS = re.compile(r"(?:U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|FLOAT|DOUBLE|DECIMAL.*)")
_TIMES = re.compile(r"(?:DATE|TIMESTAMP.*)")
_LINE = re.compile(r"LINE (\d+):")
_NAMED = re.compile(r"(?:name|column|function) \"?(\w+)\"?", re.IGNORECASE)


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What the page asks: one SELECT as text (`q`) or packed (`saved`), and how its result is drawn; empty is our choice."""

    q: str = ""
    saved: str = ""
    kind: str = ""
    x: str = ""
    y: str = ""
    colour: str = ""
    scale: str = "auto"
    as_of: int | None = None


class Example(NamedTuple):
    """A question to start from."""

    title: str
    sql: str


class Drawing(NamedTuple):
    """What is drawn: the names of columns, `colour` None for one colour."""

    kind: str
    x: str
    y: str
    colour: str | None


EXAMPLES = (
    Example(
        "Where most was measured",
        "SELECT hardware_id, platform, origin, count(*) AS measurements\nFROM measurements\n"
        "GROUP BY ALL ORDER BY measurements DESC LIMIT 30",
    ),
    Example(
        "Fastest rows of a model",
        "SELECT hardware_id, platform, precision, batch_size, origin, throughput_per_s\nFROM best_measurements\n"
        "WHERE model_id ILIKE '%resnet50%' AND mode = 'inference' AND throughput_per_s IS NOT NULL\n"
        "ORDER BY throughput_per_s DESC LIMIT 20",
    ),
    Example(
        "Throughput against batch",
        "WITH most AS (\n  SELECT model_id, hardware_id FROM best_measurements WHERE throughput_per_s IS NOT NULL\n"
        "  GROUP BY ALL ORDER BY count(DISTINCT batch_size) DESC LIMIT 1\n)\n"
        "SELECT batch_size, platform, precision, mode, image_size, origin, model_id, hardware_id, throughput_per_s\n"
        "FROM best_measurements JOIN most USING (model_id, hardware_id)\n"
        "WHERE throughput_per_s IS NOT NULL AND batch_size IS NOT NULL\nORDER BY batch_size",
    ),
    Example(
        "Why it did not run",
        "SELECT error, outcome, stage, platform, any_value(message) AS example, count(*) AS failures\nFROM failures\n"
        "GROUP BY error, outcome, stage, platform ORDER BY failures DESC LIMIT 30",
    ),
    Example(
        "Verdicts by origin",
        "SELECT coalesce(verdict, 'not judged') AS judged, origin, count(*) AS measurements\nFROM measurements\n"
        "GROUP BY ALL ORDER BY measurements DESC",
    ),
    Example(
        "Asked for and not done",
        "SELECT model_id, hardware_id, platform_asked, platform, precision_asked, precision, fallback_share\n"
        "FROM measurements\nWHERE platform_asked <> platform OR precision_asked <> precision\nLIMIT 100",
    ),
    Example(
        "Measurements a day",
        "SELECT recorded_at::DATE AS day, origin, count(*) AS measurements\nFROM measurements\nGROUP BY ALL ORDER BY day",
    ),
    Example(
        "Models nobody measured",
        "SELECT model_id, family, category, parameters\nFROM models\nWHERE measurements = 0\nORDER BY family, model_id LIMIT 200",
    ),
)


def read_query(params: Params) -> Read:
    """Read the page's parameters; a packed text that is damaged is named."""
    readers = {
        "q": _sql,
        "saved": _saved,
        "kind": one_of(KINDS),
        "x": text,
        "y": text,
        "colour": text,
        "scale": one_of(SCALES),
        "as_of": position,
    }
    return understood(Query, params, readers)


def addressed(sql: str, query: Query) -> Query:
    """Return the view of a text: as it is, packed where it is long; neither where no address holds it."""
    if len(sql) <= LONGEST:
        return msgspec.structs.replace(query, q=sql, saved="")
    saved = packed(sql)
    return msgspec.structs.replace(query, q="", saved=saved if len(saved) <= LONGEST_PACKED else "")


def packed(sql: str) -> str:
    """Return a text so that an address holds more of it."""
    return base64.urlsafe_b64encode(zlib.compress(sql.encode(), 9)).decode().rstrip("=")


def unpacked(saved: str) -> str:
    """Return the text of an address. Raises ValueError for what is damaged or longer than a query may be."""
    try:
        raw = base64.b64decode(saved + "=" * (-len(saved) % 4), altchars=b"-_", validate=True)
        opened = zlib.decompressobj()
        text = opened.decompress(raw, 4 * LONGEST_SQL).decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as problem:
        raise ValueError("is damaged; copy the link again") from problem
    if opened.unconsumed_tail or not opened.eof or len(text) > LONGEST_SQL:
        raise ValueError("is damaged; copy the link again")
    return text


def line_of(detail: str, sql: str) -> tuple[int, str] | None:
    """Return the number and the text of the line that an error is about: as DuckDB says, or where the name that it tells is."""
    lines = sql.split("\n")
    said = _LINE.search(detail)
    if said and int(said[1]) <= len(lines):
        return int(said[1]), lines[int(said[1]) - 1]
    named = _NAMED.search(detail)
    if named:
        for number, line in enumerate(lines, 1):
            if re.search(rf"\b{re.escape(named[1])}\b", line, re.IGNORECASE):
                return number, line
    return None


def is_number(kind: str) -> bool:
    """Whether values of a DuckDB type are numbers."""
    return _NUMBERS.fullmatch(kind) is not None


def drawing(columns: Sequence[Mapping[str, str]], query: Query) -> Drawing | None:
    """Return what is drawn of a result: what was asked for, else its last number over its first other column.

    None where no column is a number or there is but one. A platform gives the colour where nothing else was asked for.
    """
    kinds = {column["name"]: column["type"] for column in columns}
    heights = [name for name, kind in kinds.items() if is_number(kind) and name != query.x]
    if not heights or len(kinds) < 2:
        return None
    y = query.y if query.y in heights else heights[-1]
    others = [name for name in kinds if name != y]
    x = query.x if query.x in others else others[0]
    kind = query.kind or ("line" if _TIMES.fullmatch(kinds[x]) else "point" if is_number(kinds[x]) else "bar")
    colour = query.colour if query.colour in kinds else "platform" if "platform" in others and x != "platform" else None
    return Drawing(kind, x, y, colour)


def _sql(values: Sequence[str]) -> str:
    value = values[-1]
    if len(value) > LONGEST_SQL:
        raise ValueError(f"has more than the {LONGEST_SQL:,} characters of a query")
    return value


def _saved(values: Sequence[str]) -> str:
    unpacked(values[-1])
    return values[-1]
