import numpy as np
import pytest

from molattn.explain import AttentionMap


@pytest.fixture
def attention():
    weights = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 4, 3))
    return AttentionMap("CCO", ("C", "C", "O"), weights, {"logS": 1.0}, {"logS": "mol/L"})


def test_sizes_and_labels(attention):
    assert (attention.num_layers, attention.num_heads, attention.num_atoms) == (2, 4, 3)
    assert attention.labels == ["C0", "C1", "O2"]


@pytest.mark.parametrize("head", [0, 3, -1, "mean"])
@pytest.mark.parametrize("layer", [0, 1, -1])
def test_rows_of_a_head_and_of_the_mean_sum_to_1(attention, layer, head):
    matrix = attention.matrix(layer, head)
    assert matrix.shape == (3, 3)
    np.testing.assert_allclose(matrix.sum(-1), 1)


def test_a_matrix_is_that_of_its_layer_and_head(attention):
    np.testing.assert_array_equal(attention.matrix(0, 2), attention.weights[0, 2])
    np.testing.assert_array_equal(attention.matrix(), attention.matrix(1, "mean"))
    np.testing.assert_allclose(attention.matrix(0), sum(attention.weights[0]) / 4)


def test_the_maximum_of_the_heads_is_never_below_any_of_them(attention):
    largest = attention.matrix(0, "max")
    assert (largest >= attention.weights[0]).all()
    assert (largest.sum(-1) >= 1).all()


@pytest.mark.parametrize("head", [0, "mean"])
def test_what_atoms_receive_is_the_mean_of_columns_and_sums_to_1(attention, head):
    received = attention.received(0, head)
    np.testing.assert_allclose(received, [attention.matrix(0, head)[:, j].mean() for j in range(3)])
    np.testing.assert_allclose(received.sum(), 1)


@pytest.mark.parametrize(("layer", "head"), [(2, 0), (-3, 0), (0, 4), (0, -5)])
def test_a_layer_or_head_that_is_not_there_is_an_index_error(attention, layer, head):
    with pytest.raises(IndexError):
        attention.matrix(layer, head)


def test_a_head_that_is_another_word_is_refused(attention):
    # Under pytest the annotation itself is checked, and its checker may speak first.
    with pytest.raises(Exception, match="median"):
        attention.matrix(0, "median")


def test_its_form_is_short(attention):
    assert repr(attention) == "AttentionMap('CCO', 2 layers, 4 heads, 3 atoms)"
