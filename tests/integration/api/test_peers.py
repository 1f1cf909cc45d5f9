"""Peers: what comes from another service, what is refused of one that lies, and that it comes once whoever is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from assay.cli import run
from assay.client.peers import pull
from assay.diagnosis.log import peers as findings
from domain.errors import NameTaken, PeerRefused, ServiceUnavailable, UsageError
from domain.sharing.peers import DEFAULT_TYPES, NewPeer
from tests.conftest import append_decoded
from tests.integration.conftest import ROOT, RunningService
from tests.integration.lying_peer import LOG, Answer, answering, line, page_of

LAB = "urn:lab:one"
EVENTS = 8_000
RSS_LIMIT_KB = 300_000
TAKEN = "SELECT id::text, digest FROM event WHERE source LIKE 'urn:assay:bench-data%' ORDER BY id"


class Pair:
    """Two services: one that measured, and one that takes it over."""

    def __init__(self, folder: Path, make: Callable[[], Any]) -> None:
        self.lab = RunningService(folder / "lab", make().url)
        self.here = RunningService(folder / "here", make().url)
        with psycopg.connect(self.lab.database_url) as connection:
            # Both are copies of one database, and so is their log's identity.
            connection.execute("UPDATE log SET id = gen_random_uuid()")


@pytest.fixture(scope="module")
def pair(service_database: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    both = Pair(tmp_path_factory.mktemp("peers"), service_database)
    try:
        with ThreadPoolExecutor(2) as together:
            list(together.map(RunningService.start, (both.lab, both.here)))
        yield both
    finally:
        for service in (both.lab, both.here):
            if service.process is not None:
                service.stop()


@pytest.fixture
def lab(pair: Pair) -> Iterator[Any]:
    with pair.lab.client() as client:
        yield client


@pytest.fixture
def here(pair: Pair) -> Iterator[Any]:
    with pair.here.client() as client:
        yield client


@pytest.fixture
def name() -> str:
    return f"lab-{uuid.uuid4().hex[:8]}"


def peer(url: str, name: str, *sources: str, **more: Any) -> NewPeer:
    return NewPeer(name=name, url=url, sources=list(sources or [LAB]), **{"types": list(DEFAULT_TYPES), **more})


def taken(client: Any, name: str, **options: Any) -> Any:
    return pull(client, name, None, patience_s=0, **options)


def events_of(service: RunningService, source: str) -> dict[str, tuple[bytes, str]]:
    with psycopg.connect(service.database_url) as connection:
        rows = connection.execute("SELECT id::text, digest, body FROM event WHERE source = %s", [source]).fetchall()
    return {identifier: (bytes(digest), body) for identifier, digest, body in rows}


def test_events_come_unchanged_with_peer_and_position_and_once(
    pair: Pair, lab: Any, here: Any, build: Any, name: str
) -> None:
    model = f"acme/{name}"
    rows = [build.measurement(batch_size=2**at, model=model, run_id=name, source=LAB) for at in range(3)]
    spaced = b'{ "specversion":"1.0", "id":"%s", "source":"%s",\n"type":"assay.model.described.v1", "data":{"model":{"id":"%s"}} }' % (
        str(uuid.uuid4()).encode(), LAB.encode(), model.encode()
    )  # fmt: skip
    lab.post_events(rows)
    httpx.post(f"{pair.lab.url}/v1/events", content=spaced, headers={"Content-Type": "application/cloudevents+json"})
    lab.post_events([build.event("assay.run.started.v1", {"run_id": name, "kind": "bench"}, source=LAB, subject=name)])
    lab.post_events([build.measurement(model=model, source="urn:lab:other")])
    here.add_peer(peer(pair.lab.url, name))
    first = taken(here, name)
    assert first.accepted >= 5
    assert events_of(pair.here, LAB) == events_of(pair.lab, LAB) != {}
    assert not events_of(pair.here, "urn:lab:other")
    here.wait_for(first.last_position)
    there = lab.event(rows[0]["id"])
    beside = {row["batch_size"]: (row["peer"], row["peer_position"]) for row in here.measurements(model=model)}
    assert beside == {2**at: (name, there["position"] + at) for at in range(3)}
    assert "peer" not in lab.measurements(model=model)[0]
    assert here.event(rows[0]["id"])["whence"] == {"peer": name, "position": there["position"]}
    assert "whence" not in there
    assert here.run(name)["run"]["peer"] == name
    metrics = httpx.get(f"{pair.here.url}/metrics").text
    assert f'assay_peer_lag_events{{peer="{name}"}} 0.0' in metrics
    again = taken(here, name)
    assert (again.accepted, again.duplicate) == (0, 0)
    known = here.peer(name)
    assert (known.lag, known.accepted, known.problem) == (0, first.accepted, None)


def test_pulling_both_ways_ends(pair: Pair, lab: Any, here: Any, build: Any, name: str) -> None:
    theirs, ours = f"urn:{name}:lab", f"urn:{name}:here"
    lab.post_events([build.measurement(source=theirs)])
    here.post_events([build.measurement(source=ours)])
    here.add_peer(peer(pair.lab.url, name, theirs, ours))
    lab.add_peer(peer(pair.here.url, name, theirs, ours))
    for client, new in ((here, 1), (lab, 1), (here, 0), (lab, 0)):
        result = taken(client, name)
        assert (result.accepted, result.duplicate) == (new, 0)
    assert events_of(pair.lab, ours) == events_of(pair.here, ours)
    lab.add_peer(peer(pair.here.url, f"{name}-all", theirs, ours, relayed=True))
    relayed = taken(lab, f"{name}-all")
    assert (relayed.accepted, relayed.duplicate) == (0, 2)


def test_retractions_and_aliases_count_for_their_own_source_alone(
    pair: Pair, lab: Any, here: Any, build: Any, name: str
) -> None:
    model, alias = f"acme/{name}", f"acme/{name}-alias"
    own = build.measurement(model=alias, run_id=f"{name}-lab", source=LAB)
    foreign = build.measurement(model=model, run_id=f"{name}-here", source="urn:here:two")
    here.post_events([foreign])
    retractions = [build.retraction(event_id=own["id"]), build.retraction(event_id=foreign["id"])]
    retractions.append(build.retraction(run_id=f"{name}-here"))
    aliases = [build.alias(alias, model), build.alias(model, "acme/elsewhere"), build.alias("gpt2", "acme/elsewhere")]
    lab.post_events([own, foreign, *({**event, "source": LAB} for event in [*aliases, *retractions])])
    here.add_peer(peer(pair.lab.url, name))
    result = taken(here, name)
    assert result.refused == 4
    assert sum(result.reasons.values()) == 4
    assert here.peer(name).refused == 4
    assert here.peer(name).refusal
    here.wait_for(result.last_position)
    kept = here.measurements(model=model)
    assert [row["event_id"] for row in kept] == [foreign["id"]]


def test_what_is_the_services_own_never_comes(pair: Pair, lab: Any, here: Any, build: Any, name: str) -> None:
    lab.create_snapshot(name, None, None)
    lab.post_events(
        [build.measurement(model=f"acme/{name}", source=source) for source in ("urn:any:one", "urn:assay:shared:x")]
    )
    for type_ in (
        "assay.snapshot.named.v1",
        "assay.operation.performed.v1",
        "assay.predictor.chosen.v1",
        "assay.new.v1",
    ):
        with pytest.raises(UsageError) as refused:
            here.add_peer(peer(pair.lab.url, name, "*", types=[type_]))
        assert refused.value.field == "types"
    here.add_peer(peer(pair.lab.url, name, "*"))
    result = taken(here, name)
    assert result.accepted
    assert events_of(pair.here, "urn:any:one")
    assert not events_of(pair.here, "urn:assay:shared:x")
    assert not any(event["subject"] == name for event in here.events(types=["assay.snapshot.named.v1"]))


def test_removed_peer_leaves_what_it_brought(pair: Pair, lab: Any, here: Any, build: Any, name: str) -> None:
    event = build.measurement(model=f"acme/{name}", source=f"urn:{name}")
    lab.post_events([event])
    here.add_peer(peer(pair.lab.url, name, f"urn:{name}"))
    with pytest.raises(NameTaken):
        here.add_peer(peer(pair.lab.url, name, f"urn:{name}"))
    taken(here, name)
    assert here.remove_peer(name).events == 1
    assert here.event(event["id"])["whence"]["peer"] == name
    assert name not in {item.name for item in here.peers()}
    here.add_peer(peer(pair.lab.url, name, f"urn:{name}"))
    assert (taken(here, name).duplicate, here.remove_peer(name).events) == (1, 0)


def lies(build: Any) -> dict[str, tuple[str, Answer]]:
    """Pages of two good events and what is wrong with them, by the field that the refusal names."""
    good, other = build.measurement(source=LAB), build.measurement(source=LAB, batch_size=2)
    changed = {**good, "time": "2020-01-01T00:00:00+00:00"}
    return {
        "another body under an id of the page": ("id", page_of([line(1, good), line(2, changed)])),
        "a digest of something else": ("digest", page_of([line(1, good), line(2, other, digest="0" * 64)])),
        "a source that was not asked for": ("source", page_of([line(1, good), line(2, {**other, "source": "urn:x"})])),
        "a type that was not asked for": ("type", page_of([line(1, good), line(2, build.event("x.y", {}, source=LAB))])),
        "a position that goes back": ("position", page_of([line(5, good), line(4, other)])),
        "a position twice": ("position", page_of([line(5, good), line(5, other)])),
        "a position beyond the page": ("position", page_of([line(5, good), line(101, other)])),
        "a line that is no event of a log": ("page", page_of([line(1, good), b'{"position":2}\n'])),
        "text that is not UTF-8": ("page", page_of([line(1, good), b"\xff\xfe\n"])),
        "more after nothing": ("Link", page_of([], more=True)),
        "half a line": ("page", page_of([line(1, good), line(2, other)[:-9]])),
        "more events than a page has": ("page", page_of([line(at, good) for at in range(1, 1003)], last=2000)),
        "compression": ("Content-Encoding", page_of([b"\x1f\x8b"], Content_Encoding="gzip")),
        "a web page": ("url", page_of([b"<html>"], Content_Type="text/html")),
        "no name of a log": ("url", page_of([line(1, good)], log="")),
        "a name of a log that is none": ("Assay-Log", page_of([line(1, good)], log="mine")),
        "no last position": ("assay-last-position", page_of([line(1, good)], last="-1")),
        "another host": ("url", page_of([], status=307, Location="http://169.254.169.254/")),
    }  # fmt: skip


def test_page_of_a_lying_peer_is_refused_whole(pair: Pair, here: Any, build: Any) -> None:
    before = len(events_of(pair.here, LAB))
    for lie, (field, answer) in lies(build).items():
        name = f"liar-{uuid.uuid4().hex[:8]}"
        with answering(answer) as url:
            here.add_peer(peer(url, name))
            with pytest.raises(PeerRefused) as refused:
                taken(here, name)
        assert refused.value.field == field, lie
        known = here.peer(name)
        assert (known.position, known.accepted) == (0, 0), lie
        assert known.problem, lie
    assert len(events_of(pair.here, LAB)) == before


def test_changed_body_of_an_event_that_is_here_is_refused(pair: Pair, here: Any, build: Any, name: str) -> None:
    mine = build.measurement(1.5, model=f"acme/{name}", source=f"urn:{name}")
    here.post_events([mine])
    fresh = build.measurement(2.5, model=f"acme/{name}", source=f"urn:{name}")
    mine["data"]["metrics"]["latency_ms"]["mean"] = 0.5
    with answering(page_of([line(1, fresh), line(2, mine)])) as url:
        here.add_peer(peer(url, name, f"urn:{name}"))
        with pytest.raises(PeerRefused) as refused:
            taken(here, name)
    assert "data.metrics.latency_ms.mean" in refused.value.detail
    assert list(events_of(pair.here, f"urn:{name}")) == [mine["id"]]


@pytest.mark.parametrize(
    ("later", "field"),
    [({"log": str(uuid.UUID(int=8))}, "log"), ({"epoch": 2}, "epoch"), ({"last": 3}, "last_position")],
)
def test_log_that_was_replaced_or_went_back_is_refused(
    here: Any, build: Any, name: str, later: dict[str, Any], field: str
) -> None:
    honest, replaced = page_of([line(4, build.measurement(source=LAB))]), page_of([], **later)
    answers = iter([honest, replaced])
    with answering(lambda handler: next(answers)(handler)) as url:
        here.add_peer(peer(url, name))
        assert taken(here, name).position == 100
        with pytest.raises(PeerRefused) as refused:
            taken(here, name)
    assert refused.value.field == field
    assert here.peer(name).log == LOG


def test_service_is_no_peer_of_itself(pair: Pair, here: Any, name: str) -> None:
    here.add_peer(peer(pair.here.url, name))
    with pytest.raises(PeerRefused) as refused:
        taken(here, name)
    assert refused.value.field == "url"


def test_empty_stretches_are_passed_quickly_and_a_huge_last_position_ends(here: Any, name: str) -> None:
    asked = []

    def answer(handler: Any) -> None:
        asked.append(handler.path)
        page_of([], last=2**62)(handler)

    with answering(answer) as url:
        here.add_peer(peer(url, name))
        assert taken(here, name).position == 2**62
    assert len(asked) < 60


def test_peer_that_is_away_says_so_and_a_pull_goes_on_later(
    pair: Pair, lab: Any, here: Any, build: Any, name: str
) -> None:
    lab.post_events([build.measurement(source=f"urn:{name}")])
    here.add_peer(peer("http://127.0.0.1:9", name, f"urn:{name}"))
    with pytest.raises(ServiceUnavailable):
        taken(here, name)
    assert "127.0.0.1:9" in (here.peer(name).problem or "")
    with psycopg.connect(pair.here.database_url) as connection:
        (finding,) = [item for item in findings(connection) if name in item.found]
    assert (finding.level, f"assay peer pull {name}" in finding.remedy) == ("problem", True)
    assert f'assay_peer_failed{{peer="{name}"}} 1.0' in httpx.get(f"{pair.here.url}/metrics").text


def test_event_of_a_rule_that_this_version_does_not_take_is_left_out_alone(here: Any, build: Any, name: str) -> None:
    strange = build.measurement(source=LAB)
    strange["data"]["metrics"] = {}
    with answering(page_of([line(1, strange), line(2, build.measurement(source=LAB))])) as url:
        here.add_peer(peer(url, name))
        result = taken(here, name)
    assert (result.accepted, result.refused) == (1, 1)


def test_expired_samples_are_counted_and_passed(here: Any, build: Any, name: str) -> None:
    gone = b'{"position":1,"digest":"%s","body":null}\n' % (b"0" * 64)
    with answering(page_of([gone, line(2, build.measurement(source=LAB))])) as url:
        here.add_peer(peer(url, name))
        result = taken(here, name)
    assert (result.accepted, result.expired) == (1, 1)


HOSTILE = """
import sys, pathlib
from assay.client.peers import PeerReader
from domain.errors import PeerRefused
from domain.sharing.peers import DEFAULT_TYPES, NewPeer

for url in sys.argv[1:]:
    with PeerReader(NewPeer(name="x", url=url, sources=["*"], types=list(DEFAULT_TYPES)), None, patience_s=0) as reader:
        try:
            reader.read(0)
        except PeerRefused as error:
            print(error.field)
status = pathlib.Path("/proc/self/status").read_text()
print(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
"""


def endless(piece: bytes) -> Iterator[bytes]:
    for _ in range(10 * 2**30 // len(piece)):
        yield piece


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc, which Linux has")
def test_endless_pages_lines_and_bombs_take_little_memory() -> None:
    long = page_of(endless(b"x" * 2**16))
    many = page_of(endless(b'{"position":1}\n' * 4096))
    bomb = page_of(endless(b"\x1f\x8b" + b"\0" * 2**16), Content_Encoding="gzip")
    with answering(long) as one, answering(many) as two, answering(bomb) as three:
        done = subprocess.run(
            [sys.executable, "-c", HOSTILE, one, two, three],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    *fields, peak_kb = done.stdout.split()
    assert fields == ["page", "page", "Content-Encoding"]
    assert int(peak_kb) < RSS_LIMIT_KB


PULL = """
import sys
from assay.client import Client
from assay.client.peers import pull

with Client(sys.argv[1], patience_s=120) as client:
    print(pull(client, sys.argv[2], None, patience_s=120).accepted)
"""


def test_killed_on_either_side_every_event_comes_once(pair: Pair, here: Any, name: str) -> None:
    from assay.synthesis import events
    from domain.events import decode_event

    made = [decode_event(event) for event in events(EVENTS - 2 * EVENTS // 1000, 7)]
    append_decoded(type("Lab", (), {"url": pair.lab.database_url}), made)
    here.add_peer(peer(pair.lab.url, name, "urn:assay:bench-data"))

    def pulling() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", PULL, pair.here.url, name], cwd=ROOT, stdout=subprocess.PIPE)

    def reached(share: float) -> bool:
        until = time.monotonic() + 60
        with psycopg.connect(pair.here.database_url, autocommit=True) as connection:
            while time.monotonic() < until:
                ((count,),) = connection.execute("SELECT accepted FROM peer WHERE name = %s", [name]).fetchall()
                if count >= share * EVENTS:
                    return True
                time.sleep(0.005)
        return False

    process = pulling()
    try:
        for share, victim in ((0.1, "pull"), (0.3, "lab"), (0.5, "pull"), (0.7, "here")):
            assert reached(share)
            if victim == "pull":
                process.kill()
                process.communicate()
                process = pulling()
            else:
                service = pair.lab if victim == "lab" else pair.here
                service.kill()
                service.start()
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.communicate()
    with psycopg.connect(pair.lab.database_url) as there, psycopg.connect(pair.here.database_url) as own:
        digests = own.execute(TAKEN).fetchall()
        assert len(digests) == len(made)
        assert digests == there.execute(TAKEN).fetchall()
        counted = own.execute(
            "SELECT count(*), count(DISTINCT peer_position) FROM peer_arrival JOIN peer ON peer.id = peer WHERE name = %s",
            [name],
        ).fetchone()
    assert counted == (len(made), len(made))
    assert taken(here, name).accepted == 0


@pytest.fixture
def assay(pair: Pair, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs a verb of `assay peer` against the service here; returns its exit code and what it printed."""
    for name in [name for name in os.environ if name.startswith("ASSAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ASSAY_SERVER", pair.here.url)
    monkeypatch.setenv("ASSAY_HOME", str(pair.here.home))
    monkeypatch.setenv("ASSAY_PATIENCE_S", "0")

    def verb(*words: str) -> tuple[int, str, str]:
        code = run(["peer", *words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return verb


def test_verbs_say_what_came_what_was_refused_and_what_to_do(
    pair: Pair, lab: Any, here: Any, build: Any, name: str, tmp_path: Path, assay: Callable[..., Any]
) -> None:
    source = f"urn:{name}"
    foreign = build.measurement(model=f"acme/{name}", source="urn:here:three")
    here.post_events([foreign])
    lab.post_events([foreign, *({**build.measurement(batch_size=2**at), "source": source} for at in range(2))])
    lab.post_events([{**build.retraction(event_id=foreign["id"]), "source": source}])
    code, _, error = assay("add", pair.lab.url, "--sources", "*")
    assert (code, "--all-sources" in error) == (2, True)
    assert assay("add", "http://127.0.0.1:9", "--name", name, "--sources", source)[0] == 3
    assert name not in {item.name for item in here.peers()}
    token_file = tmp_path / "token"
    token_file.write_text("assay_secret\n")
    words = ("add", pair.lab.url, "--name", name, "--sources", source, "--token-file", str(token_file), "--json")
    code, out, error = assay(*words)
    assert json.loads(out)["token_file"] == str(token_file)
    assert "assay_secret" not in out + error
    code, out, _ = assay("pull", name, "--json")
    (result,) = json.loads(out)
    assert (code, result["accepted"], result["refused"]) == (1, 2, 1)
    assert any("data.event_id" in reason for reason in result["reasons"])
    listed = {item["name"]: item for item in json.loads(assay("list", "--json")[1])}
    assert listed[name]["refused"] == 1
    assert "refused" in assay("show", name)[1]
    assert json.loads(assay("remove", name, "--json")[1]) == {"name": name, "events": 2}
    assert assay("pull", name)[0] == 1


def test_following_takes_what_comes(pair: Pair, lab: Any, here: Any, build: Any, name: str) -> None:
    here.add_peer(peer(pair.lab.url, name, f"urn:{name}"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    command = [sys.executable, "-m", "assay.cli", "peer", "pull", name, "--follow", "--every", "0.1"]
    process = subprocess.Popen(
        [*command, "--server", pair.here.url], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        for count in (1, 2):
            lab.post_events([build.measurement(source=f"urn:{name}", batch_size=count)])
            until = time.monotonic() + 60
            while len(events_of(pair.here, f"urn:{name}")) < count:
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.02)
    finally:
        process.kill()
        process.communicate()
