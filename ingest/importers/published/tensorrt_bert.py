"""NVIDIA/TensorRT's BERT demo: the latency tables of `demo/BERT/README.md` through its history (Apache-2.0).

Columns: `device, model, precision, sequence, batch, mean_ms, p95_ms, p99_ms, tensorrt_listed, cuda_listed, commit, date`. The
versions are those that the README lists beside the table. `int8-qat` is int8 after training with quantisation, which runs
the same kernels: the option `quantisation` says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingest.importers.document import environment
from ingest.importers.draft import Draft
from ingest.importers.identity import model_of
from ingest.importers.published.published_table import PublishedTable, Row, needed, percentiles
from ingest.importers.reading import text, whole
from ingest.importers.refusals import BadRow
from ingest.importers.tables.csv_drafts import hardware_named

__all__ = ["TENSORRT_BERT"]

_MODELS = {
    "bert-base": "google-bert/bert-base-uncased",
    "bert-large": "google-bert/bert-large-uncased",
    "megatron-large-sparse": "nvidia/megatron-large-sparse",
}


def _drafts(line: int, row: Row) -> Iterator[Draft]:
    device, model, precision = needed(row, "device", "model", "precision")
    latency = percentiles(row, mean="mean_ms", p95="p95_ms", p99="p99_ms")
    if latency is None:
        raise BadRow("mean_ms", "no time is given")
    kind, _, training = precision.partition("-")
    version, cuda, date = text(row, "tensorrt_listed"), text(row, "cuda_listed"), text(row, "date")
    commit = text(row, "commit")
    yield Draft(
        row=line,
        model=model_of(_MODELS.get(model, model), category="embedding"),
        workload={
            "mode": "inference",
            "scenario": "single_stream",
            "batch_size": whole(row, "batch"),
            "sequence_length": whole(row, "sequence"),
        },
        execution={
            "platform": "cuda",
            "runtime": {"name": "tensorrt", "version": version},
            "precision": kind,
            "options": {"quantisation": training} if training else None,
        },
        hardware=hardware_named(_device(device), "gpu"),
        metrics={"latency_ms": latency},
        environment=environment({"cuda": cuda} if cuda else None),
        time=f"{date}T00:00:00+00:00" if date else None,
        original={"commit": commit} if commit else {},
    )


def _device(name: str) -> str:
    """Return the device of a table's heading: NVIDIA's A100 of 40 GB, its V100 of 16 GB."""
    plain = name.removesuffix(")").replace("(", "").replace(", 300W", "")
    return {"NVIDIA A100 40GB": "NVIDIA A100-SXM4-40GB", "NVIDIA V100 16GB": "Tesla V100-SXM2-16GB"}.get(
        plain, plain.replace(" 16GB", "")
    )


TENSORRT_BERT = PublishedTable(
    "tensorrt-bert",
    "TensorRT demo/BERT latency tables (NVIDIA), as CSV",
    columns={"device", "sequence", "mean_ms", "p95_ms", "p99_ms", "tensorrt_listed", "cuda_listed", "commit"},
    drafts=_drafts,
    licence="Apache-2.0",
    reference="NVIDIA/TensorRT demo/BERT/README.md",
)
