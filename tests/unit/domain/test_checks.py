"""Members that contradict each other: who may leave a batch size and a precision open."""

from __future__ import annotations

import pytest

from domain.errors import InvalidEvent
from domain.events import decode_event, encode_event


def without_batch_and_precision(build, origin, **more):
    event = build.measurement(provenance={"origin": origin}, **more)
    del event["data"]["workload"]["batch_size"]
    del event["data"]["execution"]["precision"]
    return encode_event(event)


def test_a_simulated_row_may_leave_them_open_where_it_was_imported(build):
    imported = {"row": 3, "rules": ["simulated-flag"]}
    assert decode_event(without_batch_and_precision(build, "simulated", imported=imported)).warnings == ()
    assert decode_event(without_batch_and_precision(build, "imported")).warnings == ()


@pytest.mark.parametrize(("origin", "more"), [("simulated", {}), ("measured", {"imported": {"row": 3}})])
def test_others_state_what_ran(build, origin, more):
    with pytest.raises(InvalidEvent) as refused:
        decode_event(without_batch_and_precision(build, origin, **more))
    assert refused.value.field == "data.workload.batch_size"
