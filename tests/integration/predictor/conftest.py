"""A small world whose law is stated here, for learning what is known: traced models, their true times, and noise.

time = Σ operators count · (max(arithmetic / share of peak, traffic / share of bandwidth) + launch) · family · noise,
with the shares by operator class below, a factor of each family, and log-normal noise of 3 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from domain.answers import answer_document
from domain.canonical import digest
from domain.catalogues import hardware
from domain.performance.roofline import limits_of
from predictor.features.dataset import Row
from predictor.features.operators_route import tabulate
from predictor.features.table import Table
from predictor.features.traces import TraceBook, trace_from_data
from predictor.learning.training import Learner

PEAK_SHARE = {"conv": 0.55, "mm": 0.8, "depthwise": 0.1, "attention": 0.4}
BANDWIDTH_SHARE = {"conv": 0.7, "mm": 0.9, "depthwise": 0.35, "attention": 0.6, "elementwise": 0.9, "norm": 0.5}
NOISE = 0.03
FAMILY_SPREAD = 0.15
DEVICES = ("nvidia-rtx-3090", "nvidia-rtx-4090")
LEARNERS = (Learner(objective="l2", trees=150, learning_rate=0.1, leaves=15, rows_per_leaf=5, feature_share=0.6),)


def operator(kind: str, count: int, flops: float, elements: float, weights: float, inner: int = 64) -> dict[str, Any]:
    return {
        "name": f"aten.{kind}", "class": kind, "count": count, "flops": flops, "read_elements": elements,
        "write_elements": elements, "weight_elements": weights, "inner": inner, "kernel": None, "stride": None,
        "groups": None,
    }  # fmt: skip


def traced(model: str, family: str, category: str, seed: int, sequence_length: int | None = None) -> dict[str, Any]:
    """The data of a trace; depth, width and the mix of operators are drawn from the seed."""
    random = np.random.default_rng(seed)
    depth, width = int(random.integers(4, 40)), float(2 ** random.uniform(6, 10))
    tokens = float(random.choice([196, 784, 3136]))
    share = random.uniform(0.1, 1.0, 3).tolist()
    operators = [
        operator("conv", depth, 2 * tokens * width**2 * share[0], tokens * width, width**2),
        operator("mm", depth * 2, 2 * tokens * width**2, tokens * width, width**2, int(width)),
        operator("depthwise", depth, 2 * tokens * width * 9 * share[1], tokens * width, width * 9, 9),
        operator("attention", depth, 4 * tokens**2 * width * share[2], tokens * width, 0.0, int(tokens)),
        operator("elementwise", depth * 3, 0.0, tokens * width, 0.0),
        operator("norm", depth * 2, 0.0, tokens * width, width),
    ]
    totals = {"parameters": sum(o["count"] * o["weight_elements"] for o in operators)}
    for name in ("flops", "read_elements", "write_elements", "weight_elements"):
        totals[name] = sum(o["count"] * o[name] for o in operators)
    totals["peak_activation_elements"] = 4 * tokens * width
    return {
        "model": {
            "id": model, "family": family, "category": category, "task": "test",
            "architecture": digest(operators).removeprefix("sha256:"), "parameters": int(totals["parameters"]),
        },
        "workload": {
            "mode": "inference", "phase": "forward", "batch_size": 1, "sequence_length": sequence_length,
            "image_size": None if sequence_length else 224,
        },
        "tracer": {"name": "assay-tracer", "version": 1},
        "operators": operators,
        "totals": totals,
    }  # fmt: skip


def true_ms(data: dict[str, Any], device: str, platform: str, precision: str, batch: int) -> float:
    """The law, without family and noise."""
    spec = hardware.require(device)
    limits = limits_of(spec, precision, platform)
    assert limits is not None
    total = 0.0
    for one in data["operators"]:
        arithmetic = one["flops"] * batch / limits.peak_flops / PEAK_SHARE.get(one["class"], 1.0)
        moved = (one["read_elements"] + one["write_elements"]) * batch * limits.activation_bytes
        moved += one["weight_elements"] * limits.weight_bytes
        traffic = moved / limits.bandwidth_bytes_per_s / BANDWIDTH_SHARE[one["class"]]
        total += one["count"] * (max(arithmetic, traffic) + limits.launch_s)
    return total * 1e3


class World:
    """Traces and rows of `families` × `members` models on two devices at three batch sizes."""

    def __init__(self, families: int = 12, members: int = 8, seed: int = 1) -> None:
        random = np.random.default_rng(seed)
        self.traces: list[dict[str, Any]] = []
        self.rows: list[Row] = []
        for family in range(families):
            factor = float(np.exp(random.normal(0, FAMILY_SPREAD)))
            for member in range(members):
                data = traced(f"acme/f{family}-m{member}", f"f{family}", "vision", 1000 * family + member)
                self.traces.append(data)
                self.rows += [
                    self.row(data, device, batch, factor * float(np.exp(random.normal(0, NOISE))))
                    for device in DEVICES
                    for batch in (32, 64, 256)
                ]
        self.book = TraceBook(trace_from_data(data) for data in self.traces)

    @staticmethod
    def row(data: dict[str, Any], device: str, batch: int, factor: float) -> Row:
        return Row(
            model=data["model"]["id"], family=data["model"]["family"], hardware=device, platform="cuda",
            precision="amp-fp16", batch_size=batch, image_size=224, runtime="torch", runtime_version="2.9.1",
            latency_ms=true_ms(data, device, "cuda", "amp-fp16", batch) * factor,
        )  # fmt: skip

    def table(self) -> Table:
        return tabulate(self.rows, self.book, hardware.find)


@pytest.fixture(scope="session")
def world() -> World:
    return World()


@pytest.fixture(scope="session")
def table(world: World) -> Table:
    return world.table()


@pytest.fixture(scope="session")
def learners() -> tuple[Learner, ...]:
    return LEARNERS


class Documents:
    """An Answerer whose answers are what the API sends: JSON objects."""

    def __init__(self, answerer: Any) -> None:
        self._answerer = answerer

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._answerer, name)
        if name not in ("recommend", "predict", "fit", "fleet", "suggest"):
            return method
        return lambda question: answer_document(method(question))


class Service:
    """A log, its projection and an Answerer over them."""

    def __init__(self, database: Any, home: Path) -> None:
        from ingest.log.artifacts import ArtifactStore
        from ingest.projection.projector import Projection
        from predictor.service import Answerer

        self.database = database
        self.artifacts = ArtifactStore(database.url)
        self.projection = Projection(home, database)
        self.projection.open()
        self._answerer = lambda: Answerer(self.projection.cursor, lambda digest: self.artifacts.get(digest).content)
        self.answers = self.another_answerer()

    def another_answerer(self) -> Documents:
        """Return one that has answered nothing yet."""
        return Documents(self._answerer())

    def catch_up(self) -> int:
        self.projection.catch_up()
        return self.projection.position


@pytest.fixture
def service(database: Any, tmp_path: Path) -> Iterator[Service]:
    made = Service(database, tmp_path)
    yield made
    made.projection.stop()


@pytest.fixture
def told(service: Service, append: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Appends events and projects them; returns what became of each."""

    def tell(*events: dict[str, Any]) -> list[Any]:
        results = append(list(events))
        service.catch_up()
        return results

    return tell


@pytest.fixture(scope="session")
def make_trace() -> Callable[..., dict[str, Any]]:
    return traced


@pytest.fixture(scope="session")
def law() -> Callable[..., float]:
    return true_ms
