"""The line of language models on consumer devices leaves each device out."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest

from benchmarks import served_lines
from benchmarks.accuracy import OTHERS
from research.engine_efficiencies import own_points


def test_a_device_is_predicted_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the times of one device move its own error by log 2, and that of others by less."""
    chosen = [point for point in own_points() if (point.engine, point.platform) == ("llama.cpp", "mps")]
    monkeypatch.setattr(served_lines, "TABLES", ())

    def errors(factor: float) -> dict[str, float]:
        points = [
            msgspec.structs.replace(point, seconds=point.seconds * (factor if point.device == "apple-m2-gpu" else 1))
            for point in chosen
        ]
        monkeypatch.setattr(served_lines, "own_points", lambda: iter(points))
        result = served_lines.consumer(Path("unused"))
        assert result["rows"] == len(points)
        return {name: value["mape"] for name, value in result["by_hardware"].items()}

    plain, slow = errors(1.0), errors(2.0)
    assert set(plain) == {point.device for point in chosen}
    assert plain["apple-m2-gpu"] < 0.2
    assert slow["apple-m2-gpu"] == pytest.approx(0.5, abs=0.12)
    assert abs(math.log(1 + slow["apple-m4-max-gpu"]) - math.log(1 + plain["apple-m4-max-gpu"])) < 0.1


def test_servers_are_not_asked_about_and_the_line_is_listed() -> None:
    assert served_lines.is_consumer("apple-m4-gpu")
    assert not served_lines.is_consumer("nvidia-h100-pcie")
    assert not served_lines.is_consumer("intel-xeon-platinum-8380")
    assert set(served_lines.LINES) <= set(OTHERS)
