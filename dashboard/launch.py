"""The command that starts the dashboard, the same from a clone and from an installed wheel."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from domain.hosts import ENVIRONMENT as ALLOWED_HOSTS
from domain.hosts import allowed_hosts

__all__ = ["SCRIPT", "command"]

SCRIPT = Path(__file__).with_name("app.py")
_START, _SERVED = SCRIPT.with_name("start.py"), SCRIPT.with_name("server.py")


def command(port: int = 8501, server: str | None = None, *, host: str = "127.0.0.1") -> list[str]:
    """Return the arguments that run the dashboard on a port, asking the Assay service at `server`.

    Without a server the dashboard asks the one named by `ASSAY_SERVER`, or the one that runs on `ASSAY_HOME`. A file named
    by `ASSAY_SIGN_IN` tells who may see what (`dashboard.sign_in`). Raises UsageError where `ASSAY_ALLOWED_HOSTS` has an entry
    that is not a host name.
    """
    allowed_hosts(os.environ.get(ALLOWED_HOSTS, ""), host)
    words = [
        sys.executable,
        "-P",
        str(_START),
        "run",
        str(_SERVED),
        "--server.port",
        str(port),
        "--server.address",
        host,
        "--server.headless",
        "true",
        "--server.fileWatcherType",
        "none",
        "--browser.gatherUsageStats",
        "false",
    ]
    if os.environ.get("ASSAY_SIGN_IN"):
        words += ["--secrets.files", str(Path(os.environ["ASSAY_SIGN_IN"]).absolute())]
    return words if server is None else [*words, "--", "--server", server]
