"""Vision models of timm, where timm is installed: ids are `timm/<name>`."""

from __future__ import annotations

import contextlib
from typing import Any

from torch import nn

from domain.errors import PartMissing, UnknownModel

__all__ = ["PREFIX", "WithLoss", "create", "image_size_of", "require"]

PREFIX = "timm/"


def require() -> Any:
    """Return the timm module, or raise PartMissing with the command that installs it."""
    try:
        import timm
    except (ImportError, RuntimeError) as error:
        raise PartMissing(
            f"models named {PREFIX}… need the package timm, which cannot be imported here: {error}.",
            field="model",
            remedy="Install it beside Assay: pip install timm torchvision (builds that belong to your torch).",
        ) from error
    return timm


def create(name: str, image_size: int | None = None, *, pretrained: bool = False, **options: Any) -> Any:
    """Return the module `name` (without prefix) in eval mode, made for square images of `image_size` pixels.

    Call it under `torch.device("meta")` for a model without weights. Unknown names raise UnknownModel.
    """
    timm = require()
    try:
        module = timm.create_model(name, pretrained=pretrained, **options)
    except RuntimeError as error:
        if "Unknown model" not in str(error):
            raise
        nearest = [PREFIX + n for n in timm.list_models(f"{name.split('_')[0]}*")[:3]]
        raise UnknownModel(PREFIX + name, nearest) from error
    if image_size is None or image_size == image_size_of(module):
        return module.eval()
    # Position tables and windows depend on the image: those models take the size, the others do not know the word.
    with contextlib.suppress(TypeError):
        module = timm.create_model(name, pretrained=pretrained, img_size=image_size, **options)
    return module.eval()


def image_size_of(module: Any) -> int:
    """Return the side in pixels of the square image the module is published for."""
    return int(module.pretrained_cfg["input_size"][-1])


class WithLoss(nn.Module):  # type: ignore[misc]
    """A classifier of timm that answers like those of transformers: with `labels` given, the loss comes first."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
        """Return the logits (batch, classes) and, where labels (batch,) are given, their mean cross-entropy."""
        logits = self.module(x)
        result = {} if labels is None else {"loss": nn.functional.cross_entropy(logits.float(), labels)}
        return {**result, "logits": logits}
