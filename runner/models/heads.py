"""Which transformers class a model is built as: its own, one that computes a loss, or one that generates."""

from __future__ import annotations

import inspect
from typing import Any, Literal, get_args

from domain.errors import PartMissing, UnsupportedWorkload, UsageError
from runner.models.sources import ModelSource

__all__ = ["PURPOSES", "Purpose", "class_for", "generates", "transformers_module"]

Purpose = Literal["inference", "training", "generation"]
PURPOSES = get_args(Purpose)

_GENERATIVE_TASKS = frozenset(
    {"text-generation", "text2text-generation", "image-text-to-text", "image-to-text", "text-to-audio"}
)
_SPEECH = "automatic-speech-recognition"
_WITH_HEADS = {
    "embedding": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING",
    "audio": "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING",
    "vision": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING",
    "video": "MODEL_FOR_VIDEO_CLASSIFICATION_MAPPING",
    "text_generation": "MODEL_FOR_CAUSAL_LM_MAPPING",
    "text_to_text": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
}
_GENERATORS = {
    "text_generation": "MODEL_FOR_CAUSAL_LM_MAPPING",
    "text_to_text": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    "audio": "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING",
    "multimodal": "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING",
}
_NO_LOSS = {
    "DPTForDepthEstimation": "transformers has no loss for depth estimation.",
    "DPRQuestionEncoder": "its loss needs a second encoder and the passages of the whole batch.",
    "DPRContextEncoder": "its loss needs a second encoder and the questions of the whole batch.",
    "UNet2DConditionModel": "its loss belongs to the scheduler of a diffusion pipeline, which is not part of it.",
}


def transformers_module() -> Any:
    """Return the package transformers, or raise PartMissing with the command that installs it."""
    try:
        import transformers
    except ImportError as error:
        raise PartMissing(
            "building models needs the package transformers.", field="model", remedy="pip install 'assay[runner]'"
        ) from error
    return transformers


def generates(source: ModelSource) -> bool:
    """Return whether the model writes token after token."""
    if source.task == _SPEECH:
        return source.family == "whisper" or bool(source.config.get("is_encoder_decoder"))
    return source.task in _GENERATIVE_TASKS and source.kind in ("catalogue", "directory", "hub")


def class_for(source: ModelSource, config: Any, purpose: Purpose = "inference") -> Any:
    """Return the class: the source's own for inference, else the nearest relative that serves the purpose.

    Raises UnsupportedWorkload where there is none, and UsageError where the installed transformers lacks the source's own.
    """
    own = _own_class(source)
    if purpose == "inference":
        return own
    return _with_loss(source, config, own) if purpose == "training" else _generator(source, config, own)


def _own_class(source: ModelSource) -> Any:
    transformers = transformers_module()
    if source.class_name is None or source.trust_remote_code:
        # Only the automatic class knows the code that a checkpoint brings along.
        return transformers.AutoModel
    own_class = getattr(transformers, source.class_name, None)
    if own_class is None:
        raise UsageError(
            f"the installed transformers {transformers.__version__} has no class {source.class_name}.",
            field="model",
            remedy="Install the release that the config names as transformers_version, or a newer one.",
        )
    return own_class


def _with_loss(source: ModelSource, config: Any, own: Any) -> Any:
    name = own.__name__
    if reason := _NO_LOSS.get(name):
        raise UnsupportedWorkload(
            f"{source.id} cannot be trained here: {reason}", field="mode", remedy="Measure inference."
        )
    taken = inspect.signature(own.forward).parameters
    if not name.endswith("ForPreTraining") and {"labels", "return_loss", "start_positions"} & taken.keys():
        return own
    return _mapped(source, config, _WITH_HEADS, "has no head that computes a loss", "mode")


def _generator(source: ModelSource, config: Any, own: Any) -> Any:
    if not generates(source):
        raise UnsupportedWorkload(
            f"{source.id} does not generate token after token.",
            field="output_tokens",
            remedy="Leave the output tokens out to measure one forward call.",
        )
    if own.can_generate():
        return own
    return _mapped(source, config, _GENERATORS, "has no class that generates", "output_tokens")


def _mapped(source: ModelSource, config: Any, mappings: dict[str, str], lacks: str, field: str) -> Any:
    mapping = getattr(transformers_module(), mappings.get(source.category, ""), {})
    if type(config) not in mapping:
        raise UnsupportedWorkload(f"{source.id} {lacks} in transformers.", field=field, remedy="Measure its inference.")
    result = mapping[type(config)]
    return result[0] if isinstance(result, tuple) else result
