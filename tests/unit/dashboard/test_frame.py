from __future__ import annotations

import pytest

from dashboard.frame import coded, escape


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Start it with `assay up`.", f"Start it with `assay up`{escape('.')}"),
        ("an *open* ` stays", escape("an *open* ` stays")),
        ("`a` or `<b>`", "`a` or `<b>`"),
        ("[x](y) `` z", escape("[x](y)  z")),
    ],
)
def test_text_between_backticks_is_code_and_the_rest_is_plain(text: str, shown: str) -> None:
    assert coded(text) == shown
