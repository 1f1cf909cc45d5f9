"""A small vision transformer, trained here on the digits that ship with scikit-learn, and the examples that it never saw."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

SEED = 0
EPOCHS = 30


class Digits(NamedTuple):
    """The folder of the trained checkpoint, and files of examples (`pixel_values`, `labels`): to train or calibrate, to judge."""

    model: Path
    training: Path
    evaluation: Path


@functools.cache
def trained_digits() -> Digits:
    """Train the model once for a process, on one thread, and return where it lies; about ten seconds."""
    folder = Path(tempfile.mkdtemp(prefix=f"assay-digits-{os.getpid()}-"))
    return train_digits(folder)


def train_digits(folder: Path) -> Digits:
    """Train the model, save it as transformers does, and write its examples as `.npz` files beside it."""
    import torch
    from sklearn.datasets import load_digits
    from transformers import ViTConfig, ViTForImageClassification

    data = load_digits()
    pixels = ((data.images / 8.0) - 1.0).astype(np.float32)[:, None]
    order = np.random.default_rng(SEED).permutation(len(pixels))
    train, held_out = order[:1200], order[1200:]
    config = ViTConfig(
        image_size=8,
        patch_size=2,
        num_channels=1,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=128,
        num_labels=10,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        module = ViTForImageClassification(config)
        optimizer = torch.optim.AdamW(module.parameters(), lr=2e-3, weight_decay=0.01)
        inputs, labels = torch.from_numpy(pixels[train]), torch.from_numpy(data.target[train])
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
        module.train()
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(train)).split(100):
                loss = module(inputs[batch], labels=labels[batch]).loss
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            schedule.step()
    model = folder / "digits-vit"
    module.eval().save_pretrained(model)
    files = []
    for name, rows in (("training", train), ("evaluation", held_out)):
        files.append(folder / f"{name}.npz")
        np.savez(files[-1], pixel_values=pixels[rows], labels=data.target[rows].astype(np.int64))
    return Digits(model, *files)
