"""What a run is made for: the state of the code that it measures, from the CI's variables or git, and a worker's job."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import rich_click as click

from domain.errors import PartMissing, UsageError

if TYPE_CHECKING:
    from domain.payloads import RunContext

__all__ = [
    "context_from_ci",
    "context_from_git",
    "context_option",
    "end_with_worker",
    "repository_name",
    "run_context",
]

Verb = TypeVar("Verb", bound=Any)
WORDS = ("ci", "git", "none")
_SCP = re.compile(r"(?:[^@/\s]+@)?(?P<host>[A-Za-z0-9.-]+):(?P<path>[^\s:]+)")
"""An address of git without a scheme: git@github.com:acme/models.git."""
_PULL = re.compile(r"refs/pull/(?P<number>\d+)/(?:merge|head)")
_GIT_S = 10
_CODE = ("repository", "branch", "commit", "pull_request")
_JOB = ("ASSAY_JOB", "ASSAY_ATTEMPT")
"""Variables that `assay worker` sets for the benchmarks that it starts."""
_INTERRUPTED_S = 5.0


def context_option(verb: Verb) -> Verb:
    """Add `--context`."""
    return click.option(
        "--context",
        "context",
        default="ci",
        show_default=True,
        envvar="ASSAY_CONTEXT",
        metavar="ci|git|none|NAME=VALUE,…",
        help="Which code is measured: as GitHub Actions or GitLab CI say, as the checkout here says, nothing, or "
        "repository=, branch=, commit= and pull_request= (ASSAY_CONTEXT).",
    )(verb)


def run_context(
    choice: str, environment: Mapping[str, str] = os.environ, folder: Path | None = None
) -> RunContext | None:
    """Return the context that `--context` asks for and the job of a worker's child, None where nothing is known.

    Raises UsageError for what `--context` cannot say.
    """
    code = _code_state(choice, environment, folder)
    job, attempt = (environment.get(name) for name in _JOB)
    if not job or not attempt or not attempt.isdecimal():
        return code
    from domain.payloads import RunContext

    return msgspec.structs.replace(code or RunContext(), job=job, attempt=int(attempt))


def end_with_worker() -> None:
    """In a worker's child, interrupt this process when standard input closes, which means that the worker is gone."""
    if not os.environ.get(_JOB[0]):
        return

    def watch() -> None:
        while os.read(0, 1):
            continue
        if sys.platform != "win32":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(_INTERRUPTED_S)
        os._exit(1)

    threading.Thread(target=watch, name="worker", daemon=True).start()


def _code_state(choice: str, environment: Mapping[str, str], folder: Path | None) -> RunContext | None:
    if choice == "none":
        return None
    if choice == "ci":
        return context_from_ci(environment)
    if choice == "git":
        return context_from_git(folder or Path.cwd())
    return _typed(choice)


def context_from_ci(environment: Mapping[str, str]) -> RunContext | None:
    """Return what the variables of GitHub Actions or GitLab CI say, None elsewhere. What does not fit is left out."""
    get = environment.get
    if get("GITHUB_ACTIONS") == "true":
        pull = _PULL.fullmatch(get("GITHUB_REF", ""))
        own = get("GITHUB_REF_NAME") if get("GITHUB_REF_TYPE", "branch") == "branch" and not pull else None
        host = repository_name(get("GITHUB_SERVER_URL", "")) or "github.com"
        return _context(
            repository=f"{host}/{get('GITHUB_REPOSITORY')}" if get("GITHUB_REPOSITORY") else None,
            branch=get("GITHUB_HEAD_REF") or own,
            commit=get("GITHUB_SHA"),
            pull_request=pull["number"] if pull else None,
        )
    if get("GITLAB_CI") == "true":
        return _context(
            repository=repository_name(get("CI_PROJECT_URL", "")),
            branch=get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME") or get("CI_COMMIT_BRANCH"),
            commit=get("CI_COMMIT_SHA"),
            pull_request=get("CI_MERGE_REQUEST_IID"),
        )
    return None


def context_from_git(folder: Path) -> RunContext | None:
    """Return what the checkout says that a folder lies in; UsageError where it lies in none."""
    commit = _git(folder, "rev-parse", "--verify", "HEAD")
    if commit is None:
        raise UsageError(
            f"{folder} is in no checkout of git with a commit.",
            field="context",
            remedy="Run it in the checkout, or say --context branch=NAME,commit=ID.",
        )
    branch = _git(folder, "symbolic-ref", "--quiet", "--short", "HEAD")
    remote = _git(folder, "config", "--get", "remote.origin.url")
    return _context(repository=repository_name(remote or ""), branch=branch, commit=commit, pull_request=None)


def _git(folder: Path, *words: str) -> str | None:
    """Return what git says, None where it refuses."""
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=_GIT_S, check=False)
    except FileNotFoundError as error:
        raise PartMissing("--context git needs git.", remedy="Install git, or say --context branch=NAME.") from error
    except subprocess.TimeoutExpired as error:
        raise PartMissing("git does not answer.", remedy="Say --context branch=NAME,commit=ID.") from error
    return done.stdout.strip() or None if done.returncode == 0 else None


def repository_name(address: str) -> str | None:
    """Return host and path of a repository's address; None for one on this machine.

    Scheme, user, password, query and the ending .git are left out: `https://user:token@host/a/b.git` is `host/a/b`.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme in ("http", "https", "ssh", "git") and host:
        path = parts.path
        host = host if port is None else f"{host}:{port}"
    elif "://" not in address and (match := _SCP.fullmatch(address)):
        host, path = match["host"], match["path"]
    else:
        return None
    path = path.strip("/").removesuffix(".git")
    return f"{host}/{path}" if path else host


def _context(**parts: str | None) -> RunContext | None:
    """Return a context of the parts that a context can hold, None where there are none."""
    from domain.payloads import Revision, RunContext

    def fits(value: str) -> bool:
        try:
            msgspec.convert(value, Revision)
        except msgspec.ValidationError:
            return False
        return True

    kept = {name: value for name, value in parts.items() if value and fits(value)}
    return msgspec.convert(kept, RunContext) if kept else None


def _typed(choice: str) -> RunContext:
    """Return a context of NAME=VALUE pairs between commas."""
    from domain.payloads import RunContext

    pairs = [part.partition("=")[::2] for part in choice.split(",")]
    unknown = [name for name, _ in pairs if name not in _CODE]
    if unknown or len({name for name, _ in pairs}) < len(pairs):
        raise UsageError(
            f"{choice!r} is no context.",
            field="context",
            remedy=f"Say {', '.join(WORDS)}, or {'=…,'.join(_CODE)}=…, each at most once.",
        )
    parts = dict(pairs)
    if "repository" in parts:
        parts["repository"] = repository_name(parts["repository"]) or parts["repository"].rpartition("@")[2]
    try:
        return msgspec.convert(parts, RunContext)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{error}.", field="context", remedy="Give names without spaces, of at most 255 letters."
        ) from error
