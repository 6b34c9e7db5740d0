"""The code of the pages runs: their blocks of Python, and what they call `molattn` with in blocks of a shell.

The blocks of Python of a page are one script, in their order. It runs in a folder that has what the pages refer to
(the runs `runs/esol` and `runs/bbbp`, tables), after a few lines that make what is the reader's own (`smiles`, `y`,
`frame`). Code that is not meant to run is in a block of "text". The Python of docs/explanation is excerpts and
examples: test_explanation.py compares them with the source, and runs them.
"""

import csv
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet
from rdkit import Chem
from typer.main import get_command

import molattn
from molattn.cli.main import app
from tests.exports import needs_export

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(ROOT / folder / "README.md" for folder in ("datasets", "bases", "benchmarks")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
_BLOCK = re.compile(r"^ *```(\S+)[^\n]*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def blocks(text: str, language: str) -> list[tuple[int, str]]:
    """The first line and the text of each block of a language."""
    found = ((text.count("\n", 0, m.start(2)) + 1, m[2]) for m in _BLOCK.finditer(text) if m[1] == language)
    return list(found)


def pages_with(language: str) -> list[Any]:
    texts = ((page, page.read_text(encoding="utf-8")) for page in PAGES)
    return [
        pytest.param(page, id=str(page.relative_to(ROOT)), marks=[needs_export] if '.export("' in text else [])
        for page, text in texts
        if blocks(text, language)
    ]


# Python

SMALL = {"hidden_dim": 16, "num_layers": 2, "num_heads": 2, "edge_dim": 4, "epochs": 2, "accelerator": "cpu"}
READER = """
import warnings

import pandas

from molattn.errors import MolattnWarning

warnings.simplefilter("error", MolattnWarning)
frame = pandas.read_csv("my.csv")
smiles, y = list(frame["smiles"]), list(frame["y"])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small runs and tables of 100 molecules of ESOL; their classes are made up."""
    folder = tmp_path_factory.mktemp("pages")
    with (ROOT / "datasets" / "esol.csv").open(encoding="utf-8") as file:
        rows = [(row["smiles"], float(row["log_solubility"])) for row in csv.DictReader(file)][:100]
    with (folder / "my.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "y", "logp", "mw", "active"])
        writer.writerows((smiles, y, -y / 2, len(smiles), int(y > -3)) for smiles, y in rows)
    how = {**SMALL, "base": "none", "calibration_size": 0.25, "quiet": True}
    runs = {"esol": {"target_columns": ["y"], "ensemble_size": 3}, "bbbp": {"target_columns": ["active"]}}
    for name, options in runs.items():
        molattn.train(folder / "my.csv", output_dir=folder / "runs" / name, **how, **options)
    (folder / "in.csv").write_text("smiles\nCCO\nc1ccccc1\n", encoding="utf-8")
    parquet.write_table(pyarrow.table({"smiles": ["CCO", "c1ccccc1"]}), folder / "a.parquet")
    with Chem.SDWriter(str(folder / "b.sdf")) as writer:
        writer.write(Chem.MolFromSmiles("CCO"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in pages_with("python") if not p.id.startswith("docs/explanation/")])
def test_the_python_of_a_page_runs(page: Path, folder: Path) -> None:
    script = folder / f"{page.relative_to(ROOT).as_posix().replace('/', '_')}.py"
    parts = [f"# line {line}\n{text}" for line, text in blocks(page.read_text(encoding="utf-8"), "python")]
    script.write_text("\n".join([READER, *parts]), encoding="utf-8")
    done = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


# Shell


def calls(text: str) -> Iterator[tuple[int, list[str]]]:
    """The line and the arguments of each `molattn ...` in the blocks of a shell."""
    for first, block in blocks(text, "bash"):
        for number, line in enumerate(block.replace("\\\n", " ").splitlines(), first):
            lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;")
            lexer.whitespace_split = True
            words: list[str] = []
            for word in [*lexer, "&&"]:
                if word.strip("&|;"):
                    words.append(word)
                    continue
                while words and "=" in words[0]:  # of a variable of the environment
                    words = words[1:]
                start = words.index("-m") + 1 if "-m" in words else 0  # as in `torchrun -m molattn`
                if words and words[start].rpartition("/")[2] == "molattn":
                    yield number, words[start + 1 :]
                words = []


def complaint(arguments: list[str]) -> str:
    """The error of molattn's own parser for a call, which is not run; empty if there is none."""
    command: Any = get_command(app)
    words = list(arguments)
    try:
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        context = command.context_class(command, info_name="molattn")
        values, _, _ = command.make_parser(context).parse_args(words)
        missing = [p.name for p in command.params if p.required and values.get(p.name) is None]
        return f"without {', '.join(missing)}" if missing else ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("page", pages_with("bash"))
def test_the_calls_of_a_page_can_be_parsed(page: Path) -> None:
    found = [(line, words, complaint(words)) for line, words in calls(page.read_text(encoding="utf-8"))]
    assert [call for call in found if call[2]] == []


def test_wrong_calls_are_found() -> None:
    text = "a\n\n```bash\nx && .venv/bin/molattn trian; molattn predict -o  # why\n\nmolattn explain r\n```\n"
    (first, misspelt), (second, cut), (third, short) = calls(text)
    assert (first, second, third) == (4, 4, 6)
    assert complaint(misspelt) == "KeyError: 'trian'"
    assert "requires an argument" in complaint(cut)
    assert complaint(short) == "without smiles"
