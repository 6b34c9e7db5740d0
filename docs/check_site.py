"""Check a built site: `python docs/check_site.py build/site`.

- No page loads anything from the network.
- Every link within the site leads to a page and to a place in it.
- Every page weighs less than 1 MB, with its style sheets, scripts and pictures.
- No page has a path of the machine that built it, such as in the output of a notebook.
- What docs/guide/find.md lists is at most two clicks from the README, as `docs/check_tasks.py` counts them.
- The inventory has every public name of the packages, every option of every command and every setting.
"""

import importlib
import pkgutil
import re
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from check_tasks import far_tasks
from typer.main import get_command

import molattn
from molattn.cli.main import app
from molattn.training.run_config import SECTIONS

MAX_BYTES = 1_000_000
_LOADING = {"script", "img", "iframe", "source", "video", "audio", "embed", "object", "track"}
_STYLE_URL = re.compile(r"""(?:url\(|@import)\s*['"]?(?:https?:)?//""")
_REMOTE = re.compile(r"^(?:https?:)?//")


@dataclass
class Page(HTMLParser):
    """What a page loads, links to and can be linked at.

    Attributes:
        loaded: the addresses of scripts, styles, images and the like.
        links: the addresses of its links.
        anchors: the ids of its elements.
    """

    loaded: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read one element."""
        values = {name: value or "" for name, value in attrs}
        if "id" in values:
            self.anchors.add(values["id"])
        if tag in _LOADING:
            self.loaded += [values[name] for name in ("src", "data", "poster") if values.get(name)]
            self.loaded += [part.split()[0] for part in values.get("srcset", "").split(",") if part.strip()]
            if "srcdoc" in values:  # the interactive page of a notebook
                framed = Page()
                framed.feed(values["srcdoc"])
                self.loaded += framed.loaded
        elif tag == "link" and values.get("rel") not in ("canonical", "next", "prev", "index", "search", "author"):
            self.loaded.append(values.get("href", ""))
        elif tag == "a" and values.get("href"):
            self.links.append(values["href"])


def read_pages(site: Path) -> dict[Path, Page]:
    """All pages of a site."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        page = pages[path] = Page()
        page.feed(path.read_text(encoding="utf-8"))
    return pages


def remote_loads(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """What pages and style sheets load from the network."""
    for path, page in pages.items():
        yield from (f"{path}: loads {url}" for url in page.loaded if _REMOTE.match(url))
        yield from (f"{path}: {found}" for found in _STYLE_URL.findall(path.read_text(encoding="utf-8")))
    for path in sorted(site.rglob("*.css")):
        yield from (f"{path}: {found}" for found in _STYLE_URL.findall(path.read_text(encoding="utf-8")))


def broken_links(pages: dict[Path, Page]) -> Iterator[str]:
    """Links within the site that lead nowhere, and files that are loaded but are not there."""
    for path, page in pages.items():
        for link in (*page.links, *page.loaded):
            if re.match(r"[a-z][a-z0-9+.-]*:|//", link):
                continue
            file, _, anchor = link.partition("#")
            target = (path.parent / unquote(file.partition("?")[0])).resolve() if file else path
            if not target.is_file():
                yield f"{path}: {link} does not exist"
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                yield f"{path}: {link} leads to no place of that page"


def heavy_pages(pages: dict[Path, Page]) -> Iterator[str]:
    """Pages that weigh too much with all that they load, before compression."""
    for path, page in pages.items():
        loaded = {(path.parent / unquote(url.partition("?")[0])).resolve() for url in page.loaded if ":" not in url}
        size = path.stat().st_size + sum(file.stat().st_size for file in loaded if file.is_file())
        # The search page alone loads the index of all pages.
        if size > MAX_BYTES and path.name != "search.html":
            yield f"{path}: {size:,} bytes"


def machine_paths(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Paths of this repository, of its virtual environment and of temporary folders on the pages."""
    folders = [str(Path(__file__).resolve().parents[1]), str(Path(tempfile.gettempdir()) / "tmp")]
    folders += [sys.prefix] if sys.prefix != sys.base_prefix else []
    pattern = re.compile("|".join(rf"{re.escape(folder)}[/\\\w]" for folder in folders))
    for path in pages:
        if path.relative_to(site).parts[0] != "_modules":  # the code itself
            yield from (f"{path}: {found}" for found in sorted(set(pattern.findall(path.read_text(encoding="utf-8")))))


def inventory(site: Path) -> set[tuple[str, str]]:
    """The entries of objects.inv, as ("py:class", "molattn.attention.MultiHeadAttention")."""
    content = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(content).decode("utf-8").splitlines()
    entries = (re.match(r"(.+?) (\S+:\S+) -?\d+ \S+ ", line) for line in lines)
    return {(found[2], found[1]) for found in entries if found}


def public_names() -> set[str]:
    """Every name that a package of molattn exports."""
    modules = [info.name for info in pkgutil.walk_packages(molattn.__path__, "molattn.") if info.ispkg]
    packages = [importlib.import_module(name) for name in ("molattn", *modules)]
    return {f"{package.__name__}.{name}" for package in packages for name in getattr(package, "__all__", ())}


def options() -> set[str]:
    """Every option of every command, as "molattn-train.--epochs"."""

    def walk(name: str, command: Any) -> Iterator[str]:
        for sub, found in getattr(command, "commands", {}).items():
            yield from walk(f"{name}-{sub}", found)
        if not hasattr(command, "commands"):
            yield from (f"{name}.{text}" for p in command.params for text in p.opts if text.startswith("-"))

    return set(walk("molattn", get_command(app)))


def missing_entries(site: Path) -> Iterator[str]:
    """Names, options and settings that the inventory does not have."""
    entries = inventory(site)
    python = {name for kind, name in entries if kind.startswith("py:")}
    yield from (f"no entry for {name}" for name in sorted(public_names() - python))
    settings = {f"{section}.{f.name}" for section, kinds in SECTIONS.items() for kind in kinds for f in fields(kind)}
    for kind, wanted in (("std:cmdoption", options()), ("std:confval", settings)):
        there = {name for of, name in entries if of == kind}
        yield from (f"no entry for {name}" for name in sorted(wanted - there))


def main() -> None:
    """Check the site, print what is wrong, and exit with 1 if anything is."""
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "objects.inv").is_file():
        sys.exit("usage: python docs/check_site.py FOLDER, that of a site which docs/build_site.py has built")
    site = Path(sys.argv[1]).resolve()
    pages = read_pages(site)
    found = [*remote_loads(site, pages), *broken_links(pages), *heavy_pages(pages), *machine_paths(site, pages)]
    found += far_tasks(site)
    found += missing_entries(site)
    print("\n".join(found) if found else f"{len(pages)} pages, checked")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
