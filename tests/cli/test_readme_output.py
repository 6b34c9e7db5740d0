"""The first command of the README, and those after it, print the output that the README shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
NUMBER = re.compile(r"-?\d+\.\d+")


def blocks() -> tuple[str, list[str]]:
    """What the training ends with; and the lines of the two predictions."""
    training, predictions = re.findall(r"^```text\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return training, [line for line in predictions.splitlines() if not line.startswith("$")]


def words(text: str) -> list[str]:
    """The words of a text without its decimals and the lines of its tables, which depend on the width of decimals."""
    return re.sub(r"[━─┏┓┗┛┡┩└┘╇┷┴┃│┳\s]+", " ", NUMBER.sub("#", text)).split()


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "molattn", *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.slow
def test_the_first_command_prints_what_the_readme_says(tmp_path: Path) -> None:
    """Processors may round differently, and training amplifies it: the numbers are compared with a tolerance."""
    training, predictions = blocks()
    printed = run(tmp_path, "train", "--dataset", "esol")
    end = printed[printed.index(training.partition("\n")[0]) :]
    command = re.compile(r"\S*molattn (?=view|explain|predict)")
    assert words(command.sub("molattn ", end)) == words(command.sub("molattn ", training))
    numbers = [[float(x) for x in NUMBER.findall(text)] for text in (end, training)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.05)
    printed = run(tmp_path, "predict", "runs/esol", "--smiles", "CCO", "--smiles", "c1ccccc1")
    rows = [[line.split() for line in lines] for lines in (printed.splitlines(), predictions)]
    assert [row[:-1] for row in rows[0]] == [row[:-1] for row in rows[1]]
    found, expected = ([float(row[-1]) for row in lines[1:]] for lines in rows)
    assert found == pytest.approx(expected, abs=0.2)
    (tmp_path / "in.csv").write_text("id,smiles\n1,CCO\n2,nonsense\n", encoding="utf-8")
    run(tmp_path, "predict", "runs/esol", "in.csv", "-o", "out.csv")
    head, good, bad = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()
    assert head.startswith("id,smiles,") and good.startswith("1,CCO,") and bad.startswith("2,nonsense,")
    run(tmp_path, "view", "runs/esol", "--smiles", "CCO", "-o", "runs/esol/ethanol.html")
    assert (tmp_path / "runs" / "esol" / "ethanol.html").stat().st_size > 10_000
