"""A rebuild on a real Ray cluster of two nodes, one of which is killed. Run it with a Python that has Ray: `make ray-test`."""

from __future__ import annotations

import importlib.util
import socket
import threading
import time
from pathlib import Path

import pytest

from domain.errors import ServiceUnavailable
from domain.upcasting import UPCASTERS
from ingest.log.migrate import upgrade
from ingest.parallel import ranges
from ingest.parallel.cluster import cluster
from ingest.parallel.ranges import LogAddress
from ingest.parallel.rebuilding import Rebuild, fold_log, fold_with
from ingest.projection.definitions import definitions_digest
from ingest.projection.projector import Projection
from tests.conftest import append_events, compare_projections

pytestmark = [
    pytest.mark.torture,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'ray>=2.50'"),
]
ROOT = Path(__file__).parents[2]
DEFINITIONS = definitions_digest(UPCASTERS)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture(scope="module")
def log(postgres_server):
    from tests.conftest import Build

    database = postgres_server.create("ray_rebuild")
    upgrade(database.url)
    events = [Build.alias("a", "acme/a")]
    for number in range(20_000):
        events.append(
            Build.measurement(model="abc"[number % 3], run_id=f"run-{number // 500}", batch_size=1 + number % 7)
        )
        if number % 997 == 0:
            events.append(Build.retraction(event_id=events[number // 2]["id"]))
    for low in range(0, len(events), 2_000):
        append_events(database, events[low : low + 2_000])
    yield database
    postgres_server.drop("ray_rebuild")


@pytest.fixture
def nodes(monkeypatch):
    """Two Ray nodes with one processor each, as processes of this machine."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    started = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": 200_000_000, "include_dashboard": False},
    )
    try:
        started.add_node(num_cpus=1, object_store_memory=200_000_000)
        started.wait_for_nodes(timeout=120)
        yield started
    finally:
        started.shutdown()


def test_a_cluster_makes_the_tables_of_one_fold_though_a_node_is_killed(tmp_path, log, nodes, monkeypatch, figures):
    monkeypatch.setattr(ranges, "_MOST_EVENTS", 2_500)
    reports = []

    def fill(path):
        question = Rebuild(log=LogAddress(uri=log.adbc_uri), path=str(path), definitions=DEFINITIONS, ray=nodes.address)
        with cluster(nodes.address) as pool:
            assert pool.slots == 2
            (node,) = nodes.worker_nodes
            # As a machine that loses its power.
            killer = threading.Timer(4, nodes.remove_node, [node, False])
            killer.start()
            reports.append(fold_with(question, pool))
            killer.join()

    with Projection(tmp_path / "one", log) as one, Projection(tmp_path / "many", log) as many:
        one.catch_up()
        began = time.monotonic()
        many.rebuild(fill)
        compare_projections(one, many)
    assert not nodes.worker_nodes
    figures(f"{reports[0].ranges} ranges, {time.monotonic() - began:.0f} s, one of two nodes killed")


def test_an_address_where_no_cluster_answers_is_an_error_of_one_sentence(tmp_path, log):
    question = Rebuild(
        log=LogAddress(uri=log.adbc_uri), path=str(tmp_path / "t.duckdb"), definitions=DEFINITIONS,
        ray=f"127.0.0.1:{free_port()}",
    )  # fmt: skip
    with pytest.raises(ServiceUnavailable, match="no Ray cluster answers"):
        fold_log(question)
    assert not list(tmp_path.iterdir())
