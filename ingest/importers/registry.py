"""The formats that are built in, by the name that users type."""

from __future__ import annotations

from ingest.importers.ai_hub import AiHub
from ingest.importers.aiconfigurator import AiConfigurator
from ingest.importers.aiperf import Aiperf
from ingest.importers.argonne import Argonne
from ingest.importers.asv import Asv
from ingest.importers.base import Importer
from ingest.importers.benchmark_app import BenchmarkApp
from ingest.importers.bmf import Bmf
from ingest.importers.github_action import GithubAction
from ingest.importers.junit import JUnit
from ingest.importers.llama_bench import LlamaBench
from ingest.importers.mlflow import MLflow
from ingest.importers.mlperf import MLPerf
from ingest.importers.onnxruntime_perf import OnnxRuntimePerf
from ingest.importers.optimum_benchmark import OptimumBenchmark
from ingest.importers.prices import Prices
from ingest.importers.pytest_benchmark import PytestBenchmark
from ingest.importers.pytest_report import PytestReport
from ingest.importers.rejects import Rejects
from ingest.importers.seed_batch import SeedBatch
from ingest.importers.seed_compatibility import SeedCompatibility
from ingest.importers.seed_direct import SeedDirect
from ingest.importers.seed_duckdb import SeedDuckDB
from ingest.importers.seed_functionality import SeedFunctionality
from ingest.importers.seed_hardware import SeedHardware
from ingest.importers.seed_other import SeedOther
from ingest.importers.seed_skills import SeedSkills
from ingest.importers.seed_suite import SeedSuite
from ingest.importers.seed_web import SeedWeb
from ingest.importers.table import Table
from ingest.importers.timm import Timm
from ingest.importers.torchbench import TorchBench
from ingest.importers.vllm_bench import VllmBench

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
