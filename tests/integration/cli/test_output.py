"""Where stdout goes away or is full: a reader that leaves is no failure, and a full disk is a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ASSAY = str(Path(sys.executable).with_name("assay"))


@pytest.mark.parametrize("words", [("model", "list"), ("model", "list", "--json")])
def test_a_reader_that_leaves_ends_a_verb_quietly(words):
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run([ASSAY, *words], stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux alone has a device that is always full")
@pytest.mark.parametrize("words", [("model", "list"), ("model", "list", "--json")])
def test_a_full_disk_is_a_sentence(words):
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([ASSAY, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert ended.returncode == 3
    assert len(ended.stderr.strip().splitlines()) == 1 and "output" in ended.stderr
