"""What operators ask of a service: tokens and keys, shared measurements, named baselines, and links to measure in a browser."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import cast
from urllib.parse import quote

import msgspec

from assay.client.peers import Peers
from assay.client.transport import Json, checked, decoded
from domain.answers.baselines import Baseline
from domain.answers.links import BrowserDevice, Link, LinkFile, MadeLink, NewLink
from domain.answers.sharing import AddedBundle, Changed, HeldRow, SharedBundle, SharedSigner
from domain.payloads import BranchStart

__all__ = ["Links"]


class Access(Peers):
    """The routes of tokens and signing keys."""

    def create_token(
        self, name: str, scopes: Sequence[str], *, source: str | None = None, expires_at: datetime | None = None
    ) -> Json:
        """Make a token and return it beside its `secret`, which nobody can read again."""
        request = {
            "name": name,
            "scopes": list(scopes),
            "source": source,
            "expires_at": expires_at.isoformat() if expires_at else None,
        }
        return self._post("/v1/tokens", request, again=False)

    def tokens(self) -> list[Json]:
        """Return all tokens ever made, without secrets."""
        return cast("list[Json]", self._get("/v1/tokens")["items"])

    def revoke_token(self, token: str) -> Json:
        """Revoke the token of this id, prefix or name."""
        response = self._send("DELETE", f"/v1/tokens/{quote(token, safe='')}")
        return cast(Json, checked(response, decoded(response)))

    def register_key(self, name: str, source: str, public_key: str) -> Json:
        """Register a runner's public key (PEM or base64) for its source and return it with its id."""
        return self._post("/v1/keys", {"name": name, "source": source, "public_key": public_key})

    def keys(self) -> list[Json]:
        """Return all signing keys ever registered."""
        return cast("list[Json]", self._get("/v1/keys")["items"])

    def revoke_key(self, key: str) -> Json:
        """Revoke the signing key of this id or name."""
        response = self._send("DELETE", f"/v1/keys/{quote(key, safe='')}")
        return cast(Json, checked(response, decoded(response)))


class Sharing(Access):
    """The routes of shared measurements."""

    def add_bundle(self, content: bytes, *, dry_run: bool = False) -> AddedBundle:
        """Add the rows of a bundle as imported; one that was cut, altered or forged is refused whole."""
        body = {"content": base64.b64encode(content).decode()}
        answer = self._post(f"/v1/shared?dry_run={dry_run}".lower(), body, timeout_s=600)
        return msgspec.convert(answer, AddedBundle)

    def shared(self) -> list[SharedBundle]:
        """Return the bundles that were added, in their order."""
        return msgspec.convert(self._get("/v1/shared")["items"], list[SharedBundle])

    def remove_shared(self, name: str, reason: str) -> Changed:
        """Take the rows of a bundle or a signer out of answers."""
        return self._changed(f"/v1/shared/{quote(name, safe='')}", reason)

    def quarantined(self) -> list[HeldRow]:
        """Return the shared rows that are held back, the newest first."""
        return msgspec.convert(self._get("/v1/quarantine")["items"], list[HeldRow])

    def release(self, event_id: str, reason: str) -> Changed:
        """Let a row count that was held back."""
        return self._changed(f"/v1/quarantine/{quote(event_id, safe='')}", reason)

    def signers(self) -> list[SharedSigner]:
        """Return the signers that are trusted, then those of bundles in the log that are not."""
        return msgspec.convert(self._get("/v1/signers")["items"], list[SharedSigner])

    def trust_signer(self, key: str, name: str) -> Json:
        """Trust a public key, or the id of one, under a name."""
        return self._post("/v1/signers", {"key": key, "name": name})

    def distrust_signer(self, key: str) -> Json:
        """Trust a signer no more, by the id of the key or its name."""
        response = self._send("DELETE", f"/v1/signers/{quote(key, safe='')}")
        answer: Json = checked(response, decoded(response))
        return answer

    def _changed(self, path: str, reason: str) -> Changed:
        response = self._send("DELETE", path, params={"reason": reason})
        return msgspec.convert(checked(response, decoded(response)), Changed)


class Baselines(Sharing):
    """The routes of named baselines."""

    def baselines(self) -> list[Baseline]:
        """Return the named baselines, by name."""
        return msgspec.convert(self._rows("baselines"), list[Baseline])

    def baseline(self, name: str) -> Baseline:
        """Return one named baseline; NotFound where none has the name."""
        return msgspec.convert(self._get(f"/v1/baselines/{quote(name, safe='')}"), Baseline)

    def set_baseline(
        self,
        name: str,
        branch: str,
        position: int | None = None,
        *,
        start: BranchStart | None = None,
        hardware: str | None = None,
        note: str | None = None,
    ) -> Baseline:
        """Name a position as the baseline of a branch, the newest by default; a baseline of this name is moved."""
        body = {
            "name": name,
            "branch": branch,
            "position": position,
            "start": msgspec.to_builtins(start),
            "hardware": hardware,
            "note": note,
        }
        return msgspec.convert(self._post("/v1/baselines", body), Baseline)

    def delete_baseline(self, name: str) -> Baseline:
        """Take a baseline's name away; the log and its events stay as they are."""
        response = self._send("DELETE", f"/v1/baselines/{quote(name, safe='')}")
        return msgspec.convert(checked(response, decoded(response)), Baseline)


class Links(Baselines):
    """The routes of links."""

    def upload_link_file(self, path: Path, digest: str, *, private: bool = False) -> None:
        """Send a file of the runtime, a model or a pool under its digest, unless the service has it."""
        query = f"?private={private}".lower()
        if self._get(f"/v1/links/files/{digest}{query}")["exists"]:
            return
        with path.open("rb") as handle:
            response = self._send(
                "PUT",
                f"/v1/links/files/{digest}{query}",
                again=False,
                content=handle,
                headers={"Content-Type": "application/octet-stream"},
                timeout=600,
            )
        msgspec.convert(checked(response, decoded(response)), LinkFile)

    def make_link(self, new: NewLink) -> MadeLink:
        """Make a link; its path, behind the address of the service, is returned this once."""
        return msgspec.convert(self._post("/v1/links", msgspec.to_builtins(new), again=False), MadeLink)

    def links(self) -> list[Link]:
        """Return all links, the newest first."""
        return msgspec.convert(self._get("/v1/links")["items"], list[Link])

    def revoke_link(self, name: str) -> Link:
        """Revoke a link."""
        response = self._send("DELETE", f"/v1/links/{quote(name, safe='')}")
        return msgspec.convert(checked(response, decoded(response)), Link)

    def browser_devices(self) -> list[BrowserDevice]:
        """Return the devices whose pages sent results, the newest first."""
        return msgspec.convert(self._get("/v1/browser-devices")["items"], list[BrowserDevice])

    def accept_device(self, device: str, reason: str, hardware: str | None = None) -> Changed:
        """Let what a device sent, and will send, answer and train; `hardware` says what it is, else its person did."""
        query = {"reason": reason, **({"hardware": hardware} if hardware else {})}
        response = self._send("POST", f"/v1/browser-devices/{quote(device, safe='')}", params=query)
        return msgspec.convert(checked(response, decoded(response)), Changed)

    def reject_device(self, device: str, reason: str) -> Changed:
        """Take what a device sent out of answers and training again."""
        return self._changed(f"/v1/browser-devices/{quote(device, safe='')}", reason)
