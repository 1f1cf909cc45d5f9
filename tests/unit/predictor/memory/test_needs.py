"""What configurations need where memory was never measured."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from predictor.memory.needs import share_below


@settings(deadline=None)
@given(st.lists(st.floats(-8, 8, allow_nan=False), min_size=1, max_size=20))
def test_share_below_is_that_of_scipy(deviations):
    values = np.array(deviations)
    np.testing.assert_allclose(share_below(values), ndtr(values), rtol=1e-13, atol=0)


def test_share_below_keeps_shape_infinity_and_nan():
    values = np.array([[-np.inf, 0.0], [np.inf, np.nan]])
    np.testing.assert_array_equal(share_below(values), [[0.0, 0.5], [1.0, np.nan]])
