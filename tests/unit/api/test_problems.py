"""docs/problems.md and docs/api.md say everything that the service can say and be asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from api.app import create_app
from api.http.problems import INTERNAL, TYPE_PREFIX, problem
from api.settings import Settings
from domain.errors import AssayError, UnknownModel, UsageError
from ingest.archive.archive import ArchiveDamaged  # noqa: F401 - so that it is among the errors

DOCS = Path(__file__).resolve().parents[3] / "docs"
FROM_HTTP = {"method-not-allowed"}
"""Problems of HTTP itself that have no error class."""


def raised(root: type[AssayError] = AssayError) -> dict[str, int]:
    package = root.__module__.removeprefix("assay.").partition(".")[0]
    found = {root.type: root.status} if package in ("domain", "ingest", "api") else {}
    for child in root.__subclasses__():
        found |= raised(child)
    return found


def test_every_problem_is_documented_with_its_status_and_no_other():
    told = dict(re.findall(r"^\| `([a-z-]+)` \| (\d{3}) \|", (DOCS / "problems.md").read_text(), re.MULTILINE))
    abstract = {"error", "unavailable", "access", "unknown-name"}
    expected = {name: str(status) for name, status in raised().items() if name not in abstract}
    assert told == expected | {INTERNAL: "500"} | dict.fromkeys(FROM_HTTP, "405")


def test_every_route_is_in_the_guide():
    guide = (DOCS / "api.md").read_text()
    app = create_app(Settings(home=Path("unused")))
    paths = {
        re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path) for route in app.routes if not route.path.startswith("/schema/")
    }
    assert sorted(path for path in paths if f"`{path}`" not in guide and f"{path}`" not in guide) == []


def test_a_problem_names_field_and_remedy():
    told = problem(UsageError("no.", field="top", remedy="1 to 10."))
    assert told == {
        "type": TYPE_PREFIX + "usage", "title": "UsageError", "status": 422, "detail": "no.", "field": "top",
        "remedy": "1 to 10.",
    }  # fmt: skip
    assert problem(UnknownModel("x"))["remedy"]
    assert problem(UnknownModel("x", ["y"]))["nearest"] == ["y"]


@pytest.mark.parametrize(
    ("environment", "field"),
    [({}, "ASSAY_HOME"), ({"ASSAY_HOME": "/x", "ASSAY_ROLE": "king"}, "ASSAY_ROLE")],
)
def test_settings_that_make_no_sense_are_named(environment, field):
    with pytest.raises(UsageError) as refused:
        Settings.from_environment(environment)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("192.168.1.4", False),
        ("box", False),
    ],
)
def test_which_addresses_are_this_machines_own(host, loopback):
    assert Settings(home=Path("unused"), host=host).loopback is loopback
