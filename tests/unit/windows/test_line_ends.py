"""Files with Windows' line ends, and names that Windows refuses."""

from __future__ import annotations

import csv
import io
import json
import string
from pathlib import Path, PureWindowsPath

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import domain
import ingest
import predictor
import runner
from domain.performance.standard_kernels import STANDARD_KERNELS
from ingest.importers.files import File
from ingest.importers.serving.llama_bench import LlamaBench
from runner.machine.devices.lock import take
from runner.spool.event_file import read_lines
from runner.spool.post import post_files

FORBIDDEN = set('<>:"/\\|?*') | {chr(code) for code in range(32)}
OBJECTS = st.dictionaries(st.text(string.printable, min_size=1), st.text() | st.integers(), min_size=1)
ROW = {
    "build_commit": "abcdef12", "build_number": 6000, "cpu_info": "AMD EPYC 7763 64-Core Processor",
    "gpu_info": "NVIDIA GeForce RTX 4090", "backends": "CUDA", "model_filename": "Acme-Tiny-7B-Q4_K_M.gguf",
    "model_type": "qwen2 7B Q4_K - Medium", "model_size": 4677120000, "model_n_params": 7615616512, "n_batch": 2048,
    "n_ubatch": 512, "n_threads": 8, "type_k": "f16", "type_v": "f16", "n_gpu_layers": 99, "n_prompt": 512, "n_gen": 0,
    "test_time": "2026-03-04T05:06:07Z", "avg_ns": 70000000, "stddev_ns": 1000000, "avg_ts": 7314.2857, "stddev_ts": 104.0,
}  # fmt: skip


def legal(name: str) -> bool:
    reserved = PureWindowsPath(name).is_reserved()
    return 0 < len(name) <= 255 and not FORBIDDEN & set(name) and name[-1] not in ". " and not reserved


@given(st.lists(OBJECTS, min_size=1, max_size=5))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_events_are_the_same_with_either_line_end(tmp_path, objects):
    lines = [json.dumps(each).encode() for each in objects]
    for end in (b"\n", b"\r\n"):
        (tmp_path / "events.ndjson").write_bytes(end.join(lines) + end)
        assert [*read_lines(tmp_path / "events.ndjson")] == lines


def test_posted_bytes_are_the_same_with_either_line_end(tmp_path, build):
    lines = [json.dumps(build.measurement()).encode() for _ in range(3)]
    sent: list[list[bytes]] = []

    def send(batch):
        sent.append([*batch])
        return {"accepted": len(batch), "duplicate": 0, "rejected": [], "last_position": 1}

    for end in (b"\n", b"\r\n"):
        (tmp_path / "events.ndjson").write_bytes(end.join(lines) + end)
        assert post_files([tmp_path / "events.ndjson"], send).accepted == 3
    assert sent == [lines, lines]


def test_imported_rows_are_the_same_with_either_line_end(tmp_path):
    table = io.StringIO()
    writer = csv.DictWriter(table, ROW, lineterminator="\n")
    writer.writeheader()
    writer.writerow(ROW)
    rows = []
    for end in ("\n", "\r\n"):
        (tmp_path / "bench.csv").write_bytes(table.getvalue().replace("\n", end).encode())
        events = list(LlamaBench().rows(File(tmp_path / "bench.csv", "bench.csv", given=True)))
        rows.append([event["data"] | {"run_id": None} for event in events if ".run." not in event["type"]])
    assert rows[0] == rows[1] and len(rows[0]) == 1


@given(st.text(min_size=1, max_size=100) | st.sampled_from(["CON", "NUL", "COM1.txt", "cuda:0", "a/b", "..", "x. "]))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_locks_of_devices_have_names_that_windows_takes(tmp_path, key):
    take(key, tmp_path).close()
    assert all(legal(path.name) for path in tmp_path.iterdir())


def test_files_that_ship_have_names_that_windows_takes():
    roots = [Path(str(module.__file__)).parent for module in (domain, ingest, predictor, runner)]
    names = [path for root in roots for path in root.rglob("*")]
    assert len(names) > 300 and not [path for path in names if not legal(path.name)]
    assert all(legal(f"{kernel.name}-fp32.part") for kernel in STANDARD_KERNELS)
