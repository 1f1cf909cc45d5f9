"""A tag is released only where every place that names the version agrees with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PLACES = {
    "pyproject.toml": '[project]\nname = "assay-bench"\nversion = "1.2.3"\n',
    "CHANGELOG.md": "# Changelog\n\n## 1.2.3 (2026-12-01)\n\n- news\n",
    "deploy/Containerfile": "FROM base\nARG VERSION=1.2.3\n",
    "deploy/helm/assay/Chart.yaml": 'name: assay\nversion: 1.2.3\nappVersion: "1.2.3"\n',
}


def checked(tag: str, folder: Path, changes: dict[str, tuple[str, str]]) -> subprocess.CompletedProcess[str]:
    """Run the script of the release on a small checkout."""
    for name, text in PLACES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace(*changes.get(name, ("", ""))))
    script = folder / "deploy" / "release_checks.py"
    script.write_text((ROOT / "deploy" / "release_checks.py").read_text())
    return subprocess.run([sys.executable, str(script), tag], capture_output=True, text=True, check=False)


def test_a_tag_that_everything_agrees_with_passes(tmp_path: Path) -> None:
    done = checked("v1.2.3", tmp_path, {})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("tag", "changes", "word"),
    [
        ("1.2.3", {}, "v1.2.3"),
        ("v1.2", {}, "v1.2.3"),
        ("v1.2.4", {}, "pyproject.toml"),
        ("v1.2.3", {"pyproject.toml": ("1.2.3", "1.2.2")}, "pyproject.toml"),
        ("v1.2.3", {"CHANGELOG.md": ("2026-12-01", "unreleased")}, "CHANGELOG.md"),
        ("v1.2.3", {"deploy/Containerfile": ("1.2.3", "1.2.2")}, "VERSION"),
        ("v1.2.3", {"deploy/helm/assay/Chart.yaml": ('"1.2.3"', '"1.2.2"')}, "appVersion"),
    ],
)
def test_a_place_that_disagrees_is_named(
    tag: str, changes: dict[str, tuple[str, str]], word: str, tmp_path: Path
) -> None:
    done = checked(tag, tmp_path, changes)
    assert done.returncode == 1
    assert word in done.stderr


def test_this_checkout_agrees_but_for_the_date_of_the_release() -> None:
    script = str(ROOT / "deploy" / "release_checks.py")
    version = next(
        line.split('"')[1]
        for line in (ROOT / "pyproject.toml").read_text().splitlines()
        if line.startswith("version = ")
    )
    done = subprocess.run([sys.executable, script, f"v{version}"], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "CHANGELOG.md" not in line] == []
