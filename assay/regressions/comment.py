"""One comment under a pull request or merge request, written once and edited in place by every later job.

The comment begins with a hidden marker that names it. Only comments of the account that writes, or of people with rights
on the repository, are edited: a stranger can write the marker too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, cast
from urllib.parse import quote

import httpx
import msgspec

from domain.errors import AssayError, NotFound, ServiceUnavailable, UsageError

__all__ = ["CannotComment", "GitHub", "GitLab", "Written", "forge_of", "write_comment"]

Json = dict[str, Any]
Written = Literal["created", "edited", "unchanged"]
TIMEOUT_S = 30.0
PAGES = 30
"""Of a hundred comments each; later ones are not searched."""
_TRUSTED = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})


class CannotComment(AssayError):
    """The token may not write comments there: a pull request from a fork, or a token without that permission."""

    type = "cannot-comment"
    status = 403


class _Comment(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    body: str
    own: bool


class Forge(Protocol):
    """Where comments are written."""

    def comments(self) -> Iterator[_Comment]:
        """Yield the comments, oldest first."""

    def create(self, body: str) -> None:
        """Write a new comment."""

    def edit(self, identifier: int, body: str) -> None:
        """Replace the text of a comment."""


def marker(name: str) -> str:
    """Return the hidden first line of the comment of this name."""
    return f"<!-- assay ci: {''.join(letter for letter in name if letter.isalnum() or letter in '._- ')} -->"


def write_comment(forge: Forge, name: str, text: str) -> Written:
    """Write the comment of this name, or edit the one that is there; raise CannotComment where the token may not."""
    body = f"{marker(name)}\n{text}"
    existing = next(
        (comment for comment in forge.comments() if comment.own and comment.body.startswith(marker(name))), None
    )
    if existing is None:
        forge.create(body)
        return "created"
    if existing.body.strip() == body.strip():
        return "unchanged"
    forge.edit(existing.id, body)
    return "edited"


class _Http:
    """Requests to a forge's REST API, its refusals as errors."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._http = httpx.Client(base_url=url, headers=dict(headers), timeout=TIMEOUT_S)

    def send(self, method: str, path: str, body: Json | None = None, **query: Any) -> Any:
        """Return the decoded answer."""
        try:
            response = self._http.request(method, path, json=body, params=query or None)
        except httpx.HTTPError as error:
            raise ServiceUnavailable(
                f"{self._http.base_url.host} does not answer ({type(error).__name__}).",
                field="forge",
                remedy="The report is in the job's summary; run the job again for the comment.",
            ) from error
        if response.status_code in (401, 403, 404):
            raise CannotComment(
                f"{method} {response.url.path} was answered with {response.status_code}.",
                field="token",
                remedy="A job of a fork may not comment; others need pull-requests: write (GitHub) or a token with the "
                "scope api (GitLab).",
            )
        if not response.is_success:
            raise ServiceUnavailable(
                f"{method} {response.url.path} was answered with {response.status_code}.",
                field="forge",
                remedy="The report is in the job's summary; run the job again for the comment.",
            )
        return response.json() if response.content else None

    def pages(self, path: str, **query: Any) -> Iterator[Json]:
        """Yield the rows of a list, page by page."""
        for page in range(1, PAGES + 1):
            rows = cast("list[Json]", self.send("GET", path, per_page=100, page=page, **query))
            yield from rows
            if len(rows) < 100:
                return


class GitHub:
    """Comments of one pull request on GitHub: https://docs.github.com/rest/issues/comments."""

    def __init__(self, url: str, repository: str, number: int, token: str) -> None:
        self._http = _Http(
            url,
            {
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {token}",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        self._issues = f"repos/{repository}/issues"
        self._number = number

    def comments(self) -> Iterator[_Comment]:
        """Yield the comments, oldest first; those of bots and of people with rights on the repository count as own."""
        for row in self._http.pages(f"{self._issues}/{self._number}/comments"):
            bot = (row.get("user") or {}).get("type") == "Bot"
            own = bot or row.get("author_association") in _TRUSTED
            yield _Comment(id=row["id"], body=row.get("body") or "", own=own)

    def create(self, body: str) -> None:
        """Write a new comment."""
        self._http.send("POST", f"{self._issues}/{self._number}/comments", {"body": body})

    def edit(self, identifier: int, body: str) -> None:
        """Replace the text of a comment."""
        self._http.send("PATCH", f"{self._issues}/comments/{identifier}", {"body": body})


class GitLab:
    """Notes of one merge request on GitLab: https://docs.gitlab.com/api/notes."""

    def __init__(self, url: str, project: str, number: int, token: str) -> None:
        self._http = _Http(url, {"PRIVATE-TOKEN": token})
        self._notes = f"projects/{quote(project, safe='')}/merge_requests/{number}/notes"

    def comments(self) -> Iterator[_Comment]:
        """Yield the notes, oldest first; those of the token's account count as own."""
        account = self._http.send("GET", "user")["id"]
        for row in self._http.pages(self._notes, sort="asc", order_by="created_at"):
            own = not row.get("system") and (row.get("author") or {}).get("id") == account
            yield _Comment(id=row["id"], body=row.get("body") or "", own=own)

    def create(self, body: str) -> None:
        """Write a new note."""
        self._http.send("POST", self._notes, {"body": body})

    def edit(self, identifier: int, body: str) -> None:
        """Replace the text of a note."""
        self._http.send("PUT", f"{self._notes}/{identifier}", {"body": body})


def forge_of(environment: Mapping[str, str]) -> GitHub | GitLab:
    """Return the request that the job is for; NotFound where it is for none, CannotComment where it has no token."""
    if environment.get("GITHUB_ACTIONS") == "true":
        number = _pull_request(environment)
        repository = environment.get("GITHUB_REPOSITORY")
        if number is None or not repository:
            raise NotFound("the job is for no pull request.", field="pull_request")
        token = environment.get("GITHUB_TOKEN") or environment.get("GH_TOKEN")
        url = environment.get("GITHUB_API_URL") or "https://api.github.com"
        return GitHub(url, repository, number, _require(token, "GITHUB_TOKEN"))
    if environment.get("GITLAB_CI") == "true":
        merge_request = environment.get("CI_MERGE_REQUEST_IID", "")
        url, project = environment.get("CI_API_V4_URL", ""), environment.get("CI_PROJECT_ID", "")
        if not (merge_request.isdecimal() and url and project):
            raise NotFound("the job is for no merge request.", field="merge_request")
        token = environment.get("ASSAY_GITLAB_TOKEN")
        return GitLab(url, project, int(merge_request), _require(token, "ASSAY_GITLAB_TOKEN"))
    raise UsageError(
        "neither GitHub Actions nor GitLab CI runs this.", field="forge", remedy="Run it in a job of one of them."
    )


def _require(token: str | None, name: str) -> str:
    if token:
        return token
    raise CannotComment("the job has no token for comments.", field=name, remedy=f"Set {name}.")


def _pull_request(environment: Mapping[str, str]) -> int | None:
    """Return the number of the pull request in the event that started the job."""
    path = environment.get("GITHUB_EVENT_PATH")
    if not path or not Path(path).is_file():
        return None
    try:
        event = msgspec.json.decode(Path(path).read_bytes())
    except msgspec.DecodeError:
        return None
    request = event.get("pull_request") if isinstance(event, dict) else None
    number = request.get("number") if isinstance(request, dict) else None
    return number if isinstance(number, int) else None
