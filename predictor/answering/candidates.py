"""What could be run where: configurations that nobody measured, worth a prediction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from domain.answers import Exclusion
from domain.catalogues.hardware import HardwareSpec
from domain.compatibility.rules import Work, why_unsupported
from domain.performance.roofline import Limits, limits_of
from domain.vocabulary import IN_BROWSERS
from predictor.answering.question import DEFAULT_BATCH_SIZES, Question
from predictor.artifact.artifact import Card, Predictor
from predictor.features.dataset import Row, minor_version
from predictor.features.traces import Trace
from predictor.general import kept
from predictor.general.inputs import TRACED_RUNTIMES

__all__ = ["ASKED_ONLY_PLATFORMS", "UNSUPPORTED", "Candidate", "candidates", "general_knows", "software_of"]

UNSUPPORTED = "not supported"
"""The rule that leaves out what never runs."""

USUAL_PRECISIONS = ("fp32", "bf16", "fp16", "amp-fp16")
"""Narrower precisions change the outputs: they are candidates where they were measured or are asked for."""
ASKED_ONLY_PLATFORMS = (*IN_BROWSERS, "other")
RUNTIMES = {"openvino": "openvino", "qnn": "onnxruntime-qnn", **dict.fromkeys(IN_BROWSERS, "onnxruntime-web")}


class Candidate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A configuration to predict."""

    spec: HardwareSpec
    limits: Limits
    platform: str
    precision: str
    batch_size: int
    runtime: str
    compiled: bool
    runtime_version: str
    layout: str | None = None
    threads: int | None = None

    @property
    def cell(self) -> tuple[str, str, str, int, bool]:
        """What a measured configuration stands in the place of."""
        return (self.spec.id, self.platform, self.precision, self.batch_size, self.compiled)


def candidates(
    question: Question,
    specs: Sequence[HardwareSpec],
    predictor: Predictor,
    measured: Iterable[tuple[str, str, int | None]],
    trace: Trace | None,
) -> tuple[list[Candidate], list[Exclusion]]:
    """Return what to predict, and what cannot be for want of figures or because it never runs.

    `measured` lists (platform, precision, batch size) of the model's measured configurations, which are candidates on
    other devices as well; no rule speaks against what ran.
    """
    seen = list(measured)
    ran = {(platform, precision) for platform, precision, _ in seen}
    work = None if trace is None else Work(family=trace.family, operators=trace.operators, mode=question.mode)
    narrow = {precision for _, precision, _ in seen}
    platforms_seen = {platform for platform, _, _ in seen}
    usual = (1,) if question.devices else DEFAULT_BATCH_SIZES
    batches = question.batch_sizes or sorted({*usual, *(batch for _, _, batch in seen if batch is not None)})
    candidates: list[Candidate] = []
    excluded: list[Exclusion] = []
    shared: dict[Limits, Limits] = {}
    for spec in specs:
        for platform in _platforms(spec, question, platforms_seen):
            if platform not in TRACED_RUNTIMES.get(question.runtime or "", (platform,)):
                detail = f"{question.runtime} does not run on {platform}"
                excluded.append(Exclusion(hardware=spec.id, platform=platform, rule=UNSUPPORTED, detail=detail))
                continue
            for precision in _precisions(spec, platform, question, narrow, predictor.card):
                limits = limits_of(spec, precision, platform)
                if limits is None:
                    excluded.append(
                        Exclusion(
                            hardware=spec.id,
                            platform=platform,
                            rule="no specification",
                            precision=precision,
                            detail="peak or memory bandwidth at this precision is not known",
                        )
                    )
                    continue
                limits = shared.setdefault(limits, limits)
                softwares = _softwares(spec, platform, precision, question, predictor)
                if work is not None and softwares and (platform, precision) not in ran:
                    why = why_unsupported(work, platform, softwares[0]["runtime"], precision)
                    if why is not None:
                        excluded.append(
                            Exclusion(
                                hardware=spec.id,
                                platform=platform,
                                rule=UNSUPPORTED,
                                precision=precision,
                                detail=why,
                            )
                        )
                        continue
                for software in softwares:
                    candidate = Candidate(
                        spec=spec, limits=limits, platform=platform, precision=precision, batch_size=1, **software
                    )
                    candidates.extend(msgspec.structs.replace(candidate, batch_size=batch) for batch in batches)
    return candidates, excluded


def _platforms(spec: HardwareSpec, question: Question, seen: set[str]) -> list[str]:
    if question.platform:
        return [platform for platform in question.platform if platform in spec.platforms]
    return [platform for platform in spec.platforms if platform not in ASKED_ONLY_PLATFORMS or platform in seen]


def _precisions(spec: HardwareSpec, platform: str, question: Question, seen: set[str], card: Card) -> list[str]:
    able = set(spec.platforms.get(platform, ())) or {"fp32"}
    if "fp16" in able and card.coverage.near_software(platform, "torch", "amp-fp16"):
        able.add("amp-fp16")
    if question.precision:
        return [precision for precision in question.precision if precision in able or precision.startswith("amp-")]
    return sorted(precision for precision in able if precision in USUAL_PRECISIONS or precision in seen)


def _softwares(
    spec: HardwareSpec, platform: str, precision: str, question: Question, predictor: Predictor
) -> list[dict[str, Any]]:
    """The usual software, and the other of eager and compiled where that was learned as well."""
    usual = software_of(spec, platform, precision, question.mode, predictor)
    if question.runtime in TRACED_RUNTIMES and question.runtime != usual["runtime"]:
        plain = {"runtime": question.runtime, "compiled": False, "runtime_version": ""}
        return [plain] if question.compiled in ("any", "usual", False) else []
    if question.compiled == "usual":
        return [usual]
    other = {**usual, "compiled": not usual["compiled"]}
    coverage = predictor.card.coverage
    both = coverage.knows_maker(spec) and coverage.knows_software(
        platform, usual["runtime"], precision, other["compiled"], question.mode
    )
    if question.compiled != "any" and not both:
        both = general_knows(predictor.card, spec, platform, precision, usual["runtime"], other["compiled"])
    return [item for item in ([usual, other] if both else [usual]) if question.compiled in ("any", item["compiled"])]


def general_knows(card: Card, spec: HardwareSpec, platform: str, precision: str, runtime: str, compiled: bool) -> bool:
    """Return whether rows of a software on devices of the maker trained the general route."""
    limits = limits_of(spec, precision, platform)
    if card.general is None or limits is None:
        return False
    row = Row(
        model="",
        hardware=spec.id,
        platform=platform,
        precision=precision,
        batch_size=1,
        runtime=runtime,
        compiled=compiled,
    )
    return kept.software_of(row, kept.maker_of(limits)) in card.general.software


def software_of(spec: HardwareSpec, platform: str, precision: str, mode: str, predictor: Predictor) -> dict[str, Any]:
    """Return the software that a prediction is for: what was calibrated, what was measured there, else what the trees know."""
    card = predictor.card
    measured = predictor.calibrations.software(spec.id, platform, precision) if mode == "inference" else None
    if measured is not None:
        return measured
    place = card.few.place(spec.id, platform, precision, mode) if card.few is not None else None
    if place is not None and place.hardware == spec.id:
        return {name: getattr(place, name) for name in ("runtime", "compiled", "runtime_version", "layout", "threads")}
    runtime = RUNTIMES.get(platform, "torch")
    own = predictor.own_rows.software_of(spec.id, platform, precision, mode, runtime)
    if own is not None:
        return own
    coverage = card.coverage
    eager = coverage.knows_software(platform, runtime, precision, False, mode)
    compiled = (
        not eager and coverage.knows_software(platform, runtime, precision, True, mode) and coverage.knows_maker(spec)
    )
    version = minor_version(card.newest_version.get(platform, ""))
    return {"runtime": runtime, "compiled": compiled, "runtime_version": version}
