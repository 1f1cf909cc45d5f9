"""Named baselines: a name stands for the state of a branch, is moved by naming it again, and fits one hardware where it says so."""

from __future__ import annotations

import json
import uuid

import httpx
import pytest

from assay.cli import run
from domain.errors import NotFound, UsageError
from domain.payloads import BranchStart


def named() -> str:
    return f"nightly {uuid.uuid4().hex[:12]}"


@pytest.fixture
def known(client, build):
    """A model with a row at 1 ms, the position after it, and then one at 1.5 ms."""
    model, hardware = f"acme/{uuid.uuid4().hex}", f"acme-{uuid.uuid4().hex[:8]}"
    parts = {"model": model, "hardware": hardware}
    position = client.post_events([build.measurement(1.0, **parts)])["last_position"]
    last = client.post_events([build.measurement(1.5, **parts, run_id="run-2")])["last_position"]
    client.wait_for(last)
    return model, hardware, position


def test_a_baseline_is_named_moved_listed_and_taken_away(client, known):
    name, (_, hardware, position) = named(), known
    start = BranchStart(branch="main", position=position)
    made = client.set_baseline(name, "release-1.4", position, start=start, hardware=hardware, note="frozen")
    assert (made.position, made.branch, made.start, made.hardware, made.note) == (
        position, "release-1.4", start, hardware, "frozen",
    )  # fmt: skip
    assert client.baseline(name) == made
    assert [item for item in client.baselines() if item.name == name] == [made]
    moved = client.set_baseline(name, "main")
    assert moved.position > position and moved.start is None
    assert client.baseline(name) == moved
    assert client.delete_baseline(name).position == moved.position
    with pytest.raises(NotFound):
        client.baseline(name)
    with pytest.raises(NotFound):
        client.delete_baseline(name)
    assert name not in [item.name for item in client.baselines()]
    said = [event["data"] for event in client.events(types=["assay.baseline.named.v1"], subject=f"baseline/{name}")]
    assert [(data["branch"], data.get("withdrawn", False)) for data in said] == [
        ("release-1.4", False), ("main", False), ("main", True),
    ]  # fmt: skip
    rows = client.query(f"SELECT action FROM operations WHERE object = '{name}' ORDER BY position")["rows"]
    assert [action for (action,) in rows] == ["baseline.named", "baseline.named", "baseline.withdrawn"]


def test_regressions_compare_with_a_baseline_by_its_name(service, client, known, capsys):
    name, (model, hardware, position) = named(), known
    client.set_baseline(name, "main", position, hardware=hardware)
    words = ["regressions", "--baseline", name, "--server", service.url]
    assert run([*words, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["baseline"], report["baseline_position"]) == (name, position)
    assert [(change["state"], model in change["title"]) for change in report["changes"]] == [("worse", True)]
    # A snapshot of the same name comes first.
    client.create_snapshot(name, client.ready()["log_position"])
    assert run([*words, "--model", model, "--new-ok"]) == 0
    capsys.readouterr()
    assert run(["regressions", "--baseline", named(), "--server", service.url]) == 1
    assert "baseline list" in capsys.readouterr().err


def test_a_baseline_of_another_machine_is_refused_with_both_names(service, client, known, build, tmp_path, capsys):
    name, (model, hardware, position) = named(), known
    client.set_baseline(name, "main", position, hardware=hardware)
    path = tmp_path / "now.ndjson"
    path.write_text(json.dumps(build.measurement(1.0, model=model, hardware="acme-elsewhere")) + "\n")
    words = ["regressions", "--baseline", name, "--candidate", str(path), "--server", service.url]
    assert run(words) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert hardware in error and "acme-elsewhere" in error
    path.write_text(json.dumps(build.measurement(1.0, model=model, hardware=hardware)) + "\n")
    assert run(words) == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "12", "branch": "main"}, "name"),
        ({"name": "nightly", "branch": "two words"}, "branch"),
        ({"name": "nightly"}, "branch"),
        ({"name": "nightly", "branch": "main", "position": -1}, "position"),
        ({"name": "nightly", "branch": "main", "position": 10**9}, "position"),
        ({"name": "nightly", "branch": "topic", "start": {"branch": "main", "position": -1}}, "start.position"),
        ({"name": "nightly", "branch": "topic", "start": {"branch": "main", "position": 10**9}}, "start.position"),
        ({"name": "nightly", "branch": "main", "start": {"branch": "main", "position": 0}}, "start.branch"),
        ({"name": "nightly", "branch": "main", "hardware": "acme-never-measured"}, "hardware"),
        ({"name": "nightly", "branch": "main", "machine": "x"}, "machine"),
    ],
)
def test_a_baseline_that_cannot_be_is_refused_by_field(service, body, field):
    answer = httpx.post(f"{service.url}/v1/baselines", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text


def test_the_verbs(service, capsys, known):
    def typed(*words: str, code: int = 0) -> tuple[str, str]:
        assert run(["baseline", *words, "--server", service.url]) == code
        said = capsys.readouterr()
        return said.out, " ".join(said.err.split())

    name, (_, hardware, position) = named(), known
    place = ("--position", str(position), "--start-branch", "main", "--start-position", "0")
    made = json.loads(typed("set", name, "--branch", "topic", *place, "--hardware", hardware, "--json")[0])
    assert (made["name"], made["position"], made["start"]) == (name, position, {"branch": "main", "position": 0})
    assert name in typed("list")[0]
    shown = json.loads(typed("show", name, "--json")[0])
    assert (shown["baseline"]["branch"], shown["known"]["position"]) == ("topic", position)
    assert hardware in typed("show", name)[0]
    assert "--start-position" in typed("set", name, "--branch", "b", "--start-branch", "main", code=2)[1]
    assert "--position" in typed("set", name, "--branch", "b", "--position", "0", "--snapshot", "s", code=2)[1]
    assert name in typed("delete", name)[1]
    typed("show", name, code=1)


def test_positions_beyond_the_log_are_named_by_field(client):
    with pytest.raises(UsageError) as refused:
        client.set_baseline(named(), "main", 10**9)
    assert refused.value.field == "position"
