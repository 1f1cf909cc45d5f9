"""The events that benchmarks are made with: valid, of the promised size, repeatable, and never the same twice."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.documents import measurements, retractions, samples
from domain.events import decode_event


@pytest.mark.parametrize("whole", [False, True])
def test_every_measurement_passes_the_gate_without_a_warning(whole: bool) -> None:
    documents = list(measurements(1500, seed=7, models=60, whole=whole))
    for document in documents:
        decoded = decode_event(document.body)
        assert decoded.warnings == ()
        assert (decoded.id, decoded.type, decoded.source, decoded.subject, decoded.time) == document[:5]
    assert len({document.id for document in documents}) == 1500
    assert len({document.subject for document in documents}) == 60


def test_sizes_are_those_that_the_page_names() -> None:
    sizes = [len(document.body) for document in measurements(1000, seed=1)]
    assert sum(sizes) / len(sizes) == pytest.approx(1580, rel=0.02)
    assert {len(document.body) for document in retractions(100, seed=1)} == {320}


def test_equal_seeds_give_equal_events_and_others_give_others() -> None:
    one, same, other = (list(measurements(1100, seed=seed)) for seed in (1, 1, 2))
    assert one == same
    assert not {document.id for document in one} & {document.id for document in other}


def test_small_events_and_samples_pass_the_gate() -> None:
    for document in retractions(20, seed=3):
        assert decode_event(document.body).id == document.id
    (measurement,) = measurements(1, seed=3)
    raw = decode_event(samples(measurement, np.random.default_rng(3)).body)
    assert raw.data is not None
    assert len(raw.data.values) == raw.data.n  # type: ignore[attr-defined]
