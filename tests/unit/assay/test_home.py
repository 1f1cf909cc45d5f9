"""ASSAY_HOME: where it is, who owns it, and what a dead service leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.home import find_home, own, running
from assay.service import free_port
from domain.errors import ServiceUnavailable, UsageError
from runner.campaign.campaign import default_cache


def test_the_directory_that_is_named_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "a" / "b"))
    assert find_home().path == tmp_path / "a" / "b"
    assert find_home().path.is_dir()
    assert find_home(tmp_path / "c").path == tmp_path / "c"


@pytest.mark.parametrize(
    ("platform", "place"),
    [
        ("linux", ".local/share/assay"),
        ("darwin", "Library/Application Support/assay"),
        ("win32", "AppData/Local/assay"),
    ],
)
def test_without_a_name_it_is_the_platforms_own_place(tmp_path, monkeypatch, platform, place):
    monkeypatch.delenv("ASSAY_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert find_home().path == tmp_path / place


def test_windows_own_folder_of_data_goes_before_the_home(tmp_path, monkeypatch):
    monkeypatch.delenv("ASSAY_HOME", raising=False)
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "moved"))
    monkeypatch.setattr(sys, "platform", "win32")
    assert find_home().path == tmp_path / "moved" / "assay" == default_cache().parent


def test_a_place_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as refused:
        find_home(tmp_path / "file" / "below")
    assert refused.value.field == "ASSAY_HOME"


def test_what_a_dead_service_left_counts_as_none(tmp_path):
    home = find_home(tmp_path)
    assert running(home) is None
    for left in (json.dumps({"url": f"http://127.0.0.1:{free_port()}", "pid": 1, "role": "all"}), "{", ""):
        home.announcement.write_text(left)
        assert running(home) is None


def test_one_service_owns_the_directory_and_lets_go_of_it(tmp_path):
    home = find_home(tmp_path)
    with own(home, "http://127.0.0.1:1", "all"):
        told = json.loads(home.announcement.read_text())
        assert told == {"url": "http://127.0.0.1:1", "pid": os.getpid(), "role": "all"}
        with pytest.raises(ServiceUnavailable) as refused, own(home, "http://127.0.0.1:2", "all"):
            pass
        assert refused.value.field == "ASSAY_HOME"
    assert not home.announcement.exists()
    with own(home, "http://127.0.0.1:3", "all"):
        pass


def test_a_killed_owner_holds_nothing(tmp_path):
    code = (
        "import os, sys\nfrom assay.home import find_home, own\n"
        f"with own(find_home({str(tmp_path)!r}), 'http://127.0.0.1:9', 'all'):\n    os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    home = find_home(tmp_path)
    assert home.announcement.exists()
    assert running(home) is None
    with own(home, "http://127.0.0.1:3", "all"):
        assert json.loads(home.announcement.read_text())["pid"] == os.getpid()


def modes(folder):
    return {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}


def test_home_and_its_files_are_closed_to_other_users(tmp_path):
    home = tmp_path / "kept"
    (home / "projection").mkdir(parents=True)
    (home / "spool.sqlite").write_text("")
    for path, mode in ((home, 0o755), (home / "projection", 0o755), (home / "spool.sqlite", 0o644)):
        path.chmod(mode)
    tmp_path.chmod(0o755)
    find_home(home)
    assert modes(home) == {"kept": 0o700, "projection": 0o700, "spool.sqlite": 0o600}
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    find_home(tmp_path / "new" / "home")
    assert modes(tmp_path / "new")["home"] == 0o700


def test_directory_with_other_files_keeps_its_mode(tmp_path):
    tmp_path.chmod(0o755)
    for name in ("letter.txt", "service.json"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o644)
    find_home(tmp_path)
    assert modes(tmp_path) == {tmp_path.name: 0o755, "letter.txt": 0o644, "service.json": 0o600}


def test_service_creates_files_that_others_cannot_read(tmp_path):
    home = find_home(tmp_path)
    with own(home, "http://127.0.0.1:1", "all"):
        (tmp_path / "below").write_text("")
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
