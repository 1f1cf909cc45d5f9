"""Pictures of the pages for the documentation, taken in a real browser from a running dashboard.

`python -m dashboard.gallery --url http://127.0.0.1:8501 --model google/vit-base-patch16-224 --out docs/images`
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from domain.errors import PartMissing

__all__ = ["BROWSERS", "Shot", "browser", "find_browser", "main", "open_page", "settled", "shots", "smaller", "take"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--force-color-profile=srgb")
LARGEST_BYTES = 150_000
TALLEST = {1280: 1500, 390: 1700}


LOOKS = (("", "light", 1280), ("-dark", "dark", 1280), ("-390", "light", 390))
"""Of a page: the end of the file's name, theme and width."""
SETTLED = """() => document.querySelector('[data-test-script-state="notRunning"]')
    && !document.querySelector('[data-stale="true"], [data-testid="stSkeleton"]')
    && [...document.querySelectorAll('[data-testid="stVegaLiteChart"]')]
        .every(chart => chart.querySelector('canvas, svg'))"""
HEIGHT = """() => Math.max(...[...document.querySelectorAll('[data-testid="stMain"] > *')]
    .map(part => part.scrollHeight))"""
PAINTED = """() => document.fonts.ready.then(() => new Promise(
    done => requestAnimationFrame(() => requestAnimationFrame(done))))"""


class Shot(NamedTuple):
    """One picture: the file's stem, the page's path, the theme and the width in pixels."""

    name: str
    path: str
    theme: str = "light"
    width: int = 1280


def shots(model: str, question: str = "", comparison: str = "basis=all") -> list[Shot]:
    """Return the pictures of the documentation for one model, with further parameters for either page."""
    recommend, compare = f"recommend?model={quote(model)}&{question}", f"compare?model={quote(model)}&{comparison}"
    return [
        Shot("overview", ""),
        Shot("recommend", recommend),
        Shot("recommend-dark", recommend, "dark"),
        Shot("recommend-390", recommend, width=390),
        Shot("compare", compare),
        Shot("compare-dark", compare, "dark"),
        Shot("compare-390", compare, width=390),
        *(Shot(f"hardware{more}", "hardware?id=intel-xeon-2c", theme, width) for more, theme, width in LOOKS),
        *(
            Shot(f"models{more}", f"models?id={quote(model)}&tab=operators", theme, width)
            for more, theme, width in LOOKS
        ),
        Shot("predictor", "predictor?split=family"),
        Shot("predictor-dark", "predictor?split=family", "dark"),
        Shot("predictor-390", "predictor?split=family", width=390),
    ]


def find_browser() -> str:
    """Return the path of an installed browser. Raises PartMissing."""
    for name in BROWSERS:
        path = shutil.which(name)
        if path:
            return path
    raise PartMissing(
        "No browser is installed that can take pictures.",
        remedy="Install Chromium, Chrome or Edge, so that one of these is on the path: " + ", ".join(BROWSERS) + ".",
    )


@contextmanager
def browser() -> Iterator[Any]:
    """Start an installed browser without a window, for as long as the block lasts."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=find_browser(), args=list(FLAGS))
        try:
            yield started
        finally:
            started.close()


def open_page(page: Any, url: str) -> None:
    """Open an address and wait until Streamlit has run it and every chart is drawn."""
    page.goto(url)
    settled(page)


def settled(page: Any) -> None:
    """Wait until the script rests and what it left behind of the last run is gone."""
    page.wait_for_selector("h1")
    page.wait_for_function(SETTLED)


def take(found: Any, base: str, shot: Shot) -> bytes:
    """Return one picture as a PNG of at most 150 kB, as tall as the page but not taller than a reader scrolls."""
    page = found.new_page(viewport={"width": shot.width, "height": 900}, color_scheme=shot.theme)
    try:
        open_page(page, f"{base.rstrip('/')}/{shot.path}")
        height = int(page.evaluate(HEIGHT))
        page.set_viewport_size({"width": shot.width, "height": min(height, TALLEST[shot.width])})
        settled(page)
        page.evaluate(PAINTED)
        return smaller(page.screenshot())
    finally:
        page.close()


def smaller(png: bytes) -> bytes:
    """Return the picture in its own colours where they fit into 150 kB, else in as many as do."""
    from PIL import Image

    picture = Image.open(io.BytesIO(png)).convert("RGB")
    out = io.BytesIO()
    picture.save(out, "PNG", optimize=True)
    for colours in (256, 128, 64, 32):
        if out.tell() <= LARGEST_BYTES:
            break
        out = io.BytesIO()
        picture.quantize(colours, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    """Write every picture and print its size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8501", help="where the dashboard runs")
    parser.add_argument("--model", required=True, help="the model that the pictures are about")
    parser.add_argument("--question", default="", help="further parameters of /recommend, such as hw=own")
    parser.add_argument("--comparison", default="basis=all", help="further parameters of /compare")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    asked = parser.parse_args(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    with browser() as found:
        for shot in shots(asked.model, asked.question, asked.comparison):
            picture = take(found, asked.url, shot)
            path = asked.out / f"{shot.name}.png"
            path.write_bytes(picture)
            sys.stdout.write(f"{path} {len(picture) / 1000:.0f} kB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
