"""Question: does the page's timing of each call change the time of a call, and does the driver disturb it?

The same session in the same page is called N times with one reading of the clock around all of them (bare), and N times as
`assay bench` does it, in turns; who goes first changes. A pair is the median of 15 turns of each, so that other work on the
machine falls on both. The driver's own processor time is counted meanwhile.

    python -m research.browser_timing [--platform wasm] [--model bert-tiny] [--threads 1] [--calls 30] [--pairs 5] [--browser chromium]

Answer: see docs/platforms.md, "In a browser".
"""

from __future__ import annotations

import argparse
import tempfile
from statistics import fmean, median
from time import perf_counter, process_time

from domain.configuration import Workload
from runner.browser.platform import BrowserPlatform, PageTimer
from runner.campaign.execution import convert
from runner.measure.prepared_case import Ready
from runner.measure.stopping import Method
from runner.protocol.tasks import Case, Convert, Message

ROUNDS = 15


class _Silent:
    stage = "resolve"

    def reach(self, stage: str) -> None:
        self.stage = stage

    def say(self, message: Message) -> None:
        raise AssertionError(message)


def ratios(platform: BrowserPlatform, calls: int, pairs: int) -> tuple[list[float], float]:
    """Return the mean of our times over that of a bare loop, pair by pair, and the driver's share of a processor."""
    timer = PageTimer(platform.page, platform.backend)
    method = Method(iterations=calls)
    found = []

    def ours() -> float:
        times, *_ = timer.series(method)
        return fmean(times)

    def bare() -> float:
        return timer.bare_ms(calls)

    timer.warm_up(method)
    for pair in range(pairs):
        mine: list[float] = []
        peer: list[float] = []
        for turn in range(ROUNDS):
            for measured in ((mine, ours), (peer, bare)) if turn % 2 else ((peer, bare), (mine, ours)):
                measured[0].append(measured[1]())
        found.append(median(mine) / median(peer))
        print(
            f"pair {pair + 1}: ours {median(mine):.4g} ms, bare {median(peer):.4g} ms, ratio {found[-1]:.4f}",
            flush=True,
        )
    wall, own = perf_counter(), process_time()
    timer.series(Method(budget_s=5.0))
    return found, (process_time() - own) / (perf_counter() - wall)


def main() -> int:
    """Measure the pairs and print them; 1 where the median is outside of 0.97 to 1.03 or the driver was busy."""
    reader = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    reader.add_argument("--platform", default="wasm", choices=["wasm", "webgpu", "webnn"])
    reader.add_argument("--model", default="bert-tiny")
    reader.add_argument("--calls", type=int, default=30)
    reader.add_argument("--pairs", type=int, default=5)
    reader.add_argument("--threads", type=int, default=1)
    reader.add_argument("--browser", default="chromium")
    asked = reader.parse_args()
    case = Case(
        model=asked.model,
        platform=asked.platform,
        precision="fp32",
        weights="random",
        threads=asked.threads,
        workload=Workload(mode="inference", batch_size=1),
        options=(f"browser={asked.browser}",),
    )
    with tempfile.TemporaryDirectory() as folder:
        convert(Convert(case=case, folder=folder), _Silent())
        platform = Ready(case, folder, _Silent(), verifying=False).platform
        assert isinstance(platform, BrowserPlatform)
        try:
            found, busy = ratios(platform, asked.calls, asked.pairs)
        finally:
            platform.close()
    ratio, share = median(found), busy
    print(
        f"median ratio {ratio:.4f} (0.97 to 1.03 is wanted); the driver used {share:.2%} of a processor (at most 3 %)"
    )
    return 0 if 0.97 <= ratio <= 1.03 and share <= 0.03 else 1


if __name__ == "__main__":
    raise SystemExit(main())
