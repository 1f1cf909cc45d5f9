"""Shared bundles through the service: whose they are, what is refused whole, what is held back, and what is taken out."""

from __future__ import annotations

import base64
import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx
import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from api.http.tokens import TokenStore
from domain.errors import AssayError, Forbidden, InvalidInput, NotFound
from domain.events import new_event
from domain.sharing.bundles import pack, shared_source
from domain.signing import key_id
from tests.integration.conftest import RunningService

MODEL, HARDWARE = "acme/shared-tiny", "acme-shared-one"
_WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'event'::regclass"


def key(number: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


def public(number: int) -> str:
    return base64.b64encode(key(number).public_key().public_bytes_raw()).decode()


def signer(number: int) -> str:
    return key_id(key(number).public_key().public_bytes_raw())


@pytest.fixture(scope="module")
def running(service_database: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    service = RunningService(tmp_path_factory.mktemp("shared"), service_database().url).start()
    yield service
    service.stop()


@pytest.fixture
def service(running: RunningService) -> Iterator[Any]:
    with running.client() as client:
        yield client


@pytest.fixture
def bundle(build: Any) -> Callable[..., bytes]:
    """Makes a bundle of one run with these medians in ms, a batch each, for a model of its own."""

    def make(number: int, *medians: float, model: str, run: str = "run", **parts: Any) -> bytes:
        rows = [
            build.measurement(median, model=model, batch_size=2**at, run_id=run, **{"hardware": HARDWARE, **parts})
            for at, median in enumerate(medians)
        ]
        started = new_event("assay.run.started.v1", {"run_id": run, "kind": "bench"}, source="x")
        return pack([started, *rows], key(number), tool="assay test")

    return make


def test_rows_come_in_as_imported_with_their_signer_and_twice_is_once(service: Any, bundle: Any) -> None:
    content = bundle(1, 1.5, 2.5, model="acme/once")
    dry = service.add_bundle(content, dry_run=True)
    assert (dry.accepted, dry.measurements, dry.last_position) == (3, 2, None)
    assert service.measurements(model="acme/once") == []
    added = service.add_bundle(content)
    assert (added.accepted, added.duplicate, added.trust, added.signer) == (3, 0, "unknown", signer(1))
    rows = service.measurements(model="acme/once")
    assert [row["origin"] for row in rows] == ["imported"] * 2
    assert {row["source"] for row in rows} == {shared_source(signer(1))}
    assert signer(1) in rows[0]["provenance_source"]
    assert (rows[0]["reference"], rows[0]["licence"]) == (added.digest, "CC0-1.0")
    position = service.ready()["log_position"]
    again = service.add_bundle(content)
    assert (again.accepted, again.duplicate, again.last_position) == (0, 3, None)
    assert service.ready()["log_position"] == position
    (entry,) = [item for item in service.shared() if item.bundle == added.digest]
    assert (entry.measurements, entry.held, entry.devices, entry.state) == (2, 0, [HARDWARE], "counts")


def test_another_signer_cannot_take_the_ids_of_the_first(service: Any, bundle: Any) -> None:
    first = bundle(1, 1.51, model="acme/ids")
    events = [json.loads(line) for line in gzip.decompress(first).splitlines()[1:]]
    for event in events:
        if "metrics" in event["data"]:
            event["data"]["metrics"]["latency_ms"] = {"p50": 1.6, "n": 60}
    service.add_bundle(pack(events, key(2), tool="assay test"))
    assert service.add_bundle(first).accepted == 2


@pytest.mark.parametrize("fault", ["forged", "altered", "cut", "lied", "imported", "orphan", "not-an-event"])
def test_a_bundle_that_is_not_whole_is_refused_and_nothing_of_it_stays(
    service: Any, bundle: Any, build: Any, fault: str
) -> None:
    good = bundle(1, 1.5, 2.5, model=f"acme/{fault}")
    manifest, *lines = gzip.decompress(good).splitlines()
    started = new_event("assay.run.started.v1", {"run_id": "run", "kind": "bench"}, source="x")
    row = build.measurement(model=f"acme/{fault}", run_id="run")
    broken = {
        "forged": lambda: gzip.compress(
            b"\n".join([manifest.replace(public(1).encode(), public(2).encode()), *lines]) + b"\n"
        ),
        "altered": lambda: gzip.compress(b"\n".join([manifest, lines[0], lines[1].replace(b"1.5", b"0.5")]) + b"\n"),
        "cut": lambda: good[:-20],
        "lied": lambda: gzip.compress(b"\n".join([manifest, *lines[:-1]]) + b"\n"),
        "imported": lambda: pack(
            [started, build.measurement(model=f"acme/{fault}", run_id="run", provenance={"origin": "imported"})],
            key(1),
            tool="t",
        ),
        "orphan": lambda: pack([started, {**row, "data": {**row["data"], "run_id": "another"}}], key(1), tool="t"),
        "not-an-event": lambda: pack([started, {**row, "data": {"run_id": "run"}}], key(1), tool="t"),
    }[fault]()
    position = service.ready()["log_position"]
    with pytest.raises(InvalidInput) as refused:
        service.add_bundle(broken)
    assert refused.value.field and refused.value.remedy
    assert service.ready()["log_position"] == position
    assert service.measurements(model=f"acme/{fault}") == []


def test_rows_that_contradict_physics_are_held_back_until_a_person_releases_them(
    service: Any, bundle: Any, build: Any
) -> None:
    content = bundle(3, 0.002, model="google-bert/bert-base-uncased", hardware="nvidia-l4", platform="cuda")
    added = service.add_bundle(content)
    (held,) = added.held
    assert held.rule == "impossible-speed"
    assert service.measurements(model="bert-base-uncased", hardware="nvidia-l4") == []
    (row,) = [item for item in service.quarantined() if item.event_id == held.event_id]
    assert (row.hardware, row.signer, row.bundle, row.latency_ms) == ("nvidia-l4", signer(3), added.digest, 0.002)
    before = service.ready()["log_position"]
    service.release(held.event_id, "the clock was checked")
    assert len(service.measurements(model="bert-base-uncased", hardware="nvidia-l4")) == 1
    assert service.measurements(model="bert-base-uncased", hardware="nvidia-l4", as_of=before) == []
    assert held.event_id not in {item.event_id for item in service.quarantined()}
    events = list(service.events(after=before))
    assert [event["type"].split(".")[1] for event in events] == ["measurement", "operation"]
    assert "released by local: the clock was checked" in events[0]["data"]["reason"]
    assert (events[1]["data"]["action"], events[1]["data"]["actor"]) == ("quarantine.released", "local")
    # What a person released stays so when it comes again.
    assert service.add_bundle(content).accepted == 0
    assert held.event_id not in {item.event_id for item in service.quarantined()}
    with pytest.raises(NotFound):
        service.release(held.event_id, "twice")
    with pytest.raises(NotFound):
        service.release("00000000-0000-8000-8000-000000000000", "nothing")


def test_rows_far_from_their_neighbours_or_copied_are_held_back(service: Any, bundle: Any, build: Any) -> None:
    model = "acme/neighbours"
    own = [
        build.measurement(10.0, model=model, batch_size=size, run_id="own", hardware=HARDWARE) for size in (1, 2, 4, 8)
    ]
    own[3]["data"]["metrics"]["latency_ms"] = {"p50": 12.3456789, "n": 60}
    service.wait_for(service.post_events(own)["last_position"])
    added = service.add_bundle(bundle(4, 29.0, 31.0, 3.4, 12.3456789, model=model))
    assert {item.rule for item in added.held} == {"far-from-neighbours", "copied"}
    reasons = sorted(item.reason for item in added.held)
    assert len(reasons) == 2 and "12.3457" in reasons[0] and "31 ms" in reasons[1]


def test_strangers_hold_back_nothing_of_those_who_are_trusted(service: Any, bundle: Any) -> None:
    model = "acme/flooded"
    service.add_bundle(bundle(5, 1.0, model=model))
    stranger = service.add_bundle(bundle(6, 10.0, model=model))
    assert [item.rule for item in stranger.held] == ["far-from-neighbours"]
    service.trust_signer(public(7), "Jane's lab")
    trusted = service.add_bundle(bundle(7, 10.5, model=model))
    assert trusted.held == [] and (trusted.trust, trusted.name) == ("trusted", "Jane's lab")
    assert [item.rule for item in service.add_bundle(bundle(8, 1.01, model=model)).held] == ["far-from-neighbours"]
    assert service.distrust_signer("Jane's lab")["level"] == "unknown"


def test_the_most_trusted_row_answers_whatever_came_later(service: Any, bundle: Any) -> None:
    model = "acme/trust-order"

    def first(**at: Any) -> dict[str, Any]:
        return service.recommend(model, hardware=[HARDWARE], sequence_length=128, **at)["ranked"][0]

    service.add_bundle(bundle(10, 2.0, model=model))
    service.add_bundle(bundle(11, 1.0, model=model))
    assert first()["latency_ms"] == 1.0 and "nobody here trusts" in first()["why"]
    before = service.ready()["log_position"]
    service.trust_signer(signer(10), "the first")
    answer = first()
    assert answer["latency_ms"] == 2.0 and len(answer["evidence"]) == 1 and "the first" in answer["why"]
    assert first(as_of=before)["latency_ms"] == 1.0
    service.distrust_signer(signer(10))
    assert first()["latency_ms"] == 1.0
    entry = next(item for item in service.signers() if item.key == signer(10))
    assert (entry.trust, entry.bundles, entry.measurements) == ("unknown", 1, 1)


def test_the_installation_s_own_signer_goes_before_all_others(
    running: RunningService, service: Any, bundle: Any
) -> None:
    (running.home / "sharing_key.pub").write_text(public(12) + "\n")
    service.trust_signer(public(13), "trusted")
    model = "acme/own-first"
    service.add_bundle(bundle(12, 3.0, model=model))
    assert service.add_bundle(bundle(13, 3.1, model=model)).held == []
    assert service.recommend(model, hardware=[HARDWARE])["ranked"][0]["latency_ms"] == 3.0
    assert next(item.trust for item in service.signers() if item.key == signer(12)) == "own"


def test_removed_bundles_leave_the_answers_and_come_back(service: Any, bundle: Any) -> None:
    first, second = bundle(14, 1.0, model="acme/removed"), bundle(14, 1.0, 1.1, model="acme/kept", run="other")
    digest = service.add_bundle(first).digest
    service.add_bundle(second)
    assert service.remove_shared(digest.removeprefix("sha256:")[:12], "their clock was wrong").changed == 1
    assert service.measurements(model="acme/removed") == [] and len(service.measurements(model="acme/kept")) == 2
    assert [item.state for item in service.shared() if item.signer == signer(14)] == ["removed", "counts"]
    assert service.remove_shared(signer(14), "all of them").changed == 1
    assert service.measurements(model="acme/kept") == []
    with pytest.raises(NotFound):
        service.remove_shared(signer(14), "again")
    with pytest.raises(NotFound):
        service.remove_shared("sha256:", "everything")
    assert service.add_bundle(first).restored == 1
    assert len(service.measurements(model="acme/removed")) == 1 and service.measurements(model="acme/kept") == []


def test_killed_in_the_middle_of_an_add_all_of_a_bundle_is_there_or_nothing(
    fresh_service: Any, database: Any, build: Any
) -> None:
    rows = [build.measurement(1.0 + number / 1e4, batch_size=number, run_id="run") for number in range(1, 801)]
    rows.append(build.measurement(0.0001, batch_size=802, run_id="run"))
    content = pack(
        [new_event("assay.run.started.v1", {"run_id": "run", "kind": "bench"}, source="x"), *rows], key(1), tool="t"
    )
    service = fresh_service().start()

    def send() -> None:
        with suppress(AssayError), service.client(patience_s=0) as client:
            client.add_bundle(content)

    sender = threading.Thread(target=send)
    with psycopg.connect(database.url) as connection:
        # Reading goes on, and the transaction of the bundle waits here, with some of it done.
        connection.execute("LOCK TABLE event IN SHARE MODE")
        sender.start()
        until = time.monotonic() + 30
        while connection.execute(_WAITING).fetchone() == (0,):
            assert time.monotonic() < until
            time.sleep(0.01)
        service.kill()
        sender.join()
    service.start()
    with service.client() as client:
        client.wait_for(client.ready()["log_position"])
        count, held = len(client.measurements()), len(client.quarantined())
    assert (count, held) in ((0, 0), (800, 1))
    with service.client() as client:
        added = client.add_bundle(content)
        assert added.accepted + added.duplicate == 802
        assert (len(client.measurements()), len(client.quarantined())) == (800, 1)


def test_scopes_guard_the_routes_and_nobody_appends_as_a_signer(
    fresh_service: Any, database: Any, bundle: Any, build: Any
) -> None:
    store = TokenStore(database.url)
    admin, _ = store.create("root", ["admin"])
    append, _ = store.create("runner", ["append"])
    read, _ = store.create("reader", ["read"])
    bound, _ = store.create("bound", ["append"], source="urn:acme:bound")
    service = fresh_service().start_with(admin)
    content = {"content": base64.b64encode(bundle(1, 1.0, model=MODEL)).decode()}

    def status(method: str, path: str, secret: str, **options: Any) -> int:
        headers = {"Authorization": f"Bearer {secret}"}
        return httpx.request(method, service.url + path, headers=headers, **options).status_code

    assert status("POST", "/v1/shared", read, json=content) == 403
    assert status("POST", "/v1/shared", bound, json=content) == 403
    assert status("POST", "/v1/shared", append, json=content) == 200
    assert status("DELETE", f"/v1/shared/{signer(1)}?reason=mine", append) == 403
    assert status("GET", "/v1/shared", read) == 200
    assert status("POST", "/v1/signers", append, json={"key": public(1), "name": "me"}) == 403
    assert status("POST", "/v1/signers", admin, json={"key": "not a key", "name": "me"}) == 422
    assert status("DELETE", "/v1/quarantine/x?reason=mine", append) == 403
    forged = build.measurement(1.0, source=shared_source(signer(1)))
    service.token = append
    with service.client() as client, pytest.raises(Forbidden) as refused:
        client.post_events([forged])
    assert refused.value.field == "source"
