"""One run of optimum-benchmark in a process of its own, as its launcher does it. Takes a JSON object; tells one.

Asked: `model` (a folder), `task`, `model_type`, `threads`, `seconds`, `shapes` and, for generation, `new_tokens`.
Told: the median in ms of a call (of a token, for generation), the seconds of the whole run, and the share of a core that
the parent used while the child worked.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

from optimum_benchmark import Benchmark, BenchmarkConfig, InferenceConfig, ProcessConfig, PyTorchConfig


def main() -> None:
    """Run once."""
    asked = json.loads(sys.argv[1])
    tokens = asked.get("new_tokens")
    generation = {"max_new_tokens": tokens, "min_new_tokens": tokens} if tokens else {}
    config = BenchmarkConfig(
        name="peer",
        launcher=ProcessConfig(),
        scenario=InferenceConfig(
            duration=asked["seconds"], input_shapes=asked["shapes"], generate_kwargs=generation, memory=False
        ),
        backend=PyTorchConfig(
            model=asked["model"], task=asked["task"], model_type=asked["model_type"], library="transformers",
            device="cpu", torch_dtype="float32", intra_op_num_threads=asked["threads"], inter_op_num_threads=1,
        ),
    )  # fmt: skip
    wall, own = time.perf_counter(), time.process_time()
    report = Benchmark.launch(config)
    wall, own = time.perf_counter() - wall, time.process_time() - own
    measured = getattr(report, "per_token" if tokens else "forward")
    print(json.dumps({"ms": statistics.median(measured.latency.values) * 1e3, "wall_s": wall, "parent": own / wall}))


if __name__ == "__main__":
    main()
