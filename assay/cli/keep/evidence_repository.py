"""Repositories of evidence: bundles in a git repository, taken from there, and offered to it as a pull request."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from domain.errors import PartMissing, ServiceUnavailable, UsageError
from domain.sharing.bundles import SUFFIX

__all__ = ["SETTING", "PullRequest", "cloned", "repository_named"]

SETTING = "ASSAY_EVIDENCE_REPOSITORY"
CLONE_S = 300
MOST_BUNDLES = 1_000
_SAFE = ("-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never")
"""A repository of somebody else runs no program here."""


def repository_named(named: str | None) -> str | None:
    """Return the repository that is named, or that the setting names; there is no other."""
    return named or os.environ.get(SETTING) or None


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle on its way into a repository: where it goes, on which branch, and what is said of it."""

    repository: str
    path: str
    branch: str
    title: str
    body: str

    def commands(self, file: Path, folder: str = "evidence") -> list[list[str]]:
        """Return the commands that clone the repository into `folder`, add the file, push it, and ask for it to be taken."""
        target = f"{folder}/{self.path}"
        return [
            ["git", "clone", "--depth", "1", self.repository, folder],
            ["git", "-C", folder, "switch", "-c", self.branch],
            ["mkdir", "-p", str(Path(target).parent)],
            ["cp", str(file), target],
            ["git", "-C", folder, "add", self.path],
            ["git", "-C", folder, "commit", "-m", self.title],
            ["git", "-C", folder, "push", "-u", "origin", self.branch],
            ["gh", "pr", "create", "--head", self.branch, "--title", self.title, "--body", self.body],
        ]

    def written(self, file: Path) -> list[str]:
        """Return the commands as lines for a shell."""
        *most, last = (shlex.join(command) for command in self.commands(file))
        return [*most, f"cd evidence && {last}"]

    def make(self, file: Path) -> str:
        """Run the commands in a folder that is removed again, and return what `gh` answers: the address.

        Raises PartMissing without git or gh, and ServiceUnavailable for the first command that fails.
        """
        for program in ("git", "gh"):
            if shutil.which(program) is None:
                raise PartMissing(
                    f"{program} is not installed.", field="pull-request", remedy="Run the commands above by hand."
                )
        with tempfile.TemporaryDirectory(prefix="assay-share-") as place:
            folder = str(Path(place) / "evidence")
            answer = ""
            for command in self.commands(file, folder):
                if command[0] == "mkdir":
                    Path(command[-1]).mkdir(parents=True, exist_ok=True)
                elif command[0] == "cp":
                    shutil.copyfile(command[1], command[2])
                else:
                    answer = _run(command, cwd=folder if command[0] == "gh" else place)
        return answer.strip()


def _run(command: Sequence[str], *, cwd: str) -> str:
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            list(command), cwd=cwd, env=environment, capture_output=True, text=True, timeout=CLONE_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ServiceUnavailable(
            f"`{' '.join(command[:3])} …` did not end within {CLONE_S} s.",
            field="repository",
            remedy="Try again later.",
        ) from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise ServiceUnavailable(
            f"`{shlex.join(command[:4])}` failed: {said[-1] if said else f'exit status {done.returncode}'}",
            field="repository",
            remedy="Check the address and that you may push to it: without that, fork it and name the fork.",
        )
    return done.stdout


@contextmanager
def cloned(address: str) -> Iterator[list[Path]]:
    """Clone a repository for the time of the context, and give the bundles in it by name; links are not followed."""
    if shutil.which("git") is None:
        raise PartMissing("git is not installed.", field="SOURCE", remedy="Install it, or name the files themselves.")
    local = Path(address)
    url = local.absolute().as_uri() if local.exists() else address
    with tempfile.TemporaryDirectory(prefix="assay-evidence-") as place:
        _run(["git", *_SAFE, "clone", "--quiet", "--depth", "1", "--", url, "evidence"], cwd=place)
        yield bundles_in(Path(place) / "evidence")


def bundles_in(folder: Path) -> list[Path]:
    """Return the bundles of a folder by name; UsageError where there is none, or too many."""
    files = sorted(path for path in folder.rglob(f"*{SUFFIX}") if path.is_file() and not _linked(path, folder))
    if not 0 < len(files) <= MOST_BUNDLES:
        raise UsageError(
            f"{len(files):,} bundles (*{SUFFIX}) are there.",
            field="SOURCE",
            remedy=f"Name a folder or a repository with 1 to {MOST_BUNDLES:,} of them.",
        )
    return files


def _linked(path: Path, folder: Path) -> bool:
    return any(part.is_symlink() for part in (path, *path.parents) if part.is_relative_to(folder) and part != folder)
