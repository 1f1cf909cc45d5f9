"""Qualcomm's own networks in AI Hub, whose structure only the package qai_hub_models (BSD-3-Clause) holds.

Their modules are imported from the installed package, and whatever they import beside torch is left out.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import MagicMock

import torch
from torch import nn

from research.traced.entry import Entry, Made, image

__all__ = ["entries"]

PACKAGE = "qai_hub_models"
WRITTEN = tuple(
    f"{PACKAGE}.models.{name}"
    for name in (
        "face_det_lite.layers",
        "face_det_lite.model",
        "foot_track_net.layers",
        "foot_track_net.model",
        "gear_guard_net.layers",
        "gear_guard_net.model",
        "face_attrib_net.layers",
        "face_attrib_net.model",
        "facemap_3dmm.resnet_score_rgb",
        "mediapipe_selfie.model",
        "mediapipe_hand_gesture.model",
    )
)
"""The modules that are read; everything else of the package is left out."""
PARENTS = {".".join(name.split(".")[:count]) for name in WRITTEN for count in range(1, 4)}


class AnyClass(type):
    """The class of classes that have whatever is asked of them."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_") or name == "T_destination":
            raise AttributeError(name)
        return lambda *_, **__: None


class Absent(types.ModuleType):
    """A module that is left out: its functions do nothing, and its classes are empty networks."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name.islower():
            return MagicMock()
        return AnyClass(name, (nn.Module,), {"__class_getitem__": classmethod(lambda cls, _: cls)})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Find the parents of what is read as empty packages, and the rest of the package as absent."""

    def __init__(self, root: str) -> None:
        self.root = root

    def find_spec(self, name: str, *_: Any) -> Any:
        top = name.split(".")[0]
        if name in WRITTEN:
            return None
        if top == PACKAGE or top in ("qai_hub", "tflite", "tensorflow") or self._missing(name):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    @staticmethod
    def _missing(name: str) -> bool:
        return name in ("cv2", "PIL", "PIL.Image", "PIL.ImageDraw", "PIL.ImageFont", "torchvision.transforms")

    def create_module(self, spec: Any) -> types.ModuleType:
        module = Absent(spec.name)
        folder = spec.name.split(".")[1:]
        module.__path__ = ["/".join((self.root, *folder))] if spec.name in PARENTS else []
        return module

    def exec_module(self, _: types.ModuleType) -> None:
        return None


def _module(name: str) -> Any:
    spec = importlib.util.find_spec(PACKAGE) if PACKAGE not in sys.modules else sys.modules[PACKAGE].__spec__
    if spec is None:
        raise SystemExit(f"{PACKAGE} is not installed: pip install --no-deps --target EXTRA {PACKAGE}==0.65.0")
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder(next(iter(spec.submodule_search_locations or ()))))
    return importlib.import_module(f"{PACKAGE}.models.{name}")


@contextmanager
def _without_weights() -> Iterator[None]:
    """Let networks be built as their publisher builds them, but leave out the loading of weights."""
    original = nn.Module.load_state_dict, nn.Module.to
    nn.Module.load_state_dict = lambda *_, **__: None
    nn.Module.to = lambda module, *_, **__: module
    try:
        yield
    finally:
        nn.Module.load_state_dict, nn.Module.to = original


def _published(module: str, name: str, *inputs: Any) -> Made:
    with _without_weights():
        return getattr(_module(module), name).from_pretrained(), inputs


def _face_map() -> Made:
    return _module("facemap_3dmm.resnet_score_rgb").resnet18_wd2(pretrained=False), (image(128),)


def _selfie() -> Made:
    return _module("mediapipe_selfie.model").MediapipeSelfie(), (image(256),)


def _gesture() -> Made:
    net = _module("mediapipe_hand_gesture.model").CannedGestureClassifier()
    return net, (torch.empty(1, 64), torch.empty(1, 64))


GESTURE = "mediapipe_hand_gesture.model"
NETS: dict[str, tuple[str, Callable[[], Made]]] = {
    "ai-hub/face_det_lite/Lightweight-Face-Detection": (
        "face_det_lite",
        lambda: (_module("face_det_lite.model").FaceDetLite(), (image(480, 640, channels=1),)),
    ),
    "ai-hub/foot_track_net/Person-Foot-Detection": (
        "foot_track_net",
        lambda: (_module("foot_track_net.model").FootTrackNet(), (image(480, 640),)),
    ),
    "ai-hub/gear_guard_net/PPE-Detection": (
        "gear_guard_net",
        lambda: _published("gear_guard_net.model", "GearGuardNet", image(320, 192)),
    ),
    "ai-hub/face_attrib_net/Facial-Attribute-Detection": (
        "face_attrib_net",
        lambda: _published("face_attrib_net.model", "FaceAttribNet", image(128)),
    ),
    "ai-hub/facemap_3dmm/Facial-Landmark-Detection": ("facemap", _face_map),
    "ai-hub/mediapipe_selfie/MediaPipe-Selfie-Segmentation": ("mediapipe", _selfie),
    "ai-hub/mediapipe_hand_gesture/HandLandmarkDetector": (
        "mediapipe",
        lambda: (_module(GESTURE).HandLandmarkDetector(), (image(224),)),
    ),
    "ai-hub/mediapipe_hand_gesture/CannedGestureClassifier": ("mediapipe", _gesture),
}


def entries() -> Iterator[Entry]:
    """Yield Qualcomm's own networks, under the names of their rows."""
    for name, (family, make) in NETS.items():
        yield Entry(name, "vision", family, make)
