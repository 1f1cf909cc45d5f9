"""mit-han-lab/hardware-aware-transformers: latency of random translation transformers on a Raspberry Pi and a Xeon (MIT).

Columns: `device, device_kind, task, sequence, batch`, the sizes of encoder and decoder, and `encoder_ms, decoder_ms,
encoder_std_ms, decoder_std_ms`. Each row is another architecture: batch 1, 30 tokens in and out with beam search, the mean of
the middle 80 % of the runs. The latency is the sum of the two means. The model's id holds a digest of its sizes, which stand
under `original`.
"""

from __future__ import annotations

from collections.abc import Iterator

from domain.canonical import digest
from ingest.importers.draft import Draft
from ingest.importers.published.published_table import PublishedTable, Row, needed
from ingest.importers.reading import number, whole
from ingest.importers.refusals import BadRow
from ingest.importers.tables.csv_drafts import hardware_named

__all__ = ["HAT"]

_SIZES = (
    "encoder_embed_dim",
    "encoder_layer_num",
    "encoder_ffn_embed_dim_avg",
    "encoder_self_attention_heads_avg",
    "decoder_embed_dim",
    "decoder_layer_num",
    "decoder_ffn_embed_dim_avg",
    "decoder_self_attention_heads_avg",
    "decoder_ende_attention_heads_avg",
    "decoder_arbitrary_ende_attn_avg",
)
_DEVICES = {"raspberrypi": "Raspberry Pi 4", "xeon": "Intel Xeon E5-2640 v4"}


def _drafts(line: int, row: Row) -> Iterator[Draft]:
    device, task = needed(row, "device", "task")
    sizes = {name: number(row, name) for name in _SIZES}
    times = {name: number(row, f"{name}_ms") for name in ("encoder", "decoder")}
    if not times["encoder"] or not times["decoder"]:
        raise BadRow("encoder_ms", "encoder and decoder are not both timed")
    tokens = whole(row, "sequence")
    yield Draft(
        row=line,
        model={
            "id": f"hat/{task}-{digest(sizes).removeprefix('sha256:')[:12]}",
            "category": "text_to_text",
            "family": "hat",
            "task": "translation",
        },
        workload={
            "mode": "inference",
            "scenario": "single_stream",
            "batch_size": whole(row, "batch"),
            "input_tokens": tokens,
            "output_tokens": tokens,
        },
        execution={"platform": "cpu", "runtime": {"name": "torch"}, "precision": "fp32"},
        hardware=hardware_named(_DEVICES.get(device, device), "cpu"),
        metrics={"latency_ms": {"mean": times["encoder"] + times["decoder"]}},
        original={**{f"{name}_ms": value for name, value in times.items()}, **sizes},
    )


HAT = PublishedTable(
    "hat",
    "Hardware-Aware Transformers latency datasets (mit-han-lab), as CSV",
    columns={"device", "task", "encoder_embed_dim", "decoder_layer_num", "encoder_ms", "decoder_ms"},
    drafts=_drafts,
    licence="MIT",
    reference="mit-han-lab/hardware-aware-transformers",
)
