"""What `assay fleet` is asked: loads, machines, and how full they may be; checked before anything is computed."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec

from domain.errors import AssayError, ImpossibleConstraint, UsageError
from predictor.answering.question import OF_VARIANTS, Question
from predictor.memory.needs import HEADROOM

__all__ = ["MACHINES_LIMIT", "RATES", "FleetQuestion", "Load", "Own"]

RATES = ("items_per_s", "requests_per_s", "tokens_per_s")
LOADS_LIMIT = 9
MACHINES_LIMIT = 10_000
"""A plan has no more than these, whatever it is for."""
_OF_THE_FLEET = (
    *("as_of", "record", "top", "objective", "devices", "count", "regions", "providers", "spot"),
    *OF_VARIANTS,
)
"""Members of a question that a load cannot have of its own."""


class Load(Question, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model, how much of it is to be served, and the constraints of `recommend` that each call must meet.

    Exactly one of `items_per_s`, `requests_per_s` (an item is a request) and `tokens_per_s` is given.
    """

    name: str | None = None
    items_per_s: float | None = None
    requests_per_s: float | None = None
    tokens_per_s: float | None = None

    @property
    def unit(self) -> str:
        """The member that says how much is to be served; of a checked load."""
        return next(name for name in RATES if getattr(self, name) is not None)

    @property
    def rate(self) -> float:
        """How much is to be served a second, in `unit`; of a checked load."""
        return float(getattr(self, self.unit))

    def question(self, hardware: list[str], at: int | None, count: int | None = None) -> Question:
        """Return what is asked about this model on some devices: every configuration that meets the constraints.

        With `count` so many devices share the model.
        """
        own = {name: getattr(self, name) for name in Question.__struct_fields__ if name not in _OF_THE_FLEET}
        return Question(
            **{
                **own,
                "hardware": hardware,
                "objective": "throughput",
                "per_hardware": False,
                "top": 1000,
                "count": count,
                "as_of": at,
            }
        ).checked()

    def served(self) -> Load:
        """Return the load in its normal form. Raises what `Question.checked` raises, UsageError or ImpossibleConstraint."""
        plain = {field.name: field.default for field in msgspec.structs.fields(Question)}
        for name in _OF_THE_FLEET:
            if name in plain and getattr(self, name) not in (plain[name], []):
                raise UsageError("is not a load's to say.", field=name, remedy="Ask it of the whole fleet, if at all.")
        matching_rates = [name for name in RATES if getattr(self, name) is not None]
        if len(matching_rates) != 1:
            said = (
                f"{' and '.join(matching_rates)} are given"
                if matching_rates
                else "nothing says how much is to be served"
            )
            raise UsageError(
                f"{said}.",
                field=matching_rates[1] if matching_rates else "items_per_s",
                remedy=f"Give one of {', '.join(RATES)}.",
            )
        rate = getattr(self, matching_rates[0])
        if not math.isfinite(rate) or rate <= 0:
            raise ImpossibleConstraint(
                f"{rate:g} is no load.",
                field=matching_rates[0],
                remedy="Give a positive number, or leave the load out.",
            )
        self.checked()
        return msgspec.structs.replace(self, model=self.model.strip())


class Own(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Machines that are there already: how many, and what one costs an hour."""

    count: int
    usd_per_hour: float | None = None


class FleetQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The loads to serve and the machines to choose from.

    `hardware` is `all` (whatever has a price, and what is owned), `own` or slugs; `own` maps a slug to how many there are,
    with their cost. `regions` and `providers` restrict what is rented, `spot` admits spot prices. A device is busy for at
    most `utilisation` of the time, and `memory_headroom` of its memory stays free.
    """

    loads: list[Load]
    hardware: str | list[str] = "all"
    own: dict[str, int | Own] = {}
    regions: list[str] = []
    providers: list[str] = []
    spot: bool = False
    utilisation: float = 0.7
    memory_headroom: float = HEADROOM
    max_machines: int | None = None
    as_of: int | Annotated[str, msgspec.Meta(max_length=100)] | None = None

    def checked(self) -> FleetQuestion:
        """Return the question in its normal form. Raises UsageError or ImpossibleConstraint naming the field, `loads[1].items_per_s` and the like."""
        if not 1 <= len(self.loads) <= LOADS_LIMIT:
            raise UsageError(
                f"{len(self.loads)} loads are named.", field="loads", remedy=f"Name 1 to {LOADS_LIMIT} at a time."
            )
        _share(self.utilisation, "utilisation", 0.01, 1.0)
        _share(self.memory_headroom, "memory_headroom", 0.0, 0.9)
        if self.max_machines is not None and not 1 <= self.max_machines <= MACHINES_LIMIT:
            raise UsageError(
                f"{self.max_machines} is not a number of machines.",
                field="max_machines",
                remedy=f"1 to {MACHINES_LIMIT}.",
            )
        own = {name: _owned(name, own) for name, own in sorted(self.own.items())}
        loads = [placed(index, load.served) for index, load in enumerate(self.loads)]
        request = Question(model="any", hardware=self.hardware, as_of=self.as_of).checked()
        return msgspec.structs.replace(
            self,
            loads=loads,
            hardware=request.hardware,
            own=own,
            regions=sorted(set(self.regions)),
            providers=sorted(set(self.providers)),
        )

    @property
    def at(self) -> int | None:
        """The position that is asked for, None for the newest; of a checked question."""
        return None if isinstance(self.as_of, str) else self.as_of

    @property
    def owned(self) -> dict[str, Own]:
        """What is owned; of a checked question."""
        return {name: value for name, value in self.own.items() if isinstance(value, Own)}

    def identity(self) -> dict[str, Any]:
        """Return what of the question decides the answer."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        document.pop("as_of")
        for load in document["loads"]:
            for name in ("as_of", "record", *OF_VARIANTS):
                load.pop(name)
        return document


def placed(index: int, step: Any, *arguments: Any) -> Any:
    """Return what a step about one load returns; what is wrong is named within the load."""
    try:
        return step(*arguments)
    except AssayError as error:
        if error.field and not error.field.startswith("loads["):
            error.field = f"loads[{index}].{error.field}"
        raise


def _owned(name: str, own: int | Own) -> Own:
    result = Own(count=own) if isinstance(own, int) else own
    if not 1 <= result.count <= MACHINES_LIMIT:
        raise UsageError(
            f"{result.count} is not a number of machines.", field=f"own.{name}", remedy=f"1 to {MACHINES_LIMIT}."
        )
    cost = result.usd_per_hour
    if cost is not None and not (math.isfinite(cost) and cost >= 0):
        raise UsageError(f"{cost:g} is no cost.", field=f"own.{name}.usd_per_hour", remedy="Give 0 or more.")
    return result


def _share(value: float, field: str, low: float, high: float) -> None:
    if not low <= value <= high:
        raise UsageError(f"{value:g} is not such a share.", field=field, remedy=f"Give {low:g} to {high:g}.")
