"""`assay export tables`: Parquet with types that other readers have, of one position, whole or not at all."""

from __future__ import annotations

import json
import resource
import shutil

import duckdb
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from assay.cli import run
from assay.exports.portable import portable
from assay.exports.views import view_names
from domain.errors import AssayError
from tests.integration.cli.test_exporting import rows_of, source

__all__ = ["source"]


SPARK = {
    "int64": "bigint", "int32": "int", "double": "double", "bool": "boolean", "string": "string",
    "timestamp[us, tz=UTC]": "timestamp", "list<element: string>": "array<string>",
}  # fmt: skip
"""Arrow's types as Spark infers them."""


@pytest.fixture
def exported(source, tmp_path, capsys):
    """Runs `assay export tables --to lake …`; returns the folder and the manifest, or what was said where it failed."""

    def export(*words: str, code: int = 0):
        ended = run(["export", "tables", "--to", str(tmp_path / "lake"), *words, "--server", source.server, "--json"])
        said = capsys.readouterr()
        assert ended == code, said.err + said.out
        return (tmp_path / "lake", json.loads(said.out)) if code == 0 else said.err

    return export


def test_every_view_is_a_file_that_other_readers_open_with_equal_counts(source, exported):
    folder, manifest = exported()
    assert [view["name"] for view in manifest["views"]] == view_names(source)
    assert manifest["position"] == source.ready()["log_position"]
    assert manifest == json.loads((folder / "manifest.json").read_text())
    with duckdb.connect(":memory:") as reader:
        reader.execute("SET TimeZone = 'UTC'")
        for view in manifest["views"]:
            rows = rows_of(source, view["name"], as_of=manifest["position"])
            table = parquet.read_table(folder / view["file"])
            assert table.to_pylist() == rows, view["name"]
            counted = reader.execute(f"SELECT count(*) FROM '{folder / view['file']}'").fetchone()
            assert counted == (len(rows),) == (view["rows"],)
            assert [column["name"] for column in view["columns"]] == table.column_names
            assert table.schema.metadata[b"assay.position"] == str(manifest["position"]).encode()
    units = {column["name"]: column["unit"] for column in manifest["views"][0]["columns"]}
    assert (units["latency_p50_ms"], units["peak_memory_bytes"]) == ("ms", "B")


def test_files_have_no_type_that_a_reader_of_parquet_may_lack(exported):
    folder, manifest = exported()
    kinds = set()
    for view in manifest["views"]:
        schema = parquet.ParquetFile(folder / view["file"]).schema
        for column in map(schema.column, range(len(schema.names))):
            kinds.add((column.physical_type, column.logical_type.type))
            if column.logical_type.type == "TIMESTAMP":
                said = json.loads(column.logical_type.to_json())
                assert (said["isAdjustedToUTC"], said["timeUnit"]) == (True, "microseconds")
    assert kinds <= {
        ("INT64", "NONE"), ("INT32", "NONE"), ("DOUBLE", "NONE"), ("BOOLEAN", "NONE"), ("BYTE_ARRAY", "STRING"),
        ("INT64", "TIMESTAMP"),
    }  # fmt: skip
    assert ("INT64", "TIMESTAMP") in kinds


@pytest.mark.torture
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_spark_and_polars_infer_the_schema_and_count_the_same_rows(exported):
    polars = pytest.importorskip("polars", reason="Polars is not installed: pip install polars")
    pyspark = pytest.importorskip("pyspark", reason="Spark is not installed: pip install pyspark (it needs Java 17)")
    if shutil.which("java") is None:
        pytest.skip("Java is not there: apt install openjdk-17-jre-headless")
    folder, manifest = exported()
    session = pyspark.sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = session.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    try:
        for view in manifest["views"]:
            file = str(folder / view["file"])
            expected = parquet.read_table(file)
            ours = [column["name"] for column in view["columns"]]
            frame, theirs = spark.read.parquet(file), polars.read_parquet(file)
            assert frame.count() == theirs.height == view["rows"] == expected.num_rows
            assert frame.columns == theirs.columns == ours
            kinds = dict(frame.dtypes)
            for field in expected.schema:
                assert kinds[field.name] == SPARK[str(field.type)], (view["name"], field)
                if field.type == pa.timestamp("us", tz="UTC"):
                    moments = sorted(value.cast(pa.int64()).as_py() for value in expected[field.name] if value.is_valid)
                    said = frame.selectExpr(f"unix_micros({field.name}) AS at").where("at IS NOT NULL").collect()
                    assert sorted(row.at for row in said) == moments
                    assert sorted(theirs[field.name].drop_nulls().dt.epoch("us").to_list()) == moments
    finally:
        spark.stop()


def test_chosen_views_are_of_the_position_that_was_asked_for(source, exported):
    last = source.ready()["log_position"]
    _, manifest = exported("--views", "measurements,hardware", "--as-of", str(last - 1))
    assert [view["name"] for view in manifest["views"]] == ["measurements", "hardware"]
    assert manifest["views"][0]["rows"] == len(rows_of(source, "measurements", as_of=last - 1))
    assert manifest["views"][0]["rows"] == len(rows_of(source, "measurements")) - 1


def test_a_folder_is_replaced_only_by_force_and_only_where_it_is_an_export(exported):
    folder, _ = exported("--views", "models")
    assert "exists" in exported("--views", "hardware", code=2)
    assert (folder / "models.parquet").exists()
    exported("--views", "hardware", "--force")
    assert sorted(file.name for file in folder.iterdir()) == ["hardware.parquet", "manifest.json"]
    (folder / "notes.txt").write_text("mine")
    assert "no export wrote" in exported("--views", "hardware", "--force", code=2)
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_disk_that_fills_leaves_nothing_half_done(exported, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        said = exported(code=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "cannot be written" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["tables", "--to", "lake", "--views", "measurments"], "measurements"),
        (["tables", "--to", "lake", "--model", "tiny"], "model"),
        (["x.parquet", "--to", "lake"], "assay export tables --to"),
        (["tables", "--views", "models"], "assay export tables --to"),
    ],
)
def test_options_that_do_not_fit_are_refused_with_the_remedy(source, tmp_path, monkeypatch, capsys, words, named):
    monkeypatch.chdir(tmp_path)
    assert run(["export", *words, "--server", source.server]) == 2
    assert named in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_foreign_types_become_those_that_every_reader_has():
    from uuid import UUID

    identifier = UUID(int=7)
    wide = pa.table(
        {
            "unsigned": pa.array([1], pa.uint32()),
            "sum": pa.array([2], pa.decimal128(38, 0)),
            "at": pa.array([3_000], pa.timestamp("ns", tz="Europe/Berlin")),
            "word": pa.array(["a"]).dictionary_encode(),
            "numbers": pa.array([[1]], pa.list_(pa.uint8())),
            "nothing": pa.nulls(1),
        }
    ).append_column(
        pa.field("id", pa.binary(16), metadata={b"assay.type": b"UUID"}), pa.array([identifier.bytes], pa.binary(16))
    )
    plain = portable(wide)
    assert [str(field.type) for field in plain.schema] == [
        "int64", "double", "timestamp[us, tz=UTC]", "string", "list<item: int64>", "string", "string"
    ]  # fmt: skip
    (row,) = plain.to_pylist()
    assert (row["unsigned"], row["sum"], row["word"], row["numbers"]) == (1, 2.0, "a", [1])
    assert (row["nothing"], row["id"]) == (None, str(identifier))
    with pytest.raises(AssayError, match="duration"):
        portable(pa.table({"lasted": pa.array([1], pa.duration("s"))}))
