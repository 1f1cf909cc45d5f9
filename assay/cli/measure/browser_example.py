"""`assay browser example`: a folder with a page that runs a model on the backend that the evidence prefers and that works."""

from __future__ import annotations

import base64
import logging
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import rich_click as click

from assay.cli.measure.browser_links import BUILDS, digest_of, in_one_file, in_precision, input_names
from assay.cli.options import WORDS, as_json, served
from assay.cli.output import answers, grid, print_json, say
from assay.cli.output_files import OutputFile, overwritable
from domain.answers.links import ReferenceRule
from domain.configuration import Workload
from domain.errors import UnknownModel, UsageError
from domain.measured import STATED
from domain.vocabulary import precision_named
from presentation import formatting

if TYPE_CHECKING:
    from runner.models.build import Built

__all__ = ["Evidence", "ModelFile", "PageChoice", "Rung", "example", "in_order", "write_page"]

UNMEASURED = ("webnn", "webgpu", "wasm")
"""The order of backends of which nothing was measured."""
PRECISIONS = ("fp32", "fp16", "int8", "int4")
_PAGE = {"page.mjs": "page.mjs", "worker.mjs": "worker.mjs", "link.css": "style.css"}
_EXAMPLE = {"index.html": "index.html", "app.mjs": "app.mjs", "serve.txt": "serve.py", "README.txt": "README.txt"}


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The measurement that the place of a backend rests on."""

    row: str
    p50_ms: float
    low_ms: float | None
    high_ms: float | None
    browser: str | None
    browser_version: str | None
    verdict: str | None
    hardware: str


class ModelFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the folder, by its path in it."""

    path: str
    bytes: int
    digest: str


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """One backend to try: with which file, how far its outputs may be from the reference, and on what evidence.

    `note` says why there is no evidence, or what speaks against the backend.
    """

    backend: str
    precision: str
    evidence: Evidence | None = None
    note: str | None = None
    device_type: str | None = None
    model: ModelFile | None = None
    runtime: dict[str, str] = {}
    tolerance: ReferenceRule | None = None


class PageChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `choice.json`: which backends the page tries in which order, and why; times in ms and s."""

    model: str
    weights: str | None
    workload: Workload
    hardware: str | None
    runtime: str
    basis: str
    order: list[Rung]
    deadline_s: float = 60.0
    warm_up_ms: float = 2000.0
    measure_ms: float = 1000.0


@click.command(
    epilog="""\b
Examples:
  assay browser example bert-tiny --out bert-page && python bert-page/serve.py
  assay browser example bert-tiny --out bert-page --precision fp32,int8 --sequence-length 16
  assay browser example mobilenet --out page --hardware apple-m2 --server https://assay.example.org"""
)
@click.argument("model")
@click.option(
    "--out",
    required=True,
    type=OutputFile(folder=True, parents=True),
    metavar="DIR",
    help="A folder that is new or empty; with --force files of the same names are replaced.",
)
@click.option(
    "--precision",
    "precisions",
    type=WORDS,
    default="fp32",
    show_default=True,
    help="Of fp32, fp16, int8, int4. Each backend uses the fastest that was measured, else the first.",
)
@click.option(
    "--hardware", metavar="SLUG", help="Whose measurements decide; else the hardware with most backends measured."
)
@click.option("--sequence-length", type=click.IntRange(1, 8192), help="Tokens of a text; else the model's usual.")
@click.option("--image-size", type=click.IntRange(1, 4096), help="Side of an image in pixels; else the model's usual.")
@overwritable
@served
@as_json
def example(
    model: str,
    out: Path,
    force: bool,
    precisions: list[str],
    hardware: str | None,
    sequence_length: int | None,
    image_size: int | None,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Write a static page that runs a model on wasm, webgpu or webnn, whichever is measured to be fastest and works.

    At run time it goes on to the next backend where one is absent, fails or gives wrong outputs. The folder has the model
    as ONNX, the files of onnxruntime-web that it needs, and a README.txt with the headers that a host must send.
    """
    from runner.browser.locations import ONNXRUNTIME_WEB, onnxruntime_web

    named = _precisions(precisions)
    if not force:
        _check_empty(out)
    runtime = onnxruntime_web()
    sizes = {"sequence_length": sequence_length, "image_size": image_size}
    with tempfile.TemporaryDirectory(prefix="assay-example-") as work:
        folder = Path(work) / "page"
        exported = _export(model, named, {name: size for name, size in sizes.items() if size}, folder, Path(work))
        rows, failed = _known(exported.model, exported.workload, server, token)
        rungs, device = in_order(rows, named, failed, hardware)
        choice = PageChoice(
            model=exported.model,
            weights=exported.weights,
            workload=exported.workload,
            hardware=device,
            runtime=f"onnxruntime-web {ONNXRUNTIME_WEB}",
            basis=_basis(rungs, device, exported.weights),
            order=[_with_files(rung, exported.files[rung.precision]) for rung in rungs],
        )
        write_page(folder, runtime, choice)
        out.mkdir(parents=True, exist_ok=True)
        shutil.copytree(folder, out, dirs_exist_ok=True)
    if as_json:
        print_json(choice)
    else:
        _show(choice, out)
    return 0


def in_order(
    rows: Iterable[Mapping[str, Any]],
    precisions: Sequence[str],
    failed: Mapping[tuple[str, str], str],
    hardware: str | None = None,
) -> tuple[list[Rung], str | None]:
    """Return the backends in the order to try them, and the hardware whose measurements decide.

    Of `rows` of a comparison, those of one hardware count: times of two machines say nothing of two backends. Measured
    backends come by their median, then those that were not measured, then those whose outputs were wrong: `failed` maps a
    platform and precision to the test that found it. A software adapter says nothing of WebGPU elsewhere.
    """
    usable = [
        row for row in rows if row["platform"] in UNMEASURED and row["precision"] in precisions and row["latency_ms"]
    ]
    usable = [row for row in usable if hardware in (None, row["hardware"])]
    software = [row for row in usable if row["platform"] == "webgpu" and _may_be_software(row)]
    usable = [row for row in usable if row not in software]
    device = hardware or _most_measured(usable)
    usable = [row for row in usable if row["hardware"] == device]
    rungs = [_rung(backend, usable, software, precisions, failed) for backend in UNMEASURED]
    places = {
        rung.backend: (
            (rung.backend, rung.precision) in failed,
            rung.evidence is None,
            rung.evidence.p50_ms if rung.evidence else 0.0,
        )
        for rung in rungs
    }
    return sorted(rungs, key=lambda rung: places[rung.backend]), device if usable else None


def _may_be_software(row: Mapping[str, Any]) -> bool:
    """Whether the adapter was the processor; a row of a link says so by its verdict alone."""
    device = str(row["device"] or "")
    return device.startswith("cpu") or (device == STATED and row["verdict"] == "suspect")


def _most_measured(rows: Iterable[Mapping[str, Any]]) -> str | None:
    backends: dict[str, set[str]] = {}
    for row in rows:
        backends.setdefault(row["hardware"], set()).add(row["platform"])
    return min(backends, key=lambda slug: (-len(backends[slug]), slug), default=None)


def _rung(
    backend: str,
    rows: Sequence[Mapping[str, Any]],
    software: Sequence[Mapping[str, Any]],
    precisions: Sequence[str],
    failed: Mapping[tuple[str, str], str],
) -> Rung:
    mine = [row for row in rows if row["platform"] == backend]
    device = "cpu" if backend == "webnn" else None
    best = min(
        mine,
        key=lambda row: ((backend, row["precision"]) in failed, row["verdict"] == "suspect", row["latency_ms"]),
        default=None,
    )
    if best is None:
        right = next((each for each in precisions if (backend, each) not in failed), precisions[0])
        note = _wrong(failed.get((backend, right)))
        if note is None and backend == "webgpu" and software:
            note = f"not measured but on a software adapter, row {software[0]['evidence'][0]}"
        return Rung(backend=backend, precision=right, note=note or "not measured", device_type=device)
    evidence = Evidence(
        row=best["evidence"][0],
        p50_ms=best["latency_ms"],
        low_ms=best["latency_ms_low"],
        high_ms=best["latency_ms_high"],
        browser=best["browser"],
        browser_version=best["browser_version"],
        verdict=best["verdict"],
        hardware=best["hardware"],
    )
    note = _wrong(failed.get((backend, best["precision"])))
    return Rung(backend=backend, precision=best["precision"], evidence=evidence, note=note, device_type=device)


def _wrong(test: str | None) -> str | None:
    return f"its outputs were wrong in test {test}" if test else None


def _precisions(words: Sequence[str]) -> list[str]:
    named = list(dict.fromkeys(map(precision_named, words)))
    unknown = [name for name in named if name not in PRECISIONS]
    if unknown:
        raise UsageError(
            f"a page cannot have {unknown[0]!r}.", field="precision", remedy=f"Choose of {', '.join(PRECISIONS)}."
        )
    return named


def _check_empty(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(
            f"{out} is there and not empty.", field="out", remedy="Name a folder that is new or empty, or add --force."
        )


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """The model as it was exported: its id, its work, and a file for each precision."""

    model: str
    weights: str | None
    workload: Workload
    files: dict[str, ModelFile]


def _export(name: str, precisions: Sequence[str], sizes: dict[str, Any], folder: Path, work: Path) -> Exported:
    """Write the model in each precision and the reference into the folder; UnsupportedWorkload where no page could run it."""
    from runner.models.build import build
    from runner.models.inputs import make_inputs, workload_defaults
    from runner.models.sources import resolve
    from runner.platforms.onnx_export import export

    # Quantising warns on the root logger.
    for logger in ("", "torch.onnx", "onnx_ir", "onnxscript"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    source = resolve(name)
    workload = workload_defaults(source, Workload(mode="inference", scenario="single_stream", batch_size=1, **sizes))
    say(f"[dim]{name}: exporting it, and running the reference[/dim]")
    built = build(source, image_size=workload.image_size)
    path = work / "model.onnx"
    export(built.module, make_inputs(built, workload), path, before_outputs="result/")
    (folder / "model").mkdir(parents=True)
    files = {}
    for precision in precisions:
        into = folder / "model" / f"{precision}.onnx"
        shutil.move(in_one_file(in_precision(path, precision), work), into)
        size = into.stat().st_size
        files[precision] = ModelFile(path=f"model/{precision}.onnx", bytes=size, digest=digest_of(into))
    _write_reference(built, workload, folder / files[precisions[0]].path, folder / "reference.json")
    described = built.model()
    return Exported(model=described.id, weights=described.weights, workload=workload, files=files)


def _write_reference(built: Built, workload: Workload, model: Path, into: Path) -> None:
    """Write one input and what torch gives for it in fp32 on the processor."""
    import numpy as np

    from runner.measure.reference_outputs import reference_of
    from runner.models.inputs import make_inputs
    from runner.platforms.openvino_recording import settled

    inputs = make_inputs(built, workload)
    free, _ = settled(built.module, inputs)
    names = input_names(model)
    document = {
        "inputs": [_array(name, np.asarray(value)) for name, value in free.items() if name in names],
        "outputs": [
            _array(f"result/{name}", np.asarray(value, dtype="float32"))
            for name, value in reference_of(built.module, inputs, workload).items()
        ],
    }
    into.write_bytes(msgspec.json.encode(document))


def _array(name: str, array: Any) -> dict[str, Any]:
    import numpy as np

    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    data = base64.b64encode(little.tobytes()).decode()
    return {"name": name, "type": str(array.dtype), "dims": list(array.shape), "data": data}


def _known(
    model: str, workload: Workload, server: str | None, token: str | None
) -> tuple[list[dict[str, Any]], dict[tuple[str, str], str]]:
    """Return rows of this work in browsers, and the newest tests whose outputs were wrong by platform and precision."""
    from assay.cli.connection import reading

    with reading(server, token) as client:
        try:
            answer = client.compare_hardware(model, platform="web", batch_size=1, mode="inference")
            tests = client.tests(model=model)
        except UnknownModel:
            return [], {}
    sizes = ("sequence_length", "image_size")
    rows = [row for row in answer["rows"] if all(row[name] == getattr(workload, name) for name in sizes)]
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for test in sorted(tests, key=lambda test: test["position"]):
        newest[test["platform"], test["precision"]] = test
    return rows, {key: test["event_id"] for key, test in newest.items() if test["outcome"] == "failed"}


def _basis(rungs: Sequence[Rung], hardware: str | None, weights: str | None) -> str:
    text = f"Nothing was measured of this work in a browser: {', '.join(UNMEASURED)} are tried in this order."
    if any(rung.evidence for rung in rungs):
        text = f"The order is that of measurements on {hardware}; on another device it may be another one."
    return f"{text} The weights are random: times are real, and outputs mean nothing." if weights == "random" else text


def _with_files(rung: Rung, model: ModelFile) -> Rung:
    from runner.measure.output_comparison import tolerance_for

    rule = tolerance_for(rung.precision)
    parts = dict(zip(("module", "mjs", "wasm"), (f"ort/{name}" for name in BUILDS[rung.backend]), strict=True))
    return msgspec.structs.replace(
        rung,
        model=model,
        runtime=parts,
        tolerance=ReferenceRule(cosine=rule.cosine, relative=rule.relative),
    )


def write_page(folder: Path, runtime: Path, choice: PageChoice) -> None:
    """Write the page, what it loads of onnxruntime-web from its folder, and the choice into a folder that has the model."""
    import domain

    kept = resources.files(domain).joinpath("data", "browser")
    for name, into in _PAGE.items():
        (folder / into).write_bytes(kept.joinpath(name).read_bytes())
    for name, into in _EXAMPLE.items():
        (folder / into).write_bytes(kept.joinpath("example", name).read_bytes())
    (folder / "ort").mkdir()
    for name in dict.fromkeys(name for files in BUILDS.values() for name in files):
        shutil.copyfile(runtime / name, folder / "ort" / name)
    (folder / "choice.json").write_bytes(msgspec.json.format(msgspec.json.encode(choice), indent=2))


def _show(choice: PageChoice, out: Path) -> None:
    rows = [
        [
            str(number),
            rung.backend,
            rung.precision,
            formatting.latency(rung.evidence.p50_ms, rung.evidence.low_ms, rung.evidence.high_ms)
            if rung.evidence
            else formatting.MISSING,
            (rung.evidence.browser if rung.evidence else None) or formatting.MISSING,
            "; ".join(filter(None, [rung.evidence.verdict if rung.evidence else None, rung.note])),
        ]
        for number, rung in enumerate(choice.order, 1)
    ]
    heads: list[str | tuple[str, str]] = [
        ("#", "right"),
        ("backend", "fixed"),
        ("precision", "fixed"),
        ("p50", "right"),
        ("browser", "fixed"),
        "evidence",
    ]
    answers().print(grid(choice.model, heads, rows))
    say(choice.basis)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    answers().print(f"wrote {out} ({formatting.memory(size)}): python {out / 'serve.py'}", markup=False, soft_wrap=True)
