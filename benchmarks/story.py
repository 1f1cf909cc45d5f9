"""Made-up measurements of a model over a month, for the pictures of Trends and Regressions: those of data/ are of two days and have no history.

Two configurations, one a night: a driver makes one faster, a newer torch slower; a night with other load is suspect. They are
posted after all other pictures are taken, to a service that goes with them, and docs/gallery.md says that they are made up.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = ["ALERTS", "MODEL", "nights"]

MODEL = "example/encoder-made-up"
FIRST = datetime(2026, 10, 20, 2, tzinfo=UTC)
NIGHTS, DRIVER_CAME, TORCH_CAME, BUSY = 30, 11, 22, 17
ALERTS = 2
"""That the service raises for them: one that is better, one that is worse."""
DRIVERS, TORCHES = ("570.86", "580.65"), ("2.12.1", "2.13.0")


def nights() -> Iterator[dict[str, Any]]:
    """Yield the events of a month, the same each time."""
    chance = random.Random(7)
    for number in range(NIGHTS):
        began = FIRST + timedelta(days=number)
        driver, torch = DRIVERS[number >= DRIVER_CAME], TORCHES[number >= TORCH_CAME]
        usual = 4.1 * (0.86 if number >= DRIVER_CAME else 1.0) * (1.22 if number >= TORCH_CAME else 1.0)
        yield _measured(
            began, "nvidia-l4", "gpu", "cuda", torch, driver, usual * chance.gauss(1, 0.008), number == BUSY
        )
        yield _measured(began, "intel-xeon-2c", "cpu", "cpu", torch, None, 58.0 * chance.gauss(1, 0.012), False)


def _measured(
    began: datetime, hardware: str, kind: str, platform: str, torch: str, driver: str | None, p50: float, busy: bool
) -> dict[str, Any]:
    p50 = round(p50 * (1.06 if busy else 1.0), 4)
    why = ["made up: other load on the machine"] if busy else []
    run, device = f"nightly-{began:%Y-%m-%d}", {"id": hardware, "kind": kind, "count": 1}
    fingerprint = f"{hardware}-{torch}-{driver or 'none'}"
    data = {
        "run_id": run,
        "model": {"id": MODEL, "category": "embedding", "family": "bert", "weights": "random"},
        "workload": {"mode": "inference", "scenario": "single_stream", "batch_size": 8, "sequence_length": 128},
        "execution": {"platform": platform, "runtime": {"name": "torch", "version": torch}, "precision": "fp16" if driver else "fp32"},
        "hardware": device,
        "observed": {"device": platform, "platform": platform, "precision": "fp16" if driver else "fp32", "fallback_share": 0.0},
        "environment": {"fingerprint": fingerprint, "driver": driver, "os": "Linux", "libraries": {"torch": torch}},
        "metrics": {"latency_ms": {"mean": p50, "p50": p50, "n": 120, "ci95": {"p50": [p50 * 0.992, p50 * 1.008]}}},
        "validity": {"verdict": "suspect" if busy else "valid", "reasons": why},
        "provenance": {"origin": "measured", "source": "made up for a picture, measured by nobody"},
    }  # fmt: skip
    return {
        "specversion": "1.0", "id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{run} {hardware}")), "source": "urn:assay:gallery",
        "type": "assay.measurement.recorded.v1", "time": began.isoformat(), "subject": MODEL, "data": data,
    }  # fmt: skip
