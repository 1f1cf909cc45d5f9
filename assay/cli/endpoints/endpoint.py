"""`assay endpoint`: serve models, and create, list, show, call, scale and remove what a server has."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from assay.cli.endpoints.checking import check
from assay.cli.options import WORDS, as_json
from assay.cli.output import answers, grid, print_json, say
from domain.errors import AssayError, ServiceUnavailable, UsageError

if TYPE_CHECKING:
    import httpx

__all__ = ["endpoint"]

_ADDRESS = "http://127.0.0.1:8600"
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kMGT]?i?B?)", re.I)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


@click.group(cls=click.RichGroup)
def endpoint() -> None:
    """Serve models behind KServe v2 and OpenAI-compatible routes; docs/serving.md."""


def _bytes(_: Any, __: Any, text: str | None) -> int | None:
    """Return the bytes that a size such as 4GB stands for."""
    if text is None:
        return None
    match = _SIZE.fullmatch(text.strip())
    number = float(match["number"]) * _UNITS[match["unit"].lower().removesuffix("b")] if match else 0
    if number < 1:
        raise click.BadParameter(f"{text!r} is no size; write 4GB or 512MiB.")
    return int(number)


def _configured(verb: Any) -> Any:
    for option in reversed(
        (
            click.option("--platform", metavar="P", help="Where it runs; chosen by the recommendation without it."),
            click.option(
                "--precision", metavar="P", help="Of the computing; chosen, or fp32 where a platform is named."
            ),
            click.option("--device", metavar="NAME", help="One device of the platform, as `assay detect` lists them."),
            click.option(
                "--weights", type=click.Choice(["auto", "pretrained", "random"]), default="auto", show_default=True
            ),
            click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads of one worker."),
            click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes."),
            click.option(
                "--max-batch", type=click.IntRange(1, 1024), default=8, show_default=True, help="Items of one call."
            ),
            click.option(
                "--max-wait-ms",
                type=click.FloatRange(0, 10_000),
                default=2.0,
                show_default=True,
                help="For others to join.",
            ),
            click.option(
                "--queue",
                type=click.IntRange(1, 100_000),
                default=256,
                show_default=True,
                help="Requests that may wait.",
            ),
            click.option(
                "--engine",
                type=click.Choice(["vllm", "ovms", "transformers"]),
                help="What serves a language model; the first that is installed without it.",
            ),
            click.option("--failover", type=WORDS, help="Platforms that may take over, in order; none without it."),
        )
    ):
        verb = option(verb)
    return verb


def _remote(verb: Any) -> Any:
    verb = click.option(
        "--token", envvar="ASSAY_MODELS_TOKEN", metavar="TOKEN", help="That of the server (ASSAY_MODELS_TOKEN)."
    )(verb)
    return click.option(
        "--url", default=_ADDRESS, show_default=True, envvar="ASSAY_MODELS_URL", help="Address of the server."
    )(verb)


@endpoint.command(
    epilog="""\b
Examples:
  assay endpoint serve bert-base-uncased
  assay endpoint serve ./my-checkpoint --name mine --platform openvino --precision fp32
  assay endpoint serve bert-tiny vit-base --memory-budget 4GB --failover cpu
  assay endpoint serve ./my-llama --name chat --platform cpu --engine transformers"""
)
@click.argument("models", nargs=-1, metavar="[MODEL…]")
@click.option("--name", help="Of the endpoint of one model; made of the model's without it.")
@_configured
@click.option(
    "--memory-budget", callback=_bytes, metavar="4GB", help="All models together; 80 % of what is free without it."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Beyond loopback only with a token.")
@click.option("--port", type=click.IntRange(1, 65535), default=8600, show_default=True)
@click.option(
    "--token", envvar="ASSAY_MODELS_TOKEN", metavar="TOKEN", help="That clients must send (ASSAY_MODELS_TOKEN)."
)
@click.option(
    "--server", envvar="ASSAY_SERVER", metavar="URL", help="Service that chooses, and gets the events (ASSAY_SERVER)."
)
@as_json
def serve(models: tuple[str, ...], name: str | None, memory_budget: int | None, as_json: bool, **how: Any) -> int:
    """Serve models until Ctrl-C: each in processes of its own, on the platform that the recommendation names.

    Without a platform the service answers which of those that work here to use. Another one than was asked for never
    does the work silently: it takes over only where --failover names it, and an event says so.
    """
    from assay.cli.endpoints.serving import Settings, serve_models

    if name and len(models) != 1:
        raise UsageError("--name is of one model.", field="name", remedy="Leave it out, or name one model.")
    specs = [_spec(model, name, how) for model in models]
    settings = Settings(
        host=how["host"],
        port=how["port"],
        token=how["token"],
        budget_bytes=memory_budget,
        service=how["server"],
        service_token=os.environ.get("ASSAY_TOKEN"),
        as_json=as_json,
    )
    return serve_models(specs, settings)


def _spec(model: str, name: str | None, how: dict[str, Any]) -> Any:
    import msgspec

    from runner.serving.contract import EndpointSpec

    path = Path(model).expanduser()
    given = {
        "name": name or _name_of(model),
        "model": str(path.resolve()) if path.is_dir() else model,
        "platform": how["platform"],
        "precision": how["precision"],
        "device": how["device"],
        "weights": how["weights"],
        "threads": how["threads"],
        "workers": how["workers"],
        "max_batch": how["max_batch"],
        "max_wait_ms": how["max_wait_ms"],
        "queue_limit": how["queue"],
        "failover": how["failover"] or (),
        "engine": how["engine"],
    }
    try:
        return msgspec.convert(given, EndpointSpec)
    except msgspec.ValidationError as error:
        raise UsageError(f"{error}.", field="name", remedy="Take letters, digits, ., _, + and -.") from None


def _name_of(model: str) -> str:
    """Return the name of an endpoint: the last part of the model's, as it may stand in an address."""
    last = model.rstrip("/").rsplit("/", 1)[-1]
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", last).strip("-._+")[:64] or "model"


@endpoint.command(epilog="Example: assay endpoint create bert-tiny --name tiny --platform openvino")
@click.argument("model")
@click.option("--name", help="Of the endpoint; made of the model's without it.")
@_configured
@_remote
@as_json
def create(model: str, name: str | None, url: str, token: str | None, as_json: bool, **how: Any) -> int:
    """Load a model in a running server, and serve it."""
    import msgspec

    _show(_ask("POST", url, token, "/v1/endpoints", content=msgspec.json.encode(_spec(model, name, how))), as_json)
    return 0


@endpoint.command("list", epilog="Example: assay endpoint list --json")
@_remote
@as_json
def list_(url: str, token: str | None, as_json: bool) -> int:
    """List the endpoints of a running server."""
    rows = _ask("GET", url, token, "/v1/endpoints")
    if as_json:
        print_json(rows)
        return 0
    columns: list[str | tuple[str, str]] = [
        "endpoint",
        "model",
        "platform",
        "precision",
        "state",
        ("workers", "right"),
        ("requests", "right"),
        ("failures", "right"),
    ]
    cells = [
        [row["spec"]["name"], row["model_id"], row.get("platform", ""), row.get("precision", ""), row["state"]]
        + [str(row.get(name, 0)) for name in ("workers", "requests", "failures")]
        for row in rows
    ]
    answers().print(grid(f"Endpoints of {url}", columns, cells))
    return 0


@endpoint.command(epilog="Example: assay endpoint show tiny")
@click.argument("name")
@_remote
@as_json
def show(name: str, url: str, token: str | None, as_json: bool) -> int:
    """Show an endpoint: where it runs, what it takes, what was promised."""
    _show(_ask("GET", url, token, f"/v1/endpoints/{name}"), as_json)
    return 0


@endpoint.command(epilog="Example: assay endpoint scale tiny 2")
@click.argument("name")
@click.argument("workers", type=click.IntRange(1, 64))
@_remote
@as_json
def scale(name: str, workers: int, url: str, token: str | None, as_json: bool) -> int:
    """Change how many processes answer an endpoint."""
    _show(_ask("PATCH", url, token, f"/v1/endpoints/{name}", json={"workers": workers}), as_json)
    return 0


@endpoint.command(epilog="Example: assay endpoint remove tiny")
@click.argument("name")
@_remote
@as_json
def remove(name: str, url: str, token: str | None, as_json: bool) -> int:
    """Answer what waits, end an endpoint, and give its memory back."""
    status = _ask("DELETE", url, token, f"/v1/endpoints/{name}")
    print_json(status) if as_json else say(f"{name} was removed")
    return 0


@endpoint.command(
    epilog="""\b
Examples:
  assay endpoint invoke tiny
  assay endpoint invoke tiny --input request.json
  assay endpoint invoke tiny --input arrays.npz --json"""
)
@click.argument("name")
@click.option(
    "--input",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON of the protocol, or .npz.",
)
@_remote
@as_json
def invoke(name: str, file: Path | None, url: str, token: str | None, as_json: bool) -> int:
    """Call an endpoint once, with the inputs of a file or with example inputs of the right shapes."""
    import time

    body = file.read_bytes() if file and file.suffix == ".json" else _request(name, file, url, token)
    began = time.perf_counter()
    answer = _ask("POST", url, token, f"/v2/models/{name}/infer", content=body)
    took = (time.perf_counter() - began) * 1e3
    if as_json:
        print_json(answer)
        return 0
    rows = [
        [
            output["name"],
            output["datatype"],
            "×".join(map(str, output["shape"])),
            ", ".join(f"{x:.4g}" for x in output["data"][:4]),
        ]
        for output in answer["outputs"]
    ]
    answers().print(grid(f"{name}, {took:.2f} ms", ["output", "type", "shape", "first numbers"], rows))
    return 0


def _request(name: str, file: Path | None, url: str, token: str | None) -> bytes:
    """Return the body for the arrays of a file, or for ones where none is given."""
    import msgspec
    import numpy as np

    described = _ask("GET", url, token, f"/v2/models/{name}")["inputs"]
    arrays: dict[str, Any] = {}
    if file:
        try:
            with np.load(file, allow_pickle=False) as stored:
                arrays = {key: stored[key] for key in stored.files}
        except (ValueError, OSError) as error:
            raise UsageError(
                f"{file} cannot be read: {error}.", field="input", remedy="Give a .json or an .npz file."
            ) from None
    inputs = []
    for spec in described:
        shape = [size if size > 0 else (1 if axis == 0 else 16) for axis, size in enumerate(spec["shape"])]
        array = arrays.get(spec["name"], np.ones(shape)) if not file else arrays.get(spec["name"])
        if array is None:
            raise UsageError(
                f"{file} has no array {spec['name']}.", field="input", remedy="Name arrays as the inputs are."
            )
        inputs.append(
            {
                "name": spec["name"],
                "datatype": spec["datatype"],
                "shape": list(array.shape),
                "data": _plain(array, spec),
            }
        )
    return msgspec.json.encode({"inputs": inputs})


def _plain(array: Any, spec: dict[str, Any]) -> list[Any]:
    numbers: list[Any] = array.ravel().tolist()
    return [int(number) for number in numbers] if "INT" in spec["datatype"] else numbers


def _show(status: dict[str, Any], as_json: bool) -> None:
    from assay.cli.endpoints.serving import describe

    if as_json:
        print_json(status)
        return
    say(describe(status))
    memory = status.get("memory_bytes")
    counts = f"state {status['state']}, {status.get('requests', 0)} requests, {status.get('failures', 0)} failures"
    say(f"  {counts}" + (f", {memory / 1e6:,.0f} MB" if memory else ""))


def _ask(method: str, url: str, token: str | None, path: str, **content: Any) -> Any:
    """Return what a server of models answers; its refusals are raised as they are."""
    import httpx

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        answer = httpx.request(method, url.rstrip("/") + path, headers=headers, timeout=900, **content)
    except httpx.HTTPError as error:
        raise ServiceUnavailable(
            f"no server of models answers at {url}: {error}.",
            field="url",
            remedy="Start one with assay endpoint serve MODEL.",
        ) from error
    if answer.status_code >= 400:
        raise _refused(answer)
    return answer.json()


def _refused(answer: httpx.Response) -> AssayError:
    try:
        document = answer.json()
    except ValueError:
        document = {}
    detail = document.get("detail") or document.get("error") or f"the server answers {answer.status_code}"
    error = AssayError(str(detail))
    error.exit_code = 2 if answer.status_code in (400, 404, 409, 422) else 3
    return error


endpoint.add_command(check)
