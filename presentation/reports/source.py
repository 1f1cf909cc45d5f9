"""What a service knows at one position of the log, read through the client, as the rows that reports are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from assay.client import Client
from domain.answers.variants import VariantRow
from domain.comparison.slower_precisions import SlowerPrecision, slower_precisions
from domain.errors import NotFound
from presentation.rank_scaling import scaled_row
from presentation.reports import likeness
from presentation.reports.content import ReportQuestion, Row
from presentation.reports.evidence import row_of

__all__ = ["Source"]


class Source:
    """Reads each list once, when it is first asked for, all of them as of one position.

    `rows` are those of the models and category that are asked for: whatever a ratio needs as its baseline is among them.
    `kept` are those that hardware, platform and precision let in as well: what a report shows.
    """

    def __init__(self, client: Client, request: ReportQuestion) -> None:
        self.client = client
        self.asked = request
        self.position = _position(client, request.as_of)

    @cached_property
    def recorded_at(self) -> str | None:
        """When the event at the position was recorded; None on an empty log, or where no event has that position."""
        event = (
            next(iter(self.client.events(after=self.position - 1, upto=self.position)), None) if self.position else None
        )
        return event["recorded_at"] if event else None

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The best measurement of each configuration: measured before imported, valid before suspect, then the newest."""
        return [row for row in map(row_of, self._measurements) if self.asked.category in (None, row["category"])]

    @cached_property
    def _measurements(self) -> list[dict[str, Any]]:
        model = self.asked.subject if self.asked.kind == "model" else self.asked.model
        return self.client.measurements(best=True, model=model, as_of=self.position)

    @cached_property
    def slower(self) -> list[SlowerPrecision]:
        """Precisions that are slower than fp32 among the rows that are shown, the worst ratio first."""
        shown = {row["evidence"][0] for row in self.kept}
        return [item for item in slower_precisions(self._measurements) if item.evidence[0] in shown]

    @cached_property
    def kept(self) -> list[dict[str, Any]]:
        """The rows that are shown."""
        return self.let_in(self.rows)

    @cached_property
    def over_cpu(self) -> list[dict[str, Any]]:
        """Rows that are shown beside the plain CPU."""
        return self.let_in(likeness.over_cpu(self.rows))

    @cached_property
    def over_fp32(self) -> list[dict[str, Any]]:
        """Rows that are shown beside fp32."""
        return self.let_in(likeness.over_fp32(self.rows))

    @cached_property
    def scaling(self) -> list[dict[str, Any]]:
        """Series of batch sizes that are shown."""
        return likeness.scaling(self.kept)

    @cached_property
    def on_ranks(self) -> list[dict[str, Any]]:
        """Trainings on ranks that are shown, each with its efficiency where it has a baseline."""
        model = self.asked.subject if self.asked.kind == "model" else self.asked.model
        rows = self.let_in(map(scaled_row, self.client.scaling(model=model, as_of=self.position)))
        models = {row["model"] for row in self.kept}
        return rows if self.asked.category is None else [row for row in rows if row["model"] in models]

    @cached_property
    def variants(self) -> list[VariantRow]:
        """The model that is asked for and its variants side by side, filtered; none where the report is of several models."""
        model = self.asked.subject if self.asked.kind == "model" else self.asked.model
        if model is None:
            return []
        rows = self.client.variants(model, as_of=self.position).items
        return [
            row
            for row in rows
            if (self.hardware in (None, row.hardware))
            and (not self.asked.platform or row.platform in self.asked.platform)
            and (not self.asked.precision or row.precision in self.asked.precision)
        ]

    @cached_property
    def hardware(self) -> str | None:
        """The canonical id of the hardware that is asked for. Raises UnknownHardware where nobody knows of it."""
        name = self.asked.subject if self.asked.kind == "hardware" else self.asked.hardware
        if name is None:
            return None
        measurements = self.client.measurements(best=True, hardware=name, as_of=self.position, limit=1)
        return str(
            measurements[0]["hardware_id"]
            if measurements
            else self.client.compare_models(name, as_of=self.position)["hardware"]
        )

    def let_in(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Leave out what the filters on hardware, platform and precision do not ask for."""
        return [
            dict(row)
            for row in rows
            if self.hardware in (None, row.get("hardware") or row.get("hardware_id"))
            and (not self.asked.platform or row.get("platform") in self.asked.platform)
            and (not self.asked.precision or row.get("precision") in self.asked.precision)
        ]

    def compatibility(self, **options: Any) -> list[dict[str, Any]]:
        """Return the matrix of tests and benchmarks, filtered; `by_precision`, `by_hardware` as the API has them."""
        model = self.asked.subject if self.asked.kind == "model" else self.asked.model
        compatibility = self.client.compatibility(
            model=model, hardware=self.hardware, category=self.asked.category, as_of=self.position, **options
        )
        request = self.asked
        return [
            row
            for row in compatibility
            if (not request.platform or row["platform"] in request.platform)
            and ("precision" not in row or not request.precision or row["precision"] in request.precision)
        ]

    @cached_property
    def claims(self) -> list[dict[str, Any]]:
        """What documents claim of the model that is asked for, or of all, on the platforms that are let in."""
        model = self.asked.subject if self.asked.kind == "model" else self.asked.model
        claims = self.client.claims(model=model, as_of=self.position)
        return [
            row
            for row in claims
            if (not self.asked.platform or row["platform"] in self.asked.platform)
            and (self.asked.category in (None, *row["categories"]) or not row["categories"])
        ]

    @cached_property
    def trends(self) -> Mapping[str, Any]:
        """The latencies of the model over time. Raises UnknownModel where nobody knows of it."""
        return self.client.trends(str(self.asked.subject or self.asked.model), as_of=self.position)

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """Counts of what the tables hold."""
        return self.client.summary(as_of=self.position)

    @cached_property
    def run(self) -> Row:
        """The run that is asked for, else the newest. Raises NotFound."""
        name = self.asked.subject
        runs = self.client.runs(run_id=name, as_of=self.position, limit=1)
        if runs:
            return runs[0]
        newest = [str(run["run_id"]) for run in self.client.runs(as_of=self.position, limit=3)]
        raise NotFound(
            f"no run is known as {name!r}." if name else "no run was posted yet.",
            field="run",
            remedy=f"The newest: {', '.join(newest)}." if newest else "`assay bench` makes one.",
        )

    @cached_property
    def measured(self) -> list[dict[str, Any]]:
        """Every measurement of the run, invalid and simulated ones too."""
        measurements = self.client.measurements(run_id=self.run["run_id"], as_of=self.position)
        return self.let_in(map(row_of, measurements))

    @cached_property
    def earlier(self) -> dict[str, dict[str, Any]]:
        """The best row of each configuration of the run's hardware as it was known before the run, by configuration."""
        position = min((int(row["position"]) for row in self.measured), default=1) - 1
        documents: dict[str, dict[str, Any]] = {}
        for name in sorted({row["hardware"] for row in self.measured}) if position > 0 else ():
            rows = self.client.measurements(best=True, hardware=name, as_of=position)
            documents.update({row["configuration"]: row_of(row) for row in rows})
        return documents

    def outcomes(self, *, failures: bool) -> list[dict[str, Any]]:
        """Return the tests of the run, or what gave no measurement in it."""
        tests = self.client.tests(run_id=self.run["run_id"], failures=failures or None, as_of=self.position)
        return self.let_in(tests)


def _position(client: Client, as_of: int | str | None) -> int:
    if as_of is None:
        return int(client.ready()["position"])
    if isinstance(as_of, int) or as_of.isdigit():
        return int(as_of)
    return int(client.snapshot(as_of)["position"])
