"""Start a child that has a task and does not end, print its process id, and wait for it."""

import subprocess
import sys
from pathlib import Path

words = [sys.executable, str(Path(__file__).with_name("be_child.py")), "forever"]
process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
assert process.stdin is not None
assert process.stdout is not None
process.stdin.write(b"run\n")
process.stdin.flush()
process.stdout.readline()
print(process.pid, flush=True)
process.wait()
