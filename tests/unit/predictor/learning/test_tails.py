from typing import Any

import numpy as np
import pytest

from predictor.artifact.tails import Tail, fit_tails
from predictor.features.dataset import Row


def row(latency: float = 10.0, p95: float | None = None, n: int = 1000, **over: Any) -> Row:
    given = {
        "model": "acme/net", "hardware": "acme-1", "platform": "cpu", "runtime": "torch", "precision": "fp32",
        "batch_size": 1, "latency_ms": latency, "latency_p95_ms": p95, "latency_n": n,
    }  # fmt: skip
    return Row(**{**given, **over})


def tail(rows: list[Row], asked: Row, latency: float = 10.0, percentile: str = "p95") -> Tail:
    tails = fit_tails(rows)
    assert tails is not None
    return tails.of(asked, latency, percentile)


def test_the_tail_of_a_known_device_is_what_was_measured() -> None:
    found = tail([row(p95=ratio * 10.0) for ratio in np.linspace(1.08, 1.12, 60)], row())
    assert found.ratio == pytest.approx(1.10, abs=0.01)
    assert 1.0 < found.low < found.ratio < found.high
    assert (found.rows, found.supporting) == (60, 60)


def test_a_noisy_platform_has_a_longer_tail_and_an_unknown_one_lies_between_with_a_wider_interval() -> None:
    rows = [row(p95=10.3) for _ in range(40)] + [row(p95=13.0, platform="webgpu", runtime="web") for _ in range(40)]
    calm, wild = tail(rows, row()), tail(rows, row(platform="webgpu", runtime="web"))
    new = tail(rows, row(platform="qnn", runtime="ort"))
    assert calm.ratio < new.ratio < wild.ratio
    assert calm.ratio == pytest.approx(1.03, abs=0.01)
    assert np.log(new.high) / np.log(new.ratio) > np.log(wild.high) / np.log(wild.ratio)


def test_short_calls_scatter_more() -> None:
    rows = [row(latency=ms, p95=ms * np.exp(0.2 / ms**0.5)) for ms in np.geomspace(1, 1000, 60)]
    assert tail(rows, row(), 1.0).ratio == pytest.approx(np.exp(0.2), rel=0.05)
    assert tail(rows, row(), 1000.0).ratio == pytest.approx(np.exp(0.2 / 1000**0.5), rel=0.01)


def test_rarer_percentiles_lie_farther_out_also_where_few_rows_support_them() -> None:
    common = [row(latency_p90_ms=10.5, n=60) for _ in range(40)]
    ratios = [tail(common, row(), percentile=name).ratio for name in ("p90", "p95", "p99")]
    assert 1.0 < ratios[0] < ratios[1] < ratios[2]
    unsupported = tail(common, row(), percentile="p99")
    assert unsupported.supporting == 0
    both = [row(latency_p90_ms=10.5, latency_p99_ms=16.0) for _ in range(40)]
    supported = tail(common + both, row(), percentile="p99")
    assert supported.ratio == pytest.approx(1.6, rel=0.1)
    assert supported.supporting == 40


def test_the_interval_covers_what_comes_next_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(5)
    ratios = np.exp(np.exp(np.log(0.1) + 0.5 * random.standard_normal(400)))
    found = tail([row(p95=10.0 * ratio) for ratio in ratios[:200]], row())
    assert 0.75 < np.mean((ratios[200:] >= found.low) & (ratios[200:] <= found.high)) < 0.95


@pytest.mark.parametrize(
    "useless", [row(p95=11.0, n=40), row(), row(p95=11.0, is_mean=True), row(p95=9.0), row(p95=11.0, latency_n=None)]
)
def test_a_row_whose_samples_do_not_support_a_percentile_teaches_nothing(useless: Row) -> None:
    assert fit_tails([useless]) is None
