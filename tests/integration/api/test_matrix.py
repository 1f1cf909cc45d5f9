"""The matrix as a picture needs it: one row a family or model, one cell a platform, filtered, counted and cut."""

from __future__ import annotations

import uuid

import httpx
import pytest

from domain.compatibility.states import STATES

FAMILY = f"mx{uuid.uuid4().hex[:8]}"
CPU, GPU = "mx-cpu", "mx-gpu"


def of_family(event, name=FAMILY):
    event["data"]["model"] |= {"family": name, "category": "embedding"}
    return event


@pytest.fixture(scope="module")
def known(service, build):
    """Three models: right on both devices; wrong on the GPU; out of memory there and untested on the CPU."""
    a, b, c = (f"acme/{FAMILY}-{letter}" for letter in "abc")
    cpu, gpu = {"hardware": CPU}, {"platform": "cuda", "precision": "fp16", "hardware": GPU}
    events = [
        build.measurement(8.0, model=a, **cpu), build.test(model=a, **cpu), build.measurement(1.0, model=a, **gpu),
        build.test(model=a, **gpu), build.test(model=b, **cpu), build.test("failed", model=b, **gpu),
        build.measurement(8.0, model=c, **cpu), build.failure("out_of_memory", "load", model=c, **gpu),
    ]  # fmt: skip
    with service.client() as client:
        position = client.post_events([of_family(event) for event in events])["last_position"]
        client.compatibility(limit=1, min_position=position)
    return {"a": a, "b": b, "c": c}


def cells(row):
    return {cell["platform"]: cell for cell in row["cells"]}


def test_a_family_is_a_row_whose_cells_are_those_of_the_long_answer(client, known):
    found = client.compatibility_matrix(family=FAMILY)
    (row,) = found["items"]
    assert (row["name"], row["category"], row["models"], row["working"]) == (FAMILY, "embedding", 6, 4)
    long = {one["platform"]: one for one in client.compatibility(family=FAMILY, level="family")}
    for platform, cell in cells(row).items():
        for name in ("state", "level", "models", "working", "states", "tries"):
            assert cell[name] == long[platform][name]
    assert [(one["platform"], one["models"], one["working"]) for one in found["platforms"]] == [
        ("cpu", 3, 3), ("cuda", 3, 1),
    ]  # fmt: skip
    assert found["total"] == 1
    assert found["states"] == STATES


def test_a_model_is_a_row_with_its_best_precision(client, known):
    rows = {row["name"]: cells(row) for row in client.compatibility_matrix(level="model", family=FAMILY)["items"]}
    assert set(rows) == set(known.values())
    assert (rows[known["a"]]["cuda"]["state"], rows[known["a"]]["cuda"]["speedup"]) == ("verified", 8.0)
    assert rows[known["b"]]["cuda"]["state"] == "wrong"
    assert (rows[known["c"]]["cuda"]["state"], rows[known["c"]]["cuda"]["stopped"]) == (
        "out of memory", "no such operator",
    )  # fmt: skip


def test_filters_leave_rows_and_pages_cut_them(client, known):
    def names(**asked):
        return [row["name"] for row in client.compatibility_matrix(level="model", family=FAMILY, **asked)["items"]]

    assert names(seen=["out of memory"]) == [known["c"]]
    assert set(names(seen=["wrong", "out of memory"])) == {known["b"], known["c"]}
    assert names(stale=True) == []
    assert len(names(stale=False)) == 3
    first = client.compatibility_matrix(level="model", family=FAMILY, limit=2)
    assert (len(first["items"]), first["total"]) == (2, 3)
    rest = names(limit=2, offset=2)
    assert [*(row["name"] for row in first["items"]), *rest] == names()
    assert first["items"][0]["name"] == known["a"]
    (only,) = client.compatibility_matrix(family=FAMILY, platform=["cuda"])["items"]
    assert set(cells(only)) == {"cuda"}


def test_on_one_hardware_only_what_was_seen_there_counts(client, known):
    found = client.compatibility_matrix(level="model", hardware=GPU, family=FAMILY)
    rows = {row["name"]: cells(row) for row in found["items"]}
    assert {name: set(row) for name, row in rows.items()} == {name: {"cuda"} for name in known.values()}
    assert [rows[known[one]]["cuda"]["state"] for one in "abc"] == ["verified", "wrong", "out of memory"]
    stopped = {row["model_id"]: row for row in client.compatibility(hardware=GPU, family=FAMILY)}
    assert (stopped[known["b"]]["stopped_stage"], stopped[known["b"]]["stopped_error"]) == ("verify", "Mismatch")
    assert stopped[known["a"]]["stopped_error"] is None


def test_claims_stand_in_members_and_cells_of_their_own(client, known):
    plain = client.compatibility_matrix(family="blip")
    claimed = client.compatibility_matrix(family="blip", claims=True)
    (row,) = claimed["items"]
    assert "claimed" not in plain["cells"]
    assert cells(row)["mps"]["state"] == "claimed"
    assert cells(row)["mps"]["claimed"]
    assert not cells(row)["mps"].get("models")
    assert claimed["cells"]["claimed"] >= 1


def test_models_of_no_known_family_have_a_row(client, build):
    model = f"acme/{uuid.uuid4().hex[:8]}"
    nameless = build.measurement(model=model)
    nameless["data"]["model"].pop("family")
    position = client.post_events([nameless])["last_position"]
    rows = client.compatibility_matrix(level="model", family="unknown", min_position=position, limit=200)["items"]
    assert model in [row["name"] for row in rows]
    assert all(row["family"] is None for row in rows)
    claimed = client.compatibility_matrix(level="model", family="unknown", claims=True, limit=200)["items"]
    assert model in [row["name"] for row in claimed]
    assert all(row["family"] is None for row in claimed), "claims of families that are known are left out"


def test_a_family_of_two_categories_is_two_rows(client, build):
    family = f"two{uuid.uuid4().hex[:8]}"
    one, other = (of_family(build.measurement(model=f"acme/{family}-{letter}"), family) for letter in "ab")
    other["data"]["model"]["category"] = "vision"
    position = client.post_events([one, other])["last_position"]
    rows = client.compatibility_matrix(family=family, min_position=position)["items"]
    assert sorted(row["name"] for row in rows) == [f"{family} (embedding)", f"{family} (vision)"]


def test_an_unknown_level_is_refused_by_name(service):
    refused = httpx.get(f"{service.url}/v1/compatibility/matrix", params={"level": "planet"})
    assert (refused.status_code, refused.json()["field"]) == (422, "level")
