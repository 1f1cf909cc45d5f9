"""A home that cannot be written to, or with folders where files belong: one sentence and exit status 2 or 3."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ingest.projection.statements import SCHEMA_VERSION

DATA = Path(__file__).resolve().parents[3] / "data" / "intel-xeon-2c-2026-11.ndjson.gz"
NOBODY = 65534
READ_ONLY = [
    ["recommend", "acme/tiny"],
    ["query", "SELECT 1"],
    ["status"],
    ["bench", "bert-base-uncased", "--platform", "cpu"],
    ["post", str(DATA)],
    ["spool", "list"],
    ["serve"],
    ["up"],
    ["demo"],
    ["token", "list"],
    ["db", "upgrade"],
    ["snapshot", "list"],
    ["export", "events.parquet"],
    ["archive", "write"],
]


def typed(
    home: Path, *words: str, another: bool = False, folder: Path | None = None, unset: bool = False
) -> tuple[int, str]:
    """Run a verb, in `folder`, and as another user where root's rights would hide what is to be seen.

    With `unset` ASSAY_HOME is not set, and `home` is that of the user.
    """
    left_out = ("ASSAY_", "XDG_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    environment |= {"HOME": str(home)} if unset else {"ASSAY_HOME": str(home)}
    command = [sys.executable, "-m", "assay.cli", *words]
    if another:
        # It may read what this interpreter is made of, wherever it lies, and write nowhere.
        rights = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *rights, *command]
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    ended = subprocess.run(
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ended.returncode, ended.stderr


def sentence(status: int, said: str, name: str) -> bool:
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    return status in (2, 3) and len(errors) == 1 and name in errors[0] and "Traceback" not in said


@pytest.fixture
def read_only(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    if os.geteuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    home.chmod(0o500)
    yield home
    home.chmod(0o700)


@pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root writes everywhere, and there is no setpriv"
)
def test_read_only_home_is_one_sentence(read_only, tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    folder.chmod(0o777)
    said = {" ".join(words): typed(read_only, *words, another=os.geteuid() == 0, folder=folder) for words in READ_ONLY}
    # `export` looks at the place of its file first.
    places = (str(read_only), str(folder))
    assert {words: told for words, told in said.items() if not any(sentence(*told, place) for place in places)} == {}


@pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root writes everywhere, and there is no setpriv"
)
@pytest.mark.parametrize("words", [["bench", "bert-base-uncased", "--platform", "cpu"], ["spool", "list"]])
def test_read_only_home_of_the_user_names_the_variable_that_helps(read_only, tmp_path, words):
    tmp_path.chmod(0o777)
    status, said = typed(read_only, *words, another=os.geteuid() == 0, folder=tmp_path, unset=True)
    assert sentence(status, said, str(read_only)) and "ASSAY_HOME" in said
    assert list(read_only.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "words"), [("", ["serve"]), pytest.param(".wal", ["serve"], marks=pytest.mark.torture), ("", ["status"])]
)
def test_folder_in_place_of_the_tables_is_one_sentence(tmp_path, name, words):
    place = tmp_path / "projection" / f"assay-v{SCHEMA_VERSION}.duckdb{name}"
    place.mkdir(parents=True)
    assert sentence(*typed(tmp_path, *words), str(place))
    assert place.is_dir()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("spool.sqlite", ["spool", "list"]),
        ("service.lock", ["serve"]),
        ("service.log", ["status"]),
        ("projection", ["serve"]),
        ("postgres", ["token", "list"]),
        ("postgres.lock", ["db", "revision"]),
    ],
)
def test_folder_or_file_in_place_of_another_is_one_sentence(tmp_path, name, words):
    place = tmp_path / name
    if name in ("projection", "postgres"):
        place.write_text("a file")
    else:
        place.mkdir()
    assert sentence(*typed(tmp_path, *words), str(place))
