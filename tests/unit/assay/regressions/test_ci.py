"""`assay ci` on files: verdicts, what may fail a job, how a baseline is renewed, and what the forge reads."""

from __future__ import annotations

import json

import pytest

from assay.cli import run
from assay.regressions.ci import job_of, newest_snapshot, write_outputs
from assay.regressions.comment import CannotComment, GitHub, GitLab, forge_of, write_comment
from domain.errors import NotFound, ServiceUnavailable, UsageError
from tests.integration.cli.forge_jobs import forge_api


@pytest.fixture
def compare(monkeypatch, tmp_path, capsys):
    """Runs `assay ci compare` on events as a job of a branch; returns the verdict."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "ASSAY_SERVER"):
        monkeypatch.delenv(name, raising=False)

    def type_(events, *words, code=0):
        (tmp_path / "now.ndjson").write_text("".join(json.dumps(event) + "\n" for event in events))
        ended = run(["ci", "compare", "--branch", "main", "--candidate", "now.ndjson", *words, "--json"])
        said = capsys.readouterr()
        assert ended == code, said.err + said.out
        return json.loads(said.out)

    return type_


def test_verdict_is_neutral_without_a_baseline_and_where_nothing_is_in_common(compare, build):
    assert compare([build.measurement(1.0)], "--no-renew", "--neutral-exit", "77", code=77)["verdict"] == "no-baseline"
    assert compare([build.measurement(1.0)], code=0)["verdict"] == "no-baseline"
    assert compare([build.measurement(1.0, model="acme/other")])["verdict"] == "cannot-tell"
    assert compare([build.measurement(1.0)])["verdict"] == "passed"
    assert compare([], "--no-renew")["verdict"] == "cannot-tell"


@pytest.mark.parametrize(
    ("before", "errors", "verdict", "regressions"),
    [
        ("measurement", "new", "worse", 1),
        ("measurement", "any", "worse", 1),
        ("measurement", "none", "passed", 0),
        ("failure", "new", "passed", 0),
        ("failure", "any", "worse", 1),
        ("failure", "none", "passed", 0),
    ],
)
def test_errors_say_which_configurations_that_failed_fail_the_job(
    compare, build, tmp_path, before, errors, verdict, regressions
):
    other = {"batch_size": 8}
    earlier = build.measurement(5.0, **other) if before == "measurement" else build.failure(**other)
    compare([build.measurement(1.0), earlier])
    now = [build.measurement(1.0), build.failure(**other)]
    answer = compare(now, "--errors", errors, "--no-renew", code=int(verdict == "worse"))
    assert (answer["verdict"], answer["regressions"]) == (verdict, regressions)
    failures = (tmp_path / "assay-ci" / "regressions.xml").read_text().count("<failure")
    assert failures == regressions
    assert "Not measured (1)" in (tmp_path / "assay-ci" / "regressions.md").read_text()


def test_a_test_that_no_longer_passes_fails_the_job_whatever_errors_says(compare, build):
    compare([build.measurement(1.0), build.test("passed")])
    answer = compare([build.measurement(1.0), build.test("failed")], "--errors", "none", "--no-renew", code=1)
    assert answer["regressions"] == 1


def test_suspect_rows_do_not_replace_trusted_ones_of_the_baseline(compare, build):
    compare([build.measurement(1.0)])
    doubted = {"verdict": "suspect", "reasons": ["a busy core"]}
    assert compare([build.measurement(3.0, validity=doubted)])["verdict"] == "cannot-tell"
    # Compared with the doubted row this would be uncertain; with the trusted one it is worse.
    assert compare([build.measurement(1.5)], "--no-renew", code=1)["verdict"] == "worse"


def test_regression_on_the_branch_itself_fails_once_and_is_the_next_baseline(compare, build):
    compare([build.measurement(1.0)])
    compare([build.measurement(2.0)], code=1)
    assert compare([build.measurement(2.0)])["verdict"] == "passed"


def test_damaged_baseline_is_neutral_says_why_and_is_made_anew(compare, build, tmp_path):
    (tmp_path / "baseline.json").write_text('{"assay_regressions":1,"side":{"na')
    words = ("--baseline", "baseline.json")
    answer = compare([build.measurement(1.0)], *words)
    assert answer["verdict"] == "cannot-tell" and "baseline.json is not JSON" in answer["headline"]
    assert compare([build.measurement(1.0)], *words)["verdict"] == "passed"


def test_service_that_is_away_is_neutral(compare, build, monkeypatch):
    monkeypatch.setenv("ASSAY_PATIENCE_S", "0")
    words = ("--baseline", "service", "--server", "http://127.0.0.1:1", "--no-renew")
    answer = compare([build.measurement(1.0)], *words)
    assert answer["verdict"] == "cannot-tell" and "no service answers" in answer["headline"]


def score(verdict, **more):
    return json.dumps({"verdict": verdict, "reasons": ["other work uses 90%"], "remedies": ["wait"], **more})


@pytest.mark.parametrize(("verdict", "measures"), [("pass", True), ("noisy", True), ("unusable", False)])
def test_gate_stops_an_unusable_machine_alone(compare, build, tmp_path, capsys, monkeypatch, verdict, measures):
    (tmp_path / "score.json").write_text(score(verdict))
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    words = ["ci", "gate", "--score", "score.json", "--neutral-exit", "77", "--json"]
    assert run(words) == (0 if measures else 77)
    assert json.loads(capsys.readouterr().out)["measures"] is measures
    assert f"measures={str(measures).lower()}\n" in (tmp_path / "output").read_text()
    answer = compare([build.measurement(1.0)])
    assert (answer["verdict"], "other work uses 90%" in answer["headline"]) == (
        ("no-baseline", False) if measures else ("cannot-tell", True)
    )
    assert (tmp_path / "assay-ci" / "baseline.json").exists() is measures


def test_gate_names_a_score_that_it_cannot_read(compare, tmp_path, capsys):
    (tmp_path / "score.json").write_text('{"verdict": "fine"}')
    assert run(["ci", "gate", "--score", "score.json"]) == 2
    assert "score" in capsys.readouterr().err
    assert run(["ci", "gate", "--score", "absent.json"]) == 2
    assert not (tmp_path / "assay-ci").exists()


def test_thresholds_of_a_job_let_a_figure_get_worse_and_leave_out_what_cannot_be_measured(compare, build, tmp_path):
    (tmp_path / "rules.yaml").write_text(
        "thresholds:\n- {metric: latency_*, alert: 1.5}\n- {metric: measuring, ignore: true}\n"
    )
    words = ("--thresholds", "rules.yaml", "--errors", "any", "--no-renew")
    compare([build.measurement(1.0)])
    now = [build.measurement(2.0), build.failure(batch_size=8)]
    assert compare(now, *words)["verdict"] == "passed"
    assert compare(now, "--errors", "any", "--no-renew", code=1)["regressions"] == 2


def test_prepare_names_the_cache_key_and_removes_what_an_earlier_job_left(compare, monkeypatch, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "now.ndjson").write_text("old")
    (tmp_path / "out" / "baseline.json").write_text("kept")
    output = tmp_path / "output"
    monkeypatch.setenv("GITHUB_OUTPUT", str(output))
    words = ["ci", "prepare", "--folder", "out", "--branch", "release/1,2", "--machine", "l4 box", "--name", "a"]
    assert run([*words, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["restore"] == "assay/a/release_1_2/l4_box/" and values["key"].startswith(values["restore"])
    assert f"candidate={values['candidate']}\n" in output.read_text()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["baseline.json"]


GITHUB = {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "5", "GITHUB_RUN_ATTEMPT": "2"}


@pytest.mark.parametrize(
    ("environment", "branch", "named", "renews"),
    [
        ({**GITHUB, "GITHUB_BASE_REF": "main", "GITHUB_REF_NAME": "7/merge"}, None, "main", False),
        ({**GITHUB, "GITHUB_REF_NAME": "main"}, None, "main", True),
        ({**GITHUB, "GITHUB_REF_NAME": "topic"}, "main", "main", False),
        ({"GITLAB_CI": "true", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}, None, "main", False),
        ({"GITLAB_CI": "true", "CI_COMMIT_BRANCH": "main"}, "main", "main", True),
    ],
)
def test_requests_compare_with_their_base_branch_and_branches_renew_their_own(environment, branch, named, renews):
    job = job_of(environment, branch)
    assert (job.branch, job.renews) == (named, renews)


def test_a_job_outside_of_a_forge_must_name_its_branch():
    with pytest.raises(UsageError, match="--branch"):
        job_of({})


def test_an_output_is_one_line_whatever_its_value_holds(tmp_path):
    write_outputs(tmp_path / "o", {"report": "a\nverdict=passed\r\nb"})
    assert (tmp_path / "o").read_text() == "report=a verdict=passed b\n"


def test_newest_snapshot_is_of_this_branch_and_job_alone():
    class Service:
        def snapshots(self):
            names = ["ci+a+main+7-1", "ci+a+main+9-1", "ci+a+main-2+11-1", "ci+b+main+12-1", "release 1.4"]
            return [{"name": name, "position": number} for number, name in enumerate(names, 1)]

    assert newest_snapshot(Service(), "ci+a+main+") == ("ci+a+main+9-1", 2)
    assert newest_snapshot(Service(), "ci+a+topic+") is None


@pytest.fixture
def api():
    with forge_api() as served:
        yield served


@pytest.mark.parametrize("forge", ["github", "gitlab"])
def test_a_comment_is_found_behind_a_hundred_others_and_left_alone_where_it_is_the_same(api, forge):
    own = {"user": {"type": "Bot"}, "author": {"id": 5}}
    stranger = {"user": {"type": "User"}, "author_association": "CONTRIBUTOR", "author": {"id": 6}}
    api.comments += [{"id": number, "body": "<!-- assay ci: a -->", **stranger} for number in range(1, 101)]
    api.comments += [{"id": 101, "body": "<!-- assay ci: b -->\nother job", **own}]
    client = (
        GitHub(api.url, "acme/models", 7, "installation-token")
        if forge == "github"
        else GitLab(api.url, "42", 7, "project-token")
    )
    assert write_comment(client, "a", "first") == "created"
    assert write_comment(client, "a", "second") == "edited"
    assert write_comment(client, "a", "second") == "unchanged"
    assert api.comments[101]["body"] == "<!-- assay ci: a -->\nsecond" and len(api.comments) == 102
    assert api.comments[100]["body"].endswith("other job")


def test_a_refused_comment_and_a_forge_that_is_away_are_named(api):
    with pytest.raises(CannotComment, match="401"):
        write_comment(GitHub(api.url, "acme/models", 7, "wrong"), "a", "text")
    with pytest.raises(ServiceUnavailable, match="does not answer"):
        write_comment(GitHub("http://127.0.0.1:1", "acme/models", 7, "t"), "a", "text")


def test_no_comment_is_tried_without_a_request_or_a_token(tmp_path):
    event = tmp_path / "event.json"
    environment = {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "acme/models", "GITHUB_EVENT_PATH": str(event)}
    for content in ("", "[]", '{"pull_request": null}', '{"pull_request": {"number": "7"}}'):
        event.write_text(content)
        with pytest.raises(NotFound):
            forge_of(environment)
    event.write_text('{"pull_request": {"number": 7}}')
    with pytest.raises(CannotComment, match="GITHUB_TOKEN"):
        forge_of(environment)
    with pytest.raises(UsageError):
        forge_of({})


def test_redirects_are_not_followed_with_the_token(api):
    api.answer = lambda method, path, *_: (api.requests.append(path), (307, {"Location": f"{api.url}/elsewhere"}))[1]
    with pytest.raises(ServiceUnavailable, match="307"):
        write_comment(GitLab(api.url, "42", 7, "project-token"), "a", "text")
    assert api.requests == ["/user"]
