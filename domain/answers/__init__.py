"""The answers of the predictor: what the API sends, what `assay.Client` returns, and what people are shown.

Units stand in the names: `_ms` milliseconds of one call at its batch, `_per_s` items or tokens a second, `_bytes` bytes,
`_j` joules, `_w` watts, `usd_` US dollars. `_low` and `_high` are the ends of the interval of the figure before them; None
is not known. Members that are lists of event ids are called `evidence`.

On the wire a member that is None is null. Only the sizes of an item that are not stated, and other members whose
documentation says so, are absent.
"""

from __future__ import annotations

from typing import Any

import msgspec

from domain.answers.explanation import (
    Breakdown,
    BriefExplanation,
    BriefPart,
    Explanation,
    KernelTime,
    OperatorTime,
    Part,
)
from domain.answers.planning import (
    BestBatch,
    CapacityAnswer,
    CapacityEntry,
    DeviceSuggestions,
    Exclusion,
    ExpectedError,
    FittingVariant,
    FleetAlternative,
    FleetConsidered,
    FleetDoubt,
    FleetEnds,
    FleetExclusion,
    FleetLoad,
    FleetMachine,
    FleetPlace,
    FleetPlan,
    FleetPrice,
    FleetProof,
    FleetRun,
    Longest,
    MemoryUse,
    OpenQuestions,
    SuggestedCalibration,
    SuggestedPlan,
    SuggestedRun,
    Suggestions,
    Sweep,
    UnmetLoad,
)
from domain.answers.recommendation import (
    AbstainedPrediction,
    AtHand,
    Call,
    Chances,
    ExcludedConfigurations,
    Faster,
    FasterChange,
    Figures,
    Front,
    FrontOption,
    HourPrice,
    LeftOut,
    MemoryParts,
    Met,
    NextRun,
    OutputError,
    Pick,
    Prediction,
    RankedOption,
    Reach,
    Recommendation,
    Rung,
    Sizes,
    Workload,
)
from domain.answers.variants import OptionVariant, QualityLoss
from domain.canonical import canonical

__all__ = [
    "AbstainedPrediction",
    "AtHand",
    "BestBatch",
    "Breakdown",
    "BriefExplanation",
    "BriefPart",
    "Call",
    "CapacityAnswer",
    "CapacityEntry",
    "Chances",
    "DeviceSuggestions",
    "ExcludedConfigurations",
    "Exclusion",
    "ExpectedError",
    "Explanation",
    "Faster",
    "FasterChange",
    "Figures",
    "FittingVariant",
    "FleetAlternative",
    "FleetConsidered",
    "FleetDoubt",
    "FleetEnds",
    "FleetExclusion",
    "FleetLoad",
    "FleetMachine",
    "FleetPlace",
    "FleetPlan",
    "FleetPrice",
    "FleetProof",
    "FleetRun",
    "Front",
    "FrontOption",
    "HourPrice",
    "KernelTime",
    "LeftOut",
    "Longest",
    "MemoryParts",
    "MemoryUse",
    "Met",
    "NextRun",
    "OpenQuestions",
    "OperatorTime",
    "OptionVariant",
    "OutputError",
    "Part",
    "Pick",
    "Prediction",
    "QualityLoss",
    "RankedOption",
    "Reach",
    "Recommendation",
    "Rung",
    "Sizes",
    "SuggestedCalibration",
    "SuggestedPlan",
    "SuggestedRun",
    "Suggestions",
    "Sweep",
    "UnmetLoad",
    "Workload",
    "answer_bytes",
    "answer_document",
]


def answer_bytes(answer: msgspec.Struct) -> bytes:
    """Return an answer as it is sent: canonical JSON, so that equal answers have equal bytes."""
    return canonical(msgspec.to_builtins(answer))


def answer_document(answer: msgspec.Struct) -> dict[str, Any]:
    """Return an answer as the JSON object that is sent: members by name, whole numbers without a fraction."""
    document: dict[str, Any] = msgspec.json.decode(answer_bytes(answer))
    return document
