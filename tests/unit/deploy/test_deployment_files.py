"""The files of deploy/ and the product agree: commands parse, settings exist, ports and names fit, alerts have metrics and a runbook."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml

import assay
from api.background.metrics import Metrics, ServiceState
from assay.cli import SECRETS, cli

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "assay"
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
MANIFESTS = list(yaml.safe_load_all((ROOT / "tests" / "golden" / "deploy" / "kubernetes.yaml").read_text()))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
SOURCES = ("api", "assay", "dashboard", "domain", "ingest", "predictor", "presentation", "runner")
SERVICE_PROBES = {"/health/live", "/health/ready"}
DASHBOARD_PROBE = "/_stcore/health"
EXECUTABLE = "/opt/assay/bin/assay"


def parse(words: list[str]) -> click.Context:
    """Parse the words after `assay` as the command line does, without doing anything; click raises for what is wrong."""
    command: click.Command | None = cli.resolve_command(click.Context(cli), [words[0]])[1]
    rest = words[1:]
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), rest[0])
        rest = rest[1:]
    assert command is not None, words
    return command.make_context(words[0], list(rest))


def shell_commands(script: str) -> Iterator[list[str]]:
    """Yield the calls of assay in a shell script, with what the shell would put in replaced by a word."""
    plain = re.sub(r"\$+\([^)]*\)", "now", script)
    for line in plain.splitlines():
        words = shlex.split(line)
        for index, word in enumerate(words):
            if word in ("assay", EXECUTABLE):
                yield list(takewhile(lambda word: word not in ("||", "&&", "|"), words[index + 1 :]))


def unit_commands(text: str) -> Iterator[list[str]]:
    for line in re.findall(r"^ExecStart=(.*)$", text, re.M):
        words = shlex.split(line)
        if words[0] == EXECUTABLE:
            yield words[1:]
        elif words[0] == "/bin/sh":
            yield from shell_commands(words[2])


def containers() -> Iterator[dict[str, Any]]:
    """Yield every container that the chart starts."""
    for manifest in MANIFESTS:
        spec = manifest.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        spec = spec.get("template", {}).get("spec", spec) if manifest["kind"] != "Pod" else spec
        yield from spec.get("containers", [])


def commands() -> dict[str, list[str]]:
    """Every command line of ours in the files, by where it stands."""
    gathered = {
        f"{unit.name} {number}": words for unit in UNITS for number, words in enumerate(unit_commands(unit.read_text()))
    }
    for name, service in COMPOSE["services"].items():
        if "build" in service:
            gathered[f"compose {name}"] = service["command"]
    for container in containers():
        if "args" in container and "command" not in container:
            gathered[f"chart {container['name']}"] = container["args"]
        for number, words in enumerate(shell_commands(container.get("command", [""])[-1])):
            gathered[f"chart {container['name']} {number}"] = words
    (default,) = re.findall(r"^CMD (\[.*\])$", (DEPLOY / "Containerfile").read_text(), re.M)
    return gathered | {"Containerfile": json.loads(default)}


COMMANDS = commands()


def test_the_manifests_are_those_of_this_chart() -> None:
    spec = importlib.util.spec_from_file_location("validate_deploy", DEPLOY / "validate.py")
    assert spec is not None
    assert spec.loader is not None
    validate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(validate)
    # Rendering needs Helm: after a change, `make validate-deploy` says how to write the file anew.
    assert validate.GOLDEN.read_text().startswith(f"# {validate.chart_digest()}\n")


def test_every_place_has_its_commands() -> None:
    assert {
        *("assay-ingest.service 0", "assay-query.service 0", "assay-dashboard.service 0", "assay-backup.service 0"),
        *(
            "assay-validate.service 0",
            "assay-validate.service 1",
            "compose ingest",
            "compose query",
            "compose dashboard",
        ),
        *("compose migrate", "chart ingest", "chart query", "chart dashboard", "chart migrate", "chart backup 0"),
        *("chart validate 0", "chart validate 1", "Containerfile"),
    } <= COMMANDS.keys()


@pytest.mark.parametrize("place", [place for place, words in COMMANDS.items() if words != ["--help"]])
def test_a_command_line_parses(place: str, tmp_path: Path) -> None:
    # A file that a verb writes has to be in a folder that exists.
    words = [re.sub(r"^(/var/backups/assay|/backup)/", f"{tmp_path}/", word) for word in COMMANDS[place]]
    assert parse(words).params is not None


@pytest.mark.parametrize("words", [["serve", "--rolle", "ingest"], ["serve", "--role", "writer"], ["db", "update"]])
def test_a_wrong_command_line_would_be_seen(words: list[str]) -> None:
    with pytest.raises((click.UsageError, AssertionError)):
        parse(words)


def test_every_setting_that_is_named_exists() -> None:
    folders = {Path(assay.__file__).parent, *(ROOT / name for name in SOURCES)}
    sources = "\n".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))
    named = {
        (match, str(path.relative_to(ROOT)))
        for path in DEPLOY.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".txt") and path.parent.name != "__pycache__"
        for match in re.findall(r"\bASSAY_[A-Z_]*[A-Z]\b", path.read_text())
    }
    assert len({name for name, _ in named}) > 8
    unknown = [
        (name, path)
        for name, path in sorted(named)
        if not (name.endswith("_FILE") and name.removesuffix("_FILE") in SECRETS)
        and not re.search(rf"[\"']{name}[\"']", sources)
    ]
    assert not unknown


def port(words: list[str]) -> int:
    return int(words[words.index("--port") + 1])


def test_compose_probes_and_proxy_ask_the_ports_that_are_served() -> None:
    served = {name: port(COMMANDS[f"compose {name}"]) for name in ("ingest", "query", "dashboard")}
    proxied = re.findall(r"reverse_proxy (\w+):(\d+)", (DEPLOY / "compose" / "Caddyfile").read_text())
    assert {name: int(number) for name, number in proxied} == served
    scraped = yaml.safe_load((DEPLOY / "compose" / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"]
    assert sorted(scraped[0]["targets"]) == [f"{name}:{served[name]}" for name in ("ingest", "query")]
    assert f"http://query:{served['query']}" in COMMANDS["compose dashboard"]
    (image_probe,) = re.findall(r"http://127\.0\.0\.1:8000(\S*?)'", (DEPLOY / "Containerfile").read_text())
    assert image_probe in SERVICE_PROBES
    assert f":{served['dashboard']}{DASHBOARD_PROBE}'" in COMPOSE["services"]["dashboard"]["healthcheck"]["test"][-1]


def test_compose_names_only_what_it_declares() -> None:
    for name, service in COMPOSE["services"].items():
        assert set(service.get("secrets", [])) <= COMPOSE["secrets"].keys(), name
        assert set(service.get("networks", [])) <= COMPOSE["networks"].keys(), name
        assert set(service.get("depends_on", {})) <= COMPOSE["services"].keys(), name
        for mount in service.get("volumes", []):
            source = mount.partition(":")[0]
            here = source.startswith(".")
            assert (
                source == "./backup" or (DEPLOY / "compose" / source).is_file()
                if here
                else source in COMPOSE["volumes"]
            )
        if not (service.keys() & {"profiles"}) and name != "migrate":
            assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory"}, name
        for secret in re.findall(r"/run/secrets/([\w.-]+)", str(service.get("environment", {}))):
            assert secret in service["secrets"], name


def test_chart_probes_ask_addresses_and_ports_that_are_served() -> None:
    probed = set()
    for container in containers():
        ports = {item["name"]: item["containerPort"] for item in container.get("ports", [])}
        assert not ports or ports == {"http": port(container["args"])}
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            if kind in container:
                probe = container[kind]["httpGet"]
                probed.add((container["name"], kind, probe["path"]))
                assert probe["port"] in ports
    wanted = {
        (name, kind, "/health/live") for name in ("ingest", "query") for kind in ("startupProbe", "livenessProbe")
    }
    wanted |= {(name, "readinessProbe", "/health/ready") for name in ("ingest", "query")}
    wanted |= {("dashboard", kind, DASHBOARD_PROBE) for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert probed == wanted
    services = {
        item["metadata"]["name"]: item["spec"]["ports"][0]["port"] for item in MANIFESTS if item["kind"] == "Service"
    }
    asked = re.findall(r"http://(assay-[\w-]+):(\d+)", yaml.safe_dump_all(MANIFESTS))
    assert asked and all(services[name] == int(number) for name, number in asked)


def test_every_container_of_the_chart_is_confined() -> None:
    for container in containers():
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"requests", "limits"} == container["resources"].keys(), container["name"]


def test_every_timer_has_its_service_and_every_service_is_confined() -> None:
    for timer in (DEPLOY / "systemd").glob("*.timer"):
        assert timer.with_suffix(".service") in UNITS
    for unit in UNITS:
        settings = dict(line.split("=", 1) for line in unit.read_text().splitlines() if "=" in line and line[0] != "#")
        assert settings["User"] == "assay"
        assert settings["NoNewPrivileges"] == "yes"
        assert settings["ProtectSystem"] == "strict"
        assert "SystemCallFilter" in settings


VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return values | {
        name: merged(values[name], change)
        if isinstance(change, dict) and isinstance(values.get(name), dict)
        else change
        for name, change in changes.items()
    }


def test_the_default_values_fit_the_schema_and_the_schema_knows_each() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)
    assert VALUES.keys() == SCHEMA["properties"].keys() - {"global"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"ingest": {"workers": 0}}, "ingest/workers"),
        ({"ingest": {"replica": 2}}, "ingest"),
        ({"query": {"role": "ingest"}}, "query/role"),
        ({"query": {"retrainEvery": "daily"}}, "query/retrainEvery"),
        ({"hosts": ["https://assay.example.org"]}, "hosts/0"),
        ({"hosts": []}, "hosts"),
        ({"settings": {"ASSAY_HOME": "/elsewhere"}}, "settings"),
        ({"settings": {"ASSAY_RATE_LIMIT": 500}}, "settings/ASSAY_RATE_LIMIT"),
        ({"settings": {"OTEL-ENDPOINT": "http://collector:4318"}}, "settings"),
        ({"logLevel": "loud"}, "logLevel"),
        ({"backup": {"schedule": "at night"}}, "backup/schedule"),
        ({"database": {"existingSecret": ""}}, "database/existingSecret"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(changes: dict[str, Any], field: str) -> None:
    errors = list(jsonschema.Draft7Validator(SCHEMA).iter_errors(merged(VALUES, changes)))
    assert ["/".join(map(str, error.absolute_path)) for error in errors] == [field]


RULES = [
    rule for group in yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD = json.loads((CHART / "files" / "dashboard.json").read_text())
EXPRESSIONS = {rule["alert"]: rule["expr"] for rule in RULES} | {
    f"{panel['title']} {target['refId']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
}


def exported() -> dict[str, set[str]]:
    """Names of all samples of /metrics, each with its labels; every state known, every counter used."""
    metrics = Metrics("all")
    from api.http.logs import RequestRecord

    request = RequestRecord("id", "GET", "/v1/recommendations")
    request.route, request.status, request.problem = "/v1/recommendations", 503, "too-busy"
    metrics.answered(request, 0.1)
    state = ServiceState(**dict.fromkeys(ServiceState.__struct_fields__, 1))
    text = metrics.rendered(state, up=True).decode()
    samples = re.findall(r"^(\w+)(?:\{(.*)\})? ", text, re.M)
    labels: dict[str, set[str]] = {}
    for name, given in samples:
        labels.setdefault(name, set()).update(re.findall(r'(\w+)="', given))
    return labels


EXPORTED = exported()


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_asks_for_metrics_and_labels_that_exist(name: str) -> None:
    expression = EXPRESSIONS[name]
    asked = re.findall(r"\b(assay_\w+)\b(?:\{([^}]*)\})?", expression)
    assert asked or re.match(r"up\{", expression)
    allowed = {"job", "instance"}
    for metric, matchers in asked:
        assert metric in EXPORTED
        allowed |= EXPORTED[metric]
        assert set(re.findall(r"(\w+)=", matchers)) <= EXPORTED[metric] | {"job", "instance"}
    grouped = {label.strip() for labels in re.findall(r"by \(([^)]*)\)", expression) for label in labels.split(",")}
    assert grouped <= allowed


def test_every_gauge_of_the_state_is_drawn_or_alarmed() -> None:
    asked = set(re.findall(r"\bassay_\w+\b", " ".join(EXPRESSIONS.values())))
    assert {
        name for name in EXPORTED if not name.endswith(("_created", "_info", "_bucket", "_sum", "_count"))
    } - asked == {"assay_bodies_in_flight"}


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_and_names_a_runbook_that_exists(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert anchor in anchors(ROOT / page)
    assert rule["alert"] in (ROOT / page).read_text()


def test_every_alert_has_a_test_of_its_rule() -> None:
    tested = (ROOT / "tests" / "unit" / "deploy" / "alerts_test.yaml").read_text()
    assert [rule["alert"] for rule in RULES if rule["alert"] not in tested] == []


def test_workflows_name_targets_and_files_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = workflow.read_text()
        assert yaml.safe_load(text)["permissions"] == {}
        assert all(f"\n{target}:" in makefile for target in re.findall(r"run: make ([\w-]+)", text))
        assert all((ROOT / path).exists() for path in re.findall(r"\bdeploy/[\w./-]+\w", text))
        assert all(
            re.search(r"@[0-9a-f]{40} # v\d", line)
            for line in text.splitlines()
            if "uses:" in line and "/.github/" not in line
        )
