"""`assay card` as it is typed: from files, from the spool and from a service, and as a browser draws it."""

from __future__ import annotations

import gzip
import json
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from dashboard import gallery
from domain.errors import PartMissing

DATA = Path(__file__).resolve().parents[3] / "data" / "intel-xeon-2c-2026-11.ndjson.gz"
OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll('text')].map(text => [text.textContent, text.getBBox()]);
  const view = document.querySelector('svg').viewBox.baseVal, found = [];
  for (const [at, [one, a]] of boxes.entries()) {
    if (a.x < 0 || a.x + a.width > view.width || a.y + a.height > view.height + 4) found.push(one);
    for (const [other, b] of boxes.slice(at + 1))
      if (a.x < b.x + b.width && b.x < a.x + a.width && a.y + a.height * .3 < b.y + b.height * .8 && b.y + b.height * .3 < a.y + a.height * .8)
        found.push(`${one} / ${other}`);
  }
  return found;
}"""
AXE = (
    """async () => (await axe.run(document)).violations.map(found => found.id + ': ' + found.nodes[0].failureSummary)"""
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the cards of a test go, and a home without anything."""
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fastest(model: str) -> float:
    """The least median in ms of a model's calls at batch 1 in the file that ships."""
    lines = gzip.decompress(DATA.read_bytes()).splitlines()
    events = [json.loads(line) for line in lines if b"measurement.recorded" in line]
    return min(
        event["data"]["metrics"]["latency_ms"]["p50"]
        for event in events
        if event["data"]["model"]["id"] == model and event["data"]["workload"]["mode"] == "inference"
        and event["data"]["workload"]["batch_size"] == 1 and event["data"]["validity"]["verdict"] == "valid"
    )  # fmt: skip


def test_card_of_a_file_has_its_figures_and_like_machines_with_their_basis(typed: Any) -> None:
    card = json.loads(typed("card", "--from", str(DATA), "--json")[0])
    rows = {row["model"]["label"]: row for row in card["rows"]}
    assert card["title"] == "Intel Xeon · 2 cores · 24 GB" and card["hardware"] == "intel-xeon-2c"
    for label, model in (
        ("BERT-base", "google-bert/bert-base-uncased"),
        ("CLIP ViT-B/32", "openai/clip-vit-base-patch32"),
    ):
        assert rows[label]["own"]["basis"] == "measured"
        assert rows[label]["own"]["latency_ms"] == fastest(model)
    assert 2 <= len(card["peers"]) <= 3 and "intel-xeon-2c" not in {peer["id"] for peer in card["peers"]}
    figures = [figure for row in rows.values() for figure in row["peers"] if figure]
    assert figures and {figure["basis"] for figure in figures} <= {
        "imported",
        "predicted",
        "calibrated",
        "reference",
        "roofline",
    }
    assert all(figure["latency_ms_low"] < figure["latency_ms"] < figure["latency_ms_high"] for figure in figures)


def test_ending_decides_the_form_and_the_default_is_a_picture(typed: Any, folder: Path) -> None:
    for name in ("card.svg", "card.html", "card.png"):
        typed("card", "--from", str(DATA), *([] if name == "card.svg" else ["--out", name]))
        assert 5_000 < (folder / name).stat().st_size < 200_000
    assert ElementTree.parse(folder / "card.svg").getroot().attrib["viewBox"] == "0 0 1200 630"
    assert (folder / "card.html").read_text().startswith("<!doctype html>")
    png = (folder / "card.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", png[16:24]) == (1200, 630)


def test_terminal_shows_the_figures_in_100_columns(typed: Any) -> None:
    out, err = typed("card", "--from", str(DATA))
    assert max(map(len, out.splitlines())) <= 100
    assert "BERT-base" in out and "tokens/s" in out and "wrote card.svg" in err and "assay card --measure" in err


def test_card_is_made_anew_but_no_other_file_is_overwritten(typed: Any, folder: Path) -> None:
    for name in ("card.svg", "card.html", "card.png"):
        typed("card", "--from", str(DATA), "--out", name)
        typed("card", "--from", str(DATA), "--out", name, "--dark")
    assert "#0E1117" in (folder / "card.svg").read_text()
    (folder / "mine.svg").write_text("<svg/>")
    typed("card", "--from", str(DATA), "--out", "mine.svg", code=2)
    assert (folder / "mine.svg").read_text() == "<svg/>"
    typed("card", "--from", str(DATA), "--out", "mine.svg", "--force")
    assert (folder / "mine.svg").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["--out", "card.jpg"], "out"),
        (["--from", "broken.ndjson"], "from"),
        (["--from", "empty.ndjson"], "from"),
        (["--from", str(DATA), "--hardware", "nvidia-l4"], "hardware"),
        (["--from", str(DATA), "--measure"], "measure"),
        (["--from", str(DATA), "no-such-model"], "model"),
        (["a", "b", "c", "d", "e", "f"], "MODEL"),
    ],
)
def test_wrong_input_names_the_field_and_leaves_nothing(typed: Any, folder: Path, words: list[str], field: str) -> None:
    (folder / "broken.ndjson").write_text('{"type": "assay.measurement.recorded.v1", "data": 1}\n')
    (folder / "empty.ndjson").write_text("")
    before = sorted(folder.iterdir())
    assert f"error: {field}: " in typed("card", *words, code=2)[1]
    assert [path for path in sorted(folder.iterdir()) if path not in before and path.name != "home"] == []


def test_measuring_on_a_platform_that_is_not_here_is_refused(typed: Any, folder: Path) -> None:
    assert "error: platform: " in typed("card", "--measure", "--platform", "webgpu", code=3)[1]
    assert not (folder / "card.svg").exists()


def test_png_without_its_package_names_the_remedy(typed: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import vl_convert

    place = str(Path(vl_convert.__file__).parents[1])
    monkeypatch.delitem(sys.modules, "vl_convert")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != place])
    assert "assay-bench[dashboard]" in typed("card", "--from", str(DATA), "--out", "card.png", code=3)[1]
    assert not (folder / "card.png").exists()


def test_what_waits_in_the_spool_is_on_the_card_of_this_machine(typed: Any, build: Any, folder: Path) -> None:
    from runner.machine.detect import own_hardware
    from runner.spool.spool import Spool

    work = {"mode": "inference", "batch_size": 1, "sequence_length": 128}
    event = build.measurement(31.5, model="google-bert/bert-base-uncased", hardware=own_hardware().id, workload=work)
    with Spool(folder / "home" / "spool.sqlite") as spool:
        spool.put([event])
        card = json.loads(typed("card", "--json", "--hardware", own_hardware().id)[0])
        assert spool.waiting() == 1
    assert card["hardware"] == own_hardware().id
    assert [
        row["own"] and row["own"]["latency_ms"] for row in card["rows"] if row["model"]["label"] == "BERT-base"
    ] == [31.5]


@pytest.mark.torture
def test_measure_runs_only_what_is_missing_and_the_second_time_nothing(typed: Any, build: Any, folder: Path) -> None:
    from presentation.card.gathering import CLASSES
    from runner.machine.detect import own_hardware
    from runner.spool.spool import Spool

    here = {"hardware": own_hardware().id}
    events = [build.kernels(**here) | {"subject": own_hardware().id}]
    for models in list(CLASSES.values())[1:]:
        work = {"mode": "inference", "batch_size": 1, **models[0].sizes.stated()}
        events.append(build.measurement(20.0, model=models[0].id, workload=work, **here))
    with Spool(folder / "home" / "spool.sqlite") as spool:
        spool.put(events)
    words = ["card", "prajjwal1/bert-tiny", "--measure", "--platform", "cpu", "--budget", "0.1"]
    words += ["--hardware", own_hardware().id, "--json"]
    out, err = typed(*words)
    figures = {row["model"]["id"]: row["own"] for row in json.loads(out)["rows"]}
    assert "measuring 1 model in" in err and "kernels on" not in err
    assert len(figures) == 5 and {figure["basis"] for figure in figures.values()} == {"measured"}
    assert figures["prajjwal1/bert-tiny"]["n"] >= 1 and figures["openai/whisper-tiny"]["latency_ms"] == 20.0
    assert "measured already" in typed(*words)[1]


def test_without_a_service_like_machines_come_from_what_ships(typed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSAY_SERVER")
    card = json.loads(typed("card", "--from", str(DATA), "--json")[0])
    assert card["position"] is None and len(card["peers"]) == 3
    assert all(row["peers"][0] for row in card["rows"])


@pytest.fixture
def chromium() -> Iterator[Any]:
    try:
        gallery.find_browser()
    except PartMissing as missing:
        if os.environ.get("ASSAY_REQUIRE_BROWSER") == "1":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    with gallery.browser() as browser:
        yield browser


@pytest.mark.browser
def test_browser_draws_it_without_overlaps_requests_or_findings(typed: Any, folder: Path, chromium: Any) -> None:
    for name in ("card.svg", "card.html"):
        typed("card", "--from", str(DATA), "--out", name)
    svg = (folder / "card.svg").read_text()
    page = chromium.new_page(viewport={"width": 1200, "height": 630})
    for font in ("", "DejaVu Sans", "Liberation Sans"):
        page.set_content(svg if not font else svg.replace('font-family="', f'font-family="{font}, ', 1))
        assert page.evaluate(OVERLAPS) == []
    for width, scheme in ((1200, "light"), (600, "dark"), (360, "light")):
        context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
        page = context.new_page()
        requests: list[str] = []
        page.on("request", lambda request, seen=requests: seen.append(request.url))
        page.goto((folder / "card.html").as_uri())
        assert requests == [(folder / "card.html").as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate(AXE_SCRIPT)
        assert page.evaluate(AXE) == []
        context.close()
