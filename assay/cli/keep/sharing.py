"""`assay share`: measurements of this machine or of a log in one signed file without names, for others to add."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import rich_click as click

from assay.cli.confirming import confirm, confirmed
from assay.cli.keep.evidence_repository import SETTING, PullRequest, repository_named
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from assay.cli.output_files import OutputFile, overwritable
from domain.errors import UsageError
from domain.sharing.bundles import DEFAULT_LICENCE
from presentation import formatting

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from assay.cli.keep.share_selection import Contents, Selection
    from domain.events import Decoded

__all__ = ["share"]

PASSPHRASE = "ASSAY_PASSPHRASE"
_PURPOSE = b"assay share ids\n"
_LISTED = 6
"""Names that a row of the table has before it counts the others."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says, as click names it."""

    runs: tuple[str, ...]
    last: bool
    models: tuple[str, ...]
    since: str | None
    files: tuple[Path, ...]
    spool: bool
    include_suspect: bool
    renames: tuple[str, ...]
    words: tuple[str, ...]
    times: Literal["exact", "hour", "day"]
    licence: str
    out: Path | None
    force: bool
    to: str | None
    pull_request: bool
    repository: str | None
    show: bool
    dry_run: bool
    encrypt: bool
    yes: bool
    server: str | None
    token: str | None
    as_json: bool


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """A bundle and what is said of it before it goes anywhere."""

    contents: Contents
    content: bytes
    digest: str
    signer: str
    licence: str
    times: str
    newest: str
    events: list[dict[str, Any]]

    @property
    def stem(self) -> str:
        """The name of the file without its suffix: devices and digest, nothing of this machine."""
        device = "+".join(self.contents.devices[:2]) if len(self.contents.devices) < 3 else "several-devices"
        plain = "".join(letter if letter.isalnum() or letter in "-+." else "-" for letter in device.replace(" × ", "x"))
        return f"{plain}-{self.digest.removeprefix('sha256:')[:12]}"


@click.command(
    epilog="""\b
Examples:
  assay share --dry-run              # the last run: what would leave this machine
  assay share --last --out mine.assay.ndjson.gz
  assay share 0198c0de-7a11 --rename-model our/llm=private-llm
  assay share --model bert-base-uncased --since 2026-11-01 --times hour
  assay share --from here.ndjson --to https://assay.example.org
  assay share --pull-request         # to the repository in ASSAY_EVIDENCE_REPOSITORY
  assay share key                    # the public key that signs your bundles"""
)
@click.argument("runs", nargs=-1, metavar="[RUN]…")
@click.option("--last", is_flag=True, help="The newest run that has rows; the default where nothing else is chosen.")
@click.option("--model", "models", multiple=True, metavar="MODEL", help="Rows of this model alone; can be repeated.")
@click.option("--since", metavar="DATE", help="Rows measured from this date or time on.")
@click.option(
    "--from",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read a file of events instead of a log; can be repeated.",
)
@click.option("--spool", is_flag=True, help="Read what waits on this machine's disk instead of a log.")
@click.option("--include-suspect", is_flag=True, help="Share rows with the verdict suspect or invalid too, as such.")
@click.option("--rename-model", "renames", multiple=True, metavar="OLD=NEW", help="Give a private model another name.")
@click.option(
    "--scrub", "words", multiple=True, metavar="WORD", help="Hide this word wherever it stands; can be repeated."
)
@click.option(
    "--times",
    type=click.Choice(["day", "hour", "exact"]),
    default="day",
    show_default=True,
    help="How exactly the times of measurements are kept.",
)
@click.option(
    "--licence", default=DEFAULT_LICENCE, show_default=True, metavar="SPDX", help="Under which others may use it."
)
@click.option(
    "--out", type=OutputFile(), metavar="FILE", help="Where to write the bundle; else a name of its own here."
)
@overwritable
@click.option("--to", metavar="URL", help="Send the bundle to the Assay at this address, with --token.")
@click.option("--pull-request", is_flag=True, help="Offer it to the evidence repository with git and gh.")
@click.option("--repository", metavar="ADDRESS", help=f"The evidence repository; else {SETTING}.")
@click.option("--show", is_flag=True, help="Print every event as it would be sent.")
@click.option("--dry-run", is_flag=True, help="Show what would be shared, and write and send nothing.")
@click.option("--encrypt", is_flag=True, help=f"Encrypt a new key with a passphrase: {PASSPHRASE}, or typed.")
@confirmed
@served
@as_json
def share(**chosen: Any) -> int:
    """Turn measurements into one signed file without names, show what is in it, and write or send it.

    Host and user names, paths, addresses, serial numbers and tokens are taken out; ids of events are replaced. Rows are
    checked as on their way into a log, and suspect ones stay here. docs/sharing.md says exactly what leaves.
    """
    options = Options(**chosen)
    if options.runs == ("key",):
        return _show_key(encrypt=options.encrypt, as_json=options.as_json)
    if options.to and options.pull_request:
        raise UsageError("--to and --pull-request are two ways.", field="to", remedy="Choose one.")
    repository = repository_named(options.repository)
    if options.pull_request and repository is None:
        raise UsageError(
            "no evidence repository is named.",
            field="repository",
            remedy=f"Set {SETTING} or --repository to a git address; none is built in.",
        )
    parcel = _parcel(options)
    _tell(parcel, options)
    result: dict[str, Any] = {"bundle": parcel.digest, "signer": parcel.signer, "contents": parcel.contents}
    if options.dry_run:
        say("nothing was written or sent")
        if options.as_json:
            print_json({**result, "dry_run": True})
        return 0
    result |= _deliver(parcel, options, repository)
    if options.as_json:
        print_json(result)
    return 0


def _parcel(options: Options) -> Parcel:
    """Select, anonymise and sign."""
    import hashlib
    import hmac

    from assay import __version__
    from assay.cli.keep.share_selection import Selection, anonymised, moment, select
    from assay.home import find_home
    from domain.sharing.anonymising import Anonymiser
    from domain.sharing.bundles import pack, unpack
    from runner.machine.scrub import private_names

    selection = Selection(
        runs=options.runs,
        last=options.last,
        models=options.models,
        since=moment(options.since) if options.since else None,
        include_suspect=options.include_suspect,
    )
    chosen, left_out = select(_events(options, selection), selection)
    if not chosen:
        why = "; ".join(f"{count} {reason}" for reason, count in left_out.most_common(4))
        raise UsageError(
            f"no row of that selection can be shared{f': {why}' if why else ''}.",
            field="RUN",
            remedy="Choose another run (`assay runs list`), or add --include-suspect.",
        )
    key = _key(find_home().path, encrypt=options.encrypt)
    secret = hmac.new(key.private_bytes_raw(), _PURPOSE, hashlib.sha256).digest()
    names = [*private_names(), *options.words]
    anonymiser = Anonymiser(secret, names=names, models=_renames(options.renames), times=options.times)
    events, contents = anonymised(chosen, anonymiser)
    contents.left_out = dict(left_out.most_common())
    content = pack(events, key, tool=f"assay {__version__}", licence=options.licence)
    bundle = unpack(content)
    return Parcel(
        contents=contents,
        content=content,
        digest=bundle.manifest.digest,
        signer=bundle.signer,
        licence=bundle.manifest.licence,
        times=options.times,
        newest=max((event["time"] for event in events if event.get("time")), default="undated")[:10],
        events=events,
    )


def _events(options: Options, selection: Selection) -> list[Decoded]:
    """Return the events of the place that is named: files, the spool, or a service; else of what this machine has."""
    from assay.cli.connection import connected
    from assay.cli.keep.share_selection import events_of_files, events_of_service, events_of_spool
    from assay.home import find_home, running

    if options.files:
        return events_of_files(options.files)
    home = find_home()
    if options.spool or not (options.server or running(home)):
        events = events_of_spool(home)
        if events or options.spool:
            return events
    # A token for --to is that of the service it names.
    with connected(options.server, None if options.to else options.token) as client:
        return events_of_service(client, selection)


def _key(home: Path, *, encrypt: bool) -> Ed25519PrivateKey:
    """Return the key that signs what is shared, made on first use."""
    from runner.machine.signing import SHARING_KEY_FILE, make_key, publish

    path = home / SHARING_KEY_FILE
    locked = path.exists() and b"ENCRYPTED" in path.read_bytes()
    if encrypt and path.exists() and not locked:
        raise UsageError(
            f"{path} is there already, without a passphrase.",
            field="encrypt",
            remedy="Remove it first: its signer ends with it.",
        )
    passphrase = os.environ.get(PASSPHRASE) if locked or encrypt else None
    if (locked or encrypt) and not passphrase:
        if not sys.stdin.isatty():
            raise UsageError("the key needs a passphrase.", field="passphrase", remedy=f"Set {PASSPHRASE}.")
        passphrase = click.prompt("Passphrase of the key", hide_input=True, confirmation_prompt=not locked, err=True)
    fresh = not path.exists()
    key = make_key(home, SHARING_KEY_FILE, passphrase)
    publish(home, key)
    if fresh:
        say(f"a new key for sharing is in {path}; keep it: what it signed is yours by it")
    return key


def _show_key(*, encrypt: bool, as_json: bool) -> int:
    from assay.home import find_home
    from runner.machine.signing import PublicKey

    public = PublicKey(_key(find_home().path, encrypt=encrypt))
    if as_json:
        print_json({"id": public.id, "public_key": public.text})
    else:
        answers().print(f"{public.id}\n{public.text}")
        say(f"others trust it by: assay data trust {public.text} --name 'who you are'")
    return 0


def _renames(pairs: tuple[str, ...]) -> dict[str, str]:
    names: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not equals or not old or not new or any(letter.isspace() for letter in new):
            raise UsageError(f"{pair!r} is no OLD=NEW.", field="rename-model", remedy="Write our/llm=private-llm.")
        names[old] = new
    return names


def _tell(parcel: Parcel, options: Options) -> None:
    """Show what leaves, on stderr where stdout is for JSON."""
    if options.show:
        for event in parcel.events:
            answers().print_json(data=event) if not options.as_json else say(msgspec.json.encode(event).decode())
    if options.as_json:
        return
    answers().print(grid("What is shared", [("", "fixed"), ""], _rows(parcel)))


def _rows(parcel: Parcel) -> list[list[str]]:
    contents = parcel.contents
    verdicts = ", ".join(f"{formatting.count(n)} {verdict}" for verdict, n in contents.verdicts.items())
    scrubbed = ", ".join(f"{_KINDS.get(kind, kind)} {formatting.count(n)}×" for kind, n in contents.scrubbed.items())
    rows = (
        f"{formatting.count(contents.measurements)} measurements ({verdicts or 'none'}), "
        f"{formatting.count(contents.failures)} failures, {formatting.count(contents.tests)} tests "
        f"of {formatting.count(contents.runs)} run{'s' if contents.runs != 1 else ''}"
    )
    left_out = "; ".join(f"{formatting.count(n)}: {why}" for why, n in contents.left_out.items())
    return [
        ["models", _listed(contents.models)],
        ["devices", _listed(contents.devices)],
        ["software", _listed(contents.software)],
        ["systems", _listed(contents.systems)],
        ["rows", rows],
        ["left out", left_out or "nothing"],
        ["scrubbed", scrubbed or "nothing was there to scrub"],
        ["times", {"day": "the day alone", "hour": "the hour", "exact": "as measured"}[parcel.times]],
        ["licence", parcel.licence],
        ["signed by", parcel.signer],
        ["bundle", f"{parcel.digest} ({formatting.memory(len(parcel.content))})"],
    ]


_KINDS = {
    "address": "addresses and host names",
    "id": "serial numbers and ids",
    "name": "names",
    "path": "paths",
    "token": "secrets",
    "variable": "environment variables",
    "model": "models renamed",
}


def _listed(names: list[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "") or "none"


def _deliver(parcel: Parcel, options: Options, repository: str | None) -> dict[str, Any]:
    """Write, send or offer the bundle, after asking, and return what came of it."""
    if options.to:
        confirm(f"It goes to {options.to}.", yes=options.yes)
        return _sent(parcel, options)
    if options.pull_request:
        return _offered(parcel, options, repository or "")
    path = options.out or Path(f"{parcel.stem}.assay.ndjson.gz")
    confirm(f"It is written to {path}; nothing is sent.", yes=options.yes)
    with _written(parcel, path, force=options.force or options.out is None):
        say(f"written to {path}; others add it by `assay data add {path}`")
    if repository is None:
        say(f"for a pull request name the evidence repository: {SETTING}")
        return {"file": str(path), "commands": []}
    commands = _request(parcel, repository).written(path)
    say("a pull request with it, by hand:")
    for line in commands:
        answers().print(f"  {line}", soft_wrap=True) if not options.as_json else None
    return {"file": str(path), "commands": commands}


@contextmanager
def _written(parcel: Parcel, path: Path, *, force: bool) -> Iterator[None]:
    from assay.staging import Staged

    with Staged(force=force) as staged:
        staged.file(path).write_bytes(parcel.content)
    yield


def _sent(parcel: Parcel, options: Options) -> dict[str, Any]:
    from assay.client import Client

    with Client(options.to, token=options.token) as client:
        added = client.add_bundle(parcel.content)
    say(
        f"{formatting.count(added.accepted)} events are new there, {formatting.count(added.duplicate)} were known, "
        f"{formatting.count(len(added.held))} rows are held back; trust in the signer: {added.trust}"
    )
    return {"to": options.to, "answer": msgspec.to_builtins(added)}


def _offered(parcel: Parcel, options: Options, repository: str) -> dict[str, Any]:
    """Print the commands, ask, and run them; what was cloned is removed again."""
    request = _request(parcel, repository)
    with tempfile.TemporaryDirectory(prefix="assay-share-") as place:
        path = options.out or Path(place) / Path(request.path).name
        path.write_bytes(parcel.content)
        commands = request.written(path)
        for line in commands:
            answers().print(line, soft_wrap=True) if not options.as_json else None
        confirm("These run now; git and gh use your name and account.", yes=options.yes)
        address = request.make(path)
    say(f"asked for it to be taken: {address}")
    return {"pull_request": address, "commands": commands}


def _request(parcel: Parcel, repository: str) -> PullRequest:
    contents = parcel.contents
    short = parcel.digest.removeprefix("sha256:")[:12]
    devices = _listed(contents.devices)
    title = f"Add {contents.measurements} measurements of {devices}"
    return PullRequest(
        repository=repository,
        path=f"bundles/{parcel.newest}/{parcel.stem}.assay.ndjson.gz",
        branch=f"share/{short}",
        title=title if len(title) <= 72 else f"Add {contents.measurements} measurements",
        body=f"Models: {_listed(contents.models)}\nSoftware: {_listed(contents.software)}\nLicence: {parcel.licence}\n"
        f"Signer: {parcel.signer}\nDigest: {parcel.digest}\n",
    )
