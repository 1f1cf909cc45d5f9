"""How well are changes of a history found? `python -m research.change_detection`.

Answer: one false alarm in 120,000 points under spikes; a step of 6 % in noise of 3 % is confirmed after 8 runs, 10 where it is
autocorrelated, and a drift of 22 % in 99.5 to 100 % (docs/regressions.md).

Series of 120 points are drawn from five laws of noise of 3 % and read point by point. The detector, the rule that marks
steps in Trends (each point beside the newest that is not doubted, with the deviation of ten runs) and Apache Otava with its
defaults read the same series. An alarm is a change that was not alarmed before, at the point that made it known.

`--otava PYTHON` names an interpreter that has apache-otava; `--tcpd FOLDER` scores the Turing Change Point Dataset
(annotations.json and NAME.json in it), which is not part of Assay; `--picture FILE` draws the table; `--json` prints it all.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from domain.comparison.comparison_sides import RUNS_KEPT
from domain.comparison.regression import judged
from domain.figures import Figure
from domain.history.detector import detect
from research.turing_scores import SERIES, cover, f1, smoothed_changes

__all__ = ["LAWS", "Alarm", "Score", "alarms_of_detector", "alarms_of_trends", "draw", "score"]

POINTS = 120
NOISE = 0.03
BURSTS = 0.03
"""The share of points that are 20 to 100 % higher under spikes."""
LAWS = ("normal", "log-normal", "AR 0.4", "spikes", "bimodal")
CHANGES = {"+6 %": 0.06, "+15 %": 0.15, "drift +22 %": 0.22}
DRIFT_RUNS = 20
EARLIEST, LATEST = 40, 80
SAME_CHANGE = 5
"""Otava's change points that are no more points apart are one alarm."""
_OTAVA = """
import json, sys
from otava.analysis import compute_change_points
for line in sys.stdin:
    values, alarms, known = json.loads(line), [], []
    for count in range(8, len(values) + 1):
        for point in compute_change_points(values[:count])[0]:
            if all(abs(point.index - index) > SAME for index in known):
                known.append(int(point.index))
                alarms.append([count - 1, float(point.stats.mean_2) > float(point.stats.mean_1), int(point.index)])
    print(json.dumps(alarms), flush=True)
"""


class Alarm(NamedTuple):
    """An alarm: the point that raised it, whether the values rose, and where."""

    at: int
    upward: bool
    place: int


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """What a detector does under one law: false alarms per 100 points, and recall, median delay and alarms for each change."""

    detector: str
    law: str
    series: int
    false_alarms: float
    recall: dict[str, float]
    delay: dict[str, float | None]
    alarms: dict[str, float]


Read = Callable[[Sequence[Sequence[float]]], list[list[Alarm]]]


def draw(law: str, series: int, seed: int = 1) -> Any:
    """Return series of a law, one a row, around 40 with a deviation of 3 %."""
    source = np.random.default_rng([seed, LAWS.index(law)])
    shape = (series, POINTS)
    normal = source.normal(0, 1, shape)
    if law == "log-normal":
        skewed = np.exp(0.6 * normal)
        normal = (skewed - math.exp(0.18)) / math.sqrt(math.exp(0.36) * (math.exp(0.36) - 1))
    elif law == "AR 0.4":
        for place in range(1, POINTS):
            normal[:, place] = 0.4 * normal[:, place - 1] + math.sqrt(1 - 0.16) * normal[:, place]
    elif law == "bimodal":
        normal = 0.95 * source.choice([-1, 1], shape) + 0.31 * normal
    values = 40 * (1 + NOISE * normal)
    if law == "spikes":
        values *= np.where(source.random(shape) < BURSTS, source.uniform(1.2, 2, shape), 1)
    return values


def alarms_of_detector(series: Sequence[Sequence[float]]) -> list[list[Alarm]]:
    """Return the alarms of `domain.history.detector`."""
    return [
        [Alarm(change.confirmed_at, change.after > change.before, change.index) for change in detect(values).changes]
        for values in series
    ]


def alarms_of_trends(series: Sequence[Sequence[float]]) -> list[list[Alarm]]:
    """Return the steps that Trends marks."""
    return [list(_trends(values)) for values in series]


def _trends(values: Sequence[float]) -> Iterable[Alarm]:
    before: Figure | None = None
    for place, value in enumerate(values):
        runs = [*(before.runs or [before.value]), value][-RUNS_KEPT:] if before else []
        figure = Figure(value=value, runs=runs)
        if before is not None:
            state, _, _ = judged(before, figure, "latency_p50_ms")
            if state in ("worse", "better"):
                yield Alarm(place, state == "worse", place)
        before = figure


def alarms_of_otava(python: str) -> Read:
    """Return what runs Apache Otava with its defaults in another interpreter."""

    def read(series: Sequence[Sequence[float]]) -> list[list[Alarm]]:
        lines = "\n".join(json.dumps(list(values)) for values in series)
        program = _OTAVA.replace("SAME", str(SAME_CHANGE))
        try:
            answer = subprocess.run([python, "-c", program], input=lines, capture_output=True, text=True, check=False)
        except OSError as error:
            raise SystemExit(f"--otava: {python} cannot be run: {error.strerror}.") from None
        if answer.returncode:
            raise SystemExit(f"--otava: {python} cannot run apache-otava: {answer.stderr.strip().splitlines()[-1]}")
        return [[Alarm(*alarm) for alarm in json.loads(line)] for line in answer.stdout.splitlines()]

    return read


def score(name: str, read: Read, law: str, series: int, seed: int = 1) -> Score:
    """Return what a detector does under a law: on series without a change, then with each change at a place of its own."""
    drawn = draw(law, series, seed)
    places = np.random.default_rng([seed, 99]).integers(EARLIEST, LATEST + 1, series)
    quiet = sum(map(len, read(drawn.tolist())))
    recall, delay, counts = {}, {}, {}
    for change, size in CHANGES.items():
        length = DRIFT_RUNS if "drift" in change else 1
        ramps = np.clip((np.arange(POINTS) - places[:, None] + 1) / length, 0, 1)
        alarms = read((drawn * (1 + size * ramps)).tolist())
        later = [
            [alarm for alarm in each if alarm.at >= place] for each, place in zip(alarms, places.tolist(), strict=True)
        ]
        delays = [
            each[0].at - place + 1
            for each, place in zip(later, places.tolist(), strict=True)
            if each and each[0].upward and each[0].at < place + EARLIEST
        ]
        recall[change] = len(delays) / series
        delay[change] = statistics.median(delays) if delays else None
        counts[change] = sum(map(len, later)) / series
    per_hundred = 100 * quiet / (series * POINTS)
    return Score(
        detector=name, law=law, series=series, false_alarms=per_hundred, recall=recall, delay=delay, alarms=counts
    )


def _otava(python: str, law: str, series: int) -> Score:
    return score("otava", alarms_of_otava(python), law, series)


def scores(series: int, otava: str | None, otava_series: int, processes: int) -> list[Score]:
    """Return the scores of all detectors under all laws."""
    tasks: list[tuple[Callable[[str, int], Score], int]] = [
        (functools.partial(score, "assay", alarms_of_detector), series),
        (functools.partial(score, "trends rule", alarms_of_trends), series),
    ]
    if otava:
        tasks.append((functools.partial(_otava, otava), otava_series))
    with ProcessPoolExecutor(processes) as pool:
        waiting = [pool.submit(task, law, count) for task, count in tasks for law in LAWS]
        return [each.result() for each in waiting]


def speed(series: int, processes: int) -> dict[str, float]:
    """Return seconds for `series` series of 120 points, and milliseconds for a point appended to 120 and to 300."""
    drawn = [part.tolist() for part in np.array_split(draw("normal", series, seed=2), 8 * processes)]
    with ProcessPoolExecutor(processes) as pool:
        list(pool.map(alarms_of_detector, drawn[:processes]))
        began = time.perf_counter()
        list(pool.map(alarms_of_detector, drawn))
        seconds = time.perf_counter() - began
    rows = draw("normal", 60, seed=3)
    times = {}
    for count in (120, 300):
        values = [row[:count].tolist() for row in np.tile(rows, 3)]
        taken = []
        for row in values:
            began = time.perf_counter()
            detect(row)
            taken.append(time.perf_counter() - began)
        times[f"appended to {count} points, ms"] = 1000 * statistics.median(taken)
    return {"series": series, "processes": processes, "seconds": seconds} | times


def tcpd(folder: Path) -> dict[str, dict[str, float]]:
    """Return F1 and cover over the series of the Turing Change Point Dataset, for the detector and what stands beside it."""
    if not (folder / "annotations.json").is_file():
        raise SystemExit(f"--tcpd: {folder} has no annotations.json; name the folder with the files of the dataset.")
    annotations = json.loads((folder / "annotations.json").read_text())
    readers: dict[str, Callable[[Sequence[float | None]], list[int]]] = {
        "assay": smoothed_changes,
        "trends rule": lambda values: [
            alarm.place for alarm in _trends([value for value in values if value is not None])
        ],
        "no alarm": lambda _: [],
    }
    missing = [name for name in SERIES if not (folder / f"{name}.json").exists()]
    if missing:
        print(f"--tcpd: not in {folder}: {', '.join(missing)}.", file=sys.stderr)
    names = [name for name in SERIES if name not in missing]
    if not names:
        raise SystemExit(f"--tcpd: {folder} has none of the series; put NAME.json beside annotations.json.")
    every: dict[str, list[tuple[float, float]]] = {reader: [] for reader in readers}
    for name in names:
        values = json.loads((folder / f"{name}.json").read_text())["series"][0]["raw"]
        marks = list(annotations[name].values())
        for reader, read in readers.items():
            places = read(values)
            every[reader].append((f1(marks, places), cover(marks, places, len(values))))
    return {
        reader: {
            "series": len(names),
            "f1": statistics.fmean(each[0] for each in pairs),
            "cover": statistics.fmean(each[1] for each in pairs),
        }
        for reader, pairs in every.items()
    }


def table(rows: Sequence[Score]) -> str:
    """Return the table of docs/regressions.md."""
    head = ["detector", "noise", "series", "false alarms per 100 points"]
    head += [word for change in CHANGES for word in (change, "delay, runs")] + ["alarms per drift"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        cells = [row.detector, row.law, f"{row.series:,}", f"{row.false_alarms:.3f}"]
        for change in CHANGES:
            delay = row.delay[change]
            cells += [f"{row.recall[change]:.1%}", "" if delay is None else f"{delay:g}"]
        lines.append([*cells, f"{row.alarms['drift +22 %']:.2f}"])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def picture(rows: Sequence[Score], path: Path) -> None:
    """Draw false alarms and recalls, one dot for each detector and law."""
    import vl_convert

    panels = {"false alarms per 100 points": lambda row: row.false_alarms} | {
        f"found: {change}": (lambda row, change=change: row.recall[change]) for change in CHANGES
    }
    values = [
        {"panel": panel, "detector": row.detector, "noise": row.law, "value": read(row)}
        for panel, read in panels.items()
        for row in rows
    ]
    names = list(dict.fromkeys(row.detector for row in rows))
    charts = [_panel(panel, names, [value for value in values if value["panel"] == panel]) for panel in panels]
    document = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": "120 points read one by one, noise of 3 %",
        "hconcat": charts,
        "config": {"background": "white", "view": {"stroke": "#ddd"}},
    }
    drawn = (
        vl_convert.vegalite_to_svg(document).encode()
        if path.suffix == ".svg"
        else vl_convert.vegalite_to_png(document, scale=2)
    )
    path.write_bytes(drawn)


def _panel(title: str, names: Sequence[str], values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    share = title.startswith("found")
    return {
        "title": title,
        "width": 190,
        "height": 170,
        "data": {"values": values},
        "mark": {"type": "point", "size": 90, "filled": True, "opacity": 0.9},
        "encoding": {
            "y": {"field": "noise", "type": "nominal", "sort": list(LAWS), "title": None},
            "yOffset": {"field": "detector", "type": "nominal", "sort": list(names)},
            "x": {
                "field": "value",
                "type": "quantitative",
                "title": None,
                "axis": {"format": "%" if share else "g"},
                "scale": {"domain": [0, 1]} if share else {"nice": True},
            },
            "color": {
                "field": "detector",
                "type": "nominal",
                "sort": list(names),
                "title": None,
                "scale": {"domain": list(names), "range": ["#0b6e4f", "#c1666b", "#8a8d91"][: len(names)]},
            },
            "shape": {
                "field": "detector",
                "type": "nominal",
                "sort": list(names),
                "title": None,
                "scale": {"domain": list(names)},
            },
        },
    }


def main() -> None:
    """Print the tables of docs/regressions.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=1000, help="series of each law and change")
    parser.add_argument("--otava", metavar="PYTHON", help="an interpreter that has apache-otava")
    parser.add_argument("--otava-series", type=int, default=100, help="series of each law and change for Otava")
    parser.add_argument("--tcpd", type=Path, metavar="FOLDER", help="the files of the Turing Change Point Dataset")
    parser.add_argument("--speed", type=int, default=10_000, metavar="N", help="series to time; 0 times nothing")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--picture", type=Path, metavar="FILE", help="an SVG or PNG file to draw")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = scores(options.series, options.otava, options.otava_series, options.processes)
    timed = speed(options.speed, options.processes) if options.speed else {}
    public = tcpd(options.tcpd) if options.tcpd else {}
    if options.picture:
        picture(rows, options.picture)
    if options.json:
        print(msgspec.json.encode({"scores": rows, "speed": timed, "tcpd": public}).decode())
        return
    print(table(rows))
    if not options.otava:
        print("\nApache Otava was not run: name an interpreter that has it with --otava.")
    for title, entries in (("speed", timed), *public.items()):
        print(f"\n{title}: " + ", ".join(f"{name} {value:.4g}" for name, value in entries.items()))


if __name__ == "__main__":
    main()
