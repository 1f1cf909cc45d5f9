"""What a stranger types: a real service, a real Postgres, a real measured run. tests/integration/test_wheel.py types it for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from assay.cli import VERBS
from assay.client import Client
from assay.home import find_home
from assay.service import ephemeral
from tests.integration.cli.here import run_here

MODEL = "prajjwal1/bert-tiny"
QUICK = ("--platform", "cpu", "--weights", "random", "--budget", "0.3")


class Assay:
    """Runs `assay` on one data directory and keeps what it said."""

    def __init__(self, home: Path, server: str | None = None) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
        environment |= {"ASSAY_PATIENCE_S": "5"}
        self.environment = environment | {"ASSAY_HOME": str(home)} | ({"ASSAY_SERVER": server} if server else {})

    def __call__(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = run_here(self.environment, *words)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self(*words, "--json", code=code).stdout)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[str]:
    with ephemeral(find_home(home)) as url:
        yield url


@pytest.fixture(scope="module")
def assay(home: Path, server: str) -> Assay:
    return Assay(home, server)


@pytest.fixture(scope="module")
def answers(assay: Assay) -> dict[str, Any]:
    """Ask, measure, ask, train, ask."""
    # Nothing was measured here: what ships predicts it.
    before = assay.json("recommend", MODEL, "--hardware", "amd-epyc-7763,nvidia-l4")
    measured = assay.json("bench", MODEL, *QUICK, "--batch-sizes", "1,2")
    after = assay.json("recommend", MODEL, "--hardware", "own", "--top", "500", "--all-configurations")
    trained = assay.json("train", "--force")  # One model alone does not tell which of two predictors is better.
    return {"before": before, "measured": measured, "after": after, "trained": trained}


def test_the_evidence_is_the_run_that_was_measured(answers: dict[str, Any]) -> None:
    posted = {event["id"] for event in answers["measured"] if event["type"] == "assay.measurement.recorded.v1"}
    measured = [row for row in answers["after"]["ranked"] if row["basis"] == "measured"]
    assert len(posted) == 2
    assert {identifier for row in measured for identifier in row["evidence"]} == posted
    assert answers["after"]["ranked"][0]["latency_ms"] > 0


def test_nothing_measured_was_claimed_before(answers: dict[str, Any]) -> None:
    bases = {row["basis"] for row in answers["before"]["ranked"]}
    assert bases == {"predicted"}
    assert answers["before"]["suggestions"][0]["command"].startswith("assay bench")


def test_as_of_before_the_run_the_answer_and_the_predictor_are_those_of_then(
    assay: Assay, answers: dict[str, Any]
) -> None:
    before = answers["before"]
    again = assay.json(
        "recommend",
        MODEL,
        "--hardware",
        "amd-epyc-7763",
        "--hardware",
        "nvidia-l4",
        "--as-of",
        str(before["position"]),
    )
    now = assay.json("recommend", MODEL, "--hardware", "own")
    assert again["ranked"] == before["ranked"]
    assert again["predictor"] == before["predictor"]
    assert now["predictor"] == answers["trained"]["digest"] != before["predictor"]


def test_what_ran_is_in_the_tables_with_its_samples(server: str, answers: dict[str, Any]) -> None:
    events = {event["type"]: event["data"] for event in answers["measured"]}
    recorded, samples = events["assay.measurement.recorded.v1"], events["assay.samples.recorded.v1"]
    with Client(server) as client:
        rows = client.measurements(model="bert-tiny")
        matrix = client.compatibility(model="bert-tiny")
    assert len(rows) == 2
    assert {row["origin"] for row in rows} == {"measured"}
    assert samples["n"] == len(samples["values"]) == recorded["metrics"]["latency_ms"]["n"]
    assert recorded["observed"]["requested"]["platform"] == recorded["observed"]["platform"] == "cpu"
    assert [(row["platform"], row["measurements"]) for row in matrix] == [("cpu", 2)]


def test_a_run_is_seen_while_it_goes_on(server: str, answers: dict[str, Any]) -> None:
    run = {event["type"]: event for event in answers["measured"] if event["type"].startswith("assay.run.")}
    with Client(server) as client:
        kept = client.event(run["assay.run.started.v1"]["id"])
    recorded, ended = (
        datetime.fromisoformat(moment) for moment in (kept["recorded_at"], run["assay.run.finished.v1"]["time"])
    )
    assert recorded < ended


def test_a_name_that_was_declared_is_understood(assay: Assay, answers: dict[str, Any]) -> None:
    assay("model", "alias", "our-little-bert", MODEL, "--reason", "what the team calls it")
    told = assay.json("recommend", "our-little-bert", "--hardware", "own", "--top", "500", "--all-configurations")
    assert told["model"] == MODEL
    assert any(row["basis"] == "measured" for row in told["ranked"])


@pytest.mark.torture
def test_a_folder_with_a_config_is_a_model_and_a_retracted_run_leaves_answers(
    assay: Assay, server: str, tmp_path: Path
) -> None:
    folder = tmp_path / "our-encoder"
    folder.mkdir()
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "architectures": ["BertModel"], **sizes}))
    foretold = assay.json("recommend", str(folder), "--hardware", "nvidia-l4")
    events = assay.json("bench", str(folder), *QUICK)
    after = assay.json("recommend", str(folder), "--hardware", "own", "--top", "500")
    assert foretold["model"] == after["model"] == "local/our-encoder"
    assert {row["basis"] for row in foretold["ranked"]} == {"roofline"}
    assert any(row["basis"] == "measured" for row in after["ranked"])
    retracted(assay, server, events, str(folder))


def retracted(assay: Assay, server: str, events: list[dict[str, Any]], model: str) -> None:
    """Retract a run: it leaves the answers and stays in the log."""
    run_id = events[0]["data"]["run_id"]
    assay("retract", "--run", run_id, "--reason", "the fan was off")
    bases = {row["basis"] for row in assay.json("recommend", model, "--hardware", "own", "--top", "500")["ranked"]}
    with Client(server) as client:
        kept = [event for event in client.events() if event["data"].get("run_id") == run_id]
    assert bases and "measured" not in bases
    assert {event["id"] for event in events if event["data"].get("run_id") == run_id} < {event["id"] for event in kept}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("recommend", "no-such-model"), 2, "no-such-model"),
        (("recommend", MODEL, "--max-latency-ms", "-1"), 2, "max_latency_ms"),
        (("recommend", MODEL, "--max-latency-ms", "0.0000001"), 1, ""),
        (("bench", "brt-base-uncased"), 2, "bert-base-uncased"),
        (("bench", MODEL, "--platform", "cpuu"), 2, "platform"),
        (("bench", MODEL, "--precision", "fp17"), 2, "precision"),
        (("bench", MODEL, "--batch-sizes", "0"), 2, "batch-sizes"),
        (("import", "tim", "."), 2, "timm"),
        (("import", "auto", "no-such-file.csv"), 2, "no-such-file.csv"),
        (("recomend",), 2, "recommend"),
        (("status", "--server", "http://127.0.0.1:9"), 3, "127.0.0.1:9"),
    ],
)
def test_what_is_wrong_is_named_with_its_exit_code(
    assay: Assay, answers: dict[str, Any], words: tuple[str, ...], code: int, says: str
) -> None:
    done = assay(*words, code=code)
    assert says in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_explains_itself(verb: str) -> None:
    from click.testing import CliRunner

    from assay.cli import cli

    result = CliRunner().invoke(cli, [verb, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage" in result.output


def test_examples_keep_their_lines() -> None:
    from click.testing import CliRunner

    from assay.cli import cli

    shown = CliRunner().invoke(cli, ["recommend", "--help"]).output
    lines = [line.strip() for line in shown.splitlines()]
    assert "assay recommend bert-base-uncased" in lines


def test_the_runner_and_the_client_need_no_service_packages() -> None:
    program = (
        "import sys, assay, assay.cli, runner, runner.campaign.bench, runner.spool.spool\n"
        "print(sorted({'litestar', 'streamlit', 'duckdb', 'lightgbm', 'torch', 'numpy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
