"""Benchmarks that Assay exported itself (`assay export --format bmf|github-action`): what their names say.

A name is the configuration in words, and its key in brackets: `acme/tiny inference batch 8 on 2x acme-one cuda fp16
torch compiled 4 threads [0123…]`, in a list of several figures followed by the figure's column. The words leave details
out, such as the runtime's version; the key becomes an option, so that the rows do not mix with those of the
configuration itself.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from domain.measured import Latency
from domain.metrics import METRICS
from domain.vocabulary import PRECISIONS
from ingest.importers.draft import Draft
from ingest.importers.identity import hardware_of, model_of

__all__ = ["Exported", "exported", "metric_named"]

_NAME = re.compile(
    r"(?P<model>\S+) (?P<mode>\S+)(?P<work>(?: .+?)?) on (?:(?P<count>\d{1,6})x )?(?P<hardware>\S+) (?P<platform>\S+)"
    r"(?P<how>(?: .+?)?) \[(?P<key>[0-9a-f]{32})\](?: (?P<column>[a-z0-9_]+))?"
)
_SIZES = {
    "batch": "batch_size",
    "sequence": "sequence_length",
    "image": "image_size",
    "images": "images",
    "frames": "frames",
    "input": "input_tokens",
    "output": "output_tokens",
    "concurrency": "concurrency",
}
_RATES = {"audio s": "audio_seconds", "arrivals/s": "arrival_rate_per_s"}
_SIZE = re.compile(r" (?P<word>audio s|arrivals/s|[a-z]+) (?P<size>\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?= |$)")
_LATENCY = re.compile(r"latency_(?:ms[._])?(?P<statistic>[a-z0-9]+?)(?:_ms)?")
_STATISTICS = frozenset(Latency.__struct_fields__) - {"ci95", "n"}


class Exported(NamedTuple):
    """The parts of an event that a name says, and the column of the figure where it names one."""

    model: dict[str, Any]
    workload: dict[str, Any]
    execution: dict[str, Any]
    hardware: dict[str, Any]
    column: str | None

    def draft(self, metrics: dict[str, Any]) -> Draft:
        """Return a draft with these metrics."""
        return Draft(
            model=self.model, workload=self.workload, execution=self.execution, hardware=self.hardware, metrics=metrics
        )


def exported(name: str) -> Exported | None:
    """Return what the name of a benchmark says where Assay wrote it, else None."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    workload: dict[str, Any] = {"mode": match["mode"]}
    for size in _SIZE.finditer(match["work"]):
        if size["word"] in _SIZES and size["size"].isdigit():
            workload[_SIZES[size["word"]]] = int(size["size"])
        elif size["word"] in _RATES:
            workload[_RATES[size["word"]]] = float(size["size"])
    return Exported(
        model=model_of(match["model"]),
        workload=workload,
        execution=_execution(match["platform"], match["how"].split(), match["key"]),
        hardware=hardware_of(match["hardware"], count=int(match["count"] or 1) or 1),
        column=match["column"],
    )


def _execution(platform: str, how: list[str], key: str) -> dict[str, Any]:
    execution: dict[str, Any] = {"platform": platform, "options": {"configuration": key}}
    if how and (how[0] in PRECISIONS or how[0].startswith("amp-")):
        execution["precision"] = how.pop(0)
    if len(how) >= 2 and how[-1] == "threads" and how[-2].isdigit():
        execution["threads"] = int(how[-2]) or None
        how = how[:-2]
    if how and how[-1] == "compiled":
        execution["compiled"] = True
        how = how[:-1]
    return execution | ({"runtime": {"name": how[0]}} if len(how) == 1 else {})


def metric_named(name: str) -> tuple[str, str | None] | None:
    """Return the metric that a name means, with the latency's statistic; None where it is none of Assay's.

    Names are those of metrics and of columns, with `_` or `-`: `tokens-per-s`, `latency_p50_ms`, `latency_ms.mean`.
    """
    said = re.sub(r"[-\s]", "_", name.strip().lower())
    if said == "latency_ms":
        return said, "mean"
    if said in METRICS:
        return said, None
    match = _LATENCY.fullmatch(said)
    return ("latency_ms", match["statistic"]) if match and match["statistic"] in _STATISTICS else None
