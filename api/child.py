"""Work in a child process: what takes long or is written by a stranger never runs in the service's own.

`python -m api.child` reads one JSON object from stdin and writes one JSON object to stdout; its name of work picks the
function. Result bytes (an artifact, Arrow rows) are base64 in it. Errors come back as their problem.
"""

from __future__ import annotations

import asyncio
import base64
import os
import resource
import sys
from pathlib import Path
from typing import Any

import msgspec

from domain.errors import AssayError, ServiceUnavailable, UsageError

__all__ = ["main", "run"]

_SPARED = ("PATH", "LANG", "LC_ALL", "TZ", "HOME", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
Json = dict[str, Any]


async def run(work: str, asked: Json, *, timeout_s: float, secrets: bool = False) -> Json:
    """Do `work` in a child and return its result; raise the error that it names, UsageError where it takes too long.

    The child sees no environment but the paths, and the database's address only with `secrets`.
    """
    kept = (*_SPARED, "ASSAY_HOME") if secrets else _SPARED
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "api.child", work,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        cwd=str(Path(__file__).resolve().parent.parent),
        env={name: value for name in kept if (value := os.environ.get(name)) is not None},
    )  # fmt: skip
    try:
        async with asyncio.timeout(timeout_s):
            answer, said = await child.communicate(msgspec.json.encode(asked))
    except TimeoutError as error:
        raise UsageError(
            f"it took more than {timeout_s:g} s.", field=work, remedy="Ask for less, or raise the limit."
        ) from error
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode != 0:
        last = said.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise ServiceUnavailable(
            f"the process that does it ended with {child.returncode}: {last[0][:300]}.",
            field=work,
            remedy="Ask for less; a status of -9 means that it ran out of memory.",
        )
    result: Json = msgspec.json.decode(answer)
    if "problem" in result:
        raise _error(result["problem"])
    return result


def _error(told: Json) -> AssayError:
    shape = next((kind for kind in _kinds(AssayError) if kind.__name__ == told["name"]), AssayError)
    error = shape.__new__(shape)
    AssayError.__init__(error, told["detail"], field=told["field"], remedy=told["remedy"])
    return error


def _kinds(root: type[AssayError]) -> list[type[AssayError]]:
    return [root, *(kind for child in root.__subclasses__() for kind in _kinds(child))]


def main() -> None:
    """Do the work that is named on the command line."""
    asked: Json = msgspec.json.decode(sys.stdin.buffer.read())
    work = {"query": _query, "train": _train, "evaluate": _evaluate}[sys.argv[1]]
    try:
        result = work(asked)
    except AssayError as error:
        result = {
            "problem": {
                "name": type(error).__name__, "detail": error.detail, "field": error.field, "remedy": error.remedy,
            }
        }  # fmt: skip
    sys.stdout.buffer.write(msgspec.json.encode(result))


def _query(asked: Json) -> Json:
    from api.select import select

    # DuckDB keeps to its own memory limit; this one is for what it does not count.
    address_space = 8 * 2**30
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    resource.setrlimit(resource.RLIMIT_CPU, (int(asked["timeout_s"]) + 5, int(asked["timeout_s"]) + 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    columns, rows, truncated = select(Path(asked["path"]), asked["sql"], asked["limit"])
    return {"columns": columns, "rows": base64.b64encode(rows).decode(), "truncated": truncated}


def _train(asked: Json) -> Json:
    trained = _answerer(asked).train()
    return {"content": base64.b64encode(trained.content).decode(), "event_data": trained.event_data}


def _evaluate(asked: Json) -> Json:
    scores: Json = _answerer(asked).evaluate(asked["split"], asked["target"], asked["shots"], asked["as_of"])
    return scores


def _answerer(asked: Json) -> Any:
    import duckdb

    from ingest.artifacts import ArtifactStore
    from predictor.service import Answerer

    connection = duckdb.connect(asked["path"], read_only=True)
    connection.execute("SET TimeZone = 'UTC'")
    store = ArtifactStore(asked["database_url"])
    return Answerer(connection.cursor, lambda digest: store.get(digest).content)


if __name__ == "__main__":
    main()
