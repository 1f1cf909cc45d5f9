"""A flame graph as a small SVG, of the stacks that `py-spy record --format raw` writes; what is too narrow to see is left out.

py-spy record --rate 200 --format raw --output STACKS -- python -m assay.cli recommend bert-base-uncased
python -m benchmarks.flame_graph STACKS PICTURE.svg --title "assay recommend"
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import msgspec

__all__ = ["Frame", "drawn", "frames_of"]

WIDTH, ROW, LETTER = 1200, 16, 6.2
"""Pixels of the picture, of a row, and of a letter of a name."""
_LINE = re.compile(r":\d+\)$")
_COLOURS = ("#f2a65a", "#eec170", "#f58549", "#f7b267")


class Frame(msgspec.Struct, frozen=True):
    """A function at a depth of the stack: from which sample on it runs, and for how many."""

    name: str
    depth: int
    start: int
    samples: int


def frames_of(lines: Iterable[str]) -> list[Frame]:
    """Return the frames of stacks (`outer;inner SAMPLES` a line), those of one caller and name beside each other as one."""
    stacks: Counter[tuple[str, ...]] = Counter()
    for line in lines:
        stack, _, samples = line.rstrip().rpartition(" ")
        # Samples of threads that have no Python frames are of nobody.
        if stack:
            stacks[tuple(_LINE.sub(")", name) for name in stack.split(";"))] += int(samples)
    return list(_laid_out(dict(stacks), 0, 0))


def _laid_out(stacks: dict[tuple[str, ...], int], depth: int, start: int) -> Iterator[Frame]:
    below: dict[str, dict[tuple[str, ...], int]] = {}
    for (name, *rest), samples in ((stack, samples) for stack, samples in stacks.items() if stack):
        below.setdefault(name, {})[tuple(rest)] = samples
    for name, inner in sorted(below.items()):
        samples = sum(inner.values())
        yield Frame(name, depth, start, samples)
        yield from _laid_out(inner, depth + 1, start)
        start += samples


def drawn(frames: Iterable[Frame], title: str, least: float = 0.004) -> str:
    """Return the picture, without frames that take less than a share `least` of all samples."""
    frames = list(frames)
    total = sum(frame.samples for frame in frames if frame.depth == 0)
    shown = [frame for frame in frames if frame.samples >= least * total]
    height = ROW * (max((frame.depth for frame in shown), default=0) + 3)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="10">',
            f'<text x="4" y="12">{escape(title)}</text>',
            *(_rectangle(frame, total) for frame in shown),
            "</svg>\n",
        ]
    )


def _rectangle(frame: Frame, total: int) -> str:
    left, width = WIDTH * frame.start / total, WIDTH * frame.samples / total
    top = ROW * (frame.depth + 1.5)
    letters = int((width - 4) / LETTER)
    name = frame.name if len(frame.name) <= letters else f"{frame.name[: letters - 1]}…" if letters > 3 else ""
    colour = _COLOURS[sum(frame.name.encode()) % len(_COLOURS)]
    label = f'<text x="{left + 2:.1f}" y="{top + 11:.1f}">{escape(name)}</text>' if name else ""
    return (
        f"<g><title>{escape(frame.name)}: {frame.samples / total:.1%}</title>"
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{ROW - 1}" fill="{colour}"/>{label}</g>'
    )


def main() -> int:
    """Draw the stacks of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stacks", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--title", default="")
    options = parser.parse_args()
    with options.stacks.open(encoding="utf-8") as lines:
        options.picture.write_text(drawn(frames_of(lines), options.title), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
