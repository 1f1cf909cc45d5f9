"""Put what published measurements of served language models teach into the shipped predictor, beside what is there.

    python -m predictor.shipped.serving silicon_sample.csv All_results.csv --out predictor/prior

The first is that of https://github.com/ai-dynamo/aiconfigurator (Apache-2.0), the second that of
https://github.com/argonne-lcf/LLM-Inference-Bench (BSD-3-Clause). Offsets, trees and scales are kept, and no row. It takes
two minutes on one core, most of them to measure how far off it is; the same files give the same digest.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from domain.catalogues import hardware
from domain.events import MEASUREMENT_RECORDED
from ingest.importers import Refused, import_paths
from predictor.artifact.artifact import Card, load_shipped, write_folder
from predictor.features.dataset import Row, row_from_event
from predictor.learning.training import Trees
from predictor.llm_serving.building import serving_of
from predictor.llm_serving.shipped import SERVING

__all__ = ["with_serving"]

_SOURCES = {
    "aiconfigurator silicon data": ("https://github.com/ai-dynamo/aiconfigurator", "Apache-2.0"),
    "LLM-Inference-Bench results": ("https://github.com/argonne-lcf/LLM-Inference-Bench", "BSD-3-Clause"),
}


def with_serving(card: Card, others: Mapping[str, Trees], paths: Sequence[Path]) -> tuple[Card, dict[str, Trees]]:
    """Return the card and its trees with what the files teach of serving, in the place of what was there; without files as they are."""
    if not paths:
        return card, dict(others)
    rows: list[Row] = []
    kept = [source for source in card.data.get("sources", []) if source.get("target") != "serving"]
    for path in paths:
        result = [_row(item) for item in import_paths("auto", [path])]
        taken = [row for row in result if row is not None]
        kept.append(_source(path, len(result), taken))
        rows += taken
    serving, trees = serving_of(rows, hardware.find)
    card = msgspec.structs.replace(card, serving=serving, data={**card.data, "sources": kept})
    return card, {name: other for name, other in others.items() if not name.startswith(SERVING)} | trees


def _row(item: Any) -> Row | None:
    return None if isinstance(item, Refused) or item["type"] != MEASUREMENT_RECORDED else row_from_event(item)


def _source(path: Path, read: int, rows: Sequence[Row]) -> dict[str, Any]:
    name = rows[0].source or "" if rows else ""
    repository, licence = _SOURCES.get(name, (None, None))
    return {
        "name": name,
        "target": "serving",
        "repository": repository,
        "licence": licence,
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "measurements": {"read": read, "kept": len(rows)},
    }


def main() -> int:
    """Write the predictor; print its digest."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}.serving",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", type=Path, nargs="+", help="published measurements of served language models")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    options = parser.parse_args()
    shipped = load_shipped()
    card, others = with_serving(shipped.card, shipped.others, options.files)
    print(write_folder(options.out, card, shipped.base, others))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
