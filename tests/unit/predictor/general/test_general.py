"""The general route on a table of real traces with times that are made up from their kernels."""

import msgspec
import numpy as np
import pytest

from domain.catalogues import hardware
from predictor.answering.facts import trace_from_row
from predictor.features.dataset import Row
from predictor.features.operators_route import tabulate
from predictor.features.shipped_traces import shipped_rows
from predictor.features.traces import TraceBook
from predictor.general.building import build_general, left_out
from predictor.general.inputs import GENERAL_FEATURES, inputs_of, parts_of, runtime_of
from predictor.general.kept import LEVELS, General, GeneralLevel, bits_of
from predictor.general.method import FittedGeneral, spread
from predictor.kernels.physics import START, Parameters
from predictor.kernels.profile import ANY, DeviceProfile
from predictor.learning.training import Learner
from predictor.shipped.general import shipped_book

PARAMETERS = {
    name: Parameters(values=dict(values), floors_us={"graph": 2.5, "eager": 12.0}) for name, values in START.items()
}
MODELS = (
    "timm/resnet18",
    "timm/resnet50",
    "timm/vit_base_patch16_224",
    "timm/mobilenetv3_large_100",
    "timm/convnext_tiny",
)
DEVICES = (
    ("nvidia-l4", "cuda"), ("nvidia-t4", "cuda"), ("nvidia-a100-sxm-80gb", "cuda"), ("amd-instinct-mi210", "rocm"),
    ("amd-radeon-rx-7900-xtx", "rocm"), ("intel-arc-a770", "openvino"),
)  # fmt: skip
QUICK = tuple(
    Learner(objective=objective, trees=30, learning_rate=0.1, leaves=7, rows_per_leaf=5, feature_share=0.5)
    for objective in ("l1", "l2")
)


@pytest.fixture(scope="module")
def table():
    book = TraceBook(map(trace_from_row, shipped_rows(MODELS)))
    rows = [
        Row(
            model=model, hardware=device, platform=platform, precision="fp16", batch_size=batch, latency_ms=1.0, image_size=224,
            runtime="openvino" if platform == "openvino" else "torch", runtime_version="2.9", hardware_kind="gpu",
        )
        for model in MODELS for device, platform in DEVICES for batch in (1, 4, 16, 64)
    ]  # fmt: skip
    made = tabulate(rows, book, hardware.find)
    assert len(made) == len(rows), made.dropped
    noise = np.random.default_rng(0).normal(scale=0.05, size=len(made))
    slow = np.array([1.6 if row.platform == "rocm" else 1.2 for row in made.rows])
    return msgspec.structs.replace(made, measured=inputs_of(made, PARAMETERS).seconds * slow * np.exp(noise))


@pytest.fixture(scope="module")
def built(table):
    return build_general(table, PARAMETERS, QUICK)


def test_kernels_add_up_to_about_the_roofline_or_more_and_grow_with_the_batch(table) -> None:
    inputs = inputs_of(table, PARAMETERS)
    assert inputs.values.shape == (len(table), len(GENERAL_FEATURES))
    launches = table.prior * table.column("launch_share")
    # What stays in the cache may be faster than the memory of the roofline.
    assert (inputs.seconds > 0.6 * (table.prior - launches)).all() and (inputs.seconds < 5 * table.prior).all()
    by_batch = [
        inputs.seconds[index]
        for index, row in enumerate(table.rows)
        if row.hardware == "nvidia-l4" and row.model == MODELS[1]
    ]
    assert by_batch == sorted(by_batch) and by_batch[-1] > 10 * by_batch[0]


def test_what_is_left_out_never_trains(table) -> None:
    # A group whose times are off by a factor of its own is predicted without it.
    off = np.array([row.hardware == "amd-instinct-mi210" for row in table.rows])
    slow = msgspec.structs.replace(table, measured=table.measured * np.where(off, 20.0, 1.0))
    groups, errors = left_out(slow, inputs_of(slow, PARAMETERS), "hardware", QUICK)
    assert set(groups[off]) == {"amd-instinct-mi210"} and errors[off].min() > 2.0
    _, errors = left_out(slow, inputs_of(slow, PARAMETERS), "architecture", QUICK)
    assert np.abs(errors[off]).max() < 1.5


def test_levels_say_how_far_a_question_lies_from_what_trained(table, built) -> None:
    general, _ = built
    row, limits, trace = table.rows[0], table.limits[0], table.subjects[0]
    assert general.level(row, limits, trace) == "architecture"
    assert general.level(msgspec.structs.replace(row, hardware="nvidia-a10g"), limits, trace) == "hardware"
    strange = msgspec.structs.replace(trace, family="strange", class_index=np.full_like(trace.class_index, 8))
    assert general.level(row, limits, strange) == "family"
    assert general.level(msgspec.structs.replace(row, hardware="nvidia-a10g"), limits, strange) == "hardware_family"
    for other in ({"runtime": "tensorrt"}, {"precision": "int8"}, {"platform": "xpu"}):
        assert general.level(msgspec.structs.replace(row, **other), limits, trace) == "software"
    elsewhere = msgspec.structs.replace(limits, maker="apple")
    assert general.level(row, elsewhere, trace) == "software"


def test_widths_grow_with_the_distance_and_hold_what_they_promise(table, built) -> None:
    general, _ = built
    assert set(general.levels) == set(LEVELS)
    assert general.levels["architecture"].groups == len(MODELS) and general.levels["hardware"].groups == len(DEVICES)
    for level in ("architecture", "hardware"):
        assert 0.6 <= general.scores[level]["overall"]["coverage_80"] <= 1.0


def test_too_few_groups_say_no_width() -> None:
    level = GeneralLevel.fitted(np.array([0.1, 0.2, 0.1]), ["a", "b", "c"])
    assert level.groups == 3 and level.widths["0.9"] is None
    general = General(places=[], software=[], families={}, mixes={}, batches={}, modes=[], levels={"hardware": level})
    assert general.reach("hardware", 0.9) is None and general.reach("family", 0.8) is None


def test_a_batch_far_from_what_trained_is_said(table, built) -> None:
    general, _ = built
    row, limits = table.rows[0], table.limits[0]
    assert general.outside(msgspec.structs.replace(row, batch_size=128), limits) is None
    assert "1 to 64" in (general.outside(msgspec.structs.replace(row, batch_size=512), limits) or "")


def test_a_maker_of_whom_nothing_trained_is_said(table, built) -> None:
    general, row, limits = built[0], table.rows[0], table.limits[0]
    elsewhere = msgspec.structs.replace(limits, maker="google")
    assert general.level(msgspec.structs.replace(row, platform="tpu"), elsewhere, table.subjects[0]) == "software"
    assert general.outside(row, elsewhere) == "no device of Google trained the predictor"


def test_a_profile_of_the_device_moves_every_model(table, built) -> None:
    _, trees = built
    slow = DeviceProfile(compute=0.5, traffic=0.5, floor_us=2.5, kernels=20, spread=0.1, before=0.7)
    here = table.take(
        [index for index, row in enumerate(table.rows) if row.hardware == "nvidia-l4" and row.batch_size == 64]
    )
    plain = FittedGeneral(trees, PARAMETERS).predict(here).residual
    corrected = FittedGeneral(trees, PARAMETERS, {("nvidia-l4", "cuda", "fp16"): slow}).predict(here).residual
    elsewhere = FittedGeneral(trees, PARAMETERS, {("nvidia-t4", "cuda", "fp16"): slow}).predict(here).residual
    assert (corrected - plain > 0.3).all() and np.array_equal(plain, elsewhere)


def test_a_profile_moves_no_place_that_trained_nor_another_precision(table, built) -> None:
    _, trees = built
    slow = DeviceProfile(compute=0.5, traffic=0.5, floor_us=2.5, kernels=20, spread=0.1, before=0.7)
    here = table.take([index for index, row in enumerate(table.rows) if row.hardware == "nvidia-l4"])
    profiles = {("nvidia-l4", "cuda", "fp16"): slow}
    plain = FittedGeneral(trees, PARAMETERS).predict(here).residual
    trained = FittedGeneral(trees, PARAMETERS, profiles, [("nvidia-l4", "cuda", "torch")]).predict(here).residual
    other = FittedGeneral(trees, PARAMETERS, {("nvidia-l4", "cuda", "int8"): slow}).predict(here).residual
    assert np.array_equal(plain, trained) and np.array_equal(plain, other)


def test_own_kernels_of_a_processor_answer_half_by_themselves(table, built) -> None:
    _, trees = built
    kernels = DeviceProfile(compute=0.5, traffic=0.5, floor_us=2.5, kernels=20, spread=0.1, before=0.7)
    here = table.take([index for index, row in enumerate(table.rows) if row.hardware == "nvidia-l4"])
    processor = msgspec.structs.replace(
        here, rows=[msgspec.structs.replace(row, hardware_kind="cpu") for row in here.rows]
    )
    timed = {("nvidia-l4", "cuda", "fp16"): kernels}
    alone = np.log(inputs_of(processor, PARAMETERS, [kernels] * len(processor)).seconds / processor.prior)
    # The same figures as of a precision without kernels: the trees answer alone.
    by_trees = FittedGeneral(trees, PARAMETERS, {("nvidia-l4", "cuda", ANY): kernels}).predict(processor).residual
    both = FittedGeneral(trees, PARAMETERS, timed).predict(processor).residual
    assert np.allclose(both, (by_trees + alone) / 2) and not np.allclose(both, by_trees)


def test_arithmetic_traffic_floors_and_launches_add_up_to_the_seconds(table) -> None:
    parts, inputs = parts_of(table, PARAMETERS), inputs_of(table, PARAMETERS)
    assert np.allclose(parts.seconds(), inputs.seconds, rtol=1e-9)
    small = np.array([row.batch_size == 1 for row in table.rows])
    slower = parts.seconds(launch=4.0) / parts.seconds()
    assert np.median(slower[small]) > 2 > 1.5 > np.median(slower[[row.batch_size == 64 for row in table.rows]])
    assert (parts.seconds(peak=0.5) / parts.seconds() <= 2.0).all()


def test_the_same_rows_give_the_same_bits(table, built) -> None:
    again = build_general(table, PARAMETERS, QUICK)
    assert msgspec.json.encode(again[0]) == msgspec.json.encode(built[0])
    assert {name: trees.texts for name, trees in again[1].items()} == {
        name: trees.texts for name, trees in built[1].items()
    }


def test_what_was_measured_widely_does_not_drown_the_rest(table) -> None:
    kept = spread(table, each=3)
    assert len(kept) == 3 * len(DEVICES) and len(set(kept.tolist())) == len(kept)


@pytest.mark.parametrize(
    ("runtime", "compiled", "name"),
    [("torch", False, "torch"), ("torch", True, "torch compiled"), ("TensorRT", False, "tensorrt"), ("whisper.cpp", False, "ggml"),
     ("onnxrt", False, "onnxruntime"), ("acme", False, "other"), ("", False, "other")],
)  # fmt: skip
def test_runtimes_by_their_names(runtime: str, compiled: bool, name: str) -> None:
    row = Row(
        model="m", hardware="h", platform="cuda", precision="fp16", batch_size=1, runtime=runtime, compiled=compiled
    )
    assert runtime_of(row) == name


def test_precisions_by_the_width_of_their_arithmetic() -> None:
    assert [bits_of(name) for name in ("fp32", "tf32", "bf16", "amp-fp16", "int8", "fp8", "q4_k_m")] == [
        32,
        32,
        16,
        16,
        8,
        8,
        16,
    ]


def test_rows_whose_work_ships_under_another_name_have_a_trace():
    rows = [
        Row(
            model=model, hardware="samsung-galaxy-s24", platform="qnn", precision="fp16", batch_size=1, latency_ms=1.0,
            runtime="qairt", image_size=side,
        )
        for model, side in (("ai-hub/yolov8_det/YOLOv8-Detection", 640), ("timm/resnet18", 224), ("acme/unknown", 224))
    ]  # fmt: skip
    book = shipped_book(rows)
    found = [book.find_for(row) for row in rows]
    assert [trace is not None for trace in found] == [True, True, False]
    assert found[0].model == rows[0].model
    assert found[0].flops @ found[0].count == pytest.approx(8.7e9, rel=0.05)
