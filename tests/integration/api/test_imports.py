"""Files of other tools over HTTP: a dry run that says what would come of them, and an import that says what did."""

from __future__ import annotations

import io
import uuid
import zipfile
from typing import Any

import pytest

from domain.errors import InvalidInput, NotFound, PayloadTooLarge, UnknownFormat
from ingest import evidence

HEAD = (
    "model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size,param_count,infer_gmacs,infer_macts\n"
)
NAME = "benchmark-infer-amp-nhwc-pt113-cu117-rtx3090.csv"


@pytest.fixture
def table() -> dict[str, bytes]:
    """A table of two rows of a model that nobody else has, and one without its time."""
    model = f"resnet_{uuid.uuid4().hex[:8]}"
    rows = [
        f"{model},224,1000.0,64.0,64,25.5,4.1,11.1",
        f"{model},288,500.0,128.0,64,25.5,6.8,18.3",
        f"{model},320,,,64,25.5,8,9",
    ]
    return {NAME: (HEAD + "\n".join(rows)).encode()}


def test_a_dry_run_says_what_would_be_added_and_what_is_refused_and_adds_nothing(
    client: Any, table: dict[str, bytes]
) -> None:
    before = client.ready()["position"]
    found = client.import_files(table)
    assert found["dry_run"] is True and found["accepted"] is None
    assert found["events"]["assay.measurement.recorded.v1"] == 2
    assert (len(found["models"]), found["hardware"]) == (1, ["nvidia-rtx-3090"])
    (refused,) = found["refused"]
    assert (refused["rows"], refused["row"], refused["path"]) == (1, 4, NAME)
    assert found["rows_refused"] == 1
    assert client.ready()["position"] == before


def test_an_import_adds_what_the_dry_run_said_and_again_changes_nothing(client: Any, table: dict[str, bytes]) -> None:
    dry = client.import_files(table)
    done = client.import_files(table, dry_run=False)
    assert {name: done[name] for name in ("events", "models", "refused")} == {
        name: dry[name] for name in ("events", "models", "refused")
    }
    assert (done["accepted"], done["duplicate"]) == (sum(dry["events"].values()), 0)
    client.wait_for(done["last_position"])
    assert len(client.measurements(model=done["models"][0])) == 2
    again = client.import_files(table, dry_run=False)
    assert (again["accepted"], again["duplicate"]) == (0, done["accepted"])


def test_an_archive_is_opened_and_what_nobody_recognises_is_refused(client: Any, table: dict[str, bytes]) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"results/{NAME}", table[NAME])
    found = client.import_files({"results.zip": packed.getvalue(), "notes.txt": b"nothing of the kind"})
    assert found["events"]["assay.measurement.recorded.v1"] == 2
    assert {refused["path"] for refused in found["refused"]} == {f"results.zip/results/{NAME}", "notes.txt"}


@pytest.mark.parametrize("name", ["../up.csv", "/etc/passwd", "", "..", "a\x00b"])
def test_a_file_is_named_without_a_folder(client: Any, name: str) -> None:
    with pytest.raises(InvalidInput):
        client.import_files({name: b"x"})


def test_what_is_too_large_is_left_to_the_command(client: Any) -> None:
    rows = "".join(f"m{at},224,1000.0,64.0,64,25.5,4.1,11.1\n" for at in range(50_001))
    with pytest.raises(PayloadTooLarge, match="assay import auto"):
        client.import_files({NAME: (HEAD + rows).encode()})
    with pytest.raises(UnknownFormat):
        client.import_files({NAME: b""}, format="moon")


def test_a_source_of_the_published_measurements_is_added_once(client: Any) -> None:
    with pytest.raises(NotFound, match="timm"):
        client.add_shipped_data(["moon"])
    first = client.add_shipped_data(["whisper-cpp"])
    assert (0 < first["accepted"] < 1000, first["duplicate"]) == (True, 0)
    again = client.add_shipped_data(["whisper-cpp"])
    assert (again["accepted"], again["duplicate"]) == (0, first["accepted"])


@pytest.mark.torture
def test_the_published_measurements_are_added_once(fresh_service: Any) -> None:
    service = fresh_service().start()
    with service.client() as client:
        first = client.add_shipped_data(["whisper-cpp"])["accepted"]
        assert 0 < first < 1000
        added = client.add_shipped_data()
        assert (added["accepted"], added["duplicate"]) == (evidence.count() - first, first)
        assert client.add_shipped_data()["duplicate"] == evidence.count()
