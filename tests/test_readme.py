"""The README and the guide are true: their length, links, commands, options, settings and files, and the systems."""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

from molattn.cli.main import app
from molattn.training.run_config import SECTIONS

ROOT = Path(__file__).parents[1]
README, DOCS = ROOT / "README.md", ROOT / "docs"
EXPLANATION = sorted((DOCS / "explanation").glob("*.md"))
PAGES = [
    README,
    ROOT / "benchmarks" / "README.md",
    *(page for folder in (DOCS, DOCS / "guide", DOCS / "results") for page in sorted(folder.glob("*.md"))),
    *EXPLANATION,
]
GUIDE = [README, DOCS / "systems.md", *sorted((DOCS / "guide").glob("*.md")), *EXPLANATION]
ALWAYS = {"--help", "-h", "--debug"}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
each_guide_page = pytest.mark.parametrize("page", GUIDE, ids=lambda page: str(page.relative_to(ROOT)))

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)*)`(?!`)")


def prose(page: Path) -> str:
    """The text of a page without its code blocks."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def spans(page: Path) -> list[str]:
    """The code within the lines of a page, each in one line."""
    return [" ".join(span.split()) for span in _SPAN.findall(prose(page))]


def code_lines(page: Path) -> list[str]:
    """The lines of its code blocks but those of Python, and the code within its lines."""
    blocks = [text for language, text in _BLOCK.findall(page.read_text(encoding="utf-8")) if language != "python"]
    return [line for text in blocks for line in text.replace("\\\n", " ").splitlines()] + spans(page)


# Links


def slug(heading: str) -> str:
    """The anchor of a heading: as of GitHub, without that of a repeated heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@cache
def anchors(page: Path) -> set[str]:
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)}


def broken_links(page: Path) -> list[str]:
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", _SPAN.sub("", prose(page))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@each_page
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_and_a_missing_heading_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One: `two`\n\n[a](page.md#one-two) [b](gone.md) [c](#three)\n\n```text\n[d](code.md)\n```\n")
    assert broken_links(page) == ["gone.md", "#three"]


def test_the_readme_has_at_most_150_lines() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


def test_the_index_of_the_guide_has_every_page_and_notebook() -> None:
    index = DOCS / "guide" / "README.md"
    links = re.findall(r"\]\(([^)\s]+)\)", prose(index))
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in links}
    assert [page for page in PAGES if page not in linked and page != index] == []
    assert {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} <= set(spans(index))


# Commands, options, settings, files


def commands() -> dict[str, set[str]]:
    """The options of every command, by its name, such as "train" or "datasets list"."""

    def options(name: str, command: object) -> Iterator[tuple[str, set[str]]]:
        for sub, of_group in getattr(command, "commands", {}).items():
            yield from options(f"{name} {sub}".strip(), of_group)
        yield name, {text for p in getattr(command, "params", ()) for text in (*p.opts, *p.secondary_opts)}

    return dict(options("", get_command(app)))


COMMANDS = commands()


def calls(line: str) -> Iterator[list[str]]:
    """The arguments of each `molattn COMMAND ...` in a line of a shell."""
    for match in re.finditer(r"(?:^|[\s/])molattn (?=[a-z])", line):
        rest = line[match.end() :]
        try:
            words = shlex.split(rest, comments=True)
        except ValueError:  # the rest of a sentence
            words = rest.split()
        end = next((i for i, word in enumerate(words) if word in ("|", "&&", ";", ">")), len(words))
        yield words[:end]


def wrong_calls(line: str) -> list[str]:
    """What does not exist among the commands and options of a line."""
    found = []
    for words in calls(line):
        two = " ".join(words[:2])
        name = two if two in COMMANDS else words[0]
        if name not in COMMANDS:
            found.append(name)
            continue
        given = [word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
        found += [f"{name} {option}" for option in given if option not in COMMANDS[name] | ALWAYS]
    return found


@each_guide_page
def test_every_command_and_its_options_exist(page: Path) -> None:
    assert [wrong for line in code_lines(page) for wrong in wrong_calls(line)] == []


def test_the_pages_name_every_command() -> None:
    named = {words[0] for page in GUIDE for line in code_lines(page) for words in calls(line)}
    assert named == {name.partition(" ")[0] for name in COMMANDS} - {""}


def test_a_wrong_command_or_option_is_found() -> None:
    assert wrong_calls("pip install x && .venv/bin/molattn trian --dataset esol") == ["trian"]
    assert wrong_calls("molattn train a.csv --epoch 3 -q -o out --set model.a=1  # --none") == ["train --epoch"]
    assert wrong_calls("molattn datasets list --dir x") == ["datasets list --dir"]
    assert wrong_calls("molattn attention run in.csv --layer -1 --head=mean | head --lines 3") == []


@each_guide_page
def test_every_option_that_is_named_alone_exists(page: Path) -> None:
    known = ALWAYS.union(*COMMANDS.values())
    named = [span.partition(" ")[0].partition("=")[0] for span in spans(page) if span.startswith("--")]
    assert [option for option in named if option not in known] == []


@each_guide_page
def test_every_setting_exists(page: Path) -> None:
    known = {f"{section}.{f.name}" for section, kinds in SECTIONS.items() for kind in kinds for f in fields(kind)}
    lines = "\n".join(code_lines(page))
    named = re.findall(r"(?:--set|--search) ['\"]?(\w+\.\w+)=", lines)
    named += re.findall(rf"^((?:{'|'.join(SECTIONS)})\.(?!safetensors$|onnx$|pt2$)\w+)$", lines, re.MULTILINE)
    assert [setting for setting in named if setting not in known] == []


@each_guide_page
def test_every_file_that_is_named_exists(page: Path) -> None:
    folders = "|".join(path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] not in "._")
    named = {
        word
        for line in code_lines(page)
        for word in re.findall(rf"(?<!\S)((?:{folders}|\.ci)/[\w./-]+?)[.,:]?(?!\S)", line)
        if not word.startswith("runs/")
    }
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


# The table of systems


def sections() -> dict[Path, list[list[str]]]:
    """The rows of docs/systems.md, by the file of their tests."""
    found = {}
    for text in (DOCS / "systems.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in text.splitlines()
            if re.match(r"\| \d", line)
        ]
        if rows:
            (link,) = re.findall(r"^Tests: \[[^]]*\]\((.*)\)\.$", text, re.MULTILINE)
            found[(DOCS / link).resolve()] = rows
    return found


SYSTEMS = sections()


def test_there_is_a_row_for_each_system() -> None:
    assert set(SYSTEMS) == set((ROOT / "tests" / "documents").glob("test_0*.py"))
    assert [int(row[0].partition(".")[0]) for rows in SYSTEMS.values() for row in rows] == list(range(1, 23))


@pytest.mark.parametrize("file", SYSTEMS, ids=lambda file: file.stem)
def test_the_tests_of_a_document_are_those_of_its_rows(file: Path) -> None:
    functions = [node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)]
    names = [name.removeprefix(f"test_document_{file.stem[5:8]}_") for name in functions if name.startswith("test_")]
    patterns = [pattern for row in SYSTEMS[file] for pattern in re.findall(r"`([^`]+)`", row[3])]
    assert [p for p in patterns if not any(fnmatchcase(name, p) for name in names)] == []
    assert [name for name in names if not any(fnmatchcase(name, p) for p in patterns)] == []


@pytest.mark.parametrize("row", [row for rows in SYSTEMS.values() for row in rows], ids=lambda row: row[0][:40])
def test_the_notebooks_and_modules_of_a_system_exist(row: list[str]) -> None:
    _, notebooks, modules, _ = row
    for part in notebooks.split("; "):
        if part == "none" or part.startswith("`molattn "):
            continue
        name = re.findall(r"`(\w+)`", part)[0]
        cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
        headings = re.findall(r"^## (\d+)\.", "\n".join("".join(cell["source"]) for cell in cells), re.MULTILINE)
        assert set(re.findall(r"\b\d+\b", part)) <= set(headings)
    for part in modules.split("; "):
        path, *names = re.findall(r"`([^`]+)`", part)
        text = (ROOT / path).read_text(encoding="utf-8")
        assert names
        assert [name for name in names if not re.search(rf"^(?:class |def )?{name}\b", text, re.MULTILINE)] == []
