"""Weights of targets in the loss: against the losses of each target, and as settings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from molattn.errors import UsageError
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.sklearn import MolAttentionRegressor
from molattn.training.objectives import TaskLoss, mean_loss
from molattn.training.run_config import resolve
from molattn.training.task_weights import task_weights
from tests.molecules import esol
from tests.training.runs import TINY, train_forty


@pytest.mark.parametrize(
    ("task", "outputs"),
    [(Regression(), 3), (Binary(), 3), (Multiclass(classes=(("a", "b"), ("a", "b", "c"), ("a", "b"))), 7)],
)
def test_the_loss_of_each_target_is_multiplied(task: Any, outputs: int) -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(2, (8, 3), generator=generator).double()
    y[0, 1] = y[3, 2] = torch.nan
    o = torch.randn(8, outputs, generator=generator)
    scaler, weights = TargetScaler.identity(3), (0.5, 4.0, 1.0)
    plain, labelled = TaskLoss(task, scaler)(o, y)
    weighted, same_labels = TaskLoss(task, scaler, task_weights=weights)(o, y)
    assert torch.equal(labelled, same_labels)
    torch.testing.assert_close(weighted, plain * torch.tensor(weights))
    wanted = sum(w * plain[:, t].sum() for t, w in enumerate(weights)) / labelled.sum()
    torch.testing.assert_close(mean_loss(weighted, labelled), wanted)


@pytest.mark.parametrize("settings", [(2.0, 0.5), ("2", "0.5"), ("b=0.5", "a=2"), (" a =2", "b=.5")])
def test_numbers_are_in_the_order_of_the_targets_and_names_in_any(settings: tuple[Any, ...]) -> None:
    assert task_weights(settings, ("a", "b")) == (2.0, 0.5)


def test_a_target_that_is_not_named_weighs_1_and_equal_weights_of_1_are_none() -> None:
    assert task_weights(("b=3",), ("a", "b")) == (1.0, 3.0)
    assert task_weights(("x=1=3",), ("x=1", "b")) == (3.0, 1.0)
    assert task_weights((1.0, 1.0), ("a", "b")) == task_weights((), ("a", "b")) == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((1.0, 2.0, 3.0), "holds 3 numbers for 2 targets: give one for each, in their order, or NAME=NUMBER"),
        ((1.0,), "holds 1 number for 2 targets"),
        ((1.0, 0.0), "holds 0.0: a weight is a number above 0"),
        ((1.0, -2.0), "holds -2.0: a weight is a number above 0"),
        (("a=nan",), "holds 'nan': a weight is a number above 0"),
        ((1.0, "inf"), "holds 'inf': a weight is a number above 0"),
        (("1", "two"), "holds 'two': a weight is a number above 0"),
        (("c=2",), "'c=2': unknown target 'c': choose one of a, b"),
        (("a=2", "a=3"), "gives 'a' two weights: give it one"),
        (("a=2", 3.0), "mixes numbers and NAME=NUMBER"),
    ],
)
def test_invalid_weights_are_one_sentence(settings: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        task_weights(settings, ("a", "b"))


def test_a_target_is_named_without_its_unit_unless_that_is_ambiguous() -> None:
    assert task_weights(("IC50=2",), ("IC50 [nM]", "b")) == (2.0, 1.0)
    with pytest.raises(UsageError, match="unknown target 'IC50'"):
        task_weights(("IC50=2",), ("IC50 [nM]", "IC50 (uM)"))
    with pytest.raises(UsageError, match="two weights"):
        task_weights(("IC50=2", "IC50 [nM]=3"), ("IC50 [nM]", "b"))


def test_a_setting_is_a_number_or_a_text_from_everywhere() -> None:
    for given in ([2, 0.5], ("2", "0.5"), (2.0, "0.5")):
        assert resolve(None, {"task_weights": given}).training.task_weights == (2.0, 0.5)
    assert resolve(None, {"task_weights": 3}).training.task_weights == (3.0,)
    assert resolve(None, {}, ["training.task_weights=['a=2', 'b=3']"]).training.task_weights == ("a=2", "b=3")
    with pytest.raises(UsageError, match="task_weights is True; it takes a text"):
        resolve(None, {"task_weights": [True]})


@pytest.fixture
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_in_folder")
def test_a_run_trains_with_weights_and_records_them() -> None:
    plain = train_forty("plain", targets=2)
    # Every label counts twice, so that each reported loss is the double.
    double = train_forty("double", targets=2, task_weights=[2, 2], settings=[*TINY, "training.grad_clip=0"])
    once = train_forty("once", targets=2, settings=[*TINY, "training.grad_clip=0"])
    assert double.history[0].val_loss == pytest.approx(2 * once.history[0].val_loss, rel=0.01)
    ones = train_forty("ones", targets=2, task_weights=["y=1"])
    assert ones.history == plain.history
    again = train_forty("named", targets=2, task_weights=["z=3"])
    config = resolve(again.folder / "config.toml", {})
    assert config.training.task_weights == ("z=3",)
    numbers = train_forty("numbers", targets=2, task_weights=[1, 3])
    assert numbers.history == again.history != plain.history
    assert resolve(numbers.folder / "config.toml", {}).training.task_weights == (1.0, 3.0)


@pytest.mark.usefixtures("_in_folder")
def test_a_wrong_number_is_an_error_before_the_folder_of_the_run() -> None:
    with pytest.raises(UsageError, match="--task-weights holds 3 numbers for 2 targets"):
        train_forty(targets=2, task_weights=[1, 2, 3])
    assert not Path("run").exists()


def test_an_estimator_takes_weights() -> None:
    smiles, y = esol(20)
    targets = np.stack([y, np.array(y) ** 2], 1)
    options: dict[str, Any] = {"settings": TINY, "epochs": 1, "accelerator": "cpu"}
    plain = MolAttentionRegressor(**options).fit(smiles, targets)
    weighted = MolAttentionRegressor(task_weights=[1, 5], **options).fit(smiles, targets)
    assert weighted.history_[0]["val_loss"] > plain.history_[0]["val_loss"]
    with pytest.raises(ValueError, match="--task-weights holds 3 numbers for 2 targets"):
        MolAttentionRegressor(task_weights=[1, 2, 3], **options).fit(smiles, targets)
