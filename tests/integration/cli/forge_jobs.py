"""Runs the steps of action.yml and of the GitLab template as their runners do, and plays the forges' side of the protocol.

`run:` steps are executed with bash, expressions (`${{ … }}`) are evaluated by the small grammar below, outputs, path and
summary go through the files that GitHub's runner gives, and the cache actions copy files as they are documented to.
`uses:` steps of other actions (Python, artifacts) are recorded and not run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml

ROOT = Path(__file__).resolve().parents[3]
_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|[A-Za-z_][\w.-]*|==|!=|&&|\|\||[(),])")


class Expression:
    """The part of GitHub's expression language that action.yml uses: `||`, `&&`, `==`, `!=`, strings, always(), format()."""

    def __init__(self, text: str, values: Mapping[str, str]) -> None:
        self._tokens = _TOKEN.findall(text)
        assert "".join(self._tokens).replace(" ", "") == text.replace(" ", "").replace("\n", ""), text
        self._values = values

    def value(self) -> Any:
        result = self._or()
        assert not self._tokens
        return result

    def _or(self) -> Any:
        result = self._and()
        while self._taken("||"):
            other = self._and()
            result = result or other
        return result

    def _and(self) -> Any:
        result = self._compared()
        while self._taken("&&"):
            other = self._compared()
            result = result and other
        return result

    def _compared(self) -> Any:
        result = self._term()
        if self._taken("=="):
            return result == self._term()
        if self._taken("!="):
            return result != self._term()
        return result

    def _term(self) -> Any:
        token = self._tokens.pop(0)
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if token == "always":
            assert self._taken("(") and self._taken(")")
            return True
        if token == "format":
            return self._format()
        return self._values.get(token, "")

    def _format(self) -> str:
        assert self._taken("(")
        arguments = [self._or()]
        while self._taken(","):
            arguments.append(self._or())
        assert self._taken(")")
        return str(arguments[0]).format(*arguments[1:])

    def _taken(self, token: str) -> bool:
        if self._tokens[:1] == [token]:
            self._tokens.pop(0)
            return True
        return False


def filled(text: Any, values: Mapping[str, str]) -> str:
    """Replace every `${{ … }}` of a text."""
    return re.sub(r"\$\{\{(.*?)\}\}", lambda match: _text(Expression(match[1], values).value()), str(text))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class JobResult:
    """What came of a job: `failed` names its first step that failed."""

    def __init__(self) -> None:
        self.failed: str | None = None
        self.outputs: dict[str, str] = {}
        self.summary = ""
        self.said = ""
        self.used: list[str] = []


def bash(script: str, folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a script as the runners do: bash that ends at the first error."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder, env=dict(environment), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def clean_environment(home: Path) -> dict[str, str]:
    """The environment of a runner: no variables of Assay, of a forge or of tracing, the verbs on the path."""
    others = ("ASSAY_", "GITHUB_", "GITLAB_", "CI", "OTEL_", "RUNNER_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return environment | {"PATH": path, "ASSAY_HOME": str(home), "ASSAY_SHIPPED_DATA": "no"}


def with_score(script: str, folder: Path, noise: str | None) -> str:
    """Let the noise gate of a script judge a score of this verdict; None lets it probe this machine."""
    if noise is None or "assay ci gate" not in script:
        return script
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{noise}.json"
    path.write_text(json.dumps({"verdict": noise, "reasons": [] if noise == "pass" else ["other work uses 90%"]}))
    return script.replace("assay ci gate", f'assay ci gate --score "{path}"')


class GitHubRunner:
    """Runs action.yml job after job; the cache and the runner's temporary folder lie under `folder`.

    `noise` is what the gate finds; None lets it probe this machine.
    """

    def __init__(self, folder: Path, api: str = "http://127.0.0.1:1", noise: str | None = "pass") -> None:
        self.folder = folder
        self.api = api
        self.noise = noise
        self.action = yaml.safe_load((ROOT / "action.yml").read_text())
        self.jobs = 0

    def run(
        self, event: str, inputs: Mapping[str, str], *, replace: Mapping[str, str] | None = None, branch: str = "main"
    ) -> JobResult:
        """Run one job; `replace` gives the script of a step by its name, in place of its own."""
        self.jobs += 1
        work = self.folder / f"job{self.jobs}"
        work.mkdir(parents=True)
        result = JobResult()
        values = {f"inputs.{name}": str(each.get("default", "")) for name, each in self.action["inputs"].items()}
        assert inputs.keys() <= self.action["inputs"].keys()
        values |= {"github.token": "installation-token", "github.action_path": str(ROOT)}
        values = {name: filled(value, values) for name, value in values.items()}
        values |= {f"inputs.{name}": value for name, value in inputs.items()}
        environment = clean_environment(self.folder / "home") | self._variables(event, branch, work)
        for step in self.action["runs"]["steps"]:
            self._step(step, work, values, environment, result, replace or {})
        result.outputs = {name: filled(each["value"], values) for name, each in self.action["outputs"].items()}
        result.summary = (work / "summary.md").read_text() if (work / "summary.md").exists() else ""
        return result

    def _variables(self, event: str, branch: str, work: Path) -> dict[str, str]:
        payload = work.parent / f"event{self.jobs}.json"
        payload.write_text(json.dumps({"pull_request": {"number": 7}} if event == "pull_request" else {}))
        return {
            "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": event, "GITHUB_EVENT_PATH": str(payload),
            "GITHUB_REF_NAME": "7/merge" if event == "pull_request" else branch,
            "GITHUB_BASE_REF": branch if event == "pull_request" else "", "GITHUB_RUN_ID": str(1000 + self.jobs),
            "GITHUB_RUN_ATTEMPT": "1", "GITHUB_REPOSITORY": "acme/models", "GITHUB_API_URL": self.api,
            "GITHUB_STEP_SUMMARY": str(work / "summary.md"), "GITHUB_PATH": str(work / "path"),
            "RUNNER_TEMP": str(work / "temp"),
        }  # fmt: skip

    def _step(
        self, step: dict[str, Any], work: Path, values: dict[str, str], environment: dict[str, str],
        result: JobResult, replace: Mapping[str, str],
    ) -> None:  # fmt: skip
        condition = str(step.get("if", "")).strip().removeprefix("${{").removesuffix("}}")
        if result.failed and "always()" not in condition:
            return
        if condition and not Expression(condition, values).value():
            return
        if "uses" in step:
            arguments = {name: filled(value, values) for name, value in step["with"].items()}
            result.used.append(step["uses"])
            self._use(step["uses"].partition("@")[0], arguments, work)
            return
        assert step["shell"] == "bash" and "${{" not in step["run"] and "\n" not in step["run"].strip()
        output = work / f"output-{step['name']}"
        own = {name: filled(value, values) for name, value in step.get("env", {}).items()}
        script = with_score(replace.get(step["name"], step["run"]), self.folder, self.noise)
        ended = bash(script, work, environment | own | {"GITHUB_OUTPUT": str(output)})
        result.said += ended.stdout + ended.stderr
        if output.exists():
            pairs = (line.split("=", 1) for line in output.read_text().splitlines())
            values.update({f"steps.{step['id']}.outputs.{name}": value for name, value in pairs})
        if ended.returncode:
            result.failed = result.failed or step["name"]

    def _use(self, action: str, arguments: Mapping[str, str], work: Path) -> None:
        cache = self.folder / "cache"
        cache.mkdir(exist_ok=True)
        if action == "actions/cache/save":
            place = cache / arguments["key"].replace("/", "%")
            assert not place.exists(), "a key of the cache is written once"
            # A path that is not there is a warning and no failure.
            if (work / arguments["path"]).exists():
                shutil.copy(work / arguments["path"], place)
        elif action == "actions/cache/restore":
            prefix = arguments["restore-keys"].replace("/", "%")
            found = sorted(cache.glob(f"{prefix}*"), key=lambda path: path.stat().st_mtime_ns)
            if found:
                shutil.copy(found[-1], work / arguments["path"])


class GitLabRunner:
    """Runs the job of docs/ci/gitlab-ci.yml; the cache is a folder."""

    def __init__(self, folder: Path, api: str, noise: str | None = "pass") -> None:
        self.folder = folder
        self.api = api
        self.noise = noise
        self.job = yaml.safe_load((ROOT / "docs" / "ci" / "gitlab-ci.yml").read_text())["assay regressions"]
        self.jobs = 0

    def run(self, *, merge_request: bool, measure: str) -> tuple[int, Path]:
        """Run one job with `measure` in place of the benchmark; return the exit code of its script and its folder."""
        self.jobs += 1
        work = self.folder / f"job{self.jobs}"
        work.mkdir(parents=True)
        environment = clean_environment(self.folder / "home") | {
            "GITLAB_CI": "true", "CI_PROJECT_DIR": str(work), "CI_DEFAULT_BRANCH": "main", "CI_JOB_ID": str(self.jobs),
            "CI_PROJECT_ID": "42", "CI_API_V4_URL": self.api, "ASSAY_GITLAB_TOKEN": "project-token",
        }  # fmt: skip
        request = {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "CI_MERGE_REQUEST_IID": "7"}
        environment |= request if merge_request else {"CI_COMMIT_BRANCH": "main"}
        for name, value in self.job["variables"].items():
            environment[name] = re.sub(r"\$(\w+)", lambda match: environment.get(match[1], ""), str(value))
        rule = self.job["rules"][0 if merge_request else 1]
        cached = self.folder / "baseline.json"
        if cached.exists():
            shutil.copy(cached, work / "baseline.json")
        (work / ".assay-venv").mkdir()
        (work / ".assay-venv" / "bin").symlink_to(Path(sys.executable).parent)
        steps = [with_score(step, self.folder, self.noise) for step in self.job["script"]]
        (bench,) = [index for index, step in enumerate(steps) if "assay bench" in step]
        steps[bench] = f"{steps[bench].partition('assay bench')[0]}{{ {measure}; }}"
        ended = bash("\n".join(steps), work, environment)
        after = bash("\n".join(self.job["after_script"]), work, environment)
        assert after.returncode == 0, after.stderr
        if rule["variables"]["CACHE_POLICY"] == "pull-push" and (work / "baseline.json").exists():
            shutil.copy(work / "baseline.json", cached)
        return ended.returncode, work


class ForgeApi:
    """GitHub's and GitLab's REST API as far as comments go: lists, creates and edits them.

    It is the peer's side of the protocol. With `read_only` every write is refused as for a job of a fork.
    """

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.read_only = False
        self.requests: list[str] = []
        self.url = ""

    def answer(self, method: str, url: str, headers: Mapping[str, str], body: Any) -> tuple[int, Any]:
        """Return the status and document of a request."""
        path, query = urlsplit(url).path, dict(parse_qsl(urlsplit(url).query))
        self.requests.append(f"{method} {path}")
        github, gitlab = headers.get("Authorization"), headers.get("PRIVATE-TOKEN")
        if github != "Bearer installation-token" and gitlab != "project-token":
            return 401, {"message": "Bad credentials"}
        if method != "GET" and self.read_only:
            return 403, {"message": "Resource not accessible by integration"}
        if path == "/user":
            return 200, {"id": 5}
        listed = ("/repos/acme/models/issues/7/comments", "/projects/42/merge_requests/7/notes")
        if path in listed and method == "GET":
            size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
            return 200, self.comments[(page - 1) * size : page * size]
        if path in listed and method == "POST":
            self.comments.append(
                {"id": len(self.comments) + 1, "user": {"type": "Bot"}, "author": {"id": 5}, "system": False, **body}
            )
            return 201, self.comments[-1]
        edited = re.fullmatch(
            r"/repos/acme/models/issues/comments/(\d+)|/projects/42/merge_requests/7/notes/(\d+)", path
        )
        if edited and method == ("PATCH" if edited[1] else "PUT"):
            comment = self.comments[int(edited[1] or edited[2]) - 1]
            comment.update(body)
            return 200, comment
        return 404, {"message": "Not Found"}


@contextmanager
def forge_api() -> Iterator[ForgeApi]:
    """Serve a ForgeApi on a local port."""
    api = ForgeApi()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, document = api.answer(self.command, self.path, self.headers, body)
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            if isinstance(document, dict) and "Location" in document:
                self.send_header("Location", document["Location"])
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_PUT = _answer  # noqa: N815 - the names that http.server calls

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    api.url = f"http://127.0.0.1:{server.server_port}"
    yield api
    server.shutdown()
    server.server_close()
