from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from dashboard.screens.operations.words import (  # fmt: skip
    archive_table,
    behind,
    bundle_table,
    device_table,
    held_table,
    letter_table,
    link_table,
    peer_table,
    per_second,
    read_operations,
    set_aside,
    setting_table,
    standing,
    token_table,
    took,
    used_words,
)
from domain.answers.links import BrowserDevice, Link
from domain.answers.operations import Archived, Build, Configured, Day, DeadLetter, Health, ListedToken, Minute, Step
from domain.answers.sharing import HeldRow, SharedBundle
from domain.sharing.peers import Peer
from presentation import formatting

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
HEALTH = Health(position=88_830, lag_events=0, lag_seconds=0.0)
BEGAN = datetime(2026, 11, 22, 10, tzinfo=UTC)
DAY = Day(
    now=NOW, position=88_830, step_s=600, throughput=[], lag=[], token_uses={}, archive=[],
    build=Build(version="0.1.0", schema=2, python="3.11", system="Linux", began=BEGAN),
    settings=Configured(
        role="all", host="127.0.0.1", embedded_postgres=True, requests_per_s=500.0, events_per_s=None,
        body_deadline_s=30.0, retrain_every_s=86_400.0, log_level="info",
    ),
)  # fmt: skip


def token(name: str, **more: Any) -> ListedToken:
    row = {
        "id": name, "prefix": "assay_ab12cd", "name": name, "source": None, "scopes": ["read", "append"],
        "expires_at": None, "revoked_at": None, "created_at": "2026-11-01T00:00:00Z", **more,
    }  # fmt: skip
    return msgspec.convert(row, ListedToken)


def steps(*events: int) -> list[Step]:
    return [Step(at=BEGAN, events=count) for count in events]


def minutes(*lags: int | None) -> list[Minute]:
    return [Minute(at=BEGAN, lag_events=lag, lag_seconds=None) for lag in lags]


def test_one_line_says_how_the_service_stands() -> None:
    assert standing(HEALTH) == ("well", "All is well: every event is in the tables.", "")
    dead = standing(replace(HEALTH, dead_letters=2))
    assert (dead.state, dead.words) == ("wrong", "2 events could not be read. All others are in the tables.")
    assert standing(replace(HEALTH, lag_events=1, lag_seconds=2.5)).state == "well", "it is on its way"
    late = standing(replace(HEALTH, lag_events=3000, lag_seconds=25.0))
    assert (late.state, formatting.plain(late.words)) == (
        "busy",
        "3,000 events wait to be read, the oldest for 25.0 s.",
    )
    stopped = standing(replace(HEALTH, error="no room"))
    assert (stopped.state, stopped.words) == ("wrong", "The tables stand still: no room")
    assert "assay doctor" in stopped.remedy
    assert standing(replace(HEALTH, lag_events=None)).state == "wrong"
    assert standing(replace(HEALTH, building="half of it is done")).state == "busy"


def test_throughput_is_the_mean_of_whole_steps() -> None:
    day = steps(9999, 600, 0, 1200, 77)
    assert per_second(day, 600, 3) == 1.0
    assert per_second(day[:1], 600, 3) is None
    assert (
        formatting.plain(took(day, 600))
        == "The log took 11,876 events in the last 24 hours, 4.92 a second in the last hour."
    )
    assert took(steps(1), 600) == "The log took 1 event in the last 24 hours."


def test_lag_that_nobody_saw_is_not_none() -> None:
    later = datetime(2026, 11, 23, 10, tzinfo=UTC)
    assert behind([], BEGAN, NOW).startswith("No minute was looked at yet")
    assert behind(minutes(None), BEGAN, NOW).startswith("No minute was looked at yet")
    since = "At most 12 events behind since the service began on 22 Nov 2026 10:00 UTC."
    assert behind(minutes(0, 12), BEGAN, NOW) == since
    assert behind(minutes(12), BEGAN, later) == "At most 12 events behind in the last 24 hours."


def test_tokens_that_work_stand_first_and_never_with_a_secret() -> None:
    table = token_table(
        [
            token("old", revoked_at="2026-11-02T00:00:00Z"), token("late", expires_at="2026-11-22T11:59:00Z"),
            token("good", expires_at="2026-12-01T00:00:00Z", source="urn:acme:7"),
        ],
        {"good": datetime(2026, 11, 22, 11, tzinfo=UTC)}, NOW,
    )  # fmt: skip
    rows = table.to_dict("records")
    assert [row["State"] for row in rows] == ["✓ works", "✕ revoked", "✕ expired"]
    good = {name: formatting.plain(value) for name, value in rows[0].items()}
    assert (good["Last used"], good["Appends as"], good["Begins with"]) == ("1 h ago", "urn:acme:7", "assay_ab12cd…")
    assert table["Last used"].isna()[1]
    assert rows[1]["Expires"] == "never"


def test_uses_that_other_processes_saw_are_said_to_be_missing() -> None:
    alone = used_words(DAY)
    assert "which began 22 Nov 2026 10:00 UTC" in alone
    assert "ingest workers" not in alone
    query = replace(DAY, settings=replace(DAY.settings, role="query"))
    assert "What the ingest workers let in is not seen here." in used_words(query)


def test_letters_segments_and_settings_are_rows_in_words() -> None:
    letter = DeadLetter(type="t", reason="r", events=3, newest="2026-11-22 10:00:00+00", event="e")
    assert letter_table([letter])["Newest"][0] == "22 Nov 2026 10:00 UTC"
    assert set_aside(3, [letter]) == "3 events are in the log and not in the tables."
    assert set_aside(5, [replace(letter, events=1)]).endswith("Here are 1 of them.")
    segment = Archived(
        first_position=1, last_position=1000, events=1000, bytes=2_000_000, facts="facts-1-1000.parquet",
        samples=None, created_at=BEGAN, trimmed_at=None,
    )  # fmt: skip
    newest = replace(segment, first_position=1001, trimmed_at=NOW)
    table = archive_table([segment, newest])
    assert list(table["Positions"]) == ["1,001–1,000", "1–1,000"]
    assert list(table["Bodies"]) == ["in the files alone", "in the database too"]
    settings = dict(setting_table(DAY, "http://x").itertuples(index=False))
    assert settings["Requests at most"] == "500/s of each token"
    assert settings["Events at most"] == "no limit"
    assert settings["Trains by itself"] == "every 24 h, and when it drifts"


def test_the_address_names_an_event() -> None:
    read = read_operations({"event": ["abc"], "as_of": ["3"]})
    assert read.asked.event == "abc"
    assert read.dropped == ["as_of is not a parameter of this page"]


def test_bundles_stand_newest_first_by_the_name_of_a_trusted_signer() -> None:
    first = SharedBundle(
        bundle="sha256:" + "a" * 64, signer="ed25519:1", name=None, trust="unknown", licence="CC0-1.0", tool=None,
        added_at=BEGAN, added_by="local", runs=1, measurements=5, held=2, models=1, devices=["nvidia-l4"], state="counts",
    )  # fmt: skip
    second = replace(
        first, bundle="sha256:" + "b" * 64, name="Jane's lab", trust="trusted", added_at=NOW, state="removed"
    )
    table = bundle_table([first, second])
    assert list(table["Signer"]) == ["Jane's lab", "ed25519:1"]
    assert list(table["Bundle"]) == ["b" * 12, "a" * 12] and list(table["Held back"]) == [2, 2]
    held = HeldRow(
        event_id="e", model="m", hardware="h", platform="cuda", precision="fp16", batch_size=1, latency_ms=0.1,
        reason="copied: 1 ms", signer="ed25519:1", bundle=first.bundle, retraction="r", position=7,
    )  # fmt: skip
    assert held_table([held]).iloc[0].to_dict()["Why"] == "copied: 1 ms"


def test_devices_say_whether_their_rows_count() -> None:
    device = BrowserDevice(
        device="page-1", accepted=False, by=None, since=None, measurements=2, failures=1, models=["acme/tiny"],
        hardware=["unstated-device"], platforms=["wasm"], newest=NOW,
    )  # fmt: skip
    table = device_table([device, replace(device, device="page-2", accepted=True, by="ops")])
    assert table["State"].tolist() == ["shown only", "accepted by ops"]
    assert table["As stated"].tolist() == ["unstated-device"] * 2
    assert table["Did not run"].tolist() == [1, 1]


def test_links_say_how_often_they_were_opened():
    link = Link(
        id="3f2a90c1d477", state="open", models=["acme/tiny fp32"], uses=20, opened=3, created_by="ops", created_at=NOW,
        expires_at=NOW,
    )  # fmt: skip
    table = link_table([link])
    assert (table["Opened"][0], table["State"][0], table["Models"][0]) == ("3 of 20", "open", "acme/tiny fp32")


def test_peers_say_how_far_they_are_read_and_what_is_wrong() -> None:
    read = Peer(
        id=1, name="lab", url="https://lab.example.org", sources=["urn:lab:*"], types=["x.y"], log=None, epoch=1, position=90,
        last_position=100, accepted=80, duplicate=5, refused=1, refusal="position 7: another source", problem=None,
        problem_at=None, added_at=BEGAN, pulled_at=NOW,
    )  # fmt: skip
    never = replace(read, name="far", last_position=None, pulled_at=None, problem="it does not answer")
    table = peer_table([read, never])
    assert list(table["Peer"]) == ["lab", "far"]
    assert table["Lag"][0] == 10
    assert table["Last pull"][1] == "never"
    assert list(table["Problem"]) == ["position 7: another source", "it does not answer"]
