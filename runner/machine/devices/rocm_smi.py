"""An AMD device through `rocm-smi --json`, where amdsmi is not installed, and what its answers mean.

Source: rocm_smi.py of ROCm's rocm_smi_lib: `{"card0": {name: text}}`, each figure a text with its unit in its name
(`Temperature (Sensor junction) (C)`, `VRAM Total Used Memory (B)`) or in brackets (`sclk clock speed:` "(2100Mhz)").
It lists no processes with their memory by device, and no reasons for a clock: those are not told here.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from domain.performance.device_state import DeviceState
from runner.measure.power.hwmon import find_hwmon
from runner.measure.power.meter import Meter, Unread

__all__ = ["RocmSmi", "card_at", "find_rocm_smi", "state_of_card"]

_QUESTION = (
    "--showbus",
    "--showmeminfo",
    "vram",
    "--showpower",
    "--showmaxpower",
    "--showtemp",
    "--showclocks",
    "--json",
)
_ANSWER_S = 10.0
_POWERS = ("Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)")
_HEATS = ("Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)")
_CLOCK = re.compile(r"\(?(\d+(?:\.\d+)?)\s*Mhz\)?", re.I)


def card_at(text: str, bdf: str) -> dict[str, Any] | None:
    """Return what was answered of the card at that PCI address; None where it is not there or nothing can be read."""
    try:
        document = json.loads(text)
    except ValueError:
        return None
    cards = document.values() if isinstance(document, dict) else ()
    return next((card for card in cards if isinstance(card, dict) and _same(card.get("PCI Bus"), bdf)), None)


def state_of_card(card: Mapping[str, Any]) -> DeviceState:
    """Return the state that these figures are; what is absent or no number is None, and never 0."""
    used = _number(card.get("VRAM Total Used Memory (B)"))
    return DeviceState(
        clock_hz=_clock_hz(card.get("sclk clock speed:")),
        memory_clock_hz=_clock_hz(card.get("mclk clock speed:")),
        temperature_c=_first(card, _HEATS),
        power_w=_first(card, _POWERS) or None,
        power_limit_w=_number(card.get("Max Graphics Package Power (W)")) or None,
        used_bytes=None if used is None else int(used),
    )


def find_rocm_smi(bdf: str) -> RocmSmi | Unread:
    """Return the device at that PCI address (`0000:c1:00.0`), or why rocm-smi does not show it."""
    program = shutil.which("rocm-smi") or shutil.which("/opt/rocm/bin/rocm-smi")
    if program is None:
        return Unread(
            "neither amdsmi nor rocm-smi is installed.", "Both come with ROCm: pip install /opt/rocm/share/amd_smi"
        )
    device = RocmSmi(program, bdf)
    return (
        device if device.card() is not None else Unread(f"rocm-smi shows no device at {bdf}.", "Look whether it runs.")
    )


class RocmSmi:
    """One GPU. Each look starts a program of half a second, so that there are few of them."""

    part: str | None = None
    period_s = 2.0

    def __init__(self, program: str, bdf: str) -> None:
        self._program = program
        self.key = bdf

    def card(self) -> dict[str, Any] | None:
        """Return what it answers of the device now; None where it does not."""
        try:
            process = subprocess.run(
                [self._program, *_QUESTION], capture_output=True, text=True, timeout=_ANSWER_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return card_at(process.stdout, self.key)

    def state(self) -> DeviceState:
        """Return the state now."""
        return state_of_card(self.card() or {})

    def meter(self) -> Meter | Unread:
        """Return the kernel driver's meter of the card, which rocm-smi shows too: to start that five times a second would cost more."""
        return find_hwmon(("amdgpu",), address=self.key)


def _same(result: Any, bdf: str) -> bool:
    return isinstance(result, str) and result.strip().lower() == bdf.lower()


def _first(card: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    return next((number for name in names if (number := _number(card.get(name))) is not None), None)


def _number(value: Any) -> float | None:
    text = str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    return float(text) if re.fullmatch(r"-?\d+(\.\d+)?", text) else None


def _clock_hz(value: Any) -> float | None:
    match = _CLOCK.fullmatch(value.strip()) if isinstance(value, str) else None
    return float(match[1]) * 1e6 if match else None
