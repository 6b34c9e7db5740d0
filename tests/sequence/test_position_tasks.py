"""The position tasks: what each comparison of the published table says, and what the heads look at."""

import pytest
import torch

from molattn.attention import MultiHeadAttention
from molattn.sequence import TASKS, TRAININGS, PositionResult, PositionTraining, train_on_positions
from molattn.sequence.position_tasks import ROW_2, keras_like


def _of(task: str, key_bias: str = "per_position", num_heads: int = 8, head_dim: int = 7) -> PositionTraining:
    (training,) = (
        t for t in TRAININGS if (t.task, t.key_bias, t.num_heads, t.head_dim) == (task, key_bias, num_heads, head_dim)
    )
    return training


@pytest.fixture(scope="module")
def results() -> dict[PositionTraining, PositionResult]:
    """All eight trainings as published, half a minute in all."""
    return {t: train_on_positions(t) for t in TRAININGS}


def test_the_tasks_are_what_they_say() -> None:
    x = torch.rand(3, 5, 7)
    for i in range(5):
        for c in range(7):
            assert torch.allclose(TASKS["row sum"](x)[:, i, c], x[:, i].sum(-1))
            assert torch.equal(TASKS["add row 2"](x)[:, i, c], x[:, i, c] + x[:, 1, c])
            assert torch.equal(TASKS["replace by row 2"](x)[:, i, c], x[:, 1, c])


def test_a_training_is_repeatable_and_leaves_the_random_state_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, other = (train_on_positions(TRAININGS[0], epochs=1, seed=2) for _ in range(2))
    assert one.losses == other.losses
    assert torch.equal(before, torch.get_rng_state())
    assert train_on_positions(TRAININGS[0], epochs=1, seed=3).losses != one.losses


def test_the_layer_starts_as_keras_starts_it() -> None:
    layer = keras_like(MultiHeadAttention(7, 8, head_dim=7, key_bias="per_position", positions=5))
    # Keras' kernels of q, k, v are (7, 8, 7): a receptive field of 7, fans of 8 and 7; the joining one is (8, 7, 7).
    for name, fans in (("q_proj", 105), ("k_proj", 105), ("v_proj", 105), ("join.linear", 112)):
        largest = layer.get_parameter(f"{name}.weight").abs().max()
        assert largest <= (6 / fans) ** 0.5 < 1.02 * largest
    assert all(not p.any() for p in layer.parameters() if p.dim() != 2)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["add row 2", "replace by row 2"])
def test_a_bias_per_position_beats_the_shared_one_more_than_ten_times(
    results: dict[PositionTraining, PositionResult], task: str
) -> None:
    assert 10 * results[_of(task)].losses[-1] < results[_of(task, "shared")].losses[-1]


@pytest.mark.slow
def test_one_head_and_heads_of_one_channel_are_worse_than_eight_of_seven(
    results: dict[PositionTraining, PositionResult],
) -> None:
    best = results[_of("add row 2")].losses[-1]
    assert best < results[_of("add row 2", num_heads=1)].losses[-1]
    assert best < results[_of("add row 2", head_dim=1)].losses[-1]


@pytest.mark.slow
def test_the_losses_are_of_the_published_order_of_magnitude(
    results: dict[PositionTraining, PositionResult],
) -> None:
    for training, result in results.items():
        assert 0.1 < result.losses[-1] / training.published < 10


@pytest.mark.slow
def test_the_heads_look_at_the_row_itself_at_row_2_or_at_both(
    results: dict[PositionTraining, PositionResult],
) -> None:
    others = ~torch.eye(5, dtype=torch.bool)
    others[:, ROW_2] = False

    def seen(task: str) -> tuple[float, float, float]:
        """The mean weight on the row itself, on row 2, and on the rest, in the mean of the heads; no row 2 itself."""
        w = results[_of(task)].weights.mean(0)
        rows = [i for i in range(5) if i != ROW_2]
        itself = w.diagonal()[rows].mean()
        return float(itself), float(w[rows, ROW_2].mean()), float(w[others].mean())

    itself, row_2, rest = seen("row sum")
    assert itself > 2 * max(row_2, rest)
    itself, row_2, rest = seen("add row 2")
    assert min(itself, row_2) > 2 * rest
    itself, row_2, rest = seen("replace by row 2")
    assert row_2 > 0.99
    assert max(itself, rest) < 0.01
