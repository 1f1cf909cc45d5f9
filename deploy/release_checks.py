"""Refuse a tag that is not the version of the project: `python3 deploy/release_checks.py v0.1.0`. Exit 1 says what disagrees."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def disagreements(tag: str, root: Path = ROOT) -> list[str]:
    """Return what contradicts a tag: the version of the package, of the chart, of the image, or the changelog."""
    match = re.fullmatch(r"v([0-9]+\.[0-9]+\.[0-9]+)", tag)
    if match is None:
        return [f"{tag!r} is no tag of a version; write v1.2.3"]
    version = match[1]
    chart = (root / "deploy/helm/assay/Chart.yaml").read_text()
    versions = {
        "pyproject.toml, version": tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"],
        "deploy/helm/assay/Chart.yaml, appVersion": _first(r'^appVersion: "(.+)"$', chart),
        "deploy/helm/assay/Chart.yaml, version": _first(r"^version: (.+)$", chart),
        "deploy/Containerfile, VERSION": _first(r"^ARG VERSION=(.+)$", (root / "deploy/Containerfile").read_text()),
    }
    problems = [f"{place} is {value}, not {version}" for place, value in versions.items() if value != version]
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", (root / "CHANGELOG.md").read_text(), re.M):
        problems.append(f"CHANGELOG.md has no heading `## {version} (YYYY-MM-DD)`")
    return problems


def _first(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.M)
    return match[1] if match else None


def main() -> int:
    """Print what contradicts the tag named on the command line."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    problems = disagreements(sys.argv[1])
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
