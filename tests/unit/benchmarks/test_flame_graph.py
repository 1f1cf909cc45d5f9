"""Flame graphs: stacks become frames, and frames a picture."""

from benchmarks.flame_graph import Frame, drawn, frames_of

STACKS = [
    "main (a.py:3);load (b.py:9) 30",
    "main (a.py:4);load (b.py:7);read (c.py:1) 10",
    "main (a.py:5) 59",
    " 7",
    "rare (d.py:1) 1",
]


def test_frames_of_one_caller_are_joined_whatever_their_lines():
    assert frames_of(STACKS) == [
        Frame("main (a.py)", 0, 0, 99),
        Frame("load (b.py)", 1, 0, 40),
        Frame("read (c.py)", 2, 0, 10),
        Frame("rare (d.py)", 0, 99, 1),
    ]


def test_a_picture_names_shares_and_leaves_out_what_is_narrow():
    picture = drawn(frames_of(STACKS), "a <title>", least=0.05)
    assert "load (b.py): 40.0%" in picture and "a &lt;title&gt;" in picture
    assert "rare" not in picture
