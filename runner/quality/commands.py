"""A command that evaluates a model: run without a shell, ended with all that it starts, and its scores read and checked."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from domain.errors import UsageError
from domain.variants.lineage import DataReference
from runner.compression.contract import Scores
from runner.machine.scrub import scrub
from runner.protocol.parent import end_tree

__all__ = ["agreeing", "command_of", "examples_of", "run_command", "same_examples"]

_MODEL = "{model}"
_MOST_BYTES = 256_000_000
_SAME = 1e-9
"""How far two runs on one model may lie apart: what the order of sums does to a mean, and nothing else."""
_UNITS = "Print the mean of a share as scores from 0 to 1 with the unit pt, or name another unit."


def command_of(text: str) -> tuple[str, ...] | None:
    """Return program and arguments of a command line; None where its first word is no program here."""
    try:
        words = shlex.split(text, posix=os.name != "nt")
    except ValueError as error:
        raise UsageError(f"{text!r} is no command: {error}.", field="eval", remedy="Close its quotes.") from error
    return tuple(words) if words and shutil.which(words[0]) else None


def run_command(words: Sequence[str], model: Path, *, timeout_s: float) -> Scores:
    """Run the command on a model's folder and return its scores.

    `{model}` in an argument and the variable ASSAY_MODEL are the folder. Raises UsageError where it fails, takes too long, or
    prints what are no scores; its last line on standard error is quoted.
    """
    folder = str(model.resolve())
    arguments = [word.replace(_MODEL, folder) for word in words]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, "ASSAY_MODEL": folder},
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise _wrong(
                words, f"was not done after {timeout_s:g} s", err, "Give fewer examples, or more time."
            ) from error
        finally:
            # Also where it is interrupted: what it has started would go on with the model's files.
            end_tree(process)
            process.wait()
        if code:
            raise _wrong(words, f"ended with status {code}", err, "Run it by hand on that folder and mend it.")
        if out.seek(0, os.SEEK_END) > _MOST_BYTES:
            raise _wrong(words, "printed more than 256 MB", err, "Print one score for each example, nothing else.")
        out.seek(0)
        return _scores(words, out.read())


def _wrong(words: Sequence[str], what: str, err: Any = None, remedy: str | None = None) -> UsageError:
    last = ""
    if err is not None:
        end = err.seek(0, os.SEEK_END)
        err.seek(max(0, end - 4000))
        lines = err.read().decode(errors="replace").strip().splitlines()
        last = f": {scrub(lines[-1], limit=400)}" if lines else ""
    return UsageError(f"the command {Path(words[0]).name} {what}{last}", field="eval", remedy=remedy)


def _scores(words: Sequence[str], printed: bytes) -> Scores:
    text = printed.decode(errors="replace").strip()
    how = 'Print {"id": …, "score": …} a line, or one document with metric, unit, direction and scores.'
    if not text:
        raise _wrong(words, "printed no score.", remedy=how)
    try:
        document = json.loads(text)
    except ValueError:
        document = {"scores": _lines(words, text, how)}
    if isinstance(document, dict) and "scores" not in document and "score" in document:
        document = {"scores": [document]}
    if not isinstance(document, dict) or "scores" not in document:
        raise _wrong(words, "printed a document without `scores`.", remedy=how)
    import numpy as np

    pairs = _pairs(words, document["scores"], how)
    values = np.array([value for _, value in pairs])
    unit = document.get("unit") or ("pt" if np.isin(values, (0.0, 1.0)).all() else "score")
    direction = document.get("direction") or "higher"
    if direction not in ("higher", "lower"):
        raise _wrong(words, f"printed the direction {direction!r}.", remedy="Write higher or lower, which is better.")
    if unit == "pt" and not ((values >= 0) & (values <= 1)).all():
        raise _wrong(words, "printed scores in the unit pt outside of 0 to 1.", remedy=_UNITS)
    return Scores(
        metric=str(document.get("metric") or "score"),
        values=values,
        ids=tuple(name for name, _ in pairs),
        unit=str(unit),
        direction=direction,
    )


def _lines(words: Sequence[str], text: str, how: str) -> list[Any]:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise _wrong(words, f"printed a line {number} that is no JSON: {line[:80]!r}.", remedy=how) from error
    return rows


def _pairs(words: Sequence[str], scores: Any, how: str) -> list[tuple[str, float]]:
    """Return ids and scores in the order of their ids, so that the order in which they were printed does not matter."""
    if isinstance(scores, dict):
        rows = list(scores.items())
    elif isinstance(scores, list) and all(isinstance(row, dict) for row in scores):
        rows = [(row.get("id"), row.get("score")) for row in scores]
    elif isinstance(scores, list):
        rows = list(enumerate(scores))
    else:
        raise _wrong(words, "printed `scores` that are neither a list nor an object.", remedy=how)
    pairs: dict[str, float] = {}
    for number, (name, score) in enumerate(rows, 1):
        if name is None or isinstance(score, str | list | dict) or score is None:
            raise _wrong(words, f"printed no id or no number as score {number}.", remedy=how)
        if not math.isfinite(score):
            raise _wrong(words, f"printed {score} as the score of {name!r}.", remedy="Print a number for each example.")
        if str(name) in pairs:
            raise _wrong(words, f"printed the id {name!r} twice.", remedy="Print each example once.")
        pairs[str(name)] = float(score)
    if not pairs:
        raise _wrong(words, "printed no score.", remedy=how)
    return sorted(pairs.items())


def agreeing(first: Scores, second: Scores) -> Scores:
    """Return the first of two runs on the same model; raises UsageError where they differ: what changes cannot be paired."""
    same_examples(first, second, "another run on the same model")
    for name, one, two in zip(first.ids, first.values.tolist(), second.values.tolist(), strict=True):
        if not math.isclose(one, two, rel_tol=_SAME, abs_tol=_SAME):
            raise UsageError(
                f"the evaluation changes between runs: on the same model the score of {name!r} was {one:g}, then {two:g}.",
                field="eval",
                remedy="Give it a fixed seed and a fixed order, and switch sampling off.",
            )
    return first


def same_examples(first: Scores, second: Scores, other: str) -> None:
    """Raise UsageError where two evaluations are not of the same examples by the same metric."""
    if first.ids != second.ids:
        different = sorted({*first.ids} ^ {*second.ids}) or ["another order"]
        raise UsageError(
            f"{other} gave scores of other examples ({len(first.ids)} and {len(second.ids)}); "
            f"the first that only one has is {different[0]!r}.",
            field="eval",
            remedy="Score the same examples, under the same ids, whatever the model.",
        )
    one, two = ((each.metric, each.unit, each.direction) for each in (first, second))
    if one != two:
        raise UsageError(
            f"{other} was scored by another metric: {' '.join(two)} and not {' '.join(one)}.",
            field="eval",
            remedy="Use one metric for all models.",
        )


def examples_of(words: Sequence[str], scores: Scores) -> DataReference:
    """Return what names the examples of a command: its program, and the digest of their ids."""
    sha = hashlib.sha256(json.dumps(scores.ids).encode()).hexdigest()
    return DataReference(name=Path(words[0]).name, digest=f"sha256:{sha}", examples=len(scores.ids))
