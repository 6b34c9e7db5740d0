"""The random forest on TDC's tasks, on files with made-up labels."""

import sys
from pathlib import Path

import pytest

from examples import tdc_random_forest
from tests.data.groups import tdc_files, write_files


def test_it_scores_classes_and_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = tdc_files("caco2_wang") | tdc_files("hia_hou", is_binary=True)
    monkeypatch.setenv("MOLATTN_DATA", str(write_files(tmp_path / "data", files)))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    command = ["tdc_random_forest", "caco2_wang", "hia_hou", "--seeds", "1", "--output-dir", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", command)
    tdc_random_forest.main()
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if "rank" in line]
    assert [line[:2] for line in lines] == [["caco2_wang:", "mae"], ["hia_hou:", "auroc"]]
    # The labels depend on the number of carbon atoms, of which a forest on counts of substructures finds some.
    assert 0 < float(lines[0][2]) < 2.0 and float(lines[1][2]) > 0.8
    assert (tmp_path / "run" / "scores.csv").is_file()
