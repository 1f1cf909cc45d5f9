"""What test files stand on: run a model on a platform, and compare what ran, what it gave and how fast with the log.

    from assay import testing

    case = testing.Case("bert-tiny", "cpu", "fp32", weights="random", sequence_length=128)
    testing.verify(case).outcome            # 'passed'
    testing.measure(case).metrics           # latency, throughput, memory

`assay scaffold test MODEL` writes files of it; docs/model-tests.md describes them and these names.
"""

from assay.testing.cases import Case, Expected, Output, Ran, Time, measure, verify
from assay.testing.checks import check_device, check_outputs, check_runs, check_time
from assay.testing.findings import Finding

__all__ = [
    "Case",
    "Expected",
    "Finding",
    "Output",
    "Ran",
    "Time",
    "check_device",
    "check_outputs",
    "check_runs",
    "check_time",
    "measure",
    "verify",
]
