"""What a machine cannot do, as its survey knows it: decided here, and nowhere a second time."""

from __future__ import annotations

from runner.campaign.event_payloads import Machine
from runner.protocol.tasks import Failed

__all__ = ["refusal"]


def refusal(machine: Machine, platform: str, precision: str, *, low_memory: bool = False) -> Failed | None:
    """Return why this platform cannot compute in this precision here, with what to do, or None where it can.

    `low_memory` asks for weights that are never in fp32, which a platform that converts models has not.
    """
    existing = machine.platforms[platform]
    probe = existing["probe"]
    if not probe["available"]:
        return _refused(
            "PlatformUnavailable",
            f"{platform} is not available here: {probe['reason'] or 'its probe said no'}",
            probe["remedy"] or "Name a platform that `assay detect` lists as available.",
        )
    if precision not in existing["precisions"]:
        return _refused(
            "UnsupportedPrecision",
            f"{platform} cannot compute in {precision} here.",
            existing["refusals"].get(precision) or f"It can in {', '.join(existing['precisions'])}.",
        )
    if low_memory and existing["converts"]:
        return _refused(
            "UnsupportedWorkload",
            f"{platform} converts models from weights in fp32, which low-memory mode never makes.",
            "Leave out --low-memory there, or take the cpu platform.",
        )
    return None


def _refused(error: str, message: str, remedy: str) -> Failed:
    return Failed(stage="resolve", outcome="unsupported", error=error, message=message, remedy=remedy)
