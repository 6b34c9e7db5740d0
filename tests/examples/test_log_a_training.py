"""The example of a custom logger draws each epoch, and prints the table of the csv logger."""

import sys
from pathlib import Path

import pytest

from examples.log_a_training import Bars, main
from molattn.training.loggers import LoggedRun
from tests.training.runs import small_table


def test_the_command_draws_two_bars_for_each_epoch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = small_table(tmp_path / "t.csv")
    monkeypatch.setattr(sys, "argv", ["log_a_training", "--dataset", str(table), "--epochs", "2"])
    main()
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "run" and [line[:6] for line in shown[1:5]] == ["   1 =", "   1 -", "   2 =", "   2 -"]
    assert shown[5].startswith("test: rmse ") and "model" in shown[6] and shown[6].startswith("finished; logged: ")
    assert shown[7].startswith("epoch,train_loss,val_loss,val_rmse") and len(shown) == 10


def test_a_bar_is_as_long_as_its_loss(capsys: pytest.CaptureFixture[str]) -> None:
    bars = Bars(width=10)
    bars.open(LoggedRun("run", Path("run")))
    bars.log_metrics({"train_loss": 2.0, "val_loss": 1.0}, 1)
    bars.log_metrics({"train_loss": 0.4, "val_loss": 5.0}, 2)
    bars.close("interrupted")
    lines = capsys.readouterr().out.splitlines()
    assert [line.count("=") + line.count("-") for line in lines[1:5]] == [10, 5, 2, 10]
    assert lines[-1] == "interrupted; logged: no file"
