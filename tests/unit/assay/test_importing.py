"""`assay import` as it is typed, without a service: what it says, writes and answers with."""

from __future__ import annotations

import json

import pytest
from click.exceptions import Abort
from click.testing import CliRunner

from assay.cli.keep.importing import import_
from assay.cli.keep.name_file import read_names, write_names
from domain.errors import InvalidInput, UsageError
from ingest.importers import IMPORTERS
from ingest.importers.unknown_names import Unresolved

NAME = "benchmark-infer-amp-nhwc-pt240-cu124-rtx4090.csv"
HEADER = "model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size,param_count\n"
ROWS = "vit_tiny_patch16_224,224,20000.0,12.8,256,5.72\nresnet18,224,20000.0,14.0,256,11.7\n"
BAD = "resnet34,224,fast,12.8,256,21.8\n=1+1,224,20000.0,12.8,256,5.7\n"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "old"
    path.mkdir()
    (path / NAME).write_text(HEADER + ROWS + BAD)
    (path / "notes.txt").write_text("nothing")
    (path / NAME.replace("4090", "6090")).write_text(HEADER + ROWS)
    return path


def run(*words, code=0):
    result = CliRunner().invoke(import_, [str(word) for word in words], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert result.return_value == code, result.output
    return result.stdout, result.stderr


def answer(*words, code=0):
    return json.loads(run(*words, "--json", code=code)[0])


def test_a_dry_run_tells_what_would_become_of_every_row(folder):
    told = answer("auto", folder, "--dry-run", code=1)
    assert told["files"] == {"read": 2, "passed_over": 1}
    assert (
        told["formats"]["timm"]["assay.measurement.recorded.v1"] == told["read"]["assay.measurement.recorded.v1"] == 4
    )
    assert (told["accepted"], told["duplicate"]) == (None, None)
    assert told["origins"] == {"imported": 4}
    assert [(one["rule"], one["rows"]) for one in told["caught"]] == [("the importer's own check", 2)]
    assert told["refused"] == 2
    reason = next(one for one in told["reasons"] if "not a number" in one["reason"])
    assert {name: reason["example"][name] for name in ("path", "row", "field")} == {
        "path": f"old/{NAME}", "row": 4, "field": "infer_samples_per_sec",
    }  # fmt: skip
    (name,) = told["names"]
    assert (name["kind"], name["name"], name["rows"]) == ("hardware", "rtx6090", 2) or name["name"].endswith("6090")


def test_the_summary_fits_into_100_columns_and_names_the_commands(folder):
    out, err = run("auto", folder, "--dry-run", code=1)
    assert max(map(len, out.splitlines())) <= 100
    for words in (
        "Taken",
        "timm",
        "Refused",
        "is not a number",
        "row 4",
        "Caught by a rule",
        "names that resolve to nothing",
    ):
        assert words in out
    assert "assay hardware alias" in out
    assert "2 files read, 1 passed over" in err
    assert "nothing was sent" in err


def test_what_is_refused_is_written_to_be_mended(folder, tmp_path):
    path = tmp_path / "refused.ndjson"
    _, err = run("timm", folder, "--dry-run", "--rejects", path, code=1)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["row"] for line in lines] == [4, 5]
    assert lines[0]["content"] == HEADER + BAD.splitlines()[0] + "\n"
    assert str(path) in err.replace("\n", "")
    path.write_text(path.read_text().replace("fast", "20000.0").replace("=1+1", "resnet50"))
    assert answer("auto", path, "--dry-run")["read"]["assay.measurement.recorded.v1"] == 2


def test_the_file_of_rejects_is_there_when_an_import_is_interrupted(folder, tmp_path, monkeypatch):
    rows = type(IMPORTERS["timm"]).rows

    def interrupted(self, file):
        for item in rows(self, file):
            yield item
            if "refus" in type(item).__name__.lower():
                raise KeyboardInterrupt

    monkeypatch.setattr(type(IMPORTERS["timm"]), "rows", interrupted)
    with pytest.raises(Abort):
        run("auto", folder, "--dry-run", "--rejects", tmp_path / "refused.ndjson")
    assert len((tmp_path / "refused.ndjson").read_text().splitlines()) == 1


def test_nothing_recognised_is_a_no(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    _, err = run("auto", tmp_path, "--dry-run", code=1)
    assert "no file was recognised" in err


def test_formats_are_listed():
    told = answer("--list")
    assert {one["format"] for one in told} == set(IMPORTERS)
    assert "pytorch-image-models" in str(run("--list")[0]) or "timm" in run("--list")[0]


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ((), "format"),
        (("auto",), "format"),
        (("tim", "."), "format"),
        (("auto", "no-such-file"), "path"),
        (("timm", ".", "--mapping", "x.yaml"), "mapping"),
        (("timm", ".", "--template"), "template"),
        (("auto", ".", "--dry-run", "--rejects", "/no/such/folder/x"), "rejects"),
    ],
)
def test_wrong_usage_names_the_field(words, field):
    with pytest.raises(InvalidInput) as caught:
        run(*words)
    assert caught.value.field == field


def test_a_file_to_import_is_not_overwritten_with_its_own_rejects(folder):
    path = folder / NAME
    for force in ((), ("--force",)):
        with pytest.raises(UsageError, match="used twice" if force else "exists"):
            run("timm", path, "--dry-run", "--rejects", path, *force)
    assert path.read_text().startswith(HEADER)


def test_names_are_written_filled_in_and_read(tmp_path):
    path = tmp_path / "names.yaml"
    odd = 'a: "b" #c\\'
    write_names(path, [
        Unresolved(kind="model", name=odd, rows=1),
        Unresolved(kind="model", name="null", rows=2, nearest=["google-bert/bert-base-uncased"]),
        Unresolved(kind="hardware", name="my-gpu", rows=3),
    ])  # fmt: skip
    assert read_names(path, "model") == {}
    text = path.read_text()
    assert "# 2 rows; nearest: google-bert/bert-base-uncased" in text
    path.write_text(
        text.replace(f"{json.dumps(odd)}:", f"{json.dumps(odd)}: t5-small").replace('"my-gpu":', '"my-gpu": nvidia-l4')
    )
    assert read_names(path, "model") == {odd: "t5-small"}
    assert read_names(path, "hardware") == {"my-gpu": "nvidia-l4"}


@pytest.mark.parametrize("content", ["model: [1]", "- a", "model:\n  1: 2", "{", "hardware: {a: b}", "", b"\xff"])
def test_a_file_of_names_that_is_none_is_wrong_usage(tmp_path, content):
    path = tmp_path / "names.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError):
        read_names(path, "model")
