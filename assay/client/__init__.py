"""The typed HTTP client: `from assay import Client`.

Retries are described in `assay.client.transport` and docs/api.md. Rows come as dictionaries, as structs of `assay.client.row_types`, or as
Arrow, pandas or polars tables (`assay.client.frames`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote, urlencode

import msgspec

from assay.client.choice import Choice, asked_devices, choice_of
from assay.client.jobs import Jobs
from assay.client.transport import BATCH_BYTES, BATCH_EVENTS, Json, batches, checked, decoded
from domain import errors
from domain.answers import CapacityAnswer, FleetPlan, Recommendation, Suggestions
from domain.answers.kernels import DeviceKernels
from domain.answers.variants import Deliveries, ModelVariants

__all__ = ["BATCH_BYTES", "BATCH_EVENTS", "Client", "batches"]


class Client(Jobs):
    """Talks to one Assay service. Every method raises an AssayError that names the field and the remedy."""

    # Writing

    def post_events(
        self, events: Iterable[Mapping[str, Any] | bytes], *, batch: int = BATCH_EVENTS, on_batch: Any = None
    ) -> Json:
        """Append events and return what became of them, with indexes into the whole; `on_batch(n)` after each post."""
        total: Json = {"accepted": 0, "duplicate": 0, "rejected": [], "warnings": [], "last_position": None}
        sent = 0
        for lines in batches(events, batch):
            answer = self._post_lines(lines)
            for name in ("accepted", "duplicate"):
                total[name] += answer.get(name, 0)
            for name in ("rejected", "warnings"):
                total[name] += [{**item, "index": item["index"] + sent} for item in answer.get(name, [])]
            total["last_position"] = max(total["last_position"] or 0, answer.get("last_position") or 0) or None
            sent += len(lines)
            if on_batch is not None:
                on_batch(len(lines))
        return total

    def _post_lines(self, lines: Sequence[bytes]) -> Json:
        response = self._send(
            "POST", "/v1/events", content=b"\n".join(lines) + b"\n", headers={"Content-Type": "application/x-ndjson"}
        )
        body = decoded(response)
        if response.status_code in (409, 422) and isinstance(body, dict) and "rejected" in body:
            return body
        return cast(Json, checked(response, body))

    def decide(self, subject: str, version: int, events: Iterable[Mapping[str, Any] | bytes]) -> Json:
        """Append all events of a subject, or none where its newest event is not at position `version` any more.

        0 means that it has none. Raises VersionConflict, whose `version` is the actual one.
        """
        lines = [event if isinstance(event, bytes) else msgspec.json.encode(event) for event in events]
        response = self._send(
            "POST",
            "/v1/events",
            params={"subject": subject, "expected_version": version},
            content=b"[" + b",".join(lines) + b"]",
            headers={"Content-Type": "application/cloudevents-batch+json"},
        )
        return cast(Json, checked(response, decoded(response)))

    def import_files(self, files: Mapping[str, bytes], *, dry_run: bool = True, **options: Any) -> Json:
        """Have the service read files of other tools by their names; without `dry_run` what they hold is added to the log."""
        sent = [{"name": name, "content": content} for name, content in files.items()]
        return self._post(f"/v1/imports?dry_run={dry_run}".lower(), {"files": sent, **options}, timeout_s=300)

    def add_shipped_data(self, sources: Sequence[str] | None = None) -> Json:
        """Add published measurements that ship with the service, of some sources or all; what is there is left alone."""
        return self._post("/v1/shipped-data", {"sources": sources}, timeout_s=600)

    # Reading

    def events(
        self,
        *,
        after: int = 0,
        upto: int | None = None,
        types: Sequence[str] = (),
        subject: str | None = None,
        source: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[Json]:
        """Yield the stored events with `after` < position ≤ `upto`, recorded from `since` and before `until`."""
        request = {
            "upto": upto,
            "type": list(types) or None,
            "subject": subject,
            "source": source,
            "since": since.isoformat() if since else None,
            "until": until.isoformat() if until else None,
        }
        while True:
            page = self._get("/v1/events", after=after, limit=1000, **request)
            yield from page["events"]
            if page["next"] is None:
                return
            after = page["events"][-1]["position"]

    def event(self, identifier: str) -> Json:
        """Return one event; NotFound, or Expired where it held raw samples whose time has ended."""
        return self._get(f"/v1/events/{identifier}")

    def page(self, noun: str, *, cursor: str | None = None, limit: int = 100, **filters: Any) -> Json:
        """Return one page of a list, such as `runs` or `tables/failures`: `items`, `next_cursor`, and what stands beside."""
        return self._get(f"/v1/{noun}", cursor=cursor, limit=limit, **filters)

    def runs(self, **filters: Any) -> list[Json]:
        """Return the runs, newest first, filtered by kind, origin, hardware and outcome, with what is there of each."""
        return self._rows("runs", **filters)

    def run(self, run_id: str, **filters: Any) -> Json:
        """Return one run as `run`, why its rows are not valid, its environment, and what changed since the run before."""
        return self._get(f"/v1/runs/{quote(run_id, safe='')}", **filters)

    def samples(self, event_id: str, *, points: int | None = None) -> Json:
        """Return a measurement's raw samples, thinned for a picture; NotFound without any, Expired after their time."""
        return self._get(f"/v1/samples/{event_id}", points=points)

    def measurements(self, **filters: Any) -> list[Json]:
        """Return measurements, filtered by model, hardware, platform, precision and as_of."""
        return self._rows("measurements", **filters)

    def tests(self, **filters: Any) -> list[Json]:
        """Return test outcomes."""
        return self._rows("tests", **filters)

    def scaling(self, **filters: Any) -> list[Json]:
        """Return trainings on ranks with their efficiency against a measurement on one rank (strong scaling)."""
        return self._rows("scaling", **filters)

    def models(self, **filters: Any) -> list[Json]:
        """Return the models that are known; with `search` those that a text may mean, best first."""
        return self._rows("models", **filters)

    def model(self, name: str, **filters: Any) -> Json:
        """Return what is known of one model: what it is, where it was tried, what stands beside it."""
        return self._get(f"/v1/models/{quote(name)}", **filters)

    def variants(self, model: str, **filters: Any) -> ModelVariants:
        """Return a model and its variants side by side: speed, memory, size and quality, losers included."""
        return msgspec.convert(self._get("/v1/variants", model=model, **filters), ModelVariants)

    def deliveries(self, **filters: Any) -> Deliveries:
        """Return endpoints and what they delivered beside their promise; `model`, `endpoint` and `verdict` choose."""
        return msgspec.convert(self._get("/v1/deliveries", **filters), Deliveries)

    def gaps(self, **filters: Any) -> list[Json]:
        """Return what the catalogue has most of that was never tried, each with a command that begins to fill it."""
        return list(self._get("/v1/models/coverage", limit=1, **filters)["gaps"])

    def coverage(self, **filters: Any) -> Json:
        """Return what was tried of which family on which platform as `items`, and the largest `gaps` with commands."""
        page = self._get("/v1/models/coverage", limit=1000, **filters)
        rows = page["items"]
        while page["next_cursor"]:
            page = self._get("/v1/models/coverage", limit=1000, **{**filters, "cursor": page["next_cursor"]})
            rows += page["items"]
        return {**page, "items": rows}

    def hardware(self, **filters: Any) -> list[Json]:
        """Return the hardware that is known."""
        return self._rows("hardware", **filters)

    def one_hardware(self, name: str, **filters: Any) -> Json:
        """Return one hardware as `hardware`, with its environments, prices, machines and siblings; NotFound for another."""
        return self._get(f"/v1/hardware/{quote(name, safe='')}", **filters)

    def roofline(self, hardware: str, **filters: Any) -> Json:
        """Return the roofs of a hardware and the measured `points` under them, best of each model; `above` are over a roof."""
        return self._get(f"/v1/hardware/{quote(hardware, safe='')}/roofline", **filters)

    def device_kernels(
        self,
        hardware: str,
        *,
        platform: str | None = None,
        precision: str | None = None,
        operator: str | None = None,
        limit: int | None = None,
        as_of: int | str | None = None,
    ) -> DeviceKernels:
        """Return a hardware's roofs, measured kernels, and estimates of the standard ones; by default where most were timed."""
        path = f"/v1/hardware/{quote(hardware, safe='')}/kernels"
        filters = {"platform": platform, "precision": precision, "operator": operator, "limit": limit, "as_of": as_of}
        return msgspec.convert(self._get(path, **filters), DeviceKernels)

    def tried(self, hardware: str, **filters: Any) -> Json:
        """Return what was tried on a hardware by family as `items`, the `best` of each category, and its `siblings`."""
        return self._get(f"/v1/hardware/{quote(hardware, safe='')}/coverage", **filters)

    def operators(self, model: str, **filters: Any) -> Json:
        """Return what the time of a model's call goes into, operator by operator, on a `hardware` or by its work alone."""
        return self._get("/v1/operators", model=model, **filters)

    def prices(self, **filters: Any) -> list[Json]:
        """Return the offers that hold, cheapest device first, filtered by hardware, provider, region, spot and as_of."""
        return self._rows("prices", **filters)

    def instances(self, **filters: Any) -> list[Json]:
        """Return the instance types of clouds with their offers, filtered by hardware, provider and as_of."""
        return self._rows("instances", **filters)

    def kernels(self, **filters: Any) -> list[Json]:
        """Return timings of kernels; there may be millions: name an operator and a hardware, or take `table("kernels", …)`."""
        return self._rows("kernels", **filters)

    def environments(self, **filters: Any) -> list[Json]:
        """Return the environments that were seen."""
        return self._rows("environments", **filters)

    def compatibility(self, **filters: Any) -> list[Json]:
        """Return the matrix of tests and benchmarks: model × platform × precision, or by `level` family or category."""
        return self._rows("compatibility", **filters)

    def compatibility_matrix(self, **filters: Any) -> Json:
        """Return rows of families (or models, by `level`) with a cell a platform as `items`, and totals of all that match."""
        return self._get("/v1/compatibility/matrix", **filters)

    def claims(self, **filters: Any) -> list[Json]:
        """Return what documents claim, beside what was seen; filtered by model, platform and verdict."""
        return self._rows("claims", **filters)

    def compare_hardware(self, model: str, **filters: Any) -> Json:
        """Return what was measured or imported for a model on every hardware."""
        return self._get("/v1/comparisons/hardware", model=model, **filters)

    def compare_models(self, hardware: str, **filters: Any) -> Json:
        """Return what was measured or imported for every model on a hardware."""
        return self._get("/v1/comparisons/models", hardware=hardware, **filters)

    def compare_modes(self, model: str, **filters: Any) -> Json:
        """Return inference beside training for a model."""
        return self._get("/v1/comparisons/modes", model=model, **filters)

    def compare_batches(self, model: str, **filters: Any) -> Json:
        """Return how a model goes with the batch: the rows of the `lines` with most batches."""
        return self._get("/v1/comparisons/batches", model=model, **filters)

    def summary(self, **filters: Any) -> Json:
        """Return how much is known: counts of models, hardware, runs, measurements and tests."""
        return self._get("/v1/summary", **filters)

    def overview(self, **filters: Any) -> Json:
        """Return coverage by family and platform, freshness by day, and what fails most."""
        return self._get("/v1/overview", **filters)

    # Asking

    def recommend(self, model: str, **question: Any) -> Json:
        """Return the ranked answer to a question; its members are the flags of `assay recommend`."""
        return self._post("/v1/recommendations", {"model": model, **question})

    def choose(
        self, model: str, devices: Mapping[str, str] | Sequence[str | Mapping[str, Any]], **question: Any
    ) -> Choice:
        """Return which of the devices at hand to use now, and the order in which to fall back on the others.

        `devices` maps a program's own names to hardware, or lists slugs, or dictionaries with `hardware`, and with `name`,
        `platforms` and `free_memory_mb` where they are known. Other members are the flags of `assay recommend`.
        """
        answer = self.recommend(model, devices=asked_devices(devices), **{"top": 1, **question})
        return choice_of(msgspec.convert(answer, Recommendation))

    def recommendation(self, identifier: str) -> Json:
        """Return an answer that was recorded."""
        return self._get(f"/v1/recommendations/{identifier}")

    def predict(self, model: str, **question: Any) -> Json:
        """Return a configuration's prediction, what it is made of, and unless `faster=False` what would make it faster."""
        return self._post("/v1/predictions", {"model": model, **question})

    def suggest(
        self,
        budget_s: float,
        *,
        models: Sequence[str] | None = None,
        hardware: str | Sequence[str] | None = None,
        mode: str | None = None,
        platform: str | Sequence[str] | None = None,
        precision: str | Sequence[str] | None = None,
        batch_sizes: Sequence[int] | None = None,
        top: int | None = None,
        as_of: int | str | None = None,
    ) -> Suggestions:
        """Return the runs that lower the error of open questions most within `budget_s` seconds, with their plans.

        `hardware` is `own`, `all` or slugs, `top` the most runs to return, `as_of` a position of the log or a snapshot.
        """
        question = {
            "budget_s": budget_s,
            "models": models,
            "hardware": hardware,
            "mode": mode,
            "platform": platform,
            "precision": precision,
            "batch_sizes": batch_sizes,
            "top": top,
            "as_of": as_of,
        }
        return msgspec.convert(self._post("/v1/suggestions", question, timeout_s=300), Suggestions)

    def predictor(self, **filters: Any) -> Json:
        """Return the card of the predictor in force."""
        return self._get("/v1/predictor", **filters)

    def predictors(self, **filters: Any) -> Json:
        """Return every predictor, newest first, as `items`, and the `line` of those that answer, the one in force last."""
        return self._get("/v1/predictor/list", **filters)

    def accuracy(self, **filters: Any) -> Json:
        """Return how right the recorded predictions of a `target` were, by what was measured since, and whether that drifts."""
        return self._get("/v1/predictor/accuracy", **filters)

    def decisions(self) -> Json:
        """Return how good decisions are on held-out models: `machines`, `devices` and `fits`, beside rules of thumb."""
        return self._get("/v1/predictor/decisions")

    def train(self, *, force: bool = False) -> Json:
        """Train on what the tables hold and return the new predictor's card; takes minutes on large logs.

        `accepted` says whether it answers from here on: it does where it is not worse than the one in force, or with `force`.
        """
        return self._post("/v1/predictor/train", {"force": force}, timeout_s=3600, again=False)

    def train_on_machines(
        self,
        machines: Sequence[str],
        rank: int,
        *,
        wait_s: float = 120.0,
        force: bool = False,
        digest: str | None = None,
    ) -> Json:
        """Train together with other services: HOST:PORT of all, in the order of their ranks, and the rank of this one.

        Rank 0 returns what `train` does, or `replay` with a `digest`; the others return rank, position and digest.
        """
        body = {"machines": list(machines), "rank": rank, "wait_s": wait_s, "force": force, "digest": digest}
        return self._post("/v1/predictor/train/machines", body, timeout_s=3600, again=False)

    def rollback(self, digest: str | None = None, reason: str | None = None) -> Json:
        """Let the predictor before the one in force answer, or the one of this digest, its beginning, or `shipped`."""
        return self._post("/v1/predictor/rollback", {"digest": digest, "reason": reason}, again=False)

    def replay(self, digest: str) -> Json:
        """Train a predictor again at its position; `same` says whether it is bit for bit the same, `differences` what is not."""
        return self._post("/v1/predictor/replay", {"digest": digest}, timeout_s=3600)

    def evaluate(self, **question: Any) -> Json:
        """Return grouped scores of the predictor's method on the tables."""
        return self._post("/v1/predictor/evaluate", question, timeout_s=3600)

    # Named positions, and what the views mean

    def snapshots(self, **filters: Any) -> list[Json]:
        """Return the names of positions of the log, by name; wherever `as_of` takes a position it takes a name."""
        return self._rows("snapshots", **filters)

    def snapshot(self, name: str) -> Json:
        """Return one name and its `position`; NotFound where no position has it."""
        return self._get(f"/v1/snapshots/{quote(name, safe='')}")

    def create_snapshot(self, name: str, position: int | None = None, note: str | None = None) -> Json:
        """Name a position, the newest by default; NameTaken where the name stands for another."""
        return self._post("/v1/snapshots", {"name": name, "position": position, "note": note})

    def delete_snapshot(self, name: str) -> Json:
        """Take a name away; the log and its events stay as they are."""
        response = self._send("DELETE", f"/v1/snapshots/{quote(name, safe='')}")
        return cast(Json, checked(response, decoded(response)))

    def schema(self, view: str | None = None) -> Json:
        """Return the version of the views, and of all or one the type, unit and meaning of each column."""
        return self._get("/v1/schema/tables", view=view)

    # Operating

    def ready(self) -> Json:
        """Return position, lag and what else health has to say; raise ServiceUnavailable where it is not ready."""
        return self._get("/health/ready")

    def operations(self) -> Json:
        """Return the service's last 24 hours: throughput, lag, uses of tokens, archive, build and settings; for admins."""
        return self._get("/v1/operations")

    def wait_for(self, position: int, timeout_s: float = 60.0) -> None:
        """Return when the tables have reached a position; raise ProjectionBehind where they do not in time."""
        deadline = time.monotonic() + timeout_s
        while self.ready()["position"] < position:
            if time.monotonic() > deadline:
                raise errors.ProjectionBehind(
                    f"the tables have not reached position {position} within {timeout_s:.0f} s.",
                    remedy="`assay status` shows the lag and what holds it up.",
                )
            time.sleep(0.05)

    def rebuild(self, *, workers: int | None = None, ray: str | None = None) -> Json:
        """Project the whole log anew beside the old tables and swap, by several processes or a Ray cluster on request."""
        chosen = {name: value for name, value in (("workers", workers), ("ray", ray)) if value is not None}
        path = "/v1/projection/rebuild" + (f"?{urlencode(chosen)}" if chosen else "")
        return self._post(path, {}, timeout_s=24 * 3600, again=False)

    def record_operation(self, action: str, on: str | None = None, details: Mapping[str, Any] | None = None) -> Json:
        """Append to the audit trail what this program did beside the service; the service adds who it was."""
        return self._post("/v1/audit", {"action": action, "object": on, "details": details}, again=False)

    # Several models, and what fits

    def fleet(self, loads: Sequence[Mapping[str, Any]], **question: Any) -> FleetPlan:
        """Return the cheapest machines, in US dollars, for loads with a `model`, a rate and limits, as `POST /v1/fleets` does."""
        body = {"loads": [dict(load) for load in loads], **question}
        return msgspec.convert(self._post("/v1/fleets", body, timeout_s=300), FleetPlan)

    def fit(
        self,
        model: str,
        *,
        hardware: str | Sequence[str] | None = None,
        platform: str | Sequence[str] | None = None,
        precision: str | Sequence[str] | None = None,
        mode: str | None = None,
        max_memory_mb: float | None = None,
        sequence_length: int | None = None,
        image_size: int | None = None,
        images: int | None = None,
        audio_seconds: float | None = None,
        frames: int | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        config: Mapping[str, Any] | None = None,
        runtime: str | None = None,
        offload: bool | None = None,
        host_memory_mb: float | None = None,
        host_bandwidth_gb_per_s: float | None = None,
        as_of: int | str | None = None,
    ) -> CapacityAnswer:
        """Return the largest and best batch and the longest sequence that fit, by device, platform and precision.

        `hardware` is `own`, `all` or slugs. `max_memory_mb` is in 10^6 bytes, `image_size` the side of an image in pixels,
        `sequence_length`, `input_tokens` and `output_tokens` count tokens, `as_of` is a position of the log or a snapshot.
        Of a language model, `config` is its own config.json, `runtime` the engine that serves it, and with `offload` layers
        stay in the host's memory.
        """
        question = {
            "model": model,
            "hardware": hardware,
            "platform": platform,
            "precision": precision,
            "mode": mode,
            "config": config,
            "runtime": runtime,
            "offload": offload or None,
            "host_memory_mb": host_memory_mb,
            "host_bandwidth_gb_per_s": host_bandwidth_gb_per_s,
            "max_memory_mb": max_memory_mb,
            "sequence_length": sequence_length,
            "image_size": image_size,
            "images": images,
            "audio_seconds": audio_seconds,
            "frames": frames,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "as_of": as_of,
        }
        return msgspec.convert(self._post("/v1/fits", question, timeout_s=300), CapacityAnswer)
