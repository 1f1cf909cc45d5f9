"""The pictures of docs/gallery.md, from a service that was started for them and holds the measurements of data/: `make gallery`.

The same data and the same code give the same pictures, but for times of day; what a page looks like is looked at, not tested.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import httpx

from assay.client import Client
from benchmarks.answer_speed import filled
from benchmarks.browsing import dashboard
from benchmarks.serving import ROOT, service
from dashboard import gallery
from ingest.migrate import upgrade
from ingest.postgres import open_database

MODEL, HARDWARE = "google/vit-base-patch16-224", "intel-xeon-2c"
IMAGES = ROOT / "docs" / "images"


def main() -> int:
    """Write every picture, and print its size."""
    with tempfile.TemporaryDirectory(prefix="assay-gallery-") as name:
        folder = Path(name)
        database = open_database(folder / "postgres")
        try:
            upgrade(database.url)
            with service(folder / "home", database) as running:
                # A proxy of the environment is for other hosts.
                with httpx.Client(base_url=running.url, timeout=120, trust_env=False) as posting:
                    filled(posting)
                with Client(running.url) as client:
                    run = str(client.runs(limit=1)[0]["run_id"])
                with dashboard(running.url, folder / "dashboard") as shown:
                    asked = ["--url", shown.url, "--model", MODEL, "--hardware", HARDWARE, "--run", run]
                    return gallery.main([*asked, "--out", str(IMAGES)])
        finally:
            database.close()


if __name__ == "__main__":
    sys.exit(main())
