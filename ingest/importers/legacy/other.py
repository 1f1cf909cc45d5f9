"""The earlier framework's files that hold no figures and no outcome of a model on a platform.

They are recognised so that a person who asks what became of a file gets an answer: configurations and lists of models, reports of analysed
and mended test scripts, summaries of numbers of tests, tests of clients of remote services (whose hardware nobody knows), and
what a browser says that it supports. One that was named is refused with what it is; one that lay in a folder is
passed over, and `assay migrate` lists it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ingest.importers.files import File
from ingest.importers.legacy.vocabulary import has_members
from ingest.importers.refusals import Refused

__all__ = ["SeedOther", "what_it_is"]

NAME = "seed-other"
_MEMBERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("the configuration of a benchmark", ("batch_sizes", "benchmark_iterations", "model_families")),
    ("the configuration of a benchmark", ("models_set", "models", "hardware_types")),
    ("the configuration of a benchmark", ("models_set", "models", "batch_sizes")),
    ("a report of mended test scripts", ("files_fixed", "files_details")),
    ("a report of mended test scripts", ("fixed_file", "platforms_fixed")),
    ("a report of mended test scripts", ("analyze_only", "changed_files")),
    ("a report of analysed test scripts", ("files_with_issues", "files_analyzed")),
    ("a report of generated test scripts", ("generation_stats", "generation_results")),
    ("a summary of numbers of tests", ("successful_models", "total_models")),
    ("a summary of numbers of tests", ("found_models", "missing_models")),
    ("a summary of numbers of tests", ("implementation_rate", "remaining_priority_models")),
    ("a guess at the families of models", ("subfamily_confidence", "hardware_priority")),
    ("a report on a database", ("database_path", "validation_results")),
    ("the description of a database", ("schema_version", "schema")),
    ("what a browser says that it supports", ("browser", "webnn", "webgl")),
    ("times of predicted tokens, without the name of a model", ("prefetch_sizes", "prediction_success_rate")),
    ("a test of clients of remote services", ("apis", "implementation_type")),
    ("a test of clients of remote services", ("counters", "api_key", "backoff")),
    ("a test of clients of remote services", ("request_id", "time_taken")),
    ("a test of clients of remote services", ("keys_added", "tests")),
    ("a test of clients of remote services", ("backoff_test", "queue_test")),
    ("a test of clients of remote services", ("tests", "exit_code")),
    ("a test of clients of remote services", ("chat_models", "duration_seconds")),
    ("a test of clients of remote services", ("response_time", "queue_time", "tokens_per_second")),
    ("a test of clients of remote services", ("endpoint_handler",)),
    ("a test of clients of remote services", ("endpoint_handler_creation",)),
    ("a test of clients of remote services", ("queue_implemented", "max_retries")),
    ("a test of endpoints, without a model's outcome", ("endpoint_types_tested", "endpoint_type", "steps")),
    ("a test of endpoints, without a model's outcome", ("endpoint_verification", "handler_verification")),
    ("a test of endpoints, without a platform", ("models_tested", "model_results", "skill")),
    ("a test of the test scripts, without a platform", ("model_results", "pass_rate", "missing")),
    ("a test of the framework's own parts", ("test_ipfs_accelerate",)),
    ("a list of models", ("architecture", "template", "default_model")),
    ("a list of models", ("requires_token", "exists", "private")),
    ("a list of models", ("name", "family", "size", "modality")),
)
"""What a file is, and the members that tell; the first that fits."""
_NAMED = {
    "huggingface_model_pipeline_map.json": "a list of models",
    "huggingface_pipeline_model_map.json": "a list of models",
    "mapped_models.json": "a list of models",
}
_FOLDERS = {"model_list": "a list of models", "model_registry": "a list of models"}


def what_it_is(file: File) -> str | None:
    """Return what a file of the earlier framework without results is, or None where it is none that we know."""
    if file.suffix != ".json" or has_members(file, "functionality_verification"):
        return None
    folders = file.name.split("/")[:-1]
    named = _NAMED.get(file.base) or (_FOLDERS.get(folders[-1]) if folders else None)
    if named is None and file.base.startswith("api_multiplexing_"):
        named = "a test of clients of remote services"
    return named or next((what for what, names in _MEMBERS if has_members(file, *names)), None)


class SeedOther:
    """Files of the earlier framework without results (JSON)."""

    name = NAME
    title = "earlier framework: configurations, lists and reports, which hold no results"

    def sniff(self, file: File) -> bool:
        """Return whether the file is one that we know to hold no results."""
        return what_it_is(file) is not None

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Refuse a file that was named, with what it is; yield nothing for others."""
        if file.given:
            what = what_it_is(file) or "not a file of the earlier framework"
            yield Refused(path=file.name, reason=f"holds no results: it is {what}", format=NAME)
