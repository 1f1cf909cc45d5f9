"""The pictures of docs/gallery.md, from a service of their own with the published measurements and those of data/: `make gallery`.

`python -m benchmarks.pictures PAGE…` takes those of some pages alone. Only Trends, Regressions and Jobs show what is made up (`benchmarks.story`).
The same data and the same code give the same pictures, but for times of day; what a page looks like is looked at, not tested.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import httpx

from assay.client import Client
from benchmarks import story
from benchmarks.answer_speed import filled
from benchmarks.browsing import dashboard
from benchmarks.serving import ROOT, service
from dashboard import gallery
from ingest.log.migrate import upgrade
from ingest.log.postgres import open_database

MODEL, HARDWARE = "google-bert/bert-base-uncased", "nvidia-l4"
TOLD = ("trends", "regressions")
"""Pages that have no story to tell of two days."""
QUEUED = "jobs"
"""The page of the queue, which is empty before the story fills it."""
WATCHED_S = 60.0
"""How long the service may take to raise the story's alerts."""
IMAGES = ROOT / "docs" / "images"


def main(pages: Sequence[str] = ()) -> int:
    """Write every picture, or those of these pages, and print its size."""
    pages = pages or list(gallery.PAGES)
    with tempfile.TemporaryDirectory(prefix="assay-gallery-") as name:
        folder = Path(name)
        database = open_database(folder / "postgres")
        try:
            upgrade(database.url)
            with service(folder / "home", database, "--shipped-data") as running:
                # A proxy of the environment is for other hosts.
                with httpx.Client(base_url=running.url, timeout=120, trust_env=False) as posting:
                    filled(posting)
                with Client(running.url) as client:
                    run = str(client.runs(kind="bench", limit=1)[0]["run_id"])
                with dashboard(running.url, folder / "dashboard") as shown:
                    asked = ["--url", shown.url, "--hardware", HARDWARE, "--run", run, "--out", str(IMAGES)]
                    found = [page for page in pages if page not in (*TOLD, QUEUED)]
                    made_up = [page for page in pages if page in TOLD]
                    if found:
                        gallery.main([*asked, "--model", MODEL, "--pages", *found])
                    if QUEUED in pages:
                        with Client(running.url) as client:
                            story.queue_jobs(client)
                        gallery.main([*asked, "--model", MODEL, "--pages", QUEUED])
                    if made_up:
                        with Client(running.url) as client:
                            client.wait_for(client.post_events(story.nights())["last_position"])
                            _wait_for_alerts(client)
                        gallery.main([*asked, "--model", story.MODEL, "--pages", *made_up])
        finally:
            database.close()
    return 0


def _wait_for_alerts(client: Client) -> None:
    """Return when the service has raised the alerts of the story. Raises TimeoutError."""
    until = time.monotonic() + WATCHED_S
    while len(client.alerts(model=story.MODEL).alerts) < story.ALERTS:
        if time.monotonic() > until:
            raise TimeoutError(f"the service raised no {story.ALERTS} alerts within {WATCHED_S:g} s")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
