"""Exports of a running service: every noun and format, one state, and everything into an empty instance again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from assay.cli import run
from assay.exports import NOUNS
from assay.exports.views import read_view, view_names
from domain.errors import AssayError, NotFound, UsageError

GOLDEN = sorted((Path(__file__).resolve().parents[2] / "golden").glob("*.json"))
OF_THE_LOG = frozenset((
    "position", "recorded_at", "first_position", "last_position", "finished_position", "last_seen", "timing_id",
))  # fmt: skip
"""Columns in which two logs of the same events may differ; what says no time was last seen when it was recorded."""


def some_events(build: Any) -> list[dict[str, Any]]:
    formula = "=HYPERLINK(1)"
    first = build.measurement(1.5)
    return [
        *(json.loads(path.read_text()) for path in GOLDEN),
        build.event("assay.run.started.v1", {"run_id": "run-1", "kind": "bench"}),
        first,
        *(build.measurement(1.0 + number, model=f"acme/m{number % 3}", batch_size=1 + number) for number in range(9)),
        build.measurement(2.5, hardware="acme-two", time=None),
        build.measurement(9.9, provenance={"origin": "simulated", "source": "made up"}),
        build.test("passed"), build.test("failed", precision="bf16"), build.failure(),
        build.alias("tiny", "acme/tiny"), build.retraction(event_id=first["id"]),
        build.event("assay.run.finished.v1", {"run_id": "run-1", "outcome": "completed", "measured": 9}),
        build.event("vendor.note.v7", {"text": formula}, subject="s"),
        build.measurement(3.0, model="tiny", run_id="=run", batch_size=64),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def source(service_database, tmp_path_factory, build):
    from tests.conftest import append_events
    from tests.integration.conftest import RunningService

    database = service_database()
    # Past the door: it takes no audit event, and no predictor whose artifact is not there.
    appended = append_events(database, some_events(build))
    running = RunningService(tmp_path_factory.mktemp("source"), database.url).start()
    with running.client() as client:
        client.wait_for(appended[-1].position)
        yield client
    running.stop()


@pytest.fixture
def export(source, tmp_path, capsys):
    """Runs `assay export NAME …` into the test's folder; returns the path and the card."""

    def export_(name: str, *words: str, code: int = 0) -> Any:
        path = tmp_path / name
        ended = run(["export", str(path), *words, "--server", source.server, "--json"])
        said = capsys.readouterr()
        assert ended == code, said.err + said.out
        return (path, json.loads(said.out)["card"]) if code == 0 else said.err

    return export_


def rows_of(client: Any, view: str, **filters: Any) -> list[dict[str, Any]]:
    pages = read_view(client, view, **filters).pages
    return [row for page in pages for row in page.to_pylist()]


def beside(path: Path) -> Any:
    return json.loads((path.parent / f"{path.name}.card.json").read_text())


@pytest.mark.parametrize("noun", [noun for noun, view in NOUNS.items() if view])
def test_every_noun_is_its_view(source, export, noun):
    path, card = export("rows.parquet", "--what", noun)
    assert parquet.read_table(path).to_pylist() == rows_of(source, NOUNS[noun])
    assert card["rows"] == {noun: parquet.read_table(path).num_rows}
    told = parquet.read_schema(path).metadata
    assert (told[b"assay.what"].decode(), int(told[b"assay.position"])) == (noun, source.ready()["log_position"])
    assert int(told[b"assay.schema_version"]) >= 2


def test_pages_are_of_one_state_whatever_is_appended_meanwhile(source, build):
    whole = rows_of(source, "measurements")
    view = read_view(source, "measurements", page=2)
    first = next(view.pages).to_pylist()
    answer = source.post_events([build.measurement(77.0, model="acme/later")])
    source.wait_for(answer["last_position"])
    pages = [first, *(page.to_pylist() for page in view.pages)]
    assert [row for page in pages for row in page] == whole
    assert len(pages) > 2
    unordered = read_view(source, "models", page=3)
    assert len([row for page in unordered.pages for row in page.to_pylist()]) == len(rows_of(source, "models"))


def test_columns_and_filters_of_a_view(source):
    view = read_view(source, "measurements", columns=("batch_size", "model_id"), model="tiny", page=3)
    rows = [row for page in view.pages for row in page.to_pylist()]
    assert {row["model_id"] for row in rows} == {"acme/tiny"}
    assert list(rows[0]) == ["batch_size", "model_id"]
    assert {row["batch_size"] for row in rows_of(source, "tests", batch_size=1)} == {1}
    with pytest.raises(UsageError, match="no column 'nothing'"):
        read_view(source, "measurements", columns=("nothing",))
    with pytest.raises(UsageError, match="origin"):
        read_view(source, "models", origin="measured")
    with pytest.raises(NotFound, match="secrets"):
        read_view(source, "secrets")


def test_as_of_a_position_and_filters_stand_in_the_card(source, export):
    before = (
        next(
            event["position"]
            for event in source.events(types=["assay.measurement.retracted.v1"], source=None)
            if event["source"] != "assay-runner/golden"
        )
        - 1
    )
    path, card = export("then.csv", "--what", "measurements", "--as-of", str(before), "--model", "acme/tiny")
    assert (card["position"], card["filters"]) == (before, {"model": "acme/tiny", "as_of": before})
    assert beside(path) == card
    assert len(path.read_text().splitlines()) - 1 == len(
        rows_of(source, "measurements", model="acme/tiny", as_of=before)
    )
    assert "the log ends at position" in export("then.csv", "--as-of", "99999999", "--force", code=2)


def test_a_spreadsheet_runs_nothing_of_a_csv(export):
    path, _ = export("rows.csv", "--what", "measurements")
    assert "'=run" in path.read_text()
    assert '"=run' not in path.read_text()


def test_folders_by_hardware_and_month(source, export):
    path, card = export("lake", "--what", "measurements", "--partition-by", "hardware_id,month")
    found = duckdb.sql(
        f"SELECT count(*), count(DISTINCT hardware_id) FROM read_parquet('{path}/**/*.parquet', hive_partitioning=true)"
    ).fetchall()
    assert found == [(len(rows_of(source, "measurements")), 3)]
    assert card["rows"]["measurements"] == found[0][0]
    assert {one.name.partition("=")[0] for one in path.iterdir()} == {"hardware_id"}
    assert "exists" in export("lake", "--what", "measurements", "--partition-by", "platform", code=2)


def test_everything_in_one_duckdb_file(source, export):
    path, card = export("all.duckdb")
    names = set(view_names(source))
    assert set(card["rows"]) == {"events"} | names
    with duckdb.connect(str(path), read_only=True) as connection:
        for name in names:
            ((count,),) = connection.sql(f'SELECT count(*) FROM "{name}"').fetchall()
            assert count == len(rows_of(source, name)) == card["rows"][name]
        kinds = dict(
            connection.sql(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'measurements'"
            ).fetchall()
        )
        told = dict(connection.sql("SELECT name, value FROM export").fetchall())
        assert connection.sql("SELECT data->>'text' FROM events WHERE type = 'vendor.note.v7'").fetchall() == [
            ("=HYPERLINK(1)",)
        ]
    assert (kinds["workload"], kinds["recorded_at"], kinds["latency_p50_ms"]) == (
        "JSON",
        "TIMESTAMP WITH TIME ZONE",
        "DOUBLE",
    )
    assert int(told["assay.position"]) == card["position"]


def test_everything_in_a_folder(source, export):
    path, card = export("folder", "--what", "all", "--format", "ndjson")
    assert {one.name for one in path.iterdir()} == {f"{noun}.ndjson" for noun in card["rows"]} | {"card.json"}
    assert json.loads((path / "card.json").read_text()) == card
    rows = [json.loads(line) for line in (path / "measurements.ndjson").read_text().splitlines()]
    assert isinstance(rows[0]["workload"], dict)


def test_arrow_and_lines_hold_what_parquet_does(source, export):
    expected = rows_of(source, "tests")
    path, _ = export("rows.arrow", "--what", "tests")
    with pa.OSFile(str(path)) as file:
        assert pa.ipc.open_file(file).read_all().to_pylist() == expected
    path, card = export("rows.ndjson.gz", "--what", "tests")
    assert card["rows"] == {"tests": len(expected)}


def test_benchmark_files_and_badges(source, export):
    path, card = export("bench.json", "--format", "bmf")
    best = {row["configuration"]: row for row in rows_of(source, "best_measurements")}
    document = json.loads(path.read_text())
    assert {name[-33:-1] for name in document} <= set(best)
    assert len(document) == len(best)
    assert card["what"] == "best"
    path, card = export("action.json", "--format", "github-action", "--metric", "latency_p50_ms", "--model", "acme/m0")
    assert {entry["name"].partition(" ")[0] for entry in json.loads(path.read_text())} == {"acme/m0"}
    assert card["notes"] == {"tool": "customSmallerIsBetter"}
    path, card = export("badge.svg", "--model", "acme/m0", "--hardware", "acme-one")
    assert "m0 on acme-one" in path.read_text() and "1.00 ms measured" in path.read_text()
    assert card["notes"]["evidence"] in {row["event_id"] for row in best.values()}
    path, _ = export("endpoint.json", "--format", "badge", "--model", "acme/m0", "--label", "fast")
    assert json.loads(path.read_text())["label"] == "fast"
    assert "no measurement" in export("none.svg", "--model", "acme/nobody", code=1)
    assert not (path.parent / "none.svg").exists() and not list(path.parent.glob("*.writing"))


VOUCHED_FOR = {
    "assay.operation.performed.v1", "assay.predictor.trained.v1", "assay.predictor.chosen.v1", "assay.alert.raised.v1",
    "assay.alert.changed.v1", "assay.job.requested.v1", "assay.job.started.v1", "assay.job.finished.v1",
    "assay.job.failed.v1", "assay.job.cancelled.v1",
}  # fmt: skip
VOUCHED_FOR_VIEWS = {"alerts", "jobs", "operations", "predictors", "predictor_choices"}
"""What a service says of itself, and what would need an artifact: these do not travel with a file of events."""


def test_everything_goes_into_an_empty_instance_and_is_the_same(source, export, service_database, tmp_path, capsys):
    from tests.integration.conftest import RunningService

    path, card = export("log.ndjson.gz")
    assert card["rows"]["events"] == len(list(source.events()))
    target = RunningService(tmp_path / "target", service_database().url).start()
    try:
        assert run(["post", str(path), "--server", target.url, "--json"]) == 1
        posted = json.loads(capsys.readouterr().out)
        assert posted["accepted"] + len(posted["refused"]) == card["rows"]["events"]
        kept = sum(event["type"] in VOUCHED_FOR for event in source.events())
        assert [refused["field"] in ("type", "data.digest") for refused in posted["refused"]] == [True] * kept
        with target.client() as client:
            assert view_names(client) == view_names(source)
            for name in set(view_names(client)) - VOUCHED_FOR_VIEWS:
                assert alike(rows_of(client, name)) == alike(rows_of(source, name)), name
    finally:
        target.stop()


def alike(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in any order, without what is the log's own."""
    return sorted(
        json.dumps({name: value for name, value in row.items() if name not in OF_THE_LOG}, default=str, sort_keys=True)
        for row in rows
    )


def test_regressions_of_a_service_since_a_position(source, build, tmp_path, capsys):
    def compared(*words: str, code: int) -> Any:
        ended = run(["regressions", *words, "--model", "acme/watched", "--server", source.server, "--json"])
        said = capsys.readouterr()
        assert ended == code, said.err + said.out
        return json.loads(said.out)

    def post(*events: dict[str, Any]) -> int:
        position = int(source.post_events(events)["last_position"])
        source.wait_for(position)
        return position

    watched = {"model": "acme/watched"}
    then = post(
        *(build.measurement(1.0, batch_size=size, **watched) for size in (1, 2, 4)), build.test("passed", **watched)
    )
    post(
        build.measurement(1.3, batch_size=1, **watched),
        build.measurement(1.02, batch_size=2, **watched),
        build.test("failed", **watched),
    )
    told = compared("--baseline", str(then), code=1)
    assert [(one["state"], one["change"]) for one in told["changes"]] == [
        ("worse", pytest.approx(0.3)),
        ("same", pytest.approx(0.02)),
    ]
    assert [(one["test"], one["state"]) for one in told["turns"]] == [("verify", "worse")]
    assert (told["baseline_position"], told["not_anew"]) == (then, 1)

    # The same, of files that exports wrote, and of what --save kept.
    words = ("--what", "measurements", "--as-of", str(then), "--server", source.server)
    for name in ("then.parquet", "then.csv", "then.ndjson"):
        assert (
            run(
                [
                    "export",
                    str(tmp_path / name),
                    *(words if name != "then.ndjson" else ("--upto", str(then), *words[4:])),
                ]
            )
            == 0
        )
        assert [one["state"] for one in compared("--baseline", str(tmp_path / name), code=1)["changes"]] == [
            "worse",
            "same",
        ]
    assert (
        run(["regressions", "--candidate", str(then), "--save", str(tmp_path / "kept.json"), "--server", source.server])
        == 0
    )
    capsys.readouterr()
    again = compared("--baseline", str(tmp_path / "kept.json"), code=1)
    assert (again["changes"], again["turns"]) == (told["changes"], told["turns"])
    with pytest.raises(AssayError):
        source.fetch("/v1/tables/nothing", "application/json")
