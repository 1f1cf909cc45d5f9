"""`assay mcp`: answer the tools of an agent, over stdio or HTTP."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

import rich_click as click

from assay.cli.options import served
from assay.cli.output import print_json, say
from domain.errors import PartMissing, UsageError
from domain.hosts import ENVIRONMENT, allowed_hosts, is_loopback

__all__ = ["mcp"]

CONFIGURATIONS = ("claude", "cursor", "vscode", "json")


@click.command(
    epilog="""\b
Examples:
  assay mcp                                    # stdio, as agents start it
  assay mcp --print-config claude              # the entry for .mcp.json
  assay mcp --server http://assay.example.org:8000
  assay mcp --transport http --port 8765       # for several agents: http://127.0.0.1:8765/mcp"""
)
@click.option(
    "--transport",
    type=click.Choice(["stdio", "http"]),
    default="stdio",
    show_default=True,
    help="stdio: one client, which starts this command; http: any number (streamable HTTP).",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="With http: beyond loopback only where the service wants tokens.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="With http; 0 takes a free one."
)
@click.option(
    "--print-config", "configuration", type=click.Choice(CONFIGURATIONS), help="Print the entry to paste, and end."
)
@served
def mcp(
    transport: str, host: str, port: int, configuration: str | None, server: str | None, token: str | None
) -> int | None:
    """Serve recommend, predict, fit, compare, matrix and query to agents, by the Model Context Protocol.

    It asks the service that every verb asks. Tools change nothing. docs/agents.md has the tools and their answers.
    """
    if configuration is not None:
        print_json(_configuration(configuration, transport, host, port, server))
        return None
    try:
        from assay.cli.agents.server import Asking, serve_http, serve_stdio
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio", "starlette", "uvicorn"):
            raise
        raise PartMissing("this verb needs the package 'mcp'.", remedy="pip install 'assay-bench[agents]'") from error
    if transport == "stdio":
        if sys.stdin.isatty():
            say(
                "this speaks the Model Context Protocol on stdin, as an agent starts it: --print-config; Ctrl-D ends it"
            )
        serve_stdio(Asking(server, token))
        return None
    hosts = allowed_hosts(os.environ.get(ENVIRONMENT, ""), host)
    asking = Asking(server, token)
    try:
        tokens = asking.needs_token()
        if not tokens and not is_loopback(host):
            raise UsageError(
                f"anybody who reaches {host} could ask: the service wants no token.",
                field="host",
                remedy="Make one with `assay token create`, or serve on 127.0.0.1.",
            )
    except BaseException:
        asking.close()
        raise
    whose = "; each caller sends its own token" if tokens else ""
    serve_http(asking, host, port, hosts, tokens=tokens, ready=lambda url: say(f"serving {url}{whose}; Ctrl-C ends it"))
    return None


def _configuration(name: str, transport: str, host: str, port: int, server: str | None) -> dict[str, Any]:
    """Return the entry that a client's configuration file takes; no token stands in it."""
    entry: dict[str, Any]
    if transport == "http":
        entry = {"type": "http", "url": f"http://{host}:{port}/mcp"}
    else:
        command = shutil.which("assay")
        words = [command] if command else [sys.executable, "-m", "assay.cli"]
        entry = {"command": words[0], "args": [*words[1:], "mcp", *(["--server", server] if server else [])]}
        entry = {"type": "stdio", **entry} if name == "vscode" else entry
    if name == "json":
        return entry
    return {"servers" if name == "vscode" else "mcpServers": {"assay": entry}}
