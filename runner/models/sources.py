"""Where a model comes from: the catalogue, a folder on disk, timm, or the Hugging Face cache and hub.

Finding a model loads nothing heavy: configs are read as JSON, and torch is not imported. Which weights it then gets
is decided in `runner.models.weights`.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from domain.catalogues.classification import classified
from domain.catalogues.models import (
    CatalogueModel,
    ImagePipeline,
    WorkloadDefaults,
    default_workload,
    find,
    nearest,
    of_same_design,
    timm_family,
)
from domain.errors import UnknownModel, UsageError
from domain.variants.lineage import Variant
from runner.compression.folder import read_variant, variant_at, weights_digest
from runner.models.pipelines import DENOISERS, INDEX, read_pipeline

__all__ = ["SAFE_FILES", "WEIGHT_CHOICES", "ModelSource", "hub_problem", "resolve", "weight_files"]

WEIGHT_CHOICES = ("auto", "pretrained", "random")
WeightChoice = Literal["auto", "pretrained", "random"]
TIMM_PREFIX = "timm/"
SAFE_FILES = ("model.safetensors", "model.safetensors.index.json")
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_HUB_TIMEOUT_S = 5.0


class ModelSource(msgspec.Struct, frozen=True, kw_only=True):
    """One model that was found, and what is known of it before it is built.

    `kind` says where it was found. `config` is its config as JSON; `location` the folder that holds its
    checkpoint, or None. `class_name` names the transformers class, None where its config alone decides.
    `allow_pickle` says that a checkpoint which can run code when it is opened may be opened. `unreachable` is why the
    hub cannot be asked, where that is known already. `pipeline` stands beside a denoiser, and `workload` are the sizes that
    a folder tells. `variant` is the card of a compressed model in `variant_folder`.
    """

    id: str
    kind: Literal["catalogue", "directory", "hub", "timm", "diffusers"]
    category: str
    family: str
    task: str | None = None
    class_name: str | None = None
    config: dict[str, Any]
    location: Path | None = None
    weights: WeightChoice = "auto"
    revision: str | None = None
    trust_remote_code: bool = False
    allow_pickle: bool = False
    unreachable: str | None = None
    entry: CatalogueModel | None = None
    pipeline: ImagePipeline | None = None
    workload: WorkloadDefaults = WorkloadDefaults()
    variant: Variant | None = None
    variant_folder: Path | None = None

    @property
    def built_id(self) -> str:
        """The id of the model whose code is built: that of the base of a variant."""
        return self.variant.base if self.variant else self.id

    @property
    def defaults(self) -> WorkloadDefaults:
        """The sizes that this model's category is measured at, overridden by what the catalogue says of it."""
        base = msgspec.structs.asdict(default_workload(self.category))
        own = [self.entry.workload if self.entry else WorkloadDefaults(), self.workload]
        told = {
            key: value for sizes in own for key, value in msgspec.structs.asdict(sizes).items() if value is not None
        }
        return WorkloadDefaults(**{**base, **told})


def resolve(
    name: str, weights: str = "auto", *, trust_remote_code: bool = False, allow_pickle: bool = False
) -> ModelSource:
    """Find a model by catalogue id or alias, folder, folder of a variant, `timm/<name>`, or hub id.

    `weights`: `pretrained` insists on a checkpoint, `random` uses none, `auto` takes one where there is one.
    Code that a checkpoint brings along is not run unless `trust_remote_code` asks for it, and weights in Python's
    pickle format are not opened unless `allow_pickle` does. Raises UnknownModel with the nearest names, UsageError
    for a folder without a config or with pickled weights alone, PartMissing where timm is asked for and absent.
    """
    if weights not in WEIGHT_CHOICES:
        raise UsageError(
            f"weights cannot be {weights!r}.", field="weights", remedy=f"Choose one of {', '.join(WEIGHT_CHOICES)}."
        )
    choice: Any = weights
    folder = Path(name).expanduser()
    if place := variant_at(folder):
        return _variant_source(place, choice, trust_remote_code, allow_pickle)
    if name.startswith(TIMM_PREFIX):
        return _timm_source(name, choice)
    entry = find(name)
    if folder.exists() and (entry is None or "/" in name or os.sep in name):
        return _directory_source(folder, choice, trust_remote_code, allow_pickle)
    if entry is not None:
        return _catalogue_source(entry, choice, allow_pickle)
    if name.count("/") != 1 or folder.is_absolute():
        remedy = "Or give the path of a folder with a config.json, or owner/name for the Hugging Face hub."
        raise UnknownModel(name, nearest(name), remedy=remedy)
    return _hub_source(name, choice, trust_remote_code, allow_pickle)


def weight_files(allow_pickle: bool) -> tuple[str, ...]:
    """Return the names under which weights may lie in a checkpoint's folder, best first."""
    return SAFE_FILES + (_PICKLES if allow_pickle else ())


@cache
def hub_problem() -> str | None:
    """Return None where the Hugging Face hub answers, else one sentence on why it does not; asked once a process."""
    try:
        import httpx
        from huggingface_hub import constants
    except ImportError as error:
        return f"The Hugging Face hub cannot be asked: {error}."
    if constants.HF_HUB_OFFLINE:
        return "The Hugging Face hub is not asked, because HF_HUB_OFFLINE is set."
    try:
        # The hub's own client retries a dead line for half a minute; one short question comes first.
        httpx.head(constants.ENDPOINT, timeout=_HUB_TIMEOUT_S)
    except httpx.HTTPError as error:
        return f"The Hugging Face hub could not be reached ({error})."
    return None


def _variant_source(folder: Path, weights: WeightChoice, trust_remote_code: bool, allow_pickle: bool) -> ModelSource:
    """A compressed model: its own checkpoint, else its base, whose weights have to be those that it was made from."""
    variant = read_variant(folder)
    if weights == "random" and variant.base_digest is not None:
        raise UsageError(
            f"{variant.id} is a variant with weights of its own.",
            field="weights",
            remedy="Leave out --weights random, or name its base.",
        )
    allowed = {"trust_remote_code": trust_remote_code, "allow_pickle": allow_pickle}
    own = {"id": variant.id, "variant": variant, "variant_folder": folder}
    if variant.form_for("checkpoint"):
        checkpoint = folder / "checkpoint"
        config = _read_config(checkpoint / "config.json")
        source = _described(variant.base, "directory", config, checkpoint, "auto")
        return msgspec.structs.replace(source, **own, **allowed)
    try:
        base = resolve(variant.source, "auto" if variant.base_digest else "random", **allowed)
    except (UnknownModel, UsageError) as error:
        raise UsageError(
            f"the base of {variant.id} cannot be found: {error.detail}",
            field="model",
            remedy=f"Put {variant.base} back to {variant.source}, or make the variant again.",
        ) from error
    if variant.base_digest and weights_digest(base.location)[0] != variant.base_digest:
        now = "are not on this machine" if base.location is None else "are others now"
        raise UsageError(
            f"the weights of {variant.source}, from which {variant.id} was made, {now}.",
            field="model",
            remedy="Put back the weights that it was made from, or make the variant again.",
        )
    return msgspec.structs.replace(base, **own)


def _catalogue_source(entry: CatalogueModel, weights: WeightChoice, allow_pickle: bool) -> ModelSource:
    return ModelSource(
        id=entry.id,
        kind="diffusers" if entry.requires == "diffusers" else "catalogue",
        category=entry.category,
        family=entry.family,
        task=entry.task,
        class_name=entry.class_name,
        config=entry.config,
        location=None if weights == "random" else _cached_checkpoint(entry.id, allow_pickle),
        weights=weights,
        allow_pickle=allow_pickle,
        entry=entry,
        pipeline=entry.pipeline,
    )


def _timm_source(name: str, weights: WeightChoice) -> ModelSource:
    from runner.models import timm as timm_models

    timm = timm_models.require()
    short = name.removeprefix(TIMM_PREFIX)
    if not timm.is_model(short):
        raise UnknownModel(name, [TIMM_PREFIX + n for n in timm.list_models(f"{short.split('_')[0]}*")[:3]])
    published = timm.get_pretrained_cfg(short)
    channels, _, side = published.input_size
    return _of_timm(name, {"model_type": "timm", "image_size": side, "num_channels": channels}, weights)


def _of_timm(name: str, config: dict[str, Any], weights: WeightChoice) -> ModelSource:
    return ModelSource(
        id=name,
        kind="timm",
        category="vision",
        family=timm_family(name.removeprefix(TIMM_PREFIX)),
        task="image-classification",
        config=config,
        weights=weights,
    )


def _directory_source(folder: Path, weights: WeightChoice, trust_remote_code: bool, allow_pickle: bool) -> ModelSource:
    folder = folder.parent if folder.name in ("config.json", INDEX) else folder
    path = folder / "config.json"
    if (folder / INDEX).is_file():
        return _pipeline_source(folder, weights)
    if folder.suffix == ".onnx":
        raise UsageError(
            f"{folder} is an ONNX file, which is traced and predicted, not measured.",
            field="model",
            remedy="Ask assay predict or assay recommend about it, or give the folder of its checkpoint.",
        )
    if not path.is_file():
        raise UsageError(
            f"the folder {folder} holds no config.json and no {INDEX}.",
            field="model",
            remedy="Give a folder that save_pretrained wrote, or one with a config.json alone.",
        )
    config = _read_config(path)
    if "model_type" not in config:
        return _other_source(folder, config, weights)
    has_weights = any((folder / file).is_file() for file in weight_files(allow_pickle))
    if weights != "random" and not has_weights:
        _refuse_pickles(folder)
    if weights == "pretrained" and not has_weights:
        raise UsageError(
            f"the folder {folder} holds a config and no weights.",
            field="weights",
            remedy=f"Put {SAFE_FILES[0]} beside it, or ask for --weights random.",
        )
    identity = _identity(folder.resolve().name, config)
    location = folder if has_weights and weights != "random" else None
    result = _described(identity, "directory", config, location, weights)
    return msgspec.structs.replace(result, trust_remote_code=trust_remote_code, allow_pickle=allow_pickle)


def _pipeline_source(folder: Path, weights: WeightChoice) -> ModelSource:
    """A pipeline of diffusers: its denoiser, with the modules beside it."""
    read = read_pipeline(folder, _read_json)
    source = _denoiser_source(folder, read.class_name, read.config, weights)
    return msgspec.structs.replace(source, pipeline=read.pipeline, workload=read.workload)


def _other_source(folder: Path, config: dict[str, Any], weights: WeightChoice) -> ModelSource:
    """A config of timm or diffusers, which names no model_type."""
    if config.get("architecture"):
        name = str(config["architecture"])
        channels, _, side = (config.get("pretrained_cfg") or {}).get("input_size") or (3, 224, 224)
        described = {"model_type": "timm", "image_size": side, "num_channels": channels}
        return _of_timm(TIMM_PREFIX + name, described, weights)
    class_name = str(config.get("_class_name"))
    if classified(config).family not in DENOISERS:
        raise UsageError(
            f"{folder / 'config.json'} is of no model that Assay builds: it names no model_type, no architecture of timm "
            "and no denoiser of diffusers.",
            field="model",
            remedy="Add the model_type, such as bert.",
        )
    return _denoiser_source(folder, class_name, config, weights)


def _denoiser_source(folder: Path, class_name: str, config: dict[str, Any], weights: WeightChoice) -> ModelSource:
    family = classified({"_class_name": class_name}).family or "unknown"
    if family not in DENOISERS:
        raise UsageError(
            f"the inputs of a {class_name} are not known.",
            field="model",
            remedy=f"Give a denoiser of the family {', '.join(DENOISERS)}.",
        )
    plain = {name: value for name, value in config.items() if not name.startswith("_")}
    return ModelSource(
        id=_identity(folder.resolve().name, {"model_type": family, **plain}),
        kind="diffusers",
        category="diffusion",
        family=family,
        task="text-to-image",
        class_name=class_name,
        config={"model_type": family, **plain},
        weights=weights,
        workload=WorkloadDefaults(sequence_length=77),
    )


def _refuse_pickles(folder: Path) -> None:
    pickled = next((file for file in _PICKLES if (folder / file).is_file()), None)
    if pickled is not None:
        raise UsageError(
            f"the weights in {folder} are in Python's pickle format ({pickled}), which can run code when it is opened.",
            field="weights",
            remedy="Save them as safetensors, or allow it by name (--allow-pickle), or ask for --weights random.",
        )


def _identity(folder_name: str, config: dict[str, Any]) -> str:
    """Return the published id where name and architecture are those of the catalogue, else `local/<folder>`."""
    published = find(folder_name)
    if published and all(config.get(key, value) == value for key, value in published.config.items()):
        return published.id
    return "local/" + "-".join(folder_name.split())


def _hub_source(name: str, weights: WeightChoice, trust_remote_code: bool, allow_pickle: bool) -> ModelSource:
    path = _cached_file(name, "config.json")
    if path is None:
        path = _downloaded_config(name)
    location = None if weights == "random" else _cached_checkpoint(name, allow_pickle)
    result = _described(name, "hub", _read_config(path), location, weights)
    return msgspec.structs.replace(result, trust_remote_code=trust_remote_code, allow_pickle=allow_pickle)


def _downloaded_config(name: str) -> Path:
    problem = hub_problem()
    if problem:
        remedy = (
            f"{problem} Give the path of a folder with its config.json, or connect to the hub once to fill the cache."
        )
        instead = of_same_design(name)
        close = nearest(name) or ((instead.id,) if instead else ())
        raise UnknownModel(name, close, remedy=remedy)
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(hf_hub_download(name, "config.json"))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        remedy = f"The Hugging Face hub has no config for it that can be read ({type(error).__name__})."
        raise UnknownModel(name, nearest(name), remedy=remedy) from error


def _described(
    identity: str,
    kind: Literal["directory", "hub"],
    config: dict[str, Any],
    location: Path | None,
    weights: WeightChoice,
) -> ModelSource:
    document = classified(config)
    return ModelSource(
        id=identity,
        kind=kind,
        category=document.category or "embedding",
        family=document.family or "unknown",
        task=document.task,
        class_name=next(iter(config.get("architectures") or ()), None),
        config=config,
        location=location,
        weights=weights,
        entry=find(identity),
    )


def _read_config(path: Path) -> dict[str, Any]:
    config = _read_json(path)
    if not {"model_type", "architecture", "_class_name"} & config.keys():
        raise UsageError(
            f"{path} is no transformers config: it names no model_type.",
            field="model",
            remedy="Add the model_type, such as bert.",
        )
    return config


def _read_json(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read as JSON: {error}.", field="model", remedy="Repair the file or fetch it again."
        ) from error
    if not isinstance(config, dict):
        raise UsageError(
            f"{path} is no transformers config: it names no model_type.",
            field="model",
            remedy="Add the model_type, such as bert.",
        )
    return config


def _cached_file(name: str, file: str) -> Path | None:
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        # Without the package there is no cache to look in.
        return None
    try:
        result = try_to_load_from_cache(name, file)
    except HFValidationError as error:
        raise UnknownModel(name, nearest(name), remedy="It is no valid hub id either.") from error
    return Path(result) if isinstance(result, str) else None


def _cached_checkpoint(name: str, allow_pickle: bool) -> Path | None:
    """Return the cache's folder of a checkpoint whose config and weights both lie there."""
    for file in weight_files(allow_pickle):
        cached_file = _cached_file(name, file)
        if cached_file is not None and (cached_file.parent / "config.json").is_file():
            return cached_file.parent
    return None
