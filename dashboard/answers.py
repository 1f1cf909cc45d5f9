"""What the service answers, kept by position: an answer at a position of the log never changes.

Only the position itself is asked again, every two seconds at most. Each function raises AssayError where the
service says no, is away or is too slow; a page shows that as a sentence.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

import streamlit as st

from assay.client import Client
from domain.errors import AssayError

__all__ = [
    "NewerService",
    "accuracy",
    "compare",
    "decisions",
    "forget",
    "hardware",
    "markets",
    "models",
    "predictor",
    "predictors",
    "ready",
    "recommend",
    "reporter",
    "runs",
    "summary",
]

Function = TypeVar("Function", bound=Callable[..., Any])
SLOWEST_S = 20.0
PATIENCE_S = 2.0
"""A page says that the service is away rather than keep its reader waiting for it."""
KEPT = 256
"""Answers of one kind that are kept; a recommendation is some 50 kB."""


class NewerService(AssayError):
    """The service answered in a form that this dashboard does not know."""

    type = "newer-service"
    status = 502


def _close(one: Client) -> None:
    one.close()


def _one(function: Function) -> Function:
    return cast("Function", st.cache_resource(show_spinner=False, on_release=_close)(function))


class Keep(Protocol):
    """A decorator that leaves the type of what it decorates."""

    def __call__(self, function: Function, /) -> Function: ...


def _kept(**limits: int) -> Keep:
    # The running mark in the corner is enough: a spinner would push the old picture away.
    def keep(function: Function, /) -> Function:
        return cast("Function", st.cache_data(show_spinner=False, **limits)(function))

    return keep


@_one
def client() -> Client:
    """Return the one client of this process, for the service named when the dashboard was started."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--server", default=os.environ.get("ASSAY_SERVER"))
    server = parser.parse_known_args(sys.argv[1:])[0].server
    return Client(server=server, timeout_s=SLOWEST_S, patience_s=PATIENCE_S)


@_kept(ttl=2, max_entries=4)
def ready() -> dict[str, Any]:
    """Return the service's health with the position that its tables stand at."""
    return _checked(dict(client().ready()), "position")


@_kept(max_entries=KEPT)
def recommend(asked: dict[str, Any], position: int) -> dict[str, Any]:
    """Return the ranked answer to a question, as of its own position or of this one."""
    answer = client().recommend(**{"as_of": position, **asked})
    return _checked(dict(answer), "ranked", "excluded", "position")


@_kept(max_entries=KEPT)
def compare(model: str, mode: str, position: int) -> dict[str, Any]:
    """Return what was measured or imported for a model on every hardware."""
    return _checked(dict(client().compare_hardware(model, mode=mode, as_of=position)), "rows")


@_kept(max_entries=4)
def models(position: int) -> list[dict[str, Any]]:
    """Return every model that is known at a position, by `id`; those with measurements first."""
    found = [dict(row) for row in client().models(as_of=position)]
    return sorted(found, key=lambda row: (not row.get("measurements"), str(row["id"])))


@_kept(max_entries=4)
def hardware(position: int) -> list[dict[str, Any]]:
    """Return every hardware that is known at a position, by `id`."""
    return [dict(row) for row in client().hardware(as_of=position)]


@_kept(max_entries=4)
def markets(position: int) -> tuple[list[str], list[str]]:
    """Return the providers and the regions that have prices at a position, each by name."""
    found = [dict(row) for row in client().prices(as_of=position)]
    providers, regions = ({str(row[key]) for row in found if row.get(key)} for key in ("provider", "region"))
    return sorted(providers), sorted(regions)


@_kept(max_entries=4)
def runs(position: int) -> list[dict[str, Any]]:
    """Return the last ten runs at a position, newest first."""
    return [dict(row) for row in client().runs(as_of=position, limit=10)]


@_kept(max_entries=4)
def summary(position: int) -> dict[str, Any]:
    """Return how many models, devices, runs, measurements and tests are known at a position."""
    return _checked(dict(client().summary(as_of=position)), "models", "hardware", "measurements")


@_kept(max_entries=4)
def predictor(position: int) -> dict[str, Any]:
    """Return what answers are predicted with at a position."""
    return dict(client().predictor(as_of=position))


@_kept(max_entries=4)
def predictors(position: int) -> dict[str, Any]:
    """Return every predictor that was trained up to a position, newest first, and the line of those that answer."""
    return dict(client().predictors(as_of=position))


@_kept(max_entries=1)
def decisions() -> dict[str, Any]:
    """Return how good decisions are on held-out models, as the service ships it."""
    return _checked(dict(client().decisions()), "machines", "devices", "fits")


@_kept(max_entries=16)
def accuracy(target: str, position: int) -> dict[str, Any]:
    """Return how right the predictions given out were, by what was measured up to a position."""
    return _checked(dict(client().accuracy(target=target, as_of=position)), "given", "scored", "overall")


def reporter(kind: str, subject: str | None, position: int) -> Callable[[], bytes]:
    """Return what makes a report as a page that stands alone; it takes seconds where much is known."""
    one = client()

    def make() -> bytes:
        from assay.reports import Asked, build
        from assay.reports.page import as_html

        return as_html(build(one, Asked(kind=kind, subject=subject, as_of=position)))

    return make


def forget() -> None:
    """Drop what is kept, the connection too: a service that started again may stand at another address."""
    st.cache_data.clear()
    st.cache_resource.clear()


def _checked(answer: dict[str, Any], *keys: str) -> dict[str, Any]:
    missing = [key for key in keys if key not in answer]
    if missing:
        raise NewerService(
            f"The service answered without {', '.join(missing)}: it is of another version than this dashboard.",
            remedy="Install the same version of Assay for both, then reload.",
        )
    return answer
