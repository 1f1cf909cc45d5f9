"""Lock, fail, wait and unlock by Windows' means, and check what its C library is asked for."""

import os
import sys
from pathlib import Path

import domain.operating_system as system

calls = []
answers = [None, PermissionError(13, "Permission denied"), PermissionError(13, "Permission denied"), None, None]


def locking(descriptor, mode, count):
    calls.append((mode, count, os.lseek(descriptor, 0, os.SEEK_CUR)))
    if (answer := answers.pop(0)) is not None:
        raise answer


system.msvcrt.locking = locking
with Path(sys.argv[1]).open("r+b") as file:
    file.seek(3)
    descriptor = file.fileno()
    assert system.lock(descriptor)
    assert not system.lock(descriptor)
    assert system.lock(descriptor, wait=True)
    system.unlock(descriptor)
    assert os.lseek(descriptor, 0, os.SEEK_CUR) == 3
modes = {system.msvcrt.LK_NBLCK: "try", system.msvcrt.LK_UNLCK: "unlock"}
assert [modes[mode] for mode, _, _ in calls] == ["try", "try", "try", "try", "unlock"]
assert {(count, place) for _, count, place in calls} == {(1, 1 << 30)}
