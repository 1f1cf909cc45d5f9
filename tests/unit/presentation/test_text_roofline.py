"""The roofline in characters: points stand under the roof, in place, and fit the terminal."""

from __future__ import annotations

from presentation.text_roofline import Place, text_roofline

PEAK, BANDWIDTH = 1e12, 1e10


def lines(*places: Place) -> list[str]:
    return text_roofline(places, PEAK, BANDWIDTH)


def at(picture: list[str], letter: str) -> tuple[int, int]:
    return next((row, line.index(letter)) for row, line in enumerate(picture[:-2]) if letter in line.partition("│")[2])


def test_faster_stands_higher_and_more_arithmetic_a_byte_stands_further_right():
    picture = lines(Place(0.25, 2e9, "e"), Place(300.0, 8e11, "g"), Place(20.0, 1e11, "a"))
    places = [at(picture, letter) for letter in "eag"]
    rows, columns = zip(*places, strict=True)
    assert list(rows) == sorted(rows, reverse=True) and len(set(rows)) == 3
    assert list(columns) == sorted(columns)


def test_the_roof_rises_with_the_bandwidth_and_is_flat_at_the_peak():
    picture = lines(Place(0.25, 1e9, "e"), Place(1000.0, 1e9, "g"))
    tops = [
        next((row for row, line in enumerate(picture[:-2]) if line[16:][at : at + 1] == "·"), None) for at in range(70)
    ]
    heights = [row for row in tops if row is not None]
    assert heights == sorted(heights, reverse=True)
    assert heights[-1] == 0 and heights.count(0) > 10


def test_points_on_each_other_are_told_as_several():
    picture = lines(Place(1.0, 1e9, "s"), Place(1.0, 1e9, "n"), Place(300.0, 5e11, "g"))
    drawn = "".join(line.partition("│")[2] for line in picture[:-2])
    assert drawn.count("*") == 1 and "s" not in drawn


def test_every_line_fits_100_columns():
    assert max(map(len, lines(Place(1e-4, 1e3, "e"), Place(1e5, 9e11, "g")))) <= 100


def test_nothing_measured_is_no_picture():
    assert lines() == []
