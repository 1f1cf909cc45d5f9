"""Drivers of browsers: each starts one real browser with a profile of its own, and ends it whatever the page does."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from runner.browser.drivers.base import Driver, Running
from runner.browser.locations import BrowserProgram

__all__ = ["Driver", "Running", "driver_for"]

_DRIVERS = {"chromium": "ChromiumDriver", "firefox": "FirefoxDriver", "webkit": "WebKitDriver"}
"""Each engine's class, in the module of its name."""


def driver_for(program: BrowserProgram, *, headed: bool = False, flags: Sequence[str] = ()) -> Driver:
    """Return the driver of a program; `flags` are added to the command line of the browser."""
    module = importlib.import_module(f".{program.engine}", __package__)
    driver: type[Driver] = getattr(module, _DRIVERS[program.engine])
    return driver(program, headed=headed, flags=flags)
