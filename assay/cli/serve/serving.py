"""`assay serve`, `assay dashboard` and `assay up`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import NoReturn

import rich_click as click

from assay.cli.output import complain, notes, say
from domain.errors import AssayError, ServiceUnavailable, UsageError
from domain.operating_system import require_service_support

__all__ = ["dashboard", "serve", "up"]


@click.command(
    epilog="""\b
Examples:
  assay serve --retrain-every 24h
  assay serve --role ingest --workers 2 --host 0.0.0.0 --port 8000"""
)
@click.argument("models", nargs=-1, metavar="")
@click.option(
    "--role",
    type=click.Choice(["all", "ingest", "query"]),
    default="all",
    show_default=True,
    help="all: one machine; ingest: takes events, no tables; query: answers.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Beyond loopback only with tokens configured.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True)
@click.option(
    "--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Processes of the ingest role."
)
@click.option(
    "--retrain-every",
    metavar="24h|off",
    help="Train the predictor so often, and when it drifts (ASSAY_RETRAIN_EVERY); off by default.",
)
@click.option(
    "--shipped-data/--no-shipped-data",
    default=None,
    help="Begin an empty log with the published measurements that ship (ASSAY_SHIPPED_DATA=yes|no); yes by default.",
)
@click.option("--until-stdin-closes", is_flag=True, hidden=True)
@click.option(
    "--failure-to", type=int, hidden=True, help="Descriptor that gets the error of a service that does not start."
)
def serve(
    models: tuple[str, ...],
    role: str,
    host: str,
    port: int,
    workers: int,
    retrain_every: str | None,
    shipped_data: bool | None,
    until_stdin_closes: bool,
    failure_to: int | None,
) -> NoReturn:
    """Serve the API on ASSAY_HOME with the embedded Postgres, or on ASSAY_DATABASE_URL."""
    if models:
        raise UsageError(
            f"assay serve is the service's, and takes no model ({' '.join(models)}).",
            field="models",
            remedy=f"Serve a model with: assay endpoint serve {' '.join(models)}",
        )
    from assay.home import find_home
    from assay.service import Settings, report_failure
    from assay.service import serve as run

    require_service_support()
    settings = Settings(
        home=find_home(),
        role=role,
        host=host,
        port=port,
        workers=workers,
        retrain_every=retrain_every,
        shipped_data=shipped_data,
    )
    say(f"serving {settings.url} from {settings.home.path} (role {role}); Ctrl-C ends it")
    status = 0
    try:
        run(settings, until_stdin_closes=until_stdin_closes)
    except AssayError as error:
        complain(str(error))
        if failure_to is not None:
            report_failure(error, failure_to)
        status = error.exit_code
    # Everything is closed; taking DuckDB, Arrow and LightGBM apart module by module would hold up a restart by seconds,
    # and threads that still log could crash the interpreter while it ends.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


@click.command(
    epilog="""\b
Examples:
  assay dashboard --server http://127.0.0.1:8000
  ASSAY_TOKEN=assay_… assay dashboard --server https://assay.example.org --host 0.0.0.0"""
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Beyond loopback with a sign-in (docs/sign-in.md)."
)
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True)
@click.option(
    "--server", envvar="ASSAY_SERVER", metavar="URL", help="Service to ask (ASSAY_SERVER); else the local one."
)
def dashboard(host: str, port: int, server: str | None) -> NoReturn:
    """Serve the dashboard alone, for a service that runs elsewhere. ASSAY_TOKEN needs the scope read.

    It runs until SIGTERM or Ctrl-C. `assay up` starts one together with a service.
    """
    from assay.service import require_free
    from dashboard.launch import command

    require_free(host, port)
    words = command(port, server, host=host)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(words[0], words)


@click.command(epilog="Example: assay up --port 8000 --dashboard-port 8501")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True)
@click.option("--dashboard-port", type=click.IntRange(1, 65535), default=8501, show_default=True)
def up(port: int, dashboard_port: int) -> int:
    """Bring up Postgres, API and dashboard, and keep them up until Ctrl-C."""
    from assay.home import find_home
    from assay.service import last_words
    from assay.service import up as bring_up

    require_service_support()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    home = find_home()
    with notes().status("starting Postgres, the API and the dashboard"):
        context = bring_up(home, port, dashboard_port)
        url, page_url, pages = context.__enter__()
    try:
        say(
            f"dashboard  {page_url}\nAPI        {url}   (its schema: {url}/schema)\ndata       {home.path}\nCtrl-C ends them"
        )
        while not ended.wait(1.0):
            if any(page.poll() is not None for page in pages):
                raise ServiceUnavailable(
                    f"the dashboard ended by itself: {last_words(home.dashboard_log.read_bytes()[-4096:])}",
                    remedy=f"All it said is in {home.dashboard_log}; the API ended with it.",
                )
    finally:
        context.__exit__(None, None, None)
    return 0
