"""What a machine was like: before a run (`Noise`), and while one series of calls was timed (`Conditions`).

Shares lie between 0 and 1. Absent means that the operating system does not say.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from domain.performance.device_state import DeviceConditions
from domain.performance.energy import Energy

__all__ = ["Conditions", "Noise"]

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Amount = Annotated[float, msgspec.Meta(ge=0)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


class Conditions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one series was taken and what else happened meanwhile.

    `steady_after` is the index of the steady state: the calls of warm-up before it, the first run not counted.
    `due` says from when a call is timed where not from its own beginning: from its arrival, which nothing that was
    measured decides, or from the start of the series, at which all were there.
    `utilisation` is CPU time of the process over wall time × the processors that it may use. `other_load` is what
    everything else kept busy of those processors during the series, `other_load_before` while the process warmed up.
    `waiting` is the mean number of its threads that could have run and waited for a processor; `steal_share` the
    time that a hypervisor gave to others; `quota_share` the wall time for which a quota of its control group
    stopped it; `stops` how often it was stopped by a signal and continued. `speed_ratio` is the speed of one fixed
    loop after the series over that before, `loop_lost_share` the share of that loop's wall time without a processor.
    Clocks are those of the fastest core that it may use. `thermal_events` counts what the processor reports.
    Swap is the machine's; `swapped_bytes` is the process's own. `energy` is how the energy of the series was read,
    `device` what the accelerator was like.
    """

    steady: bool | None = None
    steady_after: Whole | None = None
    steady_after_ms: Amount | None = None
    stopped_by: str | None = None
    due: Literal["arrival", "start"] | None = None
    utilisation: Amount | None = None
    other_load_before: Share | None = None
    other_load: Share | None = None
    waiting: Amount | None = None
    steal_share: Share | None = None
    quota_share: Share | None = None
    stops: Whole | None = None
    speed_ratio: Amount | None = None
    loop_lost_share: Share | None = None
    clock_before_hz: Amount | None = None
    clock_after_hz: Amount | None = None
    thermal_events: Whole | None = None
    swap_before_bytes: Whole | None = None
    swap_after_bytes: Whole | None = None
    swapped_bytes: Whole | None = None
    timer_resolution_ms: Amount | None = None
    energy: Energy | None = None
    device: DeviceConditions | None = None


class Noise(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The score of a quiet moment on a machine: may it measure, and if not, why not and what would help.

    `figures` are those of `runner.measure.noise`, each with its unit in its name.
    """

    verdict: Literal["pass", "noisy", "unusable"]
    reasons: list[str] = []
    remedies: list[str] = []
    figures: dict[str, float] = {}
