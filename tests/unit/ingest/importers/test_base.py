"""Who reads which file, and what an importer's mistake does: it refuses that file, saying where, and the next is read."""

from __future__ import annotations

import zipfile

import pytest

from domain.errors import PartMissing, UnknownFormat, UsageError
from ingest.importers.files import File, total_bytes
from ingest.importers.reading import BadFile
from ingest.importers.refusals import CONTENT_CHARACTERS, BadRow, Refused, writable
from ingest.importers.registry import import_paths
from ingest.importers.summary import Summary
from ingest.importers.unknown_names import unresolved


class Lines:
    """One event a line; what a line raises is its word."""

    name = "lines"
    title = "lines"

    def sniff(self, file):
        if file.head().startswith("odd"):
            raise BadFile("odd")
        return file.suffix == ".lines"

    def rows(self, file):
        with file.open_text() as opened:
            for line in opened.read().split():
                if line == "key":
                    raise KeyError("model")
                if line == "row":
                    raise BadRow("ms", "is not a number")
                if line == "part":
                    raise PartMissing("this needs a package.")
                if line == "mapping":
                    raise UsageError("the mapping names no model.")
                yield {"type": "line", "data": {"line": line}, "source": "urn:assay:importer:lines"}


class Watched:
    def __init__(self):
        self.files, self.bytes = [], 0.0

    def opened(self, file, importer):
        self.files.append((file.base, importer.name if importer else None))

    def read(self, size):
        self.bytes += size


IMPORTERS = {"lines": Lines()}


@pytest.fixture
def folder(tmp_path):
    for name, content in {
        "a.lines": "1 2",
        "b.txt": "x",
        "c.lines": "3 key 4",
        "d.lines": "5",
        "e.lines": "odd",
    }.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def lines(items):
    return [item.reason if isinstance(item, Refused) else item["data"]["line"] for item in items]


def test_a_mistake_of_an_importer_refuses_the_file_and_says_where(folder):
    *_, last = items = list(import_paths("auto", [folder], IMPORTERS))
    assert lines(items)[:3] == ["1", "2", "3"]
    assert lines([last]) == ["5"]
    (refused,) = [item for item in items if isinstance(item, Refused)]
    assert refused.path == f"{folder.name}/c.lines"
    assert refused.reason.startswith("the importer failed: KeyError: 'model' (test_base.py, line ")
    assert refused.reason.endswith("please report it")
    with pytest.raises(KeyError):
        list(import_paths("auto", [folder], IMPORTERS, guarded=False))


@pytest.mark.parametrize(("word", "error"), [("part", PartMissing), ("mapping", UsageError)])
def test_what_the_user_has_to_put_right_ends_the_import(folder, word, error):
    (folder / "a.lines").write_text(word)
    with pytest.raises(error):
        list(import_paths("auto", [folder], IMPORTERS))


def test_a_row_or_a_file_that_an_importer_does_not_catch_refuses_the_file(folder):
    (folder / "a.lines").write_text("1 row 2")
    _, refused = import_paths("lines", [folder / "a.lines"], IMPORTERS)
    assert (refused.field, refused.reason, refused.format) == ("ms", "is not a number", "lines")
    (folder / "a.lines").write_bytes(b"\xff")
    (refused,) = import_paths("lines", [folder / "a.lines"], IMPORTERS)
    assert refused.reason.startswith("cannot be read: ")
    (folder / "a.lines").unlink()
    (folder / "a.lines").mkdir()
    assert list(import_paths("lines", [folder / "a.lines"], IMPORTERS)) == []


def test_who_names_format_and_file_has_decided_and_a_folder_is_sifted(folder):
    assert lines(import_paths("lines", [folder / "b.txt"], IMPORTERS)) == ["x"]
    assert "x" not in lines(import_paths("lines", [folder], IMPORTERS))
    assert lines(import_paths("auto", [folder / "b.txt"], IMPORTERS)) == ["no importer recognises this file"]
    with zipfile.ZipFile(folder / "old.zip", "w") as archive:
        archive.writestr("b.txt", "x")
        archive.writestr("z.lines", "9")
    assert lines(import_paths("lines", [folder / "old.zip"], IMPORTERS)) == ["9"]


def test_who_watches_sees_every_file_and_byte(folder):
    watched = Watched()
    list(import_paths("auto", [folder], IMPORTERS, watcher=watched))
    assert watched.files == [
        ("a.lines", "lines"), ("b.txt", None), ("c.lines", "lines"), ("d.lines", "lines"), ("e.lines", None),
    ]  # fmt: skip
    assert watched.bytes == pytest.approx(total_bytes([folder]))


def test_wrong_usage_is_told_before_anything_is_read(folder):
    with pytest.raises(UnknownFormat):
        import_paths("line", [folder], IMPORTERS)
    with pytest.raises(UsageError, match="there is no"):
        import_paths("lines", [folder, folder / "nothing"], IMPORTERS)


def measured(model, hardware="nvidia-l4", origin="imported", **more):
    data = {
        "model": {"id": model}, "hardware": {"id": hardware},
        "provenance": {"origin": origin, "reference": "x.csv"}, **more,
    }  # fmt: skip
    return {"type": "assay.measurement.recorded.v1", "source": "urn:assay:importer:lines", "data": data}


def test_a_summary_tells_what_the_rules_caught_with_an_example():
    summary = Summary()
    caught = {
        "imported": {"row": 7, "rules": ["round-spread", "impossible-speed"]},
        "validity": {"verdict": "invalid", "reasons": ["round-spread: ±10 %", "impossible-speed: one call in 1e-5 ms"]},
    }
    own = {"validity": {"verdict": "suspect", "reasons": ["time and rate differ"]}}
    list(summary.watch([measured("a"), measured("a", origin="simulated", **caught), measured("b", **own)]))
    assert summary.caught == {"round-spread": 1, "impossible-speed": 1, "the importer's own check": 1}
    assert summary.caught_examples["impossible-speed"] == ("x.csv", 7, "one call in 1e-5 ms")
    assert summary.caught_examples["the importer's own check"].why == "time and rate differ"
    assert summary.origins == {"imported": 2, "simulated": 1}
    assert summary.names["model"] == {"a": 2, "b": 1}
    assert summary.formats["urn:assay:importer:lines"].total() == 3


def test_reasons_that_differ_only_in_figures_are_one():
    summary = Summary()
    refused = [Refused(path="x", reason=f"has {n} fields where the header has 8", row=n) for n in range(5)]
    refused += [
        Refused(path="x", reason=f"odd {chr(97 + n // 26 % 26)}{chr(97 + n % 26)}{'z' * (n // 676)}")
        for n in range(3000)
    ]
    list(summary.watch(refused))
    assert summary.refused["has … fields where the header has …"] == 5
    assert summary.examples["has … fields where the header has …"].row == 0
    assert len(summary.refused) <= 1001
    assert summary.refused.total() == 3005


def test_a_refusal_can_be_written_whatever_it_holds():
    bad = Refused(path="a\x1b[2J\ud800", reason="x" * 9000, field="\n", content="\udfff=1\n")
    good = writable(bad)
    assert good.path == "a [2J\ufffd"
    assert (len(good.reason), good.field, good.content) == (500, " ", "\ufffd=1\n")
    assert writable(Refused(path="x", reason="y", content="z" * (CONTENT_CHARACTERS + 1))).content is None


def test_names_that_resolve_to_nothing_come_with_the_nearest():
    names = {
        "model": {"bert-base-uncasd": 5, "google-bert/bert-base-uncased": 9, "timm/resnet18": 3, "my/own": 2, "?": 1},
        "hardware": {"nvidia-l4": 9, "nvidia-h100-sxn": 7, "unknown-gpu": 30},
    }
    found = unresolved(names, {"model": {"my/own"}, "hardware": set()})
    assert [(one.kind, one.name, one.rows) for one in found] == [
        ("hardware", "unknown-gpu", 30), ("hardware", "nvidia-h100-sxn", 7), ("model", "bert-base-uncasd", 5), ("model", "?", 1),
    ]  # fmt: skip
    assert found[0].nearest == []
    assert found[1].nearest[0].startswith("nvidia-h100")
    assert found[2].nearest[0] == "google-bert/bert-base-uncased"


def test_a_file_keeps_its_head(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("model\n")
    file = File(path, "x.csv")
    assert file.head() == "model\n"
    path.unlink()
    assert file.head() == "model\n", "every importer asks for it, and it is read once"
