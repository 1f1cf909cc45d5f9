"""The formats that are built in, by the name that users type, and the events and refusals of files in them."""

from __future__ import annotations

import difflib
import itertools
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from domain.errors import AssayError, Unavailable, UnknownFormat, UsageError
from ingest.importers.base import Importer, Remote, Watcher
from ingest.importers.ci.asv import Asv
from ingest.importers.ci.bmf import Bmf
from ingest.importers.ci.github_action import GithubAction
from ingest.importers.ci.junit import JUnit
from ingest.importers.ci.pytest_benchmark import PytestBenchmark
from ingest.importers.ci.pytest_report import PytestReport
from ingest.importers.files import LIMITS, File, Limits, expand, require
from ingest.importers.kernels.aiconfigurator_kernels import AiConfiguratorKernels
from ingest.importers.kernels.mlx_benchmark import MlxBenchmark
from ingest.importers.kernels.neusight_model_operators import NeuSightModelOperators
from ingest.importers.kernels.neusight_operators import NeuSightOperators
from ingest.importers.legacy.batch import SeedBatch
from ingest.importers.legacy.compatibility import SeedCompatibility
from ingest.importers.legacy.database import SeedDuckDB
from ingest.importers.legacy.direct import SeedDirect
from ingest.importers.legacy.functionality import SeedFunctionality
from ingest.importers.legacy.hardware import SeedHardware
from ingest.importers.legacy.other import SeedOther
from ingest.importers.legacy.skills import SeedSkills
from ingest.importers.legacy.suite import SeedSuite
from ingest.importers.legacy.web import SeedWeb
from ingest.importers.mlperf.mlperf import MLPerf
from ingest.importers.published.deep_learning_examples import DEEP_LEARNING_EXAMPLES
from ingest.importers.published.hat import HAT
from ingest.importers.published.neural_compressor import NEURAL_COMPRESSOR
from ingest.importers.published.neusight_labels import NEUSIGHT_LABELS
from ingest.importers.published.openvino_tables import OPENVINO_LLM, OPENVINO_MODEL_SERVER, OPENVINO_PLATFORMS
from ingest.importers.published.pytorch_gpu_benchmark import PYTORCH_GPU_BENCHMARK
from ingest.importers.published.sglang_cookbook import SGLANG_COOKBOOK, SGLANG_DIFFUSION
from ingest.importers.published.tensorrt_bert import TENSORRT_BERT
from ingest.importers.published.whisper_cpp import WHISPER_CPP
from ingest.importers.reading import BadFile
from ingest.importers.refusals import BadRow, Refused
from ingest.importers.rejects import Rejects
from ingest.importers.serving.aiconfigurator import AiConfigurator
from ingest.importers.serving.aiperf import Aiperf
from ingest.importers.serving.argonne import Argonne
from ingest.importers.serving.inferencex import InferenceX
from ingest.importers.serving.llama_bench import LlamaBench
from ingest.importers.serving.localscore import LocalScore
from ingest.importers.serving.vllm_bench import VllmBench
from ingest.importers.tables.mlflow import MLflow
from ingest.importers.tables.prices import Prices
from ingest.importers.tables.table import Table
from ingest.importers.vendor.ai_hub import AiHub
from ingest.importers.vendor.benchmark_app import BenchmarkApp
from ingest.importers.vendor.onnxruntime_perf import OnnxRuntimePerf
from ingest.importers.vision.optimum_benchmark import OptimumBenchmark
from ingest.importers.vision.timm import Timm
from ingest.importers.vision.torchbench import TorchBench

__all__ = ["IMPORTERS", "import_paths", "sniff"]

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""Two letters at least: one is the drive of a path."""
_FORMATS: dict[str, Importer] = {
    importer.name: importer
    for importer in (
        # A mapping beside a file is somebody's word on that file.
        Table(),
        Prices(),
        Timm(),
        OptimumBenchmark(),
        LlamaBench(),
        VllmBench(),
        Aiperf(),
        PytestBenchmark(),
        Asv(),
        GithubAction(),
        AiHub(),
        AiConfigurator(),
        AiConfiguratorKernels(),
        NeuSightOperators(),
        NeuSightModelOperators(),
        MlxBenchmark(),
        Argonne(),
        InferenceX(),
        LocalScore(),
        BenchmarkApp(),
        OnnxRuntimePerf(),
        TorchBench(),
        SeedSuite(),
        SeedFunctionality(),
        SeedCompatibility(),
        SeedDirect(),
        SeedBatch(),
        SeedWeb(),
        SeedHardware(),
        SeedSkills(),
        SeedDuckDB(),
        SeedOther(),
        MLPerf(),
        TENSORRT_BERT,
        DEEP_LEARNING_EXAMPLES,
        PYTORCH_GPU_BENCHMARK,
        NEUSIGHT_LABELS,
        OPENVINO_PLATFORMS,
        OPENVINO_LLM,
        OPENVINO_MODEL_SERVER,
        NEURAL_COMPRESSOR,
        WHISPER_CPP,
        HAT,
        SGLANG_COOKBOOK,
        SGLANG_DIFFUSION,
        JUnit(),
        PytestReport(),
        MLflow(),
        Bmf(),
    )
}
IMPORTERS: dict[str, Importer] = {**_FORMATS, Rejects.name: Rejects(_FORMATS)}


class _Nobody:
    def opened(self, file: File, importer: Importer | None) -> None:
        pass

    def read(self, size: float) -> None:
        pass


def sniff(file: File, importers: Mapping[str, Importer]) -> Importer | None:
    """Return the importer that recognises the file, or None."""
    return next((importer for importer in importers.values() if _recognises(importer, file)), None)


def _recognises(importer: Importer, file: File) -> bool:
    try:
        return importer.sniff(file)
    except BadFile:
        return False


def import_paths(
    format: str,  # noqa: A002 - the word that users type
    paths: Iterable[Path | str],
    importers: Mapping[str, Importer] | None = None,
    *,
    watcher: Watcher | None = None,
    guarded: bool = True,
    limits: Limits = LIMITS,
) -> Iterator[dict[str, Any] | Refused]:
    """Yield the events and refusals of all files; `format` is an importer's name or `auto`.

    A file that was named and that the importer does not know is refused; one that lay in a folder is passed over.
    UnknownFormat where there is no such format, UsageError where a path is nothing. A Remote format takes addresses as
    well as paths. A mistake in an importer refuses the file, saying so; unless `guarded` it is raised. `limits` are those of
    archives.
    """
    if importers is None:
        importers = IMPORTERS
    if format != "auto" and format not in importers:
        near = difflib.get_close_matches(format, importers, n=3)
        raise UnknownFormat(format, near, field="format", remedy="`assay import --list` shows all; `auto` finds out.")
    paths = list(paths)
    chosen = importers if format == "auto" else {format: importers[format]}
    remote = chosen.get(format)
    addresses = [str(path) for path in paths if isinstance(remote, Remote) and _ADDRESS.match(str(path))]
    paths = [path for path in paths if str(path) not in addresses]
    require(paths)
    fetched = (item for address in addresses if isinstance(remote, Remote) for item in remote.fetch(address))
    return itertools.chain(fetched, _import(paths, chosen, format != "auto", watcher or _Nobody(), guarded, limits))


def _import(
    paths: Iterable[Path | str],
    importers: Mapping[str, Importer],
    chosen: bool,
    watcher: Watcher,
    guarded: bool,
    limits: Limits,
) -> Iterator[dict[str, Any] | Refused]:
    for file in expand(paths, limits, tell=watcher.read):
        if isinstance(file, Refused):
            yield file
            continue
        importer: Importer | None = None
        try:
            # Who names format and file has decided; what lies in a folder has to look like it.
            importer = next(iter(importers.values())) if chosen and file.given else sniff(file, importers)
            watcher.opened(file, importer)
            if importer is not None:
                yield from importer.rows(file)
            elif file.given:
                yield Refused(path=file.name, reason="no importer recognises this file")
        except (UsageError, Unavailable):
            raise
        except Exception as error:
            refused = _refused(file, importer, error)
            if refused is None and not guarded:
                raise
            yield refused or _failed(file, importer, error)


def _refused(file: File, importer: Importer | None, error: Exception) -> Refused | None:
    """Return the refusal of a file that cannot be read; None where the error tells of a mistake of the importer's."""
    name = importer.name if importer is not None else None
    match error:
        case BadFile():
            return Refused(path=file.name, format=name, reason=error.reason, row=error.row)
        case BadRow():
            return Refused(path=file.name, format=name, reason=error.reason, field=error.field)
        case AssayError():
            return Refused(path=file.name, format=name, reason=error.detail, field=error.field)
        case OSError() | UnicodeError():
            said = error.strerror if isinstance(error, OSError) and error.strerror else error
            return Refused(path=file.name, format=name, reason=f"cannot be read: {said}")
        case _:
            return None


def _failed(file: File, importer: Importer | None, error: Exception) -> Refused:
    """Return the refusal of a file that an importer broke on, with what somebody needs who mends the importer."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}, line {last.lineno}"
    return Refused(
        path=file.name,
        format=importer.name if importer is not None else None,
        reason=f"the importer failed: {type(error).__name__}: {error} ({where}); please report it",
    )
