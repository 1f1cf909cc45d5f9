"""Start a process that starts another, and end both by the first."""

import subprocess
import sys
from contextlib import suppress

import psutil

from runner.protocol.parent import descendants, end_tree

INNER = "import time; time.sleep(600)"
OUTER = f"import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', {INNER!r}]); print(c.pid, flush=True); c.wait()"

process = subprocess.Popen([sys.executable, "-c", OUTER], stdout=subprocess.PIPE, text=True, start_new_session=True)
assert process.stdout is not None
with process.stdout as pipe:
    grandchild = int(pipe.readline())
try:
    assert grandchild in [each.pid for each in descendants(process.pid)]
    end_tree(process)
    process.wait(30)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(grandchild).wait(30)
finally:
    for pid in (process.pid, grandchild):
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()
