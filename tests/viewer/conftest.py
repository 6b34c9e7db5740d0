"""A browser for what a page does: Chromium without a window, through Playwright."""

import importlib.util
import os
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))  # where the module `browser` is


def absent(why):
    """Skip, or fail if the browser is required: a test that is always skipped proves nothing."""
    if os.environ.get("MOLATTN_REQUIRE_BROWSER"):
        pytest.fail(f"{why}, and MOLATTN_REQUIRE_BROWSER is set")
    pytest.skip(why)


def wait_until(condition, seconds=10):
    """Poll: a page handles a change of the screen with a delay, and its policy blocks Playwright's own waiting."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def require_chromium():
    """Without a browser, or without Playwright, the test is skipped, or fails."""
    if importlib.util.find_spec("playwright") is None:
        absent("playwright is not installed")
    from browser import find_chromium

    try:
        find_chromium()
    except RuntimeError as error:
        absent(str(error))


# Not for the session: while Playwright's loop runs in this thread, no other test can run one of asyncio's.
@pytest.fixture(scope="module")
def browser():
    require_chromium()
    from browser import chromium

    with chromium() as running:
        yield running


class Watched:
    """A tab of the browser that records requests, console messages, errors and dialogs."""

    def __init__(self, browser, **context):
        self.context = browser.new_context(viewport={"width": 1200, "height": 1000}, **context)
        self.tab = self.context.new_page()
        self.requests, self.complaints = [], []
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))


@pytest.fixture
def opened(browser, tmp_path):
    """Open an HTML document from a file; checks at the end that there was no other request and no message."""
    tabs = []

    def open_(document, **context):
        path = tmp_path / f"{len(tabs)}.html"
        path.write_text(document, encoding="utf-8")
        watched = Watched(browser, **context)
        tabs.append((watched, path.as_uri()))
        watched.tab.goto(path.as_uri())
        return watched.tab

    yield open_
    for watched, uri in tabs:
        watched.context.close()
        # data: and blob: URLs, of drawings and saved files, are no network requests.
        requested = [url for url in watched.requests if not url.startswith(("data:", "blob:"))]
        assert (requested, watched.complaints) == ([uri], [])
