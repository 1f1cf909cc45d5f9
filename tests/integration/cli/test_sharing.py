"""Sharing from end to end: from one service to another by file, address, repository and request, and out again."""

from __future__ import annotations

import functools
import http.server
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.cli import run
from domain.events import new_event
from domain.sharing.bundles import MOST_BYTES

Typed = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Runs a verb with a home of its own; returns the exit code, the JSON on stdout, and stderr."""
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def type_(*words: str) -> tuple[int, Any, str]:
        capsys.readouterr()
        code = run([*words, "--json"])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else None, err

    return type_


@pytest.fixture
def measured(client: Any, build: Any, request: pytest.FixtureRequest) -> str:
    """A run in the service's log, measured here, for a model of this test alone; returns the model."""
    model = f"acme/{request.node.name[:40]}"
    run_id = f"run-of-{request.node.name}"
    started = new_event(
        "assay.run.started.v1",
        {"run_id": run_id, "kind": "bench", "provenance": {"origin": "measured"}},
        source=build.SOURCE,
        subject=run_id,
    )
    row = build.measurement(4.25, model=model, run_id=run_id, hardware="acme-cli-one")
    client.wait_for(client.post_events([started, row])["last_position"])
    return model


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The address of a web server over a folder of its own."""
    (tmp_path / "site").mkdir()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_last_run_of_a_log_goes_by_file_and_comes_in_from_everywhere(
    typed: Typed, service: Any, client: Any, measured: str, site: str, tmp_path: Path
) -> None:
    server = ("--server", service.url)
    path = tmp_path / "mine.assay.ndjson.gz"
    code, shared, _ = typed("share", *server, "--model", measured, "--yes", "--out", str(path))
    assert code == 0 and shared["contents"]["measurements"] == 1 and shared["contents"]["models"] == [measured]
    code, (dry,), _ = typed("data", "add", *server, str(path), "--dry-run")
    assert code == 0 and dry["added"]["accepted"] == 2 and dry["added"]["dry_run"]
    # Its own row is in the log already, digit for digit: the copy is held back.
    (tmp_path / "site" / path.name).write_bytes(path.read_bytes())
    for place in (f"{site}/{path.name}", str(path), str(tmp_path / "site"), _repository(tmp_path, path)):
        code, results, err = typed("data", "add", *server, place)
        assert code == 0 and [item["added"]["digest"] for item in results] == [shared["bundle"]], err
    (entry,) = [item for item in typed("data", "list", "--shared", *server)[1] if item["bundle"] == shared["bundle"]]
    assert (entry["signer"], entry["trust"], entry["runs"]) == (shared["signer"], "unknown", 1)
    assert len(client.measurements(model=measured)) == 2 - entry["held"]


def _repository(folder: Path, bundle: Path) -> str:
    """A git repository with a bundle, and a link that leads out of it."""
    work = folder / "evidence"
    (work / "bundles").mkdir(parents=True)
    (work / "bundles" / bundle.name).write_bytes(bundle.read_bytes())
    (work / "bundles" / "link.assay.ndjson.gz").symlink_to(bundle)
    who = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "Add"]):
        subprocess.run(["git", *words], cwd=work, check=True, capture_output=True)
    return str(work)


def test_a_request_to_another_assay_brings_it_there_and_trust_names_the_signer(
    typed: Typed, service: Any, build: Any, tmp_path: Path
) -> None:
    events = [
        new_event("assay.run.started.v1", {"run_id": "sent", "kind": "bench"}, source="x"),
        build.measurement(7.5, model="acme/sent", run_id="sent", hardware="acme-cli-two"),
        build.measurement(0.001, model="acme/sent", run_id="sent", hardware="acme-cli-two", batch_size=3),
    ]
    (tmp_path / "events.ndjson").write_text("".join(json.dumps(event) + "\n" for event in events))
    fast = ("share", "--from", str(tmp_path / "events.ndjson"), "--to", service.url, "--yes")
    code, answer, _ = typed(*fast)
    assert code == 0 and answer["contents"]["left_out"] == {"impossible-speed: physics does not allow it": 1}
    assert answer["answer"]["accepted"] == 2
    server = ("--server", service.url)
    key = typed("share", "key")[1]
    assert typed("data", "trust", key["public_key"], *server)[0] == 2
    code, trusted, _ = typed("data", "trust", key["public_key"], "--name", "the sender", *server)
    assert code == 0 and trusted["key"] == key["id"]
    (signer,) = [item for item in typed("data", "trust", "list", *server)[1] if item["key"] == key["id"]]
    assert (signer["name"], signer["trust"], signer["measurements"]) == ("the sender", "trusted", 1)
    assert typed(*fast)[1]["answer"]["name"] == "the sender"
    code, removed, _ = typed("data", "remove", "the sender", "--reason", "a test", *server)
    assert code == 0 and removed == {"runs": 1}
    assert typed("data", "trust", "remove", "the sender", *server)[1]["level"] == "unknown"


def test_rows_are_held_back_listed_and_released_with_a_reason(
    typed: Typed, service: Any, client: Any, build: Any, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from domain.sharing.bundles import pack

    events = [
        new_event("assay.run.started.v1", {"run_id": "held", "kind": "bench"}, source="x"),
        build.measurement(0.001, model="acme/held", run_id="held", hardware="acme-cli-three"),
    ]
    path = tmp_path / "held.assay.ndjson.gz"
    path.write_bytes(pack(events, Ed25519PrivateKey.generate(), tool="t"))
    server = ("--server", service.url)
    code, (result,), _ = typed("data", "add", str(path), *server)
    (held,) = result["added"]["held"]
    assert code == 0 and held["rule"] == "impossible-speed"
    assert held["event_id"] in {row["event_id"] for row in typed("data", "quarantine", *server)[1]["held"]}
    assert typed("data", "quarantine", "release", held["event_id"], *server)[0] == 2
    code, answer, _ = typed("data", "quarantine", "release", held["event_id"], "--reason", "measured again", *server)
    assert code == 0 and answer["released"] == 1
    assert held["event_id"] not in {row["event_id"] for row in answer["held"]}
    assert len(client.measurements(model="acme/held")) == 1


def test_a_bundle_that_is_refused_leaves_the_others_alone(
    typed: Typed, service: Any, measured: str, site: str, tmp_path: Path
) -> None:
    server = ("--server", service.url)
    folder = tmp_path / "several"
    folder.mkdir()
    good = folder / "a.assay.ndjson.gz"
    assert typed("share", *server, "--model", measured, "--yes", "--out", str(good))[0] == 0
    (folder / "b.assay.ndjson.gz").write_bytes(good.read_bytes()[:-30])
    code, results, _ = typed("data", "add", str(folder), *server)
    assert code == 1
    assert [bool(item["added"]) for item in results] == [True, False] and "cut off" in results[1]["refused"]
    (tmp_path / "empty").mkdir()
    (tmp_path / "site" / "page.html").write_text("<html></html>")
    with (tmp_path / "site" / "large.assay.ndjson.gz").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    for place, word in (
        (f"{site}/page.html", "git+"),
        (f"{site}/nothing.assay.ndjson.gz", "404"),
        (f"{site}/large.assay.ndjson.gz", "bytes"),
        (f"git+{site}/nothing.git", "git"),
        (str(tmp_path / "empty"), "bundle"),
        ("./nowhere.assay.ndjson.gz", "no file"),
        ("timmm", "timm"),
    ):
        code, _, err = typed("data", "add", place, *server)
        assert code in (1, 2, 3) and word in err, (place, err)
