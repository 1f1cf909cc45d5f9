"""Hostile inputs against a running service: every one is answered, and neither service nor log is the worse for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.torture.hostile.attack import Attack, cases, sample, table
from tests.torture.processes import Served

SAMPLE = int(os.environ.get("ASSAY_TORTURE_SAMPLE", "150"))


@pytest.fixture
def served(database, tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path / "home", url=database.url, ASSAY_BODY_DEADLINE_S="2").start()
    try:
        served.until_ready()
        yield served
    finally:
        served.stop()


@pytest.mark.parametrize("most", [SAMPLE, pytest.param(None, marks=pytest.mark.torture)], ids=["short", "long"])
def test_no_input_does_harm(most, served, figures):
    chosen = cases(httpx.get(f"{served.url}/schema/openapi.json", trust_env=False).json())
    assert len(chosen) >= 1000
    attack = Attack.on(served, sample(chosen, most) if most else chosen)
    assert not attack.wrong, "\n".join(ascii(line) for line in attack.wrong)
    assert served.stop() == 0
    figures(
        f"{len(attack.played):,} inputs; {attack.kept:,} events kept; peak memory {attack.peak_bytes / 1e6:,.0f} MB"
    )
    if not most:
        figures("\n" + table(attack))
