"""Which software a measurement ran on: driver, operating system, libraries. No name of a person or a machine."""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from domain.canonical import canonical
from runner.machine.processor import WINDOWS_MACHINE, processor, registry_value

__all__ = ["LIBRARIES", "environment", "nvidia_driver"]

LIBRARIES = (
    "torch",
    "torchvision",
    "transformers",
    "timm",
    "diffusers",
    "openvino",
    "onnxruntime",
    "onnxruntime-qnn",
    "numpy",
    "nncf",
    "torchao",
    "triton",
    "intel-extension-for-pytorch",
)
"""Distributions whose version can change how fast a model runs."""

_DMI = Path("/sys/class/dmi/id")
_HYPERVISORS = {
    "qemu": "kvm",
    "amazon": "aws",
    "google": "google",
    "microsoft": "hyper-v",
    "vmware": "vmware",
    "xen": "xen",
    "innotek": "virtualbox",
    "parallels": "parallels",
    "openstack": "kvm",
    "alibaba": "alibaba",
    "digitalocean": "kvm",
}


@cache
def _facts() -> dict[str, Any]:
    cpu = processor()
    facts: dict[str, Any] = {
        "driver": nvidia_driver(),
        "os": _os_name(),
        "kernel": platform.version() if sys.platform == "win32" else platform.release(),
        "python": platform.python_version(),
        "libraries": _libraries(),
        "cpu": cpu.name,
        "machine": cpu.machine,
        "memory_bytes": cpu.memory_bytes,
        "hypervisor": _hypervisor() if cpu.virtual else None,
    }
    return {key: value for key, value in facts.items() if value is not None}


def environment() -> dict[str, Any]:
    """Return the environment as events carry it; members that could not be read are absent.

    `fingerprint` is 16 hex digits over the rest (memory rounded to GiB, so that a reboot does not change it): two runs
    with the same fingerprint had the same software. No host name, user, path or serial number is read.
    """
    facts = _facts()
    stable = facts | {"memory_bytes": round(facts["memory_bytes"] / 2**30)}
    fingerprint = hashlib.sha256(canonical(stable)).hexdigest()[:16]
    return {"fingerprint": fingerprint, **facts, "libraries": dict(facts["libraries"])}


def _libraries() -> dict[str, str]:
    matches: dict[str, str] = {}
    for name in LIBRARIES:
        try:
            matches[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return matches


def _os_name() -> str:
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    if sys.platform == "win32":
        return f"Windows {platform.release()}"
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _hypervisor() -> str:
    """The hypervisor's kind by the maker the firmware names, or `unknown`: product names can hold private words."""
    words = [str(registry_value(WINDOWS_MACHINE, "SystemManufacturer") or "").lower()]
    for file in (_DMI / "sys_vendor", _DMI / "bios_vendor", Path("/sys/hypervisor/type")):
        with suppress(OSError):
            words.append(file.read_text("utf-8").lower())
    return next((name for word in words for part, name in _HYPERVISORS.items() if part in word), "unknown")


@cache
def nvidia_driver() -> str | None:
    """Return the version of the NVIDIA kernel driver, or None where there is none."""
    try:
        loaded = Path("/proc/driver/nvidia/version").read_text("utf-8")
    except OSError:
        loaded = ""
    match = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", loaded)
    if match:
        return match.group(1)
    if shutil.which("nvidia-smi") is None:
        return None
    process = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    return process.stdout.split("\n")[0].strip() or None if process.returncode == 0 else None
