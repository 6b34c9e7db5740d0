"""Lines 26 to 28: rows of the input are those of the output, and attention is that of the prediction."""

import csv
from pathlib import Path
from random import Random

import numpy as np
import pytest

from molattn import Predictor
from molattn.chem import read_smiles
from molattn.data.tables.row_stream import CHUNK_SIZE
from tests.cli.conftest import Molattn
from tests.molecules import SPECIAL
from tests.reliability.generate import molecules
from tests.reliability.score import Score

CELLS = (
    "",
    " ",
    "007",
    "1e5",
    "-0.0",
    "a, b",
    'say "x"',
    "two\nlines",
    "a\rb",
    "\t",
    "Ünïcode",
    "'=1",
    "=1+1",
    "\ufeffx",
)
NAMES = ["id", "y_pred", "smiles", "status", "error", "y_pred_2", "", " y ", "Structure"]


def test_26_input_columns_are_kept(score: Score, molattn: Molattn, run: Path, tmp_path: Path) -> None:
    rng = Random(0)
    for k in range(score.times(2, 40)):
        names = [name for name in NAMES if name and (name == "smiles" or rng.random() < 0.7)]
        count = rng.randrange(1, 200)
        rows = [
            [rng.choice(("CCO", "C1CC", "")) if n == "smiles" else rng.choice(CELLS) for n in names]
            for _ in range(count)
        ]
        source, out = tmp_path / f"{k}.csv", tmp_path / f"{k}-out.csv"
        with open(source, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([names, *rows])
        answer = molattn("predict", run, source, "-o", out, "--smiles-column", "smiles")
        if score.check(answer.code == 0, answer.err):
            with open(out, newline="", encoding="utf-8") as file:
                head, *found = csv.reader(file)
            score.check(head[: len(names)] == names and len(set(head)) == len(head), head)
            score.rows([row[: len(names)] for row in found], rows, f"table {k}", given=rows)


@pytest.mark.parametrize("workers", [0, 2])
def test_27_the_count_and_order_of_rows(
    score: Score, molattn: Molattn, run: Path, tmp_path: Path, workers: int
) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    for count in (0, 1, CHUNK_SIZE + 1, *((CHUNK_SIZE, 5 * CHUNK_SIZE + 3) if score.long else ()))[2 * bool(workers) :]:
        smiles = ["C" * (1 + i % 7) if i % 11 else "C1CC" for i in range(count)]
        source.write_text("".join(f"{line}\n" for line in ("id,smiles", *(f"{i},{s}" for i, s in enumerate(smiles)))))
        answer = molattn("predict", run, source, "-o", out, "--force", "-n", workers)
        score.count("tables")
        if score.check(answer.code == 0, answer.err):
            rows = [line.split(",") for line in out.read_text().splitlines()[1:]]
            wanted = [[str(i), s] for i, s in enumerate(smiles)]
            score.rows([row[:2] for row in rows], wanted, given=wanted)
            score.rows([row[3] for row in rows], ["ok" if i % 11 else "error" for i in range(count)])


def test_28_attention_is_of_the_prediction(score: Score, predictor: Predictor) -> None:
    texts = [*SPECIAL, *molecules(score.times(20, 300))]
    good = [text for text, row in zip(texts, predictor.predict_rows(texts), strict=True) if row.values is not None]
    predicted = np.asarray(predictor.predict(good))
    for text, alone in zip(good, predicted, strict=True):
        attention = predictor.attention(text)
        score.count("molecules")
        sums = np.abs(attention.weights.sum(-1) - 1).max()
        score.check(sums <= 1e-5, f"{text}: rows sum to 1 within {sums:.1e}")
        score.check(
            attention.symbols == tuple(a.GetSymbol() for a in read_smiles(text).GetAtoms()), f"{text}: its order"
        )
        apart = abs(attention.prediction["y"] - float(alone))
        if not score.check(apart <= 1e-6 * max(1, abs(alone)), f"{text}: {apart:.1e} apart with its attention"):
            score.wrong_rows += 1
        score.slowest("with and without attention apart", apart)
