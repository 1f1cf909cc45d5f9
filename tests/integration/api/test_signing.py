"""Signed events: the key of a runner, its registration, and what a service makes of a signature."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from api.http.admission import Admission, attested
from api.http.keys import KeyStore, SigningKey
from api.http.tokens import TokenStore
from assay.cli import run
from assay.cli.measure.destination import destination
from assay.client import Client
from domain.canonical import canonical
from domain.errors import AssayError, Forbidden, UsageError
from domain.events import Decoded, decode_event, encode_event, uuid7
from domain.permissions import Token
from domain.signing import key_id, sign, signed_bytes, verifies
from runner.machine.signing import KEY_FILE, PublicKey, find_key, make_key, signer

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
SOURCE, OTHER = "urn:acme:signing", "urn:acme:other"


@pytest.fixture(scope="module")
def guarded(service_database: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service with tokens; its client is the admin, `append` the secret of a token for any source."""
    from tests.integration.conftest import RunningService

    database = service_database()
    store = TokenStore(database.url)
    running = RunningService(tmp_path_factory.mktemp("guarded"), database.url)
    running.append = store.create("append", ["append"])[0]  # type: ignore[attr-defined]
    yield running.start_with(store.create("root", ["admin"])[0])
    running.stop()


@pytest.fixture
def key(tmp_path: Path) -> Any:
    return make_key(tmp_path)


def test_key_is_made_once_and_readable_by_its_owner_alone(tmp_path):
    assert find_key(tmp_path) is None
    made = PublicKey(make_key(tmp_path))
    assert PublicKey(make_key(tmp_path)).text == made.text
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]
    (tmp_path / KEY_FILE).write_text("not a key")
    with pytest.raises(UsageError):
        signer(tmp_path)


def test_signature_covers_everything_but_itself(key, build):
    event = sign(build.measurement(source=SOURCE), key)
    public = key.public_key().public_bytes_raw()
    assert event["signer"] == key_id(public)
    assert signed_bytes(event) == canonical({name: event[name] for name in event if name != "signature"})
    respelled = json.loads(json.dumps(event, indent=1, sort_keys=True))
    assert verifies(respelled, public)
    for name in event.keys() - {"signature"}:
        changed = {"model": {}} if name == "data" else event[name] + "x"
        assert not verifies({**event, name: changed}, public), name
    for signature in (7, "", "AAAA", "é", event["signature"][:-4]):
        assert not verifies({**event, "signature": signature}, public)


def test_signed_samples_take_the_short_way_through_the_gate(key):
    from domain.events import _as_written

    event = json.loads((GOLDEN / "assay.samples.recorded.v1.json").read_text())
    signed = encode_event(sign(event, key))
    assert _as_written(signed) is not None
    assert decode_event(signed).data == decode_event(encode_event(event)).data


def test_detect_makes_the_key_and_shows_its_public_half(tmp_path, monkeypatch, capsys):
    from assay.cli.measure.detecting import _tell_identity

    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    monkeypatch.setenv("ASSAY_SOURCE", SOURCE)
    _tell_identity({"fingerprint": "0" * 16})
    key = PublicKey(make_key(tmp_path))
    said = capsys.readouterr().err.replace("\n", "")
    assert all(word in said for word in (SOURCE, key.id, key.text))
    assert (tmp_path / KEY_FILE).read_text() not in said


def test_signed_events_are_checked_at_the_door(guarded, tmp_path, build):
    known, foreign, stranger = (make_key(folder(tmp_path, name)) for name in ("known", "foreign", "stranger"))
    with guarded.client() as admin, Client(guarded.url, token=guarded.append) as runner:
        registered = admin.register_key("runner-7", SOURCE, PublicKey(known).text)
        assert registered["id"] == PublicKey(known).id
        admin.register_key("runner-8", OTHER, PublicKey(foreign).text)
        with pytest.raises(Forbidden):
            runner.register_key("mine", SOURCE, PublicKey(stranger).text)
        with pytest.raises(UsageError):
            admin.register_key("again", OTHER, PublicKey(known).text)
        with pytest.raises(AssayError):
            admin.register_key("nothing", SOURCE, "AAAA")

        def post(by: Any, **changed: Any) -> dict[str, Any]:
            answer: dict[str, Any] = runner.post_events([{**sign(build.measurement(source=SOURCE), by), **changed}])
            return answer

        assert (post(known)["accepted"], post(known)["warnings"]) == (1, [])
        for by in (stranger, foreign):
            assert [warning["field"] for warning in post(by)["warnings"]] == ["signer"]
        (refused,) = post(known, subject="another")["rejected"]
        assert (refused["problem"], refused["field"]) == ("invalid-event", "signature")
        assert admin.revoke_key(registered["id"])["revoked_at"] is not None
        assert [warning["field"] for warning in post(known)["warnings"]] == ["signer"]
        actions = [event["data"] for event in admin.events(types=["assay.operation.performed.v1"])]
        assert [(one["action"], one["object"]) for one in actions if one["details"].get("name") == "runner-7"] == [
            ("key.registered", registered["id"]), ("key.revoked", registered["id"]),
        ]  # fmt: skip
        assert "signature" in str(admin.events(types=["assay.measurement.recorded.v1"]).__next__())


def folder(parent: Path, name: str) -> Path:
    made = parent / name
    made.mkdir()
    return made


def registered(key: Any, **changed: Any) -> dict[str, SigningKey]:
    public = key.public_key().public_bytes_raw()
    row = {
        "id": key_id(public), "public_key": public, "source": SOURCE, "name": "runner", "revoked_at": None,
        "created_at": datetime.now(UTC), **changed,
    }  # fmt: skip
    return {row["id"]: SigningKey(**row)}


def decoded(event: dict[str, Any]) -> Decoded:
    return decode_event(encode_event(event))


def test_attestation_says_how_far_a_source_is_known(key, build):
    plain = build.measurement(source=SOURCE)
    event = decoded(sign(plain, key))
    assert attested(event, registered(key)).attestation == "signed"
    for keys in ({}, registered(key, source=OTHER), registered(key, revoked_at=datetime.now(UTC))):
        unproven = attested(event, keys)
        assert (unproven.attestation, unproven.warnings) == ("anonymous", ("signer",))
    assert attested(decoded({**plain, "data": {**plain["data"], "signature": "x"}}), {}).attestation == "anonymous"

    def token(source: str | None) -> Token:
        return Token(
            id="1", prefix="assay_", name="t", source=source, scopes=["append"], expires_at=None, revoked_at=None,
            created_at=datetime.now(UTC),
        )  # fmt: skip

    attestations = [Admission(None, who).check(event) for who in (None, token(None), token(SOURCE))]
    assert [one.attestation for one in attestations] == ["anonymous", "anonymous", "bound"]


def test_attestation_is_shown_wherever_a_source_is(guarded, tmp_path, build, monkeypatch, capsys):
    """Four ways into the log, read from the event, the tables, the list of runs, a report and the command line."""
    source = "urn:acme:attested"
    key = make_key(tmp_path)
    with guarded.client() as admin:
        admin.register_key("attested", source, PublicKey(key).text)
        bound = admin.create_token("bound", ["append"], source=source)["secret"]
        ways = {"anonymous": guarded.append, "bound": bound, "signed": bound}
        rows: dict[str, str] = {}
        for attestation, secret in ways.items():
            run_id = uuid7()
            started = {
                "run_id": run_id, "kind": "bench", "hardware": [{"id": "acme-one", "kind": "cpu", "count": 1}],
                "provenance": {"origin": "measured"},
            }  # fmt: skip
            events = [
                build.event("assay.run.started.v1", started, source=source, subject=run_id),
                build.measurement(source=source, run_id=run_id),
            ]
            if attestation == "signed":
                events = [sign(event, key) for event in events]
            with Client(guarded.url, token=secret) as runner:
                answer = runner.post_events(events)
            assert answer["rejected"] == [], attestation
            admin.wait_for(answer["last_position"])
            assert [admin.event(event["id"])["attestation"] for event in events] == [attestation] * 2
            (row,) = admin.page("tables/measurements", run_id=run_id)["items"]
            (fact,) = admin.page("measurements", run_id=run_id)["items"]
            assert row["attestation"] == fact["attestation"] == admin.run(run_id)["run"]["attestation"] == attestation
            rows[run_id] = attestation
        listed = {run["run_id"]: run["attestation"] for run in admin.runs() if run["source"] == source}
        assert listed == rows
        (operation, *_) = admin.events(types=["assay.operation.performed.v1"])
        assert operation["attestation"] == "service"
    monkeypatch.setenv("ASSAY_TOKEN", guarded.token)
    for run_id, attestation in rows.items():
        assert run(["runs", "show", run_id, "--server", guarded.url]) == 0
        assert f"{source} ({attestation})" in capsys.readouterr().out
        report = tmp_path / f"{run_id}.json"
        assert run(["report", "run", run_id, "--out", str(report), "--server", guarded.url]) == 0
        assert {row["attestation"] for row in json.loads(report.read_text())["evidence"]} == {attestation}
        capsys.readouterr()


def test_what_the_service_writes_is_attested_as_its_own():
    from api.background.audit import operation

    assert operation("token.created", "root").attestation == "service"


def test_runs_are_signed_before_the_file_and_the_spool(service, client, key, tmp_path, build, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    public = key.public_key().public_bytes_raw()
    measured, sent = build.measurement(source=SOURCE), build.measurement(source=SOURCE)
    with destination(tmp_path / "out.ndjson", False, None, None) as deliver:
        deliver(measured)
    (line,) = (tmp_path / "out.ndjson").read_bytes().splitlines()
    assert verifies(json.loads(line), public)
    with destination(None, False, service.url, None) as deliver:
        deliver(sent)
    stored = client.event(sent["id"])
    assert stored["attestation"] == "anonymous"
    sent_members = {name: stored[name] for name in stored if name not in ("position", "recorded_at", "attestation")}
    assert verifies(sent_members, public)


def test_keys_on_the_command_line(database, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ASSAY_DATABASE_URL", database.url)

    def typed(*words: str, code: int = 0) -> Any:
        assert run(["token", *words, *(["--json"] if words[0] != "revoke" else [])]) == code
        out = capsys.readouterr().out
        return json.loads(out) if out.strip() else None

    create = ("create", "runner-7", "--scope", "append", "--source", SOURCE, "--public-key")
    made = typed(*create, "own")
    own = PublicKey(make_key(tmp_path / "home"))
    assert (made["key"]["id"], made["key"]["public_key"]) == (own.id, own.text)
    file = tmp_path / "key.pub"
    file.write_text(PublicKey(make_key(folder(tmp_path, "other"))).text + "\n")
    assert typed(*create, str(file))["key"]["source"] == SOURCE
    assert typed(*create, "nonsense", code=2) is None
    assert typed("create", "x", "--scope", "append", "--public-key", own.text, code=2) is None
    typed("revoke", own.id)
    assert [(row["id"] == own.id, row["revoked_at"] is not None) for row in typed("keys")] == [
        (True, True), (False, False),
    ]  # fmt: skip
    with psycopg.connect(database.url) as connection:
        rows = connection.execute("SELECT body FROM event ORDER BY position").fetchall()
    assert [json.loads(body)["data"]["action"] for (body,) in rows] == [
        "key.registered", "token.created", "key.registered", "token.created", "key.revoked",
    ]  # fmt: skip
    assert KeyStore(database.url).listed()[0].name == "runner-7"
