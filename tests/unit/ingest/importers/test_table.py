"""Any table with a mapping: units, renames, constants, times, mistakes by line, Parquet, drafts of mappings."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from domain.errors import UsageError
from domain.events import decode_event, encode_event
from ingest.importers.files import File
from ingest.importers.reading import BadFile
from ingest.importers.refusals import Refused
from ingest.importers.tables.mapping import parse_mapping
from ingest.importers.tables.table import Table, template

MAPPING = """columns:
  model: {column: net}
  hardware: {value: NVIDIA L4}
  hardware.count: {column: gpus}
  mode: {value: inference}
  platform: {column: where, rename: {gpu: cuda}}
  precision: {column: dtype, rename: {half: fp16}}
  batch_size: {column: bs}
  latency_ms.mean: {column: time, unit: s}
  throughput_per_s: {column: ips, missing: [-1]}
  peak_memory_bytes: {column: mem, unit: MiB}
  time: {column: when, zone: +01:00}
  options.page: {column: page}
  libraries.torch: {value: 2.4.0}
source: our old spreadsheet
licence: CC0-1.0
"""
HEADER = "net,where,dtype,bs,time,ips,mem,when,page,gpus,remark\n"
ROW = "resnet50,gpu,half,8,0.02,400,512,2024-05-06 07:08:09,16,1,fine\n"

QUOTED = MAPPING.replace('"', '""')
ALONE = f'{HEADER.strip()},#mapping\n{ROW.strip()},"{QUOTED}"\n'
"""A refused row's content: a table that holds its mapping."""


@pytest.fixture
def write(tmp_path):
    def written(content, name="old.csv", mapping=MAPPING):
        path = tmp_path / name
        path.write_text(content)
        if mapping is not None:
            (tmp_path / f"{name}.mapping.yaml").write_text(mapping)
        return File(path, name, given=True)

    return written


def read(file, importer=None):
    items = list((importer or Table()).rows(file))
    events = [item for item in items if not isinstance(item, Refused)]
    assert all(decode_event(encode_event(event)).warnings == () for event in events)
    rows = [event for event in events if ".run." not in event["type"]]
    return rows, [item for item in items if isinstance(item, Refused)]


def test_columns_constants_units_and_renames(write):
    (event,), refused = read(write(HEADER + ROW))
    data = event["data"]
    assert refused == []
    assert event["time"] == "2024-05-06T07:08:09+01:00"
    assert data["model"]["id"] == "microsoft/resnet-50"
    assert data["workload"] == {"mode": "inference", "batch_size": 8}
    assert data["execution"] == {"platform": "cuda", "precision": "fp16", "options": {"page": "16"}}
    assert data["hardware"] == {"id": "nvidia-l4", "kind": "gpu", "count": 1}
    assert data["metrics"] == {
        "latency_ms": {"mean": 20.0}, "throughput_per_s": 400.0, "peak_memory_bytes": 512 * 2**20,
    }  # fmt: skip
    assert data["environment"]["libraries"] == {"torch": "2.4.0"}
    assert data["imported"]["original"] == {"where": "gpu", "dtype": "half", "time (s)": "0.02", "mem (MiB)": "512"}
    assert data["provenance"]["source"] == "our old spreadsheet" and data["provenance"]["licence"] == "CC0-1.0"


def test_missing_is_left_out_and_never_zero(write):
    (event,), _ = read(write(HEADER + "resnet50,gpu,,,0.02,-1,0,,,,\n"))
    assert event["data"]["metrics"] == {"latency_ms": {"mean": 20.0}}
    assert event["data"]["workload"] == {"mode": "inference"} and "time" not in event


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (",0.02,", ",fast,", "time"), (",8,", ",8.5,", "bs"), ("2024-05-06 07:08:09", "yesterday", "when"),
        ("resnet50", "", "model"), ("gpu,half", ",half", "platform"), (",0.02,400,512,", ",,,,", "columns"),
    ],
)  # fmt: skip
def test_a_bad_row_is_refused_alone_and_its_content_can_be_mended_alone(write, old, new, field):
    file = write(HEADER + ROW.replace(old, new) + ROW)
    rows, (refused,) = read(file)
    assert (refused.row, refused.field, len(rows)) == (2, field, 1)
    alone = write(refused.content, "content.csv", mapping=None)
    assert Table().sniff(alone)
    _, (again,) = read(alone)
    assert again.field == field
    if new != "" and new in refused.content:
        (mended,), _ = read(write(refused.content.replace(new, old), "content.csv", mapping=None))
        assert mended["id"] == rows[0]["id"]


def test_failures_tests_and_rows_that_were_made_up(write):
    mapping = MAPPING.replace(
        "source:", "  outcome: {column: remark, rename: {fine: passed, oom: out_of_memory}}\nsource:"
    )
    _, failed = read(write(HEADER + ROW + ROW.replace("fine", "oom"), mapping=mapping))[0]
    assert failed["type"] == "assay.measurement.failed.v1"
    assert (failed["data"]["outcome"], failed["data"]["stage"]) == ("out_of_memory", "run")
    tests = mapping.replace("source:", "  test: {value: smoke test}\n  message: {value: it broke}\nsource:")
    (tested,), _ = read(write(HEADER + ROW.replace("fine", "failed"), mapping=tests))
    assert (tested["data"]["test"], tested["data"]["outcome"]) == ("smoke_test", "failed")
    made_up = MAPPING.replace("source:", "  simulated: {column: remark}\nsource:")
    (simulated,), _ = read(write(HEADER + ROW.replace("fine", "yes"), mapping=made_up))
    assert simulated["data"]["provenance"]["origin"] == "simulated"
    _, (refused,) = read(write(HEADER + ROW.replace("fine", "maybe"), mapping=mapping))
    assert refused.field == "outcome" and "rename" in refused.reason


def test_another_delimiter_and_a_mapping_that_is_named(write, tmp_path):
    file = write((HEADER + ROW).replace(",", ";"), "semicolons.csv", mapping=None)
    assert not Table().sniff(file)
    (tmp_path / "named.yaml").write_text(MAPPING)
    importer = Table(mapping=tmp_path / "named.yaml")
    assert importer.sniff(file)
    (event,), _ = read(file, importer)
    assert event["data"]["metrics"]["throughput_per_s"] == 400.0


def test_parquet_keeps_types_and_reads_what_is_mapped(write, tmp_path):
    columns = {"net": ["resnet50", "vgg16"], "where": ["gpu", "gpu"], "dtype": ["half", None], "bs": [8, 4],
               "time": [0.02, float("nan")], "ips": [400.0, 100.0], "mem": [512, None], "page": [16, 32], "gpus": [1, 2],
               "when": [datetime.datetime(2024, 5, 6, 7, 8, 9), None], "unread": [[1], [2]]}  # fmt: skip  # noqa: DTZ001
    parquet.write_table(pyarrow.table(columns), tmp_path / "old.parquet")
    (tmp_path / "old.parquet.mapping.yaml").write_text(MAPPING)
    file = File(tmp_path / "old.parquet", "old.parquet", given=True)
    assert Table().sniff(file)
    (resnet, vgg), refused = read(file)
    assert refused == []
    assert resnet["time"] == "2024-05-06T07:08:09+01:00"
    assert resnet["data"]["execution"]["options"] == {"page": 16}
    assert vgg["data"]["metrics"] == {"throughput_per_s": 100.0}
    assert vgg["data"]["hardware"]["count"] == 2
    (tmp_path / "old.parquet").write_bytes(b"PAR1 and nothing")
    _, (refused,) = read(File(tmp_path / "old.parquet", "old.parquet", given=True))
    assert "not Parquet" in refused.reason


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("latency_ms.mean:", "latency_ms:", 9, "Say which"),
        ("batch_size:", "batchsize:", 8, "Did you mean batch_size?"),
        ("unit: s", "unit: hours", 9, "It takes s, sec"),
        ("{column: bs}", "{column: bs, unit: ms}", 8, "It has no unit"),
        ("{column: bs}", "bs", 8, "Write {column: bs}"),
        ("{column: bs}", "{colum: bs}", 8, "Did you mean column?"),
        ("{column: bs}", "{column: bs, value: 8}", 8, "Name one of them"),
        ("zone: +01:00", "zone: Paris", 12, "UTC"),
        ("  mode: {value: inference}\n", "", 2, "Add `mode: {value: inference}`"),
        ("{value: NVIDIA L4}", '{value: "?"}', 3, "question mark"),
        ("  batch_size: {column: bs}", "  batch_size: {column: bs}\n  batch_size: {column: bs}", 9, "named twice"),
        ("source:", "sauce:", 15, "Did you mean source?"),
        ("{column: bs}", "{column: bs", 9, "not YAML"),
        ("columns:\n", "columns: &a\n", 1, None),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_line(old, new, line, said):
    if said is None:
        assert len(parse_mapping(MAPPING.replace(old, new), "m.yaml").sources) == 13
        return
    with pytest.raises(UsageError) as caught:
        parse_mapping(MAPPING.replace(old, new), "m.yaml")
    assert f"m.yaml, line {line}:" in str(caught.value) and said in str(caught.value)


def test_columns_that_yaml_would_read_as_something_else_keep_their_names():
    mapping = parse_mapping(
        MAPPING.replace("{column: bs}", "{column: on}").replace("{column: ips,", "{column: 2024-01-01,"), "m"
    )
    assert {"on", "2024-01-01"} <= set(mapping.columns())


def test_a_wrong_mapping_refuses_its_file_and_an_unknown_column_names_the_line(write):
    _, (refused,) = read(write(HEADER + ROW, mapping=MAPPING.replace("{column: bs}", "{column: batch}")))
    assert "no column 'batch'" in refused.reason and "line 8" in refused.reason
    with pytest.raises(BadFile, match="line 8"):
        list(Table().rows(write(HEADER + ROW, mapping=MAPPING.replace("batch_size", "batchsize"))))
    with pytest.raises(BadFile, match=r"line 8.*whole number"):
        list(Table().rows(write(HEADER + ROW, mapping=MAPPING.replace("{column: bs}", "{value: 1.5}"))))
    with pytest.raises(UsageError, match="cannot be read"):
        Table(mapping=Path("nowhere.yaml"))


def test_a_draft_of_a_mapping_names_what_it_knows_and_asks_for_the_rest(tmp_path, write):
    path = tmp_path / "new.csv"
    path.write_text(
        "Model Name,batch size,Latency (ms),p99_ms,fps,peak_mem_mb,dtype,notes\nresnet50,8,20,25,400,512,fp16,x\n"
    )
    draft = template(path)
    assert 'model: {column: "Model Name"}' in draft
    assert 'latency_ms.mean: {column: "Latency (ms)", unit: "ms"}' in draft
    assert 'latency_ms.p99: {column: "p99_ms", unit: "ms"}' in draft
    assert 'peak_memory_bytes: {column: "peak_mem_mb", unit: "MB"}' in draft
    assert '# Not used: "notes"' in draft
    with pytest.raises(UsageError, match="question mark"):
        parse_mapping(draft, "draft")
    filled = draft.replace('hardware: {value: "?"}', "hardware: {value: NVIDIA L4}").replace('platform: {value: "?"}', "platform: {value: cuda}")  # fmt: skip
    (event,), refused = read(write(path.read_text(), "new.csv", mapping=filled))
    assert refused == []
    assert event["data"]["metrics"] == {
        "latency_ms": {"mean": 20.0, "p99": 25.0}, "throughput_per_s": 400.0, "peak_memory_bytes": 512_000_000,
    }  # fmt: skip
    parquet.write_table(pyarrow.table({"arch": ["a"], "mean_latency_s": [1.0]}), tmp_path / "new.parquet")
    assert 'latency_ms.mean: {column: "mean_latency_s", unit: "s"}' in template(tmp_path / "new.parquet")
    with pytest.raises(UsageError):
        template(tmp_path / "nothing.csv")


def test_a_table_that_holds_its_mapping_is_read_as_one_beside_it(write):
    assert [event["id"] for event in read(write(ALONE, "alone.csv", mapping=None))[0]] == [
        event["id"] for event in read(write(HEADER + ROW))[0]
    ]


def test_read_twice_alike(write):
    file = write(HEADER + ROW)
    assert list(Table().rows(file)) == list(Table().rows(file))
