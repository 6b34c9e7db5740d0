"""Document 000, an article on Keras' attention layer: the layer by hand, a key bias per position, the heads."""

from functools import cache

import numpy as np
import pytest
import torch

from examples.position_bias import TASKS, TRAININGS, PositionResult, train_on_positions
from molattn.attention import MultiHeadAttention
from tests.documents.by_hand import F64, array, assert_same, randomize, softmax

# Raised inside Keras when it reads a torch parameter with numpy 2.
warns_of_numpy = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
ROW_2 = 1  # the second one

# (a) Keras' layer


@pytest.fixture(scope="module")
def keras_layer():
    """3 heads, key_dim 8, for one input of 5 rows of 7 channels; with nonzero biases."""
    import keras  # takes seconds

    layer = keras.layers.MultiHeadAttention(num_heads=3, key_dim=8, dtype="float64")
    layer.build((1, 5, 7), (1, 5, 7))
    generator = np.random.default_rng(0)
    layer.set_weights([generator.normal(size=w.shape) / 2 for w in layer.get_weights()])
    return layer


def one_input():
    return torch.rand(1, 5, 7, generator=torch.Generator().manual_seed(1), dtype=F64)


def multi_head_by_hand(x, kernels):
    """output = b_o + sum_h softmax(q_h k_h^T / sqrt(key_dim)) v_h W_o^h;  q_h = x W_q^h + b_q^h, k_h and v_h likewise.

    The key's bias is one row per head, or one row per head and position: adding it is the same to numpy. The output
    bias is added once.
    """
    w_q, b_q, w_k, b_k, w_v, b_v, w_o, b_o = kernels
    output, scores = b_o, []
    for h in range(w_q.shape[1]):
        q, k, v = x @ w_q[:, h] + b_q[h], x @ w_k[:, h] + b_k[h], x @ w_v[:, h] + b_v[h]
        scores.append(softmax(q @ k.T / np.sqrt(w_q.shape[2])))
        output = output + scores[h] @ v @ w_o[h]
    return output, np.stack(scores)


@warns_of_numpy
def test_document_000_a_the_shapes_of_the_kernels_and_751_parameters(keras_layer):
    assert [w.shape for w in keras_layer.get_weights()] == [(7, 3, 8), (3, 8)] * 3 + [(3, 8, 7), (7,)]
    ours = MultiHeadAttention.from_keras(keras_layer)
    assert keras_layer.count_params() == sum(p.numel() for p in ours.parameters()) == 751


@warns_of_numpy
def test_document_000_a_the_outputs_and_scores_of_keras_ours_and_by_hand_are_the_same(keras_layer):
    x = one_input()
    output, weights = MultiHeadAttention.from_keras(keras_layer)(x, return_weights=True)
    expected, scores = keras_layer(x, x, return_attention_scores=True)
    by_hand, scores_by_hand = multi_head_by_hand(x[0].numpy(), keras_layer.get_weights())
    assert output.shape == (1, 5, 7) and weights.shape == (1, 3, 5, 5)  # (batch, heads, query, key)
    assert_same(output, array(expected))
    assert_same(weights, array(scores))
    assert_same(output[0], by_hand)
    assert_same(weights[0], scores_by_hand)


@warns_of_numpy
def test_document_000_a_single_precision_too(keras_layer):
    import keras

    in_float32 = keras.layers.MultiHeadAttention(num_heads=3, key_dim=8, dtype="float32")
    in_float32.build((1, 5, 7), (1, 5, 7))
    in_float32.set_weights(keras_layer.get_weights())
    x = one_input().float()
    output, weights = MultiHeadAttention.from_keras(in_float32)(x, return_weights=True)
    expected, scores = in_float32(x, x, return_attention_scores=True)
    assert output.dtype == torch.float32
    assert_same(output, array(expected), tol=1e-5)
    assert_same(weights, array(scores), tol=1e-5)


@warns_of_numpy
def test_document_000_slip_the_output_bias_is_added_once_not_once_per_head(keras_layer):
    # With values of zero, nothing but the output bias comes out.
    ours = MultiHeadAttention.from_keras(keras_layer)
    with torch.no_grad():
        ours.v_proj.weight.zero_(), ours.v_proj.bias.zero_()
    assert_same(ours(one_input())[0], np.tile(keras_layer.get_weights()[-1], (5, 1)))


# (b) a key bias for every position


def layer_with_a_bias_per_position():
    return randomize(MultiHeadAttention(7, 3, head_dim=8, key_bias="per_position", max_length=5))


def test_document_000_b_the_key_bias_has_a_row_for_every_position():
    layer = layer_with_a_bias_per_position()
    assert layer.key_bias.shape == (3, 5, 8)  # (heads, positions, key_dim)
    assert layer.k_proj.bias is None  # and there is no shared one
    assert sum(p.numel() for p in layer.parameters()) == 751 + 3 * (5 - 1) * 8


def test_document_000_b_the_layer_with_a_key_bias_per_position_by_hand():
    layer = layer_with_a_bias_per_position()
    w_q, w_k, w_v = (array(p.weight).T.reshape(7, 3, 8) for p in (layer.q_proj, layer.k_proj, layer.v_proj))
    b_q, b_v = (array(p.bias).reshape(3, 8) for p in (layer.q_proj, layer.v_proj))
    w_o, b_o = array(layer.join.linear.weight).T.reshape(3, 8, 7), array(layer.join.linear.bias)
    x = torch.rand(2, 5, 7, generator=torch.Generator().manual_seed(2), dtype=F64)
    output, weights = layer(x, return_weights=True)
    for b in range(2):
        expected, scores = multi_head_by_hand(x[b].numpy(), (w_q, b_q, w_k, array(layer.key_bias), w_v, b_v, w_o, b_o))
        assert_same(output[b], expected)
        assert_same(weights[b], scores)


def test_document_000_slip_rows_of_a_score_picture_are_the_query_and_columns_the_key():
    # All keys zero but for the bias of row 2, and every query the same: all attend to row 2, so one column is dark.
    layer = MultiHeadAttention(7, 1, head_dim=8, key_bias="per_position", max_length=5).to(F64)
    with torch.no_grad():
        for p in layer.parameters():
            p.zero_()
        layer.q_proj.bias.fill_(10)
        layer.key_bias[0, ROW_2] = 10
    _, weights = layer(one_input(), return_weights=True)
    expected = np.zeros((5, 5))
    expected[:, ROW_2] = 1
    assert_same(weights[0, 0], expected)


# (c) three tasks in eight trainings, and (d) the attention of the heads
#
# At a quarter of the published epochs each comparison already holds, with a smaller margin: the tests run at both
# lengths, the published one marked slow.

PUBLISHED = 200
at_both_lengths = pytest.mark.parametrize(
    "epochs", [pytest.param(50, id="short"), pytest.param(PUBLISHED, marks=pytest.mark.slow, id="as published")]
)


def trained(epochs: int, task: str, key_bias: str = "per_position", heads: int = 8, key_dim: int = 7) -> PositionResult:
    """One of the eight trainings, cached."""
    return train(epochs, task, key_bias, heads, key_dim)


@cache
def train(epochs: int, task: str, key_bias: str, heads: int, key_dim: int) -> PositionResult:
    (training,) = (
        t for t in TRAININGS if (t.task, t.key_bias, t.num_heads, t.head_dim) == (task, key_bias, heads, key_dim)
    )
    return train_on_positions(training, epochs=epochs)


def last_loss(*training) -> float:
    return trained(*training).losses[-1]


def test_document_000_c_the_three_tasks():
    x = torch.rand(3, 5, 7, dtype=F64)
    rows = x.numpy()
    row_2 = rows[:, [ROW_2]]
    assert_same(TASKS["row sum"](x), np.repeat(rows.sum(-1, keepdims=True), 7, axis=-1))
    assert_same(TASKS["add row 2"](x), rows + row_2)
    assert_same(TASKS["replace by row 2"](x), np.repeat(row_2, 5, axis=1))


# (task, key bias, heads, key_dim), the loss that was published after 200 epochs
EIGHT = {
    ("row sum", "per_position", 8, 7): 0.0093,
    ("add row 2", "per_position", 8, 7): 0.0012,
    ("replace by row 2", "per_position", 8, 7): 2.3e-6,
    ("row sum", "shared", 8, 7): 0.0115,
    ("add row 2", "shared", 8, 7): 0.068,
    ("replace by row 2", "shared", 8, 7): 0.062,
    ("add row 2", "per_position", 1, 7): 0.0209,
    ("add row 2", "per_position", 8, 1): 0.0765,
}


def test_document_000_c_there_are_eight_trainings():
    assert {(t.task, t.key_bias, t.num_heads, t.head_dim): t.published_loss for t in TRAININGS} == EIGHT


@pytest.mark.parametrize("epochs", [6, pytest.param(PUBLISHED, marks=pytest.mark.slow, id="as published")])
@pytest.mark.parametrize("training", EIGHT, ids=str)
def test_document_000_c_every_training_leaves_its_loss_curve(epochs, training):
    losses = trained(epochs, *training).losses
    assert len(losses) == epochs
    assert losses[-1] < losses[epochs // 2] < losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("training", EIGHT, ids=str)
def test_document_000_c_the_losses_are_of_the_published_order_of_magnitude(training):
    assert 0.1 < last_loss(PUBLISHED, *training) / EIGHT[training] < 10


@at_both_lengths
@pytest.mark.parametrize("task", ["add row 2", "replace by row 2"])
def test_document_000_c_a_key_bias_per_position_beats_the_shared_one(epochs, task):
    times = 10 if epochs == PUBLISHED else 4
    assert times * last_loss(epochs, task, "per_position") < last_loss(epochs, task, "shared")


@at_both_lengths
def test_document_000_c_one_head_and_heads_of_one_channel_are_worse_than_eight_of_seven(epochs):
    best = last_loss(epochs, "add row 2")
    assert best < last_loss(epochs, "add row 2", "per_position", 1, 7)
    assert best < last_loss(epochs, "add row 2", "per_position", 8, 1)


def seen(epochs, task):
    """The mean weight on the row itself, on row 2, and on the rest, in the mean of the heads; of all rows but row 2."""
    weights = trained(epochs, task).weights.numpy()
    assert weights.shape == (8, 5, 5)  # a picture per head, each the mean of all inputs
    assert np.allclose(weights.sum(-1), 1, atol=1e-5)
    itself, row_2 = np.eye(5, dtype=bool), np.zeros((5, 5), dtype=bool)
    row_2[:, ROW_2] = True
    others = [i for i in range(5) if i != ROW_2]
    picture = weights.mean(0)[others]
    return [float(picture[cells[others]].mean()) for cells in (itself, row_2, ~(itself | row_2))]


@at_both_lengths
def test_document_000_d_the_row_sum_shows_a_diagonal(epochs):
    itself, row_2, rest = seen(epochs, "row sum")
    assert itself > (2 if epochs == PUBLISHED else 1.5) * max(row_2, rest)


@at_both_lengths
def test_document_000_d_adding_row_2_shows_a_diagonal_and_column_2(epochs):
    itself, row_2, rest = seen(epochs, "add row 2")
    assert min(itself, row_2) > 2 * rest


@at_both_lengths
def test_document_000_d_replacing_by_row_2_shows_column_2_alone(epochs):
    itself, row_2, rest = seen(epochs, "replace by row 2")
    assert row_2 > (0.99 if epochs == PUBLISHED else 0.95)
    assert max(itself, rest) < 0.01
