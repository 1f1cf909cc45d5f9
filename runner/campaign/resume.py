"""Which cases a file of events already holds, so that a sweep goes on where it was interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from domain.canonical import digest, drop_nulls
from domain.events import MEASUREMENT_FAILED, MEASUREMENT_RECORDED, TEST_REPORTED
from domain.vocabulary import asked_name
from runner.protocol.tasks import Case
from runner.spool.event_file import read_lines

__all__ = ["CaseKey", "case_key", "cases_in"]

CaseKey = str
_TRY_AGAIN = frozenset({"Interrupted"})


def case_key(model_id: str, case: Case) -> CaseKey:
    """Return the name of a case by what was asked for: model, workload, platform, precision, compiled, options, nodes."""
    return _key(
        model_id,
        msgspec.to_builtins(case.workload),
        case.platform,
        case.precision,
        compiled=case.compiled,
        options=case.options,
        nodes=len(case.nodes.hosts) if case.nodes else 1,
    )


def _key(
    model_id: str,
    workload: dict[str, Any],
    platform: str,
    precision: str,
    *,
    compiled: bool,
    options: Sequence[str],
    nodes: int,
) -> CaseKey:
    # A case without options or nodes has the name that it had before there were any.
    later = [*([list(options)] if options else []), *([nodes] if nodes > 1 else [])]
    return digest([model_id, drop_nulls(workload), platform, precision, compiled, *later])


def cases_in(path: Path, type_: str = MEASUREMENT_RECORDED) -> set[CaseKey]:
    """Return the cases that a file of events holds a row of, failures included unless they were interruptions."""
    wanted = {type_} if type_ == TEST_REPORTED else {MEASUREMENT_RECORDED, MEASUREMENT_FAILED}
    case_keys: set[CaseKey] = set()
    for line in read_lines(path, whole_only=True):
        event = msgspec.json.decode(line)
        if event["type"] not in wanted:
            continue
        data = event["data"]
        if (data.get("failure") or {}).get("error") in _TRY_AGAIN:
            continue
        execution = data["execution"]
        request = (data.get("observed") or {}).get("requested") or execution
        case_keys.add(
            _key(
                data["model"]["id"],
                data["workload"],
                asked_name(request["platform"], (execution.get("runtime") or {}).get("name") or ""),
                request["precision"],
                compiled=bool(execution.get("compiled")),
                options=request.get("options") or (execution.get("options") or {}).get("asked") or (),
                nodes=(execution.get("options") or {}).get("nodes", 1),
            )
        )
    return case_keys
