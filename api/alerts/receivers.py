"""Sending one message to a webhook or a mail server: signed, to a checked address, within a time limit.

What went wrong is said without anything that the receiver sent, and without the address: both may hold a secret.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import logging
import os
import re
import smtplib
import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path

import httpx
import msgspec

from domain.errors import UsageError
from domain.history.notices import Message, mail_of, slack_of
from domain.history.routes import Email, Route, Webhook

__all__ = ["Outcome", "is_public", "missing_variables", "secret_of", "send", "signature"]

TIMEOUT_S = 10.0
"""To connect, and of each wait for the receiver."""
DEADLINE_S = 30.0
"""Of one delivery, name resolution and a receiver that answers byte by byte included."""
MOST_RETRY_AFTER_S = 86_400.0
_PREFIX = "whsec_"
_THREADS = ThreadPoolExecutor(4, thread_name_prefix="alerts")
"""Threads for names and mails: one that waits for a dead server takes none from the rest of the service."""
# It writes the heads of what receivers answer, which may repeat a secret, at the level debug.
logging.getLogger("httpcore").setLevel(logging.INFO)
_METADATA = frozenset(ipaddress.ip_address(address) for address in ("168.63.129.16", "169.254.169.254"))
"""Addresses of clouds' metadata services; the first one is public by its range."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_MAKE_SECRET = "python -c \"import base64, os; print('whsec_' + base64.b64encode(os.urandom(32)).decode())\""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of sending a message: delivered, or why not; `gone` where the receiver wants no more of them."""

    delivered: bool
    detail: str
    gone: bool = False
    retry_after_s: float | None = None


class _NotSent(Exception):
    """A message that was not sent, with the reason in words of our own."""


async def send(
    route: Route, identifier: str, message: Message, environment: Mapping[str, str] | None = None
) -> Outcome:
    """Send a message to the receiver of a route; `identifier` stays the same for every attempt."""
    values = os.environ if environment is None else environment
    try:
        async with asyncio.timeout(DEADLINE_S):
            if route.to.webhook is not None:
                return await _post(route.to.webhook, identifier, message, values)
            if route.to.email is not None:
                return await _mail(route.to.email, identifier, message, values)
            raise AssertionError("a route has a receiver")
    except (TimeoutError, httpx.TimeoutException) as error:
        limit = TIMEOUT_S if isinstance(error, httpx.TimeoutException) else DEADLINE_S
        return Outcome(delivered=False, detail=f"no answer within {limit:g} s")
    except (_NotSent, UsageError) as error:
        return Outcome(delivered=False, detail=str(error))
    except Exception as error:
        # Whatever it is: its text may hold a secret, and the message is tried again.
        return Outcome(delivered=False, detail=f"not sent: {type(error).__name__}")


async def _post(to: Webhook, identifier: str, message: Message, values: Mapping[str, str]) -> Outcome:
    body = msgspec.json.encode(slack_of(message) if to.format == "slack" else message)
    headers = {"content-type": "application/json", "user-agent": "assay"}
    if to.secret_env is not None:
        timestamp = str(int(datetime.now(UTC).timestamp()))
        signed = [
            signature(secret, identifier, timestamp, body, field=to.secret_env)
            for secret in secret_of(to.secret_env, values).split()
        ]
        headers |= {"webhook-id": identifier, "webhook-timestamp": timestamp, "webhook-signature": " ".join(signed)}
    try:
        url = httpx.URL(to.url or secret_of(str(to.url_env), values))
        request = httpx.Request("POST", url, headers=headers, content=body)
    except (httpx.InvalidURL, TypeError, UnicodeError) as error:
        raise _NotSent("the address of the webhook is no address") from error
    request.extensions["timeout"] = httpx.Timeout(TIMEOUT_S).as_dict()
    # A transport alone: it follows no redirect, asks no proxy of the environment, which would resolve the name by
    # itself, and does not log the address as a client does.
    async with httpx.AsyncHTTPTransport(limits=httpx.Limits(max_keepalive_connections=0)) as transport:
        response = await _exchange(transport, request, allow_private=to.allow_private)
        await response.aclose()
    return _outcome(response)


async def _exchange(
    transport: httpx.AsyncHTTPTransport, request: httpx.Request, *, allow_private: bool
) -> httpx.Response:
    """Send the request to an address that was checked: a name that resolves otherwise a moment later changes nothing."""
    host = request.url.host
    if request.url.scheme not in ("http", "https") or not host:
        raise _NotSent("the address of the webhook is no address of a web server")
    port = request.url.port or (443 if request.url.scheme == "https" else 80)
    addresses = await _resolve(host, port)
    if not allow_private and not all(is_public(address) for address in addresses):
        raise _NotSent("the webhook has a private address; `allow_private: true` in the route allows it")
    # Certificates are those of the name; the head of the request keeps it as well.
    request.extensions["sni_hostname"] = host
    failure = "cannot connect"
    for address in addresses[:4]:
        request.url = request.url.copy_with(host=address)
        try:
            return await transport.handle_async_request(request)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            failure = f"cannot connect: {_cause(error)}"
        except httpx.TimeoutException:
            raise
        except httpx.TransportError as error:
            raise _NotSent(f"the connection broke: {type(error).__name__}") from error
    raise _NotSent(failure)


async def _resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a name; decimal, octal and shortened forms of IPv4 are read as the system reads them."""
    loop = asyncio.get_running_loop()
    try:
        rows = await loop.run_in_executor(_THREADS, _addresses, host, port)
    except (OSError, UnicodeError) as error:
        raise _NotSent("the name of the webhook's host does not resolve") from error
    if not rows:
        raise _NotSent("the name of the webhook's host does not resolve")
    return rows


def _addresses(host: str, port: int) -> list[str]:
    rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in rows))


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet, also where it is an IPv4 address within an IPv6 one."""
    try:
        value = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(value, ipaddress.IPv6Address):
        within = value.ipv4_mapped or value.sixtofour or (value.teredo[1] if value.teredo else None)
        if within is None and value in _NAT64:
            within = ipaddress.IPv4Address(int(value) & 0xFFFFFFFF)
        if within is not None:
            return is_public(str(within))
        if value.is_site_local or int(value) >> 32 == 0:
            return False
    special = value.is_private or value.is_loopback or value.is_link_local or value.is_multicast
    return value.is_global and not special and not value.is_reserved and value not in _METADATA


def _cause(error: Exception) -> str:
    """Return why a connection failed, from the innermost error and without its text, which may name the address."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, ssl.SSLCertVerificationError):
            return "the certificate is not valid for the name"
        if isinstance(inner, ssl.SSLError):
            return "no TLS connection"
        if isinstance(inner, socket.gaierror):
            return "the name does not resolve"
        if isinstance(inner, OSError) and inner.errno:
            return os.strerror(inner.errno).lower()
        inner = inner.__cause__ or inner.__context__
    return "no answer" if isinstance(error, httpx.ConnectTimeout) else "refused"


def _outcome(response: httpx.Response) -> Outcome:
    status = response.status_code
    detail = f"HTTP {status} {httpx.codes.get_reason_phrase(status)}".rstrip()
    if 200 <= status < 300:
        return Outcome(delivered=True, detail=detail)
    if 300 <= status < 400:
        detail += " (redirects are not followed)"
    after = _seconds_of(response.headers.get("retry-after"), datetime.now(UTC)) if status in (429, 503) else None
    return Outcome(delivered=False, detail=detail, gone=status == 410, retry_after_s=after)


def _seconds_of(text: str | None, now: datetime) -> float | None:
    """Return the seconds of a Retry-After header, which has seconds or a date."""
    if text is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", text.strip()):
        return min(float(text), MOST_RETRY_AFTER_S)
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(0.0, (moment - now).total_seconds()), MOST_RETRY_AFTER_S)


def signature(secret: str, identifier: str, timestamp: str, body: bytes, *, field: str = "secret") -> str:
    """Return the signature of a message after the Standard Webhooks specification, `v1,` and HMAC-SHA256 in base64."""
    encoded = secret.removeprefix(_PREFIX)
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(_PREFIX) or not 24 <= len(key) <= 64:
        remedy = f"Make one: {_MAKE_SECRET}"
        raise UsageError("is no signing secret: whsec_ and 24 to 64 bytes in base64.", field=field, remedy=remedy)
    digest = hmac.digest(key, b".".join((identifier.encode(), timestamp.encode(), body)), "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


def secret_of(variable: str, environment: Mapping[str, str]) -> str:
    """Return the value of a variable, or the text of the file that VARIABLE_FILE names; UsageError where there is none."""
    value = environment.get(variable)
    path = environment.get(f"{variable}_FILE")
    if not value and path:
        try:
            value = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise UsageError("the file cannot be read.", field=f"{variable}_FILE", remedy="Check the path.") from None
    if not value:
        raise UsageError("is not set.", field=variable, remedy="Set it in the environment of the service.")
    return value


def missing_variables(route: Route, environment: Mapping[str, str]) -> list[str]:
    """Return the variables that a route names and this environment does not have."""
    webhook, email = route.to.webhook, route.to.email
    named = [webhook.url_env, webhook.secret_env] if webhook else [email.password_env] if email else []
    return [name for name in named if name and not (environment.get(name) or environment.get(f"{name}_FILE"))]


async def _mail(to: Email, identifier: str, message: Message, values: Mapping[str, str]) -> Outcome:
    password = secret_of(to.password_env, values) if to.password_env is not None else None
    mail = _email_message(to, identifier, message)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_THREADS, _submit, to, mail, password)


def _email_message(to: Email, identifier: str, message: Message) -> EmailMessage:
    """Return the mail: plain text and HTML, its Message-ID made of the delivery's id."""
    subject, text, page = mail_of(message)
    mail = EmailMessage()
    mail["Subject"] = subject
    mail["From"] = to.sender
    mail["To"] = ", ".join(to.to)
    mail["Date"] = format_datetime(message.timestamp)
    mail["Message-ID"] = f"<{identifier}@{to.sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(text)
    mail.add_alternative(page, subtype="html")
    return mail


def _submit(to: Email, mail: EmailMessage, password: str | None) -> Outcome:
    port = to.port or {"starttls": 587, "tls": 465, "none": 25}[to.tls]
    context = ssl.create_default_context()
    try:
        client = (
            smtplib.SMTP_SSL(to.host, port, timeout=TIMEOUT_S, context=context)
            if to.tls == "tls"
            else smtplib.SMTP(to.host, port, timeout=TIMEOUT_S)
        )
        with client:
            if to.tls == "starttls":
                client.starttls(context=context)
            if to.username is not None and password is not None:
                client.login(to.username, password)
            refused = client.send_message(mail)
    except smtplib.SMTPResponseException as error:
        return Outcome(delivered=False, detail=f"SMTP {error.smtp_code} ({type(error).__name__})")
    except smtplib.SMTPRecipientsRefused:
        return Outcome(delivered=False, detail="SMTP: every recipient was refused")
    except smtplib.SMTPServerDisconnected:
        return Outcome(delivered=False, detail="SMTP: no answer, or the connection broke")
    except (smtplib.SMTPException, OSError) as error:
        reason = _cause(error) if isinstance(error, OSError) and not isinstance(error, TimeoutError) else "no answer"
        named = type(error).__name__ if isinstance(error, smtplib.SMTPException) else f"cannot connect: {reason}"
        return Outcome(delivered=False, detail=f"SMTP: {named}")
    return Outcome(delivered=True, detail=f"SMTP: {len(refused)} recipients were refused" if refused else "SMTP 250")
