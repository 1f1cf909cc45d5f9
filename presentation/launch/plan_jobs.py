"""Plans of `assay bench` as jobs of other schedulers, a part of the plan each: what they share, Slurm and SkyPilot.

Read in: slurm.schedmd.com, sbatch and job arrays; docs.skypilot.co, SkyPilot YAML and managed jobs.
"""

from __future__ import annotations

import math
import re
import shlex
from typing import Any
from urllib.parse import urlsplit

import msgspec

from domain.catalogues import hardware
from domain.errors import UsageError
from domain.jobs.needs import Needs
from presentation.launch.plan import slug
from presentation.launch.schedulers import HOURS, as_yaml, commented

__all__ = [
    "POSTED_WITH_PATIENCE",
    "PlanJobs",
    "jobs_head",
    "managed_jobs",
    "measured_part",
    "plan_jobs",
    "slurm_array",
    "token_file",
]

VENDORS = {"cuda": "nvidia", "onnxruntime-cuda": "nvidia", "rocm": "amd", "xpu": "intel"}
PROCESSORS = ("cpu", "openvino", "onnxruntime")
ACCELERATORS = {
    "nvidia-t4": "T4",
    "nvidia-a10": "A10",
    "nvidia-a10g": "A10G",
    "nvidia-l4": "L4",
    "nvidia-l40": "L40",
    "nvidia-l40s": "L40S",
    "nvidia-v100-sxm-16gb": "V100",
    "nvidia-v100-sxm-32gb": "V100-32GB",
    "nvidia-a100-sxm-40gb": "A100",
    "nvidia-a100-sxm-80gb": "A100-80GB",
    "nvidia-h100-sxm": "H100",
    "nvidia-h200-sxm": "H200",
    "nvidia-b200-sxm": "B200",
    "nvidia-rtx-4090": "RTX4090",
    "nvidia-rtx-a6000": "RTXA6000",
    "amd-instinct-mi300x": "MI300X",
}
"""What SkyPilot calls a device."""
TRIES = 60
"""How often, a minute apart, a job whose disk does not stay sends its events before it gives up."""
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}\Z")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,99}\Z")


class PlanJobs(msgspec.Struct, frozen=True, kw_only=True):
    """A plan to be run in `parts` jobs: the text of its file, how many cases it has, and what each job needs.

    `image` is a container with Assay, `server` the address of the service. `secret` names where the token is: a file on
    the nodes (Slurm), a Secret (Kubernetes), a secret variable (SkyPilot).
    """

    name: str
    plan: str
    cases: int
    parts: int
    needs: Needs
    image: str | None = None
    server: str | None = None
    secret: str | None = None

    @property
    def vendor(self) -> str | None:
        """The vendor whose GPUs the jobs use; None for processors."""
        return _vendor(self.needs)

    @property
    def memory_mib(self) -> int | None:
        """The memory that they need, in MiB."""
        return math.ceil(self.needs.memory_bytes / 2**20) if self.needs.memory_bytes else None

    @property
    def package(self) -> str:
        """What pip installs where no image has Assay."""
        second = any(name.startswith("onnxruntime") for name in self.needs.platforms)
        return f"assay-bench[{'runner,onnxruntime' if second else 'runner'}]"


def plan_jobs(
    name: str,
    plan: str,
    *,
    cases: int,
    parts: int,
    needs: Needs,
    image: str | None = None,
    server: str | None = None,
    secret: str | None = None,
) -> PlanJobs:
    """Return the jobs of a plan's text; UsageError naming the field for what no job could be made of."""
    if not 1 <= parts <= cases:
        raise UsageError(
            f"{cases} cases cannot be dealt out to {parts} jobs.", field="parts", remedy=f"Give 1 to {cases}."
        )
    _check_needs(needs)
    if image is not None and not _IMAGE.match(image):
        raise UsageError(f"{image!r} is no image.", field="image", remedy="Write registry.example.org/assay:0.1.0.")
    if server is not None:
        _check_server(server)
    return PlanJobs(
        name=name, plan=plan, cases=cases, parts=parts, needs=needs, image=image, server=server, secret=secret
    )


def _check_needs(needs: Needs) -> None:
    unknown = [name for name in needs.platforms if name not in VENDORS and name not in PROCESSORS]
    if unknown:
        raise UsageError(
            f"no scheduler hands out machines for {unknown[0]} in a way that is known here.",
            field="needs",
            remedy="Leave that platform out of the plan, or measure it on the machine itself by `assay bench --plan`.",
        )
    if len({VENDORS[name] for name in needs.platforms if name in VENDORS}) > 1:
        raise UsageError(
            f"one job would need GPUs of two vendors ({needs}).",
            field="needs",
            remedy="Write a plan for each, or say --needs cuda.",
        )
    if needs.os not in (None, "linux"):
        raise UsageError(
            f"the jobs are for Linux, not {needs.os}.",
            field="needs",
            remedy="Measure on such a machine by `assay bench --plan`.",
        )
    for field, value in (("hardware", needs.hardware), *(("label", label) for label in needs.labels)):
        if value is not None and not _LABEL_VALUE.match(value):
            raise UsageError(
                f"{value!r} cannot be a label of a node.",
                field="needs",
                remedy=f"Give {field}= up to 63 letters, digits, dots and dashes.",
            )
    if needs.devices > 1 and _vendor(needs) is None:
        raise UsageError(
            "devices are counted of GPUs.", field="needs", remedy="Add cuda, rocm or xpu, or leave it out."
        )


def _check_server(server: str) -> None:
    try:
        parts = urlsplit(server)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits or not server.isascii() or not server.isprintable() or " " in server:
        raise UsageError(f"{server!r} is no address.", field="server", remedy="Write https://assay.example.org.")
    if "@" in parts.netloc:
        raise UsageError(
            "an address with a password in it would be in the script.",
            field="server",
            remedy="Leave it out; the token comes from --token-secret.",
        )


def _vendor(needs: Needs) -> str | None:
    of_platform = next((VENDORS[name] for name in needs.platforms if name in VENDORS), None)
    spec = hardware.find(needs.hardware) if needs.hardware else None
    return of_platform or (spec.vendor if spec is not None and spec.kind == "gpu" else None)


def jobs_head(jobs: PlanJobs, *lines: str) -> str:
    """Return the comments at the head of what is written: what it runs, and these lines."""
    each = "one job" if jobs.parts == 1 else f"{jobs.parts} jobs"
    needs = f" Each needs {jobs.needs}." if str(jobs.needs) else ""
    return commented((f"Assay: the {jobs.cases} cases of the plan {jobs.name!r} in {each}.{needs}", *lines))


def _heredoc(text: str) -> list[str]:
    """Return lines that a shell reads as the text, the first one to be put after a command.

    The word that ends it stands on no line of the text; quoted, it lets nothing in the text be expanded.
    """
    lines = text.removesuffix("\n").split("\n")
    word = "END_OF_PLAN"
    while word in lines:
        word += "_"
    return [f"<<'{word}'", *lines, word]


def _plan_file(text: str) -> str:
    first, *rest = _heredoc(text)
    return "\n".join(['plan="$(mktemp)"', "trap 'rm -f \"$plan\"' EXIT", f'cat >"$plan" {first}', *rest])


def token_file(path: str) -> str:
    """Return shell lines that read the token from a file where there is one."""
    return f"""\
token={path}
if [ -r "$token" ]; then
  unset ASSAY_TOKEN
  export ASSAY_TOKEN_FILE="$token"
fi"""


def measured_part(jobs: PlanJobs, command: str) -> str:
    """Return shell lines that measure the part `$part` of `$plan` into the file `$events`, or go on with it."""
    return f"""\
status=0
{command} bench --plan "$plan" --part "$part/{jobs.parts}" --out "$events" --resume || status=$?
# Without events there is nothing to send.
[ -s "$events" ] || exit "$status\""""


POSTED = """\
sent=0
{command} post "$events" || sent=$?"""
POSTED_WITH_PATIENCE = f"""\
for try in $(seq {TRIES}); do
  sent=0
  assay post "$events" || sent=$?
  # 3: the service is away.
  [ "$sent" -eq 3 ] || break
  echo "try $try of {TRIES}: the service does not take the events" >&2
  sleep "${{ASSAY_RETRY_S:-60}}"
done"""


def slurm_array(jobs: PlanJobs) -> str:
    """Return an array job for `sbatch`: each task writes its events into the folder that it was submitted in."""
    directives = [
        f"--job-name={slug(jobs.name)}",
        f"--array=1-{jobs.parts}",
        f"--output={slug(jobs.name)}-%A-%a.log",
        "--open-mode=append",
        "--nodes=1",
        "--ntasks=1",
        # Another job beside it on the same processor would be measured with it.
        f"--gres=gpu:{jobs.needs.devices}" if jobs.vendor else "--exclusive",
        *([f"--mem={jobs.memory_mib}M"] if jobs.memory_mib else []),
        *([f'--constraint="{"&".join(features)}"'] if (features := _features(jobs.needs)) else []),
        f"--time={HOURS}",
        "--signal=INT@120",
    ]
    flags = {"nvidia": "--nv ", "amd": "--rocm "}.get(str(jobs.vendor), "")
    assay = f"apptainer exec {flags}docker://{jobs.image} assay" if jobs.image else "assay"
    path = '"${ASSAY_TOKEN_FILE:-$HOME/.config/assay/token}"' if jobs.secret is None else shlex.quote(jobs.secret)
    server = '"${ASSAY_SERVER:-$(cat "$HOME/.config/assay/server")}"'
    if jobs.server is not None:
        server = shlex.quote(jobs.server)
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {directive}" for directive in directives),
        jobs_head(jobs, *_slurm_comments(jobs)).rstrip("\n"),
        "set -euo pipefail",
        f"ASSAY_SERVER={server}",
        "export ASSAY_SERVER",
        token_file(path),
        "part=$SLURM_ARRAY_TASK_ID",
        f'events="$SLURM_SUBMIT_DIR/{slug(jobs.name)}-$SLURM_ARRAY_JOB_ID-$part.ndjson"',
        _plan_file(jobs.plan),
        measured_part(jobs, f"srun {assay}"),
        POSTED.format(command=assay),
        'if [ "$sent" -ne 0 ]; then',
        '  echo "not all events were sent. They stay in $events; send them with: assay post $events" >&2',
        "fi",
        'exit "$((status ? status : sent))"',
    ]
    return "\n".join(lines) + "\n"


def _features(needs: Needs) -> list[str]:
    return [*([needs.hardware] if needs.hardware else []), *needs.labels]


def _slurm_comments(jobs: PlanJobs) -> list[str]:
    lines = ["Use: sbatch this-file, in a folder that the nodes share: the events are written there."]
    where = "Apptainer" if jobs.image else "assay (assay-bench[runner])"
    lines.append(f"Assumed: the nodes have {where} on PATH, and a part takes no more than {HOURS} (sbatch --time).")
    lines.append(f"The token is in {jobs.secret or '~/.config/assay/token'} on the nodes, where the service wants one.")
    if jobs.server is None:
        lines.append("The address of the service is ASSAY_SERVER, or the content of ~/.config/assay/server.")
    if features := _features(jobs.needs):
        lines.append(f"Assumed: the site calls such nodes {' and '.join(features)} (Features of slurm.conf).")
    if jobs.vendor and jobs.memory_mib:
        lines.append(
            "Slurm does not know the memory of a GPU: name its type where there are several, --gres=gpu:TYPE:1."
        )
    return lines


def managed_jobs(jobs: PlanJobs) -> str:
    """Return a task of SkyPilot, which is launched once for each part."""
    variable = jobs.secret or "ASSAY_TOKEN"
    if not _VARIABLE.match(variable):
        raise UsageError(
            f"{variable!r} is no name of a variable.", field="token_secret", remedy="Write capitals, digits and _."
        )
    if jobs.needs.labels:
        raise UsageError(
            "a rented machine has no labels of yours.", field="needs", remedy="Leave label= out, or export to Slurm."
        )
    resources: dict[str, Any] = {"image_id": f"docker:{jobs.image}"} if jobs.image else {}
    resources |= _rented(jobs)
    if jobs.memory_mib:
        resources["memory"] = f"{math.ceil(jobs.memory_mib / 1024)}+"
    install = f"python3 -m venv ~/assay\n~/assay/bin/pip install --quiet {shlex.quote(jobs.package)}\n"
    task = {
        "name": slug(jobs.name),
        "resources": resources,
        "envs": {"ASSAY_PART": None, "ASSAY_SERVER": jobs.server},
        "secrets": {variable: None},
        **({} if jobs.image else {"setup": f"set -e\n{install}"}),
        "run": _task_script(jobs, variable),
    }
    secret = f"--secret {variable}"
    server = "" if jobs.server else " --env ASSAY_SERVER"
    launch = f"sky jobs launch -y -d -n {slug(jobs.name)}-$part --env ASSAY_PART=$part{server} {secret} this-file"
    use = f"Use: for part in $(seq {jobs.parts}); do {launch}; done"
    return jobs_head(jobs, use, f"The token is the variable {variable} where that is typed.") + as_yaml(task)


def _rented(jobs: PlanJobs) -> dict[str, Any]:
    needs = jobs.needs
    if jobs.vendor is None:
        if needs.hardware:
            raise UsageError(
                f"SkyPilot rents no processor by its name ({needs.hardware}).",
                field="needs",
                remedy="Leave hardware= out, or export to Slurm or Kubernetes.",
            )
        return {"cpus": "4+"}
    if needs.hardware is None and jobs.vendor in ("nvidia", "amd"):
        gigabytes = math.ceil((needs.memory_bytes or 1) / 1e9)
        return {"accelerators": f"{jobs.vendor.upper()}:{gigabytes}GB+:{needs.devices}"}
    if needs.hardware not in ACCELERATORS:
        raise UsageError(
            f"it is not known what SkyPilot calls {needs.hardware or jobs.vendor + ' GPUs'}.",
            field="needs",
            remedy=f"Leave hardware= out and say memory=, or name one of {', '.join(ACCELERATORS)}.",
        )
    return {"accelerators": f"{ACCELERATORS[needs.hardware]}:{needs.devices}"}


def _task_script(jobs: PlanJobs, variable: str) -> str:
    lines = ["set -eu"]
    if jobs.image is None:
        lines.append('export PATH="$HOME/assay/bin:$PATH"')
    if variable != "ASSAY_TOKEN":
        lines.append(f'export ASSAY_TOKEN="${variable}"')
    lines += [
        "part=$ASSAY_PART",
        'events="$HOME/part-$part.ndjson"',
        _plan_file(jobs.plan),
        measured_part(jobs, "assay"),
        POSTED_WITH_PATIENCE,
        "# The disk goes with the machine.",
        'if [ "$sent" -eq 3 ]; then cat "$events"; fi',
        'exit "$((status ? status : sent))"',
    ]
    return "\n".join(lines) + "\n"
