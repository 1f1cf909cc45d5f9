"""sitar-lab/NeuSight's whole models: fp32 transformers in PyTorch on nine GPUs, inference and training (MIT).

Columns: `device, model, mode, sequence, batch, variant, layers, e2e_ms, fw_ms, bw_ms, op_sum_trace_ms, op_sum_ms,
op_sum_matmul_ms, trace_dtype`. The time is the mean of the fastest 5 of 25 runs (of the data-parallel ones 10 of 50), of
training forward and backward without the optimizer, in fp32 without TF32. `variant`: eager, fusion (torch.compile), and 4
GPUs by data, tensor or pipeline. The models are the source's own (its gpt3_xl has hidden size 3072), so their ids are
`neusight/<name>`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingest.importers.draft import Draft
from ingest.importers.published.published_table import PublishedTable, Row, needed
from ingest.importers.reading import number, whole
from ingest.importers.refusals import BadRow
from ingest.importers.tables.csv_drafts import hardware_named

__all__ = ["NEUSIGHT_LABELS"]

_MODES = {"inf": "inference", "train": "training"}
_SPLIT = {"dp": "data", "tp": "tensor", "pp": "pipeline"}


def _drafts(line: int, row: Row) -> Iterator[Draft]:
    device, model, variant = needed(row, "device", "model", "variant")
    mode = row.get("mode", "")  # "inf" is a word here and no number.
    time = number(row, "e2e_ms")
    if time is None:
        raise BadRow("e2e_ms", "is missing")
    if mode not in _MODES:
        raise BadRow("mode", f"is neither inf nor train but {mode!r}")
    dimension = _SPLIT.get(variant[:2])
    count = 4 if dimension else 1
    training = mode == "train"
    yield Draft(
        row=line,
        model={"id": f"neusight/{model}", "category": "text_generation"},
        workload={
            "mode": _MODES[mode],
            "scenario": "single_stream",
            "batch_size": whole(row, "batch"),
            "sequence_length": whole(row, "sequence"),
        },
        execution={
            "platform": "rocm" if device.startswith("AMD") else "cuda",
            "runtime": {"name": "torch"},
            "precision": "fp32",
            "compiled": variant == "fusion",
            "parallelism": {dimension: count} if dimension else None,
            "options": {"optimizer_step": False} if training else None,
        },
        hardware=hardware_named(device.replace("_", " "), "gpu", count),
        metrics={
            "latency_ms": {"mean": time},
            "forward_ms": number(row, "fw_ms") if training else None,
            "backward_ms": number(row, "bw_ms") if training else None,
        },
        original={"variant": variant, "statistic": "mean of the fastest fifth"},
    )


NEUSIGHT_LABELS = PublishedTable(
    "neusight-labels",
    "NeuSight whole-model labels (sitar-lab), as CSV",
    columns={"device", "variant", "e2e_ms", "fw_ms", "bw_ms", "op_sum_ms"},
    drafts=_drafts,
    licence="MIT",
    reference="sitar-lab/NeuSight scripts/asplos/label",
)
