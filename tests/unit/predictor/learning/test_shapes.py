import numpy as np
import pytest

from predictor.features.operator_shapes import SHAPES, shapes_of
from tests.unit.predictor.learning.test_costs import CONV, LIMITS, row, traced

GELU = {"name": "aten.gelu_", "class": "elementwise", "read_elements": 2e6, "write_elements": 2e6}


def named(*operators: dict[str, object], batch_size: int = 1) -> dict[str, float]:
    values = shapes_of(traced(*operators), [LIMITS], [row(batch_size)])[0]
    return dict(zip(SHAPES, values.tolist(), strict=True))


def test_shares_by_hand() -> None:
    found = named(CONV, GELU)
    conv = (7e5 + 64 * 9 * 128) * 2 / 1e11 + 1e-6
    gelu = 4e6 * 2 / 1e11 + 1e-6
    assert found["kind_share.gelu"] == pytest.approx(gelu / (conv + gelu))
    assert found["kind_share.conv.width_33"] == pytest.approx(conv / (conv + gelu))
    assert found["log_unfused"] == pytest.approx(np.log(conv / (conv + gelu)))
    assert found["fused_calls"] == 0.5
    assert found["log_inner_mean"] == pytest.approx(np.log(64 * 9))
    assert found["log_positions"] == pytest.approx(np.log(2e6 / (2 * 64 * 9 * 128)))
    assert found["class_balance.conv"] == pytest.approx(np.log((2e6 / 1e12) / (conv - 1e-6)))
    assert found["log_item"] == pytest.approx(np.log(conv + gelu))


def test_what_a_model_has_not_is_not_known() -> None:
    found = named(GELU)
    assert np.isnan(found["log_size.conv"])
    assert np.isnan(found["class_balance.mm"])
    assert found["kind_share.odd_inner"] == 0.0


def test_an_item_costs_less_in_a_batch() -> None:
    assert named(CONV, batch_size=8)["log_item"] < named(CONV)["log_item"]
