"""The artifact: trees as LightGBM text and a card as JSON in one JSON document, named by the digest of its bytes.

Nothing in it is ever executed: no pickles. Bytes that do not match their digest are refused.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from domain.errors import CorruptArtifact
from predictor import shipped
from predictor.artifact.calibrations import Calibrations
from predictor.artifact.conformal import Widths
from predictor.artifact.coverage import Coverage
from predictor.artifact.difficulty import Difficulty
from predictor.artifact.tails import Tails
from predictor.failure_rates.shares import Shares
from predictor.features.features import FEATURES, FEATURES_VERSION
from predictor.features.table import Array, Matrix
from predictor.general.kept import DIFFICULTY as GENERAL_DIFFICULTY
from predictor.general.kept import General
from predictor.general.method import KERNELS, FittedGeneral
from predictor.general.own_rows import OwnRows
from predictor.kernels.kept import Kernels
from predictor.kernels.profile import DeviceProfile, Place
from predictor.learning.blend import FittedBlend
from predictor.learning.few_shot import Few
from predictor.learning.training import NamedTexts, Trees
from predictor.llm_serving.shipped import Serving
from predictor.memory.kept import Memory

__all__ = ["ARTIFACT_KIND", "DIFFICULTY", "Card", "Predictor", "decode", "encode", "load_shipped", "write_folder"]

ARTIFACT_KIND = "predictor"
FORMAT = 1
DIFFICULTY = "difficulty"
"""Among the other trees of a predictor: what rows are hard, one text a level of extrapolation."""
_REMEDY = "Restore it, or train again: assay train."


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Log residuals about a base: their centre, the spread of devices and that of the models on one device."""

    centre: float
    between: float
    within: float


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a predictor but its trees."""

    name: str
    rows: int
    position: int
    features_version: int
    features: list[str]
    coverage: Coverage
    widths: Widths
    spreads: dict[str, Spread]
    """By base (`trees`, `roofline`): how measurements lie about it."""
    newest_version: dict[str, str] = {}
    """Newest runtime version that trained, by platform: what predictions are for where nothing says otherwise."""
    few: Few | None = None
    """What predicts on software that the trees do not know."""
    tails: Tails | None = None
    shares: Shares | None = None
    memory: Memory | None = None
    serving: Serving | None = None
    kernels: Kernels | None = None
    general: General | None = None
    """What predicts on software and devices that the trees do not know."""
    scores: dict[str, Any] = {}
    data: dict[str, Any] = {}
    limits: list[str] = []
    trees_from: str = "shipped"
    """`shipped`, or `log` where the trees were fitted on this log."""


class Predictor(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """A card with its trees; `digest` names the bytes it came from.

    `base` predicts a call's time, `others` are the trees of other routes and targets by name, such as `serving.tpot`.
    """

    card: Card
    base: FittedBlend
    digest: str
    others: dict[str, Trees] = {}
    calibrations: Calibrations = Calibrations()
    """What was measured corrects: no part of the artifact, made of the tables at each position."""
    own_rows: OwnRows = OwnRows()
    """What was measured corrects of the general route, made likewise."""
    profiles: Mapping[Place, DeviceProfile] = {}
    """What measured kernels say of devices, made likewise."""

    @cached_property
    def general(self) -> FittedGeneral | None:
        """Return what predicts on software that the trees do not know, None where the predictor has none."""
        if self.card.general is None or self.card.kernels is None or KERNELS not in self.others:
            return None
        return FittedGeneral(self.others, self.card.kernels.parameters, self.profiles, self.card.general.places)

    def general_difficulty(self, level: str, values: Matrix) -> Array:
        """Return how hard rows are for the general route, in the units of its widths at a level."""
        texts = self.others[GENERAL_DIFFICULTY].texts if GENERAL_DIFFICULTY in self.others else {}
        doubt = np.ones(len(values))
        return Difficulty(texts[level]).of(values, doubt) if level in texts else doubt

    def difficulty(self, level: str, values: Matrix, doubt: Array) -> Array:
        """Return how hard rows are, in the units of the card's widths at a level; `doubt` is the base's own."""
        texts = self.others[DIFFICULTY].texts if DIFFICULTY in self.others else {}
        return Difficulty(texts[level]).of(values, doubt) if level in texts else doubt


def encode(card: Card, base: FittedBlend, others: Mapping[str, Trees] | None = None) -> tuple[bytes, str]:
    """Return the bytes of an artifact and their digest; the same card and base give the same bytes."""
    document = {"format": FORMAT, "card": msgspec.to_builtins(card), "trees": _texts(base, others or {})}
    content = _compact(document)
    return content, digest_of(content)


def _texts(base: FittedBlend, others: Mapping[str, Trees]) -> dict[str, str]:
    """One text a model: those of a call's time by objective, the others as `name/objective`."""
    named = {f"{name}/{objective}": text for name, other in others.items() for objective, text in other.texts.items()}
    return {**base.texts(), **named}


def _parts(texts: Mapping[str, str]) -> tuple[FittedBlend, dict[str, Trees]]:
    parts: dict[str, dict[str, str]] = {"": {}}
    for name in texts:
        part, _, objective = name.rpartition("/")
        parts.setdefault(part, {})[objective] = name
    base = FittedBlend.restored(NamedTexts(texts, parts.pop("")))
    return base, {part: Trees(NamedTexts(texts, names)) for part, names in parts.items()}


def digest_of(content: bytes) -> str:
    """Return `sha256:<hex>` of the bytes."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def decode(content: bytes, digest: str) -> Predictor:
    """Return the predictor in an artifact's bytes.

    Raises CorruptArtifact where the bytes are not those the digest names, or are of a form this version cannot use.
    """
    if digest_of(content) != digest:
        raise CorruptArtifact("the predictor's bytes do not match their digest.", field="digest", remedy=_REMEDY)
    try:
        document = json.loads(content)
        card = msgspec.convert(document["card"], Card)
        texts = dict(document["trees"])
    except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise CorruptArtifact(f"not a predictor: {error}.", field="digest", remedy=_REMEDY) from error
    return _predictor(card, texts, digest)


def _predictor(card: Card, texts: Mapping[str, str], digest: str) -> Predictor:
    if card.features_version != FEATURES_VERSION or tuple(card.features) != FEATURES:
        raise CorruptArtifact(
            f"made for features version {card.features_version}, this is {FEATURES_VERSION}.",
            field="digest",
            remedy="Train again: assay train.",
        )
    try:
        base, others = _parts(texts)
    except (ValueError, KeyError) as error:
        raise CorruptArtifact(f"its models: {error}.", field="digest", remedy="Train again: assay train.") from error
    return Predictor(card=card, base=base, digest=digest, others=others)


class _Folder(msgspec.Struct, frozen=True, kw_only=True):
    """`card.json` of a folder: an artifact without its trees, and the digests of what it is read from.

    `digest` is that of the whole artifact, `card_digest` that of the card's bytes, `models` those of the packed files.
    """

    card: msgspec.Raw
    card_digest: str
    digest: str
    format: int
    models: dict[str, str]


class PackedTexts(Mapping[str, str]):
    """Texts in gzip by name, each unpacked when it is first read: no answer reads the trees of every route."""

    def __init__(self, packed: Mapping[str, bytes]) -> None:
        """Take the packed texts."""
        self._packed = packed
        self._texts: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = gzip.decompress(self._packed[name]).decode()
        return text

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


def write_folder(folder: Path, card: Card, base: FittedBlend, others: Mapping[str, Trees] | None = None) -> str:
    """Write an artifact as files that are kept in a repository: one gzip a model, and the card. Return its digest."""
    content, digest = encode(card, base, others)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("model_*.txt.gz"):
        old.unlink()
    models: dict[str, str] = {}
    for name, text in _texts(base, others or {}).items():
        path = folder / _file(name)
        with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as packed:
            packed.write(text.encode())
        models[name] = digest_of(path.read_bytes())
    document = json.loads(content)
    del document["trees"]
    document |= {"card_digest": digest_of(_compact(document["card"])), "digest": digest, "models": models}
    (folder / "card.json").write_bytes(_compact(document) + b"\n")
    return digest


def _file(name: str) -> str:
    return f"model_{name.replace('/', '_')}.txt.gz"


def _compact(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def read_folder(folder: Traversable) -> Predictor:
    """Return the predictor in a folder that `write_folder` wrote; raises CorruptArtifact.

    The digests of the files are checked and not that of the artifact, for which every text would be unpacked.
    """
    try:
        document = msgspec.json.decode(folder.joinpath("card.json").read_bytes(), type=_Folder)
        packed = {name: folder.joinpath(_file(name)).read_bytes() for name in document.models}
        card = msgspec.json.decode(document.card, type=Card)
    except (OSError, msgspec.MsgspecError) as error:
        raise CorruptArtifact(
            f"the shipped predictor cannot be read: {error}.", field="digest", remedy=_REMEDY
        ) from error
    digests = {name: digest_of(content) for name, content in packed.items()}
    if digests != document.models or digest_of(bytes(document.card)) != document.card_digest:
        raise CorruptArtifact("the predictor's files do not match their digests.", field="digest", remedy=_REMEDY)
    return _predictor(card, PackedTexts(packed), document.digest)


@cache
def load_shipped() -> Predictor:
    """Return the predictor that comes with the package; read once."""
    return read_folder(files(shipped))
