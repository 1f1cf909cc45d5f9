"""From a model that was found to a module that runs: with its checkpoint's weights, random ones, or none at all."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import torch

from domain.configuration import Model
from domain.errors import AssayError, PartMissing, UnsupportedWorkload, UsageError
from runner.machine.headroom import NotEnoughMemory, available_bytes
from runner.models import diffusion
from runner.models import timm as timm_models
from runner.models.checkpoints import load_checkpoint
from runner.models.heads import Purpose, class_for, transformers_module
from runner.models.quiet import quiet
from runner.models.sources import ModelSource
from runner.models.weights import MEANING_OF_RANDOM, choose_weights, unreachable

__all__ = [
    "Built",
    "NotEnoughMemory",
    "TimmConfig",
    "build",
    "build_meta",
    "config_of",
    "count_parameters",
    "text_config",
]

SEED = 0
"""Random weights are the same every time."""


class TimmConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What inputs need to know of a timm model: the side of its square image in pixels and its channels."""

    model_type: str = "timm"
    image_size: int
    num_channels: int


@dataclass(frozen=True, kw_only=True)
class Built:
    """A module and what it is: in train mode where its purpose is training, else in eval mode.

    `weights` says which were really used, `pretrained` or `random`, and `weights_reason` why; `parameters` counts
    tied ones once; `notes` are sentences on what a reader of its figures should know.
    """

    module: Any
    config: Any
    source: ModelSource
    parameters: int
    weights: str
    dtype: Any
    purpose: Purpose = "inference"
    weights_reason: str | None = None
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
            weights_reason=self.weights_reason,
        )


def count_parameters(module: Any) -> int:
    """Return the number of parameters, tied ones once, as publishers count them."""
    return sum(parameter.numel() for parameter in module.parameters())


def text_config(config: Any) -> Any:
    """Return the part of a transformers config that reads text."""
    return config.text_encoder if config.model_type == "musicgen" else config.get_text_config()


def config_of(source: ModelSource, purpose: Purpose = "inference") -> Any:
    """Return the config that the model is built from; attention caches are off unless it is to generate.

    A transformers config, a TimmConfig for timm, a DenoiserConfig for diffusers.
    """
    if source.kind == "timm":
        return msgspec.convert(source.config, TimmConfig)
    if source.kind == "diffusers":
        return msgspec.convert(source.config, diffusion.DenoiserConfig)
    config = _transformers_config(source)
    if config.model_type == "musicgen":
        # Its published config leaves the token that starts the decoder to the generation config.
        config.decoder.decoder_start_token_id = config.decoder.bos_token_id
    for part in (config, text_config(config), getattr(config, "decoder", None)):
        if part is not None and hasattr(part, "use_cache"):
            part.use_cache = purpose == "generation"
    return config


def build(
    source: ModelSource,
    weights: str | None = None,
    dtype: Any = None,
    *,
    image_size: int | None = None,
    purpose: Purpose = "inference",
) -> Built:
    """Build the model on the CPU in `dtype` (float32), with a checkpoint where there is one.

    `purpose` picks the class: the model's own, one with a head that computes a loss, or one that generates.
    `weights` overrides what the source was resolved with; `image_size` matters to timm models alone. Weights are made
    in `dtype` from the start, shard by shard: no copy in another type is ever made.
    Raises NotEnoughMemory before anything is built whose weights alone do not fit (`runner.machine.memory_check` counts the
    rest), ServiceUnavailable where `pretrained` is insisted on and nothing is found, UsageError for a checkpoint
    that cannot be read or does not match its config, UnsupportedWorkload for a purpose the model cannot serve.
    """
    dtype = dtype or torch.float32
    if weights is not None and weights != source.weights:
        location = None if weights == "random" else source.location
        source = msgspec.structs.replace(source, weights=weights, location=location)
    if source.kind == "timm":
        return _build_timm(source, dtype, image_size, purpose)
    if source.kind == "diffusers":
        return _build_denoiser(source, dtype, purpose)
    config = config_of(source, purpose)
    cls = class_for(source, config, purpose)
    _require_memory(source, dtype)
    chosen = choose_weights(source)
    if chosen.folder is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            module = _with_sane_scores(_from_config(cls, config, dtype), config)
        return _built(source, module, config, dtype, purpose, "random", chosen.reason)
    # A head that the checkpoint lacks is drawn: each process draws the same one.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        module, notes = load_checkpoint(
            cls,
            chosen.folder,
            config,
            dtype,
            trust_remote_code=source.trust_remote_code,
            allow_pickle=source.allow_pickle,
        )
    if source.variant and source.variant.base_digest is None:
        return _built(source, module, config, dtype, purpose, "random", "It was made of random weights.", notes)
    return _built(source, module, config, dtype, purpose, "pretrained", chosen.reason, notes)


def build_meta(source: ModelSource, *, image_size: int | None = None, purpose: Purpose = "inference") -> Built:
    """Build the model on torch's meta device: shapes and no weights, in a second or less for most."""
    config = config_of(source, purpose)
    # Without a value in it, a module of experts is multiplied in groups only in the type that the kernel has.
    dtype = torch.bfloat16 if _has_experts(config) else torch.float32
    with torch.device("meta"), _refusing(source):
        if source.kind == "timm":
            module = _timm_module(source, image_size, purpose, pretrained=False)
        elif source.kind == "diffusers":
            module = _denoiser(source, purpose)
        else:
            module = _from_config(class_for(source, config, purpose), config, dtype)
    # Some families make a parameter or two on the CPU whatever device is set.
    return _built(source, module.to("meta"), config, dtype, purpose, "random", None)


def _has_experts(config: Any) -> bool:
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    return any(isinstance(getattr(config, name, None), int) for name in names)


@contextmanager
def _refusing(source: ModelSource) -> Iterator[None]:
    """Say of a config from which its class cannot be made which model it is, and why."""
    try:
        yield
    except AssayError:
        raise
    except ImportError as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise PartMissing(
            f"{source.id} needs a package that cannot be imported here: {reason}.",
            field="model",
            remedy="Install that package beside Assay.",
        ) from error
    except (ValueError, TypeError, AttributeError, KeyError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise UsageError(
            f"{source.id} cannot be built from its config: {reason}.",
            field="model",
            remedy="Complete the config, or fetch it again from its publisher.",
        ) from error


def _built(
    source: ModelSource,
    module: Any,
    config: Any,
    dtype: Any,
    purpose: Purpose,
    weights: str,
    reason: str | None,
    notes: tuple[str, ...] = (),
) -> Built:
    if weights == "random" and reason is not None:
        why = "" if source.weights == "random" else f"{reason} "
        notes = (f"{why}{MEANING_OF_RANDOM}", *notes)
    return Built(
        module=module.train(purpose == "training"),
        config=config,
        source=source,
        parameters=count_parameters(module),
        weights=weights,
        dtype=dtype,
        purpose=purpose,
        weights_reason=reason,
        notes=notes,
    )


def _transformers_config(source: ModelSource) -> Any:
    transformers = transformers_module()
    model_type = source.config["model_type"]
    if model_type in transformers.CONFIG_MAPPING:
        # Configs keep references into the dict they are made from, and the catalogue's must stay as it is.
        with quiet():
            return transformers.CONFIG_MAPPING[model_type].from_dict(copy.deepcopy(source.config))
    if source.trust_remote_code:
        return transformers.AutoConfig.from_pretrained(source.location or source.id, trust_remote_code=True)
    if "auto_map" in source.config:
        raise UsageError(
            f"{source.id} brings its own code, which is not run unless it is asked for by name.",
            field="model",
            remedy="Read that code, and if you trust it, pass --trust-remote-code.",
        )
    raise UsageError(
        f"the installed transformers {transformers.__version__} does not know the model type {model_type!r}.",
        field="model",
        remedy="Install a transformers release that has it.",
    )


def _require_memory(source: ModelSource, dtype: Any) -> None:
    """Refuse what cannot fit: the kernel would end the process later, and say nothing."""
    free, need = available_bytes(), build_meta(source).parameters * dtype.itemsize
    if need > free:
        raise NotEnoughMemory(
            f"the weights of {source.id} take {need / 1e9:.1f} GB in {str(dtype).removeprefix('torch.')} "
            f"and {free / 1e9:.1f} GB of memory are free.",
            field="model",
            remedy="Choose a smaller variant, --low-memory (weights in bf16), or a machine with more memory.",
        )


def _from_config(cls: Any, config: Any, dtype: Any) -> Any:
    make = getattr(cls, "_from_config", None) or cls.from_config
    try:
        return make(config, dtype=dtype, attn_implementation="sdpa")
    except ValueError as error:
        if "scaled_dot_product_attention" not in str(error):
            raise
    # Families without a fused attention run their own.
    return make(config, dtype=dtype, attn_implementation="eager")


def _with_sane_scores(module: Any, config: Any) -> Any:
    """Scale the random weights that transformers draws far wider than a trained model's.

    X-CLIP's prompt generator gets a standard deviation of 1 where the rest of its class gets fan-in^-0.5: its
    attention is then saturated, and the rounding of a narrow precision turns whole rows around.
    """
    if config.model_type == "xclip" and hasattr(module, "prompts_generator"):
        with torch.no_grad():
            for layer in module.prompts_generator.modules():
                if isinstance(layer, torch.nn.Linear):
                    layer.weight.mul_(layer.in_features**-0.5)
    return module


def _build_timm(source: ModelSource, dtype: Any, image_size: int | None, purpose: Purpose) -> Built:
    problem = "Random weights were asked for." if source.weights == "random" else unreachable(source)
    if problem and source.weights == "pretrained":
        choose_weights(source)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        module = _timm_module(source, image_size, purpose, pretrained=problem is None)
    used = "pretrained" if problem is None else "random"
    reason = problem or "timm fetched its checkpoint."
    return _built(source, module.to(dtype), config_of(source), dtype, purpose, used, reason)


def _timm_module(source: ModelSource, image_size: int | None, purpose: Purpose, *, pretrained: bool) -> Any:
    if purpose == "generation":
        raise UnsupportedWorkload(
            f"{source.id} does not generate token after token.",
            field="output_tokens",
            remedy="Leave the output tokens out to measure one forward call.",
        )
    module = timm_models.create(source.built_id.removeprefix(timm_models.PREFIX), image_size, pretrained=pretrained)
    return timm_models.WithLoss(module) if purpose == "training" else module


def _build_denoiser(source: ModelSource, dtype: Any, purpose: Purpose) -> Built:
    chosen = choose_weights(source)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        module = _denoiser(source, purpose).to(dtype)
    return _built(source, module, config_of(source), dtype, purpose, "random", chosen.reason)


def _denoiser(source: ModelSource, purpose: Purpose) -> Any:
    if purpose != "inference":
        raise UnsupportedWorkload(
            f"{source.id} is measured as one step of its denoiser, which neither writes tokens nor computes a loss.",
            field="mode",
            remedy="Measure its inference.",
        )
    return diffusion.create(str(source.class_name), source.config)
