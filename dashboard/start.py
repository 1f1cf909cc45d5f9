"""Starts Streamlit as its own command does, and imports every page meanwhile, so that nobody's first page waits for that."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

__all__ = ["main", "warm"]

HOUSE = Path(__file__).resolve().parent
ROOT = next(folder for folder in HOUSE.parents if not (folder / "__init__.py").exists())
"""What must be on the path: the clone, or site-packages, where the packages are one level deeper."""
LONGEST_S = 30.0


def warm() -> None:
    """Import what the pages of the menu need, once Streamlit is there; a page that cannot be imported says so when it is opened."""
    from streamlit import runtime

    until = time.monotonic() + LONGEST_S
    # What keeps answers looks for the runtime when it is imported, and nothing tells when that has come.
    while not runtime.exists() and time.monotonic() < until:
        time.sleep(0.02)
    import dashboard
    from dashboard.menu import MENU

    names = [entry.name for entries in MENU.values() for entry in entries]
    for name in names:
        try:
            import_module(f".screens.{name}.view", dashboard.__name__)
        except Exception:
            logging.getLogger("assay.dashboard").exception("The page %s cannot be imported", name)
    # Streamlit collects garbage after each run of a script; half of a run went into looking at what was imported.
    gc.collect()
    gc.freeze()


def main() -> None:
    """Run Streamlit's command line."""
    # As a script this folder would stand before the libraries.
    sys.path[:] = [path for path in sys.path if path != str(HOUSE)]
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from streamlit.web.cli import main as streamlit

    # Before it answers: who waits for that waits for the largest part of a first page too.
    for library in ("pandas", "altair"):
        import_module(library)
    threading.Thread(target=warm, name="warm", daemon=True).start()
    sys.argv[0] = "streamlit"
    streamlit()


if __name__ == "__main__":
    main()
