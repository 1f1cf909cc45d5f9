"""Where a sweep stops growing: what is larger than a case that ran out of memory is not tried."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from runner.campaign.plan import SIZES
from runner.protocol.tasks import Case, Failed

__all__ = ["Growth"]


class Growth:
    """Remembers the cases of a run that ran out of memory."""

    def __init__(self) -> None:
        self._full: dict[Hashable, list[Case]] = {}

    def ran_out(self, case: Case) -> None:
        """Remember that this one did not fit."""
        self._full.setdefault(_kind(case), []).append(case)

    def refusal(self, case: Case) -> Failed | None:
        """Return why a case is not tried: one of the same kind, no larger in any size, ran out of memory."""
        smaller = next((full for full in self._full.get(_kind(case), ()) if _reaches(case, full)), None)
        if smaller is None:
            return None
        sizes = {member: getattr(smaller.workload, member) for member in SIZES.values()}
        join = ", ".join(f"{name} {value:g}" for name, value in sizes.items() if value is not None)
        return Failed(
            stage="resolve",
            outcome="skipped",
            error="LargerThanMemory",
            message=f"not tried: with {join} it ran out of memory already.",
            remedy="Take a lower precision, a smaller model, or a machine with more memory.",
        )


def _kind(case: Case) -> Hashable:
    """Return all that a case is but its sizes."""
    plain = dict.fromkeys(SIZES.values())
    return msgspec.structs.replace(case, workload=msgspec.structs.replace(case.workload, **plain))


def _reaches(case: Case, full: Case) -> bool:
    pairs = [(getattr(case.workload, member), getattr(full.workload, member)) for member in SIZES.values()]
    return all(value == other or (value is not None and other is not None and value >= other) for value, other in pairs)
