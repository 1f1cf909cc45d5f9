"""`assay help` and `assay completion`: what a verb does, and the verbs and options at the press of Tab."""

from __future__ import annotations

import os
from pathlib import Path

import rich_click as click
from click.shell_completion import get_completion_class

from assay.cli.output import say
from domain.errors import UsageError

__all__ = ["completion", "help"]

_VARIABLE = "_ASSAY_COMPLETE"
_FILES = {
    "bash": (
        ".local/share/bash-completion/completions/assay",
        "Open a new shell; the package bash-completion reads it.",
    ),
    "zsh": (".zfunc/_assay", "Needs `fpath+=~/.zfunc; autoload -Uz compinit; compinit` in ~/.zshrc. Open a new shell."),
    "fish": (".config/fish/completions/assay.fish", "Open a new shell."),
}
_SHELL = click.argument("shell", required=False, type=click.Choice([*_FILES]))


@click.command(epilog="Example: assay help recommend")
@click.argument("verbs", nargs=-1, metavar="[VERB]…")
def help(verbs: tuple[str, ...]) -> None:  # noqa: A001 - it is the verb's name
    """Say what a verb does; without one, list them all."""
    from assay.cli import cli

    cli.main([*verbs, "--help"], prog_name="assay", standalone_mode=False)


@click.group()
def completion() -> None:
    """Complete verbs, options and their values at the press of Tab, in bash, zsh and fish."""


@completion.command(epilog="Example: assay completion install zsh")
@_SHELL
def install(shell: str | None) -> None:
    """Write the completion to where the shell looks for it; without a name, of the shell in SHELL."""
    shell = _shell(shell)
    place, then = _FILES[shell]
    path = Path.home() / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_script(shell), encoding="utf-8", newline="\n")
    say(f"~/{place} written. {then}")


@completion.command(epilog="Example: assay completion show bash > assay.bash")
@_SHELL
def show(shell: str | None) -> None:
    """Print the completion, to be put elsewhere."""
    click.echo(_script(_shell(shell)))


def _shell(named: str | None) -> str:
    shell = named or Path(os.environ.get("SHELL", "")).name
    if shell not in _FILES:
        raise UsageError(
            f"no completion for {shell or 'a shell that nothing names'}.",
            field="shell",
            remedy=f"Name one of {', '.join(_FILES)}.",
        )
    return shell


def _script(shell: str) -> str:
    from assay.cli import cli

    made = get_completion_class(shell)
    assert made is not None  # Click has one for each shell of _FILES.
    return made(cli, {}, "assay", _VARIABLE).source()
