"""What the client does with links to measure in a browser, and with the devices that opened them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import msgspec

from assay.client.sharing import Sharing
from assay.client.transport import checked, decoded
from domain.answers.links import BrowserDevice, Link, LinkFile, MadeLink, NewLink
from domain.answers.sharing import Changed

__all__ = ["Links"]


class Links(Sharing):
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
