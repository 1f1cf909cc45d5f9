"""Read what an answer needs from the tables, all of it at one position of the log."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from domain.answers import OutputError, Sizes
from domain.calls import USUAL_REQUEST, CallPlan, Subject, kind_of, planned, usual_sizes
from domain.catalogues import hardware as catalogue
from domain.catalogues import instances, language_models, models
from domain.catalogues.hardware import HardwareSpec
from domain.catalogues.instances import Instance
from domain.errors import TraceNeeded, UnknownHardware, UnknownModel, UnknownPlatform, UsageError
from domain.permissions import SHARED_SOURCE
from domain.sharing.bundles import signer_of
from domain.vocabulary import BENCH_FLAGS, NO_EVIDENCE, PLATFORMS, PRECISIONS, STORED_ONLY, WEIGHT_BITS
from ingest.projection import Tables
from ingest.projection.names import Names
from ingest.sharing.trust import UNSIGNED, rank, trusted_signers
from predictor.answering.call_evidence import PART_COLUMNS, part_names
from predictor.answering.context import AnswerContext
from predictor.answering.evidence import COLUMNS, chosen_sizes
from predictor.answering.option import SIZE_NAMES
from predictor.answering.power_estimates import energy_at
from predictor.answering.prices import Price, offers_at, priced
from predictor.answering.question import Question
from predictor.answering.serving_context import (
    by_engine,
    engine_facts,
    nearest_models,
    no_engine,
    not_served,
    served_at,
)
from predictor.answering.table_cache import Reading
from predictor.artifact.artifact import Predictor
from predictor.features import dataset
from predictor.features.dataset import Row, row_from_table, taught
from predictor.features.devices import Devices
from predictor.features.operators_route import SpecOf, tabulate
from predictor.features.shipped_traces import traces_of
from predictor.features.traces import Trace, TraceBook, trace_from_data
from predictor.learning.siblings import Siblings

__all__ = ["device_named", "known_at", "output_errors", "trace_from_row"]


def output_errors(tables: Tables, model: str) -> dict[tuple[str, str], OutputError]:
    """Return the newest comparison of outputs for each (platform, precision) of a model.

    Each tells the worst output: the least `cosine`, the largest `max_absolute` error, the `outcome` and the `evidence`.
    Simulated tests are none.
    """
    columns = ["position", "event_id", "platform", "precision", "outcome", "checks", "origin"]
    rows: dict[tuple[str, str], OutputError] = {}
    for row in tables.view("tests", {"model": model}, columns=columns).to_pylist():
        outputs = (json.loads(row["checks"]) if row["checks"] else {}).get("outputs") or []
        cosine, max_absolute = _worst(outputs, "cosine", min), _worst(outputs, "max_absolute", max)
        if row["origin"] in NO_EVIDENCE or (cosine is None and max_absolute is None):
            continue
        rows[(row["platform"], row["precision"])] = OutputError(
            cosine=cosine, max_absolute=max_absolute, outcome=row["outcome"], evidence=str(row["event_id"])
        )
    return rows


def _worst(outputs: list[Mapping[str, Any]], name: str, pick: Any) -> float | None:
    existing = [float(output[name]) for output in outputs if output.get(name) is not None]
    return float(f"{pick(existing):.6g}") if existing else None


_COLUMNS = tuple(dict.fromkeys((*COLUMNS, *dataset.COLUMNS)))
_OF_FAILURES = (
    "hardware_id",
    "platform",
    "precision",
    "outcome",
    "stage",
    "error",
    "evidence",
    "measurements",
    "verified",
)

_TRIED = "SELECT 1 FROM test WHERE subject IN (SELECT id FROM subject WHERE model_id = ?) LIMIT 1"


def trace_from_row(row: Mapping[str, Any]) -> Trace:
    """Return the trace in a row of the view `traces`."""
    return trace_from_data(
        {
            "model": {
                "id": row["model_id"],
                "family": row["family"],
                "category": row["category"],
                "task": row.get("task"),
                "architecture": row["architecture"],
                "parameters": row["parameters"],
            },
            "workload": {
                **msgspec.json.decode(row["workload"] or "{}"),
                "mode": row["mode"],
                "phase": row["phase"],
                "image_size": row["image_size"],
                "sequence_length": row["sequence_length"],
            },
            "operators": msgspec.json.decode(row["operators"]),
            "totals": msgspec.json.decode(row["totals"]),
        }
    )


def known_at(
    tables: Tables, question: Question, predictor: Predictor, notes: Sequence[str], kept: Reading | None = None
) -> AnswerContext:
    """Return what is known for a question; `kept` is what was read at this position before.

    Raises UnknownModel, UnknownHardware, UnknownPlatform or UsageError for names that nobody knows, and TraceNeeded
    where the model was neither measured nor traced at the sizes asked for.
    """
    kept = kept or Reading()
    model, told = engine_facts(question, kept.of(("name", question.model), lambda: _model(tables, question.model)))
    rows, book = kept.of(("model", model, question.mode), lambda: _of_model(tables, model, question.mode))
    _check_names(question, rows)
    if not rows and not book.traced(model) and question.config is None and not _is_known(tables, model):
        raise UnknownModel(question.model, nearest_models(question.model), field="model")
    call, usual = _called(question, model, rows, book)
    if question.steps and call.subject.pipeline is None and not any(row["steps"] for row in rows):
        raise UsageError(
            f"{model} makes no image in steps.", field="steps", remedy="Leave it out, or name a diffusion pipeline."
        )
    sizes = call.sizes
    trace = book.work(model, question.mode, sizes.stated())
    parts = kept.of(("parts", model), lambda: _parts(tables, model)) if call.composed else []
    evidence = bool(parts) or any(_is_evidence(row, question, call) for row in rows)
    devices = kept.of("devices", lambda: Devices(tables))
    served = served_at(tables, question, model, sizes, rows, predictor, devices.spec, kept, traced=trace is not None)
    if served is None and question.of_an_engine:
        raise no_engine(question, model)
    if trace is None and not evidence and served is None:
        raise _trace_needed(model, call, there=book.traced(model))
    if question.concurrency is not None:
        rows = [row for row in rows if row["concurrency"] == question.concurrency]
        trace = None if served is None else trace
        if served is None and not rows:
            raise not_served(model)
    slugs = kept.of("slugs", lambda: tables.names("hardware"))
    named = {name: device_named(slugs, devices, name) for name in _named(question)}
    if question.devices:
        _check_driven(question, named)
    specs, unspecified = _made_by(question.vendors, *_specs(question, devices, named, tables), devices)
    rented = {named[name]: instance for name in named if (instance := instances.find(name)) is not None}
    recorded = kept.of("recorded", tables.recorded_at)
    # Most models have neither a test nor a failure, and to read that there is none takes twenty times as long.
    tried = kept.of(("tried", model), lambda: tables.select("test subject", _TRIED, [model]).num_rows > 0)
    return AnswerContext(
        model=model,
        position=tables.position,
        time=None if recorded is None else recorded.isoformat().replace("+00:00", "Z"),
        rows=rows,
        parts=parts,
        trace=trace,
        call=call,
        sizes=sizes,
        usual=usual,
        specs=specs,
        unspecified=unspecified,
        restricted=question.hardware != "all" or bool(question.vendors),
        failures=kept.of(("failures", model), lambda: _failures(tables, model)) if tried else {},
        prices=_prices(tables, question, kept, rented),
        counts={name: instance.count for name, instance in rented.items()},
        own=devices.own(tables),
        predictor=predictor,
        notes=[*notes, *told, *_contradictions(predictor, specs)],
        siblings=None
        if trace is None
        else kept.of(("siblings", model, question.mode), lambda: _siblings(rows, book, question.mode, devices.spec)),
        errors=kept.of(("errors", model), lambda: output_errors(tables, model)) if tried else {},
        named=named,
        served=served,
        kept=kept,
        measured_on=devices.measured_on,
        energy=kept.of("energy", lambda: energy_at(tables, devices.spec)),
    )


def _called(
    question: Question, model: str, rows: Sequence[Mapping[str, Any]], book: TraceBook
) -> tuple[CallPlan, Sizes]:
    """What one call is, at the sizes of the answer, and the sizes that are usual for it."""
    request, subject = question.sizes, _subject(model, book)
    forward = question.call == "forward"
    kind = kind_of(subject, question.mode, request, forward=forward, served=question.concurrency is not None)
    generated = kind in ("generation", "request") or bool(request.output_tokens)
    usual = _usual(model, book.of_model(model, "prefill" if generated else "forward"), forward=forward)
    usual = (
        USUAL_REQUEST if by_engine(question, traced=book.traced(model)) else usual_sizes(kind, subject, request, usual)
    )
    call = CallPlan(kind=kind, subject=subject, mode=question.mode, sizes=usual, concurrency=question.concurrency)
    if call.composed:
        sizes = Sizes(**{**usual.stated(), **request.stated()})
    else:
        told = [row for row in rows if row["origin"] not in NO_EVIDENCE and not (forward and _is_many(row))]
        sizes = chosen_sizes(told, request, usual)
    return planned(call, sizes, request), usual


def _is_many(row: Mapping[str, Any]) -> bool:
    """Whether a row is of many forward passes, or of the tokens that follow a prompt."""
    return bool(row["input_tokens"] or row["output_tokens"] or row["steps"])


def _is_evidence(row: Mapping[str, Any], question: Question, call: CallPlan) -> bool:
    """Whether a row may be of the work that is asked."""
    wanted = call.sizes.stated() if call.composed else question.sizes.stated()
    return row["origin"] not in NO_EVIDENCE and all(row.get(name) == value for name, value in wanted.items())


def _subject(model: str, book: TraceBook) -> Subject:
    """What a model is: by the catalogue, else by its traces."""
    entry = models.find(model)
    trace = next(iter(book.traces(model)), None)
    named = entry or trace
    if named is None:
        return Subject()
    pipeline = None if entry is None else entry.pipeline
    return Subject(
        category=named.category,
        family=named.family,
        task=named.task,
        generates=bool(book.of_model(model, "prefill") and book.of_model(model, "decode")),
        pipeline=book.pipeline(model) if pipeline is None else pipeline.plan,
    )


def _parts(tables: Tables, model: str) -> list[dict[str, Any]]:
    """The measurements of parts of a model, each with the `part` that it is of; those that strangers shared left out."""
    names = part_names(model)
    rows = _with_trust(
        tables, tables.measurements(model=list(names), mode="inference", columns=PART_COLUMNS).to_pylist()
    )
    return [
        {**row, "part": names[row["model_id"]]}
        for row in rows
        if row["model_id"] in names and row.get("trust", UNSIGNED) >= UNSIGNED
    ]


def _of_model(tables: Tables, model: str, mode: str) -> tuple[list[dict[str, Any]], TraceBook]:
    """The measurements of a model, and its traces."""
    entry = models.find(model)
    short = () if entry is None else (*entry.aliases, entry.id.rpartition("/")[2])
    names = [tables.resolve_model(name) for name in dict.fromkeys((*language_models.names_of(model), *short))]
    rows = tables.measurements(model=names, mode=mode, columns=_COLUMNS).to_pylist()
    return _with_trust(tables, rows), TraceBook(map(trace_from_row, traces_of(tables, [model])))


def _with_trust(tables: Tables, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows, those that came in signed bundles with the `trust` in their signer and the name of a trusted one."""
    if not any(row["source"].startswith(SHARED_SOURCE) for row in rows):
        return rows
    signers = trusted_signers(tables)
    shared = ((row, signer_of(row["source"])) for row in rows)
    return [
        row
        if signer is None
        else {
            **row,
            "trust": rank(row["source"], signers),
            "signer": f"{signers[signer].name} ({signer})"
            if signer in signers
            else f"{signer}, whom nobody here trusts",
        }
        for row, signer in shared
    ]


_NAMED = 2
"""So many devices with rows that cannot be are named one by one."""


def _contradictions(predictor: Predictor, specs: Sequence[HardwareSpec]) -> list[str]:
    """Say which rows contradict what is known of the devices asked for; of many devices only how many have such rows."""
    names = {spec.id for spec in specs}
    found = [item for item in predictor.calibrations.contradictions if item.hardware in names]
    found += predictor.own_rows.contradictions(names)
    devices = {item.hardware for item in found}
    if len(devices) <= _NAMED:
        return [item.note for item in found]
    rows = sum(len(item.evidence) for item in found)
    why = "physics does not allow them, or they took twenty times as long as predicted"
    where = "GET /v1/predictor names them"
    return [f"{rows} rows of {len(devices)} devices calibrate nothing: {why} ({where})"]


def _siblings(rows: Sequence[Mapping[str, Any]], book: TraceBook, mode: str, spec_of: SpecOf) -> Siblings | None:
    """The measurements among which siblings are looked for: of each configuration the first, which is the one that is found."""
    firsts: dict[str, Row] = {}
    for item in rows:
        if item["configuration"] not in firsts:
            row = row_from_table(item)
            if row is not None and taught(row, mode=mode) is not None:
                firsts[row.configuration] = row
    table = tabulate(list(firsts.values()), book, spec_of)
    return Siblings(table) if len(table) else None


def _is_known(tables: Tables, model: str) -> bool:
    return (
        models.find(model) is not None
        or language_models.find(model) is not None
        or tables.models(model=model).num_rows > 0
    )


def _trace_needed(model: str, call: CallPlan, *, there: bool) -> TraceNeeded:
    size = "".join(f" {BENCH_FLAGS[name]} {value}" for name, value in call.run_sizes.stated().items())
    return TraceNeeded(
        f"{model} was not measured, and it has no operator trace{' at these sizes' if there else ''} to predict from.",
        field="model",
        remedy=f"Trace and measure it where torch is installed: assay bench {model}{size}",
    )


def _usual(model: str, traces: Sequence[Trace], *, forward: bool) -> Sizes:
    """The catalogue's usual sizes for a model, else its category's, as far as they were traced; else its first trace's.

    A language model that is known by its published sizes alone answers requests of `USUAL_REQUEST`, and one whose prompts
    were traced has as long a prompt, or the longest traced below it.
    """
    entry = models.find(model)
    if entry is None and not traces and not forward and language_models.find(model) is not None:
        return USUAL_REQUEST
    category = entry.category if entry is not None else (traces[0].category if traces else None)
    usual = msgspec.structs.asdict(models.default_workload(category or ""))
    if entry is not None:
        own = msgspec.structs.asdict(entry.workload)
        usual |= {name: value for name, value in own.items() if value is not None}
    traced = [{name: size for name, size in trace.sizes.items() if name in SIZE_NAMES} for trace in traces]
    if not traced:
        return Sizes(**usual) if entry is not None else Sizes()
    prompts = [sizes for sizes in traced if 0 < (sizes.get("input_tokens") or 0) <= (USUAL_REQUEST.input_tokens or 0)]
    agreeing = [sizes for sizes in traced if all(usual.get(name) == value for name, value in sizes.items())]
    agreeing = prompts[-1:] or agreeing
    sizes = (agreeing or traced)[0]
    return Sizes(**{**usual, **sizes}) if entry is not None else Sizes(**sizes)


def _check_names(question: Question, rows: Sequence[Mapping[str, Any]]) -> None:
    platforms = {*PLATFORMS, *(row["platform"] for row in rows)}
    for name in question.platform:
        if name not in platforms:
            raise UnknownPlatform(name, sorted(platforms), field="platform")
    precisions = {*PRECISIONS, *WEIGHT_BITS, *STORED_ONLY, *(row["precision"] for row in rows if row["precision"])}
    for name in question.precision:
        if name not in precisions:
            raise UsageError(
                f"no precision is known as {name!r}.",
                field="precision",
                remedy=f"One of {', '.join(sorted(precisions))}.",
            )


def _model(tables: Tables, name: str) -> str:
    """The one name of a model: by what was declared, else by the catalogue's aliases, however their letters are written."""
    resolved = tables.resolve_model(name)
    if resolved != name:
        return resolved
    spelled = models.resolve_alias(name)
    if spelled is None and not tables.knows("model", name):
        facts = language_models.find(name)
        spelled = None if facts is None or name in facts.aliases else facts.id
    return tables.resolve_model(spelled or name)


def _named(question: Question) -> list[str]:
    """The devices that are asked for by name."""
    return [] if question.hardware in ("all", "own") else list(question.hardware)


def _check_driven(question: Question, named: Mapping[str, str]) -> None:
    """Refuse a device at hand that none of the platforms drives where one of its parts is driven: the GPU of a chip."""
    for name, resolved in named.items():
        spec = catalogue.find(resolved)
        if spec is None or not question.platform or set(question.platform) & set(spec.platforms):
            continue
        driven = [part for part in spec.parts if set(question.platform) & set(catalogue.require(part).platforms)]
        if driven:
            raise UsageError(
                f"{name} is not driven by {', '.join(question.platform)}, its part {driven[0]} is.",
                field="hardware",
                remedy=f"Ask about {', '.join(driven)}.",
            )


def _specs(
    question: Question, devices: Devices, named: Mapping[str, str], tables: Tables
) -> tuple[list[HardwareSpec], list[str]]:
    """Return the specs of what is asked for, and the names that have none; a chip is asked for with its GPU and NPU."""
    if question.hardware == "all":
        names = devices.usual
    elif question.hardware == "own":
        names = devices.own(tables)
    elif question.devices:
        names = list(named.values())
    else:
        names = [part for name in named.values() for part in catalogue.parts(name)]
    specs = {name: devices.spec(name) for name in names}
    return [spec for spec in specs.values() if spec is not None], [name for name, spec in specs.items() if spec is None]


def _made_by(
    vendors: Sequence[str], specs: list[HardwareSpec], unspecified: list[str], devices: Devices
) -> tuple[list[HardwareSpec], list[str]]:
    """Return the devices of these vendors alone; of one without a specification nobody knows the vendor."""
    if not vendors:
        return specs, unspecified
    wanted = {vendor.casefold() for vendor in vendors}
    casefolds = {spec.vendor.casefold() for name in devices.known if (spec := devices.spec(name)) and spec.vendor}
    for vendor in sorted(wanted - casefolds):
        raise UsageError(
            f"no hardware of {vendor!r} is known.", field="vendors", remedy=f"One of {', '.join(sorted(casefolds))}."
        )
    return [spec for spec in specs if (spec.vendor or "").casefold() in wanted], []


def device_named(slugs: Names, devices: Devices, name: str, field: str = "hardware") -> str:
    """Return the id of a hardware by any of its names, or of what an instance type has. Raises UnknownHardware with the nearest."""
    instance = instances.find(name)
    resolved = slugs.resolve(name if instance is None else instance.hardware)
    if resolved in devices.known or instance is not None:
        return resolved
    spec = catalogue.find(name)
    if spec is None and name.lower() in PLATFORMS:
        raise UsageError(
            f"{name} is a platform and no device.",
            field=field,
            remedy=f"Ask with platform {name.lower()}, or name a device: `assay hardware` lists them.",
        )
    if spec is None:
        near = instances.nearest(name) if instances.named_like_one(name) else catalogue.nearest(name)
        raise UnknownHardware(name, near, field=field)
    return spec.id


def _failures(tables: Tables, model: str) -> dict[tuple[str, str, str], tuple[str, str]]:
    rows = tables.compatibility(by_hardware=True, model=model, columns=_OF_FAILURES).to_pylist()
    return {
        (row["hardware_id"], row["platform"], row["precision"]): (
            f"{row['outcome']} at {row['stage']}" + (f": {row['error']}" if row["error"] else ""),
            str(row["evidence"]),
        )
        for row in rows
        if not row["measurements"] and not row["verified"] and row["outcome"] not in ("passed", "skipped")
    }


def _prices(tables: Tables, question: Question, kept: Reading, rented: Mapping[str, Instance]) -> dict[str, Price]:
    """What machines of each device cost, where and of whom the question says; of one named as an instance, that one."""
    offers, today = kept.of("offers", lambda: offers_at(tables))
    offers = [
        offer
        for offer in offers
        if (named := rented.get(offer.hardware)) is None
        or (offer.provider, offer.instance) == (named.provider, named.name)
    ]
    return priced(offers, today, providers=question.providers, regions=question.regions, spot=question.spot)
