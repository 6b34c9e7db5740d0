import base64
import inspect
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import entropy

from molattn.chem import MAX_ATOMS
from molattn.errors import InputError, UsageError
from molattn.explain import AttentionMap, attention_map
from molattn.explain.attention_map import resolve_index
from molattn.viewer import draw_atoms, heat_map


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
    received = attention.received_attention(0, head)
    np.testing.assert_allclose(received, [attention.matrix(0, head)[:, j].mean() for j in range(3)])
    np.testing.assert_allclose(received.sum(), 1)


@pytest.mark.parametrize(("layer", "head"), [(2, 0), (-3, 0), (0, 4), (0, -5)])
def test_a_layer_or_head_that_is_not_there_is_an_index_error(attention, layer, head):
    with pytest.raises(IndexError):
        attention.matrix(layer, head)


@pytest.mark.parametrize("wrong", ["median", None, True, 0.5, [0, 1], slice(1), np.arange(2)])
def test_what_is_no_layer_or_head_is_refused_as_an_index_is(attention, wrong):
    matrix = inspect.unwrap(AttentionMap.matrix)  # without the tests' check of its annotation
    with pytest.raises(ValueError, match="^head is from 0 to 3, 'mean' or 'max', not .*; negative numbers count from"):
        matrix(attention, 0, wrong)
    with pytest.raises(ValueError, match="^layer is from 0 to 1, not "):
        matrix(attention, wrong)


def test_its_repr_is_short(attention):
    assert repr(attention) == "AttentionMap('CCO', 2 layers, 4 heads, 3 atoms)"


def test_its_labels_of_tokens_have_the_place_in_front(attention):
    tokens = replace(attention, symbols=("C", "1", "("), position_type="tokens")
    assert tokens.labels == ["0:C", "1:1", "2:("]
    assert repr(tokens).endswith("3 tokens)")


def test_rollout_is_the_product_over_layers_last_layer_first():
    first = np.array([[0.0, 1.0], [1.0, 0.0]])
    second = np.array([[1.0, 0.0], [1.0, 0.0]])
    attention = AttentionMap("CO", ("C", "O"), np.array([[first], [second]]), {}, {})
    half_first, half_second = 0.5 * first + 0.5 * np.eye(2), 0.5 * second + 0.5 * np.eye(2)
    np.testing.assert_allclose(attention.rollout(), half_second @ half_first)
    assert not np.allclose(attention.rollout(), half_first @ half_second)


def test_the_rows_of_rollout_sum_to_1_and_nothing_moves_where_all_attend_to_themselves(attention):
    np.testing.assert_allclose(attention.rollout().sum(1), 1)
    np.testing.assert_allclose(replace(attention, weights=3 * attention.weights).rollout(), attention.rollout())
    still = replace(attention, weights=np.broadcast_to(np.eye(3), (2, 4, 3, 3)))
    np.testing.assert_array_equal(still.rollout(), np.eye(3))


def test_rollout_includes_paths_through_a_virtual_node():
    # O attends to the virtual node, which attended to C in the layer before.
    first, second = np.eye(3), np.eye(3)
    first[2], second[1] = [1, 0, 0], [0, 0, 1]
    attention = AttentionMap("CO", ("C", "O"), np.array([[first], [second]]), {}, {}, virtual=("virtual node",))
    assert attention.rollout()[1].tolist() == [0.25, 0.5, 0.25]


def test_entropy_is_0_on_one_node_and_log_n_on_all_alike(attention):
    weights = np.broadcast_to(np.array([[1, 0, 0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0]]), (1, 1, 3, 3))
    sure = replace(attention, weights=weights)
    np.testing.assert_allclose(sure.entropy(), [[[0, np.log(3), np.log(2)]]], atol=1e-15)
    np.testing.assert_allclose(sure.entropy(relative=True), [[[0, 1, np.log(2) / np.log(3)]]], atol=1e-15)
    assert (attention.entropy() > 0).all()
    assert (attention.entropy(relative=True) <= 1).all()
    np.testing.assert_allclose(entropy(attention.weights, axis=-1), attention.entropy())


def test_the_entropy_of_one_atom_is_0_and_its_share_undefined():
    alone = AttentionMap("C", ("C",), np.ones((1, 2, 1, 1)), {}, {})
    assert alone.entropy().tolist() == [[[0.0], [0.0]]]
    assert np.isnan(alone.entropy(relative=True)).all()


def test_rollout_and_entropy_are_those_of_rows_whose_sum_is_1_whatever_the_scale_of_each_row(attention):
    scales = np.random.default_rng(1).uniform(0.1, 10, (2, 4, 3, 1))
    scaled = replace(attention, weights=scales * attention.weights, rows_sum_to_one=False)
    np.testing.assert_allclose(scaled.rollout(), attention.rollout())
    np.testing.assert_allclose(scaled.entropy(), attention.entropy())


def test_rollout_normalizes_each_head_before_their_mean():
    weights = np.array([[[[2.0, 0.0], [2.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]]])
    attention = AttentionMap("CO", ("C", "O"), weights, {}, {}, rows_sum_to_one=False)
    assert attention.rollout().tolist() == [[0.75, 0.25], [0.25, 0.75]]


def test_rows_of_zeros_attend_to_nothing(attention):
    empty = replace(attention, weights=np.zeros((2, 4, 3, 3)), rows_sum_to_one=False)
    assert (empty.entropy() == 0).all()
    np.testing.assert_allclose(empty.rollout(), 0.25 * np.eye(3))
    one_head = replace(empty, weights=np.array([[[[0.0, 0.0], [0.0, 0.0]], [[0.0, 3.0], [3.0, 0.0]]]]))
    assert one_head.rollout().tolist() == [[0.5, 0.25], [0.25, 0.5]]


def test_its_graph_is_that_of_its_smiles_however_large_and_of_tokens_there_is_none(attention):
    graph = attention.graph()
    assert graph.symbols == ("C", "C", "O") and graph.path_lengths.tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    full = AttentionMap("CO", ("C", "O", *"HHHH"), np.ones((1, 1, 6, 6)), {}, {}, add_hs=True)
    assert full.graph().symbols == full.symbols
    long = MAX_ATOMS + 1
    huge = AttentionMap("C" * long, ("C",) * long, np.ones((1, 1, 1, 1)), {}, {})
    assert huge.graph().num_atoms == long
    with pytest.raises(UsageError, match="are tokens of a SMILES"):
        replace(attention, position_type="tokens").graph()
    with pytest.raises(InputError, match=r"has 2 atoms \('C C'\), its SMILES 'CCO' has 3 \('C C O'\)"):
        replace(attention, symbols=("C", "C")).graph()


def test_it_is_written_read_and_made_a_table(attention, tmp_path):
    attention.save(str(tmp_path / "m.safetensors"))
    again = AttentionMap.load(str(tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(again.weights, attention.weights)
    assert (again.smiles, again.prediction) == (attention.smiles, attention.prediction)
    assert attention.to_frame().num_rows == attention.weights.size


def test_a_notebook_gets_a_picture_a_line_and_a_page_that_is_not_too_large(attention, monkeypatch):
    tokens = replace(attention, position_type="tokens")
    for one, picture in ((attention, draw_atoms(attention)), (tokens, heat_map(tokens))):
        shown = one._repr_mimebundle_()
        assert base64.b64decode(shown["image/png"])[:8] == b"\x89PNG\r\n\x1a\n"
        assert shown["image/png"] == base64.b64encode(picture.png).decode()
        assert shown["text/plain"] == repr(one)
        assert "<iframe" in shown["text/html"]
    size = attention.weights.size
    for largest, page in ((size, True), (size - 1, False)):
        monkeypatch.setattr(attention_map, "MAX_EMBEDDED_WEIGHTS", largest)
        assert ("text/html" in attention._repr_mimebundle_()) == page
    html = attention.html(truth={"logS": -0.625})
    assert html.lower().startswith("<!doctype html>") and "-0.625" in html


def test_rows_of_little_weight_are_shares_and_zeros_cost_no_warning(attention):
    np.testing.assert_allclose(replace(attention, weights=0.3 * attention.weights).rollout(), attention.rollout())
    np.testing.assert_allclose(replace(attention, weights=0.3 * attention.weights).entropy(), attention.entropy())
    with np.errstate(all="raise"):
        still = replace(attention, weights=np.broadcast_to(np.eye(3), (2, 4, 3, 3)))
        assert not np.signbit(still.entropy()).any()
        two = AttentionMap("CO", ("C", "O"), np.full((1, 1, 2, 2), 0.5), {}, {})
        np.testing.assert_allclose(two.entropy(relative=True), 1)
        assert np.isnan(AttentionMap("C", ("C",), np.ones((1, 2, 1, 1)), {}, {}).entropy(relative=True)).all()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_an_index_counts_from_either_end_as_that_of_a_list(count: int) -> None:
    items = list(range(count))
    for index in range(-count, count):
        assert resolve_index(index, count, "the layer") == items[index]
    valid = f"from 0 to {count - 1}" if count > 1 else "0"
    for wrong in (count, -count - 1, "first", None, 0.5, True, [0]):
        with pytest.raises(UsageError, match=f"^the layer is {valid}, not "):
            resolve_index(wrong, count, "the layer")
