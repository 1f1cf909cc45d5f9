"""Work in a child process: what takes long or is written by a stranger never runs in the service's own.

`python -m api.background.child` reads one JSON object from stdin; its name of work picks the function. It writes one line of JSON to
stdout, and after it the bytes that the work made: an artifact, an answer as it is sent. Errors come back as their problem.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from asyncio.subprocess import Process
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import msgspec

from domain.errors import AssayError, MalformedBody, ServiceUnavailable, UsageError, error_document, error_of

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from litestar.types import Receive

    from predictor.learning.machines import Machines

__all__ = ["ChildAnswer", "main", "run", "unless_left"]

_SPARED = ("PATH", "LANG", "LC_ALL", "TZ", "HOME", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
_MORE_BYTES = 2 * 2**30
"""Address space beyond what the loaded libraries reserve, which on a machine of many cores is a multiple of this."""
_SAID_BYTES = 16 * 2**10
_PIECE_BYTES = 2**18
_LOG = logging.getLogger(__name__)
Json = dict[str, Any]
Result = TypeVar("Result")


class ChildAnswer(NamedTuple):
    """What a child answered: an object, and the bytes beside it."""

    document: Json
    content: bytes


async def run(
    work: str, json: Json, *, timeout_s: float, most_bytes: int, secrets: bool = False, stranger: str | None = None
) -> ChildAnswer:
    """Do `work` in a child and return its result; raise the error that it names, UsageError where it takes too long.

    The child sees no environment but the paths, and the database's address only with `secrets`. `stranger` names the field
    of a stranger's text that is worked on: where the system ends the child, or its answer has more than `most_bytes`, the
    text is to blame, and what the child said is for the log alone.
    """
    kept = (*_SPARED, "ASSAY_HOME") if secrets else _SPARED
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        f"{__package__}.child",
        work,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=str(Path(__file__).resolve().parents[__name__.count(".")]),
        env={name: value for name in kept if (value := os.environ.get(name)) is not None},
    )
    field = stranger or work
    try:
        async with asyncio.timeout(timeout_s):
            _, answer, said = await asyncio.gather(
                _give(child, msgspec.json.encode(json)), _answer(child, most_bytes), _said(child)
            )
            await child.wait()
    except TimeoutError as error:
        raise UsageError(
            f"it took more than {timeout_s:g} s.", field=field, remedy="Ask for less, or raise the limit."
        ) from error
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if answer is None:
        raise UsageError(
            f"the answer has more than {most_bytes // 2**20} MiB.", field=field, remedy="Select fewer rows or columns."
        )
    if child.returncode:
        raise _ended(child.returncode, work, said, stranger)
    line, _, content = answer.partition(b"\n")
    document: Json = msgspec.json.decode(line)
    if "problem" in document:
        raise error_of(document["problem"])
    return ChildAnswer(document, content)


async def unless_left(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """Return what `work` gives; cancel it, which ends its child, and raise MalformedBody where the client leaves.

    `receive` is that of a request whose body was read whole.
    """
    task = asyncio.create_task(work)
    leaving = asyncio.create_task(_until_left(receive))
    try:
        await asyncio.wait((task, leaving), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return await task
        raise MalformedBody("the client left before the answer.", field="$", remedy="Ask again and wait.")
    finally:
        for unfinished in (task, leaving):
            unfinished.cancel()
        await asyncio.gather(task, leaving, return_exceptions=True)


async def _until_left(receive: Receive) -> None:
    while cast("dict[str, Any]", await receive())["type"] != "http.disconnect":
        pass


async def _give(child: Process, question: bytes) -> None:
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        child.stdin.write(question)
        await child.stdin.drain()
    child.stdin.close()


async def _answer(child: Process, most_bytes: int) -> bytes | None:
    """Return what the child writes; end it and return None where that is too much to keep."""
    assert child.stdout is not None
    pieces: list[bytes] = []
    size = 0
    while piece := await child.stdout.read(_PIECE_BYTES):
        size += len(piece)
        if size > most_bytes:
            child.kill()
            return None
        pieces.append(piece)
    return b"".join(pieces)


async def _said(child: Process) -> bytes:
    """Return the end of what the child complains."""
    assert child.stderr is not None
    said = b""
    while piece := await child.stderr.read(_PIECE_BYTES):
        said = (said + piece)[-_SAID_BYTES:]
    return said


def _ended(status: int, work: str, said: bytes, stranger: str | None) -> AssayError:
    last = said.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
    if stranger is None:
        return ServiceUnavailable(
            f"the process that does it ended with {status}: {last[0][:300]}.",
            field=work,
            remedy="Ask for less; a status of -9 means that it ran out of memory.",
        )
    _LOG.warning("the process of a %s ended with %s: %s", work, status, last[0][:300])
    if status < 0:
        # Not the service's failure: whoever sends the same again gets the same.
        return UsageError(
            f"its process was ended by the system ({signal.Signals(-status).name}).",
            field=stranger,
            remedy="It needs too much memory, or too deep a stack: ask for less.",
        )
    return ServiceUnavailable(f"the process that does it ended with {status}.", field=stranger, remedy="Try again.")


def main() -> None:
    """Do the work that is named on the command line."""
    document: Json = msgspec.json.decode(sys.stdin.buffer.read())
    # Libraries print to the standard output too: LightGBM says there whom it connects to.
    sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    work = {"query": _query, "train": _train, "replay": _replay, "evaluate": _evaluate, "rebuild": _rebuild}[
        sys.argv[1]
    ]
    content = b""
    try:
        report, content = work(document)
    except AssayError as error:
        report = {"problem": error_document(error)}
    _write(report, content)


def _write(report: Json, content: bytes = b"") -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _query(json: Json) -> ChildAnswer:
    from api.http.encoding import encoded, rows_as_json
    from api.http.media import JSON
    from api.http.select import select

    _confine(int(json["timeout_s"]) + 5)
    result = select(Path(json["path"]), json["sql"], json["limit"], as_of=json["as_of"])
    document = {**json["beside"], "truncated": result.truncated, "columns": result.columns}
    if json["media"] != JSON:
        return ChildAnswer(document, encoded(result.table, json["media"]))
    head = msgspec.json.encode(document)
    return ChildAnswer(document, b"".join([head[:-1], b',"rows":', *rows_as_json(result.table), b"}"]))


def _confine(cpu_s: int) -> None:
    """Bound what this process may take. DuckDB keeps to its own limit of memory; these are for what it does not count."""
    import resource

    with contextlib.suppress(OSError):
        # Where the whole machine runs out of memory, this process ends before the service does.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="utf-8")
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text("utf-8").split()[0])
        most_bytes = pages * resource.getpagesize() + _MORE_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    for kind, most in ((resource.RLIMIT_CPU, cpu_s), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(kind, (most, most))


def _train(json: Json) -> ChildAnswer:
    with _machines(json) as machines:
        answerer = _answerer(json)
        position = None if machines is None else machines.position
        comparison = msgspec.to_builtins(answerer.compare(position, machines))
        trained = answerer.train(position, machines)
    return ChildAnswer({"event_data": trained.event_data, "comparison": comparison}, trained.content)


def _replay(json: Json) -> ChildAnswer:
    with _machines(json) as machines:
        position = json["position"] if machines is None else machines.position
        made, document = _answerer(json).replay(json["digest"], position, machines)
    return ChildAnswer({"event_data": made.event_data, "replayed": document}, made.content)


@contextlib.contextmanager
def _machines(json: Json) -> Iterator[Machines | None]:
    """Give the machines that train with this one, where there are any; the loss of one ends this process."""
    from predictor.learning.machines import MachineList, joined

    if not json.get("machines"):
        yield None
        return

    def lost(error: AssayError) -> None:
        # The main thread may wait in LightGBM for the machine that is gone, and for ever.
        _write({"problem": error_document(error)})
        os._exit(0)

    own = msgspec.convert(json["machines"], MachineList)
    with joined(own, json["version"], json["position"], lost, exact=json.get("digest") is not None) as machines:
        yield machines


def _evaluate(json: Json) -> ChildAnswer:
    from predictor.learning.routes import Evaluation

    question = {name: value for name, value in json.items() if name in Evaluation.__struct_fields__}
    scores: Json = _answerer(json).evaluate(msgspec.convert(question, Evaluation))
    return ChildAnswer(scores, b"")


def _rebuild(json: Json) -> ChildAnswer:
    from ingest.parallel.ranges import end_with_parent
    from ingest.parallel.rebuilding import Rebuild, fold_log

    end_with_parent()
    return ChildAnswer(msgspec.to_builtins(fold_log(msgspec.convert(json, Rebuild))), b"")


def _answerer(json: Json) -> Any:
    import duckdb

    from ingest.log.artifacts import ArtifactStore
    from predictor.live.answerer import LiveAnswerer

    connection = duckdb.connect(json["path"], read_only=True)
    connection.execute("SET TimeZone = 'UTC'")
    store = ArtifactStore(json["database_url"])
    return LiveAnswerer(connection.cursor, lambda digest: store.get(digest).content)


if __name__ == "__main__":
    main()
