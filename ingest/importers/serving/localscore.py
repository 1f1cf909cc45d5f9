"""Lists of LocalScore results (localscore.ai), as CSV or TSV: language models on people's own machines.

Columns: `test_date, gen_tps, ttft, ttft_unit, prompt_tps, localscore, model_name, model_quant, model_params,
model_params_unit, accel_name, accel_type, accel_group, accel_ram, system_cpu, system_os`. Each figure is a mean over nine mixes of
prompt and output, from 1024 tokens in and 16 out to 16 in and 1536 out, so no length is given and the option `lengths` names
the set. LocalScore runs llamafile; a GPU is driven by CUDA, HIP or Metal after its maker. The score itself is a product of the
others and stands under `original`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from ingest.importers.document import Document, environment
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import model_of
from ingest.importers.reading import number, text
from ingest.importers.refusals import BadRow, Refused
from ingest.importers.tables.csv_drafts import csv_drafts, hardware_named, header_of

__all__ = ["LocalScore"]

_COLUMNS = {"gen_tps", "ttft", "prompt_tps", "localscore", "model_name", "model_quant", "accel_name", "accel_type"}
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_GROUPS = (("nvidia", "cuda"), ("amd", "rocm"), ("apple", "mps"), ("intel", "other"))
_BITS = {"2": "int2", "3": "int3", "4": "int4", "5": "int5", "6": "int6", "8": "int8"}
_CORES = re.compile(r" \d+P(\+\d+E)?(\+\d+GPU)?$")
_MICROARCHITECTURE = re.compile(r" \([a-z0-9 -]+\)$")
_TIMES = {"ms": 1.0, "s": 1000.0, "sec": 1000.0}


class LocalScore:
    """LocalScore-style result lists (CSV, TSV)."""

    name = "localscore"
    title = "LocalScore result lists, as CSV or TSV"

    def sniff(self, file: File) -> bool:
        """Return whether the header has all of its columns."""
        delimiter = _DELIMITERS.get(file.suffix)
        return delimiter is not None and set(header_of(file, delimiter)) >= _COLUMNS

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its measurements and the end of the run; see Importer."""
        document = Document(file, self.name, source="LocalScore results", reference="localscore.ai")
        return document.events(csv_drafts(file, document, _drafts, delimiter=_DELIMITERS.get(file.suffix, ",")))


def _drafts(line: int, row: dict[str, str]) -> Iterator[Draft]:
    model, accelerator = text(row, "model_name"), text(row, "accel_name")
    if model is None or accelerator is None:
        raise BadRow("model_name" if model is None else "accel_name", "is missing")
    rate, first = number(row, "gen_tps"), number(row, "ttft")
    unit = (text(row, "ttft_unit") or "ms").lower()
    if unit not in _TIMES:
        raise BadRow("ttft_unit", f"is neither ms nor s but {unit!r}")
    if rate is None and first is None:
        raise BadRow("gen_tps", "neither a rate nor a time is given")
    on_cpu = (text(row, "accel_type") or "").upper() == "CPU"
    quantisation = text(row, "model_quant")
    group = (text(row, "accel_group") or accelerator).lower()
    kept = ("prompt_tps", "localscore", "accel_ram", "system_cpu")
    yield Draft(
        row=line,
        model=model_of(model, category="text_generation"),
        workload={"mode": "inference", "scenario": "single_stream", "batch_size": 1},
        execution={
            "platform": "cpu" if on_cpu else next((name for word, name in _GROUPS if word in group), "other"),
            "runtime": {"name": "llamafile"},
            "precision": _precision(quantisation),
            "options": {"lengths": "localscore", "quantisation": quantisation},
        },
        hardware=hardware_named(_device(accelerator, on_cpu), "cpu" if on_cpu else "gpu"),
        metrics={"tokens_per_s": rate, "ttft_ms": first * _TIMES[unit] if first is not None else None},
        environment=environment(os=system) if (system := text(row, "system_os")) else None,
        time=_time(text(row, "test_date")),
        original={name: said for name in kept if (said := text(row, name)) is not None},
    )


def _precision(said: str | None) -> str | None:
    """Return the bits of a weight: of `Q4_K - Medium` int4, of `F16` fp16."""
    if said is None:
        return None
    match = re.match(r"I?Q([2-8])", said.upper())
    return _BITS[match.group(1)] if match and match.group(1) in _BITS else {"F16": "fp16", "BF16": "bf16"}.get(said)


def _device(name: str, on_cpu: bool) -> str:
    """Return an accelerator without what LocalScore puts behind it (an Apple chip's cores, a CPU's architecture).

    The GPU of an Apple chip is a device of its own.
    """
    plain = _MICROARCHITECTURE.sub("", _CORES.sub("", name)).strip()
    return f"{plain} GPU" if plain.startswith("Apple") and not on_cpu else plain


def _time(said: str | None) -> str | None:
    """Return the moment in UTC, which LocalScore's lists use; None where it is not one."""
    try:
        return f"{datetime.strptime(said or '', '%Y.%m.%d %H:%M:%S').isoformat()}+00:00"  # noqa: DTZ007 - see above
    except ValueError:
        return None
