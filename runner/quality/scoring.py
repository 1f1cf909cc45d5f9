"""Evaluation inside the child: the model on its platform over all examples, as it is measured, and a score for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from domain.errors import UnsupportedWorkload, UsageError
from runner.campaign.discovery import Announcer
from runner.measure.prepared_case import Ready
from runner.protocol.tasks import Evaluate, Progress

__all__ = ["LABELS", "OUTPUTS", "VALUES", "evaluate_case"]

LABELS, VALUES, OUTPUTS = "labels/", "values", "outputs"
"""Names in the files between parent and child; no input of a model has a slash in its name."""
_MOST_OUTPUT_BYTES = 256_000_000
"""Larger outputs, such as the logits of every token of long texts, are not kept to be compared."""


def evaluate_case(task: Evaluate, speaker: Announcer) -> dict[str, Any]:
    """Write a score for each example, and the outputs where they are not too large; return what did the work."""
    import numpy as np

    ready = Ready(task.case, task.folder, speaker, verifying=False)
    with np.load(task.examples, allow_pickle=False) as stored:
        inputs = {name: stored[name] for name in stored.files}
    labels = inputs.pop(LABELS, None)
    speaker.reach("run")
    batch = task.case.workload.batch_size or 1
    values, kept = _scored(ready, inputs, labels, batch, task.metric, speaker)
    observation = ready.observed(ready.taken())
    platform, options = ready.platform, ready.platform.options()
    ready.close()
    result: dict[str, Any] = {VALUES: values} if kept is None else {VALUES: values, OUTPUTS: kept}
    with Path(task.scores).open("wb") as file:
        np.savez(file, allow_pickle=False, **result)
    return {
        "model": ready.model,
        "runtime": msgspec.to_builtins(platform.runtime()),
        "threads": ready.threads,
        "options": options,
        "observed": msgspec.to_builtins(observation),
    }


def _scored(ready: Ready, inputs: dict[str, Any], labels: Any, batch: int, metric: str, speaker: Announcer) -> Any:
    import numpy as np

    count = len(next(iter(inputs.values())))
    values, outputs, size = [], [], 0
    for start in range(0, count, batch):
        part = {name: array[start : start + batch] for name, array in inputs.items()}
        rows = len(next(iter(part.values())))
        logits = _logits(ready, {name: _filled(array, batch) for name, array in part.items()})[:rows]
        bad = np.flatnonzero(~np.isfinite(logits.reshape(rows, -1)).all(axis=1))
        if metric == "accuracy" and bad.size:
            raise UsageError(
                f"the model gives NaN or infinite outputs for example {start + int(bad[0])}.",
                field="eval",
                remedy="Take another precision or recipe; this one lost the model.",
            )
        values.append(
            _right(logits, labels[start : start + rows]) if metric == "accuracy" else _nll(logits, part, start)
        )
        size += logits.nbytes
        outputs.append(logits)
        if size > _MOST_OUTPUT_BYTES:
            outputs.clear()
        speaker.say(Progress(what="evaluate", share=min(1.0, (start + batch) / count)))
    whole = np.concatenate(outputs) if size <= _MOST_OUTPUT_BYTES else None
    return np.concatenate(values), whole


def _filled(array: Any, batch: int) -> Any:
    """Return rows of a whole batch: converted models have one size, so that the last row is given again and again."""
    import numpy as np

    lacking = batch - len(array)
    return np.concatenate([array, np.repeat(array[-1:], lacking, axis=0)]) if lacking else array


def _logits(ready: Ready, inputs: dict[str, Any]) -> Any:
    """Return the model's logits for one batch: the output of that name, or its only one."""
    platform = ready.platform
    result = platform.run(platform.place(inputs))
    platform.synchronize()
    outputs = platform.outputs(result)
    named = dict(outputs)
    if "logits" in named:
        return named["logits"]
    if len(outputs) == 1:
        return outputs[0][1]
    raise UnsupportedWorkload(
        f"the model has no output `logits`, only {', '.join(named)}.",
        field="eval",
        remedy="Give a command that evaluates it in place of data.",
    )


def _right(logits: Any, labels: Any) -> Any:
    """Return 1 for each example whose largest logit is that of its label, else 0."""
    import numpy as np

    if logits.ndim != 2 or int(labels.max()) >= logits.shape[1]:
        raise UsageError(
            f"the model gives {list(logits.shape[1:])} outputs for an example, and labels go up to {int(labels.max())}.",
            field="eval",
            remedy="Give labels of the model's own classes.",
        )
    return (np.argmax(logits, axis=1) == labels).astype(np.float64)


def _nll(logits: Any, inputs: dict[str, Any], start: int) -> Any:
    """Return the mean negative log-likelihood of each text's tokens after its first, in nat."""
    import numpy as np

    ids, mask = inputs["input_ids"], inputs.get("attention_mask")
    values = []
    for row, scores in enumerate(logits):
        counted = np.ones(len(ids[row]) - 1, bool) if mask is None else (mask[row, 1:] * mask[row, :-1]).astype(bool)
        if not counted.any():
            raise UsageError(
                f"example {start + row} has fewer than two tokens, and none of them can be foretold.",
                field="eval",
                remedy="Leave the example out.",
            )
        of_text = scores[:-1][counted].astype(np.float64)
        if not np.isfinite(of_text).all():
            raise UsageError(
                f"the model gives NaN or infinite outputs for example {start + row}.",
                field="eval",
                remedy="Take another precision or recipe; this one lost the model.",
            )
        top = of_text.max(axis=1, keepdims=True)
        total = np.log(np.exp(of_text - top).sum(axis=1)) + top[:, 0]
        chosen = np.take_along_axis(of_text, ids[row, 1:][counted][:, None], axis=1)[:, 0]
        values.append(float((total - chosen).mean()))
    return np.array(values)
