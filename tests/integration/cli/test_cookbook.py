"""The cookbook: every question is asked of what comes with Assay, and the page has them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.cli import run
from assay.cookbook import page, words
from domain.cookbook import Recipe, recipes

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "cookbook.md"


@pytest.fixture(scope="module")
def filled(service_database: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A service with the measurements that come with Assay and nothing else."""
    from tests.integration.conftest import RunningService

    running = RunningService(tmp_path_factory.mktemp("cookbook"), service_database().url)
    running.environment |= {"ASSAY_SHIPPED_DATA": "yes"}
    running.start()
    files = sorted(str(path) for path in (ROOT / "data").glob("*.ndjson.gz"))
    assert run(["post", *files, "--server", running.url]) == 0
    yield running
    running.stop()


@pytest.fixture
def asked(filled: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    def ask(name: str) -> dict[str, Any]:
        recipe = next(one for one in recipes() if one.name == name)
        capsys.readouterr()
        ended = run([*words(recipe), "--server", filled.url, "--json"])
        said = capsys.readouterr()
        assert ended == recipe.exit, said.err + said.out
        return json.loads(said.out)

    return ask


def test_a_service_keeps_its_limit_with_the_probability_that_was_asked(asked: Any) -> None:
    answer = asked("bert-service")
    costs = [row["usd_per_million"] for row in answer["ranked"]]
    assert len(costs) == 5
    for row in answer["ranked"]:
        (met,) = row["meets"]
        assert met["probability"] >= 0.8
        assert row["latency_ms"] <= 20
        assert row["price"]["provider"]
        assert row["usd_per_hour"] == pytest.approx(row["price"]["machines"] * row["price"]["usd_per_hour_each"])


def test_offline_pictures_go_by_cost_one_row_a_device(asked: Any) -> None:
    rows = asked("vit-offline")["ranked"]
    assert len({(row["hardware"], row["hardware_count"]) for row in rows}) == len(rows) == 5
    for row in rows:
        assert row["usd_per_million"] == pytest.approx(
            row["usd_per_hour"] / 3600 / row["throughput_per_s"] * 1e6, rel=1e-3
        )


def test_laptops_transcribe_by_published_parts_and_the_one_without_is_predicted_from_kernels(asked: Any) -> None:
    answer = asked("whisper-laptop")
    assert answer["call"]["unit"] == "transcription"
    assert [row["basis"] for row in answer["ranked"]] == ["imported", "imported", "predicted"]
    assert all(row["realtime_factor"] > 10 for row in answer["ranked"])
    last = answer["ranked"][-1]
    assert (last["method"], last["interval_covered"]) == ("general", True)
    assert last["latency_ms_low"] < last["latency_ms"] < last["latency_ms_high"]


def test_a_chat_model_has_both_times_and_fits(asked: Any) -> None:
    answer = asked("chat-7b")
    assert answer["ranked"]
    for row in answer["ranked"]:
        assert row["ttft_ms"] <= 2000
        assert row["tpot_ms"] <= 60
        assert {met["constraint"]: met["probability"] >= 0.8 for met in row["meets"]} == {
            "max_ttft_ms": True, "max_tpot_ms": True,
        }  # fmt: skip
        assert row["memory_parts"]["kv_cache_bytes"] > 0
    assert any(one["rule"] == "does not fit in memory" for one in answer["excluded"])


def test_what_fits_in_eight_gigabytes(asked: Any) -> None:
    answer = asked("eight-gigabytes")
    assert "8" in json.dumps(answer)


def test_a_night_of_training_is_ranked_by_steps(asked: Any) -> None:
    answer = asked("overnight-training")
    assert answer["workload"]["mode"] == "training"
    assert all(row["usd_per_hour"] <= 2 for row in answer["ranked"])
    assert any(one["rule"] == "max_usd_per_hour" for one in answer["excluded"])


def test_only_intel_is_only_intel(asked: Any) -> None:
    rows = asked("only-intel")["ranked"]
    assert {row["hardware"].split("-")[0] for row in rows} == {"intel"}


def test_what_is_owned_is_measured_and_traceable(asked: Any, filled: Any) -> None:
    rows = asked("what-i-own")["ranked"]
    assert {row["hardware"] for row in rows} == {"intel-xeon-2c"}
    assert rows[0]["basis"] == "measured"
    with filled.client() as client:
        event = client.event(rows[0]["evidence"][0])
    assert event["data"]["metrics"]["latency_ms"]["p50"] == pytest.approx(rows[0]["latency_ms"], rel=1e-5)


def test_a_fleet_serves_every_load(asked: Any) -> None:
    answer = asked("fleet")
    assert answer["usd_per_hour"] > 0
    assert answer["machines"]


def test_what_cannot_be_promised_is_measured_first(asked: Any) -> None:
    answer = asked("measure-first")
    assert answer["ranked"] == []
    assert "met with a probability of" in answer["abstained"]
    (would,) = answer["within_reach"]
    assert would["would_do"] > would["limit"] == 1.0


def test_the_page_has_every_question_as_it_is_asked() -> None:
    written = PAGE.read_text()
    answers = {}
    for recipe in recipes():
        assert recipe.command in written, "python -m assay.cookbook --server URL --out docs/cookbook.md"
        answers[recipe.name] = written.split(f"$ {recipe.command}\n", 1)[1].split("\n```", 1)[0]
        assert answers[recipe.name].strip()

    def printed(recipe: Recipe) -> str:
        return answers[recipe.name]

    assert page(printed) == written


def test_where_a_public_figure_exists_no_answer_rests_on_specifications_alone(asked: Any) -> None:
    for name in ("bert-service", "vit-offline", "chat-7b", "overnight-training", "only-intel", "what-i-own"):
        assert asked(name)["ranked"][0]["basis"] != "roofline", name
