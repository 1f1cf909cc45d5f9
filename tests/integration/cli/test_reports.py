"""`assay report` and `assay trends` against a real service: every kind in every format, from events that are known."""

from __future__ import annotations

import csv
import io
import json
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assay.cli import cli
from domain.errors import NotFound, UnknownHardware, UnknownModel

KINDS = ("performance", "hardware", "compatibility", "modes", "precision", "model", "run")


class Known:
    """What the service was told of: names of one test's own."""

    def __init__(self) -> None:
        mark = uuid.uuid4().hex[:8]
        self.model, self.hardware, self.run = f"acme/model-{mark}", f"acme-{mark}", f"run-{mark}"
        self.position = 0
        self.before = 0


@pytest.fixture(scope="module")
def known(service: Any, build: Any) -> Known:
    """One model on one hardware, twice measured, in several ways; a test that failed; a row that is simulated."""
    one = Known()
    parts = {"model": one.model, "hardware": one.hardware}
    work = {"mode": "training", "batch_size": 1, "sequence_length": 128, "optimizer": "adamw"}
    with service.client() as client:
        one.before = client.post_events(
            [build.measurement(20.0, run_id="old", time=datetime(2026, 10, 1, tzinfo=UTC), **parts)]
        )["last_position"]
        events = [
            build.event("assay.run.started.v1", {"run_id": one.run, "kind": "bench"}),
            build.measurement(10.0, run_id=one.run, time=datetime(2026, 11, 1, tzinfo=UTC), **parts),
            build.measurement(2.0, run_id=one.run, platform="openvino", **parts),
            build.measurement(5.0, run_id=one.run, precision="bf16", **parts),
            build.measurement(40.0, run_id=one.run, batch_size=8, **parts),
            build.measurement(30.0, run_id=one.run, **parts | {"workload": work}),
            build.measurement(
                0.001, run_id=one.run, precision="int8", **parts,
                provenance={"origin": "simulated", "source": "nobody"},
            ),
            build.test("failed", run_id=one.run, precision="bf16", **parts),
            build.failure(run_id=one.run, platform="openvino", precision="int8", **parts),
        ]  # fmt: skip
        one.position = client.post_events(events)["last_position"]
        client.measurements(model=one.model, min_position=one.position)
    return one


@pytest.fixture
def reported(service: Any, known: Known) -> Any:
    """Runs `assay report`, of the known model only where the kind takes a filter; returns exit code and stdout."""

    def run(kind: str, *arguments: str | Path) -> tuple[int, bytes]:
        subject = {"model": [known.model], "run": [known.run]}.get(kind, ["--model", known.model])
        words = ["report", kind, *subject, "--server", service.url, *map(str, arguments)]
        result = CliRunner().invoke(cli, words, standalone_mode=False)
        if result.exception:
            raise result.exception
        return result.return_value, result.stdout_bytes

    return run


def data(reported: Any, kind: str, *arguments: str) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    code, content = reported(kind, "--json", *arguments)
    found = json.loads(content)
    tables = {
        part["table"]: part["rows"] for section in found["sections"] for part in section["parts"] if "table" in part
    }
    assert code == (1 if found["empty"] else 0)
    return found, tables


@pytest.mark.parametrize(("kind", "pictures"), [(kind, kind in ("compatibility", "run")) for kind in KINDS])
def test_every_kind_is_a_page_with_evidence(reported: Any, kind: str, pictures: bool, tmp_path: Path) -> None:
    code, _ = reported(kind, "--out", tmp_path / "a.html", *(() if pictures else ("--no-pictures",)))
    page = (tmp_path / "a.html").read_text()
    assert code == 0
    assert ("<svg" in page) is pictures
    assert 'id="e-' in page
    assert "<script" not in page


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_text_and_a_table(reported: Any, kind: str) -> None:
    _, text = reported(kind)
    assert text.decode().startswith("# ")
    _, table = reported(kind, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(table.decode())))
    assert rows
    assert all(row["evidence"] and row["as_of"] for row in rows)


def test_performance_compares_like_with_like(reported: Any, known: Known) -> None:
    found, tables = data(reported, "performance")
    speedups = {(row["platform"], row["precision"], row["batch_size"]): row["factor"] for row in tables["speedup"]}
    assert speedups == {("openvino", "fp32", 1): pytest.approx(5.0)}
    (family,) = (row for row in tables["families"] if row["mode"] == "inference")
    assert (family["hardware"], family["platform"], family["factor"]) == (
        known.hardware,
        "openvino",
        pytest.approx(5.0),
    )
    assert len(tables["configurations"]) == 5
    assert all(row["origin"] != "simulated" for row in tables["configurations"])
    assert "simulated" in " ".join(found["facts"])


def test_precision_says_what_a_test_said(reported: Any) -> None:
    (pair,) = data(reported, "precision")[1]["precision"]
    assert (pair["precision"], pair["factor"], pair["verified"]) == ("bf16", pytest.approx(2.0), False)


def test_training_is_counted_in_inference_calls(reported: Any) -> None:
    (pair,) = data(reported, "modes")[1]["modes"]
    assert (pair["factor"], pair["optimizer"]) == (pytest.approx(3.0), "adamw")


def test_a_run_says_what_changed_and_marks_what_is_simulated(reported: Any) -> None:
    _, tables = data(reported, "run")
    (faster,) = (row for row in tables["changes"] if row["change"] == "faster")
    assert (faster["factor"], faster["baseline_latency_ms"]) == (pytest.approx(2.0), 20.0)
    assert [row["origin"] for row in tables["configurations"]].count("simulated") == 1
    assert tables["tests"][0]["outcome"] == "failed"
    assert tables["failures"][0]["outcome"] == "unsupported"


def test_as_of_an_earlier_position_knows_no_more_than_was_known(reported: Any, known: Known) -> None:
    found, tables = data(reported, "performance", "--as-of", str(known.before))
    assert found["position"] == known.before
    assert [row["latency_ms"] for row in tables["configurations"]] == [20.0]


def test_the_same_question_at_the_same_position_gives_the_same_bytes(reported: Any, known: Known) -> None:
    words = ("run", "--as-of", str(known.position), "--format", "html")
    assert reported(*words) == reported(*words)


def test_one_hardware_and_filters(reported: Any, known: Known) -> None:
    found, tables = data(reported, "performance", "--hardware", known.hardware, "--platform", "openvino")
    assert {row["platform"] for row in tables["configurations"]} == {"openvino"}
    assert tables["speedup"][0]["baseline_platform"] == "cpu"
    assert found["filters"] == {"model": known.model, "hardware": known.hardware, "platform": "openvino"}


def test_nothing_to_report_is_a_sentence_and_a_no(service: Any, known: Known, tmp_path: Path) -> None:
    words = ["report", "performance", "--model", known.model, "--precision", "fp8", "--server", service.url]
    result = CliRunner().invoke(cli, [*words, "--out", str(tmp_path / "a.html")], standalone_mode=False)
    assert result.return_value == 1
    assert not (tmp_path / "a.html").exists()
    assert "--precision fp8" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("model", "acme/nobody"), UnknownModel),
        (("hardware", "nobody"), UnknownHardware),
        (("run", "nobody"), NotFound),
    ],
)
def test_a_name_that_nobody_knows_is_an_error(service: Any, words: tuple[str, ...], error: type[Exception]) -> None:
    result = CliRunner().invoke(cli, ["report", *words, "--server", service.url], standalone_mode=False)
    assert isinstance(result.exception, error)


def test_trends_have_a_line_of_blocks_a_configuration_and_a_picture(service: Any, known: Known, tmp_path: Path) -> None:
    words = ["trends", known.model, "--server", service.url, "--picture", str(tmp_path / "t.svg")]
    result = CliRunner().invoke(cli, words, standalone_mode=False)
    assert result.return_value == 0
    (line,) = (line for line in result.stdout.splitlines() if "█▁" in line)
    assert "× 2.0 faster" in line.replace("\u202f", " ")
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert known.model in (tmp_path / "t.svg").read_text()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("query", "select 1 as one", "--format", "csv", "--out"), "rows.csv"),
        (("query", "select 1 as one", "--format", "parquet", "--out"), "rows.parquet"),
        (("report", "performance", "--out"), "page.html"),
        (("trends", "bert-base-uncased", "--picture"), "line.svg"),
        (("export", "--what", "measurements"), "rows.ndjson"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_file_is_overwritten_only_with_force(typed: Any, tmp_path: Path, words: tuple[str, ...], name: str) -> None:
    path = tmp_path / name
    typed(*words, str(path))
    written = path.read_bytes()
    path.write_text("mine")
    typed(*words, str(path), code=2)
    assert path.read_text() == "mine"
    typed(*words, str(path), "--force")
    assert path.read_bytes()[:100] == written[:100]
    assert [each.name for each in tmp_path.iterdir() if each.name.endswith(".writing")] == []
