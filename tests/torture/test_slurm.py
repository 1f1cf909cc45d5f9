"""An exported plan on a real Slurm of two nodes: it runs, and what is measured while the link to the service is cut arrives later."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.torture.slurm_cluster import SlurmCluster, missing, slurm_cluster

pytestmark = pytest.mark.torture
PLAN = """\
# $(touch touched)
assay: 1
name: "tiny\\n#SBATCH --time=00:00:01"
weights: random
iterations: 5
sweeps:
  - models: [bert-tiny, vit-tiny-patch16-224]
    platforms: [cpu]
#SBATCH --nodes=7
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    if (why := missing()) is not None:
        pytest.skip(why)
    # Sockets lie in it, whose names have to be short.
    with tempfile.TemporaryDirectory(prefix="assay-") as folder, slurm_cluster(Path(folder)) as cluster:
        yield cluster


def exported(cluster: SlurmCluster, plan: str, name: str) -> Path:
    """The batch script of a plan, made as a user makes it."""
    (cluster.shared / f"{name}.yaml").write_text(plan)
    script = cluster.shared / f"{name}.sbatch"
    words = ("--to", "slurm", "--server", cluster.url, "--needs", "cpu,memory=1GB,label=rack7", "--out", script)
    cluster.inside("control", "assay", "jobs", "export", f"{name}.yaml", *words)
    return script


def measured(file: Path) -> dict[str, str]:
    """The measurements in a file of events: id and model."""
    events = [json.loads(line) for line in file.read_text().splitlines()]
    rows = [each for each in events if each["type"] == "assay.measurement.recorded.v1"]
    return {each["id"]: each["data"]["model"]["id"] for each in rows}


def in_the_log(cluster: SlurmCluster) -> set[str]:
    return {row["event_id"] for row in cluster.query("SELECT event_id FROM measurements")}


def test_each_part_runs_on_a_node_and_its_events_arrive(cluster: SlurmCluster, figures) -> None:
    job = cluster.submit(exported(cluster, PLAN, "tiny"))
    tasks = cluster.ended(job)
    said = [(cluster.shared / f"assay-tiny-sbatch-time-00-00-01-{job}-{part}.log").read_text() for part in (1, 2)]
    assert [(row["JobState"], row["ExitCode"]) for row in tasks] == [("COMPLETED", "0:0")] * 2, said
    assert {row["NodeList"] for row in tasks} == {"node1", "node2"}
    assert {row["TimeLimit"] for row in tasks} == {"04:00:00"} and not (cluster.shared / "touched").exists()
    files = sorted(cluster.shared.glob(f"*-{job}-*.ndjson"))
    parts = [measured(file) for file in files]
    assert [len(part) for part in parts] == [1, 1] and len({model for part in parts for model in part.values()}) == 2
    assert {id_ for part in parts for id_ in part} <= in_the_log(cluster)
    figures(f"two parts of two models on {len(tasks)} slurmd, all events in the log")


def test_events_measured_while_the_link_is_cut_arrive_when_they_are_posted(cluster: SlurmCluster, figures) -> None:
    script = exported(cluster, PLAN.replace("tiny\\n", "cut\\n"), "cut")
    before = in_the_log(cluster)
    cluster.cut(off=True)
    try:
        job = cluster.submit(script)
        tasks = cluster.ended(job)
    finally:
        cluster.cut(off=False)
    assert [(row["JobState"], row["ExitCode"]) for row in tasks] == [("FAILED", "3:0")] * 2
    logs = sorted(cluster.shared.glob(f"assay-cut-*-{job}-*.log"))
    said = [line for log in logs for line in log.read_text().splitlines() if "send them with: " in line]
    assert len(said) == 2 and in_the_log(cluster) == before
    files = sorted(cluster.shared.glob(f"*-{job}-*.ndjson"))
    spooled = {id_ for file in files for id_ in measured(file)}
    token = cluster.home / ".config" / "assay" / "token"
    for line in said:
        words = shlex.split(line.partition("send them with: ")[2])
        cluster.inside("node1", *words, ASSAY_SERVER=cluster.url, ASSAY_TOKEN_FILE=str(token))
    assert len(spooled) == 2 and in_the_log(cluster) == before | spooled
    figures(f"{len(spooled)} measurements of a run without a link, all in the log after assay post")


def test_run_is_interrupted_before_its_time_ends_and_its_events_arrive(cluster: SlurmCluster, figures) -> None:
    plan = (
        PLAN.replace("iterations: 5", "budget_s: 3600")
        .replace("tiny\\n", "long\\n")
        .replace(", vit-tiny-patch16-224", "")
    )
    job = cluster.submit(exported(cluster, plan, "long"), "--time=4")
    (task,) = cluster.ended(job)
    assert task["JobState"] == "FAILED", task
    (file,) = cluster.shared.glob(f"*-{job}-*.ndjson")
    events = [json.loads(line) for line in file.read_text().splitlines()]
    (ended,) = [each for each in events if each["type"] == "assay.run.finished.v1"]
    rows = cluster.query(f"SELECT outcome FROM runs WHERE run_id = '{ended['data']['run_id']}'")
    assert [row["outcome"] for row in rows] == ["interrupted"]
    figures(f"a run that Slurm interrupts after {task['RunTime']} of {task['TimeLimit']} has sent its events")
