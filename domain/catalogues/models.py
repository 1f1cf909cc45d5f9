"""The model catalogue: what Assay can build from its config alone, without a checkpoint and without a network.

One file per key class under `data/models/`, and one per kind for the families beyond them, holding true architecture
values as their publishers give them. Each family has one small variant that runs anywhere.
"""

from __future__ import annotations

import difflib
import re
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

import msgspec

import domain
from domain.calls import Pipeline
from domain.errors import UsageError
from domain.vocabulary import CATEGORIES

__all__ = [
    "KEY_CLASSES",
    "MODEL_SETS",
    "OPEN_LICENCES",
    "OWN_PREFIX",
    "CatalogueModel",
    "Component",
    "ImagePipeline",
    "WorkloadDefaults",
    "catalogue",
    "default_workload",
    "find",
    "in_category",
    "key_class_of",
    "models_set",
    "nearest",
    "of_same_design",
    "resolve_alias",
    "smaller_siblings",
    "timm_base_name",
    "timm_family",
]

KEY_CLASSES = (
    "bert",
    "t5",
    "llama",
    "clip",
    "vit",
    "clap",
    "whisper",
    "wav2vec2",
    "llava",
    "llava-next",
    "xclip",
    "qwen",
    "detr",
)
OTHER_FILES = (
    "encoders",
    "decoders",
    "encoder-decoders",
    "vision",
    "audio",
    "video",
    "multimodal",
    "diffusion",
)
"""Files of the families that belong to no key class."""
MODEL_SETS = ("small", "key", "all")
OWN_PREFIX = "assay/"
"""Owner of the small variants that have no publisher."""
OPEN_LICENCES = ("apache-2.0", "bsd-3-clause", "mit")
"""Those of the catalogue that let anyone use, change and sell; the others keep something back."""


class WorkloadDefaults(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sizes of one item where nobody asked for others; `audio_seconds` in s, `image_size` the side in pixels."""

    sequence_length: int | None = None
    image_size: int | None = None
    images: int | None = None
    audio_seconds: float | None = None
    frames: int | None = None


class Component(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A module of a diffusion pipeline beside the denoiser: its class and config, and how many tokens a text encoder reads."""

    class_name: str
    config: dict[str, Any]
    tokens: int | None = None


class ImagePipeline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a diffusion pipeline makes an image: its modules, its usual steps, and where those are published.

    A `guided` one runs each step for the prompt and without it (classifier-free guidance).
    """

    steps: int
    guided: bool
    source: str
    text_encoders: tuple[Component, ...]
    vae: Component

    @property
    def plan(self) -> Pipeline:
        """What of it decides how much work an image is."""
        return Pipeline(steps=self.steps, guided=self.guided)


class CatalogueModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model: its names, its place in the vocabulary, and the config that builds it.

    `parameters` is the count its publisher states (tied ones once), with `parameters_source`; None comes with
    `parameters_reason`, and with `parameters_about` where the publisher rounds. `class_name` names the
    transformers class that has exactly these parameters. `variant` is full for the one that stands for its key
    class, small for the one of each family that runs anywhere, sibling for the others. `workload` holds defaults
    that the config cannot tell; `gated` says that its publisher asks for consent before a download, and `requires`
    names the package that builds it where transformers does not. `config` is that of the denoiser where there is a
    `pipeline`; `parts` names other ids under which parts of it are measured. `licence` is that of the published weights as the
    model's card on the Hugging Face hub tags it, None where it does not or we are not sure.
    """

    id: str
    aliases: tuple[str, ...] = ()
    category: str
    family: str
    key_class: str = ""
    variant: Literal["full", "small", "sibling"] = "sibling"
    task: str
    licence: str | None = None
    class_name: str
    parameters: int | None = None
    parameters_about: int | None = None
    parameters_source: str | None = None
    parameters_reason: str | None = None
    workload: WorkloadDefaults = WorkloadDefaults()
    gated: bool = False
    requires: str | None = None
    pipeline: ImagePipeline | None = None
    parts: dict[str, tuple[str, ...]] = {}
    config: dict[str, Any]

    @property
    def size(self) -> int | None:
        """The published number of parameters, exact or rounded; None where there is none."""
        return self.parameters or self.parameters_about

    @property
    def open(self) -> bool | None:
        """Whether the weights are openly licensed; None where the licence is not known."""
        return None if self.licence is None else self.licence in OPEN_LICENCES


class _File(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    key_class: str = ""
    models: tuple[CatalogueModel, ...]


_DESIGNS = {
    "bge": "bert",
    "dialogpt": "gpt2",
    "distilroberta": "roberta",
    "e5": "bert",
    "minilm": "bert",
    "r": "roberta",
}
"""Words of published ids, and the family whose design they stand for (`xlm-r` is `xlm-roberta`)."""

_BY_CATEGORY = {
    "embedding": WorkloadDefaults(sequence_length=128),
    "text_generation": WorkloadDefaults(sequence_length=128),
    "text_to_text": WorkloadDefaults(sequence_length=128),
    "vision": WorkloadDefaults(image_size=224),
    "audio": WorkloadDefaults(audio_seconds=10.0),
    "multimodal": WorkloadDefaults(sequence_length=128, image_size=224, images=1),
    "video": WorkloadDefaults(sequence_length=128, image_size=224, frames=8),
    "diffusion": WorkloadDefaults(image_size=512),
}


def default_workload(category: str) -> WorkloadDefaults:
    """Return the sizes a model of this category is measured at unless it or its user says otherwise."""
    return _BY_CATEGORY.get(category, WorkloadDefaults())


@cache
def catalogue() -> tuple[CatalogueModel, ...]:
    """Return every model of the catalogue, key classes first, each file in its own order."""
    catalogue_models: list[CatalogueModel] = []
    folder = files(domain) / "data" / "models"
    for name in (*KEY_CLASSES, *OTHER_FILES):
        loaded = msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=_File)
        catalogue_models.extend(msgspec.structs.replace(model, key_class=loaded.key_class) for model in loaded.models)
    return tuple(catalogue_models)


@cache
def _names() -> MappingProxyType[str, CatalogueModel]:
    """Every name in lower case; a name without owner never means one of Assay's own variants."""
    names: dict[str, CatalogueModel] = {}
    for model in catalogue():
        for name in (model.id, *model.aliases):
            names[name.lower()] = model
    for model in catalogue():
        if not model.id.startswith(OWN_PREFIX):
            names.setdefault(model.id.split("/", 1)[-1].lower(), model)
    return MappingProxyType(names)


def find(name: str) -> CatalogueModel | None:
    """Return the model of this id or alias, whatever its case and with or without the owner; None if there is none."""
    return _names().get(name.strip().lower())


def resolve_alias(name: str) -> str | None:
    """Return the canonical id that a name stands for, or None where the catalogue does not know it."""
    model = find(name)
    return model.id if model else None


def nearest(name: str, n: int = 3) -> tuple[str, ...]:
    """Return up to `n` canonical ids whose id or alias looks most like `name`, best first."""
    close = difflib.get_close_matches(name.strip().lower(), _names(), n=n * 4, cutoff=0.5)
    ids = dict.fromkeys(_names()[match].id for match in close)
    return tuple(ids)[:n]


def of_same_design(name: str) -> CatalogueModel | None:
    """Return the catalogue's model of the family that an id names, such as wav2vec2 in `acme/wav2vec2-tiny-random`.

    Of its members the one whose id shares most words with `name`; else the small variant where `name` says tiny, small or
    random, and the full one where it does not. None where no family is named.
    """
    words = re.split(r"[-_.]", name.lower().split("/")[-1])
    words = [part for word in words for part in _DESIGNS.get(word, word).split("-")]
    families = {model.family for model in catalogue()}
    runs = ("-".join(words[low:high]) for low in range(len(words)) for high in range(len(words), low, -1))
    named = [run for run in runs if run in families]
    if not named:
        return None
    family = max(named, key=len)
    own = set(words) - set(family.split("-"))
    wanted = "small" if own & {"tiny", "small", "mini", "nano", "random"} else "full"

    def likeness(model: CatalogueModel) -> tuple[bool, int, bool]:
        shared = own & set(re.split(r"[-_.]", model.id.lower().split("/")[-1]))
        return not model.id.startswith(OWN_PREFIX), len(shared), model.variant == wanted

    members = [model for model in catalogue() if model.family == family]
    sharing = [model for model in members if likeness(model)[1] > 0]
    return max(sharing, key=likeness) if sharing else max(members, key=lambda model: likeness(model)[2])


def key_class_of(name: str) -> str | None:
    """Return the key class of a catalogue model, or None where it has none."""
    model = find(name)
    return (model.key_class or None) if model else None


def models_set(name: str) -> tuple[CatalogueModel, ...]:
    """Return the models of a set: `small` holds one for each family, `key` one for each key class, `all` every one."""
    if name not in MODEL_SETS:
        raise UsageError(
            f"there is no set of models named {name!r}.",
            field="models_set",
            remedy=f"Choose one of {', '.join(MODEL_SETS)}.",
        )
    variant = {"small": "small", "key": "full"}.get(name)
    return tuple(model for model in catalogue() if variant is None or model.variant == variant)


def smaller_siblings(name: str, *, published: bool = False, n: int = 3) -> tuple[CatalogueModel, ...]:
    """Return up to `n` ungated models of the same family or key class that are smaller, largest first.

    The family's small variant comes last; `published` leaves Assay's own out, because they have no checkpoint. A
    model that the catalogue does not know has no siblings.
    """
    model = find(name)
    if model is None:
        return ()

    def kin(other: CatalogueModel) -> bool:
        related = other.family == model.family or (other.key_class != "" and other.key_class == model.key_class)
        return related and other.id != model.id and not other.gated

    def smaller(other: CatalogueModel) -> bool:
        if other.variant == "small":
            return model.variant != "small" and other.family == model.family
        return None not in (model.size, other.size) and (other.size or 0) < (model.size or 0)

    matching_catalogue = [other for other in catalogue() if kin(other) and smaller(other)]
    if published:
        matching_catalogue = [other for other in matching_catalogue if not other.id.startswith(OWN_PREFIX)]
    matching_catalogue.sort(key=lambda other: (other.variant == "small", -(other.size or 0)))
    return tuple(
        matching_catalogue[:n]
        if len(matching_catalogue) <= n or matching_catalogue[-1].variant != "small"
        else [*matching_catalogue[: n - 1], matching_catalogue[-1]]
    )


def in_category(category: str) -> tuple[CatalogueModel, ...]:
    """Return the catalogue's models of one category."""
    if category not in CATEGORIES:
        raise UsageError(
            f"there is no category named {category!r}.",
            field="category",
            remedy=f"Choose one of {', '.join(CATEGORIES)}.",
        )
    return tuple(model for model in catalogue() if model.category == category)


_TIMM_PREFIXES = re.compile(
    r"(?:tf|gluon|legacy|ssl|swsl|ig|ese|nf|gc|wide|adv|ens_adv|dm|jx|bat|eca|lambda)_(?=[a-z])"
)
_TIMM_BASE = re.compile(r"((?:cs3|res2)?[a-z]+?(?:v\d+)?)(?:\d.*)?")
_TIMM_KIN = {
    **dict.fromkeys(("beitv2",), "beit"),
    **dict.fromkeys(("convnextv2",), "convnext"),
    **dict.fromkeys(("flexivit", "naflexvit"), "vit"),
    **dict.fromkeys(("efficientformerv2",), "efficientformer"),
    **dict.fromkeys(("ghostnetv2", "ghostnetv3"), "ghostnet"),
    **dict.fromkeys(("hgnetv2",), "hgnet"),
    **dict.fromkeys(("coatnet", "coatnext", "maxxvit", "maxxvitv2"), "maxvit"),
    **dict.fromkeys(("mobilevitv2",), "mobilevit"),
    **dict.fromkeys(("poolformerv2",), "poolformer"),
    **dict.fromkeys(("ecaresnet", "gcresnet", "resnetaa", "resnetblur", "resnetrs", "senet"), "resnet"),
    **dict.fromkeys(("seresnet", "seresnetaa", "skresnet"), "resnet"),
    **dict.fromkeys(("ecaresnext", "gcresnext", "seresnext", "seresnextaa", "skresnext"), "resnext"),
    **dict.fromkeys(("regnetv", "regnetx", "regnety", "regnetz"), "regnet"),
    **dict.fromkeys(("rexnetr",), "rexnet"),
    **dict.fromkeys(("swinv2",), "swin"),
}
"""Names of one design: later versions, variants of a block, other training. What is measured of one tells of the others."""


def timm_family(name: str) -> str:
    """Return the family of a timm model: its architecture's base name, without size, training and porting marks.

    `timm/tf_efficientnetv2_s.in21k` is `efficientnetv2`, `resnet50d`, `seresnet50` and `wide_resnet50_2` are `resnet`.
    """
    base = timm_base_name(name)
    return _TIMM_KIN.get(base, base)


def timm_base_name(name: str) -> str:
    """Return the base name of a timm model's architecture: `seresnet50` is `seresnet`, which is of the family `resnet`."""
    base = name.lower().removeprefix("timm/").split(".")[0].replace("swin_v2_", "swinv2_")
    while mark := _TIMM_PREFIXES.match(base):
        base = base[mark.end() :]
    first = base.split("_")[0]
    match = _TIMM_BASE.fullmatch(first)
    return match.group(1) if match else first
