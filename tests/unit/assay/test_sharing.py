"""`assay share` of files and of the spool, without a service: what is chosen, shown, written and offered."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.cli import run
from domain.events import new_event
from domain.sharing.bundles import unpack

Typed = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Runs `assay share` in an empty folder and home; returns the exit code, the JSON on stdout, and stderr."""
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    for name in ("ASSAY_SERVER", "ASSAY_EVIDENCE_REPOSITORY", "ASSAY_PASSPHRASE", "ASSAY_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def type_(*words: str, json_: bool = True) -> tuple[int, Any, str]:
        capsys.readouterr()
        code = run(["share", *words, *(["--json"] if json_ else [])])
        out, err = capsys.readouterr()
        return code, (json.loads(out) if json_ and out else out), err

    return type_


@pytest.fixture
def events(build: Any) -> list[dict[str, Any]]:
    """Two runs: one with a valid and a suspect row, and a newer one with a failure that names its user's folder."""
    when = datetime(2026, 11, 20, 14, 5, 7, tzinfo=UTC)
    suspect = build.measurement(2.0, batch_size=2, run_id="first-run", time=when)
    suspect["data"]["validity"] = {"verdict": "suspect", "reasons": ["throttled"]}
    failure = build.failure(run_id="second-run")
    failure["data"]["failure"]["message"] = "cannot read /home/alice/models/ours/weights.bin on build-box.corp.example"
    return [
        new_event("assay.run.started.v1", {"run_id": "first-run", "kind": "bench"}, source="urn:acme:alice"),
        build.measurement(1.0, run_id="first-run", model="google-bert/bert-base-uncased", time=when),
        suspect,
        new_event("assay.run.started.v1", {"run_id": "second-run", "kind": "bench"}, source="urn:acme:alice"),
        build.measurement(3.0, run_id="second-run", time=datetime(2026, 11, 22, 1, tzinfo=UTC)),
        failure,
    ]


def file_of(events: Sequence[dict[str, Any]], folder: Path) -> str:
    path = folder / "events.ndjson"
    path.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
    return str(path)


def test_a_dry_run_says_what_would_leave_and_writes_no_bundle(typed: Typed, events: Any, tmp_path: Path) -> None:
    code, answer, _ = typed("--from", file_of(events, tmp_path), "--dry-run")
    assert code == 0
    assert answer["contents"]["measurements"] == 1 and answer["contents"]["failures"] == 1
    assert answer["contents"]["scrubbed"]["path"] == 1 and answer["contents"]["scrubbed"]["address"] == 1
    assert list(Path.cwd().iterdir()) == []


def test_the_table_names_models_devices_rows_and_what_was_scrubbed(typed: Typed, events: Any, tmp_path: Path) -> None:
    code, out, _ = typed("--from", file_of(events, tmp_path), "--dry-run", json_=False)
    assert code == 0
    assert all(
        word in out for word in ("acme/tiny", "acme-one", "torch 2.13.0", "1 measurements", "paths 1×", "CC0-1.0")
    )
    assert max(len(line) for line in out.splitlines()) <= 100
    _, shown, _ = typed("--from", file_of(events, tmp_path), "--dry-run", "--show", json_=False)
    assert "<path>" in shown and "alice" not in shown


def test_a_bundle_is_written_once_agreed_and_twice_is_the_same(typed: Typed, events: Any, tmp_path: Path) -> None:
    source = file_of(events, tmp_path)
    code, _, err = typed("--from", source)
    assert code == 2 and "--yes" in err and list(Path.cwd().iterdir()) == []
    code, answer, _ = typed("--from", source, "--yes")
    assert code == 0
    bundle = unpack(Path(answer["file"]).read_bytes())
    assert bundle.manifest.digest == answer["bundle"] and bundle.signer == answer["signer"]
    assert b"alice" not in b"".join(bundle.lines) and b"second-run" not in b"".join(bundle.lines)
    first = Path(answer["file"]).read_bytes()
    assert typed("--from", source, "--yes", "--out", "again.assay.ndjson.gz")[0] == 0
    assert Path("again.assay.ndjson.gz").read_bytes() == first
    assert typed("--from", source, "--yes", "--out", "again.assay.ndjson.gz")[0] == 2
    assert sorted(path.suffix for path in Path.cwd().iterdir()) == [".gz", ".gz"]


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ([], 1),
        (["--last"], 1),
        (["first-run"], 1),
        (["first-"], 1),
        (["first-run", "--include-suspect"], 2),
        (["first-run", "second-run"], 2),
        (["--model", "bert-base-uncased"], 1),
        (["--since", "2026-11-21"], 1),
        (["--since", "2026-11-01"], 2),
    ],
)
def test_runs_models_and_dates_choose_rows(
    typed: Typed, events: Any, tmp_path: Path, words: list[str], rows: int
) -> None:
    code, answer, _ = typed(*words, "--from", file_of(events, tmp_path), "--dry-run")
    assert code == 0 and answer["contents"]["measurements"] == rows


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["nothing-like-it"], "RUN"),
        (["--since", "yesterday"], "since"),
        (["--model", "no/such-model"], "RUN"),
        (["--rename-model", "x"], "rename-model"),
        (["--licence", "ask me!"], "licence"),
        (["--pull-request"], "repository"),
        (["--to", "http://127.0.0.1:9", "--pull-request"], "to"),
        (["--spool"], "RUN"),
    ],
)
def test_what_cannot_be_shared_is_said_by_its_field(
    typed: Typed, events: Any, tmp_path: Path, words: list[str], field: str
) -> None:
    source = [] if words == ["--spool"] else ["--from", file_of(events, tmp_path)]
    code, _, err = typed(*words, *source, "--yes")
    assert code in (1, 2) and f"error: {field}:" in err
    assert list(Path.cwd().iterdir()) == []


def test_rows_that_do_not_count_stay_here_and_are_named(typed: Typed, events: Any, build: Any, tmp_path: Path) -> None:
    fast = build.measurement(
        0.001, run_id="first-run", model="google-bert/bert-base-uncased", hardware="nvidia-l4", platform="cuda"
    )
    imported = build.measurement(5.0, run_id="first-run", provenance={"origin": "imported"})
    orphan = build.measurement(5.0, run_id="first-run-of-another")
    void = build.retraction(event_id=events[1]["id"])
    everything = [*events, fast, imported, orphan, void]
    code, _, err = typed("first-run", "--from", file_of(everything, tmp_path), "--dry-run")
    assert code == 2 and all(word in err for word in ("retracted", "suspect", "imported", "impossible-speed"))
    undone = new_event(
        "assay.measurement.retracted.v1", {"reason": "it was right", "event_id": void["id"]}, source="urn:acme:alice"
    )
    code, answer, _ = typed("first-run", "--from", file_of([*everything, undone], tmp_path), "--dry-run")
    assert code == 0 and answer["contents"]["measurements"] == 1
    assert sum(answer["contents"]["left_out"].values()) == 3


def test_the_spool_is_shared_where_no_service_runs(typed: Typed, events: Any, tmp_path: Path) -> None:
    from runner.spool.spool import Spool

    with Spool(tmp_path / "home" / "spool.sqlite") as spool:
        spool.put(events)
    code, answer, _ = typed("--dry-run")
    assert code == 0 and answer["contents"]["failures"] == 1


def test_the_key_is_the_owner_s_alone_and_another_than_the_runner_s(typed: Typed, tmp_path: Path) -> None:
    code, answer, _ = typed("key")
    path = tmp_path / "home" / "sharing_key.pem"
    assert code == 0 and answer["id"].startswith("ed25519:")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (tmp_path / "home" / "sharing_key.pub").read_text().strip() == answer["public_key"]
    assert typed("key")[1] == answer
    assert typed("key", "--encrypt")[0] == 2
    assert not (tmp_path / "home" / "signing_key.pem").exists()


def test_a_key_with_a_passphrase_opens_with_it_alone(
    typed: Typed, events: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_PASSPHRASE", "correct horse")
    code, answer, _ = typed("key", "--encrypt")
    assert code == 0 and b"ENCRYPTED" in (tmp_path / "home" / "sharing_key.pem").read_bytes()
    source = file_of(events, tmp_path)
    assert typed("--from", source, "--dry-run")[1]["signer"] == answer["id"]
    monkeypatch.setenv("ASSAY_PASSPHRASE", "wrong")
    assert "passphrase" in typed("--from", source, "--dry-run")[2]
    monkeypatch.delenv("ASSAY_PASSPHRASE")
    code, _, err = typed("--from", source, "--dry-run")
    assert code == 2 and "ASSAY_PASSPHRASE" in err


GIT = {
    "GIT_AUTHOR_NAME": "Tester",
    "GIT_AUTHOR_EMAIL": "tester@example.org",
    "GIT_COMMITTER_NAME": "Tester",
    "GIT_COMMITTER_EMAIL": "tester@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(*words: str, cwd: Path) -> str:
    environment = {**os.environ, **GIT}
    return subprocess.run(["git", *words], cwd=cwd, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bare repository with one commit, and an identity for git."""
    for name, value in GIT.items():
        monkeypatch.setenv(name, value)
    bare, work = tmp_path / "evidence.git", tmp_path / "work"
    git("init", "--bare", "-b", "main", str(bare), cwd=tmp_path)
    git("clone", str(bare), str(work), cwd=tmp_path)
    (work / "README.md").write_text("evidence\n")
    git("add", ".", cwd=work)
    git("commit", "-m", "Begin", cwd=work)
    git("push", "origin", "HEAD:main", cwd=work)
    return bare


def test_commands_of_a_pull_request_are_printed_and_put_the_bundle_in_its_place(
    typed: Typed, events: Any, tmp_path: Path, repository: Path
) -> None:
    code, answer, _ = typed("--from", file_of(events, tmp_path), "--yes", "--repository", str(repository))
    assert code == 0 and answer["commands"][-1].startswith("cd evidence && gh pr create")
    subprocess.run("\n".join(answer["commands"][:-1]), shell=True, check=True, capture_output=True)
    branch = f"share/{answer['bundle'].removeprefix('sha256:')[:12]}"
    (path,) = git("ls-tree", "-r", "--name-only", branch, "bundles", cwd=repository).splitlines()
    assert path.startswith("bundles/2026-11-22/acme-one-")
    content = subprocess.run(
        ["git", "show", f"{branch}:{path}"], cwd=repository, capture_output=True, check=True
    ).stdout
    assert unpack(content).manifest.digest == answer["bundle"]


def test_a_pull_request_is_made_where_gh_is_and_not_otherwise(
    typed: Typed, events: Any, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = file_of(events, tmp_path)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").symlink_to(subprocess.check_output(["which", "git"], text=True).strip())
    monkeypatch.setenv("PATH", str(programs))
    words = ("--from", source, "--pull-request", "--yes", "--repository", repository.as_uri())
    code, _, err = typed(*words)
    assert code == 3 and "gh is not installed" in err
    assert git("branch", "--list", "share/*", cwd=repository) == ""
    # The program itself needs an account: this one says what it was asked.
    said = tmp_path / "said"
    (programs / "gh").write_text(f'#!/bin/sh\necho "$@" > {said}\necho https://example.org/pull/1\n')
    (programs / "gh").chmod(0o700)
    code, answer, _ = typed(*words)
    assert (code, answer["pull_request"]) == (0, "https://example.org/pull/1")
    assert said.read_text().startswith("pr create --head share/")
    assert "share/" in git("branch", "--list", "share/*", cwd=repository)
    assert list(Path.cwd().iterdir()) == []


def test_a_repository_that_cannot_be_reached_is_said_and_nothing_stays(
    typed: Typed, events: Any, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "gh").write_text("#!/bin/sh\nexit 1\n")
    (programs / "gh").chmod(0o700)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    gone = (tmp_path / "gone.git").as_uri()
    code, _, err = typed("--from", file_of(events, tmp_path), "--pull-request", "--yes", "--repository", gone)
    assert code == 3 and "git clone" in err and list(Path.cwd().iterdir()) == []


WITHOUT_SERVICE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"duckdb", "pyarrow", "numpy", "litestar", "psycopg", "lightgbm", "torch", "zstandard"}:
            raise ModuleNotFoundError(name, name=name.partition(".")[0])

sys.meta_path.insert(0, Missing())
from assay.cli import run
sys.exit(run(sys.argv[1:]))
"""


def test_a_bare_machine_shares_without_the_packages_of_the_service(events: Any, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SERVICE, "share", "--from", file_of(events, tmp_path), "--yes", "--json"],
        cwd=tmp_path,
        env={**os.environ, "ASSAY_HOME": str(tmp_path / "home"), "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert unpack((tmp_path / json.loads(done.stdout)["file"]).read_bytes()).manifest.events == 3
