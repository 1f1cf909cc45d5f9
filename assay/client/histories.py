"""What the client asks about the course of time: trends, regressions, what changed in histories, and alerts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from assay.client.links import Links
from assay.client.transport import Json
from domain.answers.histories import AlertList, HistoryReports
from domain.history.alerts import Alert, State

__all__ = ["Histories"]


class Histories(Links):
    """The routes of trends, regressions and alerts."""

    def trends(self, model: str, **filters: Any) -> Json:
        """Return a metric of a model's configurations over time, with what changed from point to point."""
        return self._get("/v1/trends", model=model, **filters)

    def regressions(self, **filters: Any) -> Json:
        """Return what got worse since a `baseline`, or in the last `days` (7): `changes`, `turns` and `environments`."""
        return self._get("/v1/regressions", **filters)

    def regression_history(
        self,
        *,
        model: str | None = None,
        hardware: str | None = None,
        platform: str | None = None,
        precision: str | None = None,
        metric: str | Sequence[str] | None = None,
        branch: str | None = None,
        alike: str | Sequence[str] | None = None,
        origins: str | Sequence[str] | None = None,
        everything: bool = False,
        as_of: int | str | None = None,
        min_position: int | None = None,
    ) -> HistoryReports:
        """Return what changed in the histories of figures and tests: confirmed changes, levels, and suspect newest points.

        `metric` names figures (`latency_p50_ms`) or tests, `alike` begins the name of a history, `origins` are `measured` and
        `imported`. With `everything` histories without a change have a report too. UsageError where more than 10,000
        configurations would be examined.
        """
        answer = self._get(
            "/v1/regressions/history",
            model=model,
            hardware=hardware,
            platform=platform,
            precision=precision,
            metric=metric,
            branch=branch,
            alike=alike,
            origins=origins,
            all=True if everything else None,
            as_of=as_of,
            min_position=min_position,
        )
        return msgspec.convert(answer, HistoryReports)

    def alerts(
        self,
        *,
        state: State | Sequence[State] | None = None,
        model: str | None = None,
        hardware: str | None = None,
        direction: Literal["worse", "better"] | None = None,
        limit: int = 100,
        as_of: int | str | None = None,
        min_position: int | None = None,
    ) -> AlertList:
        """Return alerts, open ones first and then the worst, and how many there are in each state; `limit` is at most 1,000."""
        answer = self._get(
            "/v1/alerts",
            state=state,
            model=model,
            hardware=hardware,
            direction=direction,
            limit=limit,
            as_of=as_of,
            min_position=min_position,
        )
        return msgspec.convert(answer, AlertList)

    def alert(self, identifier: str, *, as_of: int | str | None = None, min_position: int | None = None) -> Alert:
        """Return the alert of an id, or of its first letters; NotFound without one."""
        path = f"/v1/alerts/{quote(identifier, safe='')}"
        return msgspec.convert(self._get(path, as_of=as_of, min_position=min_position), Alert)

    def set_alert_state(
        self, identifier: str, state: State, reason: str | None = None, *, author: str | None = None
    ) -> Alert:
        """Give an alert a state and return it as it is then.

        `new` opens it again; `expected`, `fixed` and `false` need a reason. `author` is a person on whose behalf this program
        asks. StateConflict where the alert cannot go there from its own state, VersionConflict where another was quicker.
        """
        path = f"/v1/alerts/{quote(identifier, safe='')}/state"
        body = {"state": state, "reason": reason, "author": author}
        return msgspec.convert(self._post(path, body, again=False), Alert)
