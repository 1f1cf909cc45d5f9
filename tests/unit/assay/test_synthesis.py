"""Made-up measurements: valid, repeatable, of the catalogues, and never to be taken for real ones."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest

from assay.cli import run
from assay.cli.keep.bench_data import _require_no_real_data
from assay.synthesis import events, lines_of
from domain.catalogues import hardware, models
from domain.errors import UsageError
from domain.events import decode_event


def test_every_event_passes_the_gate_and_says_that_nobody_measured_it():
    lines = list(events(1500, seed=7))
    decoded = [decode_event(line) for line in lines]
    assert len(lines) == lines_of(1500) == 1504
    assert len({one.id for one in decoded}) == 1504 and all(one.warnings == () for one in decoded)
    kinds = Counter(one.type for one in decoded)
    assert kinds["assay.run.started.v1"] == kinds["assay.run.finished.v1"] == 2
    assert kinds["assay.measurement.recorded.v1"] + kinds["assay.measurement.failed.v1"] == 1500
    assert 0 < kinds["assay.measurement.failed.v1"] < 500
    facts = [json.loads(line)["data"] for line in lines if b".measurement." in line]
    assert {fact["provenance"]["origin"] for fact in facts} == {"simulated"}
    assert all("seed 7" in fact["provenance"]["source"] for fact in facts)


def test_the_load_is_spread_over_models_hardware_and_configurations_of_the_catalogues():
    facts = [json.loads(line)["data"] for line in events(3000, seed=1) if b".measurement." in line]
    used_models = {fact["model"]["id"] for fact in facts}
    used_hardware = {fact["hardware"]["id"] for fact in facts}
    assert used_models <= {model.id for model in models.catalogue()} and len(used_models) > 100
    assert used_hardware <= set(hardware.catalogue()) and len(used_hardware) > 100
    assert {"inference", "training"} == {fact["workload"]["mode"] for fact in facts}
    assert (
        len({json.dumps([fact[part] for part in ("model", "workload", "execution", "hardware")]) for fact in facts})
        > 2800
    )
    for fact in facts:
        platforms = hardware.catalogue()[fact["hardware"]["id"]].platforms
        assert fact["execution"]["precision"] in platforms[fact["execution"]["platform"]]


def test_equal_seeds_give_equal_bytes_and_longer_loads_begin_alike():
    assert list(events(1200, seed=3)) == list(events(1200, seed=3))
    assert list(events(1000, seed=3)) == list(events(2000, seed=3))[:1002]
    assert not set(events(50, seed=3)) & set(events(50, seed=4))


def test_a_load_can_be_of_so_many_models_and_devices():
    facts = [
        json.loads(line)["data"] for line in events(4000, seed=1, works=300, devices=40) if b".measurement." in line
    ]
    used = {fact["model"]["id"] for fact in facts}
    known = {model.id for model in models.catalogue()}
    assert len(used) == 300 and known < used
    assert all(name.rpartition("-made-up-")[0] in known for name in used - known)
    assert len({fact["hardware"]["id"] for fact in facts}) == 40
    assert {fact["hardware"]["kind"] for fact in facts} >= {"cpu", "gpu"}


@pytest.mark.parametrize("name", ["load.ndjson", "load.ndjson.gz"])
def test_a_file_appears_whole_and_is_the_same_again(tmp_path, capsys, name):
    path = tmp_path / name
    assert run(["bench-data", "--rows", "40", "--seed", "5", "--out", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    content = path.read_bytes()
    assert told["events"] == 42 and told["bytes"] == len(content)
    text = gzip.decompress(content) if name.endswith(".gz") else content
    assert text.splitlines() == list(events(40, seed=5))
    assert run(["bench-data", "--rows", "40", "--seed", "5", "--out", str(path), "--force"]) == 0
    assert path.read_bytes() == content and [one.name for one in tmp_path.iterdir()] == [name]


def test_a_place_that_cannot_be_written_is_named(tmp_path, capsys):
    assert run(["bench-data", "--rows", "1", "--out", str(tmp_path / "none" / "load.ndjson")]) == 2
    assert "cannot be written" in capsys.readouterr().err


class Service:
    """What a service says of its origins."""

    server = "http://127.0.0.1:8000"

    def __init__(self, genuine):
        self.genuine = genuine
        self.waited = None

    def ready(self):
        return {"log_position": 7}

    def wait_for(self, position):
        self.waited = position

    def query(self, sql):
        assert "origin <> 'simulated'" in sql
        return {"rows": [[self.genuine]]}


def test_real_data_are_not_mixed_with_made_up_ones_unless_somebody_insists():
    with pytest.raises(UsageError, match="holds 3 measurements"):
        _require_no_real_data(Service(3), force=False)
    _require_no_real_data(Service(3), force=True)
    empty = Service(0)
    _require_no_real_data(empty, force=False)
    assert empty.waited == 7
