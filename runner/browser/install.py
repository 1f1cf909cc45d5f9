"""Fetch what pages need, once: onnxruntime-web, and a Chromium where one fits.

Archives are known by digest, and no script of a package is run.
"""

from __future__ import annotations

import base64
import hashlib
import platform
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from time import time
from typing import IO, Literal

import httpx
import msgspec

from domain.errors import CorruptArtifact, PartMissing, UsageError, unusable_file
from runner.browser.locations import CHROMIUM, ONNXRUNTIME_WEB, browser_folder, chromium_fits

__all__ = ["CHROMIUM_PACKAGE", "ONNXRUNTIME_WEB_PACKAGE", "Installed", "NpmPackage", "install"]

_FETCH_S = 900.0
_BLOCK = 1 << 20
_PARTIAL = ".partial-"
_RUNTIME_FILES = (".mjs", ".wasm")


class NpmPackage(msgspec.Struct, frozen=True, kw_only=True):
    """A package of npm in one version; `integrity` is the SHA-512 of its archive, in base64."""

    name: str
    version: str
    integrity: str
    size_bytes: int

    @property
    def archive(self) -> str:
        """The name that `npm pack` gives to the archive."""
        return f"{self.name.lstrip('@').replace('/', '-')}-{self.version}.tgz"

    @property
    def command(self) -> str:
        """The command that makes the archive."""
        return f"npm pack {self.name}@{self.version} --ignore-scripts"

    @property
    def path(self) -> str:
        """Where a registry has the archive."""
        return f"{self.name}/-/{self.name.rpartition('/')[2]}-{self.version}.tgz"


ONNXRUNTIME_WEB_PACKAGE = NpmPackage(
    name="onnxruntime-web",
    version=ONNXRUNTIME_WEB,
    integrity="q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ==",
    size_bytes=33_106_585,
)
CHROMIUM_PACKAGE = NpmPackage(
    name="@sparticuz/chromium",
    version=CHROMIUM,
    integrity="jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA==",
    size_bytes=69_995_309,
)


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one part. `path` is None where it was left out, and `reason` says why."""

    name: str
    version: str
    status: Literal["installed", "present", "left_out"]
    path: str | None = None
    size_bytes: int | None = None
    reason: str | None = None


OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, how many bytes of it are done, and of how many."""


def install(
    *,
    folder: Path | None = None,
    archives: Path | None = None,
    registry: str | None = None,
    force: bool = False,
    on_progress: OnProgress | None = None,
) -> list[Installed]:
    """Install onnxruntime-web, and Chromium on Linux on x86-64; return what became of each.

    Archives are taken from the folder `archives`, else fetched by npm, else, where npm is missing, from `registry`. A part
    is complete or absent: it is unpacked beside its place and moved there. Raises PartMissing, UsageError and CorruptArtifact.
    """
    target = folder or browser_folder()
    source = _Source(archives, registry, on_progress or _nothing)
    results = [_install(ONNXRUNTIME_WEB_PACKAGE, "onnxruntime-web", target, source, _unpack_runtime, force)]
    if chromium_fits():
        results.append(_install(CHROMIUM_PACKAGE, "chromium", target, source, _unpack_chromium, force))
    else:
        reason = f"it is built for Linux on x86-64, and this is {platform.system()} on {platform.machine()}"
        results.append(Installed(name="chromium", version=CHROMIUM, status="left_out", reason=reason))
    return results


def _nothing(_what: str, _done: int, _total: int) -> None:
    pass


Unpack = Callable[[tarfile.TarFile, Path, OnProgress], None]


class _Source(msgspec.Struct, frozen=True):
    """Where archives come from."""

    archives: Path | None
    registry: str | None
    on_progress: OnProgress

    def fetch(self, package: NpmPackage, into: Path) -> Path:
        """Return the package's archive, with its digest checked."""
        if self.archives is not None:
            path = self.archives / package.archive
            if not path.is_file():
                raise UsageError(
                    f"{self.archives} has no file {package.archive}.",
                    field="--from",
                    remedy=f"Make it on a machine with a network: {package.command}",
                )
        elif npm := shutil.which("npm"):
            path = self._by_npm(npm, package, into)
        else:
            path = self._by_http(package, into)
        self._verify(package, path)
        return path

    def _by_npm(self, npm: str, package: NpmPackage, into: Path) -> Path:
        """Let npm fetch it, with the registry, the proxy and the certificates that npm is configured for."""
        self.on_progress(f"{package.name} {package.version}", 0, package.size_bytes)
        command = [
            npm,
            "pack",
            f"{package.name}@{package.version}",
            "--ignore-scripts",
            "--pack-destination",
            str(into),
        ]
        command += [f"--registry={self.registry}"] if self.registry else []
        try:
            done = subprocess.run(
                command, cwd=into, stdin=subprocess.DEVNULL, capture_output=True, timeout=_FETCH_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _unreachable(package, f"npm: {error}") from error
        path = into / package.archive
        if done.returncode or not path.is_file():
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise _unreachable(
                package, next((line for line in lines if "error" in line.lower()), f"npm ended with {done.returncode}")
            )
        return path

    def _by_http(self, package: NpmPackage, into: Path) -> Path:
        if not self.registry:
            raise PartMissing(
                f"npm, which fetches {package.name}, is not installed.",
                remedy="Install Node.js, or name an npm registry with --registry, or a folder of archives with --from.",
            )
        path, done = into / package.archive, 0
        try:
            with httpx.stream(
                "GET", f"{self.registry.rstrip('/')}/{package.path}", follow_redirects=True, timeout=60
            ) as answer:
                answer.raise_for_status()
                with path.open("wb") as file:
                    for block in answer.iter_bytes(_BLOCK):
                        done += file.write(block)
                        self.on_progress(f"{package.name} {package.version}", done, package.size_bytes)
                        if done > package.size_bytes:
                            break
        except httpx.InvalidURL as error:
            raise UsageError(f"{self.registry} is no address: {error}.", field="--registry") from error
        except httpx.HTTPError as error:
            raise _unreachable(package, str(error) or type(error).__name__) from error
        return path

    def _verify(self, package: NpmPackage, path: Path) -> None:
        digest = hashlib.sha512()
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        self.on_progress(f"{package.name} {package.version}", package.size_bytes, package.size_bytes)
        found = base64.b64encode(digest.digest()).decode()
        if found != package.integrity:
            raise CorruptArtifact(
                f"the archive of {package.name} {package.version} has another SHA-512 than expected: {found[:16]}….",
                field="--from" if self.archives else None,
                remedy="Nothing was installed. Fetch it again; if it differs again, somebody on the way changes it.",
            )


def _install(package: NpmPackage, name: str, folder: Path, source: _Source, unpack: Unpack, force: bool) -> Installed:
    place = folder / f"{name}-{package.version}"
    if place.is_dir() and not force:
        return _installed(package, name, place, "present")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(folder)
        with tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=folder) as scratch:
            archive = source.fetch(package, Path(scratch))
            fresh = Path(scratch, "unpacked")
            fresh.mkdir()
            with tarfile.open(archive, "r:gz") as tar:
                unpack(tar, fresh, source.on_progress)
            if place.is_dir():
                place.rename(Path(scratch, "replaced"))
            fresh.rename(place)
    except OSError as error:
        if place.is_dir() and not force:
            return _installed(package, name, place, "present")  # Another process was faster.
        raise unusable_file(error) from error
    return _installed(package, name, place, "installed")


def _remove_abandoned(folder: Path) -> None:
    """Remove what an installation left that was killed."""
    for path in folder.glob(f"{_PARTIAL}*"):
        if time() - path.stat().st_mtime > _FETCH_S * 2:
            shutil.rmtree(path, ignore_errors=True)


def _installed(package: NpmPackage, name: str, place: Path, status: Literal["installed", "present"]) -> Installed:
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    return Installed(name=name, version=package.version, status=status, path=str(place), size_bytes=size)


def _unpack_runtime(tar: tarfile.TarFile, into: Path, _: OnProgress) -> None:
    """Write the modules and the WebAssembly of onnxruntime-web, flat, with its licence."""
    for member in tar:
        path = PurePosixPath(member.name)
        wanted = (path.parts[:2] == ("package", "dist") and path.suffix in _RUNTIME_FILES) or path.name.startswith(
            "LICENSE"
        )
        if member.isfile() and wanted and len(path.parts) <= 3:
            with _member(tar, member) as source, (into / path.name).open("wb") as file:
                shutil.copyfileobj(source, file, _BLOCK)


def _unpack_chromium(tar: tarfile.TarFile, into: Path, on_progress: OnProgress) -> None:
    """Write the browser, SwiftShader beside it, and the libraries and fonts for systems that have none."""
    for member in tar:
        path = PurePosixPath(member.name)
        if not member.isfile() or path.parts[:2] != ("package", "bin") or path.suffix != ".br":
            continue
        unpacked = into / path.stem
        with _member(tar, member) as source, unpacked.open("wb") as file:
            _decompress(source, file, member.size, on_progress)
        if unpacked.suffix == ".tar":
            with tarfile.open(unpacked) as inner:
                _write_files(inner, into)
            unpacked.unlink()
    (into / "chromium").chmod(0o755)


def _write_files(tar: tarfile.TarFile, into: Path) -> None:
    """Write the files of an archive below a folder; links, and names that lead out of it, are left out.

    The filters of tarfile do this from Python 3.11.4 on.
    """
    for member in tar:
        path = PurePosixPath(member.name)
        if member.isfile() and not path.is_absolute() and ".." not in path.parts:
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            with _member(tar, member) as source, (into / path).open("wb") as file:
                shutil.copyfileobj(source, file, _BLOCK)


def _decompress(source: IO[bytes], file: IO[bytes], size: int, on_progress: OnProgress) -> None:
    try:
        import brotli
    except ImportError:
        raise PartMissing(
            "Chromium comes compressed by Brotli, and the package brotli is not installed.",
            remedy="pip install 'assay-bench[browser]'",
        ) from None
    decompressor, done = brotli.Decompressor(), 0
    while block := source.read(_BLOCK):
        file.write(decompressor.process(block))
        done += len(block)
        on_progress("unpacking Chromium", done, size)


@contextmanager
def _member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[IO[bytes]]:
    stream = tar.extractfile(member)
    assert stream is not None
    with stream:
        yield stream


def _unreachable(package: NpmPackage, why: str) -> PartMissing:
    return PartMissing(
        f"{package.name} {package.version} could not be fetched: {why.rstrip('.')}.",
        remedy=f"Connect to a network, or on another machine run {package.command} and name its folder with --from.",
    )
