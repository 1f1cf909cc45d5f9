"""Write, go on with, replace and prune files while others are open."""

from pathlib import Path

from assay.staging import Staged
from runner.campaign.campaign import ArtifactStore
from runner.machine.signing import make_key
from runner.spool.event_file import EventFile, read_lines

for path in (Path("events.ndjson"), Path("events.ndjson.gz")):
    for resume in (False, True, True):
        file = EventFile(path, resume=resume)
        file.write({"id": "one"})
        file.close()
    assert [*read_lines(path)] == [b'{"id":"one"}'] * 3, path
for force in (False, True):
    with Staged(force=force) as staged:
        staged.file(Path("answer.csv")).write_text("a,b", encoding="utf-8")
        (staged.folder(Path("tables")) / "runs.csv").write_text("a", encoding="utf-8")
assert make_key(Path.cwd()).private_bytes_raw() == make_key(Path.cwd()).private_bytes_raw()


def make(folder):
    (folder / "model.bin").write_bytes(b"0" * 100)
    return True


store = ArtifactStore(Path("cache"), limit_bytes=150)
first = store.obtain({"model": 1}, make)
with (first / "model.bin").open("rb"):
    store.obtain({"model": 2}, make)
    assert (first / "model.bin").stat().st_size == 100
store.obtain({"model": 3}, make)
assert not first.exists()
