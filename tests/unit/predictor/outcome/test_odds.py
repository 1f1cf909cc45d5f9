import pytest

from domain.answers import Chances
from predictor.failure_rates.odds import Need, with_memory

CHANCES = Chances(runs=0.6, unsupported=0.2, out_of_memory=0.1, fails=0.1, level="family", tries=9)


def need(share_of_room: float, spread: float = 0.2) -> Need:
    return Need(bytes_needed=share_of_room * 16e9, spread=spread, room_bytes=16e9)


def test_exactly_as_much_as_there_is_runs_out_half_of_the_time() -> None:
    assert need(1.0).chance_beyond == pytest.approx(0.5)
    assert need(0.5).chance_beyond < 0.01
    assert need(2.0).chance_beyond > 0.99
    assert need(1.0001, spread=0.0).chance_beyond == 1.0
    assert need(0.9999, spread=0.0).chance_beyond == 0.0


def test_a_known_need_replaces_the_share_and_the_rest_keeps_its_proportions() -> None:
    found = with_memory(CHANCES, need(1.0))
    assert found.out_of_memory == pytest.approx(0.5)
    assert found.runs + found.unsupported + found.fails == pytest.approx(0.5)
    assert found.runs / found.unsupported == pytest.approx(3.0)
    assert (found.level, found.tries) == ("family", 9)


def test_plenty_of_room_takes_the_chance_of_running_out_away() -> None:
    assert with_memory(CHANCES, need(0.1)).out_of_memory == pytest.approx(0.0, abs=1e-6)
    assert with_memory(CHANCES, None) == CHANCES
