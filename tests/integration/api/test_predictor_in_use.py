"""The predictor in use, over HTTP and through a real Postgres: scores, drift, the trial of a newcomer, and the way back."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any, NamedTuple

import httpx
import psycopg
import pytest

from assay.cli import run
from assay.service import free_port
from domain.catalogues import hardware
from domain.errors import CorruptArtifact, NotFound, ServiceUnavailable, UsageError
from domain.performance.roofline import limits_of, roofline
from tests.integration.conftest import RunningService

DEVICE, PLATFORM, PRECISION = "nvidia-l4", "cuda", "fp16"
ASKED = {"hardware": DEVICE, "platform": PLATFORM, "precision": PRECISION}
BATCHES = (1, 2, 4, 8, 16)


def operators(width: float) -> list[dict[str, Any]]:
    return [
        {
            "name": "aten.addmm", "class": "mm", "count": 24, "flops": 2e5 * width, "read_elements": 128.0 * width,
            "write_elements": 128.0 * width, "weight_elements": width * width, "inner": int(width), "kernel": None,
            "stride": None, "groups": None,
        }
    ]  # fmt: skip


def trace(build: Any, model: str, width: float) -> dict[str, Any]:
    totals = {
        "flops": 4.8e6 * width, "read_elements": 3e3 * width, "write_elements": 3e3 * width,
        "weight_elements": 24 * width**2, "operators": 24, "parameters": int(24 * width**2),
        "peak_activation_elements": 512 * width,
    }  # fmt: skip
    digest = f"sha256:{int(width):064x}"
    return build.event(
        "assay.model.traced.v1",
        {
            "model": {"id": model, "category": "embedding", "family": "bert", "architecture": digest},
            "workload": {"mode": "inference", "phase": "forward", "batch_size": 1, "sequence_length": 128},
            "tracer": {"name": "assay-tracer", "version": 1, "torch": "2.13.0"},
            "operators": operators(width),
            "totals": totals,
        },
    )


def measured(build: Any, model: str, p50: float, batch: int = 8) -> dict[str, Any]:
    parts = {"model": model, "hardware": DEVICE, "platform": PLATFORM, "precision": PRECISION, "batch_size": batch}
    return build.measurement(p50=p50, **parts)


class World:
    """Six traced models that take three times their roofline on one device."""

    def __init__(self, build: Any) -> None:
        self.build = build
        self.models = {f"acme/m{index}": 256.0 * (index + 1) for index in range(6)}
        spec = hardware.find(DEVICE)
        assert spec is not None
        limits = limits_of(spec, PRECISION, PLATFORM)
        assert limits is not None
        self.limits = limits

    def traces(self) -> list[dict[str, Any]]:
        return [trace(self.build, model, width) for model, width in self.models.items()]

    def rows(self, factor: float = 1.0) -> list[dict[str, Any]]:
        """One measurement a model and batch, `factor` times as slow as usual."""
        return [
            measured(self.build, model, self.true_ms(width, batch) * factor, batch)
            for model, width in self.models.items()
            for batch in BATCHES
        ]

    def true_ms(self, width: float, batch: int) -> float:
        return 3 * roofline(operators(width), self.limits, batch_size=batch).latency_ms


@pytest.fixture
def world(build: Any) -> World:
    return World(build)


def post(client: Any, events: list[dict[str, Any]]) -> int:
    answer = client.post_events(events)
    assert answer["rejected"] == []
    position: int = answer["last_position"]
    client.wait_for(position)
    return position


def test_a_recorded_prediction_is_scored_when_it_is_measured(service, client, build):
    model = f"acme/scored-{uuid.uuid4().hex[:8]}"
    post(client, [trace(build, model, 768.0)])
    before = client.accuracy()
    given = client.predict(model, batch_size=8, sequence_length=128, **ASKED, record=True)
    assert client.predict(model, batch_size=8, sequence_length=128, **ASKED, as_of=given["position"]) == given
    client.wait_for(client.ready()["log_position"])
    waiting = client.accuracy()
    assert (waiting["given"], waiting["scored"]) == (before["given"] + 1, before["scored"])
    recorded = client.ready()["log_position"]
    position = post(client, [measured(build, model, given["latency_ms"] * 2)])
    scored = client.accuracy()
    assert scored["scored"] == before["scored"] + 1
    family = scored["by_basis"][given["basis"]]
    assert family["rows"] >= 1
    (row,) = client.query(f"SELECT * FROM scored_predictions WHERE model_id = '{model}'")["rows"] or [None]
    assert row is not None
    told = client.query(
        f"SELECT predicted, measured, log_error, predictor, measured_position FROM scored_predictions WHERE model_id = '{model}'"
    )["rows"][0]
    assert told[0] == given["latency_ms"]
    assert told[2] == pytest.approx(-0.6931, abs=1e-4)
    assert told[3:] == [given["predictor"], position]
    assert client.accuracy(as_of=recorded)["scored"] == before["scored"]


def test_recording_a_prediction_twice_is_once_and_needs_the_scope(client, build):
    model = f"acme/twice-{uuid.uuid4().hex[:8]}"
    position = post(client, [trace(build, model, 512.0)])
    for _ in range(2):
        client.predict(model, batch_size=4, **ASKED, as_of=position, record=True)
    events = list(client.events(after=position, types=["assay.prediction.issued.v1"]))
    assert [event["data"]["question"]["model"] for event in events].count(model) == 1


def answered(build: Any, index: int, predictor: str) -> dict[str, Any]:
    answer = {
        "id": uuid.uuid4().hex, "model": f"acme/d{index}", "predictor": predictor, "interval": 0.8, "basis": "calibrated",
        "hardware": DEVICE, "hardware_count": 1, "platform": PLATFORM, "precision": PRECISION, "batch_size": 1,
        "sequence_length": 128, "latency_ms": 2.0, "latency_ms_low": 1.8, "latency_ms_high": 2.2, "interval_covered": True,
    }  # fmt: skip
    data = {"prediction": answer["id"], "position": 0, "question": {"mode": "inference"}, "answer": answer}
    return build.event("assay.prediction.issued.v1", data)


def test_misses_that_no_chance_explains_raise_the_flag_and_hits_do_not(fresh_service, build, capsys):
    service = fresh_service().start()
    with service.client() as client:
        digest = client.predictor()["digest"]
        post(client, [answered(build, index, digest) for index in range(20)])
        post(client, [measured(build, f"acme/d{index}", 2.1, 1) for index in range(14)])
        calm = client.accuracy()
        assert (calm["drift"]["flag"], calm["drift"]["scored"], calm["drift"]["held"]) == (False, 14, 14)
        assert calm["overall"]["coverage_80"] == 1.0
        assert run(["predictor", "accuracy", "--server", service.url]) == 0
        assert "No drift" in capsys.readouterr().out
        misses = [measured(build, f"acme/d{index}", 3.0, 1) for index in range(14, 20)]
        post(client, misses)
        # 14 of 20 are what chance gives; only when the others are measured again, and slower, it is no chance any more.
        assert client.accuracy()["drift"]["flag"] is False
        post(client, [answered(build, index, digest) for index in range(100, 108)])
        post(client, [measured(build, f"acme/d{index}", 3.0, 1) for index in range(100, 108)])
        drift = client.accuracy()["drift"]
        assert (drift["flag"], drift["scored"], drift["held"]) == (True, 28, 14)
        assert {one["measurement"] for one in drift["evidence"]} >= {event["id"] for event in misses}
        assert run(["predictor", "accuracy", "--server", service.url]) == 1
        assert "Drift: " in capsys.readouterr().out


def imported(event: dict[str, Any]) -> dict[str, Any]:
    event["data"]["provenance"] = {"origin": "imported", "source": "elsewhere.csv"}
    return event


@pytest.mark.torture
def test_a_newcomer_that_is_worse_is_kept_and_does_not_answer(fresh_service, world, capsys):
    service = fresh_service().start()
    with service.client() as client:
        post(client, world.traces())
        post(client, world.rows())
        first = client.train()
        assert first["accepted"] is True
        assert "accepted" in first["reason"]
        # A file from elsewhere that is wrong, and the truth again: what learns from the file predicts the truth worse.
        broken = [imported(event) for event in (*world.rows(4.0), *world.rows(5.0))]
        post(client, broken)
        position = post(client, world.rows(1.01))
        assert run(["train", "--json", "--server", service.url]) == 1
        second = json.loads(capsys.readouterr().out)
        assert second["accepted"] is False, second["reason"]
        assert second["reason"].startswith("rejected: worse")
        comparison = second["comparison"]
        assert comparison["rows"] >= 20
        assert comparison["scores"]["new"]["mape"] > 2 * comparison["scores"]["old"]["mape"]
        assert comparison["old"] == first["digest"]
        assert client.predictor()["digest"] == first["digest"]
        forced = client.train(force=True)
        assert forced["accepted"] is True
        assert "by force" in forced["reason"]
        assert client.predictor()["digest"] == forced["digest"]
        back = client.rollback()
        assert (back["digest"], back["before"]) == (first["digest"], forced["digest"])
        assert client.predictor(as_of=position)["digest"] == first["digest"]
        # The file is taken back: what is left is the truth, and what learns from it is not worse.
        post(client, [world.build.retraction(event["id"]) for event in broken])
        third = client.train()
        assert third["accepted"] is True, third["reason"]
        assert client.predictor()["digest"] == third["digest"]


class Trained(NamedTuple):
    """A service that was trained twice, the second time with new rows, and what each predictor is called."""

    service: Any
    database: Any
    shipped: str
    first: dict[str, Any]
    second: dict[str, Any]

    def restored(self) -> Trained:
        """The second predictor answers and the first one did before it, whatever a test has chosen."""
        with self.service.client() as client:
            for wanted in (self.first, self.second):
                if client.predictor()["digest"] != wanted["digest"]:
                    client.rollback(wanted["digest"])
        return self


@pytest.fixture(scope="module")
def once_trained(service_database, tmp_path_factory, build):
    """Training is what takes long here: these tests share it, and each begins with the second predictor in force."""
    database, world = service_database(), World(build)
    service = RunningService(tmp_path_factory.mktemp("trained"), database.url).start()
    with service.client() as client:
        shipped = client.predictor()["digest"]
        with pytest.raises(UsageError, match="none before it"):
            client.rollback()
        post(client, [*world.traces(), *world.rows()])
        first = client.train()
        post(client, world.rows(1.02))
        second = client.train()
    yield Trained(service, database, shipped, first, second)
    service.stop()


@pytest.fixture
def trained(once_trained: Trained) -> Trained:
    return once_trained.restored()


def test_the_way_back_is_one_command_and_the_past_stays(trained, capsys):
    service, shipped, first, second = trained.service, trained.shipped, trained.first, trained.second
    chosen_before = "SELECT count(*) FROM operations WHERE action = 'predictor.chosen'"
    with service.client() as client:
        ((before,),) = client.query(chosen_before)["rows"]
        assert [one["digest"] for one in client.predictors()["items"]][-3:] == [
            second["digest"],
            first["digest"],
            shipped,
        ]
        asked = {"batch_size": 8, "sequence_length": 128, **ASKED}
        then = client.predict("acme/m1", **asked)
        assert then["predictor"] == second["digest"]

        assert run(["predictor", "rollback", "--reason", "a hunch", "--server", service.url]) == 0
        assert client.predict("acme/m1", **asked)["predictor"] == first["digest"]
        assert client.predict("acme/m1", **asked, as_of=then["position"]) == then
        assert run(["predictor", "list", "--server", service.url]) == 0
        assert "a hunch" in capsys.readouterr().out
        assert client.ready()["predictor"]["digest"] == first["digest"]

        chosen = client.rollback(second["digest"].removeprefix("sha256:")[:10])
        assert (chosen["digest"], chosen["before"], chosen["by"]) == (second["digest"], first["digest"], "local")
        with pytest.raises(UsageError, match="in force already"):
            client.rollback(second["digest"])
        with pytest.raises(NotFound):
            client.rollback("sha256:" + "0" * 64)
        client.rollback("shipped")
        assert client.predictor()["digest"] == shipped
        assert client.predictor()["shipped"] is True
        assert [one["in_force"] for one in client.predictors()["items"]][-3:] == [False, False, True]
        assert client.query(chosen_before)["rows"] == [[before + 3]]


def corrupt(database: Any, digest: str, content: bytes) -> None:
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE artifact SET content = %s WHERE digest = %s", [content, digest])


def test_a_corrupted_artifact_is_passed_over_and_made_again(trained):
    service, first, second = trained.service, trained.first, trained.second
    service.stop()
    corrupt(trained.database, second["digest"], b'{"format": 1}')
    service.start()
    with service.client() as client:
        told = client.predictor()
        assert told["digest"] == first["digest"]
        assert any(second["digest"] in note for note in told["notes"])
        assert client.predict("acme/m1", batch_size=8, sequence_length=128, **ASKED)["predictor"] == first["digest"]
        client.rollback("shipped")
        with pytest.raises(CorruptArtifact):
            client.rollback(second["digest"])
        made = client.replay(second["digest"])
        assert (made["same"], made["stored"], made["restored"]) == (True, "corrupt", True)
        client.rollback(second["digest"])
        assert client.predictor()["digest"] == second["digest"]


def test_a_predictor_comes_out_bit_for_bit_from_the_log_and_another_one_says_what_differs(trained, world, capsys):
    service, database, made = trained.service, trained.database, trained.first
    with service.client() as client:
        # What came later must not matter: rows, a retraction and an alias.
        later = world.rows(1.5)
        post(client, later)
        gone = later[0]["id"]
        post(client, [world.build.retraction(gone), world.build.alias("acme/m5", "acme/five")])
        assert run(["train", "--verify", made["digest"][7:17], "--server", service.url]) == 0
        assert "bit for bit" in capsys.readouterr().out
        # The same event, with an artifact that this log never gave.
        card = json.loads(stored(database, made["digest"]))
        card["card"]["rows"] += 1
        other = json.dumps(card, sort_keys=True, separators=(",", ":")).encode()
        digest = put(database, other)
        event = {"digest": digest, "position": made["position"], "card": {}}
        post(client, [world.build.event("assay.predictor.trained.v1", event)])
        told = client.replay(digest)
        assert (told["same"], told["made"], told["stored"]) == (False, made["digest"], "whole")
        assert told["differences"] == [
            f"card.rows: {card['card']['rows']} was kept, {card['card']['rows'] - 1} is made now"
        ]
        assert run(["train", "--verify", digest, "--server", service.url]) == 1


@pytest.mark.torture
def test_predictor_of_two_machines_is_not_verified_on_one_and_a_missing_machine_leaves_nothing(trained, world):
    service, made = trained.service, trained.first
    digest = put(trained.database, stored(trained.database, made["digest"]) + b" ")
    with service.client() as client:
        event = {"digest": digest, "position": made["position"], "card": {"data": {"machines": 2}}}
        post(client, [world.build.event("assay.predictor.trained.v1", event)])
        with pytest.raises(UsageError, match="2 machines") as raised:
            client.replay(digest)
        assert raised.value.field == "machines"
        before = client.predictors()["items"]
        assert before[0]["machines"] == 2
        machines = [f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"]
        with pytest.raises(ServiceUnavailable, match=f"machine 1 \\({machines[1]}\\) did not come"):
            client.train_on_machines(machines, 0, wait_s=1)
        with pytest.raises(UsageError) as raised:
            client.train_on_machines(["10.0.0.1:1", "-x:2"], 0)
        assert raised.value.field == "machines"
        assert client.predictors()["items"] == before


def stored(database: Any, digest: str) -> bytes:
    with psycopg.connect(database.url) as connection:
        row = connection.execute("SELECT content FROM artifact WHERE digest = %s", [digest]).fetchone()
    assert row is not None
    return bytes(row[0])


def put(database: Any, content: bytes) -> str:
    from ingest.log.artifacts import ArtifactStore

    return ArtifactStore(database.url).put(content, {}, "predictor")


@pytest.mark.torture
def test_a_service_that_is_told_to_trains_by_itself_when_there_is_something_new(fresh_service, world):
    service = fresh_service("--retrain-every", "1s").start()
    with service.client() as client:
        assert client.ready()["predictor"]["trained_at"] is None
        post(client, [*world.traces(), *world.rows()])
        trained = until(lambda: client.predictors()["items"][:-1])
        assert "on schedule, for the first time" in trained[0]["reason"]
        time.sleep(2.5)
        assert len(client.predictors()["items"]) == 2, "nothing was measured since, and it trained again"
        post(client, world.rows(1.02))
        until(lambda: len(client.predictors()["items"]) == 3)
        ready = client.ready()["predictor"]
        assert ready["drift"] is False
        assert "answer" in ready["drift_said"]
        assert ready["trained_at"] is not None
        told = httpx.get(f"{service.url}/metrics").text
        assert "assay_predictor_drift 0.0" in told
        assert "assay_predictor_trained_position" in told


def until(found: Any, timeout_s: float = 90.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (value := found()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)
    return value
