"""Life-cycle checks of an endpoint, ours or a foreign one: create, ready, metadata, invoke, refuse, remove, gone.

Protocols are KServe v2 (Open Inference Protocol) and OpenAI's. Each check is repeated in every cycle, and successes and failures are counted.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urljoin

import httpx
import msgspec

from domain.configuration import Execution, Hardware, Model, Workload
from domain.errors import NotFound, ServiceUnavailable, UsageError
from domain.events import RUN_FINISHED, RUN_STARTED, TEST_REPORTED, uuid7
from domain.measured import Failure
from domain.payloads import RunFinished, RunStarted, TestReported
from runner.campaign.event_payloads import provenance, runner_source, stamped
from runner.machine.environment import environment
from runner.serving.contract import EndpointSpec

__all__ = ["CHECKS", "PROTOCOLS", "Lifecycle", "ProtocolName", "Step", "check_endpoint", "events_of"]

ProtocolName = Literal["kserve", "openai"]
PROTOCOLS: tuple[ProtocolName, ...] = ("kserve", "openai")
CHECKS = ("create", "ready", "metadata", "invoke", "stream", "async", "wrong input", "concurrent", "remove", "gone")
_PARALLEL = 8
_POLL_S = 0.05
_INTEGERS = {"INT8": 1, "INT16": 1, "INT32": 1, "INT64": 1, "UINT8": 1, "UINT16": 1, "UINT32": 1, "UINT64": 1}
_SAMPLE = {"BOOL": True, "BYTES": "a", "FP16": 0.5, "FP32": 0.5, "FP64": 0.5, "BF16": 0.5, **_INTEGERS}
_OTHER_DIMENSIONS = 8
"""The size of a free dimension that is not the first, such as the length of a sequence."""

_BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "time"}], "max_tokens": 4},
    "/v1/completions": {"prompt": "time", "max_tokens": 4},
    "/v1/embeddings": {"input": "time"},
}
"""A small request of each route, in the order tried; its first member is the input."""


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One check in one cycle: what was seen, and how long it took in ms."""

    check: str
    cycle: int
    outcome: Literal["passed", "failed", "skipped"]
    said: str
    ms: float | None = None


class Lifecycle(msgspec.Struct, frozen=True, kw_only=True):
    """All checks of one endpoint."""

    url: str
    protocol: ProtocolName
    model: str
    cycles: int
    steps: tuple[Step, ...]

    def count(self, outcome: str, check: str | None = None) -> int:
        """Return how many checks, or repetitions of one check, had an outcome."""
        return sum(step.outcome == outcome and check in (None, step.check) for step in self.steps)

    @property
    def passed(self) -> bool:
        """Whether something passed and nothing failed."""
        return self.count("passed") > 0 and self.count("failed") == 0


class _Fault(Exception):
    """A check failed: the sentence says what was seen."""


class _Skip(Exception):
    """A check does not apply to this server: the sentence says why."""


def check_endpoint(
    url: str,
    *,
    model: str | None = None,
    protocol: ProtocolName | None = None,
    create: str | None = None,
    platform: str | None = None,
    cycles: int = 1,
    key: str | None = None,
    timeout_s: float = 60.0,
    on_step: Callable[[Step], None] | None = None,
) -> Lifecycle:
    """Run the life-cycle checks against an endpoint and return what was seen.

    `create` is the model of an endpoint that each cycle creates, checks and removes, on a server that can (ours can);
    `platform` is where it is to run, which the server chooses by default.
    Without it an existing `model` is checked: the first that the server lists, if none is named. A protocol that is not
    named is found by asking. Raises ServiceUnavailable where nothing answers, and UsageError for options that do not fit.
    """
    if cycles < 1:
        raise UsageError("must be 1 or more.", field="cycles", remedy="Leave it out for one cycle.")
    if create and model:
        raise UsageError("goes without --model.", field="create", remedy="A created endpoint gets a name of its own.")
    if platform and not create:
        raise UsageError("goes with --create.", field="platform", remedy="A model that is there runs where it runs.")
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url!r} is no address.", field="url", remedy="Write http://127.0.0.1:8000.")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    # A connection for each request: servers may close one after an error, and the next request would fail with it.
    limits = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(
        base_url=url.rstrip("/"), headers=headers, timeout=timeout_s, trust_env=False, limits=limits
    ) as http:
        spoken = protocol or _found_protocol(http, url)
        steps: list[Step] = []
        name = ""
        for cycle in range(1, cycles + 1):
            name = f"assay-check-{uuid7()[-8:]}" if create else model or _first_model(http, spoken)
            talk = _KServe(http, name, timeout_s) if spoken == "kserve" else _OpenAI(http, name, timeout_s)
            for step in _cycle(talk, create, platform, cycle):
                steps.append(step)
                if on_step:
                    on_step(step)
    return Lifecycle(url=url, protocol=spoken, model=create or name, cycles=cycles, steps=tuple(steps))


def _found_protocol(http: httpx.Client, url: str) -> ProtocolName:
    try:
        if http.get("/v2/health/live").is_success or http.get("/v2").is_success:
            return "kserve"
        if http.get("/v1/models").is_success:
            return "openai"
    except httpx.HTTPError as error:
        raise ServiceUnavailable(
            f"{url} does not answer: {error}.", field="url", remedy="Start the server, and name its address."
        ) from None
    raise UsageError(
        f"{url} answers neither /v2 nor /v1/models.",
        field="protocol",
        remedy="Name kserve or openai, and the base address.",
    )


def _first_model(http: httpx.Client, protocol: ProtocolName) -> str:
    path = "/v1/models" if protocol == "openai" else "/v1/endpoints"
    try:
        document = http.get(path).json()
        rows = document if isinstance(document, list) else document.get("data") or document.get("endpoints") or []
        names = [row.get("id") or row.get("name") or row.get("spec", {}).get("name") for row in rows]
    except (httpx.HTTPError, ValueError, AttributeError):
        names = []
    if not names or not isinstance(names[0], str):
        raise NotFound(
            "the server lists no model.", field="model", remedy="Name one with --model, or give --create MODEL."
        )
    return names[0]


def _cycle(talk: _Talk, create: str | None, platform: str | None, cycle: int) -> Iterator[Step]:
    """Yield each check of one cycle; what was created is removed, whatever happened between."""
    made = False
    if create:
        step = _step("create", cycle, lambda: talk.create(create, platform))
        made = step.outcome == "passed"
        yield step
        if not made:
            return
    try:
        ready = _step("ready", cycle, talk.ready)
        yield ready
        checks: Sequence[tuple[str, Callable[[], str]]] = (
            ("metadata", talk.metadata),
            ("invoke", talk.invoke),
            ("stream", talk.stream),
            ("async", talk.invoke_later),
            ("wrong input", talk.wrong_input),
            ("concurrent", talk.concurrent),
        )
        for check, act in checks if ready.outcome == "passed" else ():
            yield _step(check, cycle, act)
    finally:
        removal = _step("remove", cycle, talk.remove) if made else None
    if removal:
        yield removal
        yield _step("gone", cycle, talk.gone)


def _step(check: str, cycle: int, act: Callable[[], str]) -> Step:
    began = time.perf_counter()
    outcome: Literal["passed", "failed", "skipped"] = "passed"
    try:
        said = act()
    except _Skip as skip:
        return Step(check=check, cycle=cycle, outcome="skipped", said=str(skip))
    except _Fault as fault:
        outcome, said = "failed", str(fault)
    except httpx.HTTPError as error:
        outcome, said = "failed", f"no answer: {error or type(error).__name__}"
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        outcome, said = "failed", f"an answer of another form than the protocol's: {type(error).__name__}: {error}"
    return Step(check=check, cycle=cycle, outcome=outcome, said=said, ms=(time.perf_counter() - began) * 1e3)


class _Talk(ABC):
    """What both protocols have in common; `name` is the model's in the routes."""

    def __init__(self, http: httpx.Client, name: str, timeout_s: float) -> None:
        self.http, self.name, self.timeout_s = http, name, timeout_s

    def create(self, model: str, platform: str | None) -> str:
        body = msgspec.json.encode(EndpointSpec(name=self.name, model=model, platform=platform))
        answer = self.http.post("/v1/endpoints", content=body, headers={"Content-Type": "application/json"})
        _require(answer, "POST /v1/endpoints")
        return f"{model} as {self.name}"

    @abstractmethod
    def ready(self) -> str: ...

    @abstractmethod
    def metadata(self) -> str: ...

    @abstractmethod
    def invoke(self) -> str: ...

    def stream(self) -> str:
        raise _Skip("this protocol has no streams of tensors")

    def invoke_later(self) -> str:
        raise _Skip("this protocol has no calls whose answer is fetched later")

    @abstractmethod
    def wrong_input(self) -> str: ...

    def concurrent(self) -> str:
        """Call from several threads at once: each is answered, or refused because the server is full."""
        with ThreadPoolExecutor(_PARALLEL) as threads:
            answers = [future.result() for future in [threads.submit(self._invoke) for _ in range(_PARALLEL)]]
        good = sum(answer.is_success for answer in answers)
        full = sum(answer.status_code in (429, 503) for answer in answers)
        if good + full < _PARALLEL or not good:
            bad = next(answer for answer in answers if not answer.is_success)
            raise _Fault(f"{good} of {_PARALLEL} were answered, {full} refused as too many; one gave {_told(bad)}")
        return f"{good} of {_PARALLEL} answered, {full} refused as too many"

    def remove(self) -> str:
        _require(self.http.delete(f"/v1/endpoints/{quote(self.name)}"), "DELETE")
        return self.name

    def gone(self) -> str:
        """Check that a removed endpoint is neither shown nor answers."""
        for what, answer in (
            ("GET /v1/endpoints", self.http.get(f"/v1/endpoints/{quote(self.name)}")),
            ("an invocation", self._invoke()),
        ):
            if answer.status_code not in (404, 410):
                raise _Fault(f"{what} gave {_told(answer)}, not 404")
        return "404 for its status and its routes"

    @abstractmethod
    def _invoke(self) -> httpx.Response: ...

    def _refused(self, what: str, answer: httpx.Response, *names: str) -> None:
        """Raise where a wrong request was not refused as the caller's mistake, by name."""
        if not 400 <= answer.status_code < 500:
            raise _Fault(f"{what} gave {_told(answer)}, not 4xx")
        if not any(name in answer.text for name in names):
            raise _Fault(f"{what} was refused without naming {' or '.join(names)}: {_told(answer)}")


class _KServe(_Talk):
    _inputs: list[dict[str, Any]] | None = None

    @property
    def _base(self) -> str:
        return f"/v2/models/{quote(self.name)}"

    def ready(self) -> str:
        until, began = time.monotonic() + self.timeout_s, time.monotonic()
        while not (answer := self.http.get(f"{self._base}/ready")).is_success:
            if answer.status_code == 404 or time.monotonic() > until:
                raise _Fault(f"{self._base}/ready gave {_told(answer)}")
            time.sleep(_POLL_S)
        for path in ("/v2/health/live", "/v2/health/ready"):
            _require(self.http.get(path), path)
        return f"after {time.monotonic() - began:.1f} s"

    def metadata(self) -> str:
        answer = self.http.get(self._base)
        _require(answer, self._base)
        document = answer.json()
        sides = {
            side: [(row["name"], row["datatype"], row["shape"]) for row in document[side]]
            for side in ("inputs", "outputs")
        }
        if document["name"] != self.name or not all(sides.values()):
            raise _Fault(
                f"metadata of {document['name']!r} with {len(sides['inputs'])} inputs, {len(sides['outputs'])} outputs"
            )
        return ", ".join(f"{name} {kind} {shape}" for name, kind, shape in sides["inputs"])

    def invoke(self) -> str:
        return self._outputs(self._invoke())

    def invoke_later(self) -> str:
        """Ask for an answer that is fetched later, and fetch it."""
        answer = self._infer(self._example(), {"Prefer": "respond-async"})
        if answer.status_code == 200:
            raise _Skip("the server answers at once")
        if answer.status_code != 202 or "location" not in answer.headers:
            raise _Fault(f"Prefer: respond-async gave {_told(answer)}, not 202 with a location")
        place, until = urljoin(str(answer.url), answer.headers["location"]), time.monotonic() + self.timeout_s
        while (answer := self.http.get(place)).status_code == 202:
            if time.monotonic() > until:
                raise _Fault("no result was there in time")
            time.sleep(_POLL_S)
        return self._outputs(answer)

    def wrong_input(self) -> str:
        """Send another name, another shape and another model: each is refused by name, and the endpoint still answers."""
        inputs = self._example()
        first = inputs[0]["name"]
        self._refused(
            "another input name",
            self._infer([{**inputs[0], "name": "no_such_input"}, *inputs[1:]]),
            "no_such_input",
            first,
        )
        short = {**inputs[0], "shape": [*inputs[0]["shape"], 3]}
        self._refused("a shape that is not that of its data", self._infer([short, *inputs[1:]]), first, "shape")
        unknown = self.http.post("/v2/models/no-such-model/infer", json={"inputs": inputs})
        self._refused("an unknown model", unknown, "no-such-model")
        self._outputs(self._invoke())
        return "3 refused by name, and a right one answered afterwards"

    def _invoke(self) -> httpx.Response:
        return self._infer(self._example())

    def _infer(self, inputs: list[dict[str, Any]], headers: dict[str, str] | None = None) -> httpx.Response:
        return self.http.post(f"{self._base}/infer", json={"inputs": inputs}, headers=headers)

    def _example(self) -> list[dict[str, Any]]:
        """Return inputs of the described names, types and shapes; a free first dimension is 1."""
        if self._inputs is None:
            self._inputs = []
            for row in self.http.get(self._base).json()["inputs"]:
                free = [1, *[_OTHER_DIMENSIONS] * len(row["shape"])]
                shape = [size if size > 0 else free[place] for place, size in enumerate(row["shape"])]
                data = [_SAMPLE[row["datatype"]]] * math.prod(shape)
                self._inputs.append({"name": row["name"], "datatype": row["datatype"], "shape": shape, "data": data})
        return self._inputs

    def _outputs(self, answer: httpx.Response) -> str:
        _require(answer, "infer")
        outputs = answer.json()["outputs"]
        for row in outputs:
            values = _flat(row["data"])
            if len(values) != math.prod(row["shape"]):
                raise _Fault(f"{row['name']} has {len(values)} numbers for the shape {row['shape']}")
            if not all(math.isfinite(value) for value in values if isinstance(value, float)):
                raise _Fault(f"{row['name']} has numbers that are not finite")
        if not outputs:
            raise _Fault("an answer without outputs")
        return ", ".join(f"{row['name']} {row['datatype']} {row['shape']}" for row in outputs)


class _OpenAI(_Talk):
    _route: str | None = None

    def ready(self) -> str:
        until, began = time.monotonic() + self.timeout_s, time.monotonic()
        while not any(self.http.get(path).is_success for path in ("/health", "/v1/models")):
            if time.monotonic() > until:
                raise _Fault("neither /health nor /v1/models answers")
            time.sleep(_POLL_S)
        return f"after {time.monotonic() - began:.1f} s"

    def metadata(self) -> str:
        answer = self.http.get("/v1/models")
        _require(answer, "/v1/models")
        names = [row["id"] for row in answer.json()["data"]]
        if self.name not in names:
            raise _Skip(f"the server does not list it among its {len(names)} models")
        return f"listed among {len(names)}"

    def invoke(self) -> str:
        answer = self._invoke()
        _require(answer, self._route or "every route")
        document = answer.json()
        if self._route == "/v1/embeddings":
            vector = document["data"][0]["embedding"]
            if not vector or not all(math.isfinite(value) for value in vector):
                raise _Fault("an embedding without numbers, or with some that are not finite")
            return f"{self._route}: {len(vector)} numbers"
        choice = document["choices"][0]
        text = choice["message"]["content"] if "message" in choice else choice["text"]
        if not isinstance(text, str):
            raise _Fault("a choice without text")
        return f"{self._route}: finish_reason {choice.get('finish_reason')}"

    def stream(self) -> str:
        self._invoke()
        if self._route == "/v1/embeddings":
            raise _Skip("embeddings are not streamed")
        body = {"model": self.name, **_BODIES[self._route or "/v1/chat/completions"], "stream": True}
        with self.http.stream("POST", self._route or "", json=body) as answer:
            lines = [line for line in answer.iter_lines() if line.startswith("data:")]
        if not answer.is_success or not lines:
            raise _Fault(f"a stream gave {answer.status_code} and {len(lines)} events")
        return f"{len(lines)} events"

    def wrong_input(self) -> str:
        """Name another model and leave out the input: each is refused by name, and the endpoint still answers."""
        self._invoke()
        route = self._route or "/v1/chat/completions"
        body = _BODIES[route]
        field = next(iter(body))
        other = self.http.post(route, json={"model": "no-such-model", **body})
        self._refused("an unknown model", other, "no-such-model")
        without = self.http.post(route, json={"model": self.name, **body, field: 7})
        self._refused(f"{field} of another type", without, field)
        _require(self._invoke(), route)
        return "2 refused by name, and a right one answered afterwards"

    def _invoke(self) -> httpx.Response:
        """Ask at the first route that answers this model: chat, completions, embeddings."""
        answer = httpx.Response(404)
        for route in [self._route] if self._route else _BODIES:
            answer = self.http.post(route, json={"model": self.name, **_BODIES[route]})
            if answer.is_success:
                self._route = route
                break
        return answer


def _flat(data: Any) -> list[Any]:
    return [value for part in data for value in _flat(part)] if isinstance(data, list) else [data]


def _require(answer: httpx.Response, what: str) -> None:
    if not answer.is_success:
        raise _Fault(f"{what} gave {_told(answer)}")


def _told(answer: httpx.Response) -> str:
    return f"{answer.status_code} {answer.text[:160]!r}"


def _model_id(name: str) -> str:
    """Return the id of a model; of a folder only its last part, because paths are not for others."""
    return Path(name).name if Path(name).is_absolute() else name


def events_of(result: Lifecycle) -> list[dict[str, Any]]:
    """Return the events of a run of the checks: a test `lifecycle` of the model, with its counts by check."""
    run_id, source = uuid7(), runner_source(environment())
    model, hardware = Model(id=_model_id(result.model)), Hardware(id="unknown")
    failed = next((step for step in result.steps if step.outcome == "failed"), None)
    counts = {
        check: {outcome: result.count(outcome, check) for outcome in ("passed", "failed", "skipped")}
        for check in dict.fromkeys(step.check for step in result.steps)
    }
    reported = TestReported(
        run_id=run_id,
        model=model,
        workload=Workload(mode="inference"),
        execution=Execution(platform="other"),
        hardware=hardware,
        outcome="passed" if result.passed else "failed",
        stage="run",
        test="lifecycle",
        provenance=provenance(),
        failure=Failure(error="Lifecycle", message=f"{failed.check}: {failed.said}") if failed else None,
        checks={"protocol": result.protocol, "cycles": result.cycles, **counts},
    )
    started = RunStarted(run_id=run_id, kind="verify", hardware=[hardware], provenance=provenance())
    finished = RunFinished(run_id=run_id, outcome="completed", failed=int(failed is not None), tests=1)
    return [
        stamped(RUN_STARTED, started, source, run_id),
        stamped(TEST_REPORTED, reported, source, model.id),
        stamped(RUN_FINISHED, finished, source, run_id),
    ]
