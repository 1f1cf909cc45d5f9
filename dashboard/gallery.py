"""Pictures of the pages for the documentation, taken in a real browser from a running dashboard.

`make gallery` takes those of docs/gallery.md, with a service of its own. From any other dashboard:
`python -m dashboard.gallery --url http://127.0.0.1:8501 --model google/vit-base-patch16-224 --hardware intel-xeon-2c --out pictures`
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from domain.errors import PartMissing

__all__ = [
    "BROWSERS",
    "PAGES",
    "Shot",
    "browser",
    "find_browser",
    "main",
    "open_page",
    "settled",
    "shots",
    "smaller",
    "take",
]

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--force-color-profile=srgb")
LARGEST_BYTES = 150_000
TALLEST = {1280: 1500, 390: 2600}


LOOKS = (("", "light", 1280), ("-dark", "dark", 1280), ("-390", "light", 390))
"""Of a page: the end of the file's name, theme and width."""
SETTLED = """() => document.querySelector('[data-test-script-state="notRunning"]')
    && !document.querySelector('[data-stale="true"], [data-testid="stSkeleton"]')
    && [...document.querySelectorAll('[data-testid="stVegaLiteChart"]')]
        .every(chart => chart.querySelector('canvas, svg'))"""
MAIN = '[data-testid="stMain"]'
HEIGHT = """() => Math.max(...[...document.querySelectorAll('[data-testid="stMain"] > *')]
    .map(part => part.scrollHeight))"""
PAINTED = """() => document.fonts.ready.then(() => new Promise(
    done => requestAnimationFrame(() => requestAnimationFrame(done))))"""


A_ROW = "01a20220-0df7-732c-bb33-6ca3f0fb7906"
"""Of the first-party measurements: resnet-50 on OpenVINO in bf16, suspect for a reason that its samples show."""


class Shot(NamedTuple):
    """One picture: the file's stem, the page's path, the theme, the width in pixels, and the button to press before."""

    name: str
    path: str
    theme: str = "light"
    width: int = 1280
    press: str = ""


PAGES = {
    "overview": "",
    "recommend": "recommend?model={model}",
    "compare": "compare?model={model}&basis=all",
    "compare-batch": "compare?what=batch&model={model}&hw={hardware}",
    "compatibility": "compatibility",
    "trends": "trends?model={model}",
    "regressions": "regressions",
    "runs": "runs",
    "run": "runs?run={run}",
    "models": "models?id={model}&tab=operators",
    "hardware": "hardware?id={hardware}",
    "predictor": "predictor?split=family",
    "query": "query?q={query}&kind=bar&x=platform&y=measurements&colour=precision",
    "jobs": "jobs",
    "operations": "operations",
}
"""By the stem of its files: the address of each picture."""
PRESSED = {"query": "Run"}
"""A link never runs a query by itself."""
QUERY = "SELECT platform, precision, count(*) AS measurements FROM measurements GROUP BY ALL ORDER BY ALL"


def shots(model: str, hardware: str, run: str, pages: Collection[str] = PAGES) -> list[Shot]:
    """Return the pictures of the documentation for one model, one device and one run; all, or those of some pages."""
    named = {"model": quote(model), "hardware": quote(hardware), "run": quote(run), "query": quote(QUERY)}
    return [
        Shot(f"{name}{more}", path.format(**named), theme, width, PRESSED.get(name, ""))
        for name, path in PAGES.items()
        if name in pages and (run or name != "run")
        for more, theme, width in LOOKS
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
def browser(*flags: str) -> Iterator[Any]:
    """Start an installed browser without a window, with further flags, for as long as the block lasts."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=find_browser(), args=[*FLAGS, *flags])
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


def press(page: Any, name: str) -> None:
    """Press a button and wait until what it changes is there."""
    before = page.inner_text(MAIN)
    page.get_by_role("button", name=name, exact=True).click()
    page.wait_for_function("([main, before]) => document.querySelector(main).innerText !== before", arg=[MAIN, before])
    # What a button says under the pointer is no part of the picture.
    page.mouse.move(page.viewport_size["width"] - 2, 2)
    settled(page)


def take(result: Any, base: str, shot: Shot) -> bytes:
    """Return one picture as a PNG of at most 150 kB, as tall as the page but not taller than a reader scrolls."""
    page = result.new_page(viewport={"width": shot.width, "height": 900}, color_scheme=shot.theme)
    try:
        open_page(page, f"{base.rstrip('/')}/{shot.path}")
        if shot.press:
            press(page, shot.press)
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
    parser.add_argument("--hardware", required=True, help="the device that they are about")
    parser.add_argument("--run", default="", help="the run that is opened; none without it")
    parser.add_argument("--pages", nargs="+", choices=PAGES, default=list(PAGES), help="only these")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    args = parser.parse_args(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    with browser() as result:
        for shot in shots(args.model, args.hardware, args.run, args.pages):
            picture = take(result, args.url, shot)
            path = args.out / f"{shot.name}.png"
            path.write_bytes(picture)
            sys.stdout.write(f"{path} {len(picture) / 1000:.0f} kB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
