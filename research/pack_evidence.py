"""Make the evidence that ships: published whole-model rows, as events with their source, licence, commit and date.

    python -m research.pack_evidence DATA --out ingest/evidence/shipped.parquet

DATA holds the files by the names in `SOURCES`. Only what may be passed on is taken: Apache-2.0, MIT and BSD. The same
files give the same bytes.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from domain.canonical import canonical
from ingest.importers import Refused, import_paths

__all__ = ["SOURCES", "main"]

COLUMNS = pa.schema(
    {
        "source": pa.string(),
        "run": pa.string(),
        "type": pa.string(),
        "reference": pa.string(),
        "licence": pa.string(),
        "commit": pa.string(),
        "date": pa.string(),
        "event": pa.binary(),
    }
)


class Source(NamedTuple):
    """Files of one publisher: the format that reads them, whose they are, and under which licence."""

    format: str
    files: tuple[str, ...]
    reference: str
    licence: str
    commit: str | None = None


SOURCES = {
    "ai-hub": Source("ai-hub", ("models/ai_hub_full.csv",), "quic/ai-hub-models", "BSD-3-Clause"),
    "aiconfigurator": Source(
        "aiconfigurator", ("aiconfigurator/silicon_sample.csv",), "ai-dynamo/aiconfigurator", "Apache-2.0"
    ),
    "argonne": Source("argonne", ("argonne/All_results.csv",), "argonne-lcf/LLM-Inference-Bench", "BSD-3-Clause"),
    "deep-learning-examples": Source(
        "deep-learning-examples",
        ("models/nvidia_deep_learning_examples.csv",),
        "NVIDIA/DeepLearningExamples",
        "Apache-2.0 or BSD-3-Clause, by row",
    ),
    "neural-compressor": Source(
        "neural-compressor", ("models/neural_compressor.csv",), "intel/neural-compressor", "Apache-2.0"
    ),
    "neusight": Source("neusight-labels", ("models/neusight_labels.csv",), "sitar-lab/NeuSight", "MIT"),
    "openvino": Source(
        "openvino-platforms",
        ("openvino/openvino_benchmarks.csv",),
        "openvinotoolkit/openvino",
        "Apache-2.0",
        "d45251740fe442dcf79203430189760035851f14",
    ),
    "openvino-llm": Source("openvino-llm", ("openvino/llm_core_ultra.csv",), "openvinotoolkit/openvino", "Apache-2.0"),
    "openvino-model-server": Source(
        "openvino-model-server", ("openvino/model_server.csv",), "openvinotoolkit/openvino", "Apache-2.0"
    ),
    "pytorch-gpu-benchmark": Source(
        "pytorch-gpu-benchmark", ("models/lamikr_gpus.csv",), "lamikr/pytorch-gpu-benchmark", "MIT"
    ),
    "sglang": Source("sglang-cookbook", ("models/sgl_cookbook.csv",), "sgl-project/sgl-cookbook", "Apache-2.0"),
    "sglang-diffusion": Source(
        "sglang-diffusion", ("models/sgl_cookbook_diffusion.csv",), "sgl-project/sgl-cookbook", "Apache-2.0"
    ),
    "tensorrt-bert": Source("tensorrt-bert", ("models/nvidia_bert_tensorrt.csv",), "NVIDIA/TensorRT", "Apache-2.0"),
    "timm": Source(
        "timm",
        ("timm",),
        "huggingface/pytorch-image-models",
        "Apache-2.0",
        "90cae8c5ab83d2d7e23b1fb2bab1559bfdcbc7e9",
    ),
    "whisper-cpp": Source("whisper-cpp", ("models/whisper_cpp.csv",), "ggml-org/whisper.cpp", "MIT"),
}
GROUP = 4096
"""Events a row group: what is read at a time."""


def rows(name: str, source: Source, data: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of one source with where each comes from; an event that the file holds twice, once."""
    seen: set[str] = set()
    for file in source.files:
        for item in import_paths(source.format, [data / file]):
            if isinstance(item, Refused) or item["id"] in seen:
                continue
            seen.add(item["id"])
            payload = item["data"]
            said = payload.get("provenance") or {}
            reference = said.get("reference") or ""
            original = (payload.get("imported") or {}).get("original") or {}
            if "run_id" not in payload:
                continue
            yield {
                "source": name,
                "run": payload["run_id"],
                "type": item["type"],
                "reference": reference if "/" in reference else source.reference,
                "licence": said.get("licence") or source.licence,
                "commit": original.get("commit") or source.commit,
                "date": (item.get("time") or "")[:10] or None,
                "event": canonical(item),
            }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the pack, and print what is in it."""
    parser = argparse.ArgumentParser(prog="python -m research.pack_evidence", description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, help="folder with the published files")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", help="sources, with commas between")
    args = parser.parse_args(arguments)
    chosen = args.only.split(",") if args.only else sorted(SOURCES)
    made = [row for name in chosen for row in rows(name, SOURCES[name], args.data)]
    table = pa.Table.from_pylist(made, schema=COLUMNS)
    pq.write_table(
        table,
        args.out,
        compression="zstd",
        compression_level=19,
        row_group_size=GROUP,
        use_dictionary=COLUMNS.names[:-1],
    )
    for name, count in Counter(row["source"] for row in made).items():
        print(f"{name:24} {count:7,}")
    print(f"{len(made):,} events, {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
