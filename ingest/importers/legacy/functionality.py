"""The earlier framework's functionality checks: `model_functionality_<date>.json` of its verify_model_functionality.py.

`detailed_results` has one object a model and platform: `model` (a short name such as `bert`), `hardware`, `success`,
`return_code`, and the script's `stdout` and `stderr`. Each becomes a test that passed or not. The script's output names the
model that it really used; else the short name stands. `stats` and `model_results` say the same again and are not taken.
A script that ended well and says in its output that a stand-in answered is simulated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.legacy.vocabulary import (
    NOWHERE,
    Machine,
    error_of,
    has_members,
    model_named,
    moment,
    platform_of,
    record_at,
    simulated_platforms,
)
from ingest.importers.reading import BadFile, json_document, text
from ingest.importers.refusals import BadRow, Refused

__all__ = ["SeedFunctionality", "functionality"]

NAME = "seed-functionality"
SOURCE = "earlier framework, model functionality"
_USED = re.compile(r"(?:Testing model|Using model|Using local test model at):? +(\S+)")
_MOCKED = re.compile(r"^.*(?:\(MOCK\)|[Mm]ock implementation|[Cc]reating mock|SIMULAT).*$", re.MULTILINE)
_BEFORE_LOADING = frozenset(("SyntaxError", "IndentationError", "ModuleNotFoundError", "ImportError", "NameError"))


class SeedFunctionality:
    """Functionality checks (JSON)."""

    name = NAME
    title = "earlier framework: model_functionality_*.json, tests by model and platform"

    def sniff(self, file: File) -> bool:
        """Return whether the file holds functionality checks and nothing around them."""
        return has_members(file, "stats", "detailed_results", "return_code") and not has_members(
            file, "functionality_verification"
        )

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run and its tests; see Importer."""
        document = json_document(file)
        if not isinstance(document, dict):
            raise BadFile("is not an object of checks")
        yield from functionality(file, document, simulated=simulated_platforms(document))


def functionality(
    file: File,
    checks: Mapping[str, Any],
    *,
    machine: Machine = NOWHERE,
    simulated: set[str] | None = None,
    place: str = "",
) -> Iterator[dict[str, Any] | Refused]:
    """Yield the run of one functionality check, which may stand inside another file at `place`."""
    stats = checks.get("stats")
    time = moment(stats.get("timestamp")) if isinstance(stats, dict) else None
    document = Document(file, NAME, source=SOURCE, time=time, environment=machine.environment)
    yield from document.events(_drafts(document, checks, machine, simulated or set(), place))


def _drafts(
    document: Document, checks: Mapping[str, Any], machine: Machine, simulated: set[str], place: str
) -> Iterator[Draft | Refused]:
    results = checks.get("detailed_results")
    for index, result in enumerate(results if isinstance(results, list) else []):
        try:
            yield _draft(result, machine, simulated, record_at(place, f"detailed_results[{index}]"), index + 1)
        except BadRow as bad:
            yield document.refused(bad.reason, row=index + 1, field=bad.field)


def _draft(result: Any, machine: Machine, simulated: set[str], record: str, row: int) -> Draft:
    if not isinstance(result, dict):
        raise BadRow("detailed_results", "is not an object")
    platform = platform_of(result.get("hardware"))
    if platform is None:
        raise BadRow("hardware", "is not a platform")
    if not isinstance(result.get("success"), bool):
        raise BadRow("success", "is not true or false")
    said = f"{text(result, 'stdout') or ''}\n{text(result, 'stderr') or ''}"
    used = _USED.search(said)
    flags = {"output": mocked[0].strip()} if (mocked := _MOCKED.search(said)) else {}
    if platform in simulated:
        flags["simulated_hardware"] = platform
    draft = Draft(
        kind="test",
        test="functionality",
        model=model_named(used[1].rstrip(".,") if used else result.get("model")),
        workload={"mode": "inference"},
        execution={"platform": platform},
        hardware=machine.hardware(platform),
        outcome="passed",
        stage="run",
        checks={"return_code": result.get("return_code")},
        row=row,
        key=text(result, "model"),
        original={"record": record, "model": text(result, "model")},
        claims={"flags": {name: _admitted(value) for name, value in flags.items()}} if flags else {},
    )
    if not result["success"]:
        draft.outcome, draft.error, draft.message = _failure(said)
        draft.stage = "resolve" if draft.error in _BEFORE_LOADING else "run"
    return draft


def _admitted(value: str) -> str:
    """Return what a flag says, in words that a rule knows."""
    return value if re.search("mock|simul", value, re.IGNORECASE) else f"{value}: simulated"


def _failure(said: str) -> tuple[str, str, str]:
    error, message = error_of(said)
    if re.search(r"timed? ?out", message, re.IGNORECASE):
        return "timeout", error, message
    if re.search(r"out of memory", said, re.IGNORECASE):
        return "out_of_memory", error, message
    return "error", error, message
