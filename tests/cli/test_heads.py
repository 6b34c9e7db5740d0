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
