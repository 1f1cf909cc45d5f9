"""`assay selftest`: one command that an owner of a machine runs to verify a platform on it, and post what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from assay.cli.measure.destination import optional_destination
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, notes, print_json, say
from assay.cli.output_files import OutputFile, overwritable
from domain.errors import UsageError

if TYPE_CHECKING:
    from runner.selftest import SelfTest

__all__ = ["selftest"]

_WORDS = {"passed": "yes", "failed": "NO", "skipped": "—"}


@click.command(
    epilog="""\b
Examples:
  assay selftest --platform cuda --post
  assay selftest --platform rocm --device cuda:1 --out mi300x.ndjson
  assay selftest --platform openvino --json"""
)
@click.option(
    "--platform", required=True, metavar="P", help="The platform to verify: cuda, rocm, mps, xpu, qnn, cpu, …"
)
@click.option("--device", metavar="D", help="One of its devices, such as cuda:1; its first by default.")
@click.option("--post", is_flag=True, help="Send the events to the service.")
@click.option("--out", type=OutputFile(), help="Write the events to a file, to post later.")
@overwritable
@served
@as_json
def selftest(
    platform: str,
    device: str | None,
    post: bool,
    out: Path | None,
    force: bool,  # noqa: ARG001 - the type of --out reads it
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Check that a platform does here what Assay says of it: about a minute, nothing is assumed.

    Is it there, is a product right, in the precision that was asked for; are its times and its memory those of other
    instruments; is running out of memory an outcome; can power be read; is a small model measured, and is it right?
    Exit code 1 where a check failed.
    """
    from assay.home import find_home
    from runner.selftest import run_selftest

    if post and out is not None:
        raise UsageError(
            "goes without --post.", field="out", remedy="Write the file now and send it with `assay post`."
        )
    with optional_destination(out, post, server, token) as tell, notes().status(f"checking {platform}") as status:
        result = run_selftest(
            platform,
            tell,
            lambda check: status.update(f"checking {platform}: {check.name} {check.outcome}"),
            device=device,
            cache=find_home().cache,
        )
    _show(result, as_json=as_json)
    return 0 if result.passed else 1


def _show(self_test: SelfTest, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        print_json({"passed": self_test.passed, **msgspec.to_builtins(self_test)})
        return
    rows = [[check.name.replace("_", " "), _WORDS[check.outcome], check.said] for check in self_test.checks]
    title = f"{self_test.platform} on {self_test.hardware}: {'every check passed' if self_test.passed else 'NOT as it should be'}"
    answers().print(grid(title, [("check", "fixed"), ("right", "fixed"), "what was seen"], rows))
    skipped = [check.name.replace("_", " ") for check in self_test.checks if check.outcome == "skipped"]
    if skipped:
        say(f"not checked here: {', '.join(skipped)}")
