"""Architectures that torchvision and timm build, at the sizes at which others measured them."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Iterator
from typing import Any

from domain.catalogues.models import timm_family
from research.traced.entry import Entry, Made, image

__all__ = ["entries", "torchvision_model", "without_compiled_parts"]

TORCHVISION = {
    # torchvision name: image size, whether training is published too
    "squeezenet1_0": (224, True),
    "squeezenet1_1": (224, True),
    "shufflenet_v2_x0_5": (224, True),
    "shufflenet_v2_x1_0": (224, True),
    "shufflenet_v2_x1_5": (224, True),
    "shufflenet_v2_x2_0": (224, True),
    "mnasnet1_3": (224, True),
    "wide_resnet101_2": (224, True),
    "alexnet": (224, False),
    "googlenet": (224, False),
    "inception_v3": (224, False),
    "efficientnet_v2_s": (384, False),
    "fcn_resnet50": (224, False),
}
LARGER = {"fcn_resnet50": (520,)}
"""Further image sizes."""
FAMILIES = {"wide_resnet101_2": "resnet", "fcn_resnet50": "fcn"}
VIDEO = ("r3d_18", "mc3_18", "r2plus1d_18")
TIMM = {
    # timm name: image size, whether training is published too; beside those of timm's own results
    "mnasnet_050": (224, True),
    "mnasnet_075": (224, True),
    "mnasnet_100": (224, True),
    "mobilevit_s": (224, False),
    "nasnetalarge": (224, False),
    "efficientnet_b4": (380, True),
    "inception_v3": (224, False),
    "resnetv2_50": (224, False),
    "resnetv2_101": (224, False),
    "resnetv2_152": (224, False),
}


def without_compiled_parts() -> None:
    """Let torchvision's Python be imported without its compiled operators, which fit one build of torch alone."""
    if "torchvision" in sys.modules:
        return
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.submodule_search_locations is None:
        raise SystemExit("torchvision is not installed: pip install --no-deps --target EXTRA timm torchvision")
    package = types.ModuleType("torchvision")
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = spec
    package.__version__ = "0"  # type: ignore[attr-defined]
    sys.modules["torchvision"] = package


def torchvision_model(name: str, **options: Any) -> Any:
    """Return an untrained model of torchvision."""
    from torchvision.models import get_model

    return get_model(name, weights=None, **options)


def _torchvision(name: str, side: int) -> Made:
    options: dict[str, Any] = {}
    if name in ("googlenet", "inception_v3"):
        options = {"aux_logits": False, "init_weights": False}
    if name.startswith("fcn"):
        options = {"weights_backbone": None}
    return torchvision_model(name, **options), (image(side),)


def _timm(name: str, side: int) -> Made:
    from runner.models import timm

    return timm.create(name, side), (image(side),)


def entries() -> Iterator[Entry]:
    """Yield what torchvision and timm build."""
    sized = [(name, side, training) for name, (side, training) in TORCHVISION.items()]
    sized += [(name, side, False) for name, sides in LARGER.items() for side in sides]
    for name, side, training in sized:
        family = FAMILIES.get(name, name.split("_")[0].rstrip("0123456789"))
        task = "image-segmentation" if name.startswith("fcn") else "image-classification"
        yield Entry(
            f"torchvision/{name}",
            "vision",
            family,
            lambda name=name, side=side: _torchvision(name, side),
            task,
            {"image_size": side},
            training,
        )
    for name in VIDEO:
        yield Entry(
            f"torchvision/{name}",
            "video",
            "video-resnet",
            lambda name=name: (torchvision_model(name), (image(16, 112, 112),)),
            "video-classification",
            {"image_size": 112, "frames": 16},
        )
    for name, (side, training) in TIMM.items():
        yield Entry(
            f"timm/{name}",
            "vision",
            timm_family(name),
            lambda name=name, side=side: _timm(name, side),
            "image-classification",
            {"image_size": side},
            training,
        )
