"""What a snippet launches: the first place of an answer, its machine, its command, and what has to be said of it."""

from __future__ import annotations

import math
import re

import msgspec

from domain.answers import HourPrice, RankedOption, Recommendation
from domain.catalogues import engines, hardware
from domain.catalogues.prices import OWN
from domain.errors import UsageError
from presentation import formatting
from presentation.answer_words import device_name, evidence_words
from presentation.launch.commands import Command, bench, serve

__all__ = ["RESOURCES", "Plan", "machine_of", "plan_of", "slug"]

RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/xe"}
"""Names under which the device plugins of Kubernetes hand out GPUs, by vendor."""
NAMED_INSTANCES = ("aws", "azure", "gcp", "oci")
"""Providers whose managed Kubernetes labels nodes with the instance type."""
LEAST_DISK_GB = 100
_ARM = re.compile(r"aws-graviton|nvidia-gh?b?\d00|google-axion|ampere-")
_CORES = re.compile(r"-(\d+)c$")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is launched: `devices` of one machine run a command. `machine` is None where no price names one.

    `resource` is the name of the devices in Kubernetes, None for a processor, of which `cores` are wanted where that is
    known. `comments` and `assumed` are lines for whoever reads the snippet.
    """

    name: str
    model: str
    option: RankedOption
    command: Command
    devices: int
    resource: str | None
    cores: int | None
    arm: bool
    disk_gb: int
    machine: HourPrice | None
    comments: tuple[str, ...]
    assumed: tuple[str, ...]

    @property
    def vendor(self) -> str | None:
        """The vendor whose GPUs it uses; None for a processor."""
        return next((vendor for vendor, name in RESOURCES.items() if name == self.resource), None)


def plan_of(answer: Recommendation) -> Plan:
    """Return what launches the first place. Raises UsageError where there is none, or where nothing hands out its device."""
    if answer.abstained or not answer.ranked:
        raise UsageError(
            f"nothing is recommended, so that there is nothing to launch: {answer.abstained or 'no device is left.'}",
            field="model",
            remedy="Ask with other limits or hardware.",
        )
    if answer.model.startswith("-"):
        raise UsageError(
            f"{answer.model!r} reads as an option of a command.",
            field="model",
            remedy="Ask for the model by another name.",
        )
    option = answer.ranked[0]
    spec = hardware.find(option.hardware)
    kind = spec.kind if spec is not None else None
    if option.platform not in ("cpu", "cuda", "rocm", "xpu", "openvino", "onnxruntime") or kind in ("npu", "tpu"):
        raise UsageError(
            f"{device_name(option.hardware)} runs it under {option.platform}, which no cloud or scheduler here hands out.",
            field="hardware",
            remedy=f"Run it on the device itself: {option.command}. Or ask with --platform cuda, rocm or cpu.",
        )
    vendor = spec.vendor if spec is not None else option.hardware.partition("-")[0]
    resource = None if kind == "cpu" or option.platform == "cpu" else RESOURCES.get(str(vendor))
    if resource is None and kind != "cpu":
        raise UsageError(
            f"it is not known how a scheduler hands out {option.hardware}.",
            field="hardware",
            remedy="Ask with --vendor nvidia, amd or intel.",
        )
    command = _command(answer, option)
    assumed = [*command.assumed]
    if resource == RESOURCES["intel"]:
        assumed.append("the driver is xe; with the older i915 the resource is gpu.intel.com/i915")
    if answer.call is not None and answer.call.assumed:
        assumed.append(answer.call.assumed)
    if answer.model.startswith("local/") or option.variant is not None:
        assumed.append(f"the files of {_runs(answer, option)} are where the command runs")
    if option.hardware.endswith("-igpu"):
        assumed.append("the GPU is part of the processor, and the node has no other")
    devices = option.hardware_count or 1
    return Plan(
        name=slug(_runs(answer, option)),
        model=_runs(answer, option),
        option=option,
        command=command,
        devices=devices,
        resource=resource,
        cores=None if resource else _cores(option.hardware),
        arm=bool(_ARM.match(option.hardware)),
        disk_gb=_disk(option),
        machine=option.price if option.price is not None and option.price.provider != OWN else None,
        comments=(*_comments(answer, option), *_price_comments(option)),
        assumed=tuple(assumed),
    )


def _runs(answer: Recommendation, option: RankedOption) -> str:
    """The model that the option runs: a variant of it has an id of its own."""
    return answer.model if option.variant is None else option.variant.model


def machine_of(plan: Plan, form: str) -> HourPrice:
    """Return the one machine that a price names. Raises UsageError where there is none, or several would be needed."""
    machine = plan.machine
    name = device_name(plan.option.hardware, plan.devices)
    if machine is None or machine.instance is None:
        raise UsageError(
            f"no price names a machine with {name}, so that {form} has nothing to rent.",
            field="format",
            remedy="Ask with --max-usd-per-hour or --objective cost for what can be rented, or with --format k8s or slurm.",
        )
    if machine.machines > 1:
        raise UsageError(
            f"the price is that of {machine.machines} machines with {machine.devices_each} of the {plan.devices} devices "
            "each, and the snippet runs on one.",
            field="format",
            remedy="Ask with --provider for one whose machines hold all (assay price list shows them), or with --count 1.",
        )
    return machine


def _command(answer: Recommendation, option: RankedOption) -> Command:
    # Whatever has a time per token or requests side by side is of an engine that serves.
    if option.tpot_ms is not None or option.concurrency is not None:
        engine = engines.find(option.runtime or "")
        if engine is None:
            raise UsageError(
                f"it is not known how {option.runtime or 'the engine of this figure'} is started.",
                field="runtime",
                remedy="Ask with --runtime vllm, sglang, tensorrt-llm, llama.cpp, openvino or transformers.",
            )
        tokens = (answer.workload.input_tokens or 0) + (answer.workload.output_tokens or 0)
        return serve(engine.name, _runs(answer, option), option, tokens or None)
    return bench(_runs(answer, option), option)


def _comments(answer: Recommendation, option: RankedOption) -> list[str]:
    """Return who made it, the figure with its interval, and what that rests on."""
    runs = f"{option.platform}, {option.precision}"
    runs += ", compiled" if option.compiled else ""
    runs += f", {option.runtime} {option.runtime_version or ''}".rstrip() if option.runtime else ""
    if option.concurrency:
        runs += f", {option.concurrency} requests at a time"
    elif option.batch_size:
        runs += f", batch {option.batch_size}"
    basis = evidence_words(option.basis, option.origin)
    lines = [
        f"{_runs(answer, option)} on {device_name(option.hardware, option.hardware_count)}: {runs}.",
        f"Answer {answer.id} of Assay, rank 1, at position {answer.position}, predictor {answer.predictor}.",
        f"Expected: {_figures(answer, option)} ({_interval(answer, option)}).",
        f"Basis: {'' if option.why.startswith(basis) else f'{basis}, '}{option.why}.",
    ]
    if option.evidence:
        lines.append(f"Evidence: {', '.join(option.evidence[:3])}.")
    return lines


def _interval(answer: Recommendation, option: RankedOption) -> str:
    """Say what the interval of the figures is, and whether anything has checked it."""
    if not any((option.latency_ms_low, option.tpot_ms_low, option.ttft_ms_low)):
        return "without an interval"
    if option.basis == "measured":
        return "95 % interval of the median"
    checked = "" if option.interval_covered or option.basis == "imported" else ", which no measurement has checked"
    return f"{answer.interval * 100:.0f} % interval{checked}"


def _figures(answer: Recommendation, option: RankedOption) -> str:
    figures = [
        (name, formatting.latency(value, low, high))
        for name, value, low, high in (
            ("first token", option.ttft_ms, option.ttft_ms_low, option.ttft_ms_high),
            ("per token", option.tpot_ms, option.tpot_ms_low, option.tpot_ms_high),
        )
        if value is not None
    ]
    if option.latency_ms is not None:
        latency = formatting.latency(
            option.latency_ms, option.latency_ms_low, option.latency_ms_high, mean=bool(option.latency_is_mean)
        )
        figures.insert(0, ("latency of " + (answer.call.what if answer.call else "one call"), latency))
    words = [f"{name} {figure}" for name, figure in figures]
    if option.tokens_per_s is not None:
        words.append(f"{formatting.throughput(option.tokens_per_s)} tokens")
    elif option.throughput_per_s is not None:
        words.append(f"{formatting.throughput(option.throughput_per_s)} items")
    return "; ".join(words) or "no figure"


def _price_comments(option: RankedOption) -> list[str]:
    price = option.price
    if price is None:
        return ["Price: none is known."]
    machines = f"{price.machines} × " if price.machines > 1 else ""
    place = f" in {price.region}" if price.region else ""
    dated = f"of {price.date}" if price.date else "without a date"
    doubt = "; check it before you rent" if price.stale else ""
    spot = ", spot: it may be taken away" if price.spot else ""
    name = f"{price.provider} {price.instance or ''}".rstrip()
    hour = formatting.money(price.usd_per_hour_each)
    return [f"Price: {machines}{name}{place}, {hour} an hour{spot}, {dated}{doubt} ({price.basis})."]


def slug(model: str) -> str:
    """Return a name of a model or a plan that Kubernetes, Slurm and clouds accept: letters, digits and dashes, 40 at the most."""
    words = re.sub(r"[^a-z0-9]+", "-", model.rpartition("/")[2].lower()).strip("-")
    return f"assay-{words}"[:40].rstrip("-")


def _cores(slug: str) -> int | None:
    if (said := _CORES.search(slug)) is not None:
        return int(said[1])
    spec = hardware.find(slug)
    return None if spec is None or spec.cores is None else int(spec.cores.value)


def _disk(option: RankedOption) -> int:
    """Return GB for the image and twice the weights, which are downloaded and perhaps converted."""
    parts = option.memory_parts
    weights = (parts.weights_bytes if parts else None) or option.peak_memory_bytes or 0
    needed = weights * (option.hardware_count or 1) * 2 / 1e9 + 60
    return max(LEAST_DISK_GB, 10 * math.ceil(needed / 10))
