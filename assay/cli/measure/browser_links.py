"""`assay browser link`, `links`, `revoke`, `devices`, `accept`: any device with a browser measures by a link."""

from __future__ import annotations

import hashlib
import logging
import math
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import rich_click as click

from assay.cli.connection import connected
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from domain.answers.links import LinkedModel, LinkFile, NewLink, ReferenceRule
from domain.configuration import Workload
from domain.errors import UnsupportedWorkload, UsageError
from domain.vocabulary import precision_named
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client
    from domain.answers.links import MadeLink

__all__ = ["BUILDS", "accept", "devices", "digest_of", "in_one_file", "input_names", "link", "links", "revoke"]

POOL = 64
"""Inputs of a model; each device gets eight of them."""
_DURATION = re.compile(r"([0-9]{1,5})([mhd])")
_SECONDS = {"m": 60, "h": 3600, "d": 86400}
BUILDS = {
    "wasm": ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"),
    "webgpu": ("ort.webgpu.min.mjs", "ort-wasm-simd-threaded.asyncify.mjs", "ort-wasm-simd-threaded.asyncify.wasm"),
    "webnn": ("ort.webgpu.min.mjs", "ort-wasm-simd-threaded.asyncify.mjs", "ort-wasm-simd-threaded.asyncify.wasm"),
}
"""The files of onnxruntime-web for a backend: its module, and the script and the code of its WebAssembly."""


class Duration(click.ParamType[float]):
    """`30m`, `1h`, `7d`: how long a link lasts."""

    name = "30m|1h|7d"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds, from a minute to 30 days."""
        match = _DURATION.fullmatch(str(value))
        seconds = int(match[1]) * _SECONDS[match[2]] if match else math.nan
        if not 60 <= seconds <= 30 * 86_400:
            self.fail(f"{value!r} is not a time from 1m to 30d; write 30m, 1h or 7d", param, ctx)
        return float(seconds)


@click.command(
    epilog="""\b
Examples:
  assay browser link bert-tiny                      # one device, for an hour, from the service that runs here
  assay browser link bert-tiny mobilenet --expires 7d --uses 20 --server https://assay.example.org
  assay browser link bert-tiny --backend webgpu,wasm --json
  assay browser link bert-tiny --precision q4       # weights in four bits; fp16 and int8 likewise
  assay browser link bert-tiny --consent            # for a device of your own: it measures and sends without a click"""
)
@click.argument("models", nargs=-1, required=True, metavar="MODEL…")
@click.option("--expires", type=Duration(), default="1h", show_default=True, help="How long it can be opened.")
@click.option(
    "--uses", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many devices may open it."
)
@click.option(
    "--backend",
    "backends",
    default="wasm",
    show_default=True,
    metavar="wasm,webgpu,webnn",
    help="What the page tries, in this order; the first that works is measured.",
)
@click.option("--precision", type=click.Choice(["fp32", "fp16", "int8", "q4"]), default="fp32", show_default=True)
@click.option("--sequence-length", type=click.IntRange(1, 8192), help="Tokens of a text; else the model's usual.")
@click.option("--image-size", type=click.IntRange(1, 4096), help="Side of an image in pixels; else the model's usual.")
@click.option(
    "--runtime",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="The files of onnxruntime-web; else those that `assay browser install` brought.",
)
@click.option("--origin-trial", metavar="TOKEN", help="An origin-trial token that the page asks the browser with.")
@click.option("--consent", is_flag=True, help="The address agrees beforehand; for devices of your own.")
@served
@as_json
def link(models: tuple[str, ...], server: str | None, token: str | None, as_json: bool, **chosen: Any) -> int:
    """Make a link: whoever opens it measures these models in their browser and sends the result.

    The page says what it would send, and sends nothing before its person agrees. Results are shown with the origin
    `page`; they count in answers and training once you accept the device (`assay browser accept`).
    """
    backends = _backends(chosen["backends"])
    folder, version = _runtime(chosen["runtime"], backends)
    sizes = {name: chosen[name] for name in ("sequence_length", "image_size") if chosen[name]}
    with tempfile.TemporaryDirectory(prefix="assay-link-") as work, connected(server, token) as client:
        # A token that makes no links is refused before anything is exported.
        client.links()
        prepared = _prepared_models(models, chosen["precision"], sizes, Path(work), say)
        runtime = [
            _sent(client, folder / file, f"{backend}/{part}") for backend in backends for part, file in _parts(backend)
        ]
        offered = []
        for model in prepared:
            client.upload_link_file(model.pool_path, model.linked.pool, private=True)
            client.upload_link_file(model.path, model.linked.file.digest)
            offered.append(model.linked)
        made = client.make_link(
            NewLink(
                models=offered,
                runtime=runtime,
                runtime_version=version,
                backends=backends,  # type: ignore[arg-type]
                expires_s=chosen["expires"],
                uses=chosen["uses"],
                origin_trial=chosen["origin_trial"],
            )
        )
        address = client.server + made.path + ("&consent=yes" if chosen["consent"] else "")
    if as_json:
        print_json({"url": address, "link": made.link})
    else:
        _show(address, made)
    return 0


def _backends(text: str) -> list[str]:
    words = list(dict.fromkeys(word.strip() for word in text.split(",")))
    unknown = [word for word in words if word not in BUILDS]
    if unknown:
        raise UsageError(f"{unknown[0]!r} is no backend.", field="backend", remedy=f"Choose of {', '.join(BUILDS)}.")
    return words


def _runtime(folder: Path | None, backends: Sequence[str]) -> tuple[Path, str]:
    """Return the folder of onnxruntime-web's files and its version."""
    from runner.browser.locations import onnxruntime_web

    folder = folder or onnxruntime_web()
    missing = [file for backend in backends for _, file in _parts(backend) if not (folder / file).is_file()]
    if missing:
        raise UsageError(
            f"{folder} has no {missing[0]}.", field="runtime", remedy="Name the folder `dist` of onnxruntime-web."
        )
    match = re.search(r"ONNX Runtime Web v([\w.-]+)", (folder / BUILDS[backends[0]][0]).read_text("utf-8")[:2000])
    return folder, match[1] if match else folder.name.removeprefix("onnxruntime-web-")


def _parts(backend: str) -> list[tuple[str, str]]:
    return list(zip(("module", "mjs", "wasm"), BUILDS[backend], strict=True))


def _sent(client: Client, path: Path, name: str) -> LinkFile:
    with path.open("rb") as handle:
        digest = f"sha256:{hashlib.file_digest(handle, 'sha256').hexdigest()}"
    client.upload_link_file(path, digest)
    return LinkFile(name=name, digest=digest, size=path.stat().st_size)


def _show(address: str, made: MadeLink) -> None:
    out = answers()
    out.print(address, soft_wrap=True, markup=False)
    try:
        import segno
    except ModuleNotFoundError:
        say("a QR code needs the package segno: pip install 'assay-bench\\[browser]'")
    else:
        import io

        code = io.StringIO()
        segno.make(address, error="l", micro=False).terminal(code, compact=True, border=2)
        out.file.write(code.getvalue())
    uses = f"{made.link.uses} device{'s' if made.link.uses > 1 else ''}"
    say(
        f"link {made.link.id}: {', '.join(made.link.models)}; for {uses}, until {formatting.when(made.link.expires_at)}"
    )
    if address.startswith("http://") and not re.match(r"http://(127\.|localhost|\[::1\])", address):
        say("only one-thread WASM over plain http from another machine; serve it by HTTPS: docs/browser-links.md")
    elif address.startswith("http://"):
        say("this address works on this machine alone; a phone needs --server https://…: docs/browser-links.md")


@click.command("links")
@served
@as_json
def links(server: str | None, token: str | None, as_json: bool) -> int:
    """List links: what they ask for, how many devices opened them, whether they are open."""
    with connected(server, token) as client:
        made = client.links()
    if as_json:
        print_json(made)
        return 0
    rows = [
        [item.id, ", ".join(item.models), f"{item.opened} of {item.uses}", formatting.when(item.expires_at), item.state]
        for item in made
    ]
    answers().print(grid("Links", ["id", "models", "opened", "until", "state"], rows))
    return 0


@click.command(epilog="Example: assay browser revoke 3f2a90c1d477")
@click.argument("name", metavar="LINK")
@served
def revoke(name: str, server: str | None, token: str | None) -> int:
    """Revoke a link: nobody opens it any more, and no device that opened it sends results."""
    with connected(server, token) as client:
        revoked = client.revoke_link(name)
    say(f"link {revoked.id} is revoked")
    return 0


@click.command()
@served
@as_json
def devices(server: str | None, token: str | None, as_json: bool) -> int:
    """List the devices whose pages sent results, and which of them count."""
    with connected(server, token) as client:
        rows = client.browser_devices()
    if as_json:
        print_json(rows)
        return 0
    cells = [
        [
            item.device,
            ", ".join(item.hardware),
            ", ".join(item.platforms),
            str(item.measurements),
            str(item.failures or ""),
            formatting.when(item.newest),
            f"accepted by {item.by}" if item.accepted else "shown only",
        ]
        for item in rows
    ]
    answers().print(grid("Devices", ["device", "as stated", "on", "rows", "failed", "newest", "state"], cells))
    return 0


@click.command(
    epilog="""\b
Examples:
  assay browser accept page-5d41402abc4b2a76 --reason "the phone in our lab"
  assay browser accept page-5d41402abc4b2a76 --hardware apple-m1 --reason "the laptop of Ada"
  assay browser accept page-5d41402abc4b2a76 --undo --reason sold"""
)
@click.argument("device")
@click.option("--reason", required=True, help="Why; it stays in the log.")
@click.option("--hardware", metavar="SLUG", help="Which device it is; else what its person stated.")
@click.option("--undo", is_flag=True, help="Accept it no more: its rows leave answers and training.")
@served
@as_json
def accept(
    device: str, reason: str, hardware: str | None, undo: bool, server: str | None, token: str | None, as_json: bool
) -> int:
    """Accept a device: what it sent, and will send, counts in answers and training as imported rows."""
    with connected(server, token) as client:
        changed = client.reject_device(device, reason) if undo else client.accept_device(device, reason, hardware)
    if as_json:
        print_json(changed)
    else:
        state = "no longer count" if undo else "count"
        say(f"measurements of {device} that {state}: {changed.changed}")
    return 0


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A model as it is offered, and where its file and its pool are."""

    linked: LinkedModel
    path: Path
    pool_path: Path


def _prepared_models(
    names: Sequence[str], precision: str, sizes: dict[str, Any], folder: Path, say: Callable[[str], None]
) -> list[Prepared]:
    """Export each model and run the reference on a pool of inputs; UnsupportedWorkload where no page could run it."""
    from runner.models.sources import resolve

    for name in names:
        # A wrong name is told before the first model is exported.
        resolve(name)
    prepared = []
    for number, name in enumerate(dict.fromkeys(names)):
        say(f"[dim]{name}: exporting it, and running the reference on {POOL} inputs[/dim]")
        place = folder / str(number)
        place.mkdir()
        prepared.append(_prepared(name, precision, sizes, place))
    return prepared


def _prepared(name: str, precision: str, sizes: dict[str, Any], folder: Path) -> Prepared:
    import numpy as np

    from runner.measure.output_comparison import tolerance_for
    from runner.measure.reference_outputs import reference_of
    from runner.models.build import build
    from runner.models.inputs import make_inputs, workload_defaults
    from runner.models.sources import resolve
    from runner.platforms.onnx_export import export
    from runner.platforms.openvino_recording import settled

    # The exporter warns of parts of other models, and of folding that it did not do.
    for logger in ("torch.onnx", "onnx_ir", "onnxscript"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    source = resolve(name)
    workload = workload_defaults(source, Workload(mode="inference", scenario="single_stream", batch_size=1, **sizes))
    built = build(source, image_size=workload.image_size)
    precision = precision_named(precision)
    path = folder / "model.onnx"
    export(built.module, make_inputs(built, workload), path, before_outputs="result/")
    path = in_one_file(in_precision(path, precision), folder)
    names = input_names(path)
    arrays: dict[str, Any] = {}
    for at in range(POOL):
        inputs = make_inputs(built, workload, seed=at + 1)
        free, _ = settled(built.module, inputs)
        arrays |= {f"in/{at}/{key}": np.asarray(value) for key, value in free.items() if key in names}
        arrays |= {f"out/{at}/{key}": value for key, value in reference_of(built.module, inputs, workload).items()}
    pool = folder / "pool.npz"
    with pool.open("wb") as handle:
        np.savez(handle, allow_pickle=False, **arrays)
    rule = tolerance_for(precision)
    linked = LinkedModel(
        model=built.model(),
        workload=workload,
        precision=precision,
        file=LinkFile(name="model.onnx", digest=digest_of(path), size=path.stat().st_size),
        pool=digest_of(pool),
        tolerance=ReferenceRule(cosine=rule.cosine, relative=rule.relative),
    )
    return Prepared(linked=linked, path=path, pool_path=pool)


def in_precision(path: Path, precision: str) -> Path:
    """Return the file of a precision beside an exported model, as the platforms of browsers make it."""
    from runner.platforms.onnx_export import halve, quantize, quantize_to_4_bits

    if precision == "fp32":
        return path
    if precision == "fp16":
        return halve(path)
    into = path.with_name(f"{precision}.onnx")
    (quantize if precision == "int8" else quantize_to_4_bits)(path, into)
    return into


def in_one_file(path: Path, folder: Path) -> Path:
    """Return the model with its weights inside: a page fetches one file."""
    import onnx

    model = onnx.load(str(path))
    if model.ByteSize() >= 2**31 - 1:
        raise UnsupportedWorkload(
            f"the model takes {model.ByteSize() / 1e9:.1f} GB, and a page holds 2 GiB in one piece.",
            field="model",
            remedy="Offer a smaller model, or --precision int8.",
        )
    whole = folder / "whole.onnx"
    onnx.save(model, str(whole))
    return whole


def input_names(path: Path) -> set[str]:
    """Return the inputs of the graph; what exporting found to have no effect is none."""
    import onnx

    return {item.name for item in onnx.load(str(path), load_external_data=False).graph.input}


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file as links and pages name it."""
    with path.open("rb") as handle:
        return f"sha256:{hashlib.file_digest(handle, 'sha256').hexdigest()}"
