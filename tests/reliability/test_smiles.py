"""Lines 37 and 38: texts that look like SMILES, through the parser and from end to end."""

import csv
import math
import time
from pathlib import Path

from molattn.chem import read_smiles
from molattn.chem.parse import read_for_codes
from molattn.errors import SmilesError
from tests.cli.conftest import Molattn
from tests.reliability.score import Score
from tests.reliability.smiles_texts import misread, texts


def test_37_fuzzed_smiles_through_the_parser(score: Score) -> None:
    for text in texts(score.times(20_000, 500_000)):
        score.count("fuzzed texts")
        begun = time.perf_counter()
        made = []
        for read in (read_smiles, read_for_codes):
            try:
                made.append(read(text))
            except SmilesError as error:
                score.check(len(error.reason) > 8 and error.reason.isprintable(), f"no reason for {text!r}")
            except Exception as error:
                score.check(False, f"{text!r} raises {error!r}")
        score.slowest("seconds for the slowest", time.perf_counter() - begun)
        score.check(len(made) != 1, f"{text!r} is a molecule for one reader alone")
        if made:
            score.count("molecules")
            if "[" in text:
                score.count("molecules with brackets")
            for difference in filter(None, [misread(text, mol) for mol in made]):
                score.wrong_rows += 1
                score.check(False, difference)


def test_38_fuzzed_smiles_from_end_to_end(score: Score, molattn: Molattn, run: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    some = [*texts(score.times(400, 20_000), seed=1)]
    with open(source, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "smiles"), *enumerate(some)])
    score.end_to_end(some)
    for workers in (0, 2) if score.long else (0,):
        answer = molattn("predict", run, source, "-o", out, "--force", "-n", workers)
        if not score.check(answer.code == 0, answer.err):
            continue
        with open(out, newline="", encoding="utf-8") as file:
            found = [*csv.reader(file)][1:]
        score.rows([row[:2] for row in found], [[str(i), text] for i, text in enumerate(some)], given=some)
        score.rows([row[3] for row in found], ["ok" if _is_molecule(text) else "error" for text in some])
        for _, text, number, status, reason in found:
            good = math.isfinite(float(number)) and not reason if status == "ok" else not number and len(reason) > 8
            score.wrong_rows += not score.check(good, f"{text!r}: {number!r}, {status}, {reason!r}")


def _is_molecule(text: str) -> bool:
    try:
        return read_smiles(text).GetNumAtoms() > 0
    except SmilesError:
        return False
