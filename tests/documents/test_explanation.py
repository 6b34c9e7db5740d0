"""The pages of docs/explanation are true: their excerpts are in the source, and their examples print what they say."""

import doctest
import inspect
import re
import textwrap
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "explanation"
PAGES = sorted(FOLDER.glob("*.md"))

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_EXCERPT = re.compile(
    r"From\s+`(molattn/\S+)\.py`,\s+`([\w.]+)`(?:(?!\n\n).)*:\n\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE
)


def excerpts() -> list[tuple[str, str, str]]:
    """The module, the name and the lines of every excerpt."""
    found = [match for page in PAGES for match in _EXCERPT.findall(page.read_text(encoding="utf-8"))]
    return [(path.replace("/", "."), name, lines) for path, name, lines in found]


def not_in_source(module: str, name: str, lines: str) -> bool:
    """Whether the lines are not consecutive in the code of the name."""
    code = inspect.getsource(inspect.unwrap(attrgetter(name)(import_module(module))))
    indentations = set(re.findall(r"^( *)\S", code, re.MULTILINE))
    return not any(textwrap.indent(lines, indentation) in code for indentation in indentations)


@pytest.mark.parametrize(("module", "name", "lines"), excerpts())
def test_every_excerpt_is_in_the_source(module: str, name: str, lines: str) -> None:
    assert not not_in_source(module, name, lines)


def test_an_excerpt_that_differs_is_found() -> None:
    module, name, lines = excerpts()[0]
    assert not_in_source(module, name, lines.replace("=", "+="))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_print_what_the_page_says(page: Path) -> None:
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    examples = [block for block in blocks if block.startswith(">>>")]
    of_page = _EXCERPT.findall(page.read_text(encoding="utf-8"))
    assert len(blocks) == len(examples) + len(of_page), "a block is neither an example nor an excerpt"
    test = doctest.DocTestParser().get_doctest("\n".join(examples), {}, page.name, str(page), 0)
    output: list[str] = []
    assert doctest.DocTestRunner().run(test, out=output.append).failed == 0, "".join(output)
