"""`molattn whatif`: its output, several runs, and invalid arguments."""

import csv
import re
from pathlib import Path

import pytest

from molattn.inference import load
from tests.cli.conftest import Molattn
from tests.molecules import esol

PARENT = "Cc1ccccc1O"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Runs of a property and of its negative, with half of the molecules held out."""
    import molattn

    folder = tmp_path_factory.mktemp("runs")
    smiles, y = esol(160)
    for name, sign in (("first", 1), ("second", -1)):
        rows = [f"{s},{sign * v}" for s, v in zip(smiles, y, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join([f"smiles,{name[0]}", *rows]) + "\n")
        small = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "edge_dim": 4, "epochs": 2, "base": "none"}
        options = {"split_sizes": (0.5, 0.25, 0.25), "accelerator": "cpu", "quiet": True, **small}
        molattn.train(folder / f"{name}.csv", target_columns=[name[0]], output_dir=folder / name, **options)
    return folder / "first", folder / "second"


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_best_variants_are_printed_with_their_intervals(molattn: Molattn, runs: tuple[Path, Path]) -> None:
    code, out, err = molattn("whatif", runs[0], "-s", PARENT, "-n", "7", "--level", "0.8")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert re.match(
        rf"{PARENT}: f -?\d.*(not )?in the training set; maximize$", lines[0].replace("(", "").replace(")", "")
    )
    rows = lines[3:10]
    assert all(re.search(r"[+-]\d+\.\d\d \([+-]\d+\.\d\d to [+-]\d+\.\d\d\)", row) for row in rows)
    found = load(runs[0]).what_if(PARENT, level=0.8)
    assert [row.split()[-1] for row in rows] == [row.variant.smiles for row in found.best(7)]
    assert lines[11].startswith(f"7 of {len(found.rows)} variants")
    assert "held-out" in lines[12] and found.agreement_text in lines[12]


def test_a_model_without_its_table_does_not_mention_the_training_set(
    molattn: Molattn, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    import molattn as library

    options = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "epochs": 1, "base": "none", "accelerator": "cpu"}
    table, run = runs[0].parent / "first.csv", tmp_path / "run"
    library.train(table, target_columns=["f"], output_dir=run, calibration_size=0.3, quiet=True, **options)
    library.load(run).save(tmp_path / "alone")
    for folder, known in ((run, True), (tmp_path / "alone", False)):
        code, out, _ = molattn("whatif", folder, "-s", PARENT, "--level", "0.5")
        assert code == 0 and ("the training set" in out.splitlines()[0]) == known
        assert out.splitlines()[0].endswith("; maximize")


def test_a_molecule_without_variants_has_a_message(molattn: Molattn, runs: tuple[Path, Path]) -> None:
    code, out, _ = molattn("whatif", runs[0], "-s", "[Na+].[Cl-]", "--level", "0.8")
    assert code == 0 and "there is no variant" in out


def test_a_csv_has_all_variants(molattn: Molattn, runs: tuple[Path, Path], tmp_path: Path) -> None:
    output = tmp_path / "variants.csv"
    code, out, err = molattn("whatif", runs[0], "-s", PARENT, "--minimize", "f", "--level", "0.8", "-o", output)
    assert (code, out) == (0, "")
    found = load(runs[0]).what_if(PARENT, level=0.8, goal="minimize")
    assert f"{len(found.rows)} of {len(found.rows)} variants" in err
    rows = read(output)
    assert [row["smiles"] for row in rows] == [row.variant.smiles for row in found.rows]
    for row, expected in zip(rows, found.rows, strict=True):
        assert float(row["f_change_lower"]) == pytest.approx(expected.lower, rel=1e-4, abs=1e-5)
        assert row["f_in_domain"] == ("yes" if expected.in_domain else "no")
        assert tuple(map(int, row["atoms"].split())) == expected.variant.atoms
    assert molattn("whatif", runs[0], "-s", PARENT, "--level", "0.8", "-o", output).code == 2
    assert molattn("whatif", runs[0], "-s", PARENT, "--level", "0.8", "-o", output, "--force", "-n", "3").code == 0
    assert len(read(output)) == 3


def test_several_runs_give_a_pareto_front(molattn: Molattn, runs: tuple[Path, Path], tmp_path: Path) -> None:
    output = tmp_path / "both.csv"
    options = ("-s", PARENT, "--level", "0.8", "--maximize", "f", "--minimize", "s")
    assert molattn("whatif", *runs, *options, "-o", output).code == 0
    rows = read(output)
    front = [row["pareto_front"] == "yes" for row in rows]
    assert any(front) and front == sorted(front, reverse=True)
    code, out, _ = molattn("whatif", *runs, *options, "-n", "4")
    assert code == 0 and "front" in out.splitlines()[3]
    # The same run twice: its target gets the name of the folder, and one variant is the best of both.
    assert molattn("whatif", runs[0], runs[0], *options[:4], "-o", tmp_path / "twice.csv").code == 2


def test_a_page_is_written(molattn: Molattn, runs: tuple[Path, Path], tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    code, out, err = molattn("whatif", runs[0], "-s", PARENT, "--level", "0.8", "-n", "30", "-o", output)
    assert (code, out) == (0, "")
    assert "shows 30 of" in err
    assert "Content-Security-Policy" in output.read_text(encoding="utf-8")


def test_another_table_gives_other_effects(molattn: Molattn, runs: tuple[Path, Path], tmp_path: Path) -> None:
    table = tmp_path / "more.csv"
    pairs = ["c1ccccc1,1.0", "Brc1ccccc1,0.0", "Cc1ccccc1,0.8", "Cc1ccc(Br)cc1,-0.2"]
    table.write_text("\n".join(["smiles,f", *pairs, *(f"{s},{v}" for s, v in zip(*esol(60), strict=True))]) + "\n")
    output = tmp_path / "variants.csv"
    options = ("-s", PARENT, "--level", "0.3", "--min-pairs", "2", "--data", table, "-o", output)
    assert molattn("whatif", runs[0], *options).code == 0
    bromides = [row for row in read(output) if row["change"] == "H>>Br[*:1]" and row["kind"] == "matched pair"]
    assert bromides and all(int(row["f_pairs"]) >= 2 for row in bromides)


def test_errors_are_one_sentence(molattn: Molattn, run: Path, runs: tuple[Path, Path], tmp_path: Path) -> None:
    for arguments, code, words in (
        (("-s", "C1CC"), 3, "ring"),
        (("-s", PARENT, "--minimize", "nothing"), 2, "unknown target 'nothing'"),
        (("-s", PARENT, "--minimize", "f", "--maximize", "f"), 2, "cannot be maximized and minimized"),
        (("-s", PARENT, "-o", tmp_path / "page.pdf"), 2, "written as .html or .csv"),
        (("-s", PARENT, "--level", "1.5"), 2, "above 0 and below 1"),
        (("-s", PARENT, "--data", tmp_path / "none.csv"), 3, "none.csv"),
    ):
        answer = molattn("whatif", runs[0], *arguments)
        assert answer.code == code, answer
        assert words in answer.err
        assert answer.err.count("\n") == 1
    # Forty molecules have too few held-out ones for an interval of 90%.
    answer = molattn("whatif", run, "-s", PARENT)
    assert answer.code == 2 and "too few for an interval of 0.9: give --level" in answer.err
