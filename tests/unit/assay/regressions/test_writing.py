"""Reports written for programs, test reports and comments."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import msgspec
import pytest

from assay.regressions import junit, markdown, sarif, written
from assay.regressions.badge import badge_json, badge_of, badge_svg
from assay.regressions.writing import COMMENT_LETTERS, MARK, headline, percent
from domain.comparison.comparison_sides import NewestOutcome
from domain.comparison.regression import Change, EnvironmentChange, Report, Turn
from domain.figures import Figure


def change(state, title="acme/tiny", why=None):
    before, after = Figure(value=1.0, low=0.99, high=1.01), Figure(value=1.5, low=1.49, high=1.51)
    return Change(
        title=title, configuration="k", column="latency_p50_ms", unit="ms", state=state, before=before, after=after,
        change=0.5, low=0.475, high=0.525, why=why, evidence=["e1", "f1"],
    )  # fmt: skip


def report(*changes, turns=(), environments=(), compared=1, new=()):
    return Report(
        baseline="main", candidate="now.ndjson", baseline_position=7, candidate_position=None, alert=0.1,
        compared=compared, environments=list(environments), turns=list(turns), changes=list(changes), new=list(new),
        gone=[], other_origin=[], not_anew=0,
    )  # fmt: skip


def turn(state, message=None):
    return Turn(
        title="acme/tiny", configuration="k", test="verify", state=state, before="passed", after="failed at verify",
        message=message, evidence=["t1", "u1"],
    )  # fmt: skip


def test_junit_counts_worse_as_failures_and_uncertain_as_skipped():
    told = report(
        change("worse"), change("unclear", why="the intervals overlap"), change("same"), turns=[turn("worse")]
    )
    root = ElementTree.fromstring(junit(told))
    functional, figures = root
    assert (figures.get("tests"), figures.get("failures"), figures.get("skipped")) == ("3", "1", "1")
    assert (functional.get("tests"), functional.get("failures")) == ("1", "1")
    failure = figures.find("testcase/failure")
    assert failure.get("message") == (
        "1.00 ms (0.99–1.01) before, 1.50 ms (1.49–1.51) now: +50.0 % (+47.5 % to +52.5 %)"
    )
    assert "e1 and f1" in failure.text
    assert figures.find("testcase").get("classname") == "acme/tiny"
    properties = {one.get("name"): one.get("value") for one in figures.iter("property")}
    assert (properties["baseline"], properties["baseline_position"], properties["alert"]) == ("main", "7", "0.1")


def test_junit_is_well_formed_whatever_a_message_holds():
    root = ElementTree.fromstring(junit(report(turns=[turn("worse", "]]> <&\x00\x1b[31m \ud800")])))
    assert "]]> <&" in root.find(".//failure").text


def test_markdown_tells_environments_first_and_what_is_worse_before_what_is_not():
    environment = EnvironmentChange(hardware="h", part="library torch", before="2.12", after="2.13", configurations=3)
    told = report(
        change("better"), change("worse"), turns=[turn("worse", "a|b")], environments=[environment], new=["n"]
    )
    text = markdown(told).decode()
    assert text.startswith(MARK)
    places = [
        text.index(word)
        for word in ("Changed environments", "No longer passes", "#### Worse", "#### Better", "#### New")
    ]
    assert places == sorted(places)
    assert "| h | library torch | 2.12 | 2.13 | 3 |" in text
    assert r"a\|b" in text
    assert "something got worse" in text


def test_a_comment_is_never_longer_than_it_may_be():
    text = markdown(report(*(change("worse", title="x" * 3000) for _ in range(100))))
    assert len(text.decode()) < COMMENT_LETTERS + 100
    assert b"cut; the JSON has everything" in text
    short = markdown(report(*(change("worse") for _ in range(100)))).decode()
    assert short.count("acme/tiny") == 30
    assert "and 70 more" in short


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (report(change("worse"), turns=[turn("worse")]), "1 configurations compared: 1 no longer pass, 1 figures worse by more than 10%, 0 the same."),
        (report(compared=0, new=["a", "b"]), "Nothing was compared: 2 new and 0 gone configurations, 0 not measured anew."),
    ],
)  # fmt: skip
def test_the_outcome_in_a_sentence(told, said):
    assert headline(told) == said


def test_suspect_rows_cannot_tell_in_every_format():
    doubted = msgspec.structs.replace(change("unclear", why="candidate: a busy core"), suspect=["f1"])
    reported = report(doubted, change("unclear", title="acme/other", why="the intervals overlap"))
    suspect, overlapping = ElementTree.fromstring(junit(reported)).findall(".//skipped")
    assert "cannot tell" in suspect.get("message") and "cannot tell" not in overlapping.get("message")
    text = markdown(reported).decode()
    assert "#### Cannot tell (1)" in text and "uncertain (1)" in text
    results = json.loads(sarif(reported))["runs"][0]["results"]
    assert [result["level"] for result in results] == ["warning", "note"]
    assert ["cannot tell" in result["message"]["text"] for result in results] == [True, False]
    assert json.loads(written(reported, "json"))["headline"].count("Cannot tell") == 1


def test_sarif_has_one_result_for_each_thing_that_got_worse():
    better = msgspec.structs.replace(change("unclear"), change=-0.5)
    reported = report(change("worse"), change("same"), change("better"), better, turns=[turn("worse"), turn("better")])
    failure = NewestOutcome(
        key="k2", alike="a2", title="acme/big", hardware="h", outcome="out_of_memory", event_id="f9", message="full\x00"
    )
    document = json.loads(sarif(reported, [failure], artifact="plans/my plan.yaml"))
    (log,) = document["runs"]
    assert document["version"] == "2.1.0" and document["$schema"].endswith("sarif-schema-2.1.0.json")
    assert [(each["ruleId"], each["level"]) for each in log["results"]] == [
        ("test-fails", "error"), ("not-measured", "error"), ("figure-worse", "error"),
    ]  # fmt: skip
    rules = log["tool"]["driver"]["rules"]
    assert all(rules[each["ruleIndex"]]["id"] == each["ruleId"] for each in log["results"])
    place = log["results"][0]["locations"][0]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "plans/my%20plan.yaml"
    assert place["logicalLocations"][0]["fullyQualifiedName"] == "acme/tiny verify"
    assert "\x00" not in log["results"][1]["message"]["text"]


def test_sarif_fingerprint_names_configuration_and_metric_whatever_the_version_and_the_values():
    def fingerprint(**more):
        only = msgspec.structs.replace(change("worse"), **{"alike": "a", **more})
        (result,) = json.loads(sarif(report(only)))["runs"][0]["results"]
        return result["partialFingerprints"]["configurationMetric/v1"]

    assert fingerprint() == fingerprint(configuration="another version", change=0.9)
    assert len({fingerprint(), fingerprint(alike="b"), fingerprint(column="ttft_ms")}) == 3


@pytest.mark.parametrize(
    ("verdict", "message", "colour"),
    [
        ("passed", "nothing worse", "brightgreen"),
        ("worse", "3 worse", "red"),
        ("cannot-tell", "cannot tell", "lightgrey"),
        ("no-baseline", "no baseline", "lightgrey"),
    ],
)
def test_badge_says_the_verdict_to_shields_and_in_a_picture_of_its_own(verdict, message, colour):
    badge = badge_of(verdict, 3)
    document = json.loads(badge_json(badge))
    assert document["schemaVersion"] == 1
    assert (document["label"], document["message"], document["color"]) == ("assay", message, colour)
    picture = ElementTree.fromstring(badge_svg(badge, verdict))
    assert "".join(picture.find("{*}title").itertext()) == f"assay: {message}"
    assert "href" not in badge_svg(badge, verdict).decode()


def test_json_holds_all_and_whether_it_is_worse():
    told = json.loads(written(report(change("worse")), "json"))
    assert told["worse"] is True
    assert told["changes"][0]["before"]["value"] == 1.0
    assert told["baseline_position"] == 7


def test_changes_have_a_sign():
    assert [percent(value) for value in (0.5, -0.25, 0.0, None)] == ["+50.0 %", "−25.0 %", "0.0 %", "—"]
