"""`molattn heads`: a table and a figure from a run and a table of molecules."""

import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest


def test_a_table_and_a_figure(molattn, run, table, tmp_path):
    outputs = [tmp_path / name for name in ("heads.csv", "heads.parquet", "heads.svg", "heads.png")]
    answer = molattn("heads", run, table, *(x for path in outputs for x in ("-o", path)))
    assert answer.code == 0
    assert "1 of 42 rows are left out; the first, line 9: 'C1CC'" in answer.err
    assert "41 molecules" in answer.out and "uniform" in answer.out
    read = pc.read_csv(outputs[0]).to_pandas()
    frame = pq.read_table(outputs[1]).to_pandas()
    assert len(read) == len(frame) > 100
    shares = frame[frame.by == "distance"].groupby(["layer", "head"]).share.sum()
    assert len(shares) == 16
    assert shares.to_numpy() == pytest.approx(1)
    assert outputs[2].read_text().startswith("<?xml")
    assert outputs[3].read_bytes().startswith(b"\x89PNG")


def test_max_rows_limits_the_rows(molattn, run, table):
    answer = molattn("heads", run, table, "--max-rows", 5)
    assert answer.code == 0 and "5 molecules" in answer.out
    assert "left out" not in answer.err


def test_invalid_arguments_are_refused(molattn, run, table, tmp_path):
    (tmp_path / "there.csv").write_text("mine")
    for arguments, code, message in [
        (("-o", tmp_path / "heads.pdf"), 2, "heads.pdf: name it .csv, .tsv, .parquet for a table"),
        (("-o", tmp_path / "there.csv"), 2, "exists"),
        (("-o", tmp_path / "none" / "heads.csv"), 3, "there is no folder"),
        (("--strict",), 4, "line 9: 'C1CC'"),
    ]:
        answer = molattn("heads", run, table, *arguments)
        assert answer.code == code, answer
        assert message in answer.err
    assert (tmp_path / "there.csv").read_text() == "mine"
    (tmp_path / "bad.csv").write_text("smiles\nC1CC\n")
    answer = molattn("heads", run, tmp_path / "bad.csv")
    assert answer.code == 3 and "no molecule can be read" in answer.err


def test_without_a_table_the_test_molecules_of_the_run_are_read(molattn, run, tmp_path):
    answer = molattn("heads", run, "-o", tmp_path / "test.csv")
    assert answer.code == 0, answer.err
    assert "4 test molecules of solubility.csv" in answer.err and "4 molecules" in answer.out
    test = [r["smiles"] for r in pc.read_csv(run / "predictions.csv").to_pylist() if r["split"] == "test"]
    given = [x for text in test for x in ("--smiles", text)]
    assert molattn("heads", run, *given, "-o", tmp_path / "given.csv").code == 0
    assert (tmp_path / "test.csv").read_bytes() == (tmp_path / "given.csv").read_bytes()


def test_max_rows_limits_given_smiles_too(molattn, run):
    answer = molattn("heads", run, "--smiles", "CCO", "-s", "C1CC", "-s", "CCN", "--max-rows", 1)
    assert answer.code == 0 and "1 molecules, 3 atoms" in answer.out and answer.err == ""


def test_smiles_are_given_one_by_one(molattn, run, table, tmp_path):
    answer = molattn("heads", run, "--smiles", "CCO", "-s", "C1CC", "-s", "CCN")
    assert answer.code == 0 and "2 molecules, 6 atoms" in answer.out
    assert "1 of 3 rows are left out; the first, --smiles number 1: 'C1CC'" in answer.err
    for arguments, code, message in [
        ((table, "-s", "CCO"), 2, "not both"),
        (("-s", "C1CC"), 3, "no molecule can be read; the first, --smiles number 0"),
        (("-s", "C1CC", "-s", "C", "--strict"), 4, "--smiles number 0: 'C1CC'"),
        (("--smiles-column", "x"), 2, "--smiles-column needs a table"),
    ]:
        answer = molattn("heads", run, *arguments)
        assert answer.code == code and message in answer.err, answer
    (tmp_path / "model").symlink_to(run / "model")
    answer = molattn("heads", tmp_path)
    assert answer.code == 2 and "has no predictions.csv, which lists its test molecules" in answer.err
