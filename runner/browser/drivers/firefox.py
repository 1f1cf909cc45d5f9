"""Firefox, through WebDriver BiDi: the protocol that Firefox itself speaks on a WebSocket, without geckodriver."""

from __future__ import annotations

from typing import Any

import msgspec

from runner.browser.drivers.base import Channel, Driver, Profile, Running, Started, WebSocket

__all__ = ["FirefoxDriver"]

_PREFERENCES: dict[str, bool | int | str] = {
    "dom.webgpu.enabled": True,
    "app.normandy.enabled": False,
    "app.update.disabledForTesting": True,
    "browser.aboutwelcome.enabled": False,
    "browser.newtab.preload": False,
    "browser.sessionstore.resume_from_crash": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "browser.tabs.unloadOnLowMemory": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.max_script_run_time": 0,
    "extensions.getAddons.cache.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "remote.active-protocols": 1,
    "services.settings.server": "data:,#remote-settings-dummy/v1",
    "toolkit.startup.max_resumed_crashes": -1,
}
"""WebGPU where this build has it, no traffic of its own, no questions."""
_EVENTS = ("log.entryAdded", "browsingContext.contextDestroyed", "browsingContext.navigationCommitted")
_CRASHED = "about:tabcrashed"
"""Where Firefox leads a page whose process has died."""


class FirefoxDriver(Driver):
    """Drives Firefox."""

    engine = "gecko"

    def flags(self) -> tuple[str, ...]:
        """Return the preference that changes what a page can do, and the switches that were added."""
        return ("dom.webgpu.enabled=true", *self.extra)

    def start(self, url: str, profile: Profile, started: Started) -> Running:
        """Start it, listen for what happens to its page, then open the address there."""
        WebSocket.require()
        folder = profile.path / "data"
        folder.mkdir()
        lines = [
            f"user_pref({msgspec.json.encode(name).decode()}, {msgspec.json.encode(value).decode()});"
            for name, value in _PREFERENCES.items()
        ]
        (folder / "user.js").write_text("\n".join(lines) + "\n", encoding="utf-8")
        variables = profile.environment() | self.program.variables | {"MOZ_CRASHREPORTER_DISABLE": "1"}
        command = [self.program.path, *([] if self.headed else ["--headless"]), "--no-remote", "--profile", str(folder)]
        process = started.launch([*command, "--remote-debugging-port", "0", *self.extra, "about:blank"], variables)
        address_file = folder / "WebDriverBiDiServer.json"

        def address() -> dict[str, Any] | None:
            text = "".join(started.lines(address_file))
            try:
                return msgspec.json.decode(text, type=dict[str, Any])
            except msgspec.DecodeError:
                return None

        where = started.wait_for("an address for its driver", address, process)
        page = _Page()
        try:
            channel = Channel(WebSocket(f"ws://{where['ws_host']}:{where['ws_port']}/session"), page.event)
            started.closers.append(channel.close)
            version = channel.call("session.new", capabilities={})["capabilities"]["browserVersion"]
            page.context = channel.call("browsingContext.getTree")["contexts"][0]["context"]
            channel.call("session.subscribe", events=list(_EVENTS))
            channel.call("browsingContext.navigate", context=page.context, url=url, wait="none")
        except OSError as error:
            raise started.refused(process, error) from error
        return Running(
            process=process,
            profile=profile,
            version=version,
            engine=self.engine,
            flags=self.flags(),
            page_fault=lambda: page.fault,
            console=lambda: list(page.console),
            close=started.close,
        )


class _Page:
    """What Firefox says of the page."""

    def __init__(self) -> None:
        self.context: str | None = None
        self.console: list[str] = []
        self.fault: str | None = None

    def event(self, method: str, params: dict[str, Any]) -> None:
        if method == "log.entryAdded":
            self.console.append(str(params.get("text")))
        elif params.get("context") != self.context:
            return
        elif method == "browsingContext.contextDestroyed":
            self.fault = "the page was closed"
        elif method == "browsingContext.navigationCommitted" and str(params.get("url")).startswith(_CRASHED):
            self.fault = "the page crashed"
