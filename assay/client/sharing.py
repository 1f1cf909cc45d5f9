"""What the client does with shared measurements: bundles, signers, rows that are held back."""

from __future__ import annotations

import base64
from urllib.parse import quote

import msgspec

from assay.client.frames import Tabular
from assay.client.transport import Json, checked, decoded
from domain.answers.sharing import AddedBundle, Changed, HeldRow, SharedBundle, SharedSigner

__all__ = ["Sharing"]


class Sharing(Tabular):
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
