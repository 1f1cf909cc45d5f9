"""Who may append which event: the documented table row by row, and the ownership rules, over HTTP."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from api.http.tokens import TokenStore
from assay.client import Client
from domain.errors import AssayError, Forbidden, NotFound
from domain.events import DATA_TYPES, new_event
from domain.permissions import OTHER_TYPES, PERMISSIONS, SERVICE_SOURCE
from ingest.log.artifacts import ArtifactStore

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden"
VICTIM, THIEF = "urn:acme:victim", "urn:acme:thief"
UNKNOWN_DIGEST = "sha256:" + "0" * 64


class Guarded:
    """A service with tokens; posts events with any of them and returns the receipt, or the refusals."""

    def __init__(self, service: Any, secrets: dict[str, str], artifact: str) -> None:
        self.service = service
        self.secrets = secrets
        self.artifact = artifact

    def bearer(self, token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secrets[token]}"}

    def post(self, token: str, *events: dict[str, Any]) -> dict[str, Any]:
        with Client(self.service.url, token=self.secrets[token], patience_s=5) as client:
            try:
                answer = client.post_events(events)
            except AssayError as error:
                answer = {"accepted": 0, "rejected": error.rejected, "status": error.status}
            position = answer.get("last_position")
            if position is not None:
                with self.service.client() as admin:
                    admin.wait_for(position)
            return answer

    def refusal(self, token: str, event: dict[str, Any]) -> dict[str, Any]:
        """Post one event that must be refused, and return why."""
        answer = self.post(token, event)
        assert answer["accepted"] == 0, answer
        (refused,) = answer["rejected"]
        return refused


@pytest.fixture(scope="module")
def guarded(service_database: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    from tests.integration.conftest import RunningService

    database = service_database()
    store = TokenStore(database.url)
    secrets = {
        "admin": store.create("root", ["admin"])[0],
        "append": store.create("append", ["append"])[0],
        "jobs": store.create("jobs", ["append", "jobs"])[0],
        "read": store.create("read", ["read"])[0],
        "victim": store.create("victim", ["append"], source=VICTIM)[0],
        "thief": store.create("thief", ["append"], source=THIEF)[0],
    }
    service = RunningService(tmp_path_factory.mktemp("guarded"), database.url).start_with(secrets["admin"])
    yield Guarded(service, secrets, ArtifactStore(database.url).put(b"a predictor", {}, "predictor"))
    service.stop()


def name(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def golden(type_: str, **envelope: Any) -> dict[str, Any]:
    """Return the example of a type as a new event."""
    example = msgspec.json.decode((GOLDEN / f"{type_}.json").read_bytes())
    return new_event(type_, example["data"], **{"source": THIEF, **envelope})


def test_bound_token_cannot_retract_another_source(guarded, build):
    measured = build.measurement(source=VICTIM, run_id=name("run"))
    assert guarded.post("victim", measured)["accepted"] == 1
    for target in ({"event_id": measured["id"]}, {"run_id": measured["data"]["run_id"]}):
        retraction = new_event("assay.measurement.retracted.v1", {"reason": "no", **target}, source=THIEF)
        assert guarded.refusal("thief", retraction)["problem"] == "forbidden"
    with guarded.service.client() as admin:
        assert [row["event_id"] for row in admin.measurements(source=VICTIM)].count(measured["id"]) == 1


def test_audit_event_is_refused_from_everyone(guarded):
    forged = new_event("assay.operation.performed.v1", {"action": "token.created", "actor": "root"}, source=THIEF)
    assert guarded.refusal("thief", forged)["field"] == "type"
    assert guarded.refusal("admin", forged)["field"] == "type"


def test_bound_token_cannot_put_a_predictor_in_force(guarded):
    chosen = new_event("assay.predictor.chosen.v1", {"digest": UNKNOWN_DIGEST, "by": "root"}, source=THIEF)
    assert guarded.refusal("thief", chosen)["field"] == "type"


def test_bound_token_cannot_redirect_a_catalogue_name(guarded):
    alias = {"kind": "model", "alias": "gpt2", "canonical": "acme/evil"}
    assert guarded.refusal("thief", new_event("assay.alias.declared.v1", alias, source=THIEF))["field"] == "data.alias"


def documented() -> dict[str, tuple[str, str]]:
    """Return scope and rule of each type as docs/events.md has them."""
    text = (ROOT / "docs" / "events.md").read_text()
    section = text.split("## Who may append what", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (?:`([^`]+)`|(any other type)) \| `?([^`|]+?)`? \| (\w+) \|$", section, re.MULTILINE)
    return {type_ or other: (scope, rule) for type_, other, scope, rule in rows}


def test_documented_table_is_the_domain_table():
    domain = {type_: (row.scope or "nobody", row.rule) for type_, row in PERMISSIONS.items()}
    assert documented() == {**domain, "any other type": (OTHER_TYPES.scope, OTHER_TYPES.rule)}
    assert set(PERMISSIONS) == set(DATA_TYPES)


@pytest.mark.parametrize("type_", [*DATA_TYPES, "any other type"])
def test_each_row_over_http(guarded, type_):
    scope, rule = documented()[type_]
    allowed = {"append": {"append", "jobs", "admin"}, "jobs": {"jobs", "admin"}, "admin": {"admin"}, "nobody": set()}
    for token in ("append", "jobs", "admin"):
        event = own_example(guarded, type_)
        answer = guarded.post(token, event)
        if token in allowed[scope]:
            assert answer["accepted"] == 1, (token, answer)
        else:
            (refused,) = answer["rejected"]
            assert (answer["status"], refused["problem"], refused["field"]) == (403, "forbidden", "type")
    with pytest.raises(Forbidden), Client(guarded.service.url, token=guarded.secrets["read"]) as reader:
        reader.post_events([own_example(guarded, type_)])
    if scope != "nobody":
        # Whatever the scope, a bound token speaks for its own source alone.
        assert guarded.refusal("thief", own_example(guarded, type_))["field"] == "source"
    assert rule in {"source", "run", "target", "name", "artifact", "service"}


def own_example(guarded: Guarded, type_: str) -> dict[str, Any]:
    """Return an event of a type that touches only what its own source brought."""
    source = f"urn:acme:{name('own')}"
    if type_ == "any other type":
        return new_event("acme.thing.seen.v1", {"n": 1}, source=source)
    event = golden(type_, source=source)
    data = event["data"]
    if "run_id" in data:
        data["run_id"] = name("run")
    if type_ == "assay.measurement.retracted.v1":
        measured = golden("assay.measurement.recorded.v1", source=source)
        measured["data"]["run_id"] = name("run")
        assert guarded.post("admin", measured)["accepted"] == 1
        event["data"] = {"reason": "wrong clock", "event_id": measured["id"]}
    if type_ == "assay.alias.declared.v1":
        model = name("acme/model")
        described = new_event("assay.model.described.v1", {"model": {"id": model}}, source=source)
        assert guarded.post("admin", described)["accepted"] == 1
        event["data"] = {"kind": "model", "alias": model, "canonical": "acme/canonical"}
    if "digest" in data and "predictor" in type_:
        data["digest"] = guarded.artifact
    return event


def test_new_version_of_a_reserved_type_needs_its_scope(guarded):
    forged = new_event("assay.operation.performed.v2", {"action": "token.created", "actor": "root"}, source=THIEF)
    assert guarded.refusal("thief", forged)["field"] == "type"
    snapshot = new_event("assay.snapshot.named.v9", {"name": "release", "position": 1}, source=THIEF)
    assert guarded.refusal("thief", snapshot)["field"] == "type"


def test_service_source_is_reserved(guarded, build):
    assert guarded.refusal("append", build.measurement(source=SERVICE_SOURCE))["field"] == "source"


def test_own_facts_can_be_retracted(guarded, build):
    run_id = name("run")
    first, second = (build.measurement(source=VICTIM, run_id=run_id) for _ in range(2))
    assert guarded.post("victim", first, second)["accepted"] == 2
    for target in ({"event_id": first["id"]}, {"run_id": run_id}):
        retraction = new_event("assay.measurement.retracted.v1", {"reason": "battery", **target}, source=VICTIM)
        assert guarded.post("victim", retraction)["accepted"] == 1
    with guarded.service.client() as admin:
        assert admin.measurements(run_id=run_id) == []


def test_target_in_the_same_body_is_found(guarded, build):
    measured = build.measurement(source=VICTIM, run_id=name("run"))
    by_id, by_run = (
        new_event("assay.measurement.retracted.v1", {"reason": "battery", **target}, source=VICTIM)
        for target in ({"event_id": measured["id"]}, {"run_id": measured["data"]["run_id"]})
    )
    assert guarded.post("victim", measured, by_id, by_run)["accepted"] == 3


def test_event_of_the_body_does_not_stand_for_that_of_the_log(guarded, build):
    measured = build.measurement(source=VICTIM, run_id=name("run"))
    assert guarded.post("victim", measured)["accepted"] == 1
    disguise = {**measured, "source": THIEF}
    retraction = new_event("assay.measurement.retracted.v1", {"reason": "no", "event_id": measured["id"]}, source=THIEF)
    answer = guarded.post("thief", disguise, retraction)
    assert [refused["problem"] for refused in answer["rejected"]] == ["conflicting-event", "forbidden"]


def test_unknown_target_cannot_be_retracted(guarded):
    for target in ({"event_id": str(uuid.uuid4())}, {"event_id": "nope"}, {"run_id": name("run")}):
        retraction = new_event("assay.measurement.retracted.v1", {"reason": "no", **target}, source=VICTIM)
        refused = guarded.refusal("victim", retraction)
        assert (refused["problem"], refused["field"]) == ("forbidden", f"data.{next(iter(target))}")


def test_run_of_another_source_cannot_be_finished(guarded):
    run_id = name("run")
    started = new_event("assay.run.started.v1", {"run_id": run_id, "kind": "bench"}, source=VICTIM, subject=run_id)
    assert guarded.post("victim", started)["accepted"] == 1
    end = {"run_id": run_id, "outcome": "stopped", "reason": "no"}
    assert guarded.refusal("thief", new_event("assay.run.finished.v1", end, source=THIEF))["field"] == "data.run_id"
    assert guarded.post("victim", new_event("assay.run.finished.v1", end, source=VICTIM))["accepted"] == 1


def test_name_used_by_another_source_cannot_be_redirected(guarded, build):
    shared, own, unused = name("acme/shared"), name("acme/own"), name("acme/unused")
    assert guarded.post("victim", build.measurement(source=VICTIM, model=shared))["accepted"] == 1
    mine = [build.measurement(source=THIEF, model=model) for model in (shared, own)]
    assert guarded.post("thief", *mine)["accepted"] == 2

    def alias(model: str) -> dict[str, Any]:
        data = {"kind": "model", "alias": model, "canonical": "acme/evil"}
        return new_event("assay.alias.declared.v1", data, source=THIEF)

    for model in (shared, unused, "bert-base-uncased"):
        assert guarded.refusal("thief", alias(model))["field"] == "data.alias"
    assert guarded.post("thief", alias(own))["accepted"] == 1


def test_unknown_predictor_is_refused_to_an_admin_too(guarded):
    for type_ in ("assay.predictor.chosen.v1", "assay.predictor.trained.v1"):
        event = golden(type_)
        event["data"]["digest"] = UNKNOWN_DIGEST
        refused = guarded.refusal("admin", event)
        assert (refused["problem"], refused["field"]) == ("invalid-event", "data.digest")


def test_samples_of_another_source_are_not_shown_as_ones_own(guarded, build):
    digest = "sha256:" + uuid.uuid4().hex * 2
    measured = build.measurement(source=VICTIM, run_id=name("run"), samples={"digest": digest, "n": 2})
    forged, true = (
        new_event("assay.samples.recorded.v1", {"run_id": "r", "digest": digest, "n": 2, "values": values}, source=by)
        for by, values in ((THIEF, [9.0, 9.0]), (VICTIM, [1.0, 2.0]))
    )
    assert guarded.post("victim", measured)["accepted"] == 1
    assert guarded.post("thief", forged)["accepted"] == 1
    with guarded.service.client() as admin:
        with pytest.raises(NotFound):
            admin.samples(measured["id"])
        assert guarded.post("victim", true)["accepted"] == 1
        assert admin.samples(measured["id"])["event_id"] == true["id"]


def test_open_service_takes_all_but_the_audit_trail(client, build):
    measured = build.measurement(source="urn:one", run_id=name("run"))
    retraction = build.retraction(event_id=measured["id"])
    alias = build.alias(name("acme/any"), "gpt2")
    assert client.post_events([measured, retraction, alias])["rejected"] == []
    forged = build.event("assay.operation.performed.v1", {"action": "token.created", "actor": "root"})
    with pytest.raises(Forbidden):
        client.post_events([forged])


def test_operation_beside_the_service_is_recorded_in_the_name_of_the_token(guarded):
    with Client(guarded.service.url, token=guarded.secrets["victim"]) as victim:
        position = victim.record_operation("results.migrated", "results", {"files": 3})["position"]
        with pytest.raises(AssayError):
            victim.record_operation("token.created", "root")
    with guarded.service.client() as admin:
        (event,) = admin.events(after=position - 1, upto=position)
    assert (event["source"], event["data"]["actor"], event["data"]["details"]) == (
        SERVICE_SOURCE, "victim", {"files": 3},
    )  # fmt: skip


def test_node_without_tables_judges_events_and_refuses_runs(database, fresh_service, build):
    store = TokenStore(database.url)
    secret, _ = store.create("victim", ["append"], source=VICTIM)
    service = fresh_service("--role", "ingest").start_with(store.create("root", ["admin"])[0])
    measured = build.measurement(source=VICTIM)
    retractions = [
        new_event("assay.measurement.retracted.v1", {"reason": "battery", **target}, source=VICTIM)
        for target in ({"event_id": measured["id"]}, {"run_id": measured["data"]["run_id"]})
    ]
    with Client(service.url, token=secret) as client:
        answer = client.post_events([measured, *retractions])
    assert answer["accepted"] == 2
    assert [(refused["index"], refused["field"]) for refused in answer["rejected"]] == [(2, "data.run_id")]


def test_every_route_that_writes_asks_for_a_scope(guarded):
    asks_only = {
        "/v1/recommendations", "/v1/predictions", "/v1/query", "/v1/fits", "/v1/fleets", "/v1/suggestions",
    }  # fmt: skip
    # A page has the secret of its link, and no token.
    asks_only |= {"/v1/links/claims", "/v1/links/tasks", "/v1/links/results", "/v1/links/failures"}
    paths = httpx.get(f"{guarded.service.url}/schema/openapi.json", headers=guarded.bearer("admin")).json()["paths"]
    changing = {(method.upper(), path) for path, methods in paths.items() for method in methods if method != "get"}
    needs: dict[str, set[str]] = {}
    for method, path in sorted(changing):
        if path in asks_only:
            continue
        answer = httpx.request(
            method, guarded.service.url + path.replace("{", "").replace("}", ""), headers=guarded.bearer("read")
        )
        assert answer.status_code == 403, (method, path, answer.text)
        needs.setdefault(re.findall(r"scope (\w+)", answer.json()["detail"])[0], set()).add(f"{method} {path}")
    assert needs == {
        "append": {
            "POST /v1/events", "POST /v1/snapshots", "POST /v1/baselines", "POST /v1/audit", "POST /v1/imports", "POST /v1/shipped-data",
            "POST /v1/shared", "POST /v1/alerts/{alert_id}/state", "POST /v1/peers/{name}/pages",
            "POST /v1/peers/{name}/problems",
        },
        "jobs": {
            *(f"POST /v1/predictor/{verb}" for verb in ("train", "evaluate", "rollback", "replay")),
            "POST /v1/jobs", "POST /v1/jobs/{job_id}/cancel", "POST /v1/jobs/{job_id}/retry", "POST /v1/jobs/schedules",
            "DELETE /v1/jobs/schedules/{name}",
        },
        "work": {"POST /v1/jobs/claims", "POST /v1/jobs/claims/{lease}/heartbeat", "POST /v1/jobs/claims/{lease}/finish"},
        "admin": {
            "POST /v1/projection/rebuild", "POST /v1/tokens", "DELETE /v1/tokens/{token_id}", "POST /v1/keys",
            "DELETE /v1/keys/{key_id}", "DELETE /v1/snapshots/{name}", "DELETE /v1/baselines/{name}", "DELETE /v1/shared/{name}",
            "DELETE /v1/quarantine/{event_id}", "POST /v1/signers", "DELETE /v1/signers/{key}",
            "POST /v1/predictor/train/machines", "POST /v1/peers", "DELETE /v1/peers/{name}",
            "POST /v1/links", "DELETE /v1/links/{name}", "PUT /v1/links/files/{digest}",
            "POST /v1/browser-devices/{device}", "DELETE /v1/browser-devices/{device}",
        },
    }  # fmt: skip
