"""`assay scaffold check`: run test files in parallel and report what differs from the log, why, and what mends it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import rich_click as click

from assay.cli.options import as_json
from assay.cli.output import answers, notes, print_json
from domain.errors import PartMissing, UsageError

if TYPE_CHECKING:
    from assay.testing import Finding

__all__ = ["check"]

_MARK = "# assay begins here"
_FORMS = ("text", "markdown", "json")
_RAN = (0, 1)
"""Exit codes of pytest with which tests ran."""
_TAIL = 12


@click.command(
    epilog="""\b
Examples:
  assay scaffold check
  assay scaffold check tests/models --require-platforms
  assay scaffold check tests/models/test_bert_tiny.py --format markdown
  assay scaffold check tests/models --json > discrepancies.json"""
)
@click.argument("places", nargs=-1, metavar="[DIR|FILE]…", type=click.Path(path_type=Path))
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Files at a time; by default the processors.")
@click.option("--require-platforms", is_flag=True, help="Fail, and not skip, where a platform is absent here.")
@click.option("--format", "form", type=click.Choice(_FORMS), default="text", show_default=True)
@as_json
def check(places: tuple[Path, ...], workers: int | None, require_platforms: bool, form: str, as_json: bool) -> int:
    """Run the files of `assay scaffold test` and report each discrepancy with its likely cause and what mends it.

    Files run side by side, and their measurements one after the other. By default those of tests/models. Exit code 1
    where something is not as expected.
    """
    from assay.testing.findings import as_markdown, as_text, explained

    if find_spec("pytest") is None:
        raise PartMissing("pytest is not installed.", remedy="pip install pytest")
    files = _files(places or (Path("tests/models"),))
    environment = _environment(require_platforms)
    with ThreadPoolExecutor(min(len(files), workers or os.cpu_count() or 1)) as pool, notes().status("running"):
        results = list(pool.map(lambda file: _findings(file, environment), files))
    findings = explained([finding for result in results for finding in result])
    if as_json or form == "json":
        print_json(findings)
    elif form == "markdown":
        click.echo(as_markdown(findings))
    else:
        for line in as_text(findings):
            answers().print(line, markup=False)
    return 1 if any(finding.red for finding in findings) else 0


def _files(places: Sequence[Path]) -> list[Path]:
    """Return the files to run; UsageError for a place without any."""
    files: list[Path] = []
    for place in places:
        inside = sorted(place.rglob("test_*.py")) if place.is_dir() else [place] if place.is_file() else []
        marked = [file for file in inside if _MARK in file.read_text(encoding="utf-8", errors="replace")]
        if not marked:
            raise UsageError(
                f"{place} holds no file of `assay scaffold test`.",
                field="DIR",
                remedy="Name a folder of such files, or write some: assay scaffold test MODEL.",
            )
        files += marked
    return list(dict.fromkeys(files))


def _environment(require_platforms: bool) -> dict[str, str]:
    """Return the environment of the tests: Assay as it runs here is the one that they import."""
    import assay
    from assay.testing.cases import REQUIRE_PLATFORMS

    root = str(Path(assay.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, **({REQUIRE_PLATFORMS: "1"} if require_platforms else {})}


def _findings(file: Path, environment: Mapping[str, str]) -> list[Finding]:
    """Return what the checks of one file found; a file that cannot be run is a finding too."""
    from assay.testing import Finding
    from assay.testing.findings import FINDINGS, read_findings

    with tempfile.TemporaryDirectory(prefix="assay-check-") as folder:
        kept = Path(folder) / "findings.ndjson"
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", str(file)],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            env={**environment, FINDINGS: str(kept)},
            check=False,
        )
        findings = [msgspec.structs.replace(each, file=file.as_posix()) for each in read_findings(kept)]
    explained = ended.returncode == 0 or (ended.returncode == 1 and any(each.red for each in findings))
    if not explained:
        output = (ended.stdout + ended.stderr).strip().splitlines()
        broken = Finding(
            model=file.stem,
            case=file.name,
            check="file",
            state="broken",
            expected="tests that run",
            collected="\n    ".join(output[-_TAIL:]),
            file=file.as_posix(),
            cause="a test of your own in the file failed"
            if ended.returncode == 1
            else "the file cannot be run as it is",
            mend=f"Look with: pytest {file.as_posix()}",
        )
        findings.append(broken)
    return findings
