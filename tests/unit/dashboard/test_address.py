from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from dashboard import address
from dashboard.address import Comparison


def test_a_comparison_round_trips() -> None:
    asked = Comparison(model="a/b", metric="memory", scale="log", platform=("cpu",), batch=8, basis="measured", as_of=7)
    query = urlsplit(address.link("http://h", "compare", asked)).query
    assert address.read_comparison(parse_qs(query)) == (asked, [])


@pytest.mark.parametrize(("value", "sizes"), [("8,1", (8, 1)), ("1..8", (1, 2, 4, 8)), ("3..9,1", (3, 4, 8, 9, 1))])
def test_batch_sizes_are_listed_or_the_powers_of_two_between(value: str, sizes: tuple[int, ...]) -> None:
    assert address.wholes([value]) == sizes


@pytest.mark.parametrize("value", ["8..1", "1..", "..8", "1..99999999999"])
def test_sizes_that_cannot_be_are_refused(value: str) -> None:
    with pytest.raises(ValueError, match="must"):
        address.wholes([value])
