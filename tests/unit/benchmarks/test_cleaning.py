"""The labels can be read and are enough; the score is the one that anybody would work out by hand."""

from __future__ import annotations

import json

import pytest

from research.cleaning import Label, Row, judged, labels, score


def test_there_are_labels_of_both_kinds_each_with_a_reason():
    found = labels()
    assert len(found) >= 200
    assert 0.3 < sum(label.simulated for label in found) / len(found) < 0.7
    assert all(label.why and not label.path.startswith("/") for label in found)


def test_a_label_that_is_neither_and_a_record_with_two_are_refused(tmp_path):
    path = tmp_path / "labels.csv"
    for rows in ("a.json,x,maybe,why\n", "a.json,x,genuine,why\na.json,x,simulated,why\n"):
        path.write_text("path,record,label,why\n" + rows)
        with pytest.raises(ValueError, match="cannot be used"):
            labels(path)


def test_precision_and_recall_are_counted_by_record():
    labelled = [Label("f", str(number), number < 4, "") for number in range(8)] + [Label("f", "gone", True, "")]
    rows = {("f", str(number)): Row(number in (0, 1, 2, 4), ()) for number in range(8)}
    result = score(labelled, rows)
    assert (result.precision, result.recall) == (3 / 4, 3 / 4)
    assert [label.record for label in result.missed] == ["3"]
    assert [label.record for label in result.blamed] == ["4"]
    assert [label.record for label in result.absent] == ["gone"]


def test_rows_are_found_by_the_name_of_the_file_and_the_place_in_it(tmp_path):
    folder = tmp_path / "old"
    (folder / "web").mkdir(parents=True)
    result = {
        "model_name": "acme/tiny", "platform": "webgpu", "status": "success", "browser_opened": False,
        "is_simulation": True, "metrics": {"inference_time_ms": 80, "load_time_ms": 480},
    }  # fmt: skip
    (folder / "web" / "result.json").write_text(json.dumps(result))
    rows, caught, total = judged(folder)
    assert rows == {("web/result.json", ""): Row(True, ("simulated-flag", "typed-figures"))}
    assert (caught["simulated-flag"], total) == (1, 1)
