"""Ends a browser and removes its profile when the process that started it is gone: run as a module, with the profile.

It waits for the end of its standard input, which comes when that process closes it or is killed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import sleep

_LOOKS, _LOOK_S = 10, 0.2


def main() -> int:
    """Wait, then clean up what is left."""
    sys.stdin.buffer.read()
    profile = Path(sys.argv[1])
    if profile.exists():
        from runner.browser.drivers.base import end_processes, remove_folder

        end_processes(profile)
        remove_folder(profile)
        # A browser whose pipes closed ends by itself, and may write the index of its cache once more.
        for _ in range(_LOOKS):
            sleep(_LOOK_S)
            remove_folder(profile)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
