import msgspec
import numpy as np
import pytest

from domain.performance.roofline import Limits
from predictor.kernels.columns import ATTENTION, MOVING, PRODUCT, Columns, device_columns
from predictor.kernels.fitting import HALF, fit_class, fit_parameters
from predictor.kernels.physics import START, Parameters, features_of, seconds_of, shares_of, sustained

GPU = Limits(
    peak_flops=300e12, bandwidth_bytes_per_s=2e12, launch_s=4e-6, activation_bytes=2.0, weight_bytes=2.0, cache_bytes=40e6,
    units=100.0, clock_hz=1.8e9, power_w=400.0, year=2020,
)  # fmt: skip
PARAMETERS = {
    name: Parameters(values=dict(values), floors_us={"graph": 2.5, "eager": 12.0}) for name, values in START.items()
}


def products(m, n, k, limits=GPU, regime="graph") -> Columns:
    sizes = np.broadcast_arrays(*(np.asarray(size, dtype=float) for size in (m, n, k)))
    count = len(np.atleast_1d(sizes[0]))
    named = dict(zip("mnk", (np.atleast_1d(size) for size in sizes), strict=True))
    ones = np.ones(count)
    return Columns(
        sizes={
            "batch": ones,
            **named,
            "area": ones,
            "left_bytes": 2 * ones,
            "right_bytes": 2 * ones,
            "out_bytes": 2 * ones,
        },
        device=device_columns([limits] * count),
        regime=np.full(count, regime),
    )


def product_seconds(*sizes, **given) -> np.ndarray:
    return seconds_of(PRODUCT, PARAMETERS[PRODUCT], products(*sizes, **given))


def test_the_smallest_kernel_takes_its_floor_however_it_is_launched() -> None:
    graph, eager = product_seconds(1, 1, 1), product_seconds(1, 1, 1, regime="eager")
    assert graph[0] == pytest.approx(2.5e-6, rel=0.05)
    assert eager[0] == pytest.approx(12e-6, rel=0.05)
    # A regime that never trained counts as the slowest.
    assert product_seconds(1, 1, 1, regime="eager mps")[0] == pytest.approx(eager[0])


def test_a_large_product_is_bound_by_arithmetic_and_a_thin_one_by_traffic() -> None:
    large, thin = products(8192, 8192, 8192), products(1, 8192, 8192)
    _, compute, traffic = shares_of(PRODUCT, PARAMETERS[PRODUCT], large)[0]
    assert compute > 0.8
    _, compute, traffic = shares_of(PRODUCT, PARAMETERS[PRODUCT], thin)[0]
    assert traffic > compute
    flops = 2 * 8192.0**3
    assert 0.6 < flops / seconds_of(PRODUCT, PARAMETERS[PRODUCT], large)[0] / GPU.peak_flops < 0.9


def test_a_last_wave_of_tiles_that_is_nearly_empty_costs_as_much_as_a_full_one() -> None:
    # 100 units work on 100 tiles of 128 by 128 at once; one column of tiles more is another wave.
    full, over = product_seconds([1280, 1281], 1280, 8192)
    assert over > 1.1 * full
    assert product_seconds(1281 + 127, 1280, 8192)[0] < 1.05 * over


def test_rated_power_limits_long_arithmetic_and_not_traffic() -> None:
    weak = msgspec.structs.replace(GPU, power_w=60.0)
    assert product_seconds(8192, 8192, 8192, limits=weak)[0] > 1.3 * product_seconds(8192, 8192, 8192)[0]
    assert product_seconds(1, 8192, 8192, limits=weak)[0] == pytest.approx(product_seconds(1, 8192, 8192)[0], rel=0.15)
    unknown = msgspec.structs.replace(GPU, power_w=None)
    device = device_columns([GPU, weak, unknown])
    shares = sustained(device, np.ones(3), 4.0)
    assert shares[1] < shares[0] <= 1.0 and shares[2] == 1.0


def test_fp32_on_vector_units_takes_more_power_than_half_precision() -> None:
    device = device_columns([GPU, GPU])
    half, single = sustained(device, np.array([1.0, 12.0]), 4.0)
    assert single < half


def test_attention_of_one_query_reads_its_keys_and_a_prompt_computes() -> None:
    def attention(queries: float, keys: float) -> Columns:
        one = np.ones(1)
        return Columns(
            sizes={
                "batch": 8 * one, "heads": 32 * one, "kv_heads": 8 * one, "queries": queries * one, "keys": keys * one,
                "width": 128 * one, "causal": one, "bytes": 2 * one, "kv_bytes": 2 * one,
            },
            device=device_columns([GPU]),
            regime=np.array(["graph"]),
        )  # fmt: skip

    _, compute, traffic = shares_of(ATTENTION, PARAMETERS[ATTENTION], attention(1, 8192))[0]
    assert traffic > compute
    _, compute, traffic = shares_of(ATTENTION, PARAMETERS[ATTENTION], attention(4096, 4096))[0]
    assert compute > traffic
    # Causal attention of a prompt sees half of its keys; one query more sees all of them.
    prompt = seconds_of(ATTENTION, PARAMETERS[ATTENTION], attention(4096, 4096))[0]
    assert seconds_of(ATTENTION, PARAMETERS[ATTENTION], attention(4096, 8192))[0] > 2 * prompt


def test_parameters_are_found_again_from_kernels_that_have_them() -> None:
    random = np.random.default_rng(0)
    sizes = (2.0 ** random.uniform(0, 13, (3, 600))).round()
    true = Parameters(values={**START[PRODUCT], "traffic": 0.6, "compute": 0.7}, floors_us={"graph": 4.0})
    columns = products(*sizes)
    fitted = fit_parameters(PRODUCT, columns, seconds_of(PRODUCT, true, columns))
    assert fitted.values["traffic"] == pytest.approx(0.6, rel=0.03)
    assert fitted.values["compute"] == pytest.approx(0.7, rel=0.05)
    assert fitted.floors_us["graph"] == pytest.approx(4.0, rel=0.03)


def test_trees_learn_what_physics_leaves_and_the_same_kernels_give_the_same_bits() -> None:
    random = np.random.default_rng(1)
    columns = products(*(2.0 ** random.uniform(0, 13, (3, 1500))).round())
    odd = np.where(columns.sizes["n"] > 512, 1.5, 1.0)
    seconds = seconds_of(PRODUCT, PARAMETERS[PRODUCT], columns) * odd
    fitted, again = (fit_class(PRODUCT, columns, seconds) for _ in range(2))
    assert fitted.trees[HALF].texts == again.trees[HALF].texts
    bare = np.abs(np.log(seconds_of(PRODUCT, fitted.parameters, columns) / seconds)).mean()
    assert np.abs(np.log(fitted.seconds(columns) / seconds)).mean() < 0.3 * bare


def test_features_hold_no_figure_of_the_device_and_none_is_missing() -> None:
    twice = msgspec.structs.replace(
        GPU, peak_flops=600e12, bandwidth_bytes_per_s=4e12, power_w=800.0
    )  # The same device at twice the speed: only how far its floor is from its work differs.
    here, there = (
        features_of(PRODUCT, PARAMETERS[PRODUCT], products(4096, 4096, 4096, limits=item)) for item in (GPU, twice)
    )
    assert np.isfinite(here).all()
    assert np.isclose(here, there).mean() > 0.85


def test_moving_kernels_are_faster_from_the_cache() -> None:
    def moved(rows: float) -> float:
        one = np.ones(1)
        columns = Columns(
            sizes={"rows": rows * one, "row": 1024 * one, "moved": 2048 * one, "kind": 0 * one, "bytes": 2 * one},
            device=device_columns([GPU]),
            regime=np.array(["graph"]),
        )
        return float(seconds_of(MOVING, PARAMETERS[MOVING], columns)[0]) - 2.5e-6

    assert moved(100_000) / moved(1_000) > 150
