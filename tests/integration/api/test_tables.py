"""What the tables hold, over HTTP: names, retractions, positions, pages, formats, comparisons."""

from __future__ import annotations

import io
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from assay.cli.keep.bench_data import _require_no_real_data
from assay.client.row_types import Measurement
from assay.synthesis import events
from domain.errors import UsageError


def named() -> str:
    return f"acme/model-{uuid.uuid4().hex[:8]}"


def get(service: Any, path: str, **query: Any) -> dict[str, Any]:
    response = httpx.get(f"{service.url}{path}", params=query, timeout=30)
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


def posted(client: Any, *events: dict[str, Any]) -> int:
    answer = client.post_events(events)
    assert not answer["rejected"]
    return int(answer["last_position"])


def test_a_measurement_is_read_under_its_names(service, client, build):
    model = named()
    position = posted(client, build.measurement(p50=2.5, model=model))
    (row,) = client.measurements(model=model, min_position=position)
    assert (row["model"], row["hardware"], row["platform"], row["latency_p50_ms"]) == (model, "acme-one", "cpu", 2.5)
    assert row["latency_p95_ms"] is None
    assert row["workload"]["batch_size"] == 1
    assert [
        one["id"] for one in client.models(min_position=position) if one["measurements"] == 1 and one["id"] == model
    ]
    detail = get(service, f"/v1/models/{model}")
    assert detail["model"]["family"] == "bert"
    assert detail["compatibility"][0]["ran"] is True
    assert get(service, "/v1/hardware/acme-one")["hardware"]["id"] == "acme-one"


def test_the_catalogues_are_listed_with_sources(service, client):
    hardware = {row["id"]: row for row in client.hardware()}
    assert len(hardware) >= 40
    assert any(row["memory_bytes"] and row["memory_bytes"]["status"] for row in hardware.values() if row["catalogued"])
    assert "google-bert/bert-base-uncased" in {row["id"] for row in client.models()}
    by_alias = get(service, "/v1/models/bert-base-uncased")
    assert by_alias["model"]["id"] == "google-bert/bert-base-uncased"


def test_an_alias_holds_for_what_was_there_before(client, build):
    old, new = named(), named()
    before = posted(client, build.measurement(model=old))
    after = posted(client, build.alias(old, new))
    (row,) = client.measurements(model=new, min_position=after)
    assert (row["model"], row["model_id_posted"]) == (new, old)
    assert client.measurements(model=old)[0]["id"] == row["id"]
    assert client.measurements(model=new, as_of=before) == []
    assert client.measurements(model=old, as_of=before)[0]["model"] == old


def test_a_retracted_measurement_is_gone_from_the_tables_and_kept_in_the_log(service, client, build):
    model = named()
    wrong, right = build.measurement(p50=1.0, model=model), build.measurement(p50=2.0, model=model, batch_size=2)
    before = posted(client, wrong, right)
    after = posted(client, build.retraction(event_id=wrong["id"]))
    assert [row["id"] for row in client.measurements(model=model, min_position=after)] == [right["id"]]
    assert len(client.compare_hardware(model)["rows"]) == 1
    assert len(client.measurements(model=model, as_of=before)) == 2
    assert httpx.get(f"{service.url}/v1/events/{wrong['id']}").json()["id"] == wrong["id"]


def test_pages_are_of_one_state_while_more_arrives(service, client, build):
    model = named()
    position = posted(client, *(build.measurement(model=model, batch_size=size) for size in range(1, 8)))
    first = get(service, "/v1/measurements", model=model, limit=3, min_position=position)
    newest = posted(client, build.measurement(model=model, batch_size=64))
    second = get(service, "/v1/measurements", model=model, limit=3, cursor=first["next_cursor"])
    third = get(service, "/v1/measurements", model=model, limit=3, cursor=second["next_cursor"])
    sizes = [row["batch_size"] for page in (first, second, third) for row in page["items"]]
    assert sizes == [1, 2, 3, 4, 5, 6, 7]
    assert third["next_cursor"] is None
    assert {first["position"], second["position"], third["position"]} == {first["position"]}
    assert len(client.measurements(model=model, min_position=newest)) == 8


def test_lists_by_name_come_in_pages_too(service):
    whole = [row["id"] for row in get(service, "/v1/hardware", limit=1000)["items"]]
    pages, cursor = [], None
    while True:
        page = get(service, "/v1/hardware", limit=17, **({"cursor": cursor} if cursor else {}))
        pages += [row["id"] for row in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert pages == whole
    assert whole == sorted(whole)


def test_runs_come_newest_first(client, build):
    runs = [f"run-{uuid.uuid4().hex}" for _ in range(3)]
    events = [build.event("assay.run.started.v1", {"run_id": run, "kind": "bench"}) for run in runs]
    position = posted(client, *events)
    assert [row["run_id"] for row in client.runs(min_position=position, limit=3)] == runs[::-1]


@pytest.mark.parametrize(
    "route", ["measurements", "runs", "tests", "kernels", "models", "hardware", "environments", "compatibility"]
)
def test_every_list_in_every_format(service, client, build, route):
    run = build.event("assay.run.started.v1", {"run_id": uuid.uuid4().hex, "kind": "bench"})
    position = posted(client, build.measurement(model=named()), build.test(model=named()), build.kernels(), run)
    rows = get(service, f"/v1/{route}", limit=1000, min_position=position)["items"]
    for media, read in (
        ("text/csv", pyarrow.csv.read_csv),
        ("application/vnd.apache.parquet", pyarrow.parquet.read_table),
        ("application/vnd.apache.arrow.stream", lambda sink: pa.ipc.open_stream(sink).read_all()),
    ):
        response = httpx.get(f"{service.url}/v1/{route}?limit=1000", headers={"Accept": media})
        assert response.headers["content-type"].startswith(media)
        assert response.headers["vary"] == "Accept"
        assert read(io.BytesIO(response.content)).num_rows >= len(rows) > 0


def test_a_state_that_is_known_is_not_sent_again(service, client, build):
    url = f"{service.url}/v1/measurements"
    posted(client, build.measurement(model=named()))
    client.wait_for(client.ready()["log_position"])
    first = httpx.get(url)
    tag = first.headers["etag"]
    assert httpx.get(url, headers={"If-None-Match": tag}).status_code == 304
    assert httpx.get(url, headers={"If-None-Match": tag, "Accept": "text/csv"}).status_code == 200
    position = posted(client, build.measurement(model=named()))
    changed = httpx.get(url, params={"min_position": position}, headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("as_of=-1", "as_of"), ("as_of=99999999", "as_of"), ("min_position=99999999", "min_position"),
        ("limit=0", "limit"), ("limit=1001", "limit"), ("cursor=nonsense", "cursor"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(service, query, field):
    response = httpx.get(f"{service.url}/v1/measurements?{query}")
    assert response.status_code == 422
    assert response.json()["field"] == field
    assert response.json()["remedy"]


def test_what_is_asked_again_has_the_same_bytes_until_the_state_is_another(service, client, build):
    model = named()
    query = {"model": model, "min_position": posted(client, build.measurement(model=model))}

    def asked(accept: str = "application/json", **more: str) -> httpx.Response:
        return httpx.get(
            f"{service.url}/v1/comparisons/hardware", params=query | more, headers={"Accept": accept}, timeout=30
        )

    first, again, table, other = asked(), asked(), asked("text/csv"), asked(platform="openvino")
    assert again.content == first.content and len(first.json()["rows"]) == 1
    told = ("etag", "vary", "cache-control", "content-type")
    assert [again.headers[name] for name in told] == [first.headers[name] for name in told]
    assert table.text.startswith('"configuration"') and table.headers["etag"] != first.headers["etag"]
    assert other.json()["rows"] == []
    query["min_position"] = posted(client, build.measurement(model=model, batch_size=2))
    assert len(asked().json()["rows"]) == 2
    assert asked(as_of=str(first.json()["position"])).json()["rows"] == first.json()["rows"]


def test_an_unknown_format_is_refused(service):
    response = httpx.get(f"{service.url}/v1/runs", headers={"Accept": "image/png"})
    assert (response.status_code, response.json()["type"]) == (406, "urn:assay:problem:not-acceptable")


def test_hardware_is_compared_for_a_model(client, build):
    model = named()
    position = posted(
        client,
        build.measurement(p50=4.0, model=model, hardware="acme-one"),
        build.measurement(p50=6.0, model=model, hardware="acme-one", batch_size=2),
        build.measurement(p50=1.0, model=model, hardware="acme-two", platform="cuda"),
    )
    told = client.compare_hardware(model, min_position=position)
    assert [(row["hardware"], row["batch_size"], row["best"]) for row in told["rows"]] == [
        ("acme-two", 1, True), ("acme-one", 2, True), ("acme-one", 1, False),
    ]  # fmt: skip
    first = told["rows"][0]
    assert (first["latency_ms"], first["latency_ms_low"], first["latency_ms_high"]) == (1.0, 0.99, 1.01)
    assert first["throughput_per_s"] == 1000.0
    assert first["basis"] == "measured"
    assert told["differs"]["batch_size"] == [1, 2]
    assert told["same"]["mode"] == "inference"
    others = client.compare_models("acme-two", min_position=position)["rows"]
    assert [row["model"] for row in others if row["model"] == model] == [model]


def test_the_models_of_a_busy_device_are_cut_by_the_service(client, build):
    hardware = f"acme-busy-{uuid.uuid4().hex[:8]}"
    measured = [("slow", 9.0, 1), ("quick", 2.0, 1), ("quick", 3.0, 2), ("middle", 4.0, 1)]
    model = named()
    position = posted(
        client, *(build.measurement(p50=p50, model=f"{model}-{name}", hardware=hardware, batch_size=batch)
                  for name, p50, batch in measured),
    )  # fmt: skip
    told = client.compare_models(hardware, limit=3, platform="cpu,cuda", min_position=position)
    assert [row["model"].rpartition("-")[2] for row in told["rows"]] == ["quick", "middle", "slow"]
    assert (told["total"], told["same"]["mode"]) == (4, "inference")
    assert client.compare_models(hardware, platform="cuda", min_position=position)["rows"] == []


def test_inference_beside_training(client, build):
    model = named()
    training = build.measurement(p50=9.0, model=model)
    training["data"]["workload"]["mode"] = "training"
    training["data"]["metrics"]["backward_ms"] = 6.0
    position = posted(client, build.measurement(p50=3.0, model=model), training)
    told = client.compare_modes(model, min_position=position)
    (pair,) = told["pairs"]
    assert (pair["training"]["stages"]["backward_ms"], pair["training"]["stages"]["loss_ms"]) == (6.0, None)
    assert (pair["inference"]["latency_ms"], pair["training"]["latency_ms"], pair["ratio"]) == (3.0, 9.0, 3.0)
    assert (told["ratios"]["median"], len(told["rows"])) == (3.0, 2)


def test_pairs_of_modes_are_cut_to_the_largest_ratios_and_counted(client, build):
    model = named()
    events = []
    for batch, times in ((1, (2.0, 4.0)), (2, (2.0, 8.0)), (4, (2.0, 6.0)), (8, (2.0, None))):
        events.append(build.measurement(p50=times[0], model=model, batch_size=batch))
        if times[1]:
            events.append(build.measurement(p50=times[1], model=model, batch_size=batch))
            events[-1]["data"]["workload"]["mode"] = "training"
    position = posted(client, *events)
    told = client.compare_modes(model, limit=2, rows=False, min_position=position)
    assert [(pair["batch_size"], pair["ratio"]) for pair in told["pairs"]] == [(2, 4.0), (4, 3.0)]
    assert told["ratios"] == {"pairs": 3, "least": 2.0, "median": 3.0, "most": 4.0}
    assert (told["rows"], told["differs"]["batch_size"]) == ([], [2, 4])
    assert {side: told["whole"][side] for side in ("both", "inference", "training")} == {
        "both": 3, "inference": 1, "training": 0,
    }  # fmt: skip
    one = client.compare_modes(model, limit=9, batch_size=8, platform="cpu,cuda", min_position=position)
    assert (one["pairs"], one["ratios"]["median"], one["whole"]) == ([], None, told["whole"])


def test_trends_follow_a_configuration(service, client, build):
    model = named()
    position = posted(client, *(build.measurement(p50=value, model=model) for value in (1.0, 1.1, 1.2)))
    (series,) = client.trends(model, min_position=position)["lines"]
    assert [point["value"] for point in series["points"]] == [1.0, 1.1, 1.2]
    refused = httpx.get(f"{service.url}/v1/trends", params={"model": model, "metric": "mood"})
    assert (refused.status_code, refused.json()["field"]) == (422, "metric")


def test_the_matrix_says_where_it_failed(client, build):
    model = named()
    position = posted(client, build.test(model=model), build.failure(model=model, platform="openvino"))
    matrix = {row["platform"]: row for row in client.compatibility(model=model, min_position=position)}
    assert matrix["cpu"]["verified"] is True
    assert (matrix["openvino"]["ran"], matrix["openvino"]["stage"], matrix["openvino"]["outcome"]) == (
        False, "compile", "unsupported",
    )  # fmt: skip


def test_the_matrix_over_all_precisions_is_one_row_a_platform(service, client, build):
    model = named()
    position = posted(client, build.test(model=model), build.failure(model=model, precision="int8"))
    (row,) = client.compatibility(model=model, by_precision=False, category="embedding", min_position=position)
    assert (row["verified"], row["precisions"], row["tests"], row["failures"]) == (True, ["fp32"], 1, 1)
    assert client.compatibility(model=model, by_precision=False, category="audio") == []
    refused = httpx.get(f"{service.url}/v1/compatibility", params={"by_precision": False, "precision": "int8"})
    assert (refused.status_code, refused.json()["field"]) == (422, "by_precision")


def test_unknown_names_get_the_nearest(service):
    response = httpx.get(f"{service.url}/v1/comparisons/hardware", params={"model": "bert-base-uncasd"})
    assert response.status_code == 422
    assert response.json()["type"] == "urn:assay:problem:unknown-model"
    assert "bert-base-uncased" in response.json()["remedy"]
    assert httpx.get(f"{service.url}/v1/models/no/such").status_code == 404


def test_health_and_metrics_tell_the_position(service, client, build):
    position = posted(client, build.measurement(model=named()))
    client.wait_for(position)
    health = client.ready()
    assert health["position"] >= position
    assert health["lag_events"] == 0
    assert (health["dead_letters"], health["error"]) == (0, None)
    metrics = httpx.get(f"{service.url}/metrics").text
    assert f"assay_projection_position {health['position']}" in metrics
    assert 'assay_events_total{status="accepted"}' in metrics
    summary = client.summary()
    assert summary["measurements"] >= 1
    assert summary["newest"]
    counts = {one["type"]: one["events"] for one in summary["event_types"]}
    assert counts["assay.measurement.recorded.v1"] >= 1
    schema = httpx.get(f"{service.url}/schema").json()
    assert "/v1/recommendations" in schema["paths"]


QUERIES = {
    "a view": ("SELECT count(*) AS n FROM measurements", None),
    "two statements": ("SELECT 1; SELECT 2", "only one SELECT"),
    "a change": ("DELETE FROM measurement", "only one SELECT"),
    "a file": ("SELECT * FROM read_csv('/etc/hostname')", "reaches beyond the tables"),
    "a file without a function": ("SELECT * FROM '/etc/hostname'", "does not exist"),
    "another database": ("ATTACH '/tmp/other.duckdb'", "only one SELECT"),
    "a setting": ("SET memory_limit = '10GB'", "only one SELECT"),
    "a mistake": ("SELECT nothing FROM measurements", "nothing"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_free_queries_read_tables_and_nothing_else(service, client, build, name):
    sql, refusal = QUERIES[name]
    posted(client, build.measurement(model=named()))
    response = httpx.post(f"{service.url}/v1/query", json={"sql": sql}, timeout=30)
    if refusal is None:
        told = response.json()
        assert told["columns"] == [{"name": "n", "type": "BIGINT"}]
        assert told["rows"][0][0] >= 1
        assert told["truncated"] is False
    else:
        assert response.status_code == 422
        assert response.json()["field"] == "sql"
        assert refusal in response.json()["detail"]


def test_only_so_many_queries_run_at_a_time(service):
    endless = {"sql": "SELECT max(sqrt(range)) FROM range(100000000000)", "timeout_s": 2}
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(httpx.post, f"{service.url}/v1/query", json=endless, timeout=60) for _ in range(6)]
        answers = [one.result() for one in asked]
    assert sorted(answer.status_code for answer in answers) == [422, 422, 422, 422, 429, 429]
    assert all("Retry-After" in answer.headers for answer in answers if answer.status_code == 429)


def test_a_query_has_an_end(service):
    endless = "SELECT max(sqrt(range)) FROM range(100000000000)"
    response = httpx.post(f"{service.url}/v1/query", json={"sql": endless, "timeout_s": 1.5}, timeout=30)
    assert response.status_code == 422
    assert "1.5 s" in response.json()["detail"]
    wide = "SELECT a.range, b.range FROM range(100000000) a, range(100000000) b ORDER BY b.range - a.range"
    response = httpx.post(f"{service.url}/v1/query", json={"sql": wide, "timeout_s": 30}, timeout=60)
    assert response.status_code == 422
    assert "memory" in response.json()["detail"].lower()
    many = httpx.post(f"{service.url}/v1/query", json={"sql": "FROM range(50)", "limit": 10}, timeout=30).json()
    assert (len(many["rows"]), many["truncated"]) == (10, True)


def test_the_tables_are_made_anew_while_serving(client, build):
    model = named()
    position = posted(client, build.measurement(model=model))
    assert client.rebuild()["position"] >= position
    assert len(client.measurements(model=model)) == 1


def test_views_come_as_tables_and_rows_as_structs(client, build):
    model = named()
    position = posted(
        client, build.measurement(p50=2.5, model=model), build.measurement(p50=3.5, model=model, batch_size=2)
    )
    table = client.table("measurements", model=model, min_position=position)
    assert table["latency_p50_ms"].to_pylist() == [2.5, 3.5]
    assert int(table.schema.metadata[b"assay.position"]) >= position
    frame = client.table("measurements", columns=["batch_size"], model=model, latency_p50_ms=3.5, as_="pandas")
    assert frame.to_dict("list") == {"batch_size": [2]}
    sql = f"SELECT max(latency_p50_ms) AS slowest FROM measurements WHERE model_id = '{model}'"
    assert client.query(sql, as_="arrow").to_pydict() == {"slowest": [3.5]}
    first, second = client.rows(Measurement, model=model)
    assert (first.model_id, first.latency_p50_ms, second.workload["batch_size"]) == (model, 2.5, 2)


def test_a_made_up_load_is_taken_and_never_told_as_real(client, build):
    posted(client, build.measurement(model=named()))
    with pytest.raises(UsageError, match="nobody made up"):
        _require_no_real_data(client, force=False)
    answer = client.post_events(events(30, seed=99))
    assert (answer["accepted"], answer["rejected"], answer["warnings"]) == (32, [], [])
    client.wait_for(answer["last_position"])
    assert client.table("measurements", origin="simulated").num_rows >= 25
    assert client.table("best_measurements", origin="simulated").num_rows == 0
