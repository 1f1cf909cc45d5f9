"""The commits of a git repository between two of them, each checked out in a worktree of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from assay.bisect.measuring import execute, tail
from assay.bisect.versions import Prepared, Unbuildable, Version
from domain.errors import PartMissing, UsageError

__all__ = ["Commits", "git_folder"]

_OF_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")


def _environment() -> dict[str, str]:
    """Return the environment without what a hook of git would let a command work on another repository by."""
    return {name: value for name, value in os.environ.items() if name not in _OF_REPOSITORY}


def _git(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["git", "-C", str(repository), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            env={**_environment(), "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError as error:
        raise PartMissing("bisecting commits needs git.", remedy="Install git, or bisect a --package.") from error


def git_folder(repository: Path) -> Path:
    """Return the folder in which git keeps what belongs to this checkout; UsageError where the path is in no repository."""
    answer = _git(repository, "rev-parse", "--absolute-git-dir")
    if answer.returncode != 0:
        raise UsageError(
            f"{repository} is in no git repository.",
            field="repository",
            remedy="Name a checkout with --repository, or bisect the versions of a --package.",
        )
    return Path(answer.stdout.strip())


class Commits:
    """The commits after `good` up to `bad`, with `good` before them.

    The command runs in the folder of the commit that corresponds to `repository`, which may be a part of the checkout.
    With `first_parent` a merge counts as one commit, so that each is the state of the branch at some time; otherwise
    merged commits are among them. The user's checkout is never touched.
    """

    def __init__(
        self,
        repository: Path,
        good: str,
        bad: str,
        *,
        folder: Path,
        first_parent: bool = True,
        build: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        git_folder(repository)
        self.repository = repository
        self.versions = _commits(repository, good, bad, first_parent=first_parent)
        self.notes: list[str] = []
        self._build = build
        self._timeout_s = timeout_s
        self._folder: Path | None = None
        self._place = folder / "worktrees"
        self._part = _git(repository, "rev-parse", "--show-prefix").stdout.strip()
        self._trees: dict[int, Path] = {}
        if _git(repository, "status", "--porcelain", "--untracked-files=no").stdout.strip():
            self.notes.append("The checkout has changes that are not committed; they are not measured.")
        if _git(repository, "cat-file", "-e", f"{self.versions[-1].name}:.gitmodules").returncode == 0:
            self.notes.append(
                "Submodules are empty in the worktrees; begin --build with `git submodule update --init` to fill them."
            )

    def prepare(self, index: int, log: Path) -> Prepared:
        """Check a commit out, build it, and return its folder; Unbuildable where either fails."""
        version = self.versions[index]
        environment = {**_environment(), "ASSAY_BISECT_VERSION": version.name}
        if index in self._trees:
            return Prepared(folder=self._trees[index] / self._part, environment=environment)
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="assay-bisect-"))
            self._place.write_text(str(self._folder), encoding="utf-8")
        tree = self._folder / version.short
        # A hook of the user's checkout is not for these.
        answer = _git(
            self.repository,
            "-c",
            f"core.hooksPath={os.devnull}",
            "worktree",
            "add",
            "--detach",
            "--force",
            str(tree),
            version.name,
        )
        if answer.returncode != 0:
            raise Unbuildable(f"git cannot check it out: {answer.stderr.strip()}")
        self._trees[index] = tree
        if not (tree / self._part).is_dir():
            self._remove(index)
            raise Unbuildable(f"it has no folder {self._part}")
        if self._build is not None:
            run = execute(
                self._build, folder=tree / self._part, environment=environment, output=log, timeout_s=self._timeout_s
            )
            if run.timed_out or run.code != 0:
                self._remove(index)
                why = f"took more than {self._timeout_s:g} s" if run.timed_out else f"ended with {run.code}"
                raise Unbuildable(f"the build {why}{tail(log)}")
        return Prepared(folder=tree / self._part, environment=environment)

    def retain(self, indices: set[int]) -> None:
        """Remove the worktrees of all other commits."""
        for index in set(self._trees) - indices:
            self._remove(index)

    def close(self) -> None:
        """Remove all worktrees."""
        self.retain(set())
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._place.unlink(missing_ok=True)
            self._folder = None

    def remove_stale(self) -> None:
        """Remove worktrees that a killed search left behind; call it while no other search uses the same state."""
        if self._place.is_file():
            folder = Path(self._place.read_text(encoding="utf-8"))
            for tree in folder.iterdir() if folder.is_dir() else ():
                self._remove_tree(tree)
            shutil.rmtree(folder, ignore_errors=True)
            _git(self.repository, "worktree", "prune")
            self._place.unlink()

    def _remove(self, index: int) -> None:
        self._remove_tree(self._trees.pop(index))

    def _remove_tree(self, tree: Path) -> None:
        _git(self.repository, "worktree", "remove", "--force", "--force", str(tree))
        shutil.rmtree(tree, ignore_errors=True)
        _git(self.repository, "worktree", "prune")


def _commits(repository: Path, good: str, bad: str, *, first_parent: bool) -> list[Version]:
    """Return the commits from `good` to `bad`; UsageError where there is no way from the one to the other."""
    first, last = _resolved(repository, good, "good"), _resolved(repository, bad, "bad")
    if first == last:
        raise UsageError(f"{good} and {bad} are the same commit.", field="bad", remedy="Name two different ones.")
    if _git(repository, "merge-base", "--is-ancestor", first, last).returncode != 0:
        swapped = _git(repository, "merge-base", "--is-ancestor", last, first).returncode == 0
        raise UsageError(
            f"{good} is {'newer than' if swapped else 'not an ancestor of'} {bad}.",
            field="good",
            remedy="Swap the two; where the newer one is better, --better names the other direction."
            if swapped
            else _unshallow(repository)
            or f"Name a commit that {bad} descends from, such as `git merge-base {good} {bad}`.",
        )
    order = ["--first-parent"] if first_parent else ["--topo-order"]
    form = "--format=%H%x00%P%x00%s"
    lines = _git(repository, "log", "-1", form, first).stdout.splitlines()
    lines += _git(repository, "log", "--reverse", *order, form, f"{first}..{last}").stdout.splitlines()
    return [_version(line) for line in lines]


def _version(line: str) -> Version:
    name, parents, subject = line.split("\x00", 2)
    return Version(name=name, title=subject, merge=" " in parents)


def _resolved(repository: Path, revision: str, field: str) -> str:
    answer = _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if answer.returncode != 0:
        raise UsageError(
            f"{revision!r} names no commit of {repository}.",
            field=field,
            remedy=_unshallow(repository) or "Name a hash, a tag or a branch; `git log --oneline` lists them.",
        )
    return answer.stdout.strip()


def _unshallow(repository: Path) -> str | None:
    """Return what to do where history is cut off."""
    shallow = _git(repository, "rev-parse", "--is-shallow-repository").stdout.strip() == "true"
    return "This clone is shallow: run `git fetch --unshallow` first." if shallow else None
