"""Which weights a model gets, and why: a folder's, the cache's, the hub's, or random ones."""

from __future__ import annotations

from pathlib import Path

import msgspec

from domain.catalogues.models import OWN_PREFIX, smaller_siblings
from domain.errors import PartMissing, ServiceUnavailable
from runner.models.sources import SAFE_FILES, ModelSource, hub_problem, weight_files

__all__ = ["MEANING_OF_RANDOM", "WeightsChoice", "choose_weights", "unreachable"]

MEANING_OF_RANDOM = "Weights are random: speed and memory are right, outputs mean nothing."


class WeightsChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The folder of the checkpoint to load (None: random weights), and one sentence on why."""

    folder: Path | None
    reason: str


def unreachable(source: ModelSource) -> str | None:
    """Return why the hub cannot be asked for this model's checkpoint; None where it answers, or is of no use."""
    no_hub = source.kind == "directory" or source.id.startswith(OWN_PREFIX)
    if source.weights == "random" or source.location is not None or no_hub:
        return None
    return source.unreachable or hub_problem()


def choose_weights(source: ModelSource) -> WeightsChoice:
    """Return the checkpoint to load: the folder named, then the cache's, then the hub's, and none after that.

    `pretrained` raises ServiceUnavailable where nothing is found, and names smaller models that anyone may fetch
    where a gate or the network is the reason; `auto` says so in the reason and takes random weights.
    """
    if source.weights == "random":
        return WeightsChoice(folder=None, reason="Random weights were asked for.")
    if source.location is not None:
        where = "folder that was named" if source.kind == "directory" else "Hugging Face cache"
        return WeightsChoice(folder=source.location, reason=f"The checkpoint lies in the {where}.")
    if source.kind == "directory":
        chosen = WeightsChoice(folder=None, reason="The folder holds a config and no weights.")
    elif source.id.startswith(OWN_PREFIX):
        chosen = WeightsChoice(folder=None, reason="It is made by Assay and has no published checkpoint.")
    elif source.kind in ("timm", "diffusers"):
        chosen = WeightsChoice(folder=None, reason=unreachable(source) or "Its checkpoint is not fetched.")
    else:
        chosen = _from_hub(source)
    if source.weights == "pretrained" and chosen.folder is None:
        raise ServiceUnavailable(
            f"no checkpoint of {source.id} could be loaded. {chosen.reason}",
            field="weights",
            remedy="Give the folder of a downloaded checkpoint as the model, or ask for --weights random.",
        )
    return chosen


def _from_hub(source: ModelSource) -> WeightsChoice:
    problem = unreachable(source)
    if problem is None:
        try:
            from huggingface_hub.errors import GatedRepoError, HfHubHTTPError
        except ImportError as error:
            raise PartMissing(
                "fetching a checkpoint needs the package huggingface_hub.",
                field="weights",
                remedy="pip install 'assay[runner]'",
            ) from error
        try:
            folder = _fetched(source)
        except GatedRepoError:
            problem = (
                "The Hugging Face hub gives it only to those who accepted its publisher's terms (and sent a token)."
            )
        except HfHubHTTPError as error:
            status = getattr(error.response, "status_code", None)
            problem = f"The Hugging Face hub refused it ({f'HTTP {status}' if status else type(error).__name__})."
        except OSError as error:
            problem = f"The download broke off ({type(error).__name__})."
        else:
            if folder is not None:
                return WeightsChoice(folder=folder, reason="The checkpoint was fetched from the Hugging Face hub.")
            pickles = "" if source.allow_pickle else "; pickled ones are opened with --allow-pickle alone"
            return WeightsChoice(folder=None, reason=f"The hub has no weights of it in {SAFE_FILES[0]}{pickles}.")
    return WeightsChoice(folder=None, reason=problem + _open_siblings(source))


def _open_siblings(source: ModelSource) -> str:
    ids = [sibling.id for sibling in smaller_siblings(source.id, published=True)]
    return f" Smaller models that anyone may fetch: {', '.join(ids)}." if ids else ""


def _fetched(source: ModelSource) -> Path | None:
    from huggingface_hub import snapshot_download

    patterns = ["config.json", "*.safetensors", SAFE_FILES[1]]
    folder = Path(snapshot_download(source.id, revision=source.revision, allow_patterns=patterns))
    files = weight_files(source.allow_pickle)
    if source.allow_pickle and not any((folder / file).is_file() for file in files):
        folder = Path(snapshot_download(source.id, revision=source.revision, allow_patterns=["*.json", "*.bin"]))
    return folder if any((folder / file).is_file() for file in files) else None
