"""The Regressions page in words: its address, how many are open, what an alert says of itself, its rows and links."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from dashboard.address import parameters
from dashboard.screens.regressions import query, words
from dashboard.screens.regressions.words import Triage, read_triage
from domain.errors import Forbidden
from domain.history.alerts import OPEN, Alert, StateChange
from domain.history.history import Cause, Change
from presentation.alert_words import bisect_by_hand, bisect_command, cause_words, distinct_causes
from tests.alerts import change

DRIVER = Cause(part="driver", before="550", after="560")


def made(size=0.16, **members):
    times = {"first_time": datetime(2026, 11, 1, 2, tzinfo=UTC), "last_time": datetime(2026, 11, 2, 2, tzinfo=UTC)}
    return msgspec.convert(change("c", size, batch_size=8, **(times | members)), Change)


def alert(*changes, **members):
    return Alert(**{"id": "a1", "title": "t", "direction": "worse", "kind": "performance", "state": "new", "changes": list(changes), **members})  # fmt: skip


def plain(words):
    return words.replace("\u202f", " ")


def test_an_address_is_read_back_and_what_is_not_understood_is_named():
    asked = Triage(state="fixed", direction="all", model="a/b", hw="h", alert="a1", change="c1", as_of=4)
    assert read_triage(parameters(asked)) == (asked, [])
    read = read_triage({"state": ["lost"], "direction": ["up"], "mood": ["good"]})
    assert (read.asked, len(read.dropped)) == (Triage(), 3)


def test_open_is_what_somebody_has_to_do_something_about():
    assert words.states_of(Triage()) == OPEN
    assert words.states_of(Triage(state="all")) == ()
    assert words.states_of(Triage(state="false")) == ("false",)


@pytest.mark.parametrize(
    ("counts", "direction", "said"),
    [
        ({}, "worse", "No regression is open."),
        ({"fixed": 4}, "worse", "No regression is open."),
        ({"new": 1}, "worse", "1 regression is open and new."),
        ({"acknowledged": 1}, "better", "1 improvement is open and acknowledged."),
        ({"new": 2, "acknowledged": 1, "false": 9}, "worse", "3 regressions are open, 2 of them new."),
        ({"new": 2}, "all", "2 changes are open, all of them new."),
        ({"acknowledged": 2}, "all", "2 changes are open, none of them new."),
    ],
)
def test_the_answer_counts_what_is_open(counts, direction, said):
    assert words.sentence(counts, Triage(direction=direction)) == said


def test_alerts_are_counted_by_the_states_that_are_asked_for():
    counts = {"new": 3, "acknowledged": 2, "fixed": 7}
    assert [words.number_of(counts, Triage(state=state)) for state in ("open", "all", "fixed", "false")] == [
        5,
        12,
        7,
        0,
    ]


def test_an_alert_says_the_largest_change_and_where():
    one = made(low=0.14, high=0.18)
    assert plain(words.heading(alert(one))) == "▼ Latency 16 % longer: tiny · acme-one · cpu · fp32 · batch 8"
    others = [made(0.1, alike="b", model="acme/other"), made(0.1, alike="c")]
    assert plain(words.heading(alert(one, *others))) == (
        "▼ Latency up to 16 % longer: 3 configurations of 2 models · acme-one"
    )
    assert plain(words.heading(alert(one, others[1]))).endswith("2 configurations of tiny · acme-one")
    fails = made(-1.0, kind="functional", metric="outputs")
    assert words.heading(alert(fails)).startswith("▼ Test outputs fails: ")
    better = made(0.3, state="better", metric="throughput_per_s")
    assert plain(words.heading(alert(better))).startswith("▲ Throughput 30 % higher: ")


def test_a_row_has_size_interval_state_and_cause_and_opens_its_alert_under_the_same_filters():
    rows = [
        alert(made(low=0.14, high=0.18), made(0.1, metric="peak_memory_bytes"), cause=DRIVER, owners=["ada"]),
        alert(made(-0.2, metric="throughput_per_s"), id="a2", state="acknowledged"),
    ]
    columns = {column.head: column for column in words.alert_columns(rows, Triage(model="a/b", state="all"), None)}
    assert [plain(one) for one in columns["Change"].shown] == ["▼ 16 % longer (14–18 %)", "▼ 20 % lower"]
    assert columns["Change"].values[1] > columns["Change"].values[0] > 0
    assert columns["Figure"].values == ["Latency and 1 more", "Throughput"]
    assert columns["State"].values == ["new", "acknowledged"]
    assert columns["Candidate cause"].values == ["driver 550 → 560", None]
    assert columns["Owner"].values == ["ada", None]
    query_ = parse_qs(urlsplit(columns["What"].links[0]).query)
    assert query_ == {"model": ["a/b"], "state": ["all"], "alert": ["a1"]}


def test_the_range_of_a_change_says_times_versions_and_commits():
    found = made(versions=("torch 2.12", "torch 2.13"), commits=("a" * 40, "b" * 40))
    said = words.range_words(found, None)
    for part in ("1 Nov 2026", "2 Nov 2026", "from torch 2.12 to torch 2.13", f"{'a' * 12} to {'b' * 12}"):
        assert part in said
    assert "from" not in words.range_words(made(versions=("torch 2", "torch 2")), None)


def test_evidence_is_in_the_order_of_time_and_each_event_leads_to_its_page():
    found = made(-1.0, kind="functional", metric="outputs", evidence_before=["e2", "e1"], evidence_after=["e3"])
    outcomes = {"e1": {"outcome": "passed", "time": None}, "e3": {"outcome": "failed", "message": "cosine 0.2"}}
    columns = {column.head: column for column in words.evidence_columns(found, None, outcomes, None)}
    assert columns["Side"].values == ["before", "before", "after"]
    assert columns["outputs"].values == ["passed", None, "failed"]
    assert columns["Message"].values == [None, None, "cosine 0.2"]
    assert columns["Event"].links == ["runs?row=e1", "runs?row=e2", "runs?row=e3"]


def test_a_test_has_no_trend_and_a_figure_leads_to_its_own():
    assert words.trend_path(made(kind="functional")) is None
    assert words.trend_path(made(metric="device_memory_bytes")) is None
    assert words.trend_path(made(alike="1:abcdefabcdefabcd")) == (
        "trends?model=acme/tiny&metric=latency_ms&rows=abcdefabcdef"
    )


def test_what_was_said_stands_newest_first():
    given = [StateChange(state="acknowledged", author="ada"), StateChange(state="fixed", author="bob", reason="pinned")]
    columns = {column.head: column for column in words.state_columns(alert(made(), states=given), None)}
    assert columns["By"].values == ["bob", "ada"]
    assert columns["Reason"].values == ["pinned", None]


def test_a_library_that_is_the_runtime_is_one_cause():
    runtime = Cause(part="runtime", before="torch 2.12", after="torch 2.13")
    library = Cause(part="library torch", before="2.12", after="2.13")
    assert cause_words(runtime) == "runtime torch 2.12 → 2.13"
    assert cause_words(Cause(part="runtime", before="torch 2.12", after="onnxruntime 1.27")).endswith(
        "onnxruntime 1.27"
    )
    assert cause_words(Cause(part="commit", before=None, after="abc")) == "commit absent → abc"
    assert distinct_causes([runtime, DRIVER, library]) == [runtime, DRIVER]


def test_a_command_bisects_a_library_and_where_no_ends_are_known_leaves_their_places():
    known = made(causes=[Cause(part="library torch", before="2.12", after="2.13")])
    command = bisect_command(alert(made(), known))
    assert command.startswith("assay bisect --package torch --overlay --good 2.12 --bad 2.13 --run ")
    assert bisect_command(alert(made(causes=[DRIVER]))) is None
    assert bisect_by_hand(made()).startswith("assay bisect --good GOOD --bad BAD --run 'assay bench acme/tiny ")


def test_a_command_asks_for_a_second_runtime_by_its_name_and_for_versions_that_an_index_has():
    builds = made(causes=[Cause(part="library torch", before="2.12.0+cpu", after="2.13.0+cpu")])
    assert " --good 2.12.0 --bad 2.13.0 " in bisect_command(alert(builds))
    other = made(versions=("onnxruntime 1.29.0", "onnxruntime 1.30.0"))
    assert "--package onnxruntime --overlay --good 1.29.0 --bad 1.30.0 " in bisect_command(alert(other))
    sized = msgspec.structs.replace(other, bench=["--sequence-lengths", "384", "--threads", "1"])
    assert "--platform onnxruntime" in bisect_command(alert(sized))
    assert " --sequence-lengths 384 --threads 1 --out {out}" in bisect_command(alert(sized))


def test_a_token_that_may_not_append_is_said_with_the_one_that_may(monkeypatch):
    class Refused:
        def set_alert_state(self, *_, **__):
            raise Forbidden("no.", field="token")

    monkeypatch.setattr(query, "client", Refused)
    with pytest.raises(Forbidden) as refused:
        query.give_state("a1", "fixed", "done", None)
    assert "--scope append" in refused.value.remedy
