"""The short training of recipes: seeded batches, AdamW with a falling rate, a loss over logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import torch

from domain.errors import UnsupportedWorkload, UsageError
from runner.compression.contract import OnStep

__all__ = ["Trained", "label_loss", "train"]


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """What a training did: its steps, and the mean loss of its first and last epoch."""

    epochs: int
    steps: int
    first_loss: float
    last_loss: float

    def parameters(self) -> dict[str, Any]:
        """Return them as members of a variant's parameters."""
        return {
            "epochs": self.epochs,
            "steps": self.steps,
            "first_loss": round(self.first_loss, 6),
            "last_loss": round(self.last_loss, 6),
        }


def train(
    module: Any,
    batch_loss: Callable[[Any], Any],
    count: int,
    settings: dict[str, Any],
    *,
    seed: int,
    what: str,
    on_step: OnStep,
) -> Trained:
    """Train the module in place; `batch_loss` takes the indices of a batch's examples and returns its loss.

    `settings` are `epochs`, `batch_size` and `learning_rate`. Repeats bit for bit with the same seed, threads and versions.
    Raises UnsupportedWorkload where the loss stops being a number.
    """
    epochs, size = int(settings["epochs"]), int(settings["batch_size"])
    if epochs < 1 or size < 2:
        field = "epochs" if epochs < 1 else "batch_size"
        raise UsageError(f"{field} is {settings[field]}.", field=field, remedy="Take 1 epoch and 2 examples or more.")
    weights = [each for each in module.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=float(settings["learning_rate"]), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    losses, steps = [], 0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module.train()
        for epoch in range(epochs):
            # Normalisation over a batch needs two examples.
            batches = [each for each in torch.randperm(count).split(size) if len(each) > 1]
            total = 0.0
            for number, batch in enumerate(batches):
                loss = batch_loss(batch)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(weights, 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                total += float(loss.detach())
                on_step(f"{what}, epoch {epoch + 1} of {epochs}", (epoch + (number + 1) / len(batches)) / epochs)
            schedule.step()
            steps += len(batches)
            losses.append(total / len(batches))
            if not math.isfinite(losses[-1]):
                raise UnsupportedWorkload(
                    f"the loss of {what} is no number after epoch {epoch + 1}.",
                    field="learning_rate",
                    remedy=f"Take one below {settings['learning_rate']}.",
                )
    module.eval()
    return Trained(epochs=epochs, steps=steps, first_loss=losses[0], last_loss=losses[-1])


def label_loss(logits: Any, targets: Any, *, next_token: bool = False) -> Any:
    """Return the loss of logits against labels: cross-entropy over classes, squared error where labels are real numbers.

    `next_token` compares each position with the label that follows it. Raises UnsupportedWorkload for shapes that do not meet.
    """
    functional = torch.nn.functional
    if logits is not None and next_token and targets.ndim == 2:
        logits, targets = logits[:, :-1], targets[:, 1:]
    if logits is not None and not targets.is_floating_point() and logits.shape[:-1] == targets.shape:
        return functional.cross_entropy(logits.flatten(0, -2), targets.flatten())
    if logits is not None and targets.is_floating_point() and logits.numel() == targets.numel():
        return functional.mse_loss(logits.reshape(targets.shape), targets)
    shape = None if logits is None else tuple(logits.shape)
    raise UnsupportedWorkload(
        "the model gives no logits, so there is no loss over labels."
        if shape is None
        else f"logits of shape {shape} and labels of shape {tuple(targets.shape)} give no loss.",
        field="calibrate.labels",
        remedy="Give the model with a head for classes, or take a recipe that needs no labels (prune-50, distill-half).",
    )
