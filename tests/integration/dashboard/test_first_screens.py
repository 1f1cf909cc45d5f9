"""The first screen of every page on the published measurements that ship: the answer stands high, in few and plain words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from assay.client import Client
from ingest import evidence
from presentation import formatting
from tests.integration.dashboard.conftest import Page, dashboard_on

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("dashboard")]
BERT, L4 = "google-bert/bert-base-uncased", "nvidia-l4"
PAGES = {
    "home": "",
    "recommend": f"recommend?model={BERT}",
    "compare": f"compare?model={BERT}",
    "compare-models": f"compare?what=models&hw={L4}",
    "compatibility": "compatibility",
    "trends": "trends",
    "trends-model": f"trends?model={BERT}",
    "regressions": "regressions",
    "runs": "runs",
    "models": "models",
    "model": f"models?id={BERT}",
    "hardware-list": "hardware",
    "hardware": f"hardware?id={L4}",
    "predictor": "predictor",
    "query": "query",
    "jobs": "jobs",
    "operations": "operations",
}
"""Each page as a reader meets it."""
FURTHER = [
    pytest.param(width, theme, marks=pytest.mark.torture)
    for width, theme in ((1440, "dark"), (1280, "light"), (1280, "dark"), (390, "light"))
]
LOOKS = [(1440, "light"), (390, "dark"), *FURTHER]
HIGHEST = {1440: 320, 1280: 320, 390: 420}
"""Pixels: where an answer begins at the latest."""
TALLEST = {1440: 2000, 1280: 2200, 390: 3000}
"""Pixels: how long a page is before anything is unfolded."""
MOST_WORDS = 120
NOT_SAID = (
    "position", "basis", "roofline", "projection", "dead letter", "told apart", "stands beside",
)  # fmt: skip
"""Words that no first screen says."""
SCREEN = """height => {
    const main = document.querySelector('[data-testid="stMain"]');
    const hidden = element => !element.checkVisibility({checkOpacity: true, checkVisibilityCSS: true})
        || element.closest('script, style, textarea, [aria-hidden="true"], .st-key-search');
    const walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
    const words = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        if (!node.data.trim() || hidden(node.parentElement)) continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        const box = range.getBoundingClientRect();
        if (box.width && box.top < height && box.bottom > 0) words.push(node.data.trim());
    }
    const answer = document.querySelector('.st-key-answer');
    const blank = [...main.querySelectorAll('a[target="_blank"]')].filter(link => link.origin === location.origin);
    return {
        words: words.join('\\n'), text: main.innerText, tall: main.scrollHeight,
        top: answer ? answer.getBoundingClientRect().top : null, blank: blank.map(link => link.href),
    };
}"""
FOLD = 900
PICTURES = """() => [...document.querySelectorAll('[data-testid="stVegaLiteChart"] svg')].map(drawn => {
    const box = element => (({left, right, top, bottom}) => [left, top, right, bottom])(element.getBoundingClientRect());
    // A sign of one letter is a mark, what is not painted is no label, and boxes of inclined ones overlap where words do not.
    const painted = text => !['0', 'transparent'].includes(text.getAttribute('opacity') ?? text.getAttribute('fill-opacity') ?? text.getAttribute('fill'))
        && !/rotate\\(-?[1-8]/.test(text.getAttribute('transform') ?? '');
    const said = selector => [...drawn.querySelectorAll(selector)].filter(text => text.textContent.trim().length > 1 && painted(text));
    return {
        box: box(drawn), marks: drawn.querySelectorAll('.role-mark path, .role-mark line, .role-mark text').length,
        texts: said('text').map(text => [text.textContent, ...box(text)]),
        named: said('.mark-text.role-mark text').map(text => text.textContent),
    };
})"""


def cut_or_covered(picture: Any) -> list[str]:
    """Return the labels of a picture that leave it, and those that lie over one another."""
    left, top, right, bottom = picture["box"]
    texts = picture["texts"]
    # A box has room above and below its letters.
    cut = [
        name
        for name, *box in texts
        if box[0] < left - 3 or box[1] < top - 3 or box[2] > right + 3 or box[3] > bottom + 3
    ]
    covered = [
        f"{one[0]} × {other[0]}"
        for place, one in enumerate(texts)
        for other in texts[place + 1 :]
        # The ground of a label is the same words once more.
        if one[0] != other[0]
        and one[1] + 1 < other[3]
        and other[1] + 1 < one[3]
        and one[2] + 2 < other[4]
        and other[2] + 2 < one[4]
    ]
    return [*cut, *covered]


@pytest.fixture(scope="module")
def published(new_service: Any) -> Iterator[str]:
    """A dashboard over the measurements that ship."""
    with new_service(ASSAY_SHIPPED_DATA="yes") as url, dashboard_on(url) as shown:
        with Client(url) as client:
            client.wait_for(evidence.count())
        yield shown


@pytest.fixture(params=PAGES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_the_first_screen(name: str, width: int, theme: str, tab: Any, published: str) -> None:
    page: Page = tab(width, theme)
    page.page.set_viewport_size({"width": width, "height": FOLD})
    page.open(f"{published}/{PAGES[name]}")
    seen, pictures = page.page.evaluate(SCREEN, FOLD), page.page.evaluate(PICTURES)
    first = seen["words"].replace("\u202f", " ")
    counted = re.findall(r"[^\W\d_][\w’'-]*", first)
    found = {
        "answer begins": seen["top"], "height": seen["tall"], "words": len(counted),
        "said": [word for word in NOT_SAID if re.search(rf"\b{word}", first, re.IGNORECASE)],
        "nothing": re.findall(r"\b(?:None|nan|NaN|undefined)\b", seen["text"]),
        "new tabs": seen["blank"], "wrong": page.wrong,
        "labels": [fault for picture in pictures for fault in cut_or_covered(picture)],
        "empty pictures": [picture["box"] for picture in pictures if not picture["marks"]],
    }  # fmt: skip
    assert seen["top"] is not None and seen["top"] <= HIGHEST[width], found
    assert seen["tall"] <= TALLEST[width], found
    assert len(counted) <= MOST_WORDS, (found, first)
    assert not any(found[name] for name in ("said", "nothing", "new tabs", "wrong", "labels", "empty pictures")), found


RAW = """table => [...table.querySelectorAll('tbody tr')].map(row => row.cells[AT].dataset.value)"""


@pytest.mark.parametrize(
    "asked", ["models", "hardware", f"models?id={BERT}", f"compare?model={BERT}", f"recommend?model={BERT}"]
)
def test_a_column_of_numbers_sorts_by_its_raw_values(asked: str, tab: Any, published: str) -> None:
    page: Page = tab(1440, "light")
    page.open(f"{published}/{asked}")
    table = page.page.locator(".assay-table").first
    heads = table.locator("thead th.number")
    assert heads.count()
    for head in heads.all():
        place = head.evaluate("head => head.cellIndex")
        for falling in (True, False):
            head.get_by_role("button").click()
            assert head.get_attribute("aria-sort") == ("descending" if falling else "ascending")
            cells = table.evaluate(RAW.replace("AT", str(place)))
            values = [float(cell) for cell in cells if cell]
            assert cells == [*(cell for cell in cells if cell), *("" for cell in cells if not cell)], (
                "what is not known stands last"
            )
            assert values == sorted(values, reverse=falling), head.inner_text()


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("model", [BERT, "microsoft/resnet-50"])
def test_every_option_on_the_line_is_named_and_no_label_is_cut_or_covered(
    model: str, width: int, tab: Any, published: str
) -> None:
    page: Page = tab(width, "light")
    text = page.open(f"{published}/recommend?model={model}")
    page.page.locator('[data-testid="stVegaLiteChart"] svg').wait_for()
    (picture,) = page.page.evaluate(PICTURES)
    options = re.search(r"The line joins the (\d+) options", text)
    assert options and len(set(picture["named"])) >= int(options[1]), picture["named"]
    assert cut_or_covered(picture) == []


def test_two_devices_are_compared_by_one_line_of_text(tab: Any, published: str) -> None:
    page: Page = tab(1440, "light")
    page.page.set_viewport_size({"width": 1440, "height": FOLD})
    page.open(published)
    # Two interactions beside the typing: the keys that lead to the search, and Enter.
    page.page.keyboard.press("Control+k")
    page.page.keyboard.type("BERT-base, L4 vs A10G, fp16, batch 8")
    page.page.get_by_role("option", name="bert-base-uncased on L4 vs A10G").wait_for()
    page.page.keyboard.press("Enter")
    page.page.wait_for_url("**/compare?**")
    rows = page.page.locator(".assay-table tbody tr")
    rows.nth(1).wait_for()
    for text in (page.text(), page.open(page.page.url)):
        assert "bert-base-uncased on L4 vs A10G" in text
        told = [row.replace("\u202f", " ") for row in rows.all_inner_texts()]
        assert [row.split("\t")[0] for row in told] == ["NVIDIA L4", "NVIDIA A10G"]
        assert all(re.search(r"fp16\t8\t[\d,]+/s", row) for row in told), told
        # What was measured as a mean has no interval; what is estimated has.
        assert re.search(r"/s \([\d,]+–[\d,]+\)", told[1]), told
        boxes = [row.locator(".interval").bounding_box() for row in rows.all()]
        assert all(box["y"] + box["height"] < FOLD for box in boxes)
    assert page.wrong == []


def test_no_name_on_a_picture_is_cut_on_a_phone(tab: Any, published: str) -> None:
    page: Page = tab(390, "light")
    page.open(f"{published}/compare?model={BERT}")
    texts = page.page.locator("[data-testid=stVegaLiteChart] svg text").all_text_contents()
    assert any("batch 64" in text for text in texts)
    assert not [text for text in texts if "…" in text]


def test_the_published_data_is_added_once_by_a_button(tab: Any, published: str) -> None:
    page: Page = tab(1440, "light")
    page.open(published)
    page.page.get_by_text("Add measurements", exact=True).click()
    page.page.get_by_role("button", name="Add the published data").click()
    said = f"0 events added, {formatting.count(evidence.count())} were there already"
    page.page.get_by_text(said).wait_for(timeout=120_000)
    assert "measurements of" in page.text()
    assert page.wrong == []
