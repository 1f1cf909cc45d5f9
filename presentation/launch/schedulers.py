"""A plan for Kubernetes, SkyPilot and Slurm."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable
from functools import cache
from typing import Any

from domain.errors import UsageError
from presentation.launch.plan import NAMED_INSTANCES, Plan, machine_of

__all__ = ["HOURS", "as_yaml", "commented", "kubernetes", "skypilot", "slurm"]

WIDTH = 96
HOURS = "04:00:00"
"""The time limit of a Slurm job."""
SKYPILOT = ("aws", "azure", "gcp", "lambda", "nebius", "oci", "runpod", "verda")


def commented(lines: Iterable[str]) -> str:
    """Return comment lines that begin with `#`; what could end a line in any of the languages is a space."""
    safe = ("".join(char if char.isprintable() else " " for char in line) for line in lines)
    wrapped = (part for line in safe for part in textwrap.wrap(line, WIDTH, subsequent_indent="  "))
    return "".join(f"# {part}\n" for part in wrapped)


def _head(plan: Plan, *use: str) -> str:
    assumed = [f"Assumed: {line}." for line in plan.assumed]
    return commented((*plan.comments, *assumed, *use))


@cache
def _dumper() -> Any:
    """Return what writes text of several lines as a block, and lists indented below their key."""
    # Every recommendation imports this module for the names of its forms, and few ask for one.
    import yaml

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]  # the library has no types
        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - as in the library
            super().increase_indent(flow, False)

        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - as in the library
            # What stands twice is written twice.
            return True

    Dumper.add_representer(str, _text)
    return Dumper


def _text(dumper: Any, value: str) -> Any:
    # Other line ends, such as U+0085, are a newline to YAML unless they are escaped.
    plain = all(char.isprintable() for char in value.replace("\n", ""))
    style = None if plain and "\n" not in value else "|" if plain else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def as_yaml(*documents: dict[str, Any]) -> str:
    """Return documents of YAML that read back as they are, whatever their texts hold."""
    import yaml

    return "---\n".join(
        yaml.dump(document, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=10_000)
        for document in documents
    )


def kubernetes(plan: Plan) -> str:
    """Return a Deployment with its Service, or a Job, as manifests for `kubectl apply -f -`."""
    command = plan.command
    labels = {"app.kubernetes.io/name": plan.name, "app.kubernetes.io/managed-by": "assay"}
    kind = "Deployment" if command.port else "Job"
    pod = _pod(plan)
    if command.port:
        spec: dict[str, Any] = {
            "replicas": 1,
            "selector": {"matchLabels": {"app.kubernetes.io/name": plan.name}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
    else:
        spec = {
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels}, "spec": {**pod, "restartPolicy": "Never"}},
        }
    workload = {
        "apiVersion": "apps/v1" if command.port else "batch/v1",
        "kind": kind,
        "metadata": {"name": plan.name, "labels": labels},
        "spec": spec,
    }
    use = ["Use: kubectl apply -f this-file. A gated model needs the secret hf-token with the key token."]
    if not command.port:
        return _head(plan, *use, f"Then: kubectl logs -f job/{plan.name}") + as_yaml(workload)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": plan.name, "labels": labels},
        "spec": {
            "selector": {"app.kubernetes.io/name": plan.name},
            "ports": [{"name": "http", "port": command.port, "targetPort": "http"}],
        },
    }
    return _head(plan, *use) + as_yaml(workload, service)


def _pod(plan: Plan) -> dict[str, Any]:
    command = plan.command
    token = {"secretKeyRef": {"name": "hf-token", "key": "token", "optional": True}}
    container: dict[str, Any] = {
        "name": "model",
        "image": command.image,
        # Kubernetes replaces $(NAME) in commands: two $ are one.
        "command": [word.replace("$", "$$") for word in command.entry],
        "env": [{"name": "HF_TOKEN", "valueFrom": token}],
        "resources": _resources(plan),
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    if command.port:
        container["ports"] = [{"name": "http", "containerPort": command.port}]
        # Weights are downloaded first, which takes minutes: an hour of tries.
        probe = {"httpGet": {"path": command.health, "port": "http"}, "periodSeconds": 10}
        container["startupProbe"] = {**probe, "failureThreshold": 360}
        container["readinessProbe"] = probe
    pod: dict[str, Any] = {"containers": [container], "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]}
    machine = plan.machine
    if machine is not None and machine.instance and machine.machines == 1 and machine.provider in NAMED_INSTANCES:
        pod["nodeSelector"] = {"node.kubernetes.io/instance-type": _node_type(machine.provider, machine.instance)}
    if plan.resource:
        pod["tolerations"] = [{"key": plan.resource, "operator": "Exists", "effect": "NoSchedule"}]
    return pod


def _node_type(provider: str, instance: str) -> str:
    """Return the label that nodes of a provider have for an instance of the price list."""
    return f"Standard_{instance}" if provider == "azure" else instance.partition("+")[0]


def _resources(plan: Plan) -> dict[str, Any]:
    if plan.resource:
        return {"limits": {plan.resource: plan.devices}}
    # A node keeps some of its cores for itself, so that all of them would never be free.
    return {"requests": {"cpu": str(max(1, plan.cores - 1))}} if plan.cores else {}


def skypilot(plan: Plan) -> str:
    """Return a task for `sky launch`."""
    machine, command = machine_of(plan, "skypilot"), plan.command
    if machine.provider not in SKYPILOT:
        raise UsageError(
            f"SkyPilot rents nothing of {machine.provider}.",
            field="format",
            remedy=f"Ask with --provider {','.join(SKYPILOT)}.",
        )
    infra = "/".join(filter(None, (machine.provider, machine.region)))
    instance, _, attached = str(machine.instance).partition("+")
    resources: dict[str, Any] = {
        "infra": infra,
        "instance_type": _node_type(machine.provider, instance),
        **({"accelerators": f"{attached.upper()}:{machine.devices_each}"} if attached else {}),
        "image_id": f"docker:{command.image}",
        "disk_size": plan.disk_gb,
        **({"use_spot": True} if machine.spot else {}),
    }
    # A value that looks like a number would be one in YAML; SkyPilot wants text.
    task = {"name": plan.name, "resources": resources, "envs": {"HF_TOKEN": ""}, "run": f"set -e\n{command.line}\n"}
    use = [f"Use: sky launch -c {plan.name} --env HF_TOKEN this-file. It costs until sky down {plan.name}."]
    if command.port:
        use.append(f"No port is opened to the world: ssh -L {command.port}:localhost:{command.port} {plan.name}")
    return _head(plan, *use) + as_yaml(task)


def slurm(plan: Plan) -> str:
    """Return a batch script for `sbatch`, which runs the container by Apptainer."""
    command = plan.command
    flags = {"nvidia": " --nv", "amd": " --rocm"}.get(str(plan.vendor), "")
    directives = [
        f"--job-name={plan.name}",
        "--nodes=1",
        "--ntasks=1",
        *([f"--gres=gpu:{plan.devices}"] if plan.resource else []),
        *([f"--cpus-per-task={plan.cores}"] if plan.cores and not plan.resource else []),
        *(["--exclusive"] if not plan.resource and not plan.cores else []),
        f"--time={HOURS}",
    ]
    device = re.sub(r"^(nvidia|amd|intel)-", "", plan.option.hardware)
    use = ["Use: sbatch this-file. Assumed: Apptainer on the nodes."]
    if plan.resource:
        use.append(
            f"Sites name their GPUs themselves: where several kinds are, write --gres=gpu:NAME:{plan.devices} for {device}."
        )
    words = shlex.join(["apptainer", "exec"]) + flags + " " + shlex.join([f"docker://{command.image}", *command.entry])
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {directive}" for directive in directives),
        commented((*plan.comments, *(f"Assumed: {line}." for line in plan.assumed), *use)).rstrip("\n"),
        "set -euo pipefail",
        f"srun {words}",
    ]
    return "\n".join(lines) + "\n"
