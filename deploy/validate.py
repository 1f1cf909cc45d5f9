"""Check every file of this folder with the tool that reads it: `make validate-deploy`.

Each tool has to be there: one that is absent is named, with where to get it, and the exit status is 1. Tools of PyPI are looked for
beside the running Python. `--write` renders tests/golden/deploy/kubernetes.yaml anew, from which the tests read what the chart starts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "assay"
GOLDEN = ROOT / "tests" / "golden" / "deploy" / "kubernetes.yaml"
ALERT_TESTS = ROOT / "tests" / "unit" / "deploy" / "alerts_test.yaml"
KUBERNETES = ("1.29", "1.34")
"""The oldest and newest versions whose schemas the manifests are held against."""
EXPOSURE = 20
"""The largest exposure of a unit, in tenths, by `systemd-analyze security`."""
EVERYTHING: dict[str, Any] = {
    "imagePullSecrets": [{"name": "registry"}],
    "tokens": {"operatorKey": "operator"},
    "settings": {"ASSAY_RATE_LIMIT": "500,50000", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"},
    "ingest": {"autoscaling": {"enabled": True}, "affinity": {"podAntiAffinity": {}}},
    "query": {"role": "query", "replicas": 2, "nodeSelector": {"disk": "ssd"}, "storage": {"className": "fast"}},
    "dashboard": {"signIn": {"existingSecret": "sign-in"}, "tolerations": [{"operator": "Exists"}]},
    "archive": {"existingClaim": "archive"},
    "backup": {"enabled": True, "existingClaim": "copies"},
    "ingress": {"enabled": True, "className": "nginx", "annotations": {"example.org/key": "value"}},
    "networkPolicy": {
        "ingressFrom": [{"namespaceSelector": {}}],
        "databaseTo": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
        "egress": [{"ports": [{"port": 4318}]}],
    },
    "serviceAccount": {"annotations": {"example.org/key": "value"}},
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "grafanaDashboard": {"enabled": True},
}
"""Values that turn on every branch of the templates but those that `LEAST` turns off."""
LEAST: dict[str, Any] = {
    "dashboard": {"enabled": False},
    "toolbox": {"enabled": False},
    "validation": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "serviceAccount": {"create": False},
    "ingest": {"disruptionBudget": {"enabled": False}},
}


class Failed(Exception):
    """A check that did not pass; its text says why."""


def tool(name: str, source: str) -> str:
    """Return the path of a program, beside this Python or in PATH; raise Failed with where to get it."""
    beside = Path(sys.executable).with_name(name)
    path = str(beside) if beside.exists() else shutil.which(name)
    if path is None:
        raise Failed(f"{name} is not installed: {source}")
    return path


def run(*command: str, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command and return what it printed; raise Failed with that where it does not end with 0."""
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode:
        raise Failed(f"{' '.join(command)}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


PYPI = "pip install --require-hashes --requirement deploy/requirements-tools.txt"


def containerfile() -> None:
    """Lint the Containerfile, its shell included."""
    run(tool("hadolint", PYPI), "deploy/Containerfile")


def compose() -> None:
    """Hold the compose file against the published schema."""
    run(tool("check-jsonschema", PYPI), "--builtin-schema", "vendor.compose-spec", "deploy/compose/compose.yaml")


def proxy() -> None:
    """Let Caddy adapt and provision its configuration."""
    caddy = tool("caddy", "apt install caddy")
    run(caddy, "validate", "--config", "deploy/compose/Caddyfile", "--adapter", "caddyfile", SITE_ADDRESS="localhost")


def systemd() -> None:
    """Verify each unit, with a program that exists in place of ours, and bound how exposed each service is."""
    analyze = tool("systemd-analyze", "apt install systemd")
    with tempfile.TemporaryDirectory() as folder:
        units = []
        for unit in sorted((DEPLOY / "systemd").glob("assay-*.*")):
            units.append(str(Path(folder) / unit.name))
            Path(units[-1]).write_text(unit.read_text().replace("/opt/assay/bin/assay", "/bin/true"))
        said = subprocess.run([analyze, "verify", "--man=no", *units], capture_output=True, text=True, check=False)
        if said.returncode or said.stderr.strip():
            raise Failed(said.stderr)
        services = [unit for unit in units if unit.endswith(".service")]
        run(analyze, "security", "--offline=true", f"--threshold={EXPOSURE}", *services)


def prometheus() -> None:
    """Check the scrape configuration, the alert rules with their unit tests, and the expressions of the Grafana dashboard."""
    promtool = tool("promtool", "apt install prometheus")
    run(promtool, "check", "config", "--syntax-only", "deploy/compose/prometheus.yml")
    run(promtool, "check", "rules", str(CHART / "files" / "alerts.yaml"))
    run(promtool, "test", "rules", str(ALERT_TESTS))
    # Grafana has no program that checks its expressions: as rules, with the variables filled in, they are PromQL.
    panels = json.loads((CHART / "files" / "dashboard.json").read_text())["panels"]
    expressions = [target["expr"].replace("$__rate_interval", "5m") for panel in panels for target in panel["targets"]]
    rules = [{"record": f"drawn:{number}", "expr": expression} for number, expression in enumerate(expressions)]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({"groups": [{"name": "drawn", "rules": rules}]}, file)
        file.flush()
        run(promtool, "check", "rules", file.name)


def rendered(values: dict[str, Any]) -> str:
    """Return the chart's manifests with some values, by Helm's program or else its library from PyPI."""
    helm = shutil.which("helm")
    if helm is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(values, file)
            file.flush()
            run(helm, "lint", "--strict", str(CHART), "--values", file.name)
            return run(helm, "template", "assay", str(CHART), "--namespace", "assay", "--values", file.name)
    try:
        from helm_python import chart as charts
    except ImportError as error:
        raise Failed(f"neither helm nor helm-python-sdk is installed: {PYPI}") from error
    report = charts.lint(CHART, values, strict=True, namespace="assay")
    if report["errors"]:
        raise Failed(f"helm lint: {report['errors']}")
    with charts.Chart.load(CHART) as chart:
        manifests = chart.render(values, name="assay", namespace="assay")
    return "\n---\n".join(text for name, text in sorted(manifests.items()) if not name.endswith(".txt"))


def objects(text: str) -> list[dict[str, Any]]:
    """Return the objects of rendered manifests in an order that does not depend on how Helm printed them."""
    documents = [document for document in yaml.safe_load_all(text) if document]
    return sorted(documents, key=lambda document: (document["kind"], document["metadata"]["name"]))


def golden() -> str:
    """Return the manifests that the tests read, without those that repeat a file of the chart, and of which chart they are."""
    kept = [
        item
        for item in objects(rendered(EVERYTHING))
        if item["kind"] != "PrometheusRule" and "assay.json" not in item.get("data", {})
    ]
    return f"# {chart_digest()}\n{yaml.safe_dump_all(kept, sort_keys=True, width=120)}"


def chart_digest() -> str:
    """Return a digest of everything that decides what the chart renders."""
    digest = hashlib.sha256(repr(EVERYTHING).encode())
    for path in [CHART / "Chart.yaml", CHART / "values.yaml", *sorted((CHART / "templates").rglob("*.*"))]:
        digest.update(path.read_bytes())
    return f"chart sha256:{digest.hexdigest()}"


def chart() -> None:
    """Lint and render the chart with three sets of values, and hold each object against Kubernetes' schemas."""
    validate = tool("kubernetes-validate", PYPI)
    for values in ({}, EVERYTHING, LEAST):
        documents = objects(rendered(values))
        known = [item for item in documents if not item["apiVersion"].startswith("monitoring.coreos.com/")]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump_all(known, file)
            file.flush()
            for version in KUBERNETES:
                run(validate, "--strict", "--kubernetes-version", version, file.name)
        for item in documents:
            if item["kind"] == "PrometheusRule":
                with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                    yaml.safe_dump(item["spec"], file)
                    file.flush()
                    run(tool("promtool", "apt install prometheus"), "check", "rules", file.name)
    if not GOLDEN.exists() or golden() != GOLDEN.read_text():
        raise Failed(f"{GOLDEN.relative_to(ROOT)} is not what the chart renders: run this with --write")


def workflows() -> None:
    """Check the workflows of GitHub and our scripts: form, expressions and shell, then security."""
    files = [str(path) for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))]
    run(tool("check-jsonschema", PYPI), "--builtin-schema", "vendor.github-workflows", *files)
    run(tool("shellcheck", "apt install shellcheck"), "deploy/try-image.sh", ".ci/run")
    run(tool("actionlint", PYPI), *files)
    run(tool("zizmor", PYPI), "--offline", "--no-progress", "--quiet", *files)


CHECKS: tuple[Callable[[], None], ...] = (containerfile, compose, proxy, systemd, prometheus, chart, workflows)


def failures() -> Iterator[str]:
    """Run every check, and yield what each that failed says."""
    for check in CHECKS:
        try:
            check()
        except Failed as error:
            print(f"failed  {check.__name__}", flush=True)
            yield str(error)
        else:
            print(f"passed  {check.__name__}", flush=True)


def main() -> int:
    """Check everything, or write the golden file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="render the golden file of the tests anew")
    if parser.parse_args().write:
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text(golden())
        return 0
    problems = list(failures())
    for problem in problems:
        print(f"\n{problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
