"""What does our client cost, what does it add, and do others that ask the same endpoint see the same?

Answer: 0.15 % of a core for 100 tokens a second, tokens seen 0.03 ms late at p99, and aiperf sees the same within 1 %
(docs/endpoints.md).

    python -m research.endpoint [--streams 200] [--gap-ms 50] [--rounds 3] [--aiperf PATH] [--vllm PATH]

The endpoint is `benchmarks.programs.echo`: the text of each of its tokens is the reading of the monotonic clock at which
it was sent, so that how late it was seen is known token by token. Beside our client, in turns, a reader that does nothing
else than read what is ready and stamp it: what the machine itself adds to both is not ours. Prints the client's share of a
core for 100 tokens a second, and the 99th percentile of the delay, ours over the reader's. With `--aiperf` (the program
of an environment of its own: `pip install aiperf`) its medians of TTFT and of the time between tokens are put beside ours;
with `--vllm` (docs/endpoints.md says how to install its client alone) those of `vllm bench serve`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, perf_counter_ns, process_time
from typing import Any, NamedTuple

from domain.statistics import quantile
from runner.endpoint.bench import run_endpoint
from runner.endpoint.driver import Driver
from runner.endpoint.link import StampedLoop, request_bytes
from runner.endpoint.load import Stop
from runner.endpoint.plan import Sizes, plan_of
from runner.endpoint.prompts import WORDS, Prompts
from runner.endpoint.protocols import EXTRAS, language_call
from runner.endpoint.target import Stated, Target, target_of
from runner.measure.stopping import Method

ROOT = Path(__file__).resolve().parents[1]
TOKENS = 40
_STAMP = re.compile(rb'"content": "(\d+) "')


class Seen(NamedTuple):
    """How late tokens were seen (ms), tokens a second, and the share of one core that seeing them took."""

    delays: list[float]
    tokens_per_s: float
    cpu_share: float


def main() -> int:
    options = _options()
    print(
        f"{options.streams} streams, a token each {options.gap_ms:g} ms; load of the machine {os.getloadavg()[0]:.1f}"
    )
    with _echo(first_ms=options.gap_ms, gap_ms=options.gap_ms) as url:
        target = target_of(url, "openai", "echo")
        rounds = [(_ours(target, options.streams), _reader(target, options.streams)) for _ in range(options.rounds)]
    added = []
    for ours, reader in rounds:
        mine, bare = (sorted(seen.delays) for seen in (ours, reader))
        added.append(quantile(mine, 0.99) - quantile(bare, 0.99))
        print(
            f"  ours: {_spread(mine)}, {ours.tokens_per_s:,.0f} tokens/s for {ours.cpu_share:.1%} of a core"
            f" | reader: {_spread(bare)}, {reader.cpu_share:.1%} | added at p99: {added[-1]:+.3f} ms"
        )
    share = statistics.median(100 * ours.cpu_share / ours.tokens_per_s for ours, _ in rounds)
    print(f"share of a core for 100 tokens/s: {share:.3%} (bar 5 %)")
    print(f"added at the 99th percentile, median of {len(added)}: {statistics.median(added):+.3f} ms (bar 1 ms)")
    if options.aiperf:
        _beside("aiperf", lambda url, scratch: _aiperf_medians(options.aiperf, url, scratch))
    if options.vllm:
        _beside("vllm", lambda url, scratch: _vllm_medians(options.vllm, url, scratch))
    return 0


def _spread(delays: list[float]) -> str:
    return f"p50 {quantile(delays, 0.5):.3f}, p99 {quantile(delays, 0.99):.3f} ms"


@contextmanager
def _echo(first_ms: float, gap_ms: float) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.programs.echo", "--first-ms", str(first_ms), "--gap-ms", str(gap_ms)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _ours(target: Target, streams: int) -> Seen:
    """All streams at once through our client, once warm and once counted."""

    async def ask() -> Seen:
        call = language_call(target, TOKENS, streams=True)
        async with Driver(target, call, Prompts(8, 0), 60.0, keep_text=True) as driver:
            await asyncio.gather(*(driver.once() for _ in range(streams)))
            began, cpu = perf_counter(), process_time()
            done = await asyncio.gather(*(driver.once() for _ in range(streams)))
            wall, used = perf_counter() - began, process_time() - cpu
        pairs = [(seen, int(sent)) for each in done for seen, sent in zip(each.tokens, each.text or [], strict=True)]
        return Seen([(seen - sent) / 1e6 for seen, sent in pairs], len(pairs) / wall, used / wall)

    with asyncio.Runner(loop_factory=StampedLoop) as runner:
        return runner.run(ask())


def _reader(target: Target, streams: int) -> Seen:
    """The same through sockets that are read when they are ready; what came is looked at afterwards."""
    body = language_call(target, TOKENS, streams=True).body("time year", EXTRAS[0])
    request = request_bytes(target, "POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    links = [socket.create_connection((target.host, target.port)) for _ in range(streams)]
    poll, by_number = select.epoll(), {link.fileno(): link for link in links}
    came: list[tuple[int, bytes]] = []
    for link in links:
        link.setblocking(False)
        poll.register(link, select.EPOLLIN)
    began, cpu = perf_counter(), process_time()
    for link in links:
        link.sendall(request)
    left = streams
    while left:
        for number, _ in poll.poll():
            data = by_number[number].recv(65536)
            came.append((perf_counter_ns(), data))
            left -= data.endswith(b"0\r\n\r\n")
    wall, used = perf_counter() - began, process_time() - cpu
    poll.close()
    for link in links:
        link.close()
    delays = [(seen - int(sent)) / 1e6 for seen, data in came for sent in _STAMP.findall(data)]
    return Seen(delays, len(delays) / wall, used / wall)


def _beside(name: str, asked: Callable[[str, Path], dict[str, float]]) -> None:
    """Put the medians of both beside each other, on endpoints of 50 and 200 ms to the first token and 20 ms a token."""
    for first_ms in (50.0, 200.0):
        truth = {"ttft": first_ms, "tpot": 20.0}
        ratios: dict[str, list[float]] = {name: [] for name in truth}
        for _ in range(3):
            with _echo(first_ms=first_ms, gap_ms=20) as url, tempfile.TemporaryDirectory() as scratch:
                ours, theirs = _medians(url), asked(url, Path(scratch))
            print(f"  ours {ours} | {name} {theirs} | meant {truth}")
            for part, values in ratios.items():
                values.append(ours[part] / theirs[part])
        for part, values in ratios.items():
            middle = statistics.median(values)
            print(f"{part} at {truth[part]:g} ms: ours over {name}'s {middle:.4f} (bar 0.98 to 1.02)")


def _medians(url: str) -> dict[str, float]:
    stated = Stated(model="echo", hardware="unknown", platform="other", precision="unknown")
    sizes = Sizes(input_tokens=(32,), output_tokens=(16,), concurrency=(4,))
    plan = plan_of(target_of(url, "openai", "echo"), stated, sizes, Stop(method=Method(iterations=40)))
    events: list[dict[str, Any]] = []
    run_endpoint(plan, events.append)
    (metrics,) = [event["data"]["metrics"] for event in events if event["type"] == "assay.measurement.recorded.v1"]
    return {"ttft": metrics["ttft_ms"], "tpot": metrics["tpot_ms"]}


def _aiperf_medians(program: str, url: str, scratch: Path) -> dict[str, float]:
    _tokenizer(scratch)
    command = [
        program, "profile", "--model", "echo", "--url", url, "--endpoint-type", "chat", "--streaming",
        "--concurrency", "4", "--request-count", "40", "--warmup-request-count", "4", "--tokenizer", "acme/tiny",
        "--synthetic-input-tokens-mean", "32", "--extra-inputs", "max_tokens:16", "--artifact-dir", str(scratch), "--ui", "none",
    ]  # fmt: skip
    _run_offline(command, scratch)
    found = json.loads((scratch / "profile_export_aiperf.json").read_text())
    return {"ttft": found["time_to_first_token"]["p50"], "tpot": found["inter_token_latency"]["p50"]}


def _vllm_medians(program: str, url: str, scratch: Path) -> dict[str, float]:
    _tokenizer(scratch)
    command = [
        program, "bench", "serve", "--backend", "openai-chat", "--base-url", url, "--endpoint", "/v1/chat/completions",
        "--model", "echo", "--tokenizer", str(scratch / "made"), "--dataset-name", "random", "--random-input-len", "32",
        "--random-output-len", "16", "--num-prompts", "40", "--num-warmups", "4", "--max-concurrency", "4",
        "--disable-tqdm", "--save-result", "--result-dir", str(scratch), "--result-filename", "found.json",
    ]  # fmt: skip
    _run_offline(command, scratch)
    found = json.loads((scratch / "found.json").read_text())
    return {"ttft": found["median_ttft_ms"], "tpot": found["median_tpot_ms"]}


def _run_offline(command: list[str], home: Path) -> None:
    # The program's environment is its own; ours on its path would be mixed into it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(home)}
    subprocess.run(command, check=True, env=environment, capture_output=True, timeout=300)


def _tokenizer(home: Path) -> None:
    """Write a tokenizer as the hub's own cache has it: aiperf takes no folder."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import LlamaConfig, PreTrainedTokenizerFast

    made = home / "made"
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(["<unk>", *WORDS])}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<unk>").save_pretrained(made)
    LlamaConfig(vocab_size=len(WORDS) + 1).save_pretrained(made)
    cached, revision = home / "hub" / "models--acme--tiny", "0" * 40
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(revision)
    shutil.copytree(made, cached / "snapshots" / revision)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m research.endpoint", description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--gap-ms", type=float, default=50.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--aiperf", metavar="PATH")
    parser.add_argument("--vllm", metavar="PATH")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
