"""A card: what is chosen for it, how it is worded, and that everything drawn on it has room."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any, NamedTuple
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.answers import Sizes
from domain.catalogues.hardware import catalogue, require
from domain.errors import UnknownModel
from presentation.answer_words import short_name
from presentation.card import page, picture
from presentation.card.content import Card, CardFigure, CardModel, CardPeer, call_words, headline
from presentation.card.drawing import fitted, text_width, wrapped
from presentation.card.evidence import Machine, events_evidence, machine_of
from presentation.card.gathering import bench_command, chosen_models, gather, is_measured, like_machines, title_of
from presentation.palette import INKS, PLATFORM_COLOURS, Theme

MADE = datetime(2026, 11, 26, 12, tzinfo=UTC)
BERT = "google-bert/bert-base-uncased"
PASS = {"batch_size": 1, "sequence_length": 128}
THEMES: tuple[Theme, ...] = ("light", "dark")
TEXT = "{http://www.w3.org/2000/svg}text"
SECRETS = {"hostname": "secret-box", "user": "jane-doe", "serial": "SN-4711"}


def described(id_: str, kind: str = "cpu", name: str | None = None, count: int = 1, **spec: Any) -> dict[str, Any]:
    figures = {key: {"value": value, "status": "measured"} for key, value in spec.items()}
    return {
        "hardware": {"id": id_, "kind": kind, "count": count},
        "name": name or id_,
        "platforms": [{"platform": "cpu" if kind == "cpu" else "cuda", "available": True, "precisions": ["fp32"]}],
        "spec": figures,
        "environment": {
            "fingerprint": "0123456789abcdef", "os": "Debian GNU/Linux 12 (bookworm)", "memory_bytes": 25276510208,
            "libraries": {"torch": "2.13.0", "openvino": "2026.4.1"}, **SECRETS,
        },
    }  # fmt: skip


def measured(latency_ms: float, model: str = BERT, **changes: Any) -> dict[str, Any]:
    """An event of a measurement on `acme-cpu`; `changes` are members of its data, and its time."""
    time = changes.pop("time", "2026-11-20T00:00:00+00:00")
    data = {
        "run_id": "run-1",
        "model": {"id": model, "weights": "random"},
        "workload": {"mode": "inference", **PASS},
        "execution": {"platform": "cpu", "runtime": {"name": "torch", "version": "2.13.0"}, "precision": "fp32"},
        "hardware": {"id": "acme-cpu", "kind": "cpu", "count": 1},
        "metrics": {"latency_ms": {"p50": latency_ms, "ci95": {"p50": [latency_ms * 0.9, latency_ms * 1.1]}, "n": 61}},
        "validity": {"verdict": "valid"},
        "provenance": {"origin": "measured", "source": "assay-runner"},
    }
    return {
        "id": f"id-{latency_ms}-{time}",
        "type": "assay.measurement.recorded.v1",
        "time": time,
        "data": data | changes,
    }


def software(platform: str, precision: str = "fp32") -> dict[str, Any]:
    return {"platform": platform, "runtime": {"name": platform}, "precision": precision}


def machine(**spec: Any) -> Machine:
    here = machine_of([described("acme-cpu", name="Acme(R) 9000 CPU @ 2.10GHz", cores=2, **spec)])
    assert here is not None
    return here


def made(events: Sequence[dict[str, Any]], *models: str) -> Card:
    here = machine()
    return gather(here, chosen_models(models), events_evidence(events, here), None, MADE)


def own(*events: dict[str, Any]) -> CardFigure | None:
    return made(events).rows[0].own


# What stands on it


def test_fastest_valid_software_is_shown_by_its_newest_row() -> None:
    figure = own(
        measured(40.0, execution=software("cpu")),
        measured(10.0, execution=software("openvino", "bf16"), time="2026-11-01T00:00:00+00:00"),
        measured(12.0, execution=software("openvino", "bf16"), time="2026-11-02T00:00:00+00:00"),
        measured(
            3.0, execution=software("openvino", "int8"), validity={"verdict": "suspect", "reasons": ["throttled"]}
        ),
    )
    assert figure is not None
    assert (figure.latency_ms, figure.platform, figure.precision, figure.verdict) == (12.0, "openvino", "bf16", "valid")


def test_suspect_row_is_shown_and_marked_where_nothing_is_valid() -> None:
    card = made([measured(3.0, validity={"verdict": "suspect", "reasons": ["throttled"]})])
    assert card.rows[0].own is not None and card.rows[0].own.reasons == ["throttled"]
    for text in (picture.svg(card, "light"), page.as_html(card), picture.description(card)):
        assert "suspect" in text
    assert "throttled" in page.as_html(card)


@pytest.mark.parametrize(
    "changes",
    [
        {"validity": {"verdict": "invalid", "reasons": ["negative"]}},
        {"provenance": {"origin": "simulated", "source": "nobody"}},
        {"provenance": {"origin": "page", "source": "a page"}},
        {"workload": {"mode": "training", **PASS}},
        {"workload": {"mode": "inference", "batch_size": 8, "sequence_length": 128}},
        {"workload": {"mode": "inference", "batch_size": 1, "sequence_length": 512}},
        {"hardware": {"id": "another", "kind": "cpu", "count": 1}},
    ],
    ids=["invalid", "simulated", "page", "training", "other batch", "other length", "other machine"],
)
def test_other_rows_are_never_shown_as_a_call(changes: dict[str, Any]) -> None:
    assert own(measured(5.0, **changes)) is None


def test_missing_measurement_is_a_dash_with_the_command_that_fills_it() -> None:
    card = made([])
    row = card.rows[0]
    assert row.own is None and row.command == f"assay bench {BERT} --sequence-lengths 128"
    assert row.command in page.as_html(card) and headline(row.model.sizes, None).text == "—"
    assert "assay card --measure" in picture.svg(card, "light")


def test_named_model_stands_first_and_takes_the_place_of_its_class() -> None:
    rows = chosen_models(["resnet-50"])
    assert [models[0].label for models in rows] == [
        "ResNet-50",
        "BERT-base",
        "Whisper tiny",
        "CLIP ViT-B/32",
        "GPT-2 124M",
    ]
    assert next(models[0].id for models in chosen_models([])) == BERT


def test_unknown_model_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownModel) as refused:
        made([], "bert-base-uncasd")
    assert refused.value.field == "MODEL"


def test_class_shows_the_model_that_was_measured() -> None:
    image = {"mode": "inference", "batch_size": 1, "image_size": 224}
    card = made([measured(9.0, "microsoft/resnet-50", workload=image)])
    assert [row.model.label for row in card.rows][1] == "ResNet-50"
    here = machine()
    evidence = events_evidence([measured(9.0, "microsoft/resnet-50", workload=image)], here)
    assert [is_measured(models, evidence) for models in chosen_models([])] == [False, True, False, False, False]


def test_model_of_ones_own_has_the_sizes_that_were_measured() -> None:
    card = made(
        [measured(7.0, "acme/tiny", workload={"mode": "inference", "batch_size": 1, "image_size": 96})], "acme/tiny"
    )
    row = card.rows[0]
    assert row.own is not None and row.model.sizes == Sizes(image_size=96) and row.model.label == "tiny"


@pytest.mark.parametrize(
    ("sizes", "value", "unit", "interval"),
    [
        (Sizes(sequence_length=128), "100", "ms", "80–125"),
        (Sizes(audio_seconds=30.0, output_tokens=100), "300", "× real time", "240–375"),
        (Sizes(input_tokens=64, output_tokens=16), "160", "tokens/s", "128–200"),
        (None, "100", "ms", "80–125"),
    ],
)
def test_headline_is_time_or_rate_by_the_call(sizes: Sizes | None, value: str, unit: str, interval: str) -> None:
    figure = CardFigure(basis="predicted", latency_ms=100.0, latency_ms_low=80.0, latency_ms_high=125.0)
    words = headline(sizes, figure)
    assert (words.value, words.unit) == (value, unit)
    low, high = (float(end) for end in words.interval.split("–"))
    wanted = [float(end) for end in interval.split("–")]
    assert [low, high] == pytest.approx(wanted, rel=0.1)


def test_kernels_of_the_newest_calibration_reach_the_roofline() -> None:
    def timed(latency_ms: float, run: str) -> dict[str, Any]:
        data = {
            "run_id": run, "hardware": {"id": "acme-cpu", "kind": "cpu", "count": 1}, "execution": software("cpu"),
            "operator": "gemm", "timings": 1, "columns": {"latency_ms": [latency_ms], "m": [1024], "n": [1024], "k": [1024]},
            "types": {"operands": "fp32"}, "provenance": {"origin": "measured", "source": "assay-runner"},
        }  # fmt: skip
        return {"id": run, "type": "assay.kernel.measured.v1", "data": data}

    here = machine()
    card = gather(here, chosen_models([]), events_evidence([timed(1.0, "old"), timed(2.0, "new")], here), None, MADE)
    roof = next(roof for roof in card.roofline.roofs if roof.precision == "fp32")
    assert roof.measured_flops == pytest.approx(2 * 1024**3 / 2e-3) and roof.measured_by == "calibrate"
    assert len(card.roofline.kernels) == 1


# The machine


def test_title_says_the_machine_as_people_do() -> None:
    assert title_of(machine()) == "Acme 9000 · 2 cores · 24 GB"


def test_accelerators_are_the_machine_and_the_processor_their_host() -> None:
    parts = [
        described("acme-cpu", name="AMD EPYC 9654 96-Core Processor"),
        described("nvidia-l4", "gpu", "NVIDIA L4", 8),
    ]
    gpus, host = machine_of(parts), machine_of(parts, "acme-cpu")
    assert gpus is not None and title_of(gpus) == "8 × NVIDIA L4 · 24 GB each" and gpus.host == "AMD EPYC 9654"
    assert host is not None and host.kind == "cpu" and machine_of(parts, "nvidia-t4") is None


def test_like_machines_are_of_the_same_kind_nearest_first_and_measured_where_some_are() -> None:
    here = require("nvidia-l4")
    near = like_machines(here)
    assert len(near) == 3 and here.id not in {spec.id for spec in near} and {spec.kind for spec in near} == {"gpu"}
    two = [require("nvidia-h100-sxm").id, require("nvidia-t4").id]
    assert [spec.id for spec in like_machines(here, two)] == two[::-1]


def test_nothing_private_is_on_a_card() -> None:
    card = made([measured(5.0)])
    texts = [picture.svg(card, "light"), page.as_html(card), msgspec.json.encode(card).decode()]
    assert not [secret for secret in SECRETS.values() for text in texts if secret in text]


def test_command_repeats_the_call() -> None:
    model = CardModel(id="openai/whisper-tiny", label="x", sizes=Sizes(audio_seconds=30.0, output_tokens=100))
    assert bench_command(model) == "assay bench openai/whisper-tiny --audio-seconds 30 --output-tokens 100"
    assert call_words(model.sizes) == "30 s audio, 100 tokens"


# The drawing


class Rectangle(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float
    text: str

    def meets(self, other: Rectangle) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def rectangles(svg: str) -> Iterator[Rectangle]:
    """The boxes of all texts of a picture, as wide as the widest font makes them."""
    for element in ElementTree.fromstring(svg).iter(TEXT):
        size, bold = float(element.attrib["font-size"]), element.get("font-weight") == "700"
        width = text_width(element.text or "", size, bold=bold)
        width += sum(5 + text_width(part.text or "", float(part.attrib["font-size"])) for part in element)
        x, y = float(element.attrib["x"]), float(element.attrib["y"])
        x -= {"end": width, "middle": width / 2}.get(element.get("text-anchor", ""), 0.0)
        # Capitals and digits; tails of letters may reach into the line below.
        yield Rectangle(x, y - size * 0.73, x + width, y, "".join(element.itertext()))


def estimate(latency_ms: float, basis: str = "predicted", **how: Any) -> CardFigure:
    ends = {"latency_ms_low": latency_ms / 3, "latency_ms_high": latency_ms * 3}
    return CardFigure(
        basis=basis, latency_ms=latency_ms, **{"platform": "onnxruntime", "precision": "amp-fp16", **ends, **how}
    )


LONG = "nvidia-rtx-pro-6000-blackwell-server-edition"
MACHINES = {
    "small": ("AMD EPYC 9005 · 2 cores · 24 GB", ["intel-core-i7-1185gre", "intel-xeon-platinum-8480-plus"], 48.1),
    "eight": (f"8 × {require(LONG).name} · 96 GB each", [LONG, "nvidia-h100-nvl"], 0.0123),
    "phone": ("Qualcomm Snapdragon 8 Elite Gen 5 for Galaxy · Adreno 840 · 12 GB", ["apple-m4", LONG], 123_456.0),
}


def crowded(name: str, *, suspect: bool = True) -> Card:
    """A card of which every place holds the longest that it may."""
    title, peers, latency_ms = MACHINES[name]
    card = made([measured(5.0)])
    verdict = "suspect" if suspect else "valid"
    how = {"basis": "measured", "verdict": verdict, "runtime": "onnxruntime", "platform": "cpu"}
    rows = [
        msgspec.structs.replace(
            row,
            own=estimate(latency_ms, **how),
            peers=[estimate(latency_ms * 3, "imported", runtime="tensorrt-llm"), estimate(latency_ms * 7)],
        )
        for row in card.rows
    ]
    rows[0] = msgspec.structs.replace(rows[0], model=CardModel(id="a/b", label="a-model-with-quite-a-long-name-indeed"))
    return msgspec.structs.replace(
        card, title=title, rows=rows, software=["driver 575.51.03", *card.software * 4],
        peers=[CardPeer(id=peer, name=require(peer).name) for peer in peers],
    )  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_texts_lie_inside_the_picture_and_never_on_each_other(name: str) -> None:
    boxes = list(rectangles(picture.svg(crowded(name), "light")))
    assert len(boxes) > 40
    assert not [box for box in boxes if box.left < 0 or box.right > picture.WIDTH or box.bottom > picture.HEIGHT]
    assert not [(a.text, b.text) for at, a in enumerate(boxes) for b in boxes[at + 1 :] if a.meets(b)]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=90), st.text(max_size=60), st.floats(1e-6, 1e9))
def test_any_name_and_figure_makes_a_picture_and_a_page(title: str, label: str, latency_ms: float) -> None:
    card = made([measured(5.0)])
    row = msgspec.structs.replace(
        card.rows[0], model=CardModel(id=label, label=label), own=estimate(latency_ms, "measured")
    )
    card = msgspec.structs.replace(card, title=title, rows=[row, *card.rows[1:]])
    boxes = list(rectangles(picture.svg(card, "dark")))
    assert max(box.right for box in boxes) <= picture.WIDTH
    assert page.as_html(card).endswith("</html>\n")


@given(st.text(max_size=80), st.floats(20, 400), st.booleans())
def test_cut_text_fits_its_room(text: str, width: float, bold: bool) -> None:
    assert text_width(fitted(text, width, 18, bold=bold), 18, bold=bold) <= max(width, text_width("…", 18, bold=bold))
    rows = wrapped(text, width, 18, 3, bold=bold)
    assert 1 <= len(rows) <= 3 and all(fitted(row, width, 18, bold=bold) == row or row == "…" for row in rows)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(colour: str, ground: str) -> float:
    low, high = sorted((luminance(colour), luminance(ground)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_text_and_marks_have_the_contrast_of_wcag(theme: Theme) -> None:
    svg, ground = picture.svg(crowded("small"), theme), INKS[theme].ground
    texts = {element.attrib["fill"] for element in ElementTree.fromstring(svg).iter(TEXT)}
    marks = set(re.findall(r'<(?:circle|polygon)[^>]* (?:fill|stroke)="(#[0-9A-F]{6})"', svg, re.IGNORECASE))
    assert min(contrast(colour, ground) for colour in texts) >= 4.5
    assert marks and min(contrast(colour, ground) for colour in marks) >= 3.0
    assert marks & set(PLATFORM_COLOURS[theme])


class Tags(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_files_need_nothing_else() -> None:
    card = crowded("small")
    svg, html = picture.svg(card, "light"), page.as_html(card)
    names = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(svg).iter()}
    tags = Tags(html).tags
    assert not {"script", "image", "use", "style", "foreignObject"} & names
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in tags}
    assert not [attribute for _, attributes in tags for attribute in attributes if attribute in ("src", "href")]
    assert "url(" not in svg + html and "@import" not in html
    assert max(len(svg), len(html)) < 100_000


def test_page_follows_the_screen_unless_a_theme_is_named() -> None:
    card = made([measured(5.0)])
    assert "prefers-color-scheme" in page.as_html(card)
    for theme in THEMES:
        fixed = page.as_html(card, theme)
        assert "prefers-color-scheme" not in fixed and f"--cFFFFFF:{INKS[theme].ground}" in fixed


def test_text_alternative_says_every_figure() -> None:
    root = ElementTree.fromstring(picture.svg(made([measured(48.1)]), "light"))
    title, description = (root.find(f"{{http://www.w3.org/2000/svg}}{name}") for name in ("title", "desc"))
    assert root.attrib["role"] == "img" and title is not None and description is not None
    assert "48.1 ms" in (description.text or "") and (description.text or "").count("not measured") == 4


def test_names_of_devices_fit_the_heads_of_columns() -> None:
    assert [id_ for id_ in catalogue() if "…" in "".join(picture.head_lines(short_name(id_))[1])] == []
