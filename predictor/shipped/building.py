"""The shipped predictor from raw files: every part in its order, or some parts with the others as they ship."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from domain.catalogues import hardware
from domain.events import MEASUREMENT_RECORDED
from ingest.importers import Refused, import_paths
from predictor.answering.facts import trace_from_row
from predictor.artifact.artifact import Card, Predictor, encode
from predictor.features.dataset import Row, row_from_event, training_rows
from predictor.features.operators_route import tabulate
from predictor.features.shipped_traces import shipped_rows
from predictor.features.table import Table
from predictor.features.traces import TraceBook, trace_from_data
from predictor.general.method import GENERAL
from predictor.kernels.__main__ import fit_kernels
from predictor.kernels.kept import TREES
from predictor.learning.blend import FittedBlend
from predictor.learning.building import build_from_table
from predictor.learning.training import Trees
from predictor.llm_serving.shipped import SERVING
from predictor.shipped.first_party import with_measurements
from predictor.shipped.general import general_table, with_general
from predictor.shipped.serving import with_serving

__all__ = ["PARTS", "Parts", "Sources", "differences", "read_traces", "rebuild", "timm_rows", "timm_table"]

PARTS = ("base", "first-party", "serving", "kernels", "general")
"""In the order in which they are made: each rests on those before it."""
SHOTS = (0, 10)
LIMITS = [
    "the trees' own intervals: on GPUs vision models in torch with autocast to fp16 on three NVIDIA cards, training on one of them",
    "served language models from published tables of 12 accelerators, the time to the first token on five NVIDIA ones",
    "other software, other vendors and other kinds of models by the sum of their kernels, with wider intervals",
    "times are means over timm's benchmark loop, mostly at the largest batch that fits; batch 1 only on CPUs",
    "a device that did not train is not calibrated until a few measurements of it are there",
    "new device and new family together are covered by no width of the trees that was measured",
]
_REPOSITORY = "https://github.com/huggingface/pytorch-image-models"


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Files that the shipped predictor is made from; `traces` are of timm's models, those that ship where it is None."""

    timm: Path
    serving: tuple[Path, ...] = ()
    kernels: tuple[Path, ...] = ()
    measurements: tuple[Path, ...] = ()
    traces: Path | None = None
    commit: str | None = None

    @classmethod
    def in_folder(cls, data: Path, **others: Any) -> Sources:
        """Return the files of a folder of published data by their usual names, as docs/importers.md has them."""
        return cls(
            timm=data / "timm",
            serving=(data / "aiconfigurator" / "silicon_sample.csv", data / "argonne" / "All_results.csv"),
            kernels=tuple(data / "kernels" / f"{name}.parquet" for name in ("gemm", "attention", "neusight_ops")),
            **others,
        )

    def missing(self, parts: Sequence[str]) -> list[Path]:
        """Return the files and folders that these parts need and that are not there."""
        needed: list[Path] = [self.timm] if "base" in parts else []
        needed += self.serving if "serving" in parts else ()
        needed += self.kernels if "kernels" in parts else ()
        needed += self.measurements if {"first-party", "general"} & set(parts) else ()
        needed += [self.traces] if self.traces is not None and "base" in parts else []
        return [path for path in needed if not path.exists()]


class Parts(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What an artifact is made of, while it is made."""

    card: Card
    base: FittedBlend
    others: dict[str, Trees]

    @classmethod
    def of(cls, predictor: Predictor) -> Parts:
        """Return the parts of a predictor."""
        return cls(card=predictor.card, base=predictor.base, others=dict(predictor.others))

    @property
    def digest(self) -> str:
        """The digest of the artifact."""
        return encode(self.card, self.base, self.others)[1]


def rebuild(sources: Sources, start: Predictor, parts: Sequence[str], say: Callable[[str], None]) -> Parts:
    """Return the predictor with these parts made anew, in the order of PARTS; the others are those of `start`."""
    made = Parts.of(start)
    for name in PARTS:
        if name in parts:
            say(f"{name} …")
            made = _MAKERS[name](sources, made, say)
    return made


def differences(made: Parts, other: Parts) -> dict[str, float]:
    """Return what two predictors differ in, fields of the card and trees by name, and by how much.

    The figure is the largest relative difference of two numbers in the same place; infinite where anything else differs.
    """
    one, two = (_documents(part) for part in (made, other))
    names = sorted({*one, *two})
    return {name: _apart(one.get(name, ""), two.get(name, "")) for name in names if one.get(name) != two.get(name)}


def _documents(parts: Parts) -> dict[str, str]:
    """Return the fields of the card as JSON and the trees as text, by name."""
    card = msgspec.to_builtins(parts.card)
    fields = {f"card.{name}": json.dumps(value, sort_keys=True) for name, value in card.items()}
    others = {f"{name}/{key}": text for name, trees in parts.others.items() for key, text in trees.texts.items()}
    return fields | {f"trees {name}": text for name, text in {**parts.base.texts(), **others}.items()}


_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_SIZES = re.compile(r"^tree_sizes=.*$", re.MULTILINE)
"""Lengths of the texts of trees in bytes, which differ with the digits of a number."""


def _apart(one: str, two: str) -> float:
    one, two = _SIZES.sub("", one), _SIZES.sub("", two)
    if _NUMBER.sub("#", one) != _NUMBER.sub("#", two):
        return math.inf
    numbers = [np.array(_NUMBER.findall(text), dtype=float) for text in (one, two)]
    scale = np.maximum(np.abs(numbers[0]), np.abs(numbers[1]))
    return float((np.abs(numbers[0] - numbers[1]) / np.where(scale > 0, scale, 1.0)).max(initial=0.0))


def _base(sources: Sources, made: Parts, say: Callable[[str], None]) -> Parts:
    """Fit the trees on timm's rows. Nothing of serving, kernels and the general route changes."""
    rows, counts = timm_rows(sources.timm)
    table, traced = timm_table(rows, sources.traces)
    say(f"{len(table):,} rows of timm; left out: {table.dropped}")
    card, base, others = build_from_table(table, hardware.find, shots=SHOTS, fields=False)
    digest = hashlib.sha256()
    for path in sorted(sources.timm.glob("benchmark-*.csv")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    source = {
        "name": "timm benchmark results",
        "repository": _REPOSITORY,
        "folder": "results",
        "commit": sources.commit,
        "licence": "Apache-2.0",
        "sha256": digest.hexdigest(),
        "measurements": counts,
        "left_out": table.dropped,
    }
    served = [item for item in made.card.data.get("sources", []) if item.get("target") == "serving"]
    card = msgspec.structs.replace(
        card,
        limits=LIMITS,
        data={"rows": len(table), "sources": [source, traced, *served]},
        few=made.card.few,
        tails=made.card.tails,
        shares=made.card.shares,
        memory=made.card.memory,
        serving=made.card.serving,
        kernels=made.card.kernels,
        general=made.card.general,
    )
    kept = {name: trees for name, trees in made.others.items() if name.startswith((SERVING, TREES, GENERAL))}
    return Parts(card=card, base=base, others={**others, **kept})


def timm_rows(folder: Path) -> tuple[list[Row], dict[str, int]]:
    """Return the training rows of a results folder, and how many were read, refused and kept."""
    refused = read = 0

    def rows() -> Iterator[Row | None]:
        nonlocal refused, read
        for item in import_paths("timm", [folder]):
            if isinstance(item, Refused):
                refused += 1
            elif item["type"] == MEASUREMENT_RECORDED:
                read += 1
                yield row_from_event(item)

    kept = training_rows(rows(), mode=None)
    return kept, {"read": read, "refused": refused, "kept": len(kept)}


def read_traces(path: Path) -> TraceBook:
    """Return the traces of a compressed NDJSON file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return TraceBook(trace_from_data(json.loads(line)) for line in lines)


def timm_table(rows: Sequence[Row], traces: Path | None) -> tuple[Table, dict[str, Any]]:
    """Return the table of timm's rows, and where the work of their models comes from."""
    if traces is None:
        works = shipped_rows(sorted({row.model for row in rows}))
        digest = hashlib.sha256("".join(sorted(f"{row['model_id']}{row['operators']}" for row in works)).encode())
        book = TraceBook(map(trace_from_row, works))
    else:
        with gzip.open(traces) as lines:
            digest = hashlib.sha256(lines.read())
        book = read_traces(traces)
    source = {"name": "operator traces of the same models", "licence": "own work", "sha256": digest.hexdigest()}
    return tabulate(rows, book, hardware.find), source


def _first_party(sources: Sources, made: Parts, say: Callable[[str], None]) -> Parts:
    say(f"{len(sources.measurements)} files of our own measurements")
    return msgspec.structs.replace(made, card=with_measurements(made.card, sources.measurements))


def _serving(sources: Sources, made: Parts, say: Callable[[str], None]) -> Parts:
    say(f"{len(sources.serving)} tables of served models")
    card, others = with_serving(made.card, made.others, sources.serving)
    return msgspec.structs.replace(made, card=card, others=others)


def _kernels(sources: Sources, made: Parts, say: Callable[[str], None]) -> Parts:
    kernels, trees = fit_kernels(sources.kernels, say)
    others = {name: item for name, item in made.others.items() if not name.startswith(TREES)}
    return msgspec.structs.replace(
        made, card=msgspec.structs.replace(made.card, kernels=kernels), others={**others, **trees}
    )


def _general(sources: Sources, made: Parts, say: Callable[[str], None]) -> Parts:
    card, others = with_general(made.card, made.others, general_table(sources.measurements), say)
    return msgspec.structs.replace(made, card=card, others=others)


_MAKERS: dict[str, Callable[[Sources, Parts, Callable[[str], None]], Parts]] = {
    "base": _base,
    "first-party": _first_party,
    "serving": _serving,
    "kernels": _kernels,
    "general": _general,
}
