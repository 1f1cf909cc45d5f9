"""The formats that are built in, by the name that users type."""

from __future__ import annotations

from ingest.importers.base import Importer
from ingest.importers.ci.asv import Asv
from ingest.importers.ci.bmf import Bmf
from ingest.importers.ci.github_action import GithubAction
from ingest.importers.ci.junit import JUnit
from ingest.importers.ci.pytest_benchmark import PytestBenchmark
from ingest.importers.ci.pytest_report import PytestReport
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
from ingest.importers.rejects import Rejects
from ingest.importers.serving.aiconfigurator import AiConfigurator
from ingest.importers.serving.aiperf import Aiperf
from ingest.importers.serving.argonne import Argonne
from ingest.importers.serving.llama_bench import LlamaBench
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

__all__ = ["IMPORTERS"]

IMPORTERS: dict[str, Importer] = {
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
        Argonne(),
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
        JUnit(),
        PytestReport(),
        MLflow(),
        Bmf(),
        Rejects(),
    )
}
