"""What outputs mean, task by task."""

import numpy as np
import pytest
import torch

from molattn.errors import InputError
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import Binary, Multiclass, Regression, Task, task_from

CLASSES = Multiclass(classes=(("a", "b"), ("x", "y", "z")))
EVIDENCE = [Binary("dirichlet"), Multiclass("dirichlet", CLASSES.classes)]
ALL = [*map(Regression, Regression.losses), Binary(), CLASSES, *EVIDENCE]
OUTPUTS = np.random.default_rng(0).normal(size=(7, 8)) * 5


@pytest.mark.parametrize("task", ALL, ids=lambda t: f"{t.kind}-{t.loss}")
def test_a_task_is_read_back(task: Task) -> None:
    assert task_from(task.to_dict()) == task


def test_a_task_from_the_future_says_upgrade() -> None:
    for settings in ({"kind": "ranking", "loss": "mse"}, {"kind": "binary", "loss": "focal"}):
        with pytest.raises(InputError, match="upgrade molattn"):
            task_from(settings)


@pytest.mark.parametrize("task", ALL, ids=lambda t: f"{t.kind}-{t.loss}")
def test_answers_and_baseline_have_the_shapes_that_the_columns_say(task: Task) -> None:
    outputs = OUTPUTS[:, : len(task.owners(2))]
    train = np.array([[0.0, 1.0], [1.0, np.nan], [1.0, 0.0]])
    scaler = task.scaler(train)
    for answers, n in ((task.answers(outputs, scaler), 7), (task.guess(train, 4), 4)):
        assert answers.values.shape == (n, 2)
        assert answers.more.shape == (n, len(task.columns(["p", "q"])))
        assert task.array(answers).shape[:2] == (n, 2)
        assert len(task.scores(answers, 1)) == n


def test_probabilities_are_those_of_torch_even_at_the_edge() -> None:
    x = np.array([[0.0], [3.0], [-800.0], [800.0]])
    p = Binary().answers(x, TargetScaler.none(1)).values
    assert p.ravel() == pytest.approx(torch.sigmoid(torch.tensor(x)).numpy().ravel())
    answers = CLASSES.answers(OUTPUTS[:, :5] * 300, TargetScaler.none(2))
    assert answers.more[:, 2:] == pytest.approx(torch.softmax(torch.tensor(OUTPUTS[:, 2:5] * 300), 1).numpy())
    assert (answers.values[:, 1] == OUTPUTS[:, 2:5].argmax(1)).all()
    assert CLASSES.columns(["p", "q"]) == ["p_prob_a", "p_prob_b", "q_prob_x", "q_prob_y", "q_prob_z"]
    assert CLASSES.named(2.0, 1) == "z"
    array = CLASSES.array(answers)
    assert array.shape == (7, 2, 3)
    assert array.sum(-1) == pytest.approx(np.ones((7, 2)))
    assert not array[:, 0, 2].any()


def test_a_spread_is_in_the_unit_of_its_target() -> None:
    task, scaler = Regression("mve"), TargetScaler((1.0, 2.0), (10.0, 0.1))
    answers = task.answers(np.array([[0.0, 0.0, 0.0, 0.0]]), scaler)
    assert answers.values.tolist() == [[1.0, 2.0]]
    assert answers.more[0] == pytest.approx(np.sqrt(np.log(2)) * np.array([10.0, 0.1]), rel=1e-5)


def test_the_baseline_is_the_share_of_the_classes() -> None:
    train = np.array([[0.0, 2.0], [1.0, 2.0], [np.nan, 0.0], [1.0, np.nan]])
    assert Binary().guess(train[:, :1], 2).values == pytest.approx(np.full((2, 1), 2 / 3))
    shares = CLASSES.guess(train, 1)
    assert shares.more[0] == pytest.approx([1 / 3, 2 / 3, 1 / 3, 0, 2 / 3])
    assert shares.values.tolist() == [[1.0, 2.0]]
