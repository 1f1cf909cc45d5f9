"""The routes file: decoded with errors that name the field, matched against alerts, and quiet by the clock of a place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import UsageError
from domain.history.alerts import Alert
from domain.history.history import Change
from domain.history.notices import compose, mail_of, notice_of, slack_of
from domain.history.routes import (
    Match,
    Owner,
    Quiet,
    decode_routes,
    matching_changes,
    next_due,
    owners_of,
    routes_for,
)

GOOD: dict[str, Any] = {
    "owners": [{"name": "nlp", "models": ["*bert*"]}, {"name": "gpus", "hardware": ["nvidia-*"]}],
    "routes": [
        {
            "name": "nlp",
            "match": {"owners": ["nlp"], "min_change": 0.1},
            "to": {"webhook": {"url": "https://hooks.example.org/assay", "secret_env": "ASSAY_NLP_SECRET"}},
            "quiet": {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"},
        },
        {"name": "mail", "to": {"email": {"to": ["a@b.org"], "from": "c@d.org", "host": "mail.example.org"}}},
    ],
}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def change(model: str = "acme/bert", hardware: str = "acme-one", share: float = 0.15, **more: Any) -> Change:
    values: dict[str, Any] = {
        "id": "c", "alike": "a", "title": "t", "model": model, "hardware": hardware, "platform": "cpu",
        "precision": "fp32", "metric": "latency_p50_ms", "unit": "ms", "kind": "step", "state": "worse",
        "before": 1.0, "after": 1.0 + share, "change": share, "low": share - 0.01, "high": share + 0.01,
        "first": "e1", "last": "e2", "confirmed_by": "e3",
    }  # fmt: skip
    return Change(**{**values, **more})


def alert(*changes: Change, **more: Any) -> Alert:
    values: dict[str, Any] = {
        "id": "6d5c1a7e-3f0b-5b7e-9a63-0c6f4b8d2e12", "title": "bert got slower", "direction": "worse",
        "kind": "performance", "state": "new", "changes": list(changes or (change(),)),
    }  # fmt: skip
    return Alert(**{**values, **more})


def changed(path: str, value: Any) -> str:
    """The good file with another value at a path such as `routes.0.to`, as YAML."""
    document: Any = msgspec.json.decode(msgspec.json.encode(GOOD))
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    part = document
    for step in steps:
        part = part[step]
    part[last] = value
    return yaml.safe_dump(document)


def test_a_file_has_owners_routes_and_defaults():
    routes = decode_routes(yaml.safe_dump(GOOD))
    first, second = routes.routes
    assert (first.match.owners, first.match.directions, first.states) == (("nlp",), ("worse",), ("new", "withdrawn"))
    assert first.to.webhook is not None
    assert first.to.webhook.secret_env == "ASSAY_NLP_SECRET"
    assert [(period.begin, period.end) for period in first.quiet] == [("22:00", "07:00")]
    assert second.to.email is not None
    assert (second.to.email.sender, second.to.email.tls, second.digest.above) == ("c@d.org", "starttls", 10)


def test_times_without_quotes_are_times():
    text = yaml.safe_dump(GOOD).replace("'22:00'", "22:00").replace("'07:00'", "07:00")
    assert "from: 22:00" in text
    assert decode_routes(text).routes[0].quiet[0].begin == "22:00"


WEBHOOK = "routes.0.to.webhook"


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("rout", [], "rout"),
        ("routes.0.mach", {}, "routes[0].mach"),
        (f"{WEBHOOK}.url", 3, "routes[0].to.webhook.url"),
        (f"{WEBHOOK}.url", "ftp://example.org/x", "routes[0].to.webhook.url"),
        (f"{WEBHOOK}.url", "https://", "routes[0].to.webhook.url"),
        (f"{WEBHOOK}.url", "https://example.org:port/", "routes[0].to.webhook.url"),
        (f"{WEBHOOK}.url_env", "ASSAY_URL", "routes[0].to.webhook.url"),
        (f"{WEBHOOK}.secret_env", "lower", "routes[0].to.webhook.secret_env"),
        (f"{WEBHOOK}.secret_env", None, "routes[0].to.webhook.secret_env"),
        (f"{WEBHOOK}.format", "teams", "routes[0].to.webhook.format"),
        ("routes.0.to", {}, "routes[0].to"),
        ("routes.0.match.min_change", -0.1, "routes[0].match.min_change"),
        ("routes.0.match.owners", ["nobody"], "routes[0].match.owners[0]"),
        ("routes.0.digest", {"above": -1}, "routes[0].digest.above"),
        ("routes.0.digest", {"every": "soon"}, "routes[0].digest.every"),
        ("routes.0.quiet.timezone", "Europe/Atlantis", "routes[0].quiet[0].timezone"),
        ("routes.0.quiet.timezone", "../../etc/passwd", "routes[0].quiet[0].timezone"),
        ("routes.0.quiet.from", "25:00", "routes[0].quiet[0].from"),
        ("routes.0.quiet.days", ["mon", "funday"], "routes[0].quiet[0].days[1]"),
        ("routes.0.quiet", {"from": "00:00", "to": "00:00"}, "routes[0].quiet"),
        ("routes.1.name", "nlp", "routes[1].name"),
        ("routes.1.name", "a\nb", "routes[1].name"),
        ("owners.1.name", "nlp", "owners[1].name"),
        ("routes.1.to.email.to", [], "routes[1].to.email.to"),
        ("routes.1.to.email.to", ["a@b.org\nbcc: x@y.org"], "routes[1].to.email.to[0]"),
        ("routes.1.to.email.username", "assay", "routes[1].to.email.username"),
        ("routes.1.to.email.port", 70000, "routes[1].to.email.port"),
        ("service", "https://user:pass@assay.example.org", "service"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path_and_a_remedy(path: str, value: Any, field: str) -> None:
    with pytest.raises(UsageError) as refused:
        decode_routes(changed(path, value))
    assert refused.value.field == field
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{WEBHOOK}.secret", SECRET),
        (f"{WEBHOOK}.secret_env", SECRET),
        (f"{WEBHOOK}.url", "https://hooks.slack.com/services/T0/B0/" + SECRET),
        (f"{WEBHOOK}.url", f"https://example.org/hook?token={SECRET[6:]}"),
        (f"{WEBHOOK}.url", f"https://user:{SECRET[6:]}@example.org/hook"),
        (f"{WEBHOOK}.format", SECRET),
        ("routes.1.to.email.password", SECRET),
        ("routes.1.to.email.password_env", SECRET[6:]),
        ("routes.0.name", SECRET),
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(path: str, value: str) -> None:
    with pytest.raises(UsageError) as refused:
        decode_routes(changed(path, value))
    assert SECRET[6:] not in str(refused.value)
    assert "_env" in str(refused.value) or "environment variable" in str(refused.value)


@pytest.mark.parametrize(
    "text", ["", "- a", "routes: [", "routes: &a [*a]", "routes: []\nroutes: []", "a: !!python/name:os.system", "\x00"]
)
def test_what_is_no_routes_file_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        decode_routes(text)


@given(st.text(max_size=200))
def test_any_text_is_a_file_or_a_usage_error(text: str) -> None:
    try:
        decode_routes(text)
    except UsageError as error:
        assert error.field and error.remedy  # noqa: PT017 - either is right


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["routes", "owners", "to", "quiet", "webhook", "name", "x"]), inner, max_size=4), max_leaves=12))  # fmt: skip
def test_any_document_is_a_file_or_a_usage_error(document: Any) -> None:
    try:
        decode_routes(yaml.safe_dump(document))
    except UsageError as error:
        assert error.field and error.remedy  # noqa: PT017 - either is right


def test_an_alert_goes_to_the_routes_that_match_one_of_its_changes():
    routes = decode_routes(yaml.safe_dump(GOOD))
    names = lambda item: [route.name for route in routes_for(item, routes.routes, routes.owners)]  # noqa: E731
    assert names(alert()) == ["nlp", "mail"]
    assert names(alert(change("acme/resnet"))) == ["mail"]
    assert names(alert(change("acme/resnet"), change("acme/BERT"))) == ["nlp", "mail"]
    assert names(alert(change(share=0.05))) == ["mail"]
    assert names(alert(change(share=0.0, kind="functional"))) == ["nlp", "mail"]
    assert names(alert(direction="better")) == []
    assert names(alert(state="acknowledged")) == []
    assert names(alert(state="withdrawn")) == ["nlp", "mail"]


def test_a_route_is_about_the_changes_that_match_it():
    slow, other = change("acme/bert"), change("acme/resnet", hardware="nvidia-l4")
    assert matching_changes(alert(slow, other), Match(models=("*bert",)), ()) == [slow]
    assert matching_changes(alert(slow, other), Match(hardware=("nvidia-*",)), ()) == [other]
    assert matching_changes(alert(slow, other), Match(platforms=("cuda",)), ()) == []


def test_owners_are_those_of_model_and_hardware():
    owners = [Owner(name="a", models=("acme/*",), hardware=("nvidia-*",)), Owner(name="b")]
    assert owners_of([change()], owners) == ["b"]
    assert owners_of([change(hardware="nvidia-l4")], owners) == ["a", "b"]
    assert owners_of([change("other/bert", "nvidia-l4"), change("acme/x", "cpu")], owners) == ["b"]


NIGHT = Quiet(begin="22:00", end="07:00", timezone="Europe/Berlin")
EARLY = Quiet(begin="00:30", end="02:30", timezone="Europe/Berlin")
WEEKEND = Quiet(begin="00:00", end="00:00", timezone="Europe/Berlin", days=("sat", "sun"))


@pytest.mark.parametrize(
    ("now", "quiet", "due"),
    [
        ("2026-11-26T12:00", [NIGHT], "2026-11-26T12:00"),
        ("2026-11-26T20:59", [NIGHT], "2026-11-26T20:59"),
        ("2026-11-26T21:00", [NIGHT], "2026-11-27T06:00"),
        ("2026-11-27T05:59", [NIGHT], "2026-11-27T06:00"),
        ("2026-11-27T06:00", [NIGHT], "2026-11-27T06:00"),
        # The night of 29 March is an hour shorter, that of 25 October an hour longer.
        ("2026-03-28T21:30", [NIGHT], "2026-03-29T05:00"),
        ("2026-10-24T20:30", [NIGHT], "2026-10-25T06:00"),
        # 02:30 does not exist on 29 March: the period ends at 03:30; on 25 October it comes twice: at the second one.
        ("2026-03-29T00:00", [EARLY], "2026-03-29T01:30"),
        ("2026-10-25T00:15", [EARLY], "2026-10-25T01:30"),
        ("2026-10-25T01:15", [EARLY], "2026-10-25T01:30"),
        # Friday evening is held until Monday morning.
        ("2026-11-27T22:00", [NIGHT, WEEKEND], "2026-11-30T06:00"),
        ("2026-11-28T12:00", [WEEKEND], "2026-11-29T23:00"),
        ("2026-11-28T12:00", [Quiet(begin="09:00", end="17:00", days=("mon",))], "2026-11-28T12:00"),
    ],
)  # fmt: skip
def test_what_comes_in_quiet_hours_is_due_after_them(now: str, quiet: list[Quiet], due: str) -> None:
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
    assert next_due(moment, quiet) == datetime.fromisoformat(due).replace(tzinfo=UTC)


@given(st.integers(0, 3 * 365 * 24 * 60))
def test_due_is_never_before_now_and_never_quiet(minutes: int) -> None:
    now = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    due = next_due(now, [NIGHT, EARLY, WEEKEND])
    assert now <= due <= now + timedelta(days=4)
    assert next_due(due, [NIGHT, EARLY, WEEKEND]) == due


def test_a_message_lists_at_most_a_hundred_changes_and_counts_the_rest():
    item = alert(*(change(f"acme/bert-{number}") for number in range(250)))
    message = compose([notice_of(item, "e", item.changes)], "nlp", datetime.now(UTC), "https://assay.example.org")
    assert message.type == "alert.new"
    assert len(message.data.alerts[0].changes) == 100
    assert message.data.alerts[0].more == 150
    assert len(msgspec.json.encode(message)) < 64_000
    _, text, page = mail_of(message)
    assert "150 more" in text
    assert "https://assay.example.org" in text
    assert "150 more" in page


def test_a_digest_has_the_largest_changes_first_and_counts_the_rest():
    items = [alert(change(f"m{number}", share=number / 1000)) for number in range(1, 301)]
    message = compose([notice_of(item, "e", item.changes) for item in items], "nlp", datetime.now(UTC))
    assert message.type == "alert.digest"
    assert [notice.changes[0].model for notice in message.data.alerts[:2]] == ["m300", "m299"]
    assert (len(message.data.alerts), message.data.more, message.data.states) == (100, 200, {"new": 300})
    slack = slack_of(message)
    assert len(slack["blocks"]) <= 50
    assert "280 more alerts" in slack["blocks"][-1]["elements"][0]["text"]


@given(st.text(max_size=3000), st.text(min_size=1, max_size=400), st.integers(1, 120))
def test_slack_takes_what_any_names_give(title: str, model: str, changes: int) -> None:
    item = alert(*(change(model) for _ in range(changes)), title=title)
    slack = slack_of(compose([notice_of(item, "e", item.changes)], "nlp", datetime.now(UTC)))
    assert len(slack["blocks"]) <= 50
    for block in slack["blocks"]:
        texts = [block["text"]] if "text" in block else block["elements"]
        assert all(0 < len(part["text"]) <= (150 if part["type"] == "plain_text" else 3000) for part in texts)
    assert "<!channel>" not in slack["text"]


def test_markup_in_names_stays_text():
    item = alert(change("<!channel> <script>"), title="<!here> & <b>")
    message = compose([notice_of(item, "e", item.changes)], "nlp", datetime.now(UTC))
    assert "<!" not in msgspec.json.encode(slack_of(message)["blocks"][1]).decode()
    subject, _, page = mail_of(message)
    assert "<script>" not in page
    assert "\n" not in subject
