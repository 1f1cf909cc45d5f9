"""Alerts in words: what changed and by how much, candidate causes, and the command that finds the commit or version."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from domain.history.alerts import Alert
from domain.history.history import Cause, Change
from domain.vocabulary import IN_BROWSERS, asked_name

__all__ = ["bisect_by_hand", "bisect_command", "cause_words", "distinct_causes"]


def cause_words(cause: Cause) -> str:
    """Write a candidate cause: `driver 570.86 → 580.65`, `runtime torch 2.12.1 → 2.13.0`."""
    before, after = cause.before or "absent", cause.after or "absent"
    name = before.rpartition(" ")[0] if cause.part == "runtime" else ""
    if name and after.startswith(f"{name} "):
        after = after.removeprefix(f"{name} ")
    return f"{cause.part} {before} → {after}"


def distinct_causes(causes: Sequence[Cause]) -> list[Cause]:
    """Return the causes without those that say the same again: a library that is the runtime as well stands once."""
    by_words: dict[str, Cause] = {}
    for cause in causes:
        by_words.setdefault(cause_words(cause).removeprefix("runtime ").removeprefix("library "), cause)
    return list(by_words.values())


def bisect_command(alert: Alert) -> str | None:
    """Return the command that finds the commit or version within the range of an alert; None where neither is known."""
    for change in alert.changes:
        ends = _commits(change) or _package(change)
        if ends:
            return f"assay bisect {ends} {_measured_by(change)}"
    return None


def bisect_by_hand(change: Change) -> str:
    """Return the same command for a change of which no ends are known, with words in their place."""
    return f"assay bisect --good GOOD --bad BAD {_measured_by(change)}"


def _commits(change: Change) -> str | None:
    good, bad = change.commits
    return f"--good {shlex.quote(good)} --bad {shlex.quote(bad)}" if good and bad and good != bad else None


def _package(change: Change) -> str | None:
    """Return the ends of a range of versions, where a library or the runtime changed from one to another."""
    libraries = [
        (c.part.removeprefix("library "), c.before, c.after) for c in change.causes if c.part.startswith("library ")
    ]
    runtimes = [(end or "").rpartition(" ")[::2] for end in change.versions]
    if runtimes[0][0] and runtimes[0][0] == runtimes[1][0]:
        libraries.append((runtimes[0][0], runtimes[0][1], runtimes[1][1]))
    for name, good, bad in libraries:
        if good and bad and good != bad and change.platform not in IN_BROWSERS:
            # `assay` itself measures, so each version lies over the packages that it has.
            ends = (shlex.quote(end.partition("+")[0]) for end in (good, bad))
            return "--package {} --overlay --good {} --bad {}".format(shlex.quote(name), *ends)
    return None


def _measured_by(change: Change) -> str:
    """Return the options that say how each version is measured."""
    verb = "verify" if change.kind == "functional" else "bench"
    platform = asked_name(change.platform, (change.versions[1] or "").partition(" ")[0])
    words = ["assay", verb, change.model, "--platform", platform]
    words += ["--precision", change.precision] if change.precision else []
    if verb == "verify":
        return f"--run {shlex.quote(shlex.join(words))} --check"
    words += ["--mode", change.mode] if change.mode and change.mode != "inference" else []
    words += ["--batch-sizes", str(change.batch_size)] if change.batch_size else []
    words += change.bench
    return f"--run {shlex.quote(shlex.join(words) + ' --out {out}')} --metric {change.metric}"
