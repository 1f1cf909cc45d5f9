"""Tables of levels and claims: what is claimed is never worded like what was seen, and no figure without its source."""

from __future__ import annotations

import json
from typing import Any

from domain.compatibility.claims import claims
from domain.compatibility.remedies import failures
from domain.compatibility.states import judged
from presentation.reports import charts, levels, matrix
from tests.unit.assay.reports.test_matrix import case
from tests.unit.domain.test_compatibility import NOW, cell, stopped


def claimed(**changes: Any) -> dict[str, Any]:
    told = {"state": "claimed", "level": None, "claimed": "high; supported", "claims": ["a"], "contradicted": False}
    return {"model_id": "acme/tiny", "family": "bert", "category": "embedding", "platform": "mps"} | told | changes


def words(table: Any) -> list[dict[str, str]]:
    """Return the rows of a table as a page words them, by head."""
    return [dict(zip([column.title for column in table.shown], table.words(row), strict=True)) for row in table.rows]


def test_a_claim_has_its_prefix_and_no_level_speed_or_evidence() -> None:
    seen = judged(cell(verified=True, speedup=3.0, speedup_best=4.0), NOW)
    first, second = words(levels.levels_table([seen, claimed()]))
    assert (first["Level"], first["State"], first["Over the CPU"]) == ("high", "verified", "×\u202f3.00\n(most 4.00)")
    assert (second["Level"], second["State"]) == ("claimed: high; supported", "claimed")
    assert (second["Over the CPU"], second["Last tried"], second["Evidence"]) == ("—", "—", "")


def test_what_was_seen_and_is_claimed_otherwise_says_so() -> None:
    row = judged(cell(), NOW) | {"claimed": "unsupported", "claims": ["a"], "contradicted": True}
    assert words(levels.levels_table([row]))[0]["What stopped it"] == "claimed: unsupported, which is contradicted"


def test_stale_evidence_is_marked() -> None:
    row = judged(cell(last_seen=NOW.replace(year=2025)), NOW)
    assert words(levels.levels_table([row]))[0]["Last tried"] == "22 Nov 2025, stale\n1 try"


def test_what_failed_has_cause_and_advice() -> None:
    (row,) = words(levels.failures_table(failures([judged(stopped("timeout", "convert", "Timeout"), NOW)])))
    assert row["What stopped it"] == "convert: Timeout\nconverting or compiling took longer than allowed"
    assert row["What to try"].startswith("Raise `--timeout`")


def test_the_picture_words_levels_where_there_is_room_and_draws_claims_dotted() -> None:
    rows = [
        case(state="verified", level="high"),
        claimed(**dict.fromkeys(("built", "ran", "verified", "measured"))),
        case(platform="cuda", state="unavailable", level=None, built=False, ran=False, verified=None, measured=None),
        case(platform="qnn", state="fell back", level="low", ran=False, verified=False),
    ]
    chart = matrix.matrix_chart(rows)
    assert {row["platform"]: row["state"] for row in chart.rows} == {"cpu": "right", "mps": "claimed", "qnn": "fell"}
    assert chart.sentence.startswith("Of 2 cases: 1 verified") and "1 more are only claimed" in chart.sentence
    wide, narrow = (json.dumps(charts.draw(chart, width=width).to_dict()) for width in (charts.WIDE, charts.NARROW))
    assert "\\u221a high" in wide
    assert '"glyph": "claimed: high"' in wide and '"glyph": "claimed: high"' not in narrow
    assert '"strokeDash": [2, 3]' in wide


def test_every_metric_of_the_claims_has_words() -> None:
    assert {claim.metric for claim in claims()} <= set(levels._METRICS)
