"""What was read or made at a position is kept, within a bound."""

from __future__ import annotations

from predictor.answering.table_cache import LINES, Reading


def test_lists_are_made_once_and_the_longest_unasked_go_first() -> None:
    kept, made = Reading(), []

    def lists(name: str, lines: int) -> tuple[list[int], list[int]]:
        def make() -> tuple[list[int], list[int]]:
            made.append(name)
            return list(range(lines)), [0]

        return kept.lists(name, make)

    half = LINES // 2 - 2
    assert lists("a", half) is lists("a", half)
    lists("b", half)
    lists("a", half)
    lists("c", half)
    assert made == ["a", "b", "c"]
    lists("a", half)
    lists("b", half)
    assert made == ["a", "b", "c", "b"]
    lists("too long", LINES)
    lists("too long", LINES)
    lists("b", half)
    assert made[4:] == ["too long", "too long"]
