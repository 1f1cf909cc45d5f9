"""From a model that was found to a module that runs: with its checkpoint's weights, random ones, or none at all."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch

from domain.configuration import Model
from domain.errors import AssayError, PartMissing, UsageError
from runner import timm_models
from runner.sources import ModelSource, checkpoint_of, hub_problem

__all__ = ["Built", "NotEnoughMemory", "TimmConfig", "build", "build_meta", "config_of", "count_parameters"]

SEED = 0
"""Random weights are the same every time."""


class NotEnoughMemory(AssayError, MemoryError):
    """The weights alone are larger than the memory that is free."""

    type = "not-enough-memory"
    status = 507


class TimmConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What inputs need to know of a timm model: the side of its square image in pixels and its channels."""

    model_type: str = "timm"
    image_size: int
    num_channels: int


@dataclass(frozen=True, kw_only=True)
class Built:
    """A module in eval mode, and what it is.

    `weights` says which were really used, `pretrained` or `random`; `parameters` counts tied ones once; `notes`
    are sentences on what a reader of its figures should know.
    """

    module: Any
    config: Any
    source: ModelSource
    parameters: int
    weights: str
    dtype: Any
    notes: tuple[str, ...] = field(default=())

    @property
    def id(self) -> str:
        """The model's canonical id."""
        return self.source.id

    @property
    def family(self) -> str:
        """The config's model type, or the base name of a timm architecture."""
        return self.source.family

    @property
    def category(self) -> str:
        """The category in the vocabulary's words."""
        return self.source.category

    @property
    def task(self) -> str | None:
        """The task that the class is built for."""
        return self.source.task

    def model(self, architecture: str | None = None) -> Model:
        """Return the model part of a configuration; `architecture` is the digest that tracing gives."""
        return Model(
            id=self.id,
            category=self.category,
            family=self.family,
            architecture=architecture,
            task=self.task,
            revision=self.source.revision,
            parameters=self.parameters,
            weights=self.weights,
        )


def count_parameters(module: Any) -> int:
    """Return the number of parameters, tied ones once, as publishers count them."""
    return sum(parameter.numel() for parameter in module.parameters())


def config_of(source: ModelSource) -> Any:
    """Return the transformers config of a source (a TimmConfig for timm), attention caches off."""
    if source.kind == "timm":
        return msgspec.convert(source.config, TimmConfig)
    transformers = _transformers()
    model_type = source.config["model_type"]
    if model_type in transformers.CONFIG_MAPPING:
        # Configs keep references into the dict they are made from, and the catalogue's must stay as it is.
        config = transformers.CONFIG_MAPPING[model_type].from_dict(copy.deepcopy(source.config))
    elif source.trust_remote_code:
        config = transformers.AutoConfig.from_pretrained(source.location or source.id, trust_remote_code=True)
    elif "auto_map" in source.config:
        raise UsageError(
            f"{source.id} brings its own code, which is not run unless it is asked for by name.",
            field="model",
            remedy="Read that code, and if you trust it, pass --trust-remote-code.",
        )
    else:
        raise UsageError(
            f"the installed transformers {transformers.__version__} does not know the model type {model_type!r}.",
            field="model",
            remedy="Install a transformers release that has it.",
        )
    for part in (config, config.get_text_config()):
        part.use_cache = False
    return config


def build(
    source: ModelSource, weights: str | None = None, dtype: Any = None, *, image_size: int | None = None
) -> Built:
    """Build the model on the CPU in `dtype` (float32), with a checkpoint where there is one.

    `weights` overrides what the source was resolved with; `image_size` matters to timm models alone. Raises
    ServiceUnavailable where `pretrained` is insisted on and nothing is found, NotEnoughMemory before a build that
    cannot fit, UsageError for a checkpoint that cannot be read.
    """
    dtype = dtype or torch.float32
    if weights is not None and weights != source.weights:
        location = None if weights == "random" else source.location
        source = msgspec.structs.replace(source, weights=weights, location=location)
    if source.kind == "timm":
        return _build_timm(source, dtype, image_size)
    config = config_of(source)
    _require_memory(source, dtype)
    folder = checkpoint_of(source)
    if folder is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            module = _from_config(source, config, dtype)
        used, notes = "random", _random_notes(source)
    else:
        module, notes = _from_checkpoint(source, config, folder, dtype)
        used = "pretrained"
    return _built(source, module.eval(), config, used, dtype, notes)


def build_meta(source: ModelSource, *, image_size: int | None = None) -> Built:
    """Build the model on torch's meta device: shapes and no weights, in a second or less for most."""
    if source.kind == "timm":
        with torch.device("meta"):
            module = timm_models.create(source.id.removeprefix(timm_models.PREFIX), image_size)
        return _built(source, module, config_of(source), "random", torch.float32, ())
    config = config_of(source)
    with torch.device("meta"):
        # Some families make a parameter or two on the CPU whatever device is set.
        module = _from_config(source, config, torch.float32).to("meta")
    return _built(source, module.eval(), config, "random", torch.float32, ())


def _built(source: ModelSource, module: Any, config: Any, weights: str, dtype: Any, notes: tuple[str, ...]) -> Built:
    return Built(
        module=module,
        config=config,
        source=source,
        parameters=count_parameters(module),
        weights=weights,
        dtype=dtype,
        notes=notes,
    )


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise PartMissing(
            "building models needs the package transformers.", field="model", remedy="pip install 'assay[runner]'"
        ) from error
    return transformers


def _class_of(source: ModelSource) -> Any:
    transformers = _transformers()
    if source.class_name is None or source.trust_remote_code:
        # Only the automatic class knows the code that a checkpoint brings along.
        return transformers.AutoModel
    found = getattr(transformers, source.class_name, None)
    if found is None:
        raise UsageError(
            f"the installed transformers {transformers.__version__} has no class {source.class_name}.",
            field="model",
            remedy="Install the release that the config names as transformers_version, or a newer one.",
        )
    return found


def _from_config(source: ModelSource, config: Any, dtype: Any) -> Any:
    cls = _class_of(source)
    make = getattr(cls, "_from_config", None) or cls.from_config
    try:
        return make(config, dtype=dtype, attn_implementation="sdpa")
    except ValueError as error:
        if "scaled_dot_product_attention" not in str(error):
            raise
    # Families without a fused attention run their own.
    return make(config, dtype=dtype, attn_implementation="eager")


def _from_checkpoint(source: ModelSource, config: Any, folder: Path, dtype: Any) -> tuple[Any, tuple[str, ...]]:
    from safetensors import SafetensorError

    cls = _class_of(source)
    try:
        with _quiet():
            module, info = cls.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                local_files_only=True,
                trust_remote_code=source.trust_remote_code,
                output_loading_info=True,
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UsageError(
            f"the checkpoint in {folder} cannot be loaded: {str(error).splitlines()[0]}",
            field="model",
            remedy="Fetch it again, or measure with --weights random.",
        ) from error
    missing, unexpected = len(info["missing_keys"]), len(info["unexpected_keys"])
    notes = []
    if missing:
        notes.append(f"{missing} tensors of the model are not in the checkpoint and have random values.")
    if unexpected:
        notes.append(f"{unexpected} tensors of the checkpoint belong to parts that this class does not have.")
    return module, tuple(notes)


def _random_notes(source: ModelSource) -> tuple[str, ...]:
    if source.weights == "random" or source.id.startswith("assay/"):
        return ("Weights are random: speed and memory are right, outputs mean nothing.",)
    why = hub_problem() or "No checkpoint was found."
    return (f"{why} Weights are random: speed and memory are right, outputs mean nothing.",)


def _build_timm(source: ModelSource, dtype: Any, image_size: int | None) -> Built:
    name = source.id.removeprefix(timm_models.PREFIX)
    problem = hub_problem() if source.weights != "random" else "Random weights were asked for."
    if source.weights == "pretrained" and problem:
        checkpoint_of(source)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        module = timm_models.create(name, image_size, pretrained=problem is None)
    used = "pretrained" if problem is None else "random"
    notes = () if problem is None else (f"{problem} Outputs mean nothing, speed and memory are right.",)
    return _built(source, module.to(dtype), config_of(source), used, dtype, notes)


def _require_memory(source: ModelSource, dtype: Any) -> None:
    """Refuse what cannot fit: the kernel would end the process later, and say nothing."""
    import psutil

    free = int(psutil.virtual_memory().available)
    need = build_meta(source).parameters * math.ceil(torch.finfo(dtype).bits / 8)
    if need > free:
        raise NotEnoughMemory(
            f"the weights of {source.id} take {need / 1e9:.1f} GB in {str(dtype).removeprefix('torch.')} "
            f"and {free / 1e9:.1f} GB of memory are free.",
            field="model",
            remedy="Choose a smaller variant or a narrower precision, or a machine with more memory.",
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep loading bars and load reports off the terminal; what matters in them becomes notes."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
