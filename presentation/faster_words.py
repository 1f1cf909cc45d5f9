"""What would make a configuration faster, in sentences."""

from __future__ import annotations

from domain.answers import Faster, FasterChange
from presentation import formatting

__all__ = ["change_words", "checks", "none_words", "other_words"]

BENCHED = ("torch", "openvino", "onnxruntime", "onnxruntime-qnn")
"""Runtimes that `assay bench` runs."""


def change_words(change: FasterChange) -> str:
    """Return the change with its predicted gain and how sure it is."""
    interval = f"{change.gain_low:.2g} to {change.gain_high:.2g}"
    gain = f"{change.gain:.3g} times as many items a second ({interval})"
    seen = "measured" if change.basis in ("measured", "imported") else "predicted"
    # A change that was chosen is never certain.
    sure = min(change.probability, 0.99)
    words = f"{change.change}: {seen} {gain}, faster with a probability of {sure:.0%}"
    if change.kind == "batch" and change.latency_ms is not None:
        words += f"; a call takes {formatting.latency(change.latency_ms)} then"
    return f"{words}; outputs change" if change.outputs_change and change.verify is None else words


def checks(change: FasterChange) -> list[tuple[str, str]]:
    """Return the commands that check a change, each with what it is for."""
    commands = [(_checked_by(change), change.command)]
    if change.verify is not None:
        error = change.output_error
        known = "" if error is None or error.cosine is None else f" (cosine {error.cosine:.4f} in the newest test)"
        commands.append((f"outputs change{known}; says by how much", change.verify))
    return commands


def _checked_by(change: FasterChange) -> str:
    if change.command.startswith("assay bench"):
        return "measures it"
    benched = "; on such a device `assay bench` measures it" if change.runtime in BENCHED else ""
    return f"predicts it alone{benched}"


def other_words(faster: Faster) -> str | None:
    """Return the other changes that are worth it, None where there is none."""
    said = [
        f"{change.change} {change.gain:.3g} times{' (outputs change)' if change.outputs_change else ''}"
        for change in faster.others
    ]
    return f"also: {', '.join(said)}" if said else None


def none_words(faster: Faster) -> str:
    """Return why no change is proposed."""
    return f"no change is proposed: {faster.why}"
