"""What the service answers, kept by position: an answer at a position of the log never changes.

Only the position itself is asked again, every two seconds at most. Each function raises AssayError where the
service says no, is away or is too slow; a page shows that as a sentence. Here is what several pages ask; what one
page asks stands in a module of its own beside this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.client.row_types import Hardware, Model, Run
from dashboard.service import KEPT, NewerService, checked, client, decoded, forget, kept, probed
from domain.errors import Forbidden

__all__ = [
    "NewerService",
    "accuracy",
    "card",
    "decisions",
    "forget",
    "hardware",
    "markets",
    "models",
    "predictor",
    "predictors",
    "ready",
    "recommend",
    "record",
    "reporter",
    "runs",
    "summary",
]


def ready() -> dict[str, Any]:
    """Return the service's health with the position that its tables stand at."""
    return probed()


@kept(max_entries=KEPT)
def recommend(request: dict[str, Any], position: int) -> dict[str, Any]:
    """Return the ranked answer to a question, as of its own position or of this one."""
    answer = client().recommend(**{"as_of": position, **request})
    return checked(dict(answer), "ranked", "excluded", "position")


def record(request: dict[str, Any], position: int) -> dict[str, Any]:
    """Ask the same and have the answer written to the log; Forbidden where the token may not append. Twice is once."""
    try:
        answer = client().recommend(**{"as_of": position, **request, "record": True})
    except Forbidden as refused:
        raise Forbidden(
            "the token that this dashboard sends may read the log and not append to it.",
            field=refused.field,
            remedy="Start the dashboard with ASSAY_TOKEN, from `assay token create dashboard --scope read --scope append`.",
        ) from refused
    return checked(dict(answer), "id")


@kept(max_entries=4)
def models(position: int) -> list[Model]:
    """Return every model that is known at a position, by `id`; those with measurements first."""
    rows = [decoded(row, Model) for row in client().models(as_of=position)]
    return sorted(rows, key=lambda row: (not row.measurements, row.id))


@kept(max_entries=4)
def hardware(position: int) -> list[Hardware]:
    """Return every hardware that is known at a position, by `id`."""
    return [decoded(row, Hardware) for row in client().hardware(as_of=position)]


@kept(max_entries=4)
def markets(position: int) -> tuple[list[str], list[str]]:
    """Return the providers and the regions that have prices at a position, each by name."""
    rows = [dict(row) for row in client().prices(as_of=position)]
    providers, regions = ({str(row[key]) for row in rows if row.get(key)} for key in ("provider", "region"))
    return sorted(providers), sorted(regions)


@kept(max_entries=4)
def runs(position: int) -> list[Run]:
    """Return the last ten runs at a position, newest first."""
    return [decoded(row, Run) for row in client().runs(as_of=position, limit=10)]


@kept(max_entries=4)
def summary(position: int) -> dict[str, Any]:
    """Return how many models, devices, runs, measurements and tests are known at a position."""
    return checked(dict(client().summary(as_of=position)), "models", "hardware", "measurements")


@kept(max_entries=16)
def predictor(position: int, split: str) -> dict[str, Any]:
    """Return what the page shows of the predictor at a position; of one evaluation also by family and field by field."""
    members = ["scores", "widths", "limits", "coverage", "data"]
    return checked(dict(client().predictor(as_of=position, members=members, details=[split])), "digest")


def card(position: int) -> Callable[[], dict[str, Any]]:
    """Return what asks for the whole card of the predictor at a position."""
    item = client()
    return lambda: dict(item.predictor(as_of=position))


@kept(max_entries=4)
def predictors(position: int) -> dict[str, Any]:
    """Return every predictor that was trained up to a position, newest first, and the line of those that answer."""
    return dict(client().predictors(as_of=position))


@kept(max_entries=1)
def decisions() -> dict[str, Any]:
    """Return how good decisions are on held-out models, as the service ships it."""
    return checked(dict(client().decisions()), "machines", "devices", "fits")


@kept(max_entries=16)
def accuracy(target: str, position: int) -> dict[str, Any]:
    """Return how right the predictions given out were, by what was measured up to a position."""
    return checked(dict(client().accuracy(target=target, as_of=position)), "given", "scored", "overall")


def reporter(kind: str, subject: str | None, position: int) -> Callable[[], bytes]:
    """Return what makes a report as a page that stands alone; it takes seconds where much is known."""
    item = client()

    def make() -> bytes:
        from presentation.reports.content import ReportQuestion
        from presentation.reports.kinds import build
        from presentation.reports.page import as_html

        return as_html(build(item, ReportQuestion(kind=kind, subject=subject, as_of=position)))

    return make
