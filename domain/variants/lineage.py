"""The lineage of a variant: from which model, by which recipe and tools, with which data, and the files that it is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from domain.configuration import Count, Identifier, Word
from domain.measured import Digest, Sentence, Shape

__all__ = ["DataReference", "Form", "FormKind", "RecipeName", "Variant", "VariantFile", "variant_id"]

FormKind = Literal["checkpoint", "openvino", "onnx"]
"""In which form a variant lies on disk: a checkpoint of torch, OpenVINO's IR, an ONNX graph."""
RecipeName = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9.:+-]*$(?!\n)")]
"""The name of a recipe: `int8-ptq`, `prune-2:4`."""
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


class DataReference(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Data that something was made or judged with: a name without a path, its digest, and how many examples."""

    name: Sentence
    digest: Digest
    examples: Count


class VariantFile(Shape, frozen=True, kw_only=True):
    """One file of a form: its path below the variant's folder, its size and its SHA-256."""

    path: str
    bytes: Bytes
    digest: Digest


class Form(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """One form of a variant and the precision that it is measured in on the platforms that take it.

    `quantization` names the tool's method. A checkpoint whose `precision` is `int8` or `int4` holds the weights that the
    platform quantizes when it loads them.
    """

    kind: FormKind
    precision: Word
    files: tuple[VariantFile, ...]
    quantization: Sentence | None = None

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return sum(file.bytes for file in self.files)


class Variant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The card `variant.json` in a variant's folder.

    `base` is the id of the model that it was made from, `source` the name or folder by which that model was given,
    `base_digest` the digest of its weights (None: random weights). `digest` is over base, recipe, parameters and files,
    `request` over what was asked for: recipe, parameters, base, calibration and seed. `examples` is the file with a few of
    the inputs that it was calibrated or trained with.
    """

    id: Identifier
    base: Identifier
    source: str
    recipe: RecipeName
    forms: tuple[Form, ...]
    digest: Digest
    base_digest: Digest | None = None
    base_bytes: Bytes | None = None
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    tools: dict[str, str] = msgspec.field(default_factory=dict)
    calibration: DataReference | None = None
    notes: tuple[str, ...] = ()
    request: Digest | None = None
    examples: VariantFile | None = None

    def form_for(self, platform_kind: FormKind) -> Form | None:
        """Return the form of that kind; None where the variant has none."""
        return next((form for form in self.forms if form.kind == platform_kind), None)


def variant_id(base: str, recipe: str, digest: str) -> str:
    """Return the id of a variant: `google/vit-base-patch16-224+int8-ptq.3f2a9c01`."""
    return f"{base}+{recipe}.{digest.removeprefix('sha256:')[:8]}"
