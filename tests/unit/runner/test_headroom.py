"""Free memory: the least of the machine's and of what every control group leaves."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from runner.machine.headroom import available_bytes

MB = 1_000_000


def version_two(folder: Path, limit: str, used: int, inactive: int = 0) -> Path:
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {inactive}\nactive_file 7\n")
    return folder


def version_one(folder: Path, limit: int, used: int, inactive: int) -> Path:
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"inactive_file 1\ntotal_inactive_file {inactive}\n")
    return folder


def test_without_groups_it_is_what_the_machine_has_available() -> None:
    assert available_bytes([]) == pytest.approx(psutil.virtual_memory().available, rel=0.2)


def test_a_group_leaves_its_limit_less_its_use_and_dropping_files_is_no_use(tmp_path) -> None:
    group = version_two(tmp_path / "a", str(100 * MB), 70 * MB, 20 * MB)
    assert available_bytes([group]) == 50 * MB


def test_the_narrowest_group_decides_of_both_versions(tmp_path) -> None:
    wide = version_two(tmp_path / "wide", str(90 * MB), 10 * MB)
    narrow = version_one(tmp_path / "narrow", 50 * MB, 30 * MB, 5 * MB)
    assert available_bytes([wide, narrow]) == available_bytes([narrow, wide]) == 25 * MB


def test_no_limit_is_no_limit_and_a_folder_without_this_controller_says_nothing(tmp_path) -> None:
    free = available_bytes([])
    two = version_two(tmp_path / "two", "max", 70 * MB)
    one = version_one(tmp_path / "one", 2**63 - 4096, 70 * MB, 0)
    assert available_bytes([two, one, tmp_path / "none"]) == pytest.approx(free, rel=0.2)


def test_a_group_that_is_over_its_limit_leaves_nothing(tmp_path) -> None:
    assert available_bytes([version_two(tmp_path / "a", str(10 * MB), 12 * MB)]) == 0
