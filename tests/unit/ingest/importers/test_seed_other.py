"""The earlier framework's files without results: a person who names one is told what it is; in a folder they are passed over."""

from __future__ import annotations

import pytest

from ingest.importers.legacy.other import SeedOther, what_it_is
from ingest.importers.refusals import Refused
from ingest.importers.registry import IMPORTERS

SHAPES = {
    "configuration": {"batch_sizes": [1], "warmup_iterations": 5, "benchmark_iterations": 20, "model_families": {}},
    "mended": {"total_files": 2, "files_fixed": 0, "total_issues_fixed": 0, "files_details": []},
    "list of models": {"bert": {"name": "acme/tiny", "family": "embedding", "size": "small", "modality": "text"}},
    "remote services": {"endpoint_handler": "Success", "test_endpoint": "Success"},
    "browser": {"browser": "edge", "webnn": {"supported": False}, "webgpu": {}, "webgl": {}},
}


@pytest.mark.parametrize(("what", "content"), SHAPES.items())
def test_it_says_what_a_file_is(place, what, content):
    file = place(content, "x.json")
    assert what in (what_it_is(file) or "")
    assert [name for name, importer in IMPORTERS.items() if importer.sniff(file)] == ["seed-other"]
    (refused,) = SeedOther().rows(file)
    assert isinstance(refused, Refused) and what in refused.reason
    assert list(SeedOther().rows(file._replace(given=False) if hasattr(file, "_replace") else _lying(file))) == []


def _lying(file):
    import dataclasses

    return dataclasses.replace(file, given=False)


def test_files_with_results_and_strange_files_are_left_alone(place):
    assert what_it_is(place({"model_name": "acme/tiny", "latency": 3}, "y.json")) is None
    assert what_it_is(place("[1, 2", "z.json")) is None
    assert what_it_is(place("name,value\n", "z.csv")) is None
    assert what_it_is(place(["acme/one"], "model_list/own.json")) == "a list of models"
