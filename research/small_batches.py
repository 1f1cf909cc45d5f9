"""Whether intervals hold at small batches on devices that never trained, by latencies that NVIDIA published.

Answer: of 90 rows (five image models in PyTorch with autocast on T4, V100 and A100) all intervals hold at batches 1 to 8, 90 %
at 16 and 32, and 63 % of 30 above that. The estimates are 2.4 times too fast at batch 1 and 2, and 1.9 times at 4 and 8: these
rows come from software of 2020 and its hosts, and the question is about today's. Before the general route, which these rows
helped to train, the estimates were 5.5 times too fast; before a slow host's launches were in the interval none held at batch 1.

    python -m research.small_batches nvidia_deep_learning_examples.csv

The file is a table of the README files of https://github.com/NVIDIA/DeepLearningExamples (Apache-2.0, BSD).
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import msgspec

from domain.catalogues import hardware
from domain.performance.roofline import limits_of
from predictor.answering.candidates import Candidate
from predictor.answering.estimates import estimate
from predictor.answering.facts import trace_from_row
from predictor.artifact.artifact import load_shipped
from predictor.features.shipped_traces import shipped_rows
from predictor.features.traces import TraceBook

MODELS = {
    "ConvNets/resnet50v1.5": "timm/resnet50",
    "ConvNets/resnext101-32x4d": "timm/resnext101_32x4d",
    "ConvNets/se-resnext101-32x4d": "timm/seresnext101_32x4d",
    "efficientnet-b0": "timm/efficientnet_b0",
    "efficientnet-b4": "timm/efficientnet_b4",
}
DEVICES = {"T4": "nvidia-t4", "V100": "nvidia-v100-sxm2-16gb", "A100": "nvidia-a100-sxm-80gb"}
BANDS = ((1, 2), (4, 8), (16, 32), (64, 1024))
PRECISION = "amp-fp16"


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """One published latency in ms."""

    model: str
    device: str
    batch_size: int
    latency_ms: float


def published(path: Path) -> Iterator[Published]:
    """Yield the latencies of single calls in PyTorch with autocast; where only a rate is there, what follows from it."""
    with path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            model = MODELS.get(row["model"]) or MODELS.get(row["variant"])
            wanted = (row["framework"], row["mode"], row["precision"], row["serving"])
            if model is None or wanted != ("PyTorch", "inference", "amp", "") or not row["batch"]:
                continue
            batch, latency = int(float(row["batch"])), row["latency_mean_ms"] or row["latency_p50_ms"]
            took = float(latency) if latency else batch / float(row["throughput"]) * 1e3
            yield Published(model=model, device=DEVICES[row["device"]], batch_size=batch, latency_ms=took)


def main() -> int:
    """Print, by band of batches, how many intervals hold and how far off the estimates are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    rows = list(published(parser.parse_args().file))
    predictor = load_shipped()
    book = TraceBook(map(trace_from_row, shipped_rows(MODELS.values())))
    print(f"{'batch':>10}{'rows':>6}{'hold':>6}{'measured over estimate, median':>32}")
    for low, high in BANDS:
        ratios, held = [], 0
        for row in (item for item in rows if low <= item.batch_size <= high):
            spec = hardware.require(row.device)
            limits = limits_of(spec, PRECISION, "cuda")
            if limits is None:
                raise ValueError(f"no peak of {spec.id} in {PRECISION}")
            candidate = Candidate(
                spec=spec,
                limits=limits,
                platform="cuda",
                precision=PRECISION,
                batch_size=row.batch_size,
                runtime="torch",
                compiled=False,
                runtime_version="2.9",
            )
            trace = book.of_model(row.model, "forward")[0]
            (option,) = estimate(trace, [candidate], predictor, "inference")
            ratios.append(row.latency_ms / (option.latency_ms or 1.0))
            held += (option.low_ms or 0.0) <= row.latency_ms <= (option.high_ms or 0.0)
        print(f"{f'{low}-{high}':>10}{len(ratios):>6}{held / len(ratios):>6.0%}{median(ratios):>32.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
