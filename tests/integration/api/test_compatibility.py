"""`GET /v1/compatibility` and `GET /v1/claims`: levels, families, claims that stay apart, gaps, formats, paging."""

from __future__ import annotations

import io
import uuid

import httpx
import pyarrow.parquet as pq
import pytest

from domain.compatibility.states import RULES, STATES
from domain.vocabulary import PLATFORMS

FAMILY = f"family-{uuid.uuid4().hex[:8]}"


def named(data, **model):
    """An event with other words for its model."""
    data["data"]["model"] |= model
    return data


@pytest.fixture(scope="module")
def acme(service, build):
    """Three models of a family of their own: right and fast on a GPU, wrong there, and not converted; and a claimed one."""
    a, b, c = (f"acme/{FAMILY}-{letter}" for letter in "abc")
    gpu = {"platform": "cuda", "precision": "fp16", "hardware": "acme-gpu"}
    events = [
        build.measurement(8.0, model=a), build.test(model=a), build.measurement(1.0, model=a, **gpu), build.test(model=a, **gpu),
        build.test("failed", model=a, precision="int8"),
        build.measurement(8.0, model=b), build.measurement(8.0, model=b, **gpu), build.test("failed", model=b, **gpu),
        build.failure(model=c, **gpu),
    ]  # fmt: skip
    events = [named(event, family=FAMILY) for event in events]
    blip = "Salesforce/blip-image-captioning-base"
    ran = build.measurement(model=blip, platform="openvino")
    events.append(named(ran, family="blip", category="multimodal"))
    with service.client() as client:
        position = client.post_events(events)["last_position"]
        client.compatibility(limit=1, min_position=position)
    return {"a": a, "b": b, "c": c, "blip": blip, "ran": ran["id"]}


def test_a_cell_has_state_level_speed_age_and_the_events_behind_them(client, acme):
    rows = {(row["platform"], row["precision"]): row for row in client.compatibility(model=acme["a"])}
    gpu = rows["cuda", "fp16"]
    assert (gpu["state"], gpu["level"], gpu["speedup"], gpu["runs"]) == ("verified", "high", 8.0, 1)
    assert (gpu["age_days"], gpu["stale"], len(gpu["evidence_ids"]), len(gpu["speedup_evidence"])) == (0, False, 2, 2)
    assert (rows["cpu", "fp32"]["state"], rows["cpu", "fp32"]["level"]) == ("verified", "high")
    assert (rows["cpu", "int8"]["state"], rows["cpu", "int8"]["level"]) == ("wrong", "low")
    assert rows["cpu", "int8"]["stopped_error"] == "Mismatch"


def test_over_all_precisions_the_best_cell_speaks(client, acme):
    rows = {row["platform"]: row for row in client.compatibility(model=acme["a"], by_precision=False)}
    assert (rows["cpu"]["state"], rows["cpu"]["best_precision"], rows["cpu"]["precisions"]) == (
        "verified",
        "fp32",
        ["fp32", "int8"],
    )
    assert client.compatibility(model=acme["c"], by_precision=False)[0]["state"] == "unsupported"


def test_a_family_is_a_row_a_platform(client, acme):
    rows = {row["platform"]: row for row in client.compatibility(family=FAMILY, level="family")}
    assert set(rows) == {"cpu", "cuda"}
    assert (rows["cuda"]["models"], rows["cuda"]["working"]) == (3, 1)
    assert rows["cuda"]["states"] == {"verified": 1, "wrong": 1, "unsupported": 1}
    assert (rows["cuda"]["state"], rows["cuda"]["level"]) == ("wrong", "low")
    (category,) = client.compatibility(category="multimodal", level="category", platform="openvino")
    assert "family" not in category


def test_the_rules_stand_beside_the_rows(service, acme):
    answer = httpx.get(f"{service.url}/v1/compatibility", params={"model": acme["a"]}).json()
    assert answer["rules"] == RULES
    assert answer["states"] == STATES


def test_claims_stand_in_their_own_members_and_rows(client, acme):
    plain = client.compatibility(model=acme["blip"])
    rows = {row["platform"]: row for row in client.compatibility(model=acme["blip"], claims=True)}
    assert [row["platform"] for row in plain] == ["openvino"]
    seen, claimed = rows["openvino"], rows["mps"]
    assert {name: seen[name] for name in plain[0]} == plain[0]
    assert (seen["contradicted"], seen["state"]) == (True, "ran")
    assert "not-on-openvino:BLIP:openvino" in seen["claims"]
    assert (claimed["state"], claimed["level"], claimed["claimed"]) == ("claimed", None, "unsupported")
    assert claimed.get("evidence_ids") is None and claimed.get("measurements") is None


def test_claims_of_whole_categories_stand_in_rows_of_categories(client, acme):
    rows = {(row["category"], row["platform"]): row for row in client.compatibility(level="category", claims=True)}
    assert rows["text_generation", "webgpu"]["claimed"] == "low"
    assert rows["embedding", "mps"]["claimed"] == "high"
    families = client.compatibility(level="family", claims=True)
    assert {row["platform"] for row in families if row["family"] == "vision-t5"} == {
        "cuda",
        "mps",
        "rocm",
        "webnn",
        "webgpu",
    }


def test_no_evidence_is_a_state_of_its_own(client, acme):
    rows = client.compatibility(model=acme["blip"], no_evidence=True)
    states = {row["platform"]: row["state"] for row in rows}
    assert set(states) == set(PLATFORMS[:-1])
    assert (states["openvino"], states["hpu"]) == ("ran", "no evidence")
    both = client.compatibility(model=acme["blip"], no_evidence=True, claims=True)
    assert {row["platform"]: row["state"] for row in both}["mps"] == "claimed"


def test_a_claim_names_its_source_what_was_seen_and_what_other_documents_say(client, acme):
    rows = {row["id"]: row for row in client.claims(model=acme["blip"])}
    blip = rows["not-on-openvino:BLIP:openvino"]
    assert (blip["verdict"], blip["evidence_ids"], blip["states"]) == ("contradicted", [acme["ran"]], {"ran": 1})
    assert "Incompatible Models" in blip["section"] and "Development Guide" in blip["document"]
    assert {row["id"] for row in client.claims(verdict="contradicted")} >= {blip["id"]}
    assert {row["verdict"] for row in client.claims(verdict="unobserved", platform="mps")} == {"unobserved"}
    assert any(row["opposed_by"] for row in client.claims())


def test_pages_put_together_are_the_whole_and_other_formats_have_the_same_rows(service, acme):
    url = f"{service.url}/v1/compatibility"
    whole = httpx.get(url, params={"level": "family", "claims": True, "limit": 1000}).json()["items"]
    paged, cursor = [], None
    while cursor is not None or not paged:
        page = httpx.get(
            url, params={"level": "family", "claims": True, "limit": 40} | ({"cursor": cursor} if cursor else {})
        ).json()
        paged += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert paged == whole
    asked = {"model": acme["blip"], "claims": True}
    table = pq.read_table(
        io.BytesIO(httpx.get(url, params=asked, headers={"Accept": "application/vnd.apache.parquet"}).content)
    )
    assert table.column("state").to_pylist() == [row["state"] for row in httpx.get(url, params=asked).json()["items"]]
    text = httpx.get(url, params=asked, headers={"Accept": "text/csv"}).text
    assert "claimed" in text.splitlines()[0]


def test_rows_by_hardware_have_neither_claims_nor_families(service, acme):
    for extra in ({"claims": True}, {"level": "family"}, {"no_evidence": True}):
        answer = httpx.get(f"{service.url}/v1/compatibility", params={"by_hardware": True, **extra})
        assert (answer.status_code, answer.json()["field"]) == (422, "level")


def test_only_a_comparison_of_outputs_says_right_or_wrong(client, build):
    """The earlier framework's tests compare nothing, a broken script is no platform's fault, and an absent platform no news."""
    model, gpu = f"acme/{FAMILY}-d", {"platform": "cuda", "precision": "fp16", "hardware": "acme-gpu"}
    npu = {"platform": "qnn", "precision": "int8", "hardware": "unknown-npu"}
    imported = {"origin": "imported", "source": "earlier framework, skill tests"}
    skill = build.test(model=model, **npu)
    skill["data"] |= {"test": "skill", "provenance": imported}
    broken = build.test("error", model=model)
    broken["data"]["failure"] = {"error": "IndentationError", "message": "unexpected indent"}
    verified = build.test(model=model, **gpu)
    verified["time"] = "2026-03-02T08:00:00Z"
    absent = build.test("unsupported", model=model, **{**gpu, "hardware": "acme-laptop"})
    absent["data"] |= {"stage": "resolve", "failure": {"error": "PlatformUnavailable", "message": "no CUDA device"}}
    events = [skill, build.measurement(8.0, model=model), broken, verified, absent]
    client.wait_for(client.post_events(events)["last_position"])
    rows = {row["platform"]: row for row in client.compatibility(model=model)}
    assert {name: row["state"] for name, row in rows.items()} == {"qnn": "ran", "cpu": "ran", "cuda": "verified"}
    assert rows["cuda"]["last_seen"].startswith("2026-03-02")
    assert rows["cuda"]["evidence"] == verified["id"]


def test_a_row_without_a_time_or_a_rate_is_no_measurement_of_speed(client, build):
    model = f"acme/{FAMILY}-load"
    loaded = build.measurement(model=model)
    loaded["data"]["metrics"] = {"load_ms": 900.0, "first_run_ms": 40.0}
    client.wait_for(client.post_events([loaded])["last_position"])
    (row,) = client.compatibility(model=model)
    assert (row["state"], row["measurements"], row["evidence"]) == ("ran", 0, loaded["id"])
    assert counted(client, model) == 0
    assert client.measurements(model=model, best=True) == []
    assert [item["first_run_ms"] for item in client.measurements(model=model)] == [40.0]
    client.wait_for(client.post_events([build.measurement(8.0, model=model)])["last_position"])
    (row,) = client.compatibility(model=model)
    assert row["measurements"] == counted(client, model) == 1


def counted(client, model):
    """How many measurements the list of models counts."""
    return next(row["measurements"] for row in client.models(search=model) if row["id"] == model)
