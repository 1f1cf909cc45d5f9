"""Tables and structs from a service: pages that become one table, forms, cut answers; against a real HTTP server."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pyarrow as pa
import pytest

from assay import Client
from assay.client import row_types
from domain.errors import PartMissing, UsageError

Asked = tuple[str, dict[str, list[str]], bytes]
Given = tuple[dict[str, str], bytes]


def arrow(table: pa.Table, **headers: str) -> Given:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    told = {f"Assay-{name.replace('_', '-').title()}": value for name, value in headers.items()}
    return {"Content-Type": "application/vnd.apache.arrow.stream", **told}, sink.getvalue().to_pybytes()


@pytest.fixture
def service() -> Iterator[Callable[..., tuple[Client, list[Asked]]]]:
    running: list[tuple[ThreadingHTTPServer, threading.Thread, Client]] = []

    def start(*answers: Given) -> tuple[Client, list[Asked]]:
        asked: list[Asked] = []

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                url = urlsplit(self.path)
                asked.append(
                    (url.path, parse_qs(url.query), self.rfile.read(int(self.headers.get("Content-Length", 0))))
                )
                headers, content = answers[min(len(asked), len(answers)) - 1]
                self.send_response(200)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = answer  # noqa: N815 - the names that http.server calls

            def log_message(self, *_: Any) -> None:
                """Say nothing on stderr."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        client = Client(f"http://127.0.0.1:{server.server_port}", patience_s=0)
        running.append((server, thread, client))
        return client, asked

    yield start
    for server, thread, client in running:
        client.close()
        server.shutdown()
        thread.join()
        server.server_close()


def test_pages_become_one_table_of_one_state(service):
    first, last = pa.table({"model_id": ["a", "b"]}), pa.table({"model_id": ["c"]})
    client, asked = service(arrow(first, next_cursor="x", position="7"), arrow(last, position="7"))
    table = client.table("best_measurements", columns=["model_id"], platform="cuda", precision=None, as_of="release 1")
    assert table.to_pydict() == {"model_id": ["a", "b", "c"]}
    assert table.schema.metadata == {b"assay.position": b"7"}
    assert [path for path, *_ in asked] == ["/v1/tables/best_measurements"] * 2
    assert asked[0][1] == {"columns": ["model_id"], "platform": ["cuda"], "as_of": ["release 1"], "limit": ["10000"]}
    assert asked[1][1]["cursor"] == ["x"]


def test_a_limit_asks_for_no_more(service):
    client, asked = service(arrow(pa.table({"run_id": ["a", "b"]}), next_cursor="x"))
    assert client.table("runs", limit=2).num_rows == 2
    assert len(asked) == 1 and asked[0][1]["limit"] == ["2"]


def test_columns_that_the_service_does_not_filter_by_are_filtered_here(service):
    page = pa.table({"model_id": ["a", "b", "c"], "scenario": ["server", "offline", "server"]})
    client, asked = service(arrow(page, next_cursor="x"), arrow(page))
    table = client.table("measurements", columns=["model_id"], scenario="server", limit=3)
    assert table.to_pydict() == {"model_id": ["a", "c", "a"]}
    assert asked[0][1] == {"columns": ["model_id,scenario"], "limit": ["10000"]}
    for filters, reason in (({"colour": "red"}, "no column"), ({"scenario": 7}, "cannot be compared")):
        with pytest.raises(UsageError, match=reason):
            client.table("measurements", **filters)


def test_a_query_has_the_form_that_was_asked_for_and_is_never_cut_unsaid(service):
    client, asked = service(arrow(pa.table({"n": [1, 2]}), position="9", truncated="False"))
    frame = client.query("SELECT 1", as_="pandas", timeout_s=5)
    assert frame["n"].tolist() == [1, 2] and frame.attrs["position"] == 9
    assert json.loads(asked[0][2]) == {"sql": "SELECT 1", "timeout_s": 5}
    with pytest.raises(UsageError, match="no form"):
        client.query("SELECT 1", as_="excel")  # type: ignore[call-overload]
    client, _ = service(arrow(pa.table({"n": [1, 2]}), truncated="True"))
    with pytest.raises(UsageError, match="more than 2 rows"):
        client.query("SELECT 1", as_="arrow")
    assert client.query("SELECT 1", as_="arrow", limit=2).num_rows == 2
    client, asked = service(({}, b'{"rows": [[1]], "truncated": true}'))
    assert client.query("SELECT 1", limit=1)["rows"] == [[1]]


@pytest.mark.parametrize(("form", "module"), [("pandas", "pandas"), ("polars", "polars"), ("arrow", "pyarrow.ipc")])
def test_what_is_not_installed_is_named_with_the_remedy(service, monkeypatch, form, module):
    client, _ = service(arrow(pa.table({"n": [1]})))
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(PartMissing, match=f"pip install {module.partition('.')[0]}"):
        client.query("SELECT 1", as_=form)


def test_rows_are_structs_page_by_page(service):
    told = {
        "position": 3, "event_id": "e", "source": "s", "run_id": "r", "configuration": "c", "model_id": "m", "hardware_id": "h",
        "recorded_at": "2026-03-01T10:00:00Z", "latency_p50_ms": 1.5, "options": {"a": 1}, "verdict_reasons": [], "new": 1,
    }  # fmt: skip
    pages = [msgspec.json.encode({"items": [told, told], "next_cursor": "x"}), msgspec.json.encode({"items": [told]})]
    client, asked = service(*(({}, page) for page in pages))
    found = list(client.rows(row_types.Measurement, model="m"))
    assert len(found) == 3 and asked[0][1]["model"] == ["m"]
    assert "cursor" not in asked[0][1] and asked[1][1]["cursor"] == ["x"]
    assert found[0].recorded_at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert (found[0].latency_p50_ms, found[0].precision, found[0].options) == (1.5, None, {"a": 1})
    client, asked = service(({}, msgspec.json.encode({"items": []})))
    assert list(client.rows(row_types.Failure, limit=5)) == [] and asked[0][1] == {"failures": ["true"], "limit": ["5"]}


def test_structs_name_every_column_of_the_views():
    from ingest.projection import reference

    documented = {view.name: {column.name for column in view.columns} for view in reference.views()}
    for shape, view in (
        (row_types.Measurement, "measurements"), (row_types.Test, "tests"), (row_types.Failure, "failures"), (row_types.Run, "runs"),
        (row_types.Compatibility, "compatibility"), (row_types.Compatibility, "cells"),
        (row_types.Environment, "environments"), (row_types.Kernel, "kernels"), (row_types.Scaling, "scaling"),
    ):  # fmt: skip
        assert documented[view] <= set(shape.__struct_fields__), view
    beside = {"peer", "peer_position"}
    assert set(row_types.Measurement.__struct_fields__) - beside <= documented["measurements"]
