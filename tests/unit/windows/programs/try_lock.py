"""Try to lock a file, or wait for the lock; print whether it is held, and what the file says."""

import sys
from pathlib import Path

from domain.operating_system import lock, unlock

path = Path(sys.argv[1])
with path.open("r+b") as file, path.open("r+b") as other:
    held = lock(file.fileno(), wait="wait" in sys.argv)
    print(held, file.read().decode())
    if held:
        unlock(file.fileno())
        assert lock(other.fileno())
