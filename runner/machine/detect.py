"""What this machine is: its devices, the platforms that really work on them, and how fast they were when tried."""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from domain.catalogues.hardware import FIGURES, HardwareSpec, cpu_slug, fill, find, slug
from domain.configuration import Hardware
from domain.payloads import Environment, Figure, HardwareDescribed, PlatformProbe, Specification
from runner.browser.check import probe_browser
from runner.machine.environment import environment
from runner.machine.probes import Probe, ProbedDevice, SmiDevice, nvidia_smi, probe_platforms
from runner.machine.processor import Processor, processor
from runner.machine.sustained_rates import Sustained, sustained_numpy, sustained_torch

__all__ = ["Detection", "Device", "derived_peaks", "describe", "detect", "own_hardware"]

_OS = "read from the operating system"
_TORCH_PLATFORMS = ("cuda", "rocm", "mps", "xpu")


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of device of this machine and how many of it; `addresses` says how each platform calls them."""

    hardware: Hardware
    spec: HardwareSpec
    probes: tuple[Probe, ...] = ()
    addresses: dict[str, tuple[str, ...]] = {}


class Detection(msgspec.Struct, frozen=True, kw_only=True):
    """All of one machine. The CPU is the first device; `probes` has every platform, the absent ones with a reason."""

    processor: Processor
    devices: tuple[Device, ...]
    probes: tuple[Probe, ...]
    environment: dict[str, Any]

    def device_for(self, platform: str, address: str | None = None) -> Device | None:
        """Return the device that a platform's work runs on (at that address, if given), or None where it does not work.

        OpenVINO's CPU is the CPU, not a second machine, and so is a browser's work, but for webgpu on a real adapter:
        that is the machine's GPU where it has just one, and nobody's where that is undecided.
        """
        fitting = (device for device in self.devices if device.addresses.get(platform))
        return next((d for d in fitting if address is None or address in d.addresses[platform]), None)


def own_hardware() -> Hardware:
    """Return the identity of this machine's CPU, quickly and without probing anything."""
    return _cpu_identity(processor())


def detect(*, measure: bool = True, browsers: bool = True) -> Detection:
    """Find this machine's devices and platforms; a few seconds, of which measuring takes about 0.4 s a figure.

    What is here is what answered: no environment variable, no list and no file name makes a device appear. Without
    `measure` no sustained figure is taken, without `browsers` no browser is started.
    """
    with ThreadPoolExecutor(1) as pool:
        browser = pool.submit(probe_browser) if browsers else None
        probes = probe_platforms()
        in_browser = browser.result() if browser else []
    probes += in_browser
    devices = [_cpu_device(processor(), probes, measure=measure)]
    for name, accelerator in _accelerators(probes).items():
        devices.append(_accelerator_device(name, accelerator, measure=measure))
    devices = _with_browser_gpu([*devices, *_unusable(devices)], probes)
    return Detection(processor=processor(), devices=tuple(devices), probes=tuple(probes), environment=environment())


def describe(detection: Detection) -> list[dict[str, Any]]:
    """Return one `assay.hardware.described.v1` event's data a device; the CPU's also says what is absent and why."""
    shown = []
    for index, device in enumerate(detection.devices):
        absent = () if index else tuple(probe for probe in detection.probes if not probe.available)
        spec = device.spec
        payload = HardwareDescribed(
            hardware=device.hardware,
            name=spec.name,
            vendor=spec.vendor,
            aliases=sorted({slug(alias) for alias in (*spec.aliases, spec.name)} - {spec.id}),
            platforms=[_platform(probe, device) for probe in (*device.probes, *absent)],
            spec=Specification(
                peak_flops=spec.peak_flops,
                sustained_flops=spec.sustained_flops,
                **{name: getattr(spec, name) for name in FIGURES},
            ),
            environment=msgspec.convert(detection.environment, Environment),
        )
        shown.append(msgspec.to_builtins(payload))
    return shown


def _platform(probe: Probe, device: Device) -> PlatformProbe:
    here = device.addresses.get(probe.platform, ())
    return PlatformProbe(
        platform=probe.platform,
        available=probe.available,
        devices=[str(result) for result in probe.devices if result.address in here],
        evidence=probe.evidence,
        reason=probe.reason,
        runtime=probe.runtime,
        precisions=list(probe.precisions),
    )


def _cpu_identity(cpu: Processor) -> Hardware:
    """Two sockets of a known processor are two of it; a quota or a hypervisor's slice has its cores in the id."""
    if cpu.sockets > 1 and cpu.cores % cpu.sockets == 0:
        each = cpu_slug(cpu.name, cpu.cores // cpu.sockets)
        return Hardware(id=each, kind="cpu", count=cpu.sockets)
    return Hardware(id=cpu_slug(cpu.name, cpu.cores), kind="cpu")


def _cpu_device(cpu: Processor, probes: list[Probe], *, measure: bool) -> Device:
    hardware = _cpu_identity(cpu)
    own = [probe for probe in probes if probe.available and any(_on_host(device) for device in probe.devices)]
    sustained = _cpu_sustained(cpu) if measure else Sustained()
    last = cpu.last_level_bytes
    spec = HardwareSpec(
        id=hardware.id,
        name=cpu.name,
        vendor=cpu.vendor,
        kind="cpu",
        platforms={probe.platform: probe.precisions for probe in own},
        memory_bytes=_measured(cpu.memory_bytes),
        cores=_measured(cpu.cores // hardware.count),
        cache_bytes=_measured(last // hardware.count) if last else None,
        clock_hz=_measured(cpu.clock_hz, cpu.clock_source or _OS) if cpu.clock_hz else None,
        sustained_flops=sustained.flops,
        sustained_bandwidth_bytes_per_s=sustained.bandwidth,
    )
    hardware_spec = find(hardware.id)
    if hardware_spec is None:
        hardware_spec = HardwareSpec(id=spec.id, name=spec.name, peak_flops=derived_peaks(cpu, hardware.count))
    addresses = {p.platform: tuple(d.address for d in p.devices if _on_host(d)) for p in own}
    return Device(hardware=hardware, spec=_raised(_filled(spec, hardware_spec)), probes=tuple(own), addresses=addresses)


def _raised(spec: HardwareSpec) -> HardwareSpec:
    """Lift derived peaks that a probe beat: the clock that they were derived from is not the one the CPU runs at."""
    both = spec.sustained_flops.keys() & spec.peak_flops.keys()
    ratios = (spec.sustained_flops[precision].value / spec.peak_flops[precision].value for precision in both)
    beaten = max(ratios, default=1.0)
    if beaten <= 1:
        return spec
    lifted = {
        precision: Figure(
            value=figure.value * beaten,
            status="derived",
            formula=f"{figure.value:.6g} FLOP/s × {beaten:.3f} (a probe was that much faster) from {figure.formula}",
        )
        for precision, figure in spec.peak_flops.items()
    }
    return msgspec.structs.replace(spec, peak_flops=lifted)


def _on_host(device: ProbedDevice) -> bool:
    return device.kind in ("cpu", "browser")


def derived_peaks(cpu: Processor, sockets: int = 1) -> dict[str, Figure]:
    """Return the dense peak of one socket by precision from cores, clock and instructions; empty without a clock.

    Operations a cycle are those of the usual build of each instruction set: two fused multiply-add units (512 bits wide
    with AVX-512, but 256 on AMD's families before 9005), a quarter of it without FMA, twice as many 16-bit as 32-bit
    lanes where the set has them, four times as many 8-bit ones.
    """
    has = set(cpu.instructions)
    if cpu.clock_hz is None:
        return {}
    narrow = cpu.vendor == "amd" and not any(word in cpu.name for word in ("9005", "9965", "9575"))
    if "avx512f" in has:
        lanes, unit = (32, "AVX-512 on 256-bit units") if narrow else (64, "2 AVX-512 FMA units")
    elif {"avx2", "fma"} <= has:
        lanes, unit = 32, "2 AVX2 FMA units"
    elif "sve" in has:
        lanes, unit = 32, "SVE, 512 bits a cycle"
    elif "asimd" in has:
        lanes, unit = (32, "4 NEON FMA units") if cpu.vendor == "apple" else (16, "2 NEON FMA units")
    else:
        lanes, unit = 8, "128-bit vectors"
    rates = {"fp32": (lanes, unit)}
    if "asimdhp" in has or "avx512_fp16" in has:
        rates["fp16"] = (2 * lanes, f"{unit}, 16-bit lanes")
    if "amx_bf16" in has:
        rates["bf16"] = (1024, "AMX")
    elif "avx512_bf16" in has or "bf16" in has:
        rates["bf16"] = (2 * lanes, f"{unit}, bf16 dot product")
    if "amx_int8" in has:
        rates["int8"] = (2048, "AMX")
    elif has & {"avx512_vnni", "avx_vnni", "asimddp"}:
        rates["int8"] = (4 * lanes, f"{unit}, 8-bit dot product")
    cores = cpu.cores // sockets
    return {
        precision: Figure(
            value=cores * cpu.clock_hz * per_cycle,
            status="derived",
            formula=f"{cores} cores × {cpu.clock_hz:.6g} Hz × {per_cycle} FLOP/cycle ({how})",
        )
        for precision, (per_cycle, how) in rates.items()
    }


def _cpu_sustained(cpu: Processor) -> Sustained:
    """A copy large enough that the last cache cannot hold it, and small enough for the machine."""
    wanted = max(64 * 2**20, 4 * (cpu.last_level_bytes or 0))
    copy_bytes = min(wanted, 2**30, cpu.memory_bytes // 16) // 4096 * 4096
    if importlib.util.find_spec("torch") is not None:
        native = {"amx_bf16", "avx512_bf16", "bf16"} & set(cpu.instructions)
        return sustained_torch("cpu", ("fp32", "bf16") if native else ("fp32",), copy_bytes)
    return sustained_numpy(copy_bytes) if importlib.util.find_spec("numpy") is not None else Sustained()


def _accelerators(probes: list[Probe]) -> dict[str, list[tuple[Probe, ProbedDevice]]]:
    """Devices that are not the CPU, by hardware id, each with the probes that used it."""
    accelerators: dict[str, list[tuple[Probe, ProbedDevice]]] = {}
    for probe in probes:
        for device in probe.devices if probe.available else ():
            if not _on_host(device) and device.kind != "browser_gpu":
                accelerators.setdefault(_id(device.name), []).append((probe, device))
    return accelerators


def _id(name: str) -> str:
    existing = find(name)
    return slug(name) if existing is None else existing.id


def _accelerator_device(id_: str, result: list[tuple[Probe, ProbedDevice]], *, measure: bool) -> Device:
    addresses: dict[str, tuple[str, ...]] = {}
    for probe, device in result:
        addresses[probe.platform] = (*addresses.get(probe.platform, ()), device.address)
    probes = {probe.platform: probe for probe, _ in result}
    first = result[0][1]
    smi = next((seen for seen in nvidia_smi() if _id(seen.name) == id_), None)
    driven = next(((platform, addresses[platform][0]) for platform in _TORCH_PLATFORMS if platform in addresses), None)
    sustained = Sustained()
    if measure and driven is not None:
        tried = tuple(p for p in ("fp32", "fp16", "bf16") if p in probes[driven[0]].precisions)
        sustained = sustained_torch(driven[1], tried, 2**28)
    spec = HardwareSpec(
        id=id_,
        name=first.name,
        kind=first.kind,
        platforms={platform: probe.precisions for platform, probe in probes.items()},
        memory_bytes=_measured(first.memory_bytes, "read from the runtime") if first.memory_bytes else None,
        cores=_measured(first.cores, "read from the runtime") if first.cores else None,
        power_w=_power(smi),
        sustained_flops=sustained.flops,
        sustained_bandwidth_bytes_per_s=sustained.bandwidth,
    )
    count = max(len(named) for named in addresses.values())
    return Device(
        hardware=Hardware(id=id_, kind=first.kind, count=count),
        spec=_with_catalogue(spec),
        probes=tuple(probes.values()),
        addresses=addresses,
    )


def _unusable(devices: list[Device]) -> list[Device]:
    """GPUs that the driver sees and no runtime here can use: they are hardware all the same."""
    ids = {device.hardware.id for device in devices}
    seen: dict[str, list[SmiDevice]] = {}
    for gpu in nvidia_smi():
        seen.setdefault(_id(gpu.name), []).append(gpu)
    return [
        Device(
            hardware=Hardware(id=id_, kind="gpu", count=len(gpus)),
            spec=_with_catalogue(
                HardwareSpec(
                    id=id_,
                    name=gpus[0].name,
                    vendor="nvidia",
                    kind="gpu",
                    power_w=_power(gpus[0]),
                    memory_bytes=_measured(gpus[0].memory_bytes, "nvidia-smi") if gpus[0].memory_bytes else None,
                )
            ),
        )
        for id_, gpus in seen.items()
        if id_ not in ids
    ]


def _with_browser_gpu(devices: list[Device], probes: list[Probe]) -> list[Device]:
    gpus = [device for device in devices if device.hardware.kind == "gpu"]
    for probe in probes:
        if len(gpus) == 1 and any(device.kind == "browser_gpu" for device in probe.devices):
            at, gpu = devices.index(gpus[0]), gpus[0]
            addresses = gpu.addresses | {probe.platform: tuple(device.address for device in probe.devices)}
            spec = msgspec.structs.replace(gpu.spec, platforms=gpu.spec.platforms | {probe.platform: ()})
            gpus = [msgspec.structs.replace(gpu, probes=(*gpu.probes, probe), addresses=addresses, spec=spec)]
            devices = [*devices[:at], *gpus, *devices[at + 1 :]]
    return devices


def _with_catalogue(spec: HardwareSpec) -> HardwareSpec:
    """Fill the gaps from the catalogue; what a probe reached is this machine's alone."""
    existing = find(spec.id)
    return spec if existing is None else _filled(spec, existing)


def _filled(spec: HardwareSpec, base: HardwareSpec) -> HardwareSpec:
    return msgspec.structs.replace(
        fill(spec, base),
        platforms=spec.platforms,
        sustained_flops=spec.sustained_flops,
        sustained_bandwidth_bytes_per_s=spec.sustained_bandwidth_bytes_per_s,
    )


def _power(smi: SmiDevice | None) -> Figure | None:
    limit = None if smi is None else smi.power_limit_w
    return _measured(limit, "nvidia-smi power limit") if limit else None


def _measured(value: float, source: str = _OS) -> Figure:
    return Figure(value=value, status="measured", source=source)
