"""What a terminal shows first: few and plain words, a line a device in 100 columns; `--verbose` has what it rests on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

MODEL, CPU = "bert-base-uncased", "intel-xeon-2c"
NOT_SAID = ("position", "basis", "roofline", "projection", "dead letter", "told apart", "stands beside")
ASKED = {
    "recommend": ("recommend", MODEL),
    "predict": ("predict", MODEL, "--hardware", "nvidia-l4", "--platform", "cuda", "--precision", "fp16"),
    "compare": ("compare", "hardware", MODEL),
    "models": ("compare", "models", CPU),
    "runs": ("runs", "list"),
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_the_first_screen_has_plain_words_and_100_columns(asked: tuple[str, ...], typed: Any) -> None:
    out, _ = typed(*asked)
    screen = "\n".join(out.splitlines()[:40])
    assert [word for word in NOT_SAID if re.search(rf"\b{word}", screen, re.IGNORECASE)] == []
    assert not re.search(r"\b(?:None|nan)\b", screen)
    # Commands are not broken: they are there to be copied.
    assert [line for line in screen.splitlines() if len(line.rstrip()) > 100 and "  assay " not in line] == []


def test_a_run_in_a_terminal_has_plain_words_too(typed: Any) -> None:
    newest = json.loads(typed("runs", "list", "--json")[0])[0]["run_id"]
    screen = typed("runs", "show", newest)[0]
    assert [word for word in NOT_SAID if re.search(rf"\b{word}", screen, re.IGNORECASE)] == []


def test_a_recommendation_is_three_picks_and_a_line_a_device(typed: Any) -> None:
    answer = json.loads(typed("recommend", MODEL, "--json")[0])
    lines = typed("recommend", MODEL)[0].splitlines()
    picks = [pick["name"].replace("_", " ").capitalize() for pick in answer["picks"]]
    assert all(line.startswith(pick) for line, pick in zip(lines, picks, strict=False)) and lines[len(picks)] == ""
    ranks = [re.match(r"\s*=?(\d+) ", line) for line in lines]
    assert [int(rank[1]) for rank in ranks if rank] == [row["rank"] for row in answer["ranked"]]
    assert not any(line.startswith(("1. ", "evidence of rank")) for line in lines)
    verbose = typed("recommend", MODEL, "--verbose")[0]
    assert answer["ranked"][0]["why"].split(";")[0] in " ".join(verbose.split())
    assert len(verbose.splitlines()) > len(lines)


def test_a_comparison_has_the_best_of_each_and_every_row_on_request(typed: Any) -> None:
    rows = json.loads(typed("compare", "models", CPU, "--json")[0])["rows"]
    models = list(dict.fromkeys(row["model"] for row in rows))
    assert len(models) < len(rows)
    best = typed("compare", "models", CPU)[0]
    # After the two lines on what is shared and what differs come the heads.
    body = best.split("\n\n", 1)[1].splitlines()[1:]
    assert len(body) == len(models) + 1
    assert f"of {len(rows)} rows" in body[-1]
    assert len(typed("compare", "models", CPU, "--all")[0].splitlines()) >= len(rows)


def test_a_prediction_says_what_it_is_and_on_request_what_it_rests_on(typed: Any) -> None:
    out, _ = typed(*ASKED["predict"])
    assert "evidence    estimate" in out
    assert "time        " in out
    verbose, _ = typed(*ASKED["predict"], "--verbose")
    answer = json.loads(typed(*ASKED["predict"], "--json")[0])
    assert re.search(rf"^basis +{answer['basis']}\b", verbose, re.MULTILINE), verbose
    assert answer["why"].split(";")[0].split(":")[0] in " ".join(verbose.split())
