"""Receivers of alerts on loopback: a web server and a mail server that keep what they got and answer as they are told."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Hook:
    """A web server: `answers` are the statuses and headers that it gives in turn, the last one for ever."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, dict[str, str]]] = [(204, {})]
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                hook.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                status, headers = hook.answers.pop(0) if len(hook.answers) > 1 else hook.answers[0]
                self.send_response(status)
                for name, value in {"content-length": "0", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"

    @contextmanager
    def running(self) -> Iterator[Hook]:
        """Serve within the context."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


class MailServer:
    """A mail server that speaks STARTTLS and AUTH where it has a certificate."""

    def __init__(self, tls: ssl.SSLContext | None = None, refuse: int | None = None) -> None:
        self.mails: list[bytes] = []
        self.logins: list[str] = []
        self.encrypted = False
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.say("220 mail.test ESMTP")
                while line := self.rfile.readline():
                    verb = line.split()[0].upper().decode() if line.split() else ""
                    if not self.answer(verb, line):
                        return

            def answer(self, verb: str, line: bytes) -> bool:
                if verb == "EHLO":
                    self.say("250-mail.test\r\n250-AUTH PLAIN" + ("\r\n250 STARTTLS" if tls else "\r\n250 HELP"))
                elif verb == "STARTTLS" and tls is not None:
                    self.say("220 go ahead")
                    self.request = tls.wrap_socket(self.request, server_side=True)
                    self.rfile, self.wfile = self.request.makefile("rb"), self.request.makefile("wb", buffering=0)
                    server.encrypted = True
                elif verb == "AUTH":
                    server.logins.append(base64.b64decode(line.split()[2]).decode())
                    self.say(f"{refuse} no: {server.logins[-1]!r}" if refuse else "235 welcome")
                elif verb == "DATA":
                    self.say("354 go on")
                    rows = []
                    while (row := self.rfile.readline()) != b".\r\n":
                        rows.append(row)
                    server.mails.append(b"".join(rows))
                    self.say("250 taken")
                else:
                    self.say("221 bye" if verb == "QUIT" else "250 ok")
                return verb != "QUIT"

            def finish(self) -> None:
                super().finish()
                self.request.close()

            def say(self, text: str) -> None:
                self.wfile.write(f"{text}\r\n".encode())

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]

    @contextmanager
    def running(self) -> Iterator[MailServer]:
        """Serve within the context."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def certificate(folder: Path, *names: str) -> tuple[ssl.SSLContext, Path]:
    """Return a server's context with a certificate for these names, and the file by which clients trust it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "receiver of tests")])
    alternatives = [
        x509.IPAddress(ipaddress.ip_address(each)) if each[0].isdigit() else x509.DNSName(each) for each in names
    ]
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "certificate.pem", folder / "key.pem"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return context, public
