"""Look at a built site in a browser: `python docs/check_axe.py build/site`.

    python docs/check_axe.py FOLDER [PAGE ...] [--all] [--pictures FOLDER]

- axe has no accessibility findings, on a screen of 1280 pixels and on one of 390, in light and in dark colours.
- No page is wider than the screen.

The pages are some of each kind, the given ones, such as `docs/guide/tune`, or all that people read. It needs the extra
`docs`, and a Chromium of the system. `--pictures` also saves a picture of the upper end of each page.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from axe_playwright_python.base import AXE_SCRIPT
from browser import chromium
from playwright.sync_api import Page, ViewportSize

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
SCREENS: dict[str, ViewportSize] = {"wide": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
MAIN = [
    "README",
    *(f"docs/guide/{name}" for name in ("README", "find", "install", "train", "predict", "explain", "layers")),
    *(f"docs/{name}" for name in ("tables", "table_problems", "core", "systems", "accuracy")),
    *(f"docs/reference/{name}" for name in ("settings", "glossary", "python/molattn.graph")),
    "notebooks/tour",
]
NOT_READ = ("_modules/", "_static/", "genindex", "py-modindex", "search")
"""Beginnings of the names of pages that are indices or code."""


def pages(site: Path) -> list[str]:
    """The names of the pages that people read, such as "docs/guide/train"."""
    paths = (path for path in sorted(site.rglob("*.html")) if 'http-equiv="refresh"' not in path.read_text("utf-8"))
    names = (path.relative_to(site).with_suffix("").as_posix() for path in paths)
    return [name for name in names if not name.startswith(NOT_READ)]


def findings(tab: Page) -> Iterator[str]:
    """What axe finds in the page and in its frames, and whether it is too wide."""
    for frame in tab.frames:
        frame.evaluate(AXE_SCRIPT)
    result: dict[str, Any] = tab.evaluate("axe.run({resultTypes: ['violations']})")
    for violation in result["violations"]:
        for node in violation["nodes"]:
            yield f"{violation['id']}: {violation['help']}: {node['target']} {' '.join(node['html'].split())[:120]}"
    width, screen = tab.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    if width > screen:
        yield f"is {width} pixels wide on a screen of {screen}"


def check(site: Path, names: list[str], pictures: Path | None, screen: str, scheme: Scheme) -> list[str]:
    """The findings of all pages on one screen in one colour scheme, in a browser of its own."""
    found = []
    with chromium() as browser:
        tab = browser.new_page(viewport=SCREENS[screen], color_scheme=scheme)
        for name in names:
            tab.goto((site / f"{name}.html").as_uri())
            found += [f"{name}, {screen}, {scheme}: {text}" for text in findings(tab)]
            if pictures is not None:
                tab.screenshot(path=pictures / f"{name.replace('/', '-')}-{screen}-{scheme}.png")
    return found


def main() -> None:
    """Check the pages, print what is wrong, and exit with 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path, metavar="FOLDER")
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    site = arguments.site.resolve()
    if not (site / "objects.inv").is_file():
        parser.error(f"{arguments.site} is no site that docs/build_site.py has built")
    if arguments.pictures is not None:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    names = pages(site) if arguments.all else arguments.pages or MAIN
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        views = [(screen, scheme) for screen in SCREENS for scheme in SCHEMES]
        found = list(chain.from_iterable(pool.map(lambda v: check(site, names, arguments.pictures, *v), views)))
    print("\n".join(found) if found else f"{len(names)} pages on {len(SCREENS)} screens, light and dark: nothing found")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
