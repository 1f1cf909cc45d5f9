from typing import Any

import msgspec
import numpy as np
import pytest

from domain.catalogues import hardware
from domain.performance.roofline import limits_of
from predictor.device_transfer.method import ReferenceFitted, ReferenceMethod
from predictor.device_transfer.pieces import tabulate
from predictor.features.dataset import Row
from predictor.features.table import Table

MODELS, SOFTWARE = 60, (("tflite", "fp16"), ("tflite", "int8"), ("qairt", "int8"))


def no_spec(_: str) -> None:
    return None


def rows(noise: float = 0.02, seed: int = 0) -> list[Row]:
    """Eight devices: each has a speed, a shift by software, and takes more or less to a hidden kind of model."""
    random = np.random.default_rng(seed)
    level, kind = random.normal(scale=1.5, size=MODELS), random.choice([-1.0, 1.0], size=MODELS)
    made: list[Row] = []
    for device in range(8):
        speed, taste = random.normal(scale=0.8), random.normal(scale=0.25)
        for runtime, precision in SOFTWARE:
            shift = random.normal(scale=0.2)
            for model in range(MODELS):
                log = level[model] + speed + shift + taste * kind[model] + random.normal(scale=noise)
                made.append(
                    Row(
                        model=f"acme/net-{model}", hardware=f"board-{device}", platform="qnn", runtime=runtime,
                        precision=precision, batch_size=1, latency_ms=float(np.exp(log)),
                        event_id=f"{device}-{runtime}-{precision}-{model}", position=len(made),
                    )
                )  # fmt: skip
    return made


TABLE = tabulate(rows(), no_spec)
NEW = np.array([row.hardware == "board-3" for row in TABLE.rows])


def parted(shots: int, each: bool = True) -> tuple[Table, Table]:
    """Return shots and the rest of the new device: so many shots a software configuration, or in all."""
    random, here = np.random.default_rng(1), np.flatnonzero(NEW)
    keys = np.array([f"{TABLE.rows[index].runtime} {TABLE.rows[index].precision}" if each else "" for index in here])
    chosen = np.concatenate([random.permutation(here[keys == key])[:shots] for key in np.unique(keys)])
    return TABLE.take(chosen), TABLE.take(np.setdiff1d(here, chosen))


def errors(fitted: ReferenceFitted, asked: Table) -> Any:
    return np.abs(asked.residual - fitted.predict(asked).residual)


@pytest.fixture(scope="module")
def fitted() -> ReferenceFitted:
    return ReferenceMethod().fit(TABLE.take(~NEW))


def test_ten_figures_a_software_configuration_give_the_others_of_the_device(fitted: ReferenceFitted) -> None:
    shots, rest = parted(10)
    assert np.median(errors(fitted.adapted(shots), rest)) < 0.04
    assert errors(fitted.adapted(shots), rest).mean() < 0.1 * errors(fitted, rest).mean() + 0.05


def test_the_kind_of_model_is_seen_in_the_siblings_and_corrected_with_the_shots(fitted: ReferenceFitted) -> None:
    shots, rest = parted(10)
    asked = fitted.predict(rest).residual
    after = fitted.adapted(shots).predict(rest).residual
    software = np.array([f"{row.runtime} {row.precision}" for row in rest.rows])
    of_shots = np.array([f"{row.runtime} {row.precision}" for row in shots.rows])
    away = shots.residual - fitted.predict(shots).residual
    offset = np.array([np.median(away[of_shots == one]) for one in software])
    alone = np.abs(rest.residual - asked - offset)
    assert np.abs(rest.residual - after).mean() < 0.5 * alone.mean()


def test_ten_figures_in_all_find_the_speed_and_widen_what_they_do_not_know(fitted: ReferenceFitted) -> None:
    shots, rest = parted(10, each=False)
    many = fitted.adapted(parted(10)[0])
    few = fitted.adapted(shots)
    assert errors(few, rest).mean() < 0.15
    assert few.predict(rest).difficulty.mean() > many.predict(rest).difficulty.mean()


def test_without_a_figure_of_the_device_its_speed_is_unknown_and_said_to_be(fitted: ReferenceFitted) -> None:
    shots, rest = parted(10)
    assert fitted.predict(rest).difficulty.min() > 4 * fitted.adapted(shots).predict(rest).difficulty.max()


def test_odd_shots_do_not_drag_the_rest_along(fitted: ReferenceFitted) -> None:
    shots, rest = parted(10)
    factor = np.where(np.arange(len(shots)) % 10 < 2, 4.5, 1.0)
    odd = msgspec.structs.replace(shots, measured=shots.measured * factor)
    assert np.median(errors(fitted.adapted(odd), rest)) < 0.08


def test_a_device_that_does_not_go_by_its_siblings_is_found_harder(fitted: ReferenceFitted) -> None:
    shots, rest = parted(10)
    scattered = shots.measured * np.exp(np.random.default_rng(2).normal(scale=0.6, size=len(shots)))
    wild = fitted.adapted(msgspec.structs.replace(shots, measured=scattered))
    calm = fitted.adapted(shots)
    assert wild.predict(rest).difficulty.mean() > 2 * calm.predict(rest).difficulty.mean()


def test_rows_of_a_device_in_the_table_correct_it_as_shots_do(fitted: ReferenceFitted) -> None:
    shots, rest = parted(10)
    indexes = [index for index, row in enumerate(TABLE.rows) if not NEW[index] or row in shots.rows]
    whole = ReferenceMethod().fit(TABLE.take(indexes))
    assert whole.predict(rest).residual == pytest.approx(fitted.adapted(shots).predict(rest).residual, abs=1e-9)


def test_a_piece_that_no_sibling_did_is_harder_by_far(fitted: ReferenceFitted) -> None:
    shots, rest = parted(10)
    known = fitted.adapted(shots)
    unknown = msgspec.structs.replace(
        rest, rows=[msgspec.structs.replace(row, model="acme/unheard-of") for row in rest.rows]
    )
    assert known.predict(unknown).difficulty.min() > 3 * known.predict(rest).difficulty.max()


def test_one_device_alone_still_answers() -> None:
    table = TABLE.take(NEW)
    found = ReferenceMethod().fit(table).predict(table)
    assert np.isfinite(found.residual).all()
    assert found.difficulty.min() > 3


def test_the_evidence_is_the_siblings_figures_newest_first(fitted: ReferenceFitted) -> None:
    asked = TABLE.rows[int(np.flatnonzero(NEW)[0])]
    shots, _ = parted(10)
    found = fitted.adapted(shots).evidence(asked)
    assert found == tuple(f"{device}-tflite-fp16-0" for device in (7, 6, 5, 4, 2))
    assert "board-3" not in fitted.siblings(asked)
    assert len(fitted.siblings(asked)) == 7


def test_the_same_rows_give_the_same_bits() -> None:
    shots, rest = parted(10)
    once, again = (ReferenceMethod().fit(TABLE.take(~NEW)).adapted(shots).predict(rest).residual for _ in range(2))
    assert once.tobytes() == again.tobytes()


def test_software_that_only_other_siblings_ran_is_corrected_by_its_own_shots_alone() -> None:
    """One generation of devices ran the old version, another, four times as fast, the new one; the asked device both."""
    random = np.random.default_rng(0)
    level = random.normal(scale=1.5, size=MODELS)
    speed = {"old-1": 1.4, "old-2": 1.3, "new-1": 0.1, "new-2": 0.0, "asked": 0.7}
    some = [
        Row(
            model=f"acme/net-{model}", hardware=device, platform="cuda", runtime="torch", runtime_version=version,
            precision="fp16", batch_size=1, latency_ms=float(np.exp(level[model] + log)),
        )
        for device, log in speed.items()
        for version in (("2.4", "2.9") if device == "asked" else ("2.4",) if device.startswith("old") else ("2.9",))
        for model in range(MODELS)
    ]  # fmt: skip
    table = tabulate(some, no_spec)
    asked = np.array([row.hardware == "asked" for row in table.rows])
    old = np.array([row.runtime_version == "2.4" for row in table.rows])
    fitted = ReferenceMethod().fit(table.take(~asked))
    shots = np.concatenate([np.flatnonzero(asked & old)[:10], np.flatnonzero(asked & ~old)[:10]])
    rest = table.take(np.setdiff1d(np.flatnonzero(asked), shots))
    assert errors(fitted.adapted(table.take(shots)), rest).max() < 0.05
    only_old = fitted.adapted(table.take(shots[:10])).predict(table.take(asked & ~old))
    assert only_old.difficulty.min() > 2


def switched(asked_gain: float, asked_int8: float) -> tuple[Table, Table, Table]:
    """Return siblings, three shots a precision, and the rest of a device: two siblings ran each platform, with a switch
    that gains little on them, and int8 as fast as fp16."""
    random = np.random.default_rng(4)
    made = []
    for device, platform, gain, int8 in (
        ("apple-1", "mps", 0.2, 0.0), ("apple-2", "mps", 0.3, 0.0), ("gpu-1", "cuda", 0.4, 0.05),
        ("asked", "cuda", asked_gain, asked_int8),
    ):  # fmt: skip
        speed = random.normal(scale=0.8)
        made += [
            Row(
                model=f"acme/net-{model}", hardware=device, platform=platform, runtime="ggml", precision=precision,
                batch_size=1, options={"fast": fast, "weights": precision},
                latency_ms=float(np.exp(model + speed - gain * fast + int8 * (precision == "int8"))),
            )
            for precision in ("fp16", "int8")
            for fast in (False, True)
            for model in range(6)
        ]  # fmt: skip
    table = tabulate(made, no_spec)
    asked = np.array([row.hardware == "asked" for row in table.rows])
    taken = [("fp16", False, 2), ("fp16", True, 1), ("fp16", True, 4), ("int8", False, 5), ("int8", False, 0), ("int8", False, 3)]  # fmt: skip
    shot = np.array(
        [
            row.hardware == "asked" and (row.precision, row.options["fast"], int(row.model[9:])) in taken
            for row in table.rows
        ]
    )
    return table.take(~asked), table.take(shot), table.take(asked & ~shot)


def test_what_a_switch_gains_on_a_device_is_learned_from_its_shots_and_carried_to_other_software() -> None:
    siblings, shots, rest = switched(asked_gain=1.1, asked_int8=0.05)
    answer = errors(ReferenceMethod().fit(siblings).adapted(shots), rest)
    int8 = np.array([row.precision == "int8" and bool(row.options["fast"]) for row in rest.rows])
    assert answer[int8].max() < 0.2  # Nothing fast was measured in int8; the siblings alone would be 0.7 off.
    assert answer.mean() < 0.1


def test_software_that_a_single_sibling_ran_shifts_a_device_by_its_own_shots() -> None:
    siblings, shots, rest = switched(asked_gain=0.4, asked_int8=0.6)
    answer = errors(ReferenceMethod().fit(siblings).adapted(shots), rest)
    assert answer.mean() < 0.1


def on_gpus(target: str, traffic: float, spec_of: Any = hardware.find) -> Table:
    """Figures that go by the data sheets: so much by bandwidth, the rest by peak."""
    made = []
    for device in ("nvidia-a100-sxm-80gb", "nvidia-h100-sxm", "nvidia-l4", "nvidia-rtx-4090"):
        spec = hardware.require(device)
        limits = limits_of(spec, "fp16", "cuda")
        assert limits is not None
        log = -traffic * np.log(limits.bandwidth_bytes_per_s) - (1 - traffic) * np.log(limits.peak_flops)
        for model in range(20):
            figure = float(np.exp(log + model / 5 + 25))
            made.append(
                Row(
                    model=f"acme/net-{model}", hardware=spec.id, platform="cuda", runtime="torch", precision="fp16",
                    batch_size=1, latency_ms=figure, tpot_ms=figure, peak_memory_bytes=1e9 * (1 + model),
                )
            )  # fmt: skip
    return tabulate(made, spec_of, target)


@pytest.mark.parametrize(("target", "traffic"), [("latency", 0.5), ("throughput", 0.5), ("tpot", 1.0)])
def test_a_device_whose_data_sheet_compares_it_with_its_siblings_is_predicted_without_a_figure_of_its_own(
    target: str, traffic: float
) -> None:
    for spec_of, reach in ((hardware.find, 0.03), (no_spec, None)):
        table = on_gpus(target, traffic, spec_of)
        new = np.array([row.hardware == "nvidia-l4" for row in table.rows])
        found = ReferenceMethod().fit(table.take(~new))
        off = errors(found, table.take(new))
        if reach is not None:
            assert off.max() < reach
            sure = found.predict(table.take(new)).difficulty.max()
        else:
            assert off.min() > 0.5
            assert found.predict(table.take(new)).difficulty.min() > 1.5 * sure


def test_memory_does_not_go_by_how_fast_a_device_is() -> None:
    table = on_gpus("memory", 0.5)
    new = np.array([row.hardware == "nvidia-l4" for row in table.rows])
    assert errors(ReferenceMethod().fit(table.take(~new)), table.take(new)).max() < 0.01
