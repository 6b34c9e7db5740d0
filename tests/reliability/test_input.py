"""Lines 1 to 12: for any table, each row is returned with a prediction or a reason."""

import csv
import math
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from molattn import Predictor
from molattn.chem import DISCONNECTED, MAX_ATOMS, MAX_LENGTH, molecule_graph, parse, random_smiles, read_smiles
from molattn.data import read_table
from molattn.data.tables.records import read_records
from molattn.errors import InputError, SmilesError
from tests.chem.hostile import HOSTILE
from tests.cli.conftest import Molattn
from tests.data.test_records import UNUSABLE
from tests.data.test_tables import COLUMNS, DIALECTS, OFF, ROWS
from tests.reliability.generate import molecules, tangled
from tests.reliability.score import Score


def _answers(score: Score, predictor: Predictor, smiles: list[Any]) -> list[bool]:
    """Predict, and check that each row has its SMILES and a prediction or a reason; returns which have a prediction."""
    rows = list(predictor.predict_rows(smiles))
    score.rows(
        [row.smiles is expected or row.smiles == expected for expected, row in zip(smiles, rows, strict=False)],
        [True] * len(smiles),
        given=smiles,
    )
    for expected, row in zip(smiles, rows, strict=True):
        score.check(row.smiles is expected or row.smiles == expected, f"another row came back for {expected!r}")
        if row.values is None:
            score.check(len(row.error) > 8, f"no reason for {expected!r}")
        else:
            score.check(all(map(math.isfinite, row.values)) and not row.error, f"{row.values} for {expected!r}")
    return [row.values is not None for row in rows]


def _refused(score: Score, text: object) -> bool:
    """Whether the SMILES parser rejects it, with a reason."""
    try:
        read_smiles(text)
    except SmilesError as error:
        return score.check(len(error.reason) > 8, f"no reason for {text!r}")
    return score.check(False, f"{ascii(text)[:80]} was read")


def test_01_hostile_strings(score: Score, molattn: Molattn, predictor: Predictor, run: Path, tmp_path: Path) -> None:
    # Text that a CSV cannot hold is passed in Python.
    cells = [(t, ok) for t, ok in HOSTILE if isinstance(t, str) and "\ud800" not in t]
    others = [(t, ok) for t, ok in HOSTILE if not isinstance(t, str) or "\ud800" in t]
    score.end_to_end(text for text, _ in HOSTILE)
    score.rows(_answers(score, predictor, [text for text, _ in others]), [ok for _, ok in others])
    with open(tmp_path / "in.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "smiles"), *((i, text) for i, (text, _) in enumerate(cells))])
    answer = molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / "out.csv")
    score.check(answer.code == 0, answer.err)
    found = read_table(tmp_path / "out.csv").rows
    score.rows([row[0] for row in found], [str(i) for i in range(len(cells))], "of the table", given=dict(cells))
    score.rows([row[3] for row in found], ["ok" if ok else "error" for _, ok in cells], "of the table")


def test_02_one_bad_row_in_a_thousand_and_one(score: Score, molattn: Molattn, run: Path, tmp_path: Path) -> None:
    rng = Random(0)
    bad = [t for t, good in HOSTILE if not good and isinstance(t, str) and t.isprintable() and 0 < len(t) < 200]
    for text in rng.sample(bad, score.times(1, 30)):
        smiles = ["C" * (1 + i % 9) for i in range(1001)]
        place = rng.randrange(1001)
        smiles[place] = text
        with open(tmp_path / "in.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["smiles"], *([s] for s in smiles)])
        score.end_to_end([text])
        answer = molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--force")
        rows = read_table(tmp_path / "out.csv").rows
        score.rows([row[0] for row in rows], smiles, given=smiles)
        score.rows([i for i, row in enumerate(rows) if row[2] == "error"], [place])
        score.check(answer.code == 0, answer.err)
        strict = molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / "strict.csv", "--strict")
        score.check(strict.code == 4 and f"line {place + 2}" in strict.err, strict.err)
        score.check(not (tmp_path / "strict.csv").exists(), "--strict left an output")


@pytest.fixture
def no_rdkit(monkeypatch: pytest.MonkeyPatch) -> None:
    """RDKit must not be called."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("RDKit was called")

    monkeypatch.setattr(parse.Chem, "MolFromSmiles", never)


@pytest.mark.usefixtures("no_rdkit")
def test_03_other_characters_are_refused_before_rdkit(score: Score) -> None:
    others = [chr(i) for i in (*range(32), *range(127, 0x3000, score.times(97, 1)), 0xFEFF, 0x1F600, 0xD800)]
    for other in others:
        at_ends = () if other.isspace() else (f"{other}CC", f"CC{other}")  # white space at the ends is dropped
        for text in (f"C{other}C", *at_ends):
            score.count("texts refused by the gate alone")
            _refused(score, text)
    score.check(any(unicodedata.name(c, "").startswith("CYRILLIC") for c in others), "no Cyrillic letter was tried")


def test_04_empty_smiles(score: Score, predictor: Predictor) -> None:
    empty: list[Any] = ["", " ", "    ", None, math.nan, np.nan, np.str_("")]
    score.end_to_end(empty)
    score.rows(_answers(score, predictor, empty), [False] * len(empty))


def test_05_atoms_ions_and_salts(score: Score, predictor: Predictor) -> None:
    symbols = [parse.Chem.GetPeriodicTable().GetElementSymbol(i) for i in range(1, 119)]
    single = [f"[{s}{charge}]" for s in symbols for charge in ("", "+", "-", "+2")]
    salts = [f"[{a}+].[{b}-]" for a in ("Na", "K", "NH4", "Li") for b in ("Cl", "OH", "F", "Br")]
    texts = [
        *single,
        *salts,
        "[H]",
        "[H][H]",
        "[H+]",
        "[H-]",
        "[2H]",
        "[HH]",
        "O",
        "C",
        "[Na+].[Na+].[O-]S([O-])(=O)=O",
    ]
    score.count("molecules", len(texts))
    score.rows(_answers(score, predictor, texts), [True] * len(texts))
    for text in salts:
        paths = molecule_graph(text).path_lengths
        score.check(paths[0, -1] == DISCONNECTED and paths[0, 0] == 0, f"{text}: {paths}")


def test_06_features_that_have_no_code(score: Score, predictor: Predictor) -> None:
    unknown = ["[C+7]", "[O-6]", "[Fe+9]", "C~C", "C[B-8]"]
    rare = ["[Re]$[Re]", "[NH3]->[Pt](Cl)(Cl)<-[NH3]", "*C", "[Og]", "[Lv+4]", "[U](F)(F)(F)(F)(F)F"]
    score.count("molecules", len(unknown) + len(rare))
    for text in unknown:
        score.check(molecule_graph(text).warnings, f"{text}: no warning")
    score.rows(_answers(score, predictor, unknown + rare), [True] * len(unknown + rare))


@pytest.mark.usefixtures("no_rdkit")
def test_07_over_the_limits(score: Score) -> None:
    rng = Random(0)
    pieces = ("C", "Cl", "[nH]", "c", "[13C@@H]", "N", "[Og]", "*", "(C)", "=C", "/C", ".C")
    texts = ["C" * (MAX_LENGTH + 1), "C" * 1_000_000, " " * (MAX_LENGTH + 1), "C12" * 900, "[" * (MAX_LENGTH + 1)]
    texts += [
        "".join(rng.choices(pieces, k=MAX_ATOMS + 1 + rng.randrange(9_000))) for _ in range(score.times(50, 1000))
    ]
    for text in texts:
        score.count("texts refused by the gate alone")
        start = time.perf_counter()
        _refused(score, text)
        score.slowest("seconds for the slowest", time.perf_counter() - start)


def test_08_hostile_rings_and_chains(score: Score, predictor: Predictor) -> None:
    tangles = [tangled(rings, seed) for seed in range(score.times(1, 20)) for rings in (3, 30, 300, 499)]
    texts = [
        "C" * 20_000,
        "C1" + "C" * 9_000 + "1",
        "C" * 999 + "X",
        "C1CCCC1" * 140,
        "C12" + "C" * 500 + "12",
        *tangles,
    ]
    score.end_to_end(texts)
    for text in texts:
        start = time.perf_counter()
        _answers(score, predictor, [text])
        score.slowest("seconds for the slowest", time.perf_counter() - start)


def test_09_dialects(score: Score, tmp_path: Path) -> None:
    for name, data in DIALECTS:
        (tmp_path / name).write_bytes(data.encode())
        score.count("dialects")
        table = read_table(tmp_path / name)
        score.check(table.columns == COLUMNS, f"{name}: {table.columns}")
        score.rows(table.rows, ROWS, name)
    for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        (tmp_path / "t.csv").write_bytes("smiles,y\nC,1\n".encode(name))
        score.count("dialects")
        if name in ("utf-16", "utf-32"):  # with a byte-order mark
            score.rows(read_table(tmp_path / "t.csv").rows, [["C", "1"]], name)
            continue
        with pytest.raises(InputError, match="NUL"):
            read_table(tmp_path / "t.csv")


def test_10_malformed_tables(score: Score, molattn: Molattn, run: Path, tmp_path: Path) -> None:
    for data, message in OFF:
        if message is not None:
            (tmp_path / "t.csv").write_bytes(data.encode() if isinstance(data, str) else data)
            score.end_to_end([data])
            with pytest.raises(InputError, match=message):
                read_table(tmp_path / "t.csv")
            answer = molattn("predict", run, tmp_path / "t.csv", "-o", tmp_path / "out.csv")
            score.check(answer.code == 3 and "t.csv" in answer.err, f"{data!r}: {answer}")
            score.check(not (tmp_path / "out.csv").exists(), f"{data!r}: an output was left")


def test_11_targets_that_are_no_numbers(score: Score, tmp_path: Path) -> None:
    for text, reason in UNUSABLE:
        with open(tmp_path / "t.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("smiles", "y"), ("C", "1.0"), ("CC", text), ("CCC", "3.0")])
        score.count("targets")
        found = read_records(read_table(tmp_path / "t.csv"), "smiles", ["y"])
        score.rows(found.smiles, ["C", "CCC"], text)
        score.check([(r.row, r.line) for r in found.rejected] == [(1, 3)], found.rejected)
        score.check(reason.replace("\\", "") in found.rejected[0].reason.replace("\\", ""), found.rejected[0].reason)


def test_12_generated_molecules(score: Score, predictor: Predictor) -> None:
    texts = molecules(score.times(150, 2_000))
    answered = _answers(score, predictor, texts)
    good = [text for text, ok in zip(texts, answered, strict=True) if ok]
    score.count("molecules", len(texts))
    score.check(len(good) > 0.9 * len(texts), f"only {len(good)} of {len(texts)} are molecules")
    score.check(sum("@" in text or "/" in text for text in good) > len(good) / 4, "too little stereochemistry")
    respelled = [random_smiles(read_smiles(text), seed) for seed, text in enumerate(good)]
    predict: Callable[[list[str]], np.ndarray] = predictor.predict  # pyright: ignore[reportAssignmentType]
    apart = np.abs(predict(good) - predict(respelled))
    score.count("spellings", len(good))
    for i in np.flatnonzero(~(apart <= 1e-5)):
        score.wrong_rows += 1
        score.check(False, f"{good[i]} and {respelled[i]} are {apart[i]:.1e} apart")
    score.slowest("largest difference", float(np.nanmax(apart)))
