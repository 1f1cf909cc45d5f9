"""intel/neural-compressor's `validated_model_list.md`: int8 beside fp32 on Intel Xeons, release by release (Apache-2.0).

Columns: `release, release_date, section, framework, model, example, device, sockets, cores_per_instance, instances, batch,
int8_throughput_per_s, fp32_throughput_per_s, int8_latency_ms, fp32_latency_ms, int8_accuracy, fp32_accuracy`. Throughput is
that of a socket on which so many instances run at once; release 1.7 gives the latency of one instance. A row makes a
measurement of each precision that has a figure; the accuracy stands under `original`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ingest.importers.draft import Draft
from ingest.importers.identity import model_of, runtime_of
from ingest.importers.published.published_table import PublishedTable, Row, needed
from ingest.importers.reading import number, text, whole
from ingest.importers.refusals import BadRow
from ingest.importers.tables.csv_drafts import hardware_named

__all__ = ["NEURAL_COMPRESSOR"]


def _drafts(line: int, row: Row) -> Iterator[Draft]:
    model, device, release = needed(row, "model", "device", "release")
    instances, cores = whole(row, "instances"), whole(row, "cores_per_instance")
    framework = (text(row, "framework") or text(row, "section") or "").split()
    date, found = text(row, "release_date"), 0
    for precision in ("int8", "fp32"):
        rate, latency = number(row, f"{precision}_throughput_per_s"), number(row, f"{precision}_latency_ms")
        if rate is None and latency is None:
            continue
        found += 1
        yield Draft(
            row=line,
            model=model_of(model),
            workload={
                "mode": "inference",
                "scenario": "offline" if rate else "single_stream",
                "batch_size": whole(row, "batch"),
            },
            execution={
                "platform": "cpu",
                "runtime": runtime_of(framework[0], framework[1] if len(framework) > 1 else None)
                if framework
                else None,
                "precision": precision,
                "threads": cores,
                "streams": instances,
                "options": {"neural_compressor": release},
            },
            hardware=hardware_named(re.sub(r" \(.*\)", "", device), "cpu"),
            metrics={"throughput_per_s": rate, "latency_ms": {"mean": latency} if latency else None},
            time=f"{date}T00:00:00+00:00" if date else None,
            original={
                name: said
                for name in ("example", f"{precision}_accuracy", "section")
                if (said := text(row, name)) is not None
            },
        )
    if not found:
        raise BadRow("int8_throughput_per_s", "neither throughput nor latency is given")


NEURAL_COMPRESSOR = PublishedTable(
    "neural-compressor",
    "Neural Compressor validated models (Intel), as CSV",
    columns={"release", "cores_per_instance", "instances", "int8_throughput_per_s", "fp32_throughput_per_s"},
    drafts=_drafts,
    licence="Apache-2.0",
    reference="intel/neural-compressor docs/source/validated_model_list.md",
)
