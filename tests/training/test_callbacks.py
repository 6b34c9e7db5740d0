"""Callbacks: when they are called, stopping the training, and resuming them."""

import csv
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import Tensor

import molattn
from molattn.errors import InputError, UsageError
from molattn.models.graph_model import GraphModel
from molattn.sklearn import MolAttentionRegressor
from molattn.training import distributed
from molattn.training.callbacks import CALLBACKS, Callback
from molattn.training.checkpoint import CheckpointFolder
from molattn.training.early_stopping import EpochRecord, FitResult
from molattn.training.fit import fit
from molattn.training.learner import Learner
from molattn.training.run_config import check_config, resolve
from tests.molecules import esol
from tests.training.runs import SMALL as SMALL_RUN
from tests.training.runs import resume, same_runs, small_table, train_small
from tests.training.test_learner import CONFIG, SCALER, SMALL, TRAIN, VAL

EXTENDING = Path(__file__).parents[2] / "docs" / "extending.md"


def fitted(*callbacks: Callback, seed: int = 0, **settings: Any) -> tuple[GraphModel, FitResult]:
    """A model with dropout after two epochs of three steps each."""
    checkpoints, member = settings.pop("checkpoints", None), settings.pop("member", 0)
    torch.manual_seed(seed)
    model = GraphModel(replace(SMALL, dropout=0.3))
    config = replace(CONFIG, **settings)
    return model, fit(model, TRAIN, VAL, SCALER, config, checkpoints=checkpoints, callbacks=callbacks, member=member)


def same_weights(a: GraphModel, b: GraphModel) -> bool:
    return all(torch.equal(x, b.state_dict()[name]) for name, x in a.state_dict().items())


class Diary(Callback):
    """Records each call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_fit_start(self, learner: Learner, member: int) -> None:
        self.calls.append(("start", member, learner.scheduler.last_epoch))

    def on_step_end(self, learner: Learner, step: int, loss: Tensor) -> None:
        assert loss.ndim == 0 and not loss.requires_grad
        self.calls.append((step, learner.scheduler.last_epoch, loss.item()))

    def on_epoch_end(self, learner: Learner, record: EpochRecord) -> None:  # noqa: ARG002
        self.calls.append(record)

    def on_fit_end(self, result: FitResult) -> None:
        self.calls.append(result)


class StopAfter(Callback):
    """Ends the training after a number of epochs, those before an interruption included."""

    def __init__(self, epochs: int):
        self.epochs, self.done = epochs, 0

    def on_epoch_end(self, learner: Learner, record: EpochRecord) -> bool:  # noqa: ARG002
        self.done += 1
        return self.done >= self.epochs

    def state_dict(self) -> dict[str, Any]:
        return {"done": self.done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.done = state["done"]


def test_each_method_is_called_at_its_time() -> None:
    diary = Diary()
    model, result = fitted(diary, Callback(), member=4)
    start, *others, end = diary.calls
    assert start == ("start", 4, 0) and end is result and result.stopped_by == ""
    assert [call for call in others if isinstance(call, EpochRecord)] == result.history
    steps = [call for call in others if isinstance(call, tuple)]
    assert [call[:2] for call in steps] == [(i, i) for i in range(1, 7)]
    assert others[3] == result.history[0] and others[-1] == result.history[1]
    # All batches have the same number of labels.
    assert np.mean([loss for *_, loss in steps[:3]]) == pytest.approx(result.history[0].train_loss, rel=1e-5)
    assert same_weights(model, fitted()[0])


def test_a_callback_ends_the_training_and_the_others_are_still_called() -> None:
    before, after = Diary(), Diary()
    _, result = fitted(before, StopAfter(2), StopAfter(1), after, epochs=9)
    assert (len(result.history), result.stopped_by) == (1, "StopAfter")
    assert result.history[0] in before.calls and result.history[0] in after.calls
    assert fitted(epochs=9, patience=1, learning_rate=0.0)[1].stopped_by == "patience"


def test_rank_0_decides_for_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(distributed, "broadcast_object", lambda function: sent.append(function()) or "OfRank0")
    _, result = fitted(StopAfter(9), epochs=3)
    assert sent == [""] and (len(result.history), result.stopped_by) == (1, "OfRank0")


def test_random_numbers_of_a_callback_do_not_change_the_training() -> None:
    class Draws(Callback):
        def draw(self, *_: object) -> None:
            torch.manual_seed(5)
            torch.rand(3), random.random(), np.random.random()  # noqa: NPY002

        on_fit_start = on_epoch_end = on_fit_end = draw

    torch.manual_seed(1)
    before = torch.get_rng_state()
    with_draws, (without, _) = fitted(Draws(), seed=1)[0], fitted(seed=1)
    assert same_weights(with_draws, without)
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), before)


def test_callbacks_are_restored_and_a_finished_training_names_the_one_that_stopped_it(tmp_path: Path) -> None:
    class Interrupt(Callback):
        def on_epoch_end(self, learner: Learner, record: EpochRecord) -> None:  # noqa: ARG002
            if record.epoch == 3:
                raise InterruptedError

    whole, in_one_go = fitted(StopAfter(4), Callback(), epochs=9)
    with pytest.raises(InterruptedError):
        fitted(StopAfter(4), Interrupt(), epochs=9, checkpoints=CheckpointFolder(tmp_path / "c", {}))
    for _ in range(2):  # after its end, too
        resumed = StopAfter(4)
        model, result = fitted(resumed, Callback(), seed=9, epochs=9, checkpoints=CheckpointFolder(tmp_path / "c", {}))
        assert (result, resumed.done, result.stopped_by) == (in_one_go, 4, "StopAfter")
        assert same_weights(model, whole)
    with pytest.raises(InputError, match="it has the states of 2 callbacks, not of 1"):
        fitted(StopAfter(4), epochs=9, checkpoints=CheckpointFolder(tmp_path / "c", {}))


@pytest.mark.parametrize(("state", "why"), [({"w": torch.zeros(1)}, "Tensor is not JSON"), ([1], "but \\[1\\]")])
def test_a_state_that_is_no_json_is_refused(tmp_path: Path, state: Any, why: str) -> None:
    class Wrong(Callback):
        def state_dict(self) -> Any:
            return state

    with pytest.raises(UsageError, match=f"Wrong.state_dict returns no dictionary of JSON values.*{why}"):
        fitted(Wrong(), checkpoints=CheckpointFolder(tmp_path / "c", {}))


def test_callbacks_of_a_plugin_are_called_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="unknown callback 'two'"):
        check_config(resolve(None, {"callbacks": ("two",)}))
    monkeypatch.setitem(CALLBACKS, "two", lambda config: StopAfter(config.training.epochs - 1))
    smiles, y = esol(20)
    diary = Diary()
    options: dict[str, Any] = {"settings": [*SMALL_RUN, "training.base=none"], "epochs": 3, "accelerator": "cpu"}
    regressor = MolAttentionRegressor(callbacks=["two", diary], ensemble_size=2, **options).fit(smiles, y)
    assert len(regressor.history_) == 2 and regressor.get_params()["callbacks"] == ["two", diary]
    assert [call[1] for call in diary.calls if isinstance(call, tuple) and call[0] == "start"] == [0, 1]
    copy = clone(regressor).callbacks[1]
    assert isinstance(copy, Diary) and copy is not diary


def test_the_examples_of_the_documentation_log_and_stop_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(import csv\n.*?)```", EXTENDING.read_text(), re.DOTALL)
    assert "molattn.train(" in example
    monkeypatch.chdir(tmp_path)
    given: dict[str, Any] = {}
    monkeypatch.setattr(molattn, "train", lambda *_, callbacks, **__: given.update(callbacks=callbacks))
    names: dict[str, Any] = {}
    exec(example, names)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    _, stop = given["callbacks"]
    stop.loss = 1e9
    table = small_table(tmp_path / "t.csv")
    train_small(table, tmp_path / "run", callbacks=given["callbacks"], quiet=False)
    assert "training stopped after epoch 1 of 6: ended by the callback StopAtLoss" in capsys.readouterr().err
    with open("epochs.csv", newline="") as file:
        (line,) = csv.DictReader(file)
    assert line["epoch"] == "1" and float(line["val_loss"]) > 0


def test_a_run_is_resumed_with_the_same_callbacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupt(StopAfter):
        def on_epoch_end(self, learner: Learner, record: EpochRecord) -> bool:
            if record.epoch == self.epochs:
                raise KeyboardInterrupt
            return super().on_epoch_end(learner, record)

    table = small_table(tmp_path / "t.csv")
    train_small(table, tmp_path / "whole", callbacks=[StopAfter(4)])
    with pytest.raises(KeyboardInterrupt):
        train_small(table, tmp_path / "run", callbacks=[Interrupt(3)])
    for others in ([], [StopAfter(4), StopAfter(4)], [Diary()]):
        with pytest.raises(UsageError, match=r'since callbacks was \["Interrupt"\] and is .* now: undo the change'):
            resume(tmp_path / "run", callbacks=others)
    monkeypatch.setattr(Interrupt, "on_epoch_end", StopAfter.on_epoch_end)
    resume(tmp_path / "run", callbacks=[Interrupt(4)])
    same_runs(tmp_path / "run", tmp_path / "whole")
