"""One probe a platform: is it here, seen by really using it; and if not, why not. Nothing is believed unasked."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from runner.machine.processor import processor

__all__ = ["Probe", "ProbedDevice", "SmiDevice", "nvidia_smi", "parse_smi", "probe_platforms"]

_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_SIDE = 64
"""Side of the probing product: 0.5 x 0.5 summed over 64 is exactly 16 in every type that is tried."""


class ProbedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device as its runtime names it; `cores` are SMs, CUs or Xe cores. What the runtime does not tell is None."""

    address: str
    name: str
    kind: str
    memory_bytes: int | None = None
    cores: int | None = None

    def __str__(self) -> str:
        return f"{self.address} {self.name}"


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What came of trying a platform: `evidence` says what ran, or `reason` why nothing did."""

    platform: str
    available: bool
    devices: tuple[ProbedDevice, ...] = ()
    evidence: str | None = None
    reason: str | None = None
    runtime: dict[str, str | None] | None = None
    precisions: tuple[str, ...] = ()


class SmiDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU as `nvidia-smi` reports it, whether or not a runtime here can use it."""

    name: str
    driver: str
    memory_bytes: int | None
    power_limit_w: float | None


def probe_platforms() -> list[Probe]:
    """Try every platform but the browser's; a probe that breaks says so in its reason and never stops the others."""
    probes = (
        ("cpu", _cpu),
        ("cuda", _cuda),
        ("rocm", _rocm),
        ("mps", _mps),
        ("xpu", _xpu),
        ("openvino", _openvino),
        ("qnn", _qnn),
        ("hpu", _hpu),
        ("tpu", _tpu),
    )
    return [_guarded(platform, probe) for platform, probe in probes]


def _guarded(platform: str, probe: Callable[[], Probe]) -> Probe:
    try:
        return probe()
    except Exception as error:
        return _absent(platform, f"the probe broke: {type(error).__name__}: {_first_line(error)}")


def _absent(platform: str, reason: str) -> Probe:
    return Probe(platform=platform, available=False, reason=reason)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "").strip()[:300]


@cache
def _torch() -> Any | None:
    return importlib.import_module("torch") if importlib.util.find_spec("torch") else None


def _works(torch: Any, address: str, dtype: str) -> bool:
    """Whether a product in that type is computed on that device, and right."""
    try:
        left = torch.full((_SIDE, _SIDE), 0.5, dtype=getattr(torch, dtype), device=address)
        product = left @ left
        return product.device.type == address.partition(":")[0] and bool((product == _SIDE / 4).all().item())
    except (RuntimeError, TypeError, NotImplementedError):
        return False


def _torch_probe(platform: str, devices: list[ProbedDevice], extra: str = "") -> Probe:
    torch = _torch()
    assert torch is not None
    runtime: dict[str, str | None] = {"name": "torch", "version": str(torch.__version__)}
    ran = {
        precision: [device.address for device in devices if _works(torch, device.address, dtype)]
        for precision, dtype in _DTYPES.items()
    }
    working = tuple(device for device in devices if device.address in ran["fp32"])
    if not working:
        names = ", ".join(map(str, devices))
        return Probe(
            platform=platform,
            available=False,
            runtime=runtime,
            devices=tuple(devices),
            reason=f"torch lists {names} and a {_SIDE} x {_SIDE} product there failed or was wrong",
        )
    precisions = tuple(precision for precision, addresses in ran.items() if addresses)
    where = ", ".join(map(str, working))
    return Probe(
        platform=platform,
        available=True,
        devices=working,
        evidence=f"a {_SIDE} x {_SIDE} product in {', '.join(precisions)} on {where} was right{extra}",
        runtime=runtime,
        precisions=precisions,
    )


def _cpu() -> Probe:
    cpu = processor()
    device = ProbedDevice(address="cpu", name=cpu.name, kind="cpu", memory_bytes=cpu.memory_bytes, cores=cpu.cores)
    extra = f"; {cpu.cores} cores, {cpu.threads} threads, {' '.join(cpu.instructions)}"
    if _torch() is not None:
        return _torch_probe("cpu", [device], extra)
    if importlib.util.find_spec("numpy") is None:
        return _absent("cpu", "neither torch nor numpy is installed; install the extra `runner`")
    numpy = importlib.import_module("numpy")
    left = numpy.full((_SIDE, _SIDE), 0.5, dtype=numpy.float32)
    right = bool((left @ left == _SIDE / 4).all())
    return Probe(
        platform="cpu",
        available=False,
        devices=(device,),
        runtime={"name": "numpy", "version": numpy.__version__},
        reason="torch is not installed; install the extra `runner`",
        evidence=f"a numpy product was {'right' if right else 'wrong'}{extra}",
    )


def _cuda() -> Probe:
    return _cuda_like("cuda", hip=False)


def _rocm() -> Probe:
    return _cuda_like("rocm", hip=True)


def _cuda_like(platform: str, *, hip: bool) -> Probe:
    seen = () if hip else nvidia_smi()
    suffix = f"; nvidia-smi sees {', '.join(device.name for device in seen)}" if seen else ""
    torch = _torch()
    if torch is None:
        return _absent(platform, f"torch is not installed{suffix}")
    if bool(torch.version.hip) != hip or (not hip and torch.version.cuda is None):
        return _absent(platform, f"torch {torch.__version__} is not built for {'ROCm' if hip else 'CUDA'}{suffix}")
    if not torch.cuda.is_available():
        return _absent(platform, f"torch {torch.__version__} finds no {'AMD' if hip else 'NVIDIA'} device{suffix}")
    devices = [_accelerator(torch.cuda, "cuda", index) for index in range(torch.cuda.device_count())]
    built = f"HIP {torch.version.hip}" if hip else f"CUDA {torch.version.cuda}"
    drivers = "".join(f"; nvidia-smi: {d.name}, driver {d.driver}, limit {d.power_limit_w} W" for d in seen)
    return _torch_probe(platform, devices, f"; {built}{drivers}")


def _accelerator(module: Any, kind: str, index: int) -> ProbedDevice:
    properties = module.get_device_properties(index)
    cores = getattr(properties, "multi_processor_count", None) or getattr(properties, "gpu_subslice_count", None)
    return ProbedDevice(
        address=f"{kind}:{index}",
        name=module.get_device_name(index),
        kind="gpu",
        memory_bytes=int(properties.total_memory),
        cores=cores,
    )


def _mps() -> Probe:
    torch = _torch()
    if torch is None:
        return _absent("mps", "torch is not installed")
    if not torch.backends.mps.is_available():
        built = "finds no Apple GPU" if torch.backends.mps.is_built() else "is not built for Apple GPUs"
        return _absent("mps", f"torch {torch.__version__} {built}")
    cpu = processor()
    gpu = ProbedDevice(address="mps", name=f"{cpu.name} GPU", kind="gpu", memory_bytes=cpu.memory_bytes)
    return _torch_probe("mps", [gpu])


def _xpu() -> Probe:
    torch = _torch()
    if torch is None:
        return _absent("xpu", "torch is not installed")
    if not hasattr(torch, "xpu") or not torch.xpu.is_available():
        return _absent("xpu", f"torch {torch.__version__} finds no Intel GPU, or is not built for one")
    return _torch_probe("xpu", [_accelerator(torch.xpu, "xpu", index) for index in range(torch.xpu.device_count())])


def _openvino() -> Probe:
    if importlib.util.find_spec("openvino") is None:
        return _absent("openvino", "openvino is not installed; install the extra `runner`")
    openvino = importlib.import_module("openvino")
    core = openvino.Core()
    devices, evidence, failed = [], [], []
    precisions: list[str] = []
    for address in core.available_devices:
        name = str(core.get_property(address, "FULL_DEVICE_NAME"))
        try:
            where = _openvino_infer(openvino, core, address)
        except RuntimeError as error:
            failed.append(f"{address} {name}: {_first_line(error)}")
            continue
        kind = {"CPU": "cpu", "GPU": "gpu", "NPU": "npu"}.get(address.partition(".")[0], "other")
        devices.append(ProbedDevice(address=address, name=name, kind=kind))
        evidence.append(f"a product on {address} ({name}) was right and ran on {where}")
        capabilities = [str(word).lower() for word in core.get_property(address, "OPTIMIZATION_CAPABILITIES")]
        precisions += [word for word in ("fp32", "fp16", "bf16", "int8") if word in capabilities]
    runtime: dict[str, str | None] = {"name": "openvino", "version": openvino.__version__.split("-")[0]}
    return Probe(
        platform="openvino",
        available=bool(devices),
        devices=tuple(devices),
        evidence="; ".join(evidence) or None,
        reason=None if devices else "; ".join(failed) or "openvino lists no device",
        runtime=runtime,
        precisions=tuple(dict.fromkeys(precisions)),
    )


def _openvino_infer(openvino: Any, core: Any, address: str) -> str:
    """Multiply two matrices on the device; return the devices that did it, or raise RuntimeError."""
    numpy, ops = importlib.import_module("numpy"), importlib.import_module("openvino.opset13")
    operand = ops.parameter([_SIDE, _SIDE], numpy.float32)
    compiled = core.compile_model(openvino.Model([ops.matmul(operand, operand, False, False)], [operand]), address)
    values = compiled(numpy.full((_SIDE, _SIDE), 0.5, dtype=numpy.float32))[0]
    if not numpy.allclose(values, _SIDE / 4):
        raise RuntimeError(f"the product was wrong: {float(values.flat[0])} in place of {_SIDE / 4}")
    return ", ".join(map(str, compiled.get_property("EXECUTION_DEVICES")))


def _qnn() -> Probe:
    qnn = importlib.import_module("..platforms.qnn", __package__).Qnn()
    probe = qnn.probe()
    if not probe.available:
        return _absent("qnn", probe.reason or "its probe said no")
    emulated = qnn.emulated()
    if emulated:
        return _absent("qnn", f"simulated only: {emulated}")
    device = ProbedDevice(address="htp", name=f"{processor().name} NPU", kind="npu")
    runtime = qnn.runtime()
    return Probe(
        platform="qnn",
        available=True,
        devices=(device,),
        precisions=qnn.precisions(),
        runtime={"name": runtime.name, "version": runtime.version},
        evidence=probe.evidence,
    )


def _hpu() -> Probe:
    if importlib.util.find_spec("habana_frameworks") is None:
        return _absent("hpu", "habana_frameworks is not installed")
    importlib.import_module("habana_frameworks.torch.core")
    hpu = importlib.import_module("habana_frameworks.torch.hpu")
    if not hpu.is_available():
        return _absent("hpu", "habana_frameworks finds no Gaudi device")
    devices = [
        ProbedDevice(address=f"hpu:{index}", name=hpu.get_device_name(index), kind="other")
        for index in range(hpu.device_count())
    ]
    return _torch_probe("hpu", devices)


def _tpu() -> Probe:
    if importlib.util.find_spec("torch_xla") is None:
        return _absent("tpu", "torch_xla is not installed")
    xla = importlib.import_module("torch_xla.core.xla_model")
    tpu = importlib.import_module("torch_xla._internal.tpu")
    address = str(xla.xla_device())
    name = f"Google TPU {tpu.get_tpu_env()['TYPE']}"
    return _torch_probe("tpu", [ProbedDevice(address=address, name=name, kind="tpu")])


@cache
def nvidia_smi() -> tuple[SmiDevice, ...]:
    """Return the NVIDIA GPUs that the driver's own tool sees, or none where the tool is absent or fails."""
    if shutil.which("nvidia-smi") is None:
        return ()
    process = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )
    return parse_smi(process.stdout) if process.returncode == 0 else ()


def parse_smi(text: str) -> tuple[SmiDevice, ...]:
    """Read the tool's CSV: name, driver, memory in MiB, power limit in W; `[N/A]` is None."""

    def number(word: str) -> float | None:
        return float(word) if word.replace(".", "", 1).isdigit() else None

    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if len(row) == 4]
    return tuple(
        SmiDevice(
            name=name,
            driver=driver,
            memory_bytes=None if number(memory) is None else int(number(memory) or 0) * 2**20,
            power_limit_w=number(power),
        )
        for name, driver, memory, power in rows
    )
