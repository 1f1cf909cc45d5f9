"""Which code a run measures: what CI and git say of it, without credentials, and what may be typed."""

from __future__ import annotations

import subprocess

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.cli.measure.run_context import context_from_ci, context_from_git, repository_name, run_context
from domain.errors import UsageError
from domain.payloads import RunContext

GITHUB = {
    "GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "acme/models",
    "GITHUB_SHA": "a" * 40, "GITHUB_REF_TYPE": "branch",
}  # fmt: skip
GITLAB = {"GITLAB_CI": "true", "CI_PROJECT_URL": "https://lab.example.org/acme/models", "CI_COMMIT_SHA": "b" * 40}


@pytest.mark.parametrize(
    ("environment", "branch", "pull_request"),
    [
        ({**GITHUB, "GITHUB_REF": "refs/heads/main", "GITHUB_REF_NAME": "main"}, "main", None),
        (
            {**GITHUB, "GITHUB_REF": "refs/pull/7/merge", "GITHUB_REF_NAME": "7/merge", "GITHUB_HEAD_REF": "topic"},
            "topic",
            "7",
        ),
        ({**GITHUB, "GITHUB_REF": "refs/tags/v1", "GITHUB_REF_NAME": "v1", "GITHUB_REF_TYPE": "tag"}, None, None),
        ({**GITLAB, "CI_COMMIT_BRANCH": "main"}, "main", None),
        (
            {**GITLAB, "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "topic", "CI_MERGE_REQUEST_IID": "7"},
            "topic",
            "7",
        ),
    ],
)
def test_ci_says_branch_commit_and_request(environment, branch, pull_request):
    context = context_from_ci(environment)
    assert (context.branch, context.pull_request, len(context.commit)) == (branch, pull_request, 40)
    assert context.repository in ("github.com/acme/models", "lab.example.org/acme/models")


def test_outside_of_ci_nothing_is_known_and_what_does_not_fit_is_left_out():
    assert context_from_ci({"GITHUB_SHA": "a"}) is None
    assert run_context("none", GITHUB) is None
    odd = {**GITLAB, "CI_COMMIT_BRANCH": "x" * 300, "CI_COMMIT_SHA": "two words"}
    assert context_from_ci(odd) == RunContext(repository="lab.example.org/acme/models")


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://user:secret@github.com/acme/models.git", "github.com/acme/models"),
        ("https://oauth2:secret@lab.example.org:8443/a/b/c?private_token=secret", "lab.example.org:8443/a/b/c"),
        ("git@github.com:acme/models.git", "github.com/acme/models"),
        ("ssh://git@github.com/acme/models", "github.com/acme/models"),
        ("/srv/git/models.git", None),
        ("file:///srv/git/models.git", None),
        ("https://[broken", None),
        ("", None),
    ],
)
def test_repository_is_host_and_path_without_credentials(address, name):
    assert repository_name(address) == name


@given(st.from_regex(r"[A-Za-z0-9._~%-]{4,20}", fullmatch=True), st.sampled_from(["https", "http", "ssh"]))
def test_no_password_of_an_address_is_kept(password, scheme):
    marked = f"zq{password}qz"
    assert marked not in (repository_name(f"{scheme}://user:{marked}@host.example/a/b.git") or "")


def git(folder, *words):
    own = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_git_says_what_is_checked_out(tmp_path):
    git(tmp_path, "init", "-q", "-b", "topic")
    with pytest.raises(UsageError, match="context"):
        context_from_git(tmp_path)
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    git(tmp_path, "remote", "add", "origin", "https://user:secret@host.example/a/b.git")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert run_context("git", {}, tmp_path) == RunContext(repository="host.example/a/b", branch="topic", commit=commit)
    git(tmp_path, "checkout", "-q", "--detach")
    assert run_context("git", {}, tmp_path).branch is None


def test_context_may_be_typed():
    typed = run_context("branch=main,commit=abc123,pull_request=7,repository=https://u:secret@host.example/a.git", {})
    assert msgspec.to_builtins(typed) == {
        "repository": "host.example/a", "branch": "main", "commit": "abc123", "pull_request": "7",
    }  # fmt: skip


@pytest.mark.parametrize("typed", ["main", "tag=v1", "branch=", "branch=a b", "branch=a,branch=b", ""])
def test_typed_context_that_says_nothing_is_refused(typed):
    with pytest.raises(UsageError) as refused:
        run_context(typed, {})
    assert refused.value.field == "context"


def test_runs_of_a_worker_name_its_job_beside_the_code():
    job = {"ASSAY_JOB": "01a2", "ASSAY_ATTEMPT": "2"}
    assert run_context("none", job) == RunContext(job="01a2", attempt=2)
    assert run_context("branch=main", job) == RunContext(branch="main", job="01a2", attempt=2)
    assert run_context("none", {"ASSAY_JOB": "01a2"}) is None
    with pytest.raises(UsageError, match="context"):
        run_context("job=01a2", {})
