"""Give this interpreter, on Linux or macOS, what Windows has and lacks, as far as modules of Assay can see.

The folder of this file goes to PYTHONPATH. Modules of Assay then see `sys.platform == "win32"`, `os` and `signal`
without the names of POSIX, no `fcntl` and its like, no /proc and /sys, and subprocesses without inherited descriptors.
Files behave as there: an open file cannot be renamed, replaced or removed, no file is renamed over another, and what is
open for reading alone cannot be synchronised. The standard library and other packages stay as they are.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import functools
import os
import pathlib
import signal
import stat
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

OURS = frozenset({"assay", "domain", "ingest", "predictor", "runner", "api", "dashboard", "presentation"})
ABSENT = frozenset({"fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "uvloop", "syslog", "posix"})
OS = [
    "chown",
    "chroot",
    "copy_file_range",
    "ctermid",
    "fchdir",
    "fchmod",
    "fchown",
    "fdatasync",
    "fork",
    "forkpty",
    "fwalk",
    "getegid",
    "geteuid",
    "getgid",
    "getgroups",
    "getloadavg",
    "getpgid",
    "getpgrp",
    "getpriority",
    "getresuid",
    "getsid",
    "getuid",
    "initgroups",
    "killpg",
    "lchown",
    "lockf",
    "mkfifo",
    "mknod",
    "nice",
    "openpty",
    "pathconf",
    "pipe2",
    "posix_fadvise",
    "posix_fallocate",
    "posix_spawn",
    "pread",
    "preadv",
    "pwrite",
    "pwritev",
    "readv",
    "sched_getaffinity",
    "sched_setaffinity",
    "sendfile",
    "setegid",
    "seteuid",
    "setgid",
    "setgroups",
    "setpgid",
    "setpriority",
    "setsid",
    "setuid",
    "statvfs",
    "sync",
    "sysconf",
    "tcgetpgrp",
    "ttyname",
    "uname",
    "wait",
    "wait3",
    "wait4",
    "waitid",
    "writev",
    "WNOHANG",
    "WIFSIGNALED",
    "O_CLOEXEC",
    "O_DIRECTORY",
    "O_DSYNC",
    "O_NOCTTY",
    "O_NOFOLLOW",
    "O_NONBLOCK",
    "O_SYNC",
    "O_TMPFILE",
    "O_PATH",
]
SIGNALS = [
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCONT",
    "SIGHUP",
    "SIGIO",
    "SIGKILL",
    "SIGPIPE",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
    "alarm",
    "getitimer",
    "pause",
    "pthread_kill",
    "pthread_sigmask",
    "setitimer",
    "siginterrupt",
    "sigpending",
    "sigtimedwait",
    "sigwait",
    "sigwaitinfo",
]
KERNEL_FOLDERS = ("/proc", "/sys", "/dev/shm")
REGISTRY = {
    r"HARDWARE\DESCRIPTION\System\CentralProcessor\0": {
        "ProcessorNameString": "AMD Ryzen 9 7950X 16-Core Processor            ",
        "VendorIdentifier": "AuthenticAMD",
        "~MHz": 4500,
    },
    r"HARDWARE\DESCRIPTION\System\BIOS": {"SystemManufacturer": "ASUS", "SystemProductName": "System Product Name"},
}
"""Values of the registry, as a desktop shows them in regedit."""


class View(types.ModuleType):
    """A module as Assay sees it: some names are absent, some others, the rest is the real module's."""

    def __init__(self, real: Any, *, absent: list[str] = [], **others: Any) -> None:  # noqa: B006 - read only
        super().__init__(real.__name__)
        self.__dict__.update(_real=real, _absent=frozenset(absent), **others)

    def __getattr__(self, name: str) -> Any:
        if name in self._absent:
            raise AttributeError(f"module {self._real.__name__!r} has no attribute {name!r} on Windows")
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


class Started(subprocess.Popen):  # type: ignore[type-arg]
    """A subprocess as Windows starts it."""

    def __init__(self, *words: Any, **options: Any) -> None:
        assert not options.get("pass_fds"), "pass_fds not supported on Windows."
        assert options.get("preexec_fn") is None, "preexec_fn is not supported on Windows platforms"
        super().__init__(*words, **options)


def _fsync(descriptor: int) -> None:
    import fcntl

    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, "Bad file descriptor")
    os.fsync(descriptor)


def _locking(descriptor: int, mode: int, count: int) -> None:
    """Lock bytes from the position on, as the C library of Windows does; a lock of POSIX on those bytes stands for it."""
    import fcntl

    where = os.lseek(descriptor, 0, os.SEEK_CUR)
    assert count == 1
    assert where >= 1 << 20, "a locked byte cannot be read by others"
    held = {1: fcntl.LOCK_EX, 2: fcntl.LOCK_EX | fcntl.LOCK_NB, 0: fcntl.LOCK_UN}[mode]
    try:
        fcntl.flock(descriptor, held)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None


class _Key:
    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def __enter__(self) -> _Key:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _open_key(_root: object, key: str) -> _Key:
    if key not in REGISTRY:
        raise FileNotFoundError(errno.ENOENT, "The system cannot find the file specified")
    return _Key(REGISTRY[key])


def _query(key: _Key, name: str) -> tuple[Any, int]:
    if name not in key.values:
        raise FileNotFoundError(errno.ENOENT, "The system cannot find the file specified")
    return key.values[name], 1


def _module(name: str, **members: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(members)
    return module


_kernel = types.SimpleNamespace(IsProcessorFeaturePresent=lambda number: int(number in (6, 10, 13, 38, 39, 40)))
SEEN: dict[str, types.ModuleType] = {
    "sys": View(sys, platform="win32"),
    "os": View(os, absent=OS, name="nt", fsync=_fsync),
    "signal": View(signal, absent=SIGNALS),
    "subprocess": View(subprocess, Popen=Started),
    "ctypes": View(ctypes, windll=types.SimpleNamespace(kernel32=_kernel)),
    "msvcrt": _module("msvcrt", LK_UNLCK=0, LK_LOCK=1, LK_NBLCK=2, locking=_locking),
    "winreg": _module("winreg", HKEY_LOCAL_MACHINE=object(), OpenKey=_open_key, QueryValueEx=_query),
}
_import = builtins.__import__


def _ours(namespace: Any) -> bool:
    spec = (namespace or {}).get("__spec__")
    return spec is not None and spec.name.partition(".")[0] in OURS


def _imported(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:  # noqa: A002
    if level == 0 and _ours(globals):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name in SEEN:
            return SEEN[name]
    return _import(name, globals, locals, fromlist, level)


def _identity(path: Any) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _require_closed(path: Any) -> None:
    """Raise PermissionError where this process has the file, or one below the folder, open."""
    path = pathlib.Path(path)
    inside = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
    wanted = {identity for each in inside if (identity := _identity(each))}
    for entry in pathlib.Path("/dev/fd").iterdir():
        try:
            status = os.fstat(int(entry.name))
        except OSError:
            continue
        if (status.st_dev, status.st_ino) in wanted:
            raise PermissionError(errno.EACCES, "The process cannot access the file: it is being used", str(path))


def _watch_files() -> None:
    rename, replace, unlink, remove = os.rename, os.replace, os.unlink, os.remove

    def renamed(source: Any, target: Any, **more: Any) -> None:
        if os.access(target, os.F_OK):
            raise FileExistsError(errno.EEXIST, "Cannot create a file when that file already exists", str(target))
        _require_closed(source)
        rename(source, target, **more)

    def replaced(source: Any, target: Any, **more: Any) -> None:
        _require_closed(source)
        if os.access(target, os.F_OK):
            _require_closed(target)
        replace(source, target, **more)

    def closed(act: Callable[..., None]) -> Callable[..., None]:
        def acted(path: Any, **more: Any) -> None:
            if not more.get("dir_fd"):
                _require_closed(path)
            act(path, **more)

        return acted

    os.rename, os.replace = renamed, replaced
    os.unlink, os.remove = closed(unlink), closed(remove)


def _hide_kernel() -> None:
    """Let paths below /proc, /sys and /dev/shm be as absent as they are on Windows."""

    def hidden(path: pathlib.Path) -> bool:
        return str(path).startswith(KERNEL_FOLDERS)

    def hiding(act: Callable[..., Any], otherwise: Any) -> Callable[..., Any]:
        def acted(self: pathlib.Path, *words: Any, **options: Any) -> Any:
            if not hidden(self):
                return act(self, *words, **options)
            if otherwise is None:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(self))
            return otherwise() if callable(otherwise) else otherwise

        return acted

    for name in ("stat", "open", "read_text", "read_bytes", "iterdir"):
        setattr(pathlib.Path, name, hiding(getattr(pathlib.Path, name), None))
    for name in ("exists", "is_file", "is_dir"):
        setattr(pathlib.Path, name, hiding(getattr(pathlib.Path, name), False))
    for name in ("glob", "rglob"):
        setattr(pathlib.Path, name, hiding(getattr(pathlib.Path, name), lambda: iter(())))


def _count_memory() -> None:
    """Give a process its highest working set, which psutil reads on Windows alone."""
    import psutil

    memory_info = psutil.Process.memory_info

    @functools.wraps(memory_info)
    def counted(self: Any) -> Any:
        amounts = memory_info(self)
        return types.SimpleNamespace(rss=amounts.rss, vms=amounts.vms, peak_wset=amounts.rss)

    psutil.Process.memory_info = counted


_count_memory()
_hide_kernel()
_watch_files()
builtins.__import__ = _imported
