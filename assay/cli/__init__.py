"""The command line: `assay VERB`. Each verb is imported when it is called, so that `assay --help` is quick."""

from __future__ import annotations

import errno
import importlib
import inspect
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import rich_click as click
from click import exceptions as click_exceptions

from assay import TOP_LEVEL, require_own_packages

try:
    require_own_packages()
except ImportError as hidden:
    sys.stderr.write(f"error: {hidden}\n")
    # As for every part that is not available; its error cannot be imported either.
    raise SystemExit(3) from None

from domain.errors import AssayError, PartMissing, UsageError, unusable_file

__all__ = ["main"]

FILE_ERRORS = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ENAMETOOLONG,
        errno.ENOENT,
    }
)
"""What a file system answers that only a person can mend; anything else is a fault of the program."""
OUR_PACKAGES = frozenset({"assay", *TOP_LEVEL})
VERBS: dict[str, str] = {
    "up": "serve.serving",
    "serve": "serve.serving",
    "endpoint": "endpoints.endpoint",
    "dashboard": "serve.serving",
    "demo": "serve.demo",
    "detect": "measure.detecting",
    "noise": "measure.detecting",
    "bench": "measure.measuring",
    "browser": "measure.browser",
    "calibrate": "measure.calibrating",
    "compress": "variants.compressing",
    "verify": "measure.measuring",
    "scaffold": "scaffold.scaffolding",
    "selftest": "measure.selftest",
    "suggest": "ask.suggesting",
    "jobs": "measure.jobs",
    "worker": "measure.working",
    "spool": "measure.spool",
    "post": "measure.sending",
    "import": "keep.importing",
    "data": "keep.shipped_data",
    "share": "keep.sharing",
    "peer": "keep.peers",
    "migrate": "keep.migrating",
    "validate": "keep.validating",
    "recommend": "ask.asking",
    "predict": "ask.asking",
    "fleet": "ask.fleet",
    "fit": "ask.fit",
    "train": "learn.training",
    "predictor": "learn.predictors",
    "evaluate": "learn.evaluating",
    "compare": "ask.comparing",
    "matrix": "ask.matrix",
    "trends": "ask.trending",
    "report": "ask.reporting",
    "card": "ask.card",
    "query": "ask.querying",
    "snapshot": "keep.snapshots",
    "baseline": "keep.snapshots",
    "hardware": "ask.hardware",
    "model": "ask.models",
    "price": "ask.pricing",
    "retract": "measure.sending",
    "status": "serve.operating",
    "rebuild": "serve.operating",
    "doctor": "serve.doctor",
    "db": "keep.database",
    "log": "keep.log",
    "token": "serve.tokens",
    "archive": "keep.archive",
    "samples": "keep.archive",
    "export": "keep.exporting",
    "regressions": "ask.regressing",
    "alerts": "ask.alerts",
    "bisect": "measure.bisecting",
    "ci": "ask.ci",
    "runs": "ask.runs",
    "bench-data": "keep.bench_data",
    "mcp": "agents.serving",
    "help": "helping",
    "completion": "helping",
}
"""Verb → the module of this package that holds it."""

SUMMARIES = {
    "Ask": {
        "recommend": "Rank devices for a model, each at its best platform, precision, batch and compilation, with interval and evidence.",
        "predict": "Predict one configuration, whether it was measured or not, with interval and evidence.",
        "fleet": "Find the cheapest machines that serve several models, several on one machine where they fit.",
        "fit": "Print for each device, platform and precision which batches and lengths fit, and which batch is best.",
        "compare": "Put what was measured or imported side by side: hardware for a model, models on a hardware, modes of a model.",
        "matrix": "Show model × platform: does it build, run, give right outputs, was it measured, and why not.",
        "trends": "Follow a metric of a model's configurations over time, one line a configuration.",
        "runs": "Runs: one call of a runner or an importer each, with what came of it.",
        "report": "Put what was measured and imported into a report that stands alone: comparisons, charts, evidence.",
        "card": "Make a card of this machine: what it is, its measured roofline, and five models beside like machines.",
        "regressions": "Compare by configuration, with the intervals of both sides, so that noise does not alarm.",
        "alerts": "Confirmed changes of figures and tests, one alert for a common cause. ID is an alert's id, or its first letters.",
        "bisect": "Find the first bad commit, or version of a package, although every run differs.",
        "ci": "Compare a job's measurements with its branch's baseline, on GitHub Actions and GitLab CI.",
        "query": "Run one SELECT over the documented views (docs/tables.md), read-only, under limits of time and memory.",
    },
    "Measure": {
        "detect": "Say what hardware this machine has and which platforms work on it, each tried and not assumed.",
        "noise": "Score this moment on this machine: is it quiet enough to measure?",
        "browser": "Run models in real browsers: set them up here, or let any phone or laptop measure by a link.",
        "suggest": "List the runs that would lower the error of open questions most, for the time they take.",
        "bench": "Measure models on this machine: one configuration, one process of its own; every result is an event.",
        "calibrate": "Measure 29 kernels on each platform of this machine: matrix products, convolutions, attention, and what moves memory.",
        "compress": "Make smaller variants of a model, measure and verify each, and say what it costs in quality.",
        "verify": "Does it run, and does it run right? Outputs are compared with fp32 on the CPU; every outcome is a test event.",
        "scaffold": "Keep what was measured as tests: one pytest file a model, for a team's own repository and CI.",
        "selftest": "Check that a platform does here what Assay says of it: about a minute, nothing is assumed.",
        "jobs": "Plans as jobs for the machines that run `assay worker`: each job goes to one that can do it.",
        "worker": "Claim jobs that this machine can do, run each as `assay bench`, and send what was measured.",
        "spool": "Show, send and tidy the events that wait on this machine's disk.",
        "post": "Send events that a runner wrote to files, compressed with gzip or not; what the log has stays as it is.",
        "import": "Turn other tools' files into events; a second import of the same rows changes nothing.",
        "migrate": "Take all results below a folder, whatever their formats, and say what was taken of each file.",
        "validate": "Look for measurements whose figures contradict each other, by the cleaning rules; exit 1 where there are any.",
        "retract": "Void a measurement or a whole run: it leaves answers and training, and stays in the log with the reason.",
    },
    "Learn": {
        "train": "Train the predictor on what the log holds; few rows calibrate the shipped one instead, and it says so.",
        "evaluate": "Score the predictor's method on groups that it has not seen: error, order and coverage of its intervals.",
        "predictor": "Which predictor answers, how right its answers were, and the way back to another one.",
        "hardware": "Hardware by slug: figures with their sources, where it was seen, what it costs, and aliases.",
        "model": "Models by id: what each is, where it was tried and where never, and aliases.",
        "price": "What an hour of a machine costs: the list that ships, price lists that were imported, and your own machines.",
    },
    "Serve": {
        "demo": "Measure three models on this machine, train, and recommend hardware for one measured and one never seen.",
        "up": "Bring up Postgres, API and dashboard, and keep them up until Ctrl-C.",
        "serve": "Serve the API on ASSAY_HOME with the embedded Postgres, or on ASSAY_DATABASE_URL.",
        "endpoint": "Serve models behind KServe v2 and OpenAI-compatible routes; docs/serving.md.",
        "dashboard": "Serve the dashboard alone, for a service that runs elsewhere. ASSAY_TOKEN needs the scope read.",
        "mcp": "Serve recommend, predict, fit, compare, matrix and query to agents, by the Model Context Protocol.",
        "status": "Show where log and tables stand, what is known, and which predictor answers; or a day of it (admin).",
        "doctor": "Check packages, disk, log, archive, tables, clock and tokens, and say what to do. Exit 1 where something is wrong.",
        "rebuild": "Project the whole log anew, beside the tables that go on answering, and swap.",
        "token": "Tokens: who may append, read, submit jobs, work on them, or administer; and the keys by which runners sign.",
        "bench-data": "Make up measurements on the catalogues' models and hardware, to try capacity with.",
    },
    "Keep": {
        "data": "Measurements of others: published ones that ship with Assay, and shared ones that somebody signed.",
        "share": "Turn measurements into one signed file without names, show what is in it, and write or send it.",
        "peer": "Other Assay services whose events are pulled into this log, unchanged, by position.",
        "db": "The log's schema, and copies of the whole log.",
        "log": "The log's hash chain: verify it, and sign its head.",
        "archive": "Closed ranges of the log as Parquet files, in ASSAY_ARCHIVE or ASSAY_HOME/archive.",
        "samples": "Raw samples: expendable, unlike facts.",
        "snapshot": "Names for positions of the log. Nothing is copied: the log never changes, so what it held at a position stays.",
        "baseline": "Named baselines of branches: the state that runs are compared with, and where a branch started.",
        "export": "Write events or views to a file: Parquet, CSV, Arrow, DuckDB, NDJSON, or what other benchmark tools read.",
    },
    "Help": {
        "help": "Say what a verb does; without one, list them all.",
        "completion": "Complete verbs, options and their values at the press of Tab, in bash, zsh and fish.",
    },
}
"""The groups of `assay --help`, and the first paragraph of each verb's help, which a list shows without importing them."""


class Verbs(click.RichGroup):
    """The verbs. A list of them shows their summaries; one is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click names it
        """Return the verbs in the order of `VERBS`."""
        return list(VERBS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Import the verb; name the nearest ones where there is none of that name."""
        name = args[0]
        if name not in VERBS:
            import difflib

            begun = [verb for verb in VERBS if name.startswith(verb) or verb.startswith(name)]
            near = begun or difflib.get_close_matches(name, VERBS, n=3)
            hint = f" Did you mean {', '.join(near)}?" if near else ""
            raise click.UsageError(f"no verb is called {name!r}.{hint}", ctx)
        function = {"import": "import_"}.get(name, name.replace("-", "_"))
        verb: click.Command = getattr(importlib.import_module(f"assay.cli.{VERBS[name]}"), function)
        return name, _with_examples(verb), args[1:]


def _with_examples(verb: click.Command) -> click.Command:
    """Move the examples of a verb into its help, where lines stay as they were written; an epilog would be wrapped."""
    if verb.epilog:
        lines = verb.epilog.replace("\b", "").strip()
        verb.help, verb.epilog = f"{inspect.cleandoc(verb.help or '')}\n\n\b\n{lines}", None
    for inner in verb.commands.values() if isinstance(verb, click.RichGroup) else ():
        _with_examples(inner)
    return verb


@click.group(
    cls=Verbs,
    commands=[click.RichCommand(name=name, help=text) for group in SUMMARIES.values() for name, text in group.items()],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="assay-bench", prog_name="assay")
def cli() -> None:
    """Which hardware should run this model? Measured where we measured, predicted where we did not.

    \b
    First minutes:
      assay detect                                    what this machine is
      assay bench bert-base-uncased --platform cpu    measure it
      assay recommend bert-base-uncased               ask
      assay up                                        look at it in a browser
    """


_TRACING = ("ASSAY_TRACING", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_UNTRACED = frozenset({"serve", "up", "help", "completion"})
_SYNONYMS = {
    "--training": "--mode training",
    "--inference": "--mode inference",
    "--half": "--precision fp16",
    "--fp16": "--precision fp16",
    "--gpu": "--platform cuda",
    "--device": "--platform",
}
"""Options of other tools, and what they are here."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit 0 done, 1 no or partly refused, 2 wrong usage, 3 a needed part is not available."""
    click.rich_click.COMMAND_GROUPS = {"assay": [{"name": name, "commands": [*of]} for name, of in SUMMARIES.items()]}
    click.rich_click.MAX_WIDTH = 100
    sys.exit(run(arguments))


SECRETS = ("ASSAY_DATABASE_URL", "ASSAY_TOKEN", "ASSAY_OPERATOR_TOKEN", "ASSAY_ENDPOINT_KEY")
"""Variables whose value may be in a file instead, which NAME_FILE names: container and service managers pass secrets so."""


def read_secret_files() -> None:
    """Set each secret variable from the file that its NAME_FILE variable names; UsageError where that cannot be done."""
    for name in SECRETS:
        path = os.environ.get(f"{name}_FILE")
        if not path:
            continue
        if os.environ.get(name):
            raise UsageError(
                f"{name} and {name}_FILE are both set.",
                field=f"{name}_FILE",
                remedy=f"Unset one of them; {path} was not read.",
            )
        try:
            value = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}.",
                field=f"{name}_FILE",
                remedy="Name a file that this user may read and that holds the secret alone.",
            ) from error
        if len(value.splitlines()) != 1 or "\x00" in value:
            raise UsageError(
                f"{path} {'is not one line of text' if value else 'is empty'}.",
                field=f"{name}_FILE",
                remedy="Write the secret alone into the file, in one line.",
            )
        os.environ[name] = value
        # A child of this process gets the value; both variables would be refused there.
        del os.environ[f"{name}_FILE"]


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code; what is wrong goes to stderr in a sentence."""
    from assay.cli.output import complain, prepare_streams

    prepare_streams()
    try:
        read_secret_files()
        with _traced(sys.argv[1:] if arguments is None else arguments):
            result: Any = cli.main(arguments, prog_name="assay", standalone_mode=False)
        # What the system holds back is said here, not by an interpreter that ends.
        sys.stdout.flush()
    except click_exceptions.Exit as end:
        return int(end.exit_code)
    except click.Abort:
        complain("interrupted.")
        return 130
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption) and error.option_name in _SYNONYMS:
            error = click.NoSuchOption(error.option_name, possibilities=[_SYNONYMS[error.option_name]], ctx=error.ctx)
        error.show()
        return 2
    except AssayError as error:
        complain(str(error))
        return error.exit_code
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] in OUR_PACKAGES:
            raise
        missing = _missing(error)
        complain(str(missing))
        return missing.exit_code
    except (SystemExit, BrokenPipeError) as end:
        # Click itself exits with 1 where the reader of stdout has left.
        if not isinstance(end.__context__ if isinstance(end, SystemExit) else end, BrokenPipeError):
            raise
        _close_output()
        return 0
    except OSError as error:
        if error.errno not in FILE_ERRORS and not _reader_left(error):
            raise
        return _unusable(error)
    return result if isinstance(result, int) else 0


def _traced(arguments: Sequence[str]) -> AbstractContextManager[None]:
    """Return a span around a verb where spans are exported (docs/operation.md); a service exports its own."""
    verb = arguments[0] if arguments else ""
    if verb not in VERBS or verb in _UNTRACED or not any(os.environ.get(name) for name in _TRACING):
        return nullcontext()
    return _root(verb)


@contextmanager
def _root(verb: str) -> Iterator[None]:
    import logging

    from api.background.span_export import exported
    from domain import spans

    # A collector that is away is said once, at the end, and not at each of its retries.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    with exported("assay-cli"), spans.span(f"assay {verb}"):
        yield


def _missing(error: ModuleNotFoundError) -> AssayError:
    from domain.operating_system import POSIX_MODULES, service_unsupported

    if sys.platform == "win32" and error.name in POSIX_MODULES:
        return service_unsupported()
    return PartMissing(f"this verb needs the package {error.name!r}.", remedy="pip install 'assay-bench[all]'")


def _reader_left(error: OSError) -> bool:
    """Whether the reader of stdout has left, as Windows says it."""
    return sys.platform == "win32" and error.errno == errno.EINVAL and error.filename is None


def _unusable(error: OSError) -> int:
    """Say which file cannot be used, or that the output cannot be written, and return the exit code."""
    from assay.cli.output import complain

    if _reader_left(error):
        _close_output()
        return 0
    if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT):
        complain(f"the output cannot be written: {error.strerror}. Make room, or write it elsewhere.")
        _close_output()
        return PartMissing.exit_code
    unusable = unusable_file(error)
    complain(str(unusable))
    return unusable.exit_code


def _close_output() -> None:
    """Let what is still held for stdout go nowhere: written when the interpreter ends, it would be a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
