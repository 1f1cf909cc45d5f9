"""Lock a file until stdin ends."""

import sys
from pathlib import Path

from domain.operating_system import lock

with Path(sys.argv[1]).open("r+b") as file:
    print(lock(file.fileno()), flush=True)
    sys.stdin.read()
