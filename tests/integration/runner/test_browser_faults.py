"""Faults of a model, a page and a browser: each ends one task with its own error and leaves nothing behind."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from domain.errors import PartMissing
from runner.browser import server
from runner.browser.drivers import driver_for
from runner.browser.locations import choose_browser
from runner.browser.page import Page, PageRefused
from runner.browser.server import PageFailed, PageGone, PageTimeout, Session

pytestmark = pytest.mark.browser
MODEL = b"\x08\x08 a file"
MODULES = {
    "hang.mjs": "while (true) {}",
    "memory.mjs": "new ArrayBuffer(2 ** 34);",
    "empty.mjs": "export const env = { wasm: {} };",
}


@contextmanager
def opened(folder: Path) -> Iterator[Page]:
    """A page of a real Chromium; its runtime's modules are those above."""
    try:
        program = choose_browser("chromium")
    except PartMissing as missing:
        if os.environ.get("ASSAY_REQUIRE_BROWSER"):
            raise
        pytest.skip(missing.detail)
    for name, text in MODULES.items():
        (folder / name).write_text(text)
    with Session(folder) as session, driver_for(program).open(session.url) as running:
        yield Page(session, running, program)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with opened(tmp_path_factory.mktemp("runtime")) as one:
        yield one


def task(page: Page, *, module: str = "empty.mjs", **changes: Any) -> dict[str, Any]:
    """What a page is asked to load: a file that is what it says, unless a member is changed."""
    digest = hashlib.sha256(MODEL).hexdigest()
    model = {"url": page.offer("model", MODEL), "bytes": len(MODEL), "digest": f"sha256:{digest}", "data": []}
    address = page.address(f"ort/{module}")
    return {
        "backend": "wasm",
        "threads": changes.pop("threads", 1),
        "runtime": {"module": address, "mjs": address, "wasm": address},
        "model": {**model, **changes},
    }


def test_a_page_on_loopback_is_isolated_and_has_a_fine_clock(page: Page) -> None:
    assert page.environment["isolated"] is True
    assert page.environment["shared_memory"] is True
    assert page.environment["wasm"] is True
    assert 0 < page.environment["clock_step_ms"] <= 0.1


def test_a_model_that_is_not_there_is_named_with_its_status(page: Page) -> None:
    with pytest.raises(PageFailed, match="404") as caught:
        page.do("load", **task(page, url=page.address("files/none")))
    assert (caught.value.name, caught.value.stage) == ("ModelNotFound", "load")


def test_html_in_place_of_a_model_is_seen(page: Page) -> None:
    html = b"<!doctype html><title>Sign in</title>"
    with pytest.raises(PageFailed, match="HTML") as caught:
        page.do("load", **task(page, url=page.offer("html", html), bytes=len(html)))
    assert caught.value.name == "NotAModel"


def test_a_truncated_model_is_seen(page: Page) -> None:
    with pytest.raises(PageFailed, match=f"{len(MODEL) - 1} of {len(MODEL)} bytes") as caught:
        page.do("load", **task(page, url=page.offer("short", MODEL[:-1])))
    assert caught.value.name == "Truncated"


def test_a_model_that_is_longer_than_offered_is_seen(page: Page) -> None:
    with pytest.raises(PageFailed, match=f"more than the {len(MODEL)} bytes") as caught:
        page.do("load", **task(page, url=page.offer("long", MODEL + b"more")))
    assert caught.value.name == "WrongSize"


def test_progress_of_loading_counts_graph_and_external_data(page: Page) -> None:
    weights = bytes(3_000_000)
    data = [{"path": "weights", "url": page.offer("weights", weights), "bytes": len(weights)}]
    messages = page.do("load", **task(page, data=data), progress_ms=1)
    loaded = [message["loaded_bytes"] for message in messages if "loaded_bytes" in message]
    assert loaded == sorted(loaded)
    assert loaded[-1] == len(MODEL) + len(weights)


def test_another_model_of_the_same_size_is_seen_by_its_digest(page: Page) -> None:
    with pytest.raises(PageFailed) as caught:
        page.do("load", **task(page, url=page.offer("other", MODEL[::-1])))
    assert caught.value.name == "WrongDigest"


def test_a_model_over_2_gib_is_refused_before_it_is_fetched(page: Page) -> None:
    with pytest.raises(PageRefused, match="2 GiB"):
        page.do("load", **task(page, url=page.address("files/none"), bytes=3 * 2**30))


def test_memory_that_is_refused_is_an_outcome_of_memory(page: Page) -> None:
    with pytest.raises(MemoryError):
        page.do("load", **task(page, module="memory.mjs"))


def test_after_a_fault_the_same_page_does_the_next_task(page: Page) -> None:
    with pytest.raises(PageFailed):
        page.do("load", **task(page, url=page.address("files/none")))
    messages = page.do("load", **task(page))
    assert any(message.get("stage") == "load" and message.get("ms", 0) > 0 for message in messages)


def test_two_threads_are_refused_where_the_page_is_not_isolated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_ISOLATING", {})
    with opened(tmp_path) as page:
        assert page.environment["isolated"] is False
        page.do("load", **task(page))
        with pytest.raises(PageRefused, match="NotIsolated"):
            page.do("load", **task(page, threads=2))


def test_two_threads_are_refused_in_an_isolated_page_without_shared_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = server.page_file
    without = b"delete globalThis.SharedArrayBuffer;\n"
    monkeypatch.setattr(server, "page_file", lambda name: (without if name == "worker.mjs" else b"") + own(name))
    with opened(tmp_path) as page:
        assert page.environment["isolated"] is True
        assert page.environment["shared_memory"] is False
        page.do("load", **task(page))
        with pytest.raises(PageRefused, match="NoSharedArrayBuffer"):
            page.do("load", **task(page, threads=2))


def test_a_page_that_hangs_is_ended_at_the_deadline_and_nothing_stays(tmp_path: Path) -> None:
    with opened(tmp_path) as page:
        profile, pids = page.running.profile, page.processes()
        assert profile.exists()
        with pytest.raises(PageTimeout):
            page.do("load", deadline_s=1.0, **task(page, module="hang.mjs"))
    assert not profile.exists()
    assert not [pid for pid in pids if _runs(pid)]


def test_a_browser_that_is_killed_is_noticed_and_nothing_stays(tmp_path: Path) -> None:
    with opened(tmp_path) as page:
        profile = page.running.profile
        psutil.Process(page.running.pid).kill()
        with pytest.raises(PageGone):
            page.do("load", deadline_s=60.0, **task(page, module="hang.mjs"))
    assert not profile.exists()


def test_a_page_that_crashes_is_noticed(tmp_path: Path) -> None:
    with opened(tmp_path) as page:
        for pid in page.processes():
            if "--type=renderer" in psutil.Process(pid).cmdline():
                psutil.Process(pid).kill()
        with pytest.raises(PageGone):
            page.do("load", deadline_s=60.0, **task(page, module="hang.mjs"))


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
