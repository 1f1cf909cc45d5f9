"""The wheel: one top-level name, everything inside, beside a distribution that owns `api`, `domain` and `runner`."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import time
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from assay import __version__
from assay.service import free_port
from ingest.projection.definitions import definitions_digest
from tests.integration.working_folder import hostile_folder

ROOT = Path(__file__).resolve().parents[2]
THEIRS = ("api", "domain", "runner")
LARGEST_BYTES = 25e6
START_S = 90.0


def build(target: str, origin: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(command, cwd=origin, env=environment, check=True, capture_output=True)
    (artifact,) = folder.iterdir()
    return artifact


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


class Installed:
    """A new environment with the wheel, the third-party packages of this one, and a distribution that owns our names."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        self.python = folder / "venv" / "bin" / "python"
        self.packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
        # A path in a .pth file takes the packages of that folder and runs none of its own .pth files: no editable install.
        (self.packages / "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.theirs = self._foreign_distribution()
        self.pip("install", "--no-deps", "--no-index", "--no-compile", str(wheel))
        self.working = folder / "working"
        for name in THEIRS:
            (self.working / name).mkdir(parents=True)
            (self.working / name / "__init__.py").write_text(f"raise SystemExit('{name} of the working folder')\n")
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "PYTHON"))
        }
        self.environment |= {"ASSAY_HOME": str(folder / "home"), "ASSAY_SHIPPED_DATA": "no", "COLUMNS": "100"}

    def _foreign_distribution(self) -> dict[Path, str]:
        information = self.packages / "foreign-1.0.dist-info"
        files = {self.packages / name / "__init__.py": f"OWNER = 'theirs: {name}'\n" for name in THEIRS}
        # Of the same names as modules of ours.
        files |= {self.packages / "api" / "app.py": "", self.packages / "domain" / "errors.py": ""}
        files |= {information / "METADATA": "Metadata-Version: 2.1\nName: foreign\nVersion: 1.0\n"}
        for path, text in files.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        record = "".join(f"{path.relative_to(self.packages)},,\n" for path in files)
        (information / "RECORD").write_text(f"{record}foreign-1.0.dist-info/RECORD,,\n")
        return files

    def pip(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(self.python), *arguments]
        subprocess.run(command, check=True, capture_output=True)

    def run(self, *command: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment's bin folder in the working folder."""
        program, *arguments = command
        done = subprocess.run(
            [self.python.with_name(program), *arguments], cwd=self.working, env=self.environment | environment,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        with (self.folder / "started.log").open("ab") as log:
            return subprocess.Popen(
                [self.python.with_name("assay"), *arguments], cwd=self.working, env=self.environment | environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"), wheel)


@pytest.fixture(scope="module")
def measured(installed: Installed) -> Path:
    """A file of events of one small model, measured by the wheel."""
    case = ("prajjwal1/bert-tiny", "--platform", "cpu", "--precision", "fp32", "--batch-sizes", "1")
    installed.run("assay", "bench", *case, "--weights", "random", "--budget", "0.1", "--out", "measured.ndjson")
    return installed.working / "measured.ndjson"


def wait_until_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> httpx.Response:
    until = time.monotonic() + START_S
    with httpx.Client(trust_env=False) as client:
        while True:
            assert process.poll() is None and time.monotonic() < until, log.read_text()
            try:
                answer = client.get(url)
                if answer.is_success:
                    return answer
            except httpx.TransportError:
                pass
            time.sleep(0.05)


@pytest.fixture(scope="module")
def served(installed: Installed) -> Iterator[tuple[str, str]]:
    """Addresses of the API and of the dashboard that `assay up` of the wheel serves, on its embedded Postgres."""
    api, dashboard = free_port(), free_port()
    process = installed.start("up", "--port", str(api), "--dashboard-port", str(dashboard))
    try:
        wait_until_answers(f"http://127.0.0.1:{api}/health/ready", process, installed.folder / "started.log")
        yield f"http://127.0.0.1:{api}", f"http://127.0.0.1:{dashboard}"
    finally:
        process.terminate()
        process.wait(30)


def digests(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def test_wheel_owns_one_top_level_name_and_holds_every_file(wheel: Path) -> None:
    names = digests(wheel).keys()
    assert {name.partition("/")[0] for name in names} == {"assay", f"assay_bench-{__version__}.dist-info"}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    tops = ("api", "assay", "dashboard", "domain", "ingest", "predictor", "presentation", "runner", "alembic")
    files = listed or [
        str(path.relative_to(ROOT)) for top in tops for path in (ROOT / top).rglob("*") if path.is_file()
    ]
    moved = {"assay": "assay", "alembic": "assay/ingest/migrations"}
    wanted = {
        f"{moved.get(top, f'assay/{top}')}/{rest}"
        for top, _, rest in (file.partition("/") for file in files)
        if top in tops and "__pycache__" not in rest and (ROOT / top / rest).is_file()
    }
    assert len(wanted) > 800 and not wanted - names
    assert not [name for name in names if name.endswith((".pyc", ".png", ".ndjson.gz")) and "dashboard" not in name]
    assert wheel.stat().st_size <= LARGEST_BYTES


def test_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    for name in ("sdist", "source", "wheel"):
        (tmp_path / name).mkdir()
    with tarfile.open(build("sdist", ROOT, tmp_path / "sdist")) as archive:
        # Python 3.11.3 and older have no filters, and 3.12 warns without one.
        archive.extractall(tmp_path / "source", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (source,) = (tmp_path / "source").iterdir()
    assert not (source / "docs" / "images").exists()
    again = build("wheel", source, tmp_path / "wheel")
    assert digests(again) == digests(wheel)
    assert again.read_bytes() == wheel.read_bytes()


def test_every_module_of_the_wheel_is_imported_without_a_foreign_one(installed: Installed) -> None:
    program = """
import importlib, json, pkgutil, sys
import assay
scripts = ("assay.dashboard.app", "assay.dashboard.server")
names = [each.name for each in pkgutil.walk_packages(assay.__path__, "assay.")]
wrong = {}
for name in names:
    if name not in scripts and not name.endswith("__main__") and ".migrations." not in name:
        try:
            importlib.import_module(name)
        except Exception as error:
            if not isinstance(error, ModuleNotFoundError) or error.name.startswith("assay"):
                wrong[name] = repr(error)
from assay.ingest.projection.definitions import definitions_digest
foreign = [name for name in sys.modules if name.partition(".")[0] in ("api", "domain", "runner", "ingest", "predictor")]
import api, domain, runner
print(json.dumps({"count": len(names), "wrong": wrong, "foreign": foreign, "places": [assay.__file__, assay.api.__file__],
                  "theirs": [api.OWNER, domain.OWNER, runner.OWNER], "tables": definitions_digest({})}))
"""
    (installed.folder / "program.py").write_text(program)
    answer = json.loads(installed.run("python", str(installed.folder / "program.py")).stdout)
    assert answer["wrong"] == {} and answer["foreign"] == [] and answer["count"] > 800
    assert answer["theirs"] == [f"theirs: {name}" for name in THEIRS]
    assert all(Path(place).is_relative_to(installed.packages) for place in answer["places"])
    # Tables that a clone made are those of the wheel: neither makes them anew after the other.
    assert answer["tables"] == definitions_digest({})


def test_command_line_of_the_wheel_answers_in_a_folder_with_packages_of_our_names(installed: Installed) -> None:
    assert installed.run("assay", "--version").stdout == f"assay, version {__version__}\n"
    assert "recommend" in installed.run("assay", "--help").stdout
    assert installed.run("python", "-m", "assay.cli", "--version").stdout == f"assay, version {__version__}\n"
    (device, *_) = json.loads(installed.run("assay", "detect", "--json").stdout)
    assert "cpu" in {each["platform"] for each in device["platforms"] if each["available"]}


def test_first_command_of_the_readme_answers_from_the_wheel_alone(installed: Installed, tmp_path: Path) -> None:
    block = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Thirty seconds")[2].split("```")[1]
    installing, asking = (line.partition("#")[0].split() for line in block.strip().splitlines())
    assert installing[:2] == ["pip", "install"]
    home = {"ASSAY_HOME": str(tmp_path)}
    answer = installed.run(*asking, **home)
    assert "imported" in answer.stdout
    assert "what ships" in answer.stderr
    # As `uvx` and `pipx run` call it.
    assert installed.run(installing[2], *asking[1:], "--json", **home).stdout.startswith("{")


def test_wheel_measures_in_a_child_process_without_a_service(measured: Path) -> None:
    types = [json.loads(line)["type"] for line in measured.read_text().splitlines()]
    assert "assay.measurement.recorded.v1" in types


def test_service_and_dashboard_of_the_wheel_answer(
    installed: Installed, served: tuple[str, str], measured: Path
) -> None:
    api, dashboard = served
    assert json.loads(installed.run("assay", "status", "--json").stdout)["server"] == api
    installed.run("assay", "post", str(measured))
    recommendation = json.loads(installed.run("assay", "recommend", "bert-base-uncased", "--json").stdout)
    assert recommendation["ranked"]
    with httpx.Client(trust_env=False, timeout=60) as client:
        assert client.get(f"{dashboard}/_stcore/health").text == "ok"
        schemas = client.get(f"{api}/schema/openapi.json").json()["components"]["schemas"]
    assert schemas and not [name for name in schemas if "assay" in name.lower() or "." in name]
    installed.run("assay", "report", "performance", "--out", "report.html")
    assert (installed.working / "report.html").read_text().startswith("<!doctype html>")
    # A statement runs in a child process of the service.
    answer = installed.run("assay", "query", "SELECT DISTINCT model_id FROM measurements", "--format", "csv")
    assert answer.stdout.splitlines() == ["model_id", "prajjwal1/bert-tiny"]


def test_workers_of_the_ingest_role_start_from_the_wheel(installed: Installed, database) -> None:
    port = free_port()
    process = installed.start(
        "serve", "--role", "ingest", "--workers", "1", "--port", str(port),
        ASSAY_DATABASE_URL=database.url, ASSAY_HOME=str(installed.folder / "workers"),
    )  # fmt: skip
    try:
        wait_until_answers(f"http://127.0.0.1:{port}/health/ready", process, installed.folder / "started.log")
    finally:
        process.terminate()
        process.wait(30)


def test_uninstalling_the_wheel_leaves_the_other_distribution_whole(wheel: Path, tmp_path: Path) -> None:
    place = Installed(tmp_path, wheel)
    place.pip("uninstall", "--yes", "assay-bench")
    assert {path: path.read_text() for path in place.theirs} == place.theirs
    assert not (place.packages / "assay").exists()
    assert not place.python.with_name("assay").exists()
    assert place.run("python", "-I", "-c", "import api; print(api.OWNER)").stdout == "theirs: api\n"


def test_clone_says_which_package_hides_its_own(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(hostile_folder(tmp_path)), str(ROOT)))}
    done = subprocess.run(
        [sys.executable, "-m", "assay.cli", "--version"], cwd=ROOT.parent, env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr.startswith(f"error: {tmp_path / 'domain.py'} hides Assay's own package 'domain'")
    program = "import assay\ntry:\n    assay.Client\nexcept ImportError as error:\n    print(error.path)"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, cwd=ROOT.parent
    )
    assert done.stdout == f"{tmp_path / 'domain.py'}\n"
