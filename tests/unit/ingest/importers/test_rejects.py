"""Refused rows, mended and imported again: the ids of their file, the places where they stood."""

from __future__ import annotations

import json

import msgspec
import pytest

from domain.events import decode_event, encode_event
from ingest.importers import IMPORTERS, Refused, import_paths
from ingest.importers.files import File
from ingest.importers.rejects import Rejects

NAME = "benchmark-infer-amp-nhwc-pt240-cu124-rtx4090.csv"
HEADER = "model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size,param_count\n"
GOOD = "vit_tiny_patch16_224,224,20000.0,12.8,256,5.72\n"
BAD = "resnet18,224,fast,12.8,256,11.7\n"
MENDED = BAD.replace("fast", "20000.0")


@pytest.fixture
def rejects(tmp_path):
    """Import a folder with bad rows and return the file of rejects."""

    def made(content):
        (tmp_path / "old").mkdir(exist_ok=True)
        (tmp_path / "old" / NAME).write_text(content)
        refused = [item for item in import_paths("timm", [tmp_path / "old"]) if isinstance(item, Refused)]
        path = tmp_path / "refused.ndjson"
        path.write_bytes(b"".join(msgspec.json.encode(item) + b"\n" for item in refused))
        return path

    return made


def split(items):
    items = list(items)
    return [item for item in items if not isinstance(item, Refused)], [
        item for item in items if isinstance(item, Refused)
    ]


def test_a_mended_row_is_the_row_that_its_file_would_have_given(rejects, tmp_path):
    path = rejects(HEADER + GOOD + BAD)
    path.write_text(path.read_text().replace("fast", "20000.0"))
    (started, mended, ended), refused = split(import_paths("auto", [path]))
    assert refused == []
    (tmp_path / "old" / NAME).write_text(HEADER + GOOD + MENDED)
    (_, _, row, _), _ = split(import_paths("timm", [tmp_path / "old"]))
    assert mended["id"] == row["id"]
    assert {event["data"]["run_id"] for event in (started, mended, ended)} == {mended["subject"]}
    assert ended["data"] | {"measured": 1, "failed": 0} == ended["data"]
    for event in (started, mended, ended):
        decode_event(encode_event(event))


def test_what_is_refused_again_keeps_its_place(rejects):
    path = rejects(HEADER + GOOD + BAD + GOOD + BAD.replace("resnet18", "resnet34"))
    path.write_text(path.read_text().replace("fast", "quick", 1))
    (_, ended), refused = split(import_paths("rejects", [path]))
    assert [(item.path, item.row, item.field) for item in refused] == [
        (f"old/{NAME}", 3, "infer_samples_per_sec"),
        (f"old/{NAME}", 5, "infer_samples_per_sec"),
    ]
    assert "quick" in refused[0].content
    assert ended["data"]["failed"] == 2


def test_rows_of_a_document_keep_the_line_where_they_stood(tmp_path):
    """Through an importer whose events say their row."""

    class Tool:
        name = "tool"

        def rows(self, file):
            data = {"run_id": "tool:1", "imported": {"row": 1, "original": {"a": 1}}}
            yield {"type": "assay.measurement.recorded.v1", "data": data, "id": "1", "subject": "tool:1"}

    (tmp_path / "r.ndjson").write_text(
        json.dumps({"path": "a/x.json", "row": 40, "reason": "", "format": "tool", "content": "1"})
    )
    _, event, _ = Rejects({"tool": Tool()}).rows(File(tmp_path / "r.ndjson", "r.ndjson"))
    assert event["data"]["imported"] == {"row": 40, "original": {"a": 1}}
    assert event["subject"] == event["data"]["run_id"] != "tool:1"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "is not JSON"),
        ("[]", "is no refusal"),
        ('{"path": "x", "reason": "cannot be unpacked"}', "cannot be unpacked"),
        ('{"path": "x", "reason": "r", "format": "rejects", "content": "y"}', "r"),
        ('{"path": "x", "reason": "r", "format": "nobody", "content": "y"}', "r"),
        ('{"path": "../../etc/x", "reason": "r", "format": "timm", "content": "y"}', "the name does not say"),
    ],
)
def test_lines_that_cannot_be_imported_are_refused_and_the_rest_goes_on(rejects, line, reason):
    path = rejects(HEADER + BAD)
    path.write_text(f"{line}\n{path.read_text().replace('fast', '20000.0')}")
    (_, mended, _), (refused,) = split(import_paths("rejects", [path]))
    assert refused.reason.startswith(reason)
    assert "measurement" in mended["type"]


def test_only_a_file_that_was_named_is_taken_for_one(rejects, tmp_path):
    path = rejects(HEADER + BAD)
    sniff = IMPORTERS["rejects"].sniff
    assert sniff(File(path, path.name, given=True))
    assert not sniff(File(path, path.name)), "in a folder it lies beside what it tells of"
    path.write_text('{"specversion": "1.0"}\n')
    assert not sniff(File(path, path.name, given=True))
