"""One line of hundreds of megabytes in a user's file costs no more memory than a short one."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

LINE_BYTES = 300_000_000
MOST_MIB = 220
"""Peak of a process that holds no more than one permitted line; the verb itself takes 40 to 110 MiB."""
PEAK = """
import resource, sys
from pathlib import Path
from assay.cli import run
code = run(sys.argv[1:])
status = Path("/proc/self/status")
if status.exists():
    # ru_maxrss counts what the process that started this one held.
    kibibytes = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
else:
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(code, kibibytes // 1024)
"""


@pytest.fixture(scope="module")
def long_line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one line in a plain file and in a compressed one."""
    folder = tmp_path_factory.mktemp("long")
    with (folder / "long.ndjson").open("wb") as file:
        file.truncate(LINE_BYTES)
    (folder / "long.csv").symlink_to(folder / "long.ndjson")
    with gzip.open(folder / "long.ndjson.gz", "wb", compresslevel=1) as packed:
        for _ in range(LINE_BYTES // 1_000_000):
            packed.write(bytes(1_000_000))
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "post --check long.ndjson",
        "post --check long.ndjson.gz",
        "import rejects --dry-run long.ndjson",
        "import benchmark-app --dry-run long.csv",
        "import mlperf --dry-run long.csv",
        "regressions --candidate long.ndjson --save side.json",
        "regressions --candidate long.csv --save side.json",
    ],
)
def test_long_line_is_refused_in_little_memory(long_line: Path, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *words.split()],
        cwd=long_line,
        env=os.environ | {"ASSAY_HOME": str(long_line / "home")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    code, peak_mib = map(int, done.stdout.split()[-2:])
    assert code in (1, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert peak_mib < MOST_MIB
