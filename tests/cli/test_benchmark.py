"""`molattn benchmark`: its table and JSON, its options, and going on in its folder."""

import json
from pathlib import Path

import pytest

from molattn.cli.benchmark import parse_seeds
from molattn.errors import UsageError
from tests.cli.conftest import QUICK, Molattn
from tests.data.groups import NUM_TEST, tdc_files, write_files


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of MOLATTN_DATA with two tasks of TDC, and an empty cache of tables."""
    folder = write_files(tmp_path / "data", tdc_files("caco2_wang") | tdc_files("hia_hou", is_binary=True))
    monkeypatch.setenv("MOLATTN_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def test_the_table_has_scores_intervals_ranks_and_a_note_that_test_labels_were_read(
    molattn: Molattn, tmp_path: Path
) -> None:
    command = ("benchmark", "tdc", *QUICK, "--base", "none", "-o", tmp_path / "run")
    answer = molattn(*command, "--tasks", "caco2_wang", "--seeds", "1-2")
    assert answer.code == 0, answer.err
    assert "2 of 2: tdc/caco2_wang, seed 2" in answer.err
    header, line = answer.out.splitlines()[1:3]
    assert header.split()[:4] == ["task", "metric", "score", "95%"] and header.endswith("test (both sides)")
    task, metric, score, sign, std, low, _, high, rank, *_ = line.split()
    assert (task, metric, sign) == ("caco2_wang", "MAE", "±") and float(low) < float(score) < float(high)
    assert float(std) >= 0 and 1 <= int(rank) <= 25 and f"{NUM_TEST} (0)" in line
    assert "The labels of test molecules were read for each of the 2 trainings" in answer.out
    assert "as of 2026-" in answer.out and "Mean rank:" in answer.out
    # The same command trains nothing again; another task is added.
    again = molattn(*command, "--tasks", "caco2_wang", "hia_hou", "--seeds", "1,2", "--json")
    assert again.code == 0 and "of 2: tdc/hia_hou, seed 1" in again.err and "caco2" not in again.err
    content = json.loads(again.out)
    first = content["tasks"][0]
    assert (content["benchmark"], content["test_label_reads"], content["ranked_tasks"]) == ("tdc", 4, 2)
    assert f"{first['mean']:.3f}" == score and first["seeds"] == [1, 2] and first["rank"] == int(rank)
    assert len(first["indistinguishable"]) == first["rank_range"][1] - first["rank_range"][0]
    refused = molattn(*command, "--tasks", "caco2_wang", "--learning-rate", "0.01")
    assert refused.code == 2 and "another model or other settings" in refused.err


def test_settings_of_the_protocol_are_no_options(molattn: Molattn) -> None:
    shown = molattn("benchmark", "--help-all").out
    assert "--ensemble-size" in shown and "--with-trees" in shown and "--loss-function" in shown
    for name in ("--split-type", "--target-columns", "--seed ", "--num-folds", "--devices"):
        assert name not in shown
    for setting in ("data.split=random", "training.seed=3", 'data.dataset="esol"'):
        answer = molattn("benchmark", "tdc", "--set", setting)
        assert answer.code == 2 and "the benchmark decides" in answer.err
    for arguments, message in (
        (("tcd",), "unknown benchmark 'tcd'"),
        (("tdc", "--tasks", "hia"), "unknown task of tdc 'hia': did you mean 'hia_hou'?"),
        (("tdc", "--seeds", "five"), "write seeds such as 1-5"),
        (("tdc", "--epochs", "0"), "epochs"),
    ):
        answer = molattn("benchmark", *arguments)
        assert answer.code == 2 and message in answer.err, answer


def test_seeds_are_written_as_ranges_and_lists() -> None:
    assert parse_seeds("1-5") == [1, 2, 3, 4, 5] and parse_seeds(" 7, 1-2,1 ") == [7, 1, 2]
    for text in ("", "5-1", "1-", "-1", "1;2", "0-1000", "1e3"):
        with pytest.raises(UsageError, match="write seeds such as"):
            parse_seeds(text)
