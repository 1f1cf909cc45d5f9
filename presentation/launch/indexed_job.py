"""A plan of `assay bench` as an indexed Job of Kubernetes, each part a pod.

Read in: kubernetes.io, indexed jobs; NVIDIA's GPU feature discovery for the label of a GPU's memory.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from typing import Any

from domain.errors import UsageError
from presentation.launch.plan import RESOURCES, slug
from presentation.launch.plan_jobs import POSTED_WITH_PATIENCE, PlanJobs, jobs_head, measured_part, token_file
from presentation.launch.schedulers import as_yaml

__all__ = ["indexed_job"]

HARDWARE_LABEL = "assay.dev/hardware"
"""Label of nodes whose value is the slug of their device."""
OWN_LABELS = "label.assay.dev/"
"""Prefix of the labels that stand for the needs `label=NAME`; their value is `true`."""
DATA = "/var/lib/assay"
_OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,251}[a-z0-9])?\Z")


def indexed_job(jobs: PlanJobs) -> str:
    """Return a ConfigMap with the plan and an indexed Job, as manifests for `kubectl create -f -`."""
    if jobs.secret is not None and not _OBJECT_NAME.match(jobs.secret):
        raise UsageError(
            f"{jobs.secret!r} is no name of a Secret.",
            field="token_secret",
            remedy="Write small letters, digits and dashes.",
        )
    secret = jobs.secret or "assay-token"
    content = repr((jobs.plan, jobs.parts, str(jobs.needs), jobs.image, jobs.server)).encode()
    name = f"{slug(jobs.name)}-{hashlib.sha256(content).hexdigest()[:8]}"
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/managed-by": "assay"}
    plan = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "immutable": True,
        "data": {"plan.yaml": jobs.plan},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "completionMode": "Indexed",
            "completions": jobs.parts,
            "parallelism": jobs.parts,
            "backoffLimit": 6,
            "template": {"metadata": {"labels": labels}, "spec": _pod(jobs, name, secret)},
        },
    }
    use = [
        "Use: kubectl create -f this-file (not apply, whose annotation has no room for a large plan).",
        f"Then: kubectl logs -f --prefix -l app.kubernetes.io/name={name}",
        f"Before: kubectl create secret generic {secret} --from-file=token=FILE"
        + ("" if jobs.server else " --from-literal=server=https://…"),
    ]
    if jobs.needs.hardware:
        use.append(f"Before: kubectl label node NODE {HARDWARE_LABEL}={jobs.needs.hardware}")
    use += [f"Before: kubectl label node NODE {OWN_LABELS}{label}=true" for label in jobs.needs.labels]
    if jobs.vendor == "nvidia" and jobs.memory_mib:
        use.append("Assumed: NVIDIA's GPU feature discovery labels the nodes with nvidia.com/gpu.memory.")
    elif jobs.vendor and jobs.memory_mib:
        use.append("No label tells the memory of these GPUs as a number: add hardware= to the needs.")
    return jobs_head(jobs, *use) + as_yaml(plan, job)


def _pod(jobs: PlanJobs, name: str, secret: str) -> dict[str, Any]:
    server: dict[str, Any] = {"value": jobs.server}
    if jobs.server is None:
        server = {"valueFrom": {"secretKeyRef": {"name": secret, "key": "server"}}}
    image = jobs.image or ("rocm/pytorch:latest" if jobs.vendor == "amd" else "python:3.12-slim")
    container: dict[str, Any] = {
        "name": "assay",
        "image": image,
        # Kubernetes replaces $(NAME) in arguments: two $ are one.
        "command": ["sh", "-c"],
        "args": [_pod_script(jobs).replace("$", "$$")],
        "env": [
            {"name": "ASSAY_SERVER", **server},
            {"name": "ASSAY_HOME", "value": DATA},
            {"name": "HOME", "value": DATA},
        ],
        "resources": _resources(jobs),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "data", "mountPath": DATA},
            {"name": "plan", "mountPath": "/etc/assay", "readOnly": True},
            {"name": "secret", "mountPath": "/run/secrets/assay", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }
    return {
        # A pod keeps its disk when its container starts again: what was measured is not measured twice.
        "restartPolicy": "OnFailure",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "fsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **_placement(jobs, name),
        "containers": [container],
        "volumes": [
            {"name": "data", "emptyDir": {}},
            {"name": "plan", "configMap": {"name": name}},
            {"name": "secret", "secret": {"secretName": secret, "optional": True, "defaultMode": 0o440}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ],
    }


def _pod_script(jobs: PlanJobs) -> str:
    lines = ["set -eu"]
    if jobs.image is None:
        lines += [
            f"python3 -m venv --system-site-packages {DATA}/venv",
            f"{DATA}/venv/bin/pip install --quiet {shlex.quote(jobs.package)}",
            f'export PATH="{DATA}/venv/bin:$PATH"',
        ]
    lines += [
        token_file("/run/secrets/assay/token"),
        "plan=/etc/assay/plan.yaml",
        "part=$((JOB_COMPLETION_INDEX + 1))",
        f'events="{DATA}/part-$part.ndjson"',
        measured_part(jobs, "assay"),
        POSTED_WITH_PATIENCE,
        "# Rows that failed are events too. A run that broke off and events that were not sent start the container again.",
        'if [ "$status" -gt 1 ]; then exit "$status"; fi',
        'exit "$sent"',
    ]
    return "\n".join(lines) + "\n"


def _resources(jobs: PlanJobs) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    if jobs.memory_mib:
        resources["requests"] = {"memory": f"{jobs.memory_mib}Mi"}
    if jobs.vendor:
        resources["limits"] = {RESOURCES[jobs.vendor]: jobs.needs.devices}
    return resources


def _placement(jobs: PlanJobs, name: str) -> dict[str, Any]:
    needs, placement = jobs.needs, dict[str, Any]()
    selector = {"kubernetes.io/os": "linux", **({HARDWARE_LABEL: needs.hardware} if needs.hardware else {})}
    placement["nodeSelector"] = {**selector, **{f"{OWN_LABELS}{label}": "true" for label in needs.labels}}
    if jobs.vendor is None:
        # Two jobs on one processor would be measured with each other.
        term = {
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "topologyKey": "kubernetes.io/hostname",
        }
        placement["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        return placement
    placement["tolerations"] = [{"key": RESOURCES[jobs.vendor], "operator": "Exists", "effect": "NoSchedule"}]
    if jobs.vendor == "nvidia" and jobs.memory_mib:
        more = {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": [str(jobs.memory_mib - 1)]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [more]}]}
        placement["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return placement
