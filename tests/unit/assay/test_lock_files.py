"""The lock files: every requirement is pinned, every pin has hashes, and no file says where it is fetched."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
IMAGE = ["deploy/requirements.txt", "deploy/requirements-build.txt"]
FILES = ["constraints.txt", "constraints-torch.txt", "constraints-tools.txt", *IMAGE, "deploy/requirements-tools.txt"]


def pins(name: str) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes by the package's name; a line that ends with a backslash goes on in the next."""
    found = {}
    for line in (ROOT / name).read_text().replace("\\\n", " ").splitlines():
        requirement = Requirement(line.partition("--hash")[0].strip())
        (only,) = requirement.specifier
        assert only.operator == "=="
        found[canonicalize_name(requirement.name)] = (only.version, re.findall(r"--hash=sha256:([0-9a-f]{64})\b", line))
    return found


@pytest.mark.parametrize("name", FILES)
def test_every_pin_has_hashes_and_no_address(name):
    assert all(hashes for _, hashes in pins(name).values())
    assert "://" not in (ROOT / name).read_text()


def test_every_requirement_is_pinned_at_a_version_that_fits():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    chosen = [Requirement(text) for text in (*project["dependencies"], *extras["dev"])]
    chosen += [
        Requirement(text)
        for (whole,) in [extras["all"]]
        for extra in Requirement(whole).extras
        for text in extras[extra]
    ]
    pinned = pins("constraints.txt") | pins("constraints-torch.txt")
    wrong = [str(one) for one in chosen if not one.specifier.contains(pinned[canonicalize_name(one.name)][0])]
    assert wrong == [] and len(chosen) > 40


def test_lock_files_agree_with_each_other_and_with_the_makefile():
    everything, torch = pins("constraints.txt"), pins("constraints-torch.txt")
    assert all(everything[name] == torch[name] for name in everything.keys() & torch.keys())
    assert f"TORCH := torch=={torch['torch'][0]}\n" in (ROOT / "Makefile").read_text()
    assert "torch" not in everything


@pytest.mark.parametrize("name", IMAGE)
def test_what_the_image_installs_is_a_part_of_what_is_tested(name):
    everything = pins("constraints.txt")
    different = {package for package, pin in pins(name).items() if everything[package] != pin}
    assert not different, "run make lock"


def test_the_image_has_all_that_service_and_dashboard_need_and_nothing_that_measures():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    chosen = (project["dependencies"], extras["service"], extras["dashboard"], extras["tracing"])
    wanted = [Requirement(text) for texts in chosen for text in texts]
    image = pins("deploy/requirements.txt")
    assert [str(one) for one in wanted if canonicalize_name(one.name) not in image] == []
    assert not {"torch", "openvino", "onnxruntime", "transformers", "pytest"} & image.keys()


def test_each_exception_of_the_audit_has_a_reason():
    lines = (ROOT / "audit-exceptions.txt").read_text().splitlines()
    assert all(re.match(r"(#|[A-Z]+-\S+ \S+: \S.{10,})", line) for line in lines)
