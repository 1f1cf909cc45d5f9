import math

import pytest

from domain.answers import Chances
from predictor.failure_rates.odds import with_memory

CHANCES = Chances(runs=0.6, unsupported=0.2, out_of_memory=0.1, fails=0.1, level="family", tries=9)


def test_a_known_need_replaces_the_share_and_the_rest_keeps_its_proportions() -> None:
    found = with_memory(CHANCES, 0.5)
    assert found.out_of_memory == 0.5
    assert found.runs + found.unsupported + found.fails == pytest.approx(0.5)
    assert found.runs / found.unsupported == pytest.approx(3.0)
    assert (found.level, found.tries) == ("family", 9)
    assert with_memory(CHANCES, math.nan) == CHANCES
