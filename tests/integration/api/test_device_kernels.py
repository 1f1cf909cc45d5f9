"""The kernels of one hardware over HTTP: points by hand, estimates with and without kernels of the device, choices."""

from __future__ import annotations

import csv
import io
import uuid
from typing import Any

import httpx
import pytest

from domain.answers.kernels import DeviceKernels
from domain.errors import AssayError, UsageError
from domain.performance.standard_kernels import STANDARD_KERNELS

PEAK, FEED = 1e12, 1e11
PRODUCTS = [(256, 512, 768), (300, 300, 300), (512, 512, 512), (1024, 1024, 1024), (1, 4096, 4096), (2048, 2048, 2048),
            (64, 4096, 4096), (640, 1280, 320), (8, 4096, 4096), (16, 64, 128)]  # fmt: skip


def described(build: Any, hardware: str) -> dict[str, Any]:
    def figure(value: float) -> dict[str, Any]:
        return {"value": value, "status": "measured", "source": "a test"}

    data = {
        "hardware": {"id": hardware, "kind": "cpu", "count": 1},
        "platforms": [{"platform": "cpu", "available": True, "precisions": ["fp32", "bf16"]}],
        "spec": {
            "peak_flops": {"fp32": figure(PEAK), "bf16": figure(2 * PEAK)},
            "memory_bandwidth_bytes_per_s": figure(FEED),
        },
    }
    return build.event("assay.hardware.described.v1", data)


def timed(build: Any, hardware: str, operator: str, rows: list[dict[str, Any]], **parts: Any) -> dict[str, Any]:
    """Timings of one operator; the members of the rows are its columns."""
    data = {name: parts.pop(name) for name in ("phase", "name", "marks") if name in parts}
    event: dict[str, Any] = build.kernels(hardware=hardware, **parts)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    event["data"] |= {"operator": operator, "timings": len(rows), "columns": columns, "fixed": {}, **data}
    return event


def products(times: dict[tuple[int, int, int], float]) -> list[dict[str, float]]:
    return [{"m": m, "n": n, "k": k, "latency_ms": ms} for (m, n, k), ms in times.items()]


def slow_products(**changes: float) -> dict[tuple[int, int, int], float]:
    """Each product at 40 % of the peak or of the bandwidth, whichever takes longer, and 10 µs to launch."""
    return {
        (m, n, k): 1e3 * (max(2.0 * m * n * k / PEAK, 4.0 * (m * k + k * n + m * n) / FEED) / 0.4 + 1e-5)
        * changes.get(f"m{m}n{n}k{k}", 1.0)
        for m, n, k in PRODUCTS
    }  # fmt: skip


@pytest.fixture
def device(client: Any, build: Any) -> str:
    name = f"acme-kernels-{uuid.uuid4().hex[:8]}"
    client.wait_for(client.post_events([described(build, name)])["last_position"])
    return name


def ask(client: Any, device: str, *events: dict[str, Any], **filters: Any) -> DeviceKernels:
    if events:
        answer = client.post_events(events)
        assert not answer["rejected"], answer["rejected"]
        client.wait_for(answer["last_position"])
    result: DeviceKernels = client.device_kernels(device, **filters)
    return result


def estimate_of(document: DeviceKernels, id_: str) -> Any:
    return next(item for item in document.estimates if item.id == id_)


def test_a_point_has_its_work_and_its_rates_and_stands_beside_the_estimate(
    client: Any, build: Any, device: str
) -> None:
    event = timed(build, device, "gemm", products({(1024, 1024, 1024): 4.0, (1, 1024, 1024): 0.1}))
    document = ask(client, device, event)
    product, vector = sorted(document.points, key=lambda point: -point.flops)
    # 2 × 1024³ operations, and three matrices of 1024² numbers of four bytes.
    assert (product.flops, product.bytes) == (2147483648, 12582912)
    assert product.flop_per_byte == pytest.approx(170.667, rel=1e-4)
    assert product.flops_per_s == pytest.approx(5.36870912e11)
    assert product.bytes_per_s == pytest.approx(3.145728e9)
    assert (product.roof_flops_per_s, product.over) == (PEAK, None)
    assert product.share == pytest.approx(0.536870912)
    assert (product.basis, product.event_id, product.row) == ("measured", event["id"], 0)
    # A vector times a matrix: 2 × 1024² operations over 4 × (1024² + 2 × 1024) bytes, fed by 100 GB/s.
    assert vector.flop_per_byte == pytest.approx(2 * 1024**2 / (4 * (1024**2 + 2048)))
    assert vector.roof_flops_per_s == pytest.approx(vector.flop_per_byte * FEED)
    assert vector.share == pytest.approx(4 * (1024**2 + 2048) / 1e-4 / FEED)
    item = estimate_of(document, "product-1024")
    assert (item.flops, item.flop_per_byte) == (product.flops, pytest.approx(product.flop_per_byte))
    assert (item.measured.latency_ms, item.measured.event_id, item.measured.timings) == (4.0, event["id"], 1)
    assert item.measured.ratio == pytest.approx(4.0 / item.latency_ms)
    assert sum(1 for row in document.estimates if row.measured) == 2
    assert (document.platform, document.precision, document.considered, document.placed) == ("cpu", "fp32", 2, 2)
    roof = document.roofs[0]
    assert (roof.source, roof.flops_per_s, roof.bandwidth_bytes_per_s) == ("specified", PEAK, FEED)


def test_what_is_over_the_roof_is_counted_and_what_has_no_place_is_left_out(
    client: Any, build: Any, device: str
) -> None:
    marks = {"odd": {"verdict": "invalid", "reason": "faster than light", "timings": 1}}
    size = {"m": 512, "n": 512, "k": 512}
    rows: list[dict[str, Any]] = [
        {**size, "latency_ms": 0.2, "mark": None}, {**size, "latency_ms": 1e-6, "mark": "odd"},
    ]  # fmt: skip
    ring = [{"ranks": 2, "elements": 1024, "latency_ms": 0.1}]
    document = ask(
        client, device, timed(build, device, "gemm", rows, marks=marks), timed(build, device, "collective", ring)
    )
    (point,) = document.points
    assert (point.over, point.share) == ("peak", pytest.approx(2 * 512**3 / 0.2e-3 / PEAK))
    assert document.above_count == 1
    assert document.left_out == {"invalid": 1, "collective: no count of its work": 1}
    assert estimate_of(document, "product-512").measured.latency_ms == 0.2


def test_a_convolution_counts_every_multiplication_and_attention_the_pairs_that_see_each_other(
    client: Any, build: Any, device: str
) -> None:
    image = {"batch": 8, "in_channels": 64, "out_channels": 64, "height": 56, "width": 56, "kernel_height": 3,
             "kernel_width": 3, "padding": 1, "latency_ms": 5.0}  # fmt: skip
    token = {"batch": 1, "query_tokens": 1, "heads": 32, "head_dim": 128, "cached_tokens": 512, "latency_ms": 1.0}
    shared = {**token, "kv_heads": 8}
    document = ask(
        client, device, timed(build, device, "convolution", [image]),
        timed(build, device, "attention", [token], phase="generation"),
        timed(build, device, "attention", [shared], phase="generation"),
    )  # fmt: skip
    by_operator = {point.operator: point for point in document.points}
    assert by_operator["convolution"].flops == 2 * 8 * 56 * 56 * 64 * 64 * 9
    assert by_operator["attention"].flops == 4 * 32 * 128 * 513
    assert estimate_of(document, "conv-3x3-56").measured.latency_ms == 5.0
    # Shared heads of keys are another kernel.
    assert estimate_of(document, "token-after-512").measured.timings == 1


def test_a_device_without_kernels_has_estimates_alone(client: Any) -> None:
    document = ask(client, "nvidia-rtx-4090", precision="fp16")
    assert [item.id for item in document.estimates] == [kernel.id for kernel in STANDARD_KERNELS]
    assert (document.points, document.considered) == ((), 0)
    for item in document.estimates:
        assert item.measured is None
        assert item.basis == "predicted"
        assert item.latency_ms_low is not None
        assert item.latency_ms_low < item.latency_ms < item.latency_ms_high
        assert item.flops_per_s_low == pytest.approx(item.flops / (item.latency_ms_high / 1e3))
    large = estimate_of(document, "product-4096")
    assert 0.5 < large.share <= 1.1
    # Each class has one factor, that of the chips that were left out of it.
    assert {round(item.latency_ms_high / item.latency_ms, 6) for item in document.estimates if item.operator == "gemm"} == {
        round(large.latency_ms_high / large.latency_ms, 6)
    }  # fmt: skip
    assert all("left out of training" in note for note in document.notes)


def test_where_no_such_device_was_left_out_there_is_no_interval_and_no_estimate_above_the_roof(
    client: Any, device: str
) -> None:
    document = ask(client, device)
    assert {item.basis for item in document.estimates} == {"roofline"}
    assert all(item.latency_ms_low is None and item.flops_per_s_high is None for item in document.estimates)
    assert max(item.share for item in document.estimates) <= 1.0 + 1e-9
    (note,) = document.notes
    assert "no interval" in note
    assert [(item.platform, item.precision) for item in document.choices] == [("cpu", "fp32"), ("cpu", "bf16")]


def test_kernels_of_the_device_correct_its_estimates_and_say_how_far_it_reaches(
    client: Any, build: Any, device: str
) -> None:
    before = ask(client, device)
    document = ask(client, device, timed(build, device, "gemm", products(slow_products())))
    large, before_large = estimate_of(document, "product-4096"), estimate_of(before, "product-4096")
    assert large.basis == "calibrated"
    assert large.share == pytest.approx(0.4, rel=0.25)
    assert before_large.share > 0.8
    assert large.latency_ms_low < large.latency_ms < large.latency_ms_high
    # What was not timed keeps what it had.
    assert estimate_of(document, "norm-768").basis == "roofline"
    roof = next(roof for roof in document.roofs if roof.source == "kernels")
    assert roof.kernels == len(PRODUCTS)
    assert roof.flops_per_s == pytest.approx(0.4 * PEAK, rel=0.25)
    # Products say little of the longest traffic: within a factor of two.
    assert 0.2 * FEED < roof.bandwidth_bytes_per_s < 0.8 * FEED
    judged = [item.measured.within for item in document.estimates if item.measured]
    assert len(judged) == 6
    # Of six intervals of 80 % four or more hold nine times of ten.
    assert sum(judged) >= 4


def test_an_estimate_does_not_know_the_measurement_beside_it(client: Any, build: Any, device: str) -> None:
    document = ask(client, device, timed(build, device, "gemm", products(slow_products(m1024n1024k1024=4.0))))
    item = estimate_of(document, "product-1024")
    usual = slow_products()[1024, 1024, 1024]
    assert item.measured.latency_ms == pytest.approx(4 * usual)
    assert item.latency_ms == pytest.approx(usual, rel=0.5)
    assert item.measured.within is False


def test_choices_filters_and_positions(client: Any, build: Any, device: str) -> None:
    one = timed(build, device, "gemm", products({(512, 512, 512): 1.0, (1024, 1024, 1024): 4.0}))
    other = timed(build, device, "gemm", products({(512, 512, 512): 0.5}), precision="bf16")
    norm = timed(build, device, "norm", [{"rows": 1024, "row_size": 768, "latency_ms": 0.5}])
    document = ask(client, device, one, other, norm)
    assert [(item.precision, item.timings) for item in document.choices] == [("fp32", 3), ("bf16", 1)]
    assert document.precision == "fp32"
    (narrow,) = ask(client, device, precision="bf16").points
    # Two bytes a number, at twice the peak.
    assert (narrow.bytes, narrow.roof_flops_per_s) == (3 * 512**2 * 2, 2 * PEAK)
    norms = ask(client, device, operator="norm")
    assert {point.operator for point in norms.points} == {item.operator for item in norms.estimates} == {"norm"}
    assert ask(client, device, as_of=document.position - 3).points == ()
    many = [{"m": size, "n": 64, "k": 64, "latency_ms": size / 100} for size in range(1, 401)]
    thinned = ask(client, device, timed(build, device, "gemm", many), limit=20)
    assert len(thinned.points) <= 20
    assert sum(point.stands_for for point in thinned.points) == thinned.placed == 403
    assert ask(client, device, limit=20).points == thinned.points


@pytest.mark.parametrize(
    ("filters", "field"),
    [({"platform": "rocm"}, "platform"), ({"precision": "int4"}, "precision"), ({"operator": "gemv"}, "operator")],
)
def test_what_is_not_there_is_refused_with_what_is(client: Any, device: str, filters: Any, field: str) -> None:
    with pytest.raises(UsageError) as refused:
        ask(client, device, **filters)
    assert refused.value.field == field
    assert refused.value.remedy.startswith("One of ")


def test_a_device_without_figures_or_kernels_says_so_and_an_unknown_one_is_refused(client: Any, build: Any) -> None:
    bare = f"acme-bare-{uuid.uuid4().hex[:8]}"
    document = ask(client, bare, build.measurement(hardware=bare))
    assert (document.platform, document.estimates, document.points, document.roofs) == (None, (), (), ())
    timing = timed(build, bare, "gemm", products({(512, 512, 512): 1.0}))
    document = ask(client, bare, timing)
    assert (document.points, document.left_out) == ((), {"peak or bandwidth not known": 1})
    with pytest.raises(AssayError) as refused:
        ask(client, "nobody-has-this-one")
    assert refused.value.type == "not-found"


def test_points_come_as_rows_too_and_an_unchanged_state_is_not_sent_again(
    service: Any, client: Any, build: Any, device: str
) -> None:
    ask(client, device, timed(build, device, "gemm", products({(512, 512, 512): 1.0})))
    url = f"{service.url}/v1/hardware/{device}/kernels"
    response = httpx.get(url, headers={"Accept": "text/csv"})
    (row,) = csv.DictReader(io.StringIO(response.text))
    assert (row["operator"], float(row["flops"])) == ("gemm", 2 * 512**3)
    tag = httpx.get(url).headers["etag"]
    assert httpx.get(url, headers={"If-None-Match": tag}).status_code == 304
