"""The Chromium of the system, for the scripts and tests that look at pages."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str:
    """The path of a browser; raises RuntimeError if none is installed."""
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        raise RuntimeError(f"none of {', '.join(CHROMIUM)} is installed")
    return path


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window; raises RuntimeError if none is installed."""
    path = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()
