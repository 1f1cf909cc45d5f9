"""Learning from a world whose law is known: what is learned, what is honest, and what is the same bits twice."""

from __future__ import annotations

import gzip
import json
import math
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import msgspec
import numpy as np
import pytest

from domain.catalogues import hardware
from domain.errors import CorruptArtifact, UsageError
from domain.events import PREDICTOR_TRAINED, decode_event, encode_event, new_event
from domain.performance.roofline import limits_of
from predictor.answering.candidates import Candidate
from predictor.answering.estimates import estimate
from predictor.artifact.artifact import Predictor, decode, encode, load_shipped, read_folder, write_folder
from predictor.artifact.calibrated import CalibratedMethod
from predictor.artifact.calibrations import calibrations_of
from predictor.artifact.coverage import coverage_of
from predictor.features.dataset import training_rows
from predictor.features.features import FEATURES, TRACE_FEATURES
from predictor.features.operators_route import tabulate
from predictor.learning.blend import BlendMethod
from predictor.learning.building import Needs, build_from_table, finish, train
from predictor.learning.evaluation import evaluate, hold_out
from predictor.learning.trees import TreeMethod
from tests.integration.predictor.conftest import World

SCORE = {
    "rows",
    "mape",
    "median_ape",
    "within_10",
    "within_20",
    "kendall_tau",
    "coverage_80",
    "coverage_90",
    "width_80",
}


@pytest.fixture(scope="module")
def built(table: Any, learners: Any) -> Any:
    return build_from_table(table, hardware.find, learners=learners, checks=learners)


def test_a_new_architecture_is_predicted_by_its_operators(table: Any, learners: Any) -> None:
    with_traces = evaluate(table, TreeMethod(learners), "architecture")["overall"]["median_ape"]
    blind = msgspec.structs.replace(table, values=table.values.copy())
    blind.values[:, [FEATURES.index(name) for name in TRACE_FEATURES]] = 0.0
    without = evaluate(blind, TreeMethod(learners), "architecture")["overall"]["median_ape"]
    assert with_traces < 0.13
    assert with_traces < 0.75 * without


def test_splits_keep_groups_together_and_so_tell_the_truth(table: Any, learners: Any) -> None:
    mape = {split: evaluate(table, TreeMethod(learners), split)["overall"]["mape"] for split in ("random", "family")}
    # A random row has siblings of its model and family in training; a family held out has not.
    assert mape["family"] > 1.8 * mape["random"]


@pytest.mark.parametrize("split", ["architecture", "family"])
def test_intervals_cover_what_they_say(table: Any, learners: Any, split: str) -> None:
    overall = evaluate(table, TreeMethod(learners), split)["overall"]
    assert 0.68 <= overall["coverage_80"] <= 0.95
    assert overall["coverage_80"] < overall["coverage_90"] + 1e-9
    assert 0 < overall["width_80"] < 2


def test_the_answer_has_its_shape(table: Any, learners: Any) -> None:
    for split in ("configuration", "time"):
        told = evaluate(table, TreeMethod(learners), split, "latency")
        assert {"split", "target", "shots", "rows", "groups", "overall", "by_hardware", "by_family"} <= told.keys()
        for part in (told["overall"], *told["by_hardware"].values(), *told["by_family"].values()):
            assert part.keys() == SCORE
        json.dumps(told, allow_nan=False)


def test_shots_on_a_new_device_help_and_none_is_called_not_calibrated(table: Any, learners: Any) -> None:
    slower = np.exp(np.where([row.hardware == "nvidia-rtx-4090" for row in table.rows], 0.5, 0.0))
    shifted = msgspec.structs.replace(table, measured=table.measured * slower)
    method = CalibratedMethod(TreeMethod(learners))
    bare, shot = (evaluate(shifted, method, "hardware", shots=shots) for shots in (0, 10))
    assert (bare["calibrated"], bare["overall"]["coverage_80"]) == (False, None)
    assert shot["by_hardware"]["nvidia-rtx-4090"]["mape"] < 0.6 * bare["by_hardware"]["nvidia-rtx-4090"]["mape"]
    assert shot["overall"]["coverage_80"] is not None
    assert shot["rows"] == bare["rows"] - 20


def test_what_cannot_be_evaluated_says_what_is_missing(table: Any) -> None:
    with pytest.raises(UsageError, match="missing: 40 rows"):
        hold_out(table.take(range(10)), TreeMethod(), "random")
    for changes in ({"split": "moon"}, {"split": "random", "target": "beauty"}, {"split": "random", "shots": 3}):
        with pytest.raises(UsageError) as caught:
            evaluate(table, TreeMethod(), **changes)
        assert caught.value.field in changes


def test_training_twice_gives_the_same_bits(table: Any, learners: Any, built: Any) -> None:
    card, trees, hard = built
    assert encode(card, trees, hard) == encode(
        *build_from_table(table, hardware.find, learners=learners, checks=learners)
    )
    other = BlendMethod(learners).fit(table.take(range(len(table) - 1)))
    assert encode(card, other)[1] != encode(card, trees)[1]


def test_an_artifact_survives_and_a_corrupted_one_is_refused(built: Any, table: Any, tmp_path: Any) -> None:
    card, trees, _ = built
    content, digest = encode(card, trees)
    loaded = decode(content, digest)
    np.testing.assert_array_equal(loaded.base.predict(table).residual, trees.predict(table).residual)
    assert loaded.card == card
    with pytest.raises(CorruptArtifact):
        decode(content.replace(b"leaf_value=", b"leaf_valve=", 1), digest)
    assert write_folder(tmp_path, card, trees) == digest == read_folder(tmp_path).digest
    others = {"serving.tpot": trees.trees}
    whole, name = encode(card, trees, others)
    assert decode(whole, name).others["serving.tpot"].texts == trees.trees.texts
    assert write_folder(tmp_path / "more", card, trees, others) == name == read_folder(tmp_path / "more").digest
    packed = tmp_path / "model_l2.txt.gz"
    packed.write_bytes(gzip.compress(gzip.decompress(packed.read_bytes()) + b" "))
    with pytest.raises(CorruptArtifact):
        read_folder(tmp_path)


def test_rows_that_may_not_train_do_not(world: Any) -> None:
    good = world.rows[0]
    bad = [
        msgspec.structs.replace(good, **{"latency_ms": good.latency_ms + index, **changes})
        for index, changes in enumerate(
            ({"origin": "simulated"}, {"verdict": "invalid"}, {"verdict": "suspect"}, {"fallback_share": 0.2},
             {"mode": "training"}, {"latency_ms": float("nan")}, {"latency_ms": -1.0}, {"latency_ms": None})
        )
    ]  # fmt: skip
    assert training_rows([good, good, None, *bad]) == [good]
    imported = msgspec.structs.replace(good, origin="imported", verdict="suspect", latency_ms=1.0)
    assert training_rows([imported]) == [imported]


def test_rows_that_the_operators_say_nothing_about_are_counted_by_reason(world: Any) -> None:
    good = world.rows[0]
    changes = (
        {"count": 2},
        {"parallelism": {"data": 2}},
        {"batch_size": None},
        {"model": "acme/unheard"},
        {"hardware": "a-toaster"},
    )
    rows = [msgspec.structs.replace(good, **change) for change in changes]
    made = tabulate([good, *rows], world.book, hardware.find)
    assert len(made) == 1
    assert made.dropped == {
        "several devices": 1,
        "several ranks": 1,
        "no batch size": 1,
        "no trace": 1,
        "no peak or bandwidth": 1,
    }


def test_few_rows_keep_the_base_and_say_how_many_are_missing(world: Any) -> None:
    base = load_shipped()
    made = train(world.rows, world.book, hardware.find, base, position=7)
    assert made.predictor.base is base.base
    assert made.predictor.card.position == 7
    assert f"{Needs().architectures} more architectures" in made.predictor.card.limits[-1]
    assert made.event_data["digest"] == made.predictor.digest
    assert decode(made.content, made.predictor.digest).card == made.predictor.card


def test_enough_rows_give_trees_of_their_own_and_calibrate_the_rest(world: Any, learners: Any) -> None:
    needs = Needs(rows=400, architectures=80, architectures_each=50)
    few = [
        msgspec.structs.replace(row, hardware="nvidia-l4", latency_ms=(row.latency_ms or 0) * 2, event_id=f"e{index}")
        for index, row in enumerate(world.rows[:300:30])
    ]
    made = train([*world.rows, *few], world.book, hardware.find, load_shipped(), needs=needs, learners=learners)
    card = made.predictor.card
    assert (card.trees_from, card.rows) == ("log", len(world.rows))
    assert card.coverage.hardware == ["nvidia-rtx-3090", "nvidia-rtx-4090"]
    table = tabulate([*world.rows, *few], world.book, hardware.find)
    (told,) = calibrations_of(table, card.coverage, made.predictor.base).document()
    assert (told["hardware"], told["rows"], told["models"]) == ("nvidia-l4", 10, 10)
    assert set(told["evidence"]) == {row.event_id for row in few}


def test_the_event_of_a_training_does_not_grow_with_its_architectures() -> None:
    large = World(families=300, members=10)
    table = tabulate(large.rows[::6], large.book, hardware.find)
    coverage = coverage_of(table, hardware.find)
    assert len(coverage.architectures) == 3000
    shipped = load_shipped()
    card = msgspec.structs.replace(shipped.card, coverage=coverage, rows=len(table))
    trained = finish(card, shipped.base, shipped.others)
    assert decode(trained.content, trained.predictor.digest).card.coverage.architectures == coverage.architectures
    data = {**trained.event_data, "accepted": True, "reason": "as good on what was measured"}
    event = encode_event(new_event(PREDICTOR_TRAINED, data, source="urn:assay:test", time=datetime.now(UTC)))
    assert decode_event(event).data.digest == trained.predictor.digest
    before = finish(shipped.card, shipped.base, shipped.others).event_data
    assert len(msgspec.json.encode(trained.event_data)) < 1.05 * len(msgspec.json.encode(before))


def test_the_shipped_predictor_is_whole_small_and_as_good_as_its_card_says() -> None:
    shipped = load_shipped()
    folder = files("predictor").joinpath("shipped")
    size = sum(len(entry.read_bytes()) for entry in folder.iterdir() if entry.name.endswith((".gz", ".json")))
    assert size < 12_000_000
    scores = shipped.card.scores
    assert scores["architecture"]["overall"]["mape"] < 0.066
    assert scores["family"]["overall"]["mape"] < 0.125
    assert scores["random"]["overall"]["mape"] < scores["architecture"]["overall"]["mape"]
    for split in ("random", "architecture", "family"):
        assert abs(scores[split]["overall"]["coverage_80"] - 0.8) < 0.06
    widths = shipped.card.widths
    assert widths.of("interpolation") < widths.of("new_architecture") < widths.of("new_family")  # type: ignore[operator]
    assert shipped.card.data["sources"][0]["licence"] == "Apache-2.0"


def test_an_interval_is_as_wide_as_its_row_is_hard_and_without_that_knowledge_as_it_was(built: Any, table: Any) -> None:
    card, base, hard = built
    learned = decode(*encode(card, base, hard))
    before = decode(*encode(card, base))
    spec = hardware.require("nvidia-rtx-4090")
    limits = limits_of(spec, "amp-fp16", "cuda")
    assert limits is not None
    some = [index for index, row in enumerate(table.rows) if (row.hardware, row.batch_size) == (spec.id, 64)][::5]
    reach: dict[str, list[float]] = {"learned": [], "before": []}
    for index in some:
        one = Candidate(
            spec=spec, limits=limits, platform="cuda", precision="amp-fp16", batch_size=64, runtime="torch",
            compiled=False, runtime_version="2.9.1",
        )  # fmt: skip
        for name, predictor in (("learned", learned), ("before", before)):
            (option,) = estimate(table.subjects[index], [one], predictor, "inference")
            reach[name].append(math.log(option.high_ms / option.latency_ms))  # type: ignore[operator]
    doubt = base.predict(table.take(some)).difficulty
    beside = learned.difficulty("interpolation", table.values[some], doubt) / doubt
    assert beside.max() > 1.1 * beside.min()
    np.testing.assert_allclose(np.array(reach["learned"]) / np.array(reach["before"]), beside, rtol=1e-6)
    assert (before.difficulty("interpolation", table.values[some], doubt) == doubt).all()


def test_more_items_never_take_less_time_where_trees_and_roofline_meet(built: Any, table: Any) -> None:
    card, base, _ = built
    narrow = msgspec.structs.replace(card.coverage, batch_size={"cuda": (32, 64)})
    predictor = Predictor(card=msgspec.structs.replace(card, coverage=narrow), base=base, digest="none")
    spec = hardware.require("nvidia-rtx-4090")
    limits = limits_of(spec, "amp-fp16", "cuda")
    assert limits is not None
    asked = [
        Candidate(
            spec=spec, limits=limits, platform="cuda", precision="amp-fp16", batch_size=size, runtime="torch",
            compiled=False, runtime_version="2.9.1",
        )
        for size in (64, 24, 32, 1, 70, 256)
    ]  # fmt: skip
    seen = set()
    for trace in table.subjects[::48]:
        options = sorted(estimate(trace, asked, predictor, "inference"), key=lambda option: option.batch_size or 0)
        seen |= {option.method for option in options}
        assert (np.diff([option.latency_ms for option in options]) >= 0).all()
    assert seen == {"trees", "roofline"}
