"""Timings of kernels over HTTP: pages, filters and formats, how many a device has, earlier positions, retraction, typed rows."""

from __future__ import annotations

import io
import uuid
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from assay.client.row_types import Kernel


def device() -> str:
    return f"acme-{uuid.uuid4().hex[:8]}"


def get(service: Any, path: str, **query: Any) -> Any:
    response = httpx.get(f"{service.url}{path}", params=query, timeout=30)
    assert response.status_code == 200, response.text
    return response.json()


def posted(client: Any, *events: dict[str, Any]) -> int:
    answer = client.post_events(events)
    assert not answer["rejected"], answer["rejected"]
    return int(answer["last_position"])


def test_pages_go_on_in_the_middle_of_an_event_and_are_of_one_position(service, client, build):
    hardware = device()
    position = posted(client, *(build.kernels(hardware=hardware, m=(at, at + 1, at + 2)) for at in (10, 20, 30)))
    found, cursor = [], None
    for _ in range(5):
        page = get(
            service, "/v1/kernels", hardware=hardware, limit=2, min_position=position,
            **({"cursor": cursor} if cursor else {}),
        )  # fmt: skip
        found += page["items"]
        if cursor is None:
            posted(client, build.kernels(hardware=hardware, m=(40, 41, 42)))
        cursor = page["next_cursor"]
    assert cursor is None
    assert [row["m"] for row in found] == [10, 11, 12, 20, 21, 22, 30, 31, 32]
    assert {(row["n"], row["k"], row["hardware"], row["operator"]) for row in found} == {(64, 128, hardware, "gemm")}
    assert len(client.kernels(hardware=hardware, limit=1000, min_position=position)) == 12


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"operator": "gemm"}, 3), ({"operator": "softmax"}, 2), ({"name": "softmax"}, 2), ({"precision": "fp16"}, 2),
        ({"platform": "cuda"}, 2), ({"runtime": "vllm"}, 2), ({"phase": "backward"}, 2), ({"origin": "imported"}, 2),
        ({"operator": "gemm", "precision": "fp16"}, 0), ({"run_id": "nobody's"}, 0),
    ],
)  # fmt: skip
def test_filters(client, build, asked, found):
    hardware, other = device(), build.kernels()
    softmax = build.kernels(
        hardware=hardware, provenance={"origin": "imported", "source": "somebody"},
        execution={"platform": "cuda", "precision": "fp16", "runtime": {"name": "vllm", "version": "0.20.0"}},
    )  # fmt: skip
    columns = {"rows": [1, 2], "latency_ms": [0.1, 0.2]}
    softmax["data"] |= {
        "operator": "softmax", "name": "softmax", "phase": "backward", "timings": 2, "columns": columns,
        "fixed": {"row_size": 8},
    }  # fmt: skip
    position = posted(client, build.kernels(hardware=hardware), softmax, other)
    assert len(client.kernels(hardware=hardware, min_position=position, **asked)) == found


@pytest.mark.parametrize(
    ("media", "read"),
    [
        ("text/csv", pyarrow.csv.read_csv),
        ("application/vnd.apache.parquet", pyarrow.parquet.read_table),
        ("application/vnd.apache.arrow.stream", lambda sink: pa.ipc.open_stream(sink).read_all()),
    ],
)
def test_formats(service, client, build, media, read):
    hardware = device()
    position = posted(client, build.kernels(hardware=hardware))
    query = {"hardware": hardware, "limit": 2, "min_position": position}
    response = httpx.get(f"{service.url}/v1/kernels", params=query, headers={"Accept": media})
    assert read(io.BytesIO(response.content))["latency_ms"].to_pylist() == [0.1, 0.15]
    query["cursor"] = response.headers["assay-next-cursor"]
    response = httpx.get(f"{service.url}/v1/kernels", params=query, headers={"Accept": media})
    assert read(io.BytesIO(response.content))["latency_ms"].to_pylist() == [0.2]
    assert "assay-next-cursor" not in response.headers


def test_what_is_known_of_a_device_and_of_all(service, client, build):
    hardware, alias = device(), device()
    marked = build.kernels(hardware=hardware, platform="cuda")
    marked["data"]["marks"] = {"in-cache": {"verdict": "suspect", "reason": "it lay in the cache", "timings": 2}}
    marked["data"]["columns"]["mark"] = ["in-cache", None, "in-cache"]
    before = get(service, "/v1/summary")["kernels"]
    position = posted(
        client, marked, build.kernels(hardware=hardware), build.kernels(hardware=alias, m=(1,), latency_ms=(0.5,)),
        build.alias(alias, hardware, "hardware"),
    )  # fmt: skip
    told = get(service, f"/v1/hardware/{alias}", min_position=position)["hardware"]
    assert told["kernels"] == 7
    timings = {row["platform"]: row for row in told["kernel_timings"]}
    assert {row["operator"] for row in told["kernel_timings"]} == {"gemm"}
    assert (timings["cpu"]["timings"], timings["cpu"]["suspect"]) == (4, 0)
    assert (timings["cuda"]["timings"], timings["cuda"]["suspect"], timings["cuda"]["invalid"]) == (3, 2, 0)
    assert get(service, "/v1/summary")["kernels"] == before + 7
    verdicts = [row["verdict"] for row in client.kernels(hardware=hardware, platform="cuda")]
    assert verdicts == ["suspect", None, "suspect"]


def test_typed_rows_tables_and_queries(client, build):
    hardware = device()
    client.wait_for(posted(client, build.kernels(hardware=hardware, latency_ms=(0.25, 0.5, 1.0))))
    rows = list(client.rows(Kernel, hardware=hardware))
    assert [(row.m, row.latency_ms, row.operator, row.row) for row in rows] == [
        (16, 0.25, "gemm", 0), (32, 0.5, "gemm", 1), (64, 1.0, "gemm", 2),
    ]  # fmt: skip
    table = client.table("kernels", columns=["m", "latency_ms"], hardware=hardware)
    assert table.to_pydict() == {"m": [16, 32, 64], "latency_ms": [0.25, 0.5, 1.0]}
    sql = f"SELECT max(2 * m * n * k / latency_ms) / 1e9 AS best FROM kernels WHERE hardware_id = '{hardware}'"
    assert client.query(sql, as_="arrow").to_pydict() == {"best": [pytest.approx(2 * 16 * 64 * 128 / 0.25 / 1e9)]}


def test_a_retracted_table_is_gone_and_an_earlier_position_still_has_it(client, build):
    hardware = device()
    one, other = build.kernels(hardware=hardware), build.kernels(hardware=hardware, run_id=f"run-{hardware}")
    before = posted(client, one, other)
    after = posted(client, build.retraction(event_id=one["id"]))
    assert {row["event_id"] for row in client.kernels(hardware=hardware, min_position=after)} == {other["id"]}
    assert len(client.kernels(hardware=hardware, as_of=before)) == 6
    after = posted(client, build.retraction(run_id=f"run-{hardware}"))
    assert client.kernels(hardware=hardware, min_position=after) == []
    assert len(client.kernels(hardware=hardware, as_of=before)) == 6


def test_what_cannot_be_a_table_of_timings_is_refused_with_its_place(client, build):
    short, zero = build.kernels(), build.kernels(latency_ms=(0.1, 0.0, 0.2))
    short["data"]["columns"]["m"] = [16, 32]
    answer = client.post_events([short, zero])
    assert answer["accepted"] == 0
    assert [(one["index"], one["field"]) for one in answer["rejected"]] == [
        (0, "data.columns.m"), (1, "data.columns.latency_ms"),
    ]  # fmt: skip
