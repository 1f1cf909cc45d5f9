"""`assay bisect` on real git repositories and real packages: the answer, interruptions, skips and wrong input."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.bisect.measuring import compiled
from assay.cli import run

ROOT = Path(__file__).parents[3]
COMMITS, FIRST_BAD = 32, 20
AUTHOR = "A <a@example.org> 1700000000 +0000"


def git(folder, *words):
    return subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True).stdout.strip()


def make_repository(folder, files_of_commits):
    """Make a repository with one commit for each mapping of file names to contents."""
    stream = []
    for number, files in enumerate(files_of_commits):
        message = f"Change {number}"
        stream.append(f"commit refs/heads/main\ncommitter {AUTHOR}\ndata {len(message)}\n{message}\ndeleteall\n")
        stream += [f"M 100644 inline {name}\ndata {len(text)}\n{text}\n" for name, text in files.items()]
    git(folder.parent, "init", "--quiet", "--initial-branch=main", str(folder))
    subprocess.run(["git", "-C", str(folder), "fast-import", "--quiet"], input="".join(stream), text=True, check=True)
    git(folder, "reset", "--hard", "--quiet")
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """32 commits, of which `work` is 1000 and from the planted one on 1150; four around it do not build."""
    return make_repository(
        tmp_path_factory.mktemp("made") / "repository",
        [
            {"work": "1150" if number >= FIRST_BAD else "1000", "number": str(number)}
            | ({"broken": ""} if number in (15, 16, 17, 18) else {})
            for number in range(COMMITS)
        ],
    )


@pytest.fixture
def repository(made, tmp_path, monkeypatch):
    """A clone, which is the working folder."""
    git(tmp_path, "clone", "--quiet", str(made), "clone")
    monkeypatch.chdir(tmp_path / "clone")
    return tmp_path / "clone"


@pytest.fixture
def bisect(capsys):
    """Runs `assay bisect` between the first commit and the last; returns its JSON, or what it complains."""

    def type_(*words, good="HEAD~31", bad="HEAD", code=0):
        as_json = ("--json",) if code < 2 else ()
        ended = run(["bisect", "--good", good, "--bad", bad, *words, *as_json])
        output = capsys.readouterr()
        assert ended == code, output.err + output.out
        return json.loads(output.out) if as_json else " ".join(output.err.split())

    return type_


NUMBER = ("--run", "cat work", "--number", "last")


def test_planted_commit_is_named_with_its_change_and_the_checkout_is_untouched(repository, bisect):
    (repository / "work").write_text("not committed")
    report = bisect(*NUMBER)
    assert report["first_bad"] == git(repository, "rev-parse", f"HEAD~{COMMITS - 1 - FIRST_BAD}")
    assert report["before"] == git(repository, "rev-parse", f"HEAD~{COMMITS - FIRST_BAD}")
    assert report["title"] == f"Change {FIRST_BAD}"
    assert report["low"] <= report["change"] <= report["high"]
    assert report["change"] == pytest.approx(0.15)
    assert report["measured"] == 7 and report["candidates"] == COMMITS
    assert len(report["records"]) == report["runs"]
    assert (repository / "work").read_text() == "not committed"
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_command_runs_in_the_same_part_of_the_repository(tmp_path, bisect):
    contents = [{"part/work": "10" if number < 3 else "20"} for number in range(5)]
    contents[1] = {"work": "10"}
    folder = make_repository(tmp_path / "parts", contents)
    words = (*NUMBER, "--build", "test ! -e part", "--repository", str(folder / "part"))
    assert bisect(*words, good="HEAD~4")["title"] == "Change 3"
    report = bisect(*NUMBER, "--repository", str(folder / "part"), "--restart", good="HEAD~4", bad="HEAD~2", code=1)
    assert report["outcome"] == "no-difference" and report["measured"] == 2


def test_commits_that_do_not_build_are_skipped(repository, bisect):
    report = bisect(*NUMBER, "--build", "echo no compiler; test ! -e broken")
    assert report["title"] == f"Change {FIRST_BAD}"
    skipped = [version for version in report["versions"] if version["side"] == "skipped"]
    assert report["skipped"] == len(skipped) >= 1
    assert all("no compiler" in version["reason"] for version in skipped)


def test_range_is_named_where_skips_hide_the_answer(repository, bisect):
    report = bisect(*NUMBER, "--build", "grep -q -v -x -e 19 -e 20 -e 21 number", code=1)
    assert report["outcome"] == "range"
    suspects = [git(repository, "log", "-1", "--format=%s", name) for name in report["suspects"]]
    assert suspects == [f"Change {number}" for number in (19, 20, 21, 22)]
    assert report["first_bad"] is None and report["change"] == pytest.approx(0.15)


def test_wall_time_of_the_command_is_the_default(repository, bisect):
    slow = "if test $(cat work) = 1150; then sleep 0.15; fi"
    report = bisect("--run", slow, good=f"HEAD~{COMMITS - FIRST_BAD}", bad=f"HEAD~{COMMITS - 1 - FIRST_BAD}")
    assert (report["title"], report["measure"], report["unit"]) == (f"Change {FIRST_BAD}", "time", "s")
    assert report["versions"][1]["value"] >= 0.15 > report["versions"][0]["value"]


def test_check_goes_by_the_exit_code_and_125_skips(repository, bisect):
    report = bisect("--check", "--run", "test $(cat number) = 15 && exit 125; test $(cat work) = 1000")
    assert report["title"] == f"Change {FIRST_BAD}"
    assert report["runs"] == report["measured"] == 7
    assert [version["reason"] for version in report["versions"] if version["side"] == "skipped"]


def test_figure_of_events_is_compared(repository, bisect, build):
    for name, value in (("1000", 10.0), ("1150", 20.0)):
        (repository / f"{name}.ndjson").write_text(json.dumps(build.measurement(value)))
    report = bisect("--run", f"cp {shlex.quote(str(repository))}/$(cat work).ndjson {{out}}", good="HEAD~14")
    assert (report["title"], report["measure"], report["unit"]) == (f"Change {FIRST_BAD}", "latency_p50_ms", "ms")
    assert report["change"] == pytest.approx(1.0)
    error = bisect("--run", "cp ../nothing {out} || true", "--restart", code=2)
    assert "error: good:" in error and "no events" in error
    error = bisect(
        "--run", f"cp {shlex.quote(str(repository))}/1000.ndjson {{out}}", "--metric", "ttft_ms", "--restart", code=2
    )
    assert "ttft_ms" in error and "latency_p50_ms" in error


def test_answer_is_a_table_with_a_picture_of_at_most_100_columns(repository, capsys):
    words = ["bisect", "--good", "HEAD~31", "--bad", "HEAD", *NUMBER, "--build", "test ! -e broken"]
    assert run(words) == 0
    output = capsys.readouterr().out
    assert max(map(len, output.splitlines())) <= 100
    named = next(line for line in output.splitlines() if "◄" in line)
    assert named.startswith(git(repository, "rev-parse", f"HEAD~{COMMITS - 1 - FIRST_BAD}")[:12])
    assert "●" in named
    assert f"Change {FIRST_BAD}" in output and "+15.0 %" in output


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_interrupted_search_goes_on_without_measuring_anything_twice(repository, bisect, number, tmp_path):
    runs, pid = tmp_path / "runs", tmp_path / "pid"
    halt = f"test $(wc -l < {runs}) = 12 && test ! -e {tmp_path}/on && echo $$ > {pid}.new && mv {pid}.new {pid} && exec sleep 600"
    words = ("--run", f"echo >> {runs}; {halt}; cat work", "--number", "last")
    command = [sys.executable, "-m", "assay.cli", "bisect", "--good", "HEAD~31", "--bad", "HEAD", *words]
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: pid.exists() or process.poll() is not None)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    sleeper = int(pid.read_text())
    if number == signal.SIGKILL:
        os.killpg(sleeper, signal.SIGKILL)
    else:
        assert process.returncode == 130, errors
        assert not alive(sleeper)
        assert len(git(repository, "worktree", "list").splitlines()) == 1
    (tmp_path / "on").touch()
    report = bisect(*words)
    assert report["title"] == f"Change {FIRST_BAD}"
    assert len(runs.read_text().splitlines()) == report["runs"] + 1
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition, limit_s=60):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_answer_is_kept_and_another_question_is_refused_until_restart(repository, bisect):
    first = bisect(*NUMBER)
    assert bisect(*NUMBER) == first
    error = bisect("--run", "cat work # again", "--number", "last", code=2)
    assert "--run" in error and "--restart" in error
    assert bisect("--run", "cat work # again", "--number", "last", "--restart")["title"] == f"Change {FIRST_BAD}"


@pytest.mark.parametrize("change", [lambda state: state["records"].reverse(), lambda state: state.pop("versions")])
def test_state_that_no_such_search_can_have_written_is_refused(repository, bisect, change):
    bisect(*NUMBER, good="HEAD~14")
    path = repository / ".git" / "assay-bisect" / "state.json"
    state = json.loads(path.read_text())
    change(state)
    path.write_text(json.dumps(state))
    error = bisect(*NUMBER, good="HEAD~14", code=2)
    assert "state:" in error and "--restart" in error


def test_output_of_a_run_that_failed_is_not_taken_for_that_of_the_next(repository, bisect, tmp_path):
    counts = f"echo >> {tmp_path}/n; case $(wc -l < {tmp_path}/n) in 1) echo 5; exit 3;; 2) ;; *) echo 5;; esac"
    command = f"if test $(cat number) = 31; then {counts}; else echo 1; fi"
    assert "ended with 3" in bisect("--run", command, "--number", "last", code=2)
    assert "printed nothing" in bisect("--run", command, "--number", "last", code=2)


def test_two_searches_in_one_folder_are_refused(repository, bisect):
    from domain.operating_system import lock

    folder = repository / ".git" / "assay-bisect"
    folder.mkdir()
    with (folder / "lock").open("ab") as holder:
        assert lock(holder.fileno())
        assert "another search" in bisect(*NUMBER, code=3)


def test_folder_with_files_of_somebody_else_is_not_touched(repository, bisect, tmp_path):
    mine = tmp_path / "mine" / "logs" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    for folder in (tmp_path / "mine", mine):
        assert "state" in bisect(*NUMBER, "--state", str(folder), "--restart", code=2)
    assert mine.read_text() == "mine"
    assert bisect(*NUMBER, "--state", str(tmp_path / "new" / "state"), good="HEAD~14")["first_bad"]


def test_nothing_is_bisected_where_both_ends_do_the_same_or_the_bad_one_is_better(repository, bisect):
    report = bisect(*NUMBER, "--most-runs", "4", good="HEAD~5", code=1)
    assert (report["outcome"], report["first_bad"], report["measured"]) == ("no-difference", None, 2)
    report = bisect(*NUMBER, "--better", "higher", "--restart", code=1)
    assert report["outcome"] == "inverted"


def test_command_that_takes_too_long_is_ended_with_what_it_started(repository, bisect, tmp_path):
    pid = tmp_path / "pid"
    error = bisect("--run", f"sleep 600 & echo $! > {pid}; wait", "--timeout", "0.3", code=2)
    assert "0.3 s" in error
    wait_until(lambda: not alive(int(pid.read_text())))


@pytest.mark.parametrize(
    ("words", "good", "bad", "parts"),
    [
        (NUMBER, "v9", "HEAD", ("good:", "'v9'")),
        (NUMBER, "HEAD~3", "HEAD~3", ("bad:", "same commit")),
        (NUMBER, "HEAD", "HEAD~3", ("good:", "newer", "Swap")),
        (("--run", "no-such-program"), "HEAD~3", "HEAD", ("good:", "127", "no-such-program")),
        (("--run", "true", "--number", "last"), "HEAD~3", "HEAD", ("good:", "--number", "nothing")),
        (("--run", "echo abc", "--number", "b(c)"), "HEAD~3", "HEAD", ("good:", "'c'")),
        (("--run", "true", "--number", "(a)(b)"), "HEAD~3", "HEAD", ("number:", "2 groups")),
        (("--run", "true", "--number", "("), "HEAD~3", "HEAD", ("number:", "regular expression")),
        (("--run", "true", "--metric", "ttft_ms"), "HEAD~3", "HEAD", ("metric:", "{out}")),
        (("--run", "x {out}", "--metric", "latency_p5_ms"), "HEAD~3", "HEAD", ("metric:", "latency_p50_ms")),
        (("--run", "true", "--check", "--number", "last"), "HEAD~3", "HEAD", ("run:", "--check")),
        (("--run", "true", "--check", "--better", "lower"), "HEAD~3", "HEAD", ("better:",)),
        (("--run", "true", "--build", "echo why; exit 3"), "HEAD~3", "HEAD", ("good:", "the build ended with 3", "why")),
        (("--run", "true", "--overlay"), "HEAD~3", "HEAD", ("overlay:", "--package")),
        (("--run", "true", "--repository", "/"), "HEAD~3", "HEAD", ("repository:",)),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_with_the_field(repository, bisect, words, good, bad, parts):
    error = bisect(*words, good=good, bad=bad, code=2)
    assert "error: " in error and not [part for part in parts if part not in error], error
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_good_commit_beyond_a_shallow_clone_is_refused_with_the_remedy(made, tmp_path, bisect):
    old = git(made, "rev-parse", "HEAD~9")
    git(tmp_path, "clone", "--quiet", "--depth=4", f"file://{made}", "shallow")
    error = bisect(*NUMBER, "--repository", str(tmp_path / "shallow"), good=old, code=2)
    assert "git fetch --unshallow" in error


def test_submodules_and_changes_that_are_not_committed_are_mentioned(tmp_path, capsys):
    contents = [{".gitmodules": "", "work": str(10 + number)} for number in range(2)]
    folder = make_repository(tmp_path / "nested", contents)
    (folder / "work").write_text("9")
    assert run(["bisect", "--good", "HEAD~1", "--bad", "HEAD", "--repository", str(folder), *NUMBER]) == 0
    errors = capsys.readouterr().err
    assert "Submodules are empty" in errors and "not committed" in errors


@given(
    before=st.text(st.characters(codec="ascii", categories=["L", "Z", "P"])),
    value=st.floats(allow_nan=False, allow_infinity=False),
)
def test_last_number_is_read_as_it_was_printed(before, value):
    text = f"{before}\np50 of 3 runs: {value!r} ms\n"
    assert float(compiled("last").findall(text)[-1]) == value


def test_merge_counts_as_one_commit_unless_its_parents_are_asked_for(repository, bisect):
    git(repository, "config", "user.name", "A")
    git(repository, "config", "user.email", "a@example.org")
    git(repository, "switch", "--quiet", "-c", "topic", "HEAD~4")
    for number in range(4):
        (repository / "work").write_text("2000" if number >= 2 else "1150")
        git(repository, "commit", "--quiet", "--allow-empty", "-am", f"Topic {number}")
    git(repository, "switch", "--quiet", "main")
    git(repository, "merge", "--quiet", "--no-ff", "-m", "Merge topic", "topic")
    report = bisect(*NUMBER, good="HEAD~3")
    assert (report["title"], report["merge"]) == ("Merge topic", True)
    report = bisect(*NUMBER, "--all-parents", "--restart", good="HEAD^1")
    assert (report["title"], report["merge"]) == ("Topic 2", False)


def wheel(folder, version, work):
    """Write a wheel of a package with one module."""
    place = f"slowly-{version}.dist-info"
    files = {
        "slowly.py": f"WORK = {work}\n",
        f"{place}/METADATA": f"Metadata-Version: 2.1\nName: slowly\nVersion: {version}\n",
        f"{place}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"slowly-{version}-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{place}/RECORD", "".join(f"{name},,\n" for name in (*files, f"{place}/RECORD")))


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Words that let pip know five versions of a package, of which one cannot be installed."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version, work in (("1.9", 10), ("1.10", 15), ("2.0", 15), ("2.1", 15)):
        wheel(folder, version, work)
    (folder / "slowly-1.11-py3-none-any.whl").write_bytes(b"no archive")
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    return ("--package", "slowly", "--pip-arguments", f"--no-index --find-links {shlex.quote(str(folder))}")


COUNTED = ("--run", "python -c 'import slowly; print(slowly.WORK)'", "--number", "last")


def test_versions_of_a_package_are_bisected_in_environments_of_their_own(index, bisect, tmp_path):
    report = bisect(*index, *COUNTED, good="1.9", bad="2.1")
    assert (report["before"], report["first_bad"]) == ("1.9", "1.10")
    assert report["change"] == pytest.approx(0.5)
    skipped = [version["name"] for version in report["versions"] if version["side"] == "skipped"]
    assert skipped == ["1.11"]
    assert not list((tmp_path / "home" / "bisect" / "slowly" / "environments").iterdir())


def test_command_of_another_python_needs_the_overlay_and_the_bad_version_may_be_the_older_one(
    index, bisect, tmp_path, monkeypatch
):
    script = tmp_path / "measure-it"
    script.write_text(f"#!{sys.executable}\nprint(1)\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    error = bisect(*index, "--run", "measure-it", "--number", "last", good="1.10", bad="1.9", code=2)
    assert "run: measure-it" in error and "--overlay" in error
    works = "import msgspec, slowly; print(slowly.WORK)"
    words = ("--run", f'pytest --version && python -c "{works}"', "--number", "last", "--better", "higher")
    report = bisect(*index, *words, "--overlay", good="1.10", bad="1.9")
    assert (report["before"], report["first_bad"]) == ("1.10", "1.9")
    assert report["change"] == pytest.approx(-1 / 3)


@pytest.mark.parametrize(
    ("words", "good", "parts"),
    [
        ((), "1.8", ("good:", "1.8", "1.9", "1.10")),
        ((), "2.1", ("bad:", "same version")),
        (("--package", "no-such-package"), "1.9", ("package:", "no-such-package")),
        (("--package", "slowly==1.9"), "1.9", ("package:", "not the name")),
        (("--pip-arguments", "'"), "1.9", ("pip_arguments:", "quotation")),
        (("--repository", "."), "1.9", ("repository:",)),
    ],
)
def test_wrong_input_about_a_package_is_refused_with_the_field(index, bisect, words, good, parts):
    error = bisect(*index, *words, *COUNTED, good=good, bad="2.1", code=2)
    assert not [part for part in parts if part not in error], error
