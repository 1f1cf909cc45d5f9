"""Thresholds per configuration: how much a figure may get worse, and which figures and tests do not count.

thresholds:
  - model: bert-*
    hardware: nvidia-l4
    metric: latency_*
    alert: 0.05
  - metric: peak_memory_bytes
    ignore: true
    reason: the allocator is being replaced

The first rule that matches decides; what no rule matches has the threshold of `--alert`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Protocol

import msgspec

from domain.errors import UsageError

__all__ = ["MEASURING", "NO_THRESHOLDS", "Threshold", "Thresholds", "decode_thresholds"]

MEASURING = "measuring"
"""The name of measuring itself among the names of tests."""
MOST_RULES = 1000
_Glob = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
_PLACE = re.compile(r"(?P<what>.*) - at `\$\.?(?P<field>.*)`", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.+?)`")


class Subject(Protocol):
    """What a rule is matched with: a measurement or an outcome of one configuration."""

    @property
    def model(self) -> str | None:
        """The model's id."""

    @property
    def hardware(self) -> str:
        """The hardware's slug."""

    @property
    def platform(self) -> str | None:
        """The platform."""

    @property
    def precision(self) -> str | None:
        """The precision."""


class Threshold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A rule: globs of what it is for, and the share that a figure may get worse, or `ignore`.

    `metric` matches columns of figures and names of tests; `measuring` is whether a configuration can be measured.
    """

    model: _Glob = "*"
    hardware: _Glob = "*"
    platform: _Glob = "*"
    precision: _Glob = "*"
    metric: _Glob = "*"
    alert: Annotated[float, msgspec.Meta(ge=0, le=10)] | None = None
    ignore: bool = False
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)] | None = None

    def matches(self, subject: Subject, metric: str) -> bool:
        """Whether the rule is for a metric of a configuration; a model is matched by its id or the last part of it."""
        model = subject.model or ""
        return (
            any(fnmatchcase(name, self.model) for name in (model, model.rpartition("/")[2]))
            and fnmatchcase(subject.hardware, self.hardware)
            and fnmatchcase(subject.platform or "", self.platform)
            and fnmatchcase(subject.precision or "", self.precision)
            and fnmatchcase(metric, self.metric)
        )

    def describe(self) -> str:
        """Return the globs of the rule, as `model=bert-* metric=latency_*`."""
        globs = {name: getattr(self, name) for name in ("model", "hardware", "platform", "precision", "metric")}
        return " ".join(f"{name}={glob}" for name, glob in globs.items() if glob != "*") or "everything"


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a file, in its order."""

    rules: tuple[Threshold, ...] = ()

    def rule_for(self, subject: Subject, metric: str) -> Threshold | None:
        """Return the first rule that matches, or None."""
        return next((rule for rule in self.rules if rule.matches(subject, metric)), None)

    def unmatched(self, metrics: Sequence[tuple[Subject, str]]) -> Iterator[str]:
        """Yield the rules that are the first match of none of these metrics, as `thresholds[2]: model=bert-*`."""
        used = {id(rule) for subject, metric in metrics if (rule := self.rule_for(subject, metric)) is not None}
        for index, rule in enumerate(self.rules):
            if id(rule) not in used:
                yield f"thresholds[{index}]: {rule.describe()}"


NO_THRESHOLDS = Thresholds()


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    thresholds: Annotated[tuple[Threshold, ...], msgspec.Meta(max_length=MOST_RULES)]


def decode_thresholds(document: Any) -> Thresholds:
    """Return the rules of a decoded file; UsageError that names the member at fault by its path."""
    try:
        rules = msgspec.convert(document, _File).thresholds
    except msgspec.ValidationError as error:
        match = _PLACE.fullmatch(str(error))
        what, field = (match["what"], match["field"]) if match else (str(error), "")
        if unknown := _UNKNOWN.match(what):
            field, what = f"{field}.{unknown[1]}".lstrip("."), "it is no member of a rule or of the file"
        raise UsageError(
            f"{what}.",
            field=field or "thresholds",
            remedy=f"Give `thresholds:`, a list of {', '.join(Threshold.__struct_fields__)}; alert is a share from 0 to 10.",
        ) from error
    for index, rule in enumerate(rules):
        if rule.ignore == (rule.alert is not None):
            raise UsageError(
                "a rule gives either alert or ignore: true.",
                field=f"thresholds[{index}].alert",
                remedy="Say alert: 0.05 to let a figure get 5 % worse, or ignore: true.",
            )
    return Thresholds(rules=rules)
