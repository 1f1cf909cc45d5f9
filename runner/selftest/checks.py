"""The checks that run in a child: the platform driven as the runner drives it, with products whose answers are known."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from domain.errors import AssayError, UnsupportedWorkload
from domain.performance.energy import doubts
from runner.campaign.discovery import Announcer
from runner.machine.devices.lock import take
from runner.machine.processor import threads_allowed
from runner.machine.resident_memory import resident_memory_bytes
from runner.machine.scrub import scrub
from runner.measure.measuring import timed_ms
from runner.measure.power.meter import Unread
from runner.measure.power.sampling import Sampling, rest
from runner.measure.stopping import Method
from runner.platforms.base import Converted, Platform, Recipe, Settings
from runner.platforms.registry import create
from runner.protocol.tasks import Examine, Exhaust
from runner.selftest.record import Check

__all__ = ["ARITHMETIC", "arithmetic_of", "examine", "exhaust", "memory_problem", "precision_problem", "timing_problem"]


class Span(NamedTuple):
    """The relative errors of a product (Frobenius, against fp64) that an arithmetic gives."""

    least: float
    most: float


ARITHMETIC: dict[str, Span] = {
    "fp32": Span(0.0, 2e-5),
    "tf32": Span(2e-5, 1e-3),
    "fp16": Span(2e-5, 1e-3),
    "bf16": Span(1e-3, 1e-2),
}
"""Products of normal numbers, sums of 256. Rounding to 11 bits (tf32, fp16) gives 3e-4, to 8 bits (bf16) 2e-3; sums in fp32 5e-7."""

SLACK = 1.02
LEAST_SHARE = 0.8
DEVICE_LOW, DEVICE_HIGH = 0.5, 1.05
QUEUED = 1.5
MEMORY_LOW, MEMORY_HIGH = 0.95, 4.0
BROWSER_HIGH = 8.0
"""A browser holds the file, the runtime's copy, the backend's graph and what they were made from."""


def arithmetic_of(error: float) -> str:
    """Return the arithmetic that gives such an error, in words."""
    fits = [name for name, span in ARITHMETIC.items() if span.least <= error <= span.most]
    return " or ".join(fits) if fits else "none that is known"


def precision_problem(name: str, error: float) -> str | None:
    """Return why a product in a precision is not what was asked for, or None where it is."""
    span = ARITHMETIC[name]
    if span.least <= error <= span.most:
        return None
    return f"asked for {name}, and the error of {error:.1e} is that of {arithmetic_of(error)}"


def timing_problem(samples_ms: float, wall_ms: float, queued_ms: float, device_ms: float | None = None) -> str | None:
    """Return why the times of some calls cannot be right, or None.

    `samples_ms` is their sum, each waited for; `wall_ms` what another clock says of the same loop; `queued_ms` the time
    of as many calls that were waited for once, at the end; `device_ms` the sum by the device's own clock.
    """
    if samples_ms > SLACK * wall_ms:
        return f"the calls sum up to {samples_ms:.1f} ms, and another clock saw {wall_ms:.1f} ms pass"
    if samples_ms < LEAST_SHARE * wall_ms:
        return f"the calls sum up to {samples_ms:.1f} ms of the {wall_ms:.1f} ms that the loop took"
    if queued_ms > QUEUED * samples_ms:
        return (
            f"as many calls took {queued_ms:.1f} ms where they were waited for at the end, and {samples_ms:.1f} ms where each "
            "was: waiting returns too early"
        )
    if device_ms is not None and not DEVICE_LOW * samples_ms <= device_ms <= DEVICE_HIGH * samples_ms:
        return f"the device's own clock says {device_ms:.1f} ms of the {samples_ms:.1f} ms"
    return None


def memory_problem(known_bytes: int, counted_bytes: int, most: float = MEMORY_HIGH) -> str | None:
    """Return why the growth of counted memory cannot be that of known weights, or None."""
    if counted_bytes < MEMORY_LOW * known_bytes:
        return f"{counted_bytes:,} bytes were counted where {known_bytes:,} bytes of weights were loaded"
    if counted_bytes > most * known_bytes:
        return f"{counted_bytes:,} bytes were counted for {known_bytes:,} bytes of weights"
    return None


_SIDE = 256
_SIDES = (512, 1024, 2048, 4096)
_LONG_ENOUGH_MS = 2.0
_CALLS = 20
_ROUNDS = 3
_WEIGHTS = (8192, 4096)
_POWER_S = 2.5
_POINTLESS = "not tried, because the product was not right or not done where it was asked for"
_REST_S = 1.0
_CHUNK_BYTES = 64 * 2**20
_SHARE_OF_MPS = 0.2
_GIVE_UP_BYTES = 8 * 2**30


class _Bench:
    """A platform and products on it."""

    def __init__(self, task: Examine, folder: Path) -> None:
        self.task = task
        self.folder = folder
        self.platform: Platform = create(task.platform)
        self.resident_before = 0

    def loaded(
        self, outputs: int, inputs: int, rows: int, precision: str | None = None, *, is_known: bool = True
    ) -> tuple[Any, Any]:
        """Return the placed inputs and, where it is to be known, the right answer in fp64 of a product on a fresh platform.

        `resident_before` is the resident memory before anything of it was there that runs.
        """
        import torch

        gc.collect()
        self.resident_before = resident_memory_bytes()
        torch.manual_seed(0)
        module, x = _product(torch, outputs, inputs), torch.randn(rows, inputs)
        right = (x.double() @ module.inner.weight.detach().double().T).numpy() if is_known else None
        self.platform = create(self.task.platform)
        has = self.platform.precisions()
        precision = precision or ("fp32" if "fp32" in has else has[0])
        target: Any = module
        if self.platform.converts:
            folder = Path(tempfile.mkdtemp(dir=self.folder))
            self.platform.convert(module, {"x": x}, folder, Recipe(precision=precision))
            target = Converted(folder=folder)
            del module
            gc.collect()
            self.resident_before = resident_memory_bytes()
        settings = Settings(precision=precision, threads=threads_allowed(), device=self.task.device)
        self.platform.load(target, settings)
        self.platform.compile()
        return self.platform.place({"x": x}), right

    def call(self, placed: Any) -> Callable[[], Any]:
        return lambda: self.platform.run(placed)

    def once(self, placed: Any) -> Any:
        """Return the product as an fp64 array."""
        result = self.platform.run(placed)
        self.platform.synchronize()
        return self.platform.outputs(result)[0][1].astype(np.float64)


def _product(torch: Any, outputs: int, inputs: int) -> Any:
    class Product(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(inputs, outputs, bias=False)
            torch.nn.init.normal_(self.inner.weight)

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    return Product().eval()


def examine(task: Examine, speaker: Announcer) -> list[dict[str, Any]]:
    """Return the checks of a platform, in order; without a product that is right and at home the later ones are skipped."""
    speaker.reach("resolve")
    probe = create(task.platform).probe()
    if not probe.available:
        why = " ".join(filter(None, (probe.reason, probe.remedy)))
        return [msgspec.to_builtins(Check(name="probe", outcome="failed", said=why or "the probe said no"))]
    checks = [
        Check(name="probe", outcome="passed", said=probe.evidence or "", figures={"devices": list(probe.devices)})
    ]
    speaker.reach("run")
    with tempfile.TemporaryDirectory() as folder:
        bench = _Bench(task, Path(folder))
        for name, check in _CHECKS.items():
            wrong = any(each.name == "product" and each.outcome == "failed" for each in checks)
            checks.append(
                Check(name=name, outcome="skipped", said=_POINTLESS) if wrong else _guarded(name, check, bench)
            )
    return [msgspec.to_builtins(each) for each in checks]


def _guarded(name: str, check: Callable[[_Bench], Check], bench: _Bench) -> Check:
    try:
        return check(bench)
    except Exception as error:
        detail = error.detail if isinstance(error, AssayError) else str(error) or repr(error)
        return Check(name=name, outcome="failed", said=scrub(f"{type(error).__name__}: {detail}")[:600])
    finally:
        bench.platform.close()


def _alone(bench: _Bench) -> Check:
    key = bench.platform.device_key(bench.task.device)
    if key is not None:
        take(key).close()
    watcher = bench.platform.watcher(bench.task.device)
    if watcher is None:
        return Check(
            name="device", outcome="skipped", said="the platform has no device of its own whose state is shown"
        )
    if isinstance(watcher, Unread):
        return Check(name="device", outcome="skipped", said=str(watcher))
    state = watcher.state()
    shown = {name: value for name, value in msgspec.to_builtins(state).items() if value is not None}
    if state.others:
        return Check(
            name="device", outcome="failed", said=f"{state.others} other processes use it; end them", figures=shown
        )
    return Check(
        name="device",
        outcome="passed",
        said=f"it is there for us alone and shows {', '.join(shown) or 'nothing'}",
        figures=shown,
    )


def _multiplies(bench: _Bench) -> Check:
    placed, right = bench.loaded(_SIDE, _SIDE, _SIDE)
    error = _error(bench.once(placed), right)
    observed = bench.platform.observe(placed)
    figures = {
        "relative_error": error,
        "device": observed.device,
        "platform": observed.platform,
        "fallback_share": observed.fallback_share,
        **observed.details,
    }
    problem = "the product is wrong" if not error < ARITHMETIC["bf16"].most else None
    if problem is None and observed.fallback_share > 0:
        why = observed.details.get("emulated")
        problem = (
            f"{observed.fallback_share:.0%} of it was done elsewhere, on {observed.device}{f': {why}' if why else ''}"
        )
    said = problem or f"a {_SIDE} × {_SIDE} product was right, on {observed.device}"
    return Check(name="product", outcome="failed" if problem else "passed", said=said, figures=figures)


def _precisions(bench: _Bench) -> Check:
    errors, refused = {}, []
    for precision in (name for name in bench.platform.precisions() if name in ARITHMETIC):
        try:
            placed, right = bench.loaded(_SIDE, _SIDE, _SIDE, precision)
            errors[precision] = _error(bench.once(placed), right)
        except UnsupportedWorkload:
            refused.append(precision)
        bench.platform.close()
    if not errors:
        return Check(name="precision", outcome="failed", said=f"every precision was refused: {', '.join(refused)}")
    problems = [problem for name, error in errors.items() if (problem := precision_problem(name, error))]
    seen = ", ".join(f"{name} {error:.1e}" for name, error in errors.items())
    seen += "".join(f", {name} refused" for name in refused)
    said = "; ".join(problems) or f"the errors are those of what was asked for: {seen}"
    return Check(name="precision", outcome="failed" if problems else "passed", said=said, figures=errors)


def _timing(bench: _Bench) -> Check:
    for side in _SIDES:
        placed, _ = bench.loaded(side, side, side, is_known=False)
        call = bench.call(placed)
        _round(bench, call, 1)
        if _round(bench, call, 1)["sum_ms"] >= _LONG_ENOUGH_MS or side == _SIDES[-1]:
            break
        bench.platform.close()
    # What a neighbour holds up in one round is not held up in all; a clock that is wrong is wrong in each.
    rounds = [_round(bench, call) for _ in range(_ROUNDS)]
    best = max(rounds, key=lambda each: each["sum_ms"] / each["wall_ms"])
    quickest = min(rounds, key=lambda each: each["sum_ms"])
    queued = min(_queued_ms(bench, call) for _ in range(_ROUNDS))
    problem = timing_problem(best["sum_ms"], best["wall_ms"], 0.0) or timing_problem(
        quickest["sum_ms"], quickest["sum_ms"], queued, quickest["device_ms"]
    )
    rate = 2 * side**3 * _CALLS / (quickest["sum_ms"] / 1e3)
    figures = {
        "side": side,
        "calls": _CALLS,
        **best,
        "quickest_ms": quickest["sum_ms"],
        "queued_ms": queued,
        "flops": rate,
    }
    paged = bench.platform.timer() is not None
    clock = "the page's clock around them" if paged else "another clock"
    once = "without readings between them" if paged else "waited for once"
    said = problem or (
        f"{_CALLS} products of side {side}: {best['sum_ms']:.1f} ms by their sum, {best['wall_ms']:.1f} ms by {clock}, "
        f"{queued:.1f} ms {once}; {rate / 1e12:.3g} TFLOP/s"
    )
    return Check(name="timing", outcome="failed" if problem else "passed", said=said, figures=figures)


def _round(bench: _Bench, call: Callable[[], Any], calls: int = _CALLS) -> dict[str, Any]:
    """Return the sum of some calls by the clock of samples, by another clock, and by the device's own where it has one."""
    timer = bench.platform.timer()
    if timer is not None:
        times, _, elapsed_s, _ = timer.series(Method(iterations=calls))
        return {"sum_ms": sum(times), "wall_ms": elapsed_s * 1e3, "device_ms": None}
    marks, samples = [], []
    began = time.time_ns()
    for _ in range(calls):
        start = bench.platform.mark()
        samples.append(timed_ms(call, bench.platform.synchronize))
        if start is not None:
            marks.append((start, bench.platform.mark()))
    wall_ms = (time.time_ns() - began) / 1e6
    bench.platform.synchronize()
    device_ms = sum(bench.platform.between_ms(*pair) for pair in marks) if marks else None
    return {"sum_ms": sum(samples), "wall_ms": wall_ms, "device_ms": device_ms}


def _queued_ms(bench: _Bench, call: Callable[[], Any]) -> float:
    """Return the time of some calls that are waited for once, or between two readings of the page's clock."""
    timer = bench.platform.timer()
    if timer is not None:
        return timer.bare_ms(_CALLS) * _CALLS
    return timed_ms(lambda: [call() for _ in range(_CALLS)], bench.platform.synchronize)


def _memory(bench: _Bench) -> Check:
    existing = 4 * _WEIGHTS[0] * _WEIGHTS[1]
    before_device = bench.platform.device_memory_bytes() or 0
    placed, _ = bench.loaded(*_WEIGHTS, 1, is_known=False)
    bench.once(placed)
    on_device = bench.platform.device_memory_bytes()
    counted = resident_memory_bytes() - bench.resident_before if on_device is None else on_device - before_device
    where = "resident" if on_device is None else "device"
    peak = bench.platform.peak_memory_bytes()
    if peak is not None:
        # The work is done by other processes: what they hold with next to no weights is not counted.
        bench.platform.close()
        bench.once(bench.loaded(1, 1, 1, is_known=False)[0])
        counted, where = peak - (bench.platform.peak_memory_bytes() or 0), "other processes'"
    problem = memory_problem(existing, counted, MEMORY_HIGH if peak is None else BROWSER_HIGH)
    said = problem or f"{counted / 1e6:,.0f} MB of {where} memory for {existing / 1e6:,.0f} MB of weights"
    figures = {"known_bytes": existing, "counted_bytes": counted, "where": where}
    return Check(name="memory", outcome="failed" if problem else "passed", said=said, figures=figures)


def _power(bench: _Bench) -> Check:
    watcher = bench.platform.watcher(bench.task.device)
    if watcher is None:
        meter = bench.platform.meter(bench.task.device)
    else:
        meter = watcher if isinstance(watcher, Unread) else watcher.meter()
    if isinstance(meter, Unread):
        return Check(name="power", outcome="skipped", said=f"no power can be read: {meter}")
    idle = rest(meter, _REST_S)
    placed, _ = bench.loaded(_SIDES[-2], _SIDES[-2], _SIDES[-2], is_known=False)
    bench.once(placed)
    began = time.monotonic()
    with Sampling(meter, idle=idle) as sampling:
        while time.monotonic() - began < _POWER_S:
            timed_ms(bench.call(placed), bench.platform.synchronize)
    meter.close()
    energy = sampling.energy()
    verdict, reasons = doubts(energy) if energy.unread is None else ("invalid", [energy.unread])
    shown = {name: value for name, value in msgspec.to_builtins(energy).items() if value is not None}
    said = (
        "; ".join(reasons) or f"{energy.power_w:.3g} W under work, {energy.idle_w or 0:.3g} W at rest: {energy.scope}"
    )
    return Check(name="power", outcome="passed" if verdict == "valid" else "failed", said=said, figures=shown)


_CHECKS: dict[str, Callable[[_Bench], Check]] = {
    "device": _alone,
    "product": _multiplies,
    "memory": _memory,
    "precision": _precisions,
    "timing": _timing,
    "power": _power,
}


def _error(got: Any, right: Any) -> float:
    return float(np.linalg.norm(got - right) / np.linalg.norm(right))


def exhaust(task: Exhaust, speaker: Announcer) -> None:
    """Take memory until there is no more: of the device where it has its own, else of this process.

    The device's end is an exception; the process's is its parent's limit. Raises RuntimeError where neither came.
    """
    speaker.reach("load")
    platform = create(task.platform)
    probe = platform.probe()
    if not probe.available:
        raise RuntimeError(f"the platform is gone: {probe.reason}")
    held: list[Any] = []
    where = getattr(platform, "device_type", "cpu")
    while len(held) * _CHUNK_BYTES < (_GIVE_UP_BYTES if where == "cpu" else 2**62):
        held.append(_chunk(where, task.device))
    raise RuntimeError(f"{len(held) * _CHUNK_BYTES:,} bytes were taken and no limit was met")


def _chunk(where: str, device: str | None) -> Any:
    if where == "cpu":
        time.sleep(0.02)  # So that whoever watches this process sees it grow.
        return np.ones(_CHUNK_BYTES, dtype=np.uint8)
    import torch

    if where == "mps":
        # Its memory is the machine's, which would swap long before Metal says no.
        torch.mps.set_per_process_memory_fraction(_SHARE_OF_MPS)
    return torch.ones(_CHUNK_BYTES, dtype=torch.uint8, device=device or where)
