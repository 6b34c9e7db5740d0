"""How many clicks from the README the tasks of docs/guide/find.md are: `python docs/check_tasks.py build/site`.

Clicks are counted along the links in the text of pages, without the menus and without the page of the tasks
itself. The numbers that it states are to be these, and none of them over two.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

START, TASKS = "README.html", "docs/guide/find.html"
MAX_CLICKS, NUM_TASKS = 2, 37


@dataclass
class Text(HTMLParser):
    """The text of a page, without its menus.

    Attributes:
        links: the addresses of its links.
        rows: of each row of its tables the links, and the text of the last cell.
    """

    links: list[str] = field(default_factory=list)
    rows: list[tuple[list[str], str]] = field(default_factory=list)
    _inside: bool = False
    _cell: str = ""
    _row_start: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Enter the text, a row or a cell, or keep a link."""
        if tag == "article":
            self._inside = True
        elif tag == "tr":
            self._row_start = len(self.links)
        elif tag == "td":
            self._cell = ""
        elif tag == "a" and self._inside and (link := dict(attrs).get("href")):
            self.links.append(link)

    def handle_data(self, data: str) -> None:
        """Keep the text of a cell."""
        self._cell += data

    def handle_endtag(self, tag: str) -> None:
        """Leave the text or a row."""
        if tag == "article":
            self._inside = False
        elif tag == "tr" and len(self.links) > self._row_start:
            self.rows.append((self.links[self._row_start :], self._cell.strip()))


def read(page: Path) -> Text:
    """The text of a page of the site."""
    text = Text()
    text.feed(page.read_text(encoding="utf-8"))
    return text


def target(page: Path, link: str) -> Path:
    """The file that a link of a page leads to."""
    file = unquote(link.partition("#")[0])
    return (page.parent / file).resolve() if file else page


def clicks(site: Path) -> dict[Path, int]:
    """The least number of clicks from the README to each page that is at most `MAX_CLICKS` away."""
    found = {site / START: 0}
    for number in range(MAX_CLICKS):
        for page in [page for page, at in found.items() if at == number and page != site / TASKS]:
            for link in read(page).links:
                if ":" not in link and (to := target(page, link)).suffix == ".html" and to.is_file():
                    found.setdefault(to, number + 1)
    return found


def far_tasks(site: Path) -> Iterator[str]:
    """Tasks whose place is more than `MAX_CLICKS` away or not as near as stated, and a wrong number of tasks."""
    page, near = site / TASKS, clicks(site)
    rows = [row for row in read(page).rows if row[1].isdigit()]
    if len(rows) != NUM_TASKS:
        yield f"{page}: {len(rows)} tasks, not {NUM_TASKS}"
    for links, stated in rows:
        far = [link for link in links if target(page, link) not in near]
        yield from (f"{page}: {link} is more than {MAX_CLICKS} clicks from the README" for link in far)
        if not far and (most := max(near[target(page, link)] for link in links)) != int(stated):
            yield f"{page}: {links[0]} is {most} clicks from the README, not {stated}"


if __name__ == "__main__":
    problems = list(far_tasks(Path(sys.argv[1]).resolve()))
    print("\n".join(problems) if problems else f"{NUM_TASKS} tasks, at most {MAX_CLICKS} clicks away")
    sys.exit(bool(problems))
