from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dashboard.screens.operations.words import (  # fmt: skip
    archive_rows,
    behind,
    letter_rows,
    per_second,
    read_operations,
    sentence,
    set_aside,
    setting_rows,
    token_rows,
    took,
    used_words,
)
from presentation import formatting

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
HEALTH = {"position": 88_830, "lag_events": 0, "lag_seconds": 0.0, "error": None, "building": None}


def token(name: str, **more: Any) -> dict[str, Any]:
    return {
        "id": name, "prefix": "assay_ab12cd", "name": name, "source": None, "scopes": ["read", "append"],
        "expires_at": None, "revoked_at": None, "created_at": "2026-11-01T00:00:00Z", **more,
    }  # fmt: skip


def test_the_sentence_says_how_the_tables_stand() -> None:
    assert sentence(HEALTH) == "The tables hold every event of the log, up to position 88,830."
    assert "88,830; 2 events could not be projected" in sentence(HEALTH | {"dead_letters": 2})
    assert "1 event behind" in sentence(HEALTH | {"lag_events": 1, "lag_seconds": 2.5})
    assert formatting.plain(sentence(HEALTH | {"lag_events": 3000, "lag_seconds": 2.5})).endswith("for 2.50 s.")
    assert "stand still: no room" in sentence(HEALTH | {"error": "no room"})
    assert "not known" in sentence(HEALTH | {"lag_events": None})


def test_throughput_is_the_mean_of_whole_steps() -> None:
    steps = [{"events": events} for events in (9999, 600, 0, 1200, 77)]
    assert per_second(steps, 600, 3) == 1.0
    assert per_second(steps[:1], 600, 3) is None
    assert took(steps) == "The log took 11,876 events in the last 24 hours."


def test_lag_that_nobody_saw_is_not_none() -> None:
    began, now, later = "2026-11-22T10:00:00Z", "2026-11-22T12:00:00Z", "2026-11-23T10:00:00Z"
    assert behind([], began, now).startswith("No minute was looked at yet")
    assert behind([{"lag_events": None}], began, now).startswith("No minute was looked at yet")
    since = "At most 12 events behind since the service began on 22 Nov 2026 10:00 UTC."
    assert behind([{"lag_events": 0}, {"lag_events": 12}], began, now) == since
    assert behind([{"lag_events": 12}], began, later) == "At most 12 events behind in the last 24 hours."


def test_tokens_that_work_stand_first_and_never_with_a_secret() -> None:
    rows = token_rows(
        [
            token("old", revoked_at="2026-11-02T00:00:00Z"), token("late", expires_at="2026-11-22T11:59:00Z"),
            token("good", expires_at="2026-12-01T00:00:00Z", source="urn:acme:7"),
        ],
        {"good": "2026-11-22T11:00:00Z"}, NOW,
    )  # fmt: skip
    assert [row["State"] for row in rows] == ["✓ works", "✕ revoked", "✕ expired"]
    good = {name: formatting.plain(value) for name, value in rows[0].items()}
    assert (good["Last used"], good["Appends as"], good["Begins with"]) == ("1 h ago", "urn:acme:7", "assay_ab12cd…")
    assert rows[1]["Last used"] is None
    assert rows[1]["Expires"] == "never"


def test_uses_that_other_processes_saw_are_said_to_be_missing() -> None:
    day = {"build": {"began": "2026-11-22T10:00:00Z"}, "settings": {"role": "all"}}
    alone = used_words(day)
    assert "which began 22 Nov 2026 10:00 UTC" in alone
    assert "ingest workers" not in alone
    assert "What the ingest workers let in is not seen here." in used_words({**day, "settings": {"role": "query"}})


def test_letters_segments_and_settings_are_rows_in_words() -> None:
    letter = {"type": "t", "reason": "r", "events": 3, "newest": "2026-11-22 10:00:00+00", "event": "e"}
    assert letter_rows([letter])[0]["Newest"] == "22 Nov 2026 10:00 UTC"
    assert set_aside(3, [{"Events": 3}]) == "3 events are in the log and not in the tables."
    assert set_aside(5, [{"Events": 1}]).endswith("Here are 1 of them.")
    segment = {
        "first_position": 1, "last_position": 1000, "events": 1000, "bytes": 2_000_000, "facts": "facts-1-1000.parquet",
        "samples": None, "created_at": "2026-11-22T10:00:00Z", "trimmed_at": None,
    }  # fmt: skip
    newest = {**segment, "first_position": 1001, "trimmed_at": "2026-11-22T11:00:00Z"}
    rows = archive_rows([segment, newest])
    assert [row["Positions"] for row in rows] == ["1,001–1,000", "1–1,000"]
    assert [row["Bodies"] for row in rows] == ["in the files alone", "in the database too"]
    day = {
        "build": {"version": "0.1.0", "schema": 2, "python": "3.11", "system": "Linux", "began": "2026-11-22T10:00:00Z"},
        "settings": {
            "role": "all", "host": "127.0.0.1", "embedded_postgres": True, "requests_per_s": 500.0, "events_per_s": None,
            "body_deadline_s": 30.0, "retrain_every_s": 86_400.0, "log_level": "info",
        },
    }  # fmt: skip
    told = {row["Setting"]: row["Value"] for row in setting_rows(day, "http://x")}
    assert told["Requests at most"] == "500/s of each token"
    assert told["Events at most"] == "no limit"
    assert told["Trains by itself"] == "every 24 h, and when it drifts"


def test_the_address_names_an_event() -> None:
    read = read_operations({"event": ["abc"], "as_of": ["3"]})
    assert read.asked.event == "abc"
    assert read.dropped == ["as_of is not a parameter of this page"]
