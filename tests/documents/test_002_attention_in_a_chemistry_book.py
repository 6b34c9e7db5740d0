"""Document 002, the attention chapters of a book on deep learning for chemistry: chapter 13 here, then chapter 14."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from molattn.attention import EdgeListLayout, MultiHeadAttention, Softmax, attend, attention_weights
from molattn.chem import ATOM_FEATURES, BOND_FEATURES, BOND_SIZE, molecule_graph, unpack_bond
from molattn.data.store.batches import collate
from molattn.graph import (
    AttentionEdgeUpdate,
    BondEncoding,
    DenseGraph,
    Graph,
    GraphNetBlock,
    PathEncoding,
    Sum,
    SumEmbedding,
    sum_edges,
)
from molattn.graph.blocks import BlockConfig, MixedEdgeUpdate, gaan
from tests.documents.by_hand import F64, array, assert_same, linear, randomize, softmax

# Chapter 13: attention layers

# Equations 13.1 to 13.3: five words are the keys, "book" is the query. Three features; one value each, its sentiment.
WORDS = torch.tensor([[0, 0, 0], [2, 0, 1], [1, -1, -2], [2, 3, 1], [-2, 0, 0], [0, 2, 1]], dtype=F64)
BOOK = torch.tensor([0, 2, 1], dtype=F64)
SENTIMENT = torch.tensor([[0], [-0.2], [0.3], [0.4], [0], [0.1]], dtype=F64)
LOGITS = [0, 1, -4, 7, 0, 5]


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def test_document_002_the_worked_example():
    """b = softmax(q . K),  equations 13.4 to 13.8."""
    assert (BOOK.numpy() @ WORDS.numpy().T).tolist() == LOGITS
    weights = attention_weights(BOOK, WORDS, score="dot")
    assert_same(weights, softmax(np.array(LOGITS, dtype=float)))
    assert weights.round(decimals=2).tolist() == [0, 0, 0, 0.88, 0, 0.12]
    reduction = attend(BOOK, WORDS, SENTIMENT, score="dot")
    assert reduction.shape == (1,)
    assert round(reduction.item(), 2) == 0.36


def test_document_002_the_worked_example_as_an_edge_list():
    """Six edges into one receiver."""
    edges = EdgeListLayout(sender=torch.arange(6), receiver=torch.zeros(6, dtype=torch.long), num_receivers=1)
    output, weights = attend(BOOK[None], WORDS, SENTIMENT, edges, score="dot", return_weights=True)
    assert weights.round(decimals=2).tolist() == [0, 0, 0, 0.88, 0, 0.12]
    assert round(output.item(), 2) == 0.36


def test_document_002_tensor_dot_attention():
    """b = softmax(q . K / sqrt(d)),  equation 13.9;  11 keys of 4 features, and values of 2."""
    q, k, v = random(4), random(11, 4, seed=1), random(11, 2, seed=2)
    b = softmax(k.numpy() @ q.numpy() / math.sqrt(4))
    output, weights = attend(q, k, v, return_weights=True)
    assert_same(weights, b)
    assert_same(output, b @ v.numpy())
    assert weights.shape == (11,) and output.shape == (2,)


def with_temperature(temperature):
    return attention_weights(BOOK, WORDS, score="dot", normalizer=Softmax(temperature))


def test_document_002_hard_attention_is_the_temperature_0():
    hard = with_temperature(0)
    assert hard.tolist() == [0, 0, 0, 1, 0, 0]
    assert attention_weights(BOOK, WORDS, score="dot", normalizer="hardmax").tolist() == hard.tolist()
    assert_same(with_temperature(1e-3), array(hard))
    assert round(float(hard @ SENTIMENT), 2) == 0.4


def test_document_002_soft_attention_is_the_temperature_1():
    assert_same(with_temperature(1), array(attention_weights(BOOK, WORDS, score="dot")))
    assert round(float(with_temperature(1) @ SENTIMENT), 2) == 0.36


def test_document_002_uniform_attention_is_the_temperature_infinity():
    assert with_temperature(math.inf).tolist() == [1 / 6] * 6
    assert_same(with_temperature(1e14), np.full(6, 1 / 6))
    assert round(float(with_temperature(math.inf) @ SENTIMENT), 2) == 0.1


def test_document_002_slip_the_temperature_divides_the_logits():
    """b_i = exp(x_i / T) / sum_j exp(x_j / T);  equation 13.10 writes exp(x) / T, where T would cancel."""
    x = np.array(LOGITS, dtype=float)
    for temperature in (0.5, 2.0, 30.0):
        e = np.exp(x / temperature)
        assert_same(with_temperature(temperature), e / e.sum())
    largest = [float(with_temperature(t).max()) for t in (0.5, 1, 2, 5, 30)]
    assert all(colder > warmer for colder, warmer in pairwise(largest))


def test_document_002_self_attention():
    """b_ik = softmax_k(x_i . x_k / sqrt(d)),  o_i = sum_k b_ik x_k;  11 words of 4 features attend to each other."""
    x = random(11, 4)
    b = np.stack([softmax(np.array([xi @ xk for xk in x.numpy()]) / math.sqrt(4)) for xi in x.numpy()])
    output, weights = attend(x, x, x, return_weights=True)
    assert_same(weights, b)
    assert_same(output, b @ x.numpy())
    assert output.shape == (11, 4)


def test_document_002_slip_d_is_the_number_of_features_and_every_row_sums_to_1():
    x = random(11, 4)
    weights = attention_weights(x, x)
    assert_same(weights.sum(-1), np.ones(11))
    assert_same(weights, softmax(x.numpy() @ x.numpy().T / math.sqrt(4)))
    by_length = softmax(x.numpy() @ x.numpy().T / math.sqrt(11))
    assert np.abs(array(weights) - by_length).max() > 1e-3


def one_head(layer, x, head=0):
    """q = x W_q, k = x W_k, v = x W_v,  softmax(q k^T / sqrt(d)) v  of one head, without biases."""
    d, c = layer.head_dim, layer.value_head_dim
    w_q, w_k = (array(p.weight)[head * d : (head + 1) * d].T for p in (layer.q_proj, layer.k_proj))
    w_v = array(layer.v_proj.weight)[head * c : (head + 1) * c].T
    return softmax((x @ w_q) @ (x @ w_k).T / math.sqrt(d)) @ (x @ w_v)


def heads_joined_by(join, num_heads=2, **settings):
    """Heads with values of 2 features over words of 4."""
    return randomize(MultiHeadAttention(4, num_heads, head_dim=4, value_head_dim=2, bias=False, join=join, **settings))


def test_document_002_trainable_queries_keys_and_values():
    """q = x W_q, k = x W_k, v = x W_v, and self-attention over them."""
    layer, x = heads_joined_by("mean", num_heads=1), random(11, 4)
    assert_same(layer(x), one_head(layer, x.numpy()))
    layer(x).sum().backward()
    for projection in (layer.q_proj, layer.k_proj, layer.v_proj):
        assert projection.weight.grad is not None and projection.weight.grad.abs().max() > 0


def both_heads(layer):
    """11 words, and what two heads make of them: (n, j, h)."""
    x = random(11, 4)
    return x, np.stack([one_head(layer, x.numpy(), h) for h in range(2)], axis=-1)


def test_document_002_heads_joined_by_the_vector_w_h():
    """o_nj = sum_h x_njh w_h"""
    layer = heads_joined_by("w_h")
    x, heads = both_heads(layer)
    assert_same(layer(x), heads @ array(layer.join.w_h))
    assert layer(x).shape == (11, 2)


def test_document_002_heads_joined_by_the_tensor_w_jhl():
    """o_nl = sum_jh x_njh w_jhl"""
    layer = heads_joined_by("w_jhl", output_dim=5)
    x, heads = both_heads(layer)
    w = array(layer.join.w_jhl)
    by_loops = sum(heads[:, j, h, None] * w[j, h] for j in range(2) for h in range(2))
    assert_same(layer(x), by_loops)
    assert layer(x).shape == (11, 5)


def test_document_002_heads_joined_by_concatenation():
    """o = [head_1, head_2] W"""
    layer = heads_joined_by("concat", output_dim=5)
    x, heads = both_heads(layer)
    assert_same(layer(x), np.concatenate([heads[..., 0], heads[..., 1]], axis=-1) @ array(layer.join.linear.weight).T)


def test_document_002_heads_joined_by_their_mean():
    layer = heads_joined_by("mean")
    x, heads = both_heads(layer)
    assert_same(layer(x), (heads[..., 0] + heads[..., 1]) / 2)


def test_document_002_heads_joined_by_their_largest():
    layer = heads_joined_by("max")
    x, heads = both_heads(layer)
    assert_same(layer(x), np.maximum(heads[..., 0], heads[..., 1]))


# Chapter 14: attention in graph neural networks. Ethanol, C-C-O: 3 atoms, 9 edges with an atom's own.

ETHANOL = molecule_graph("CCO")
NODE_DIM, HEADS, HEAD_DIM = 6, 2, 3


def ethanol(edge_dim=0, global_dim=0):
    """v: a learned row per atom feature, summed. e: the distance in bonds. u: random."""
    embed = SumEmbedding([f.size for f in ATOM_FEATURES], NODE_DIM)
    v = randomize(embed, seed=1)(torch.from_numpy(ETHANOL.atom_codes)).detach()
    e = torch.from_numpy(ETHANOL.path_lengths).to(F64)[None, ..., None] if edge_dim else None
    u = random(1, global_dim) if global_dim else None
    return DenseGraph(v[None], torch.ones(1, 3, dtype=torch.bool), e, u)


def edge_update(edge_dim=0, global_dim=0):
    return randomize(AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, edge_dim, global_dim))


def edges_by_hand(phi_e, graph: Graph):
    """Equations 14.2 to 14.6, one receiver at a time: b_k and e'_k of every edge, (edges, heads) and with features."""
    b, e = np.zeros((len(graph.sender), HEADS)), np.zeros((len(graph.sender), HEADS, HEAD_DIM))
    v, sender, receiver = array(graph.v), graph.sender.numpy(), graph.receiver.numpy()
    for r in range(len(v)):
        k = np.flatnonzero(receiver == r)  # the edges into r
        for h in range(HEADS):
            w_q, w_k, w_v = (
                array(w.weight)[h * HEAD_DIM : (h + 1) * HEAD_DIM] for w in (phi_e.w_q, phi_e.w_k, phi_e.w_v)
            )
            q = w_q @ v[r]  # 14.2
            keys = v[sender[k]] @ w_k.T  # 14.3
            values = v[sender[k]] @ w_v.T  # 14.4
            b[k, h] = softmax(keys @ q / math.sqrt(HEAD_DIM))  # 14.5
            e[k, h] = b[k, h, None] * values  # 14.6
    return b, e


@pytest.mark.parametrize("argument", ["the edge", "the receiver", "the sender", "the graph"])
def test_document_002_equation_14_1_an_edge_is_updated_from_itself_its_two_atoms_and_the_graph(argument):
    """e'_k = phi_e(e_k, v_rk, v_sk, u)"""
    phi_e, graph = edge_update(edge_dim=1, global_dim=2), ethanol(edge_dim=1, global_dim=2).to_edge_list()
    k = 5  # the edge from the oxygen, atom 2, to the middle carbon, atom 1
    assert (graph.sender[k], graph.receiver[k]) == (2, 1)
    changed = {name: x.clone() for name, x in (("e", graph.e), ("v", graph.v), ("u", graph.u))}
    name, row = {"the edge": ("e", k), "the receiver": ("v", 1), "the sender": ("v", 2), "the graph": ("u", 0)}[
        argument
    ]
    changed[name][row] += 1
    before, after = phi_e.materialize(graph).e, phi_e.materialize(graph.replace(**changed)).e
    assert (after[k] - before[k]).abs().min() > 1e-6
    if argument == "the edge":  # competes with the other edges into atom 1, and with no others
        elsewhere = graph.receiver != 1
        assert_same(after[elsewhere], array(before[elsewhere]))


def test_document_002_equations_14_2_to_14_5_the_weights_of_the_edges():
    """q = W_q v_r, K = W_k v_s, V = W_v v_s,  b_k = softmax_k(q . K / sqrt(d))  over the edges into an atom."""
    phi_e, graph = edge_update(), ethanol().to_edge_list()
    weights, _ = edges_by_hand(phi_e, graph)
    assert_same(phi_e(graph).weights, weights)
    for atom in range(3):
        assert_same(phi_e(graph).weights[graph.receiver == atom].sum(0), np.ones(HEADS))


def test_document_002_equations_14_6_and_14_7_the_updated_edges():
    """e'_k = b_k V = softmax(W_q v_r . W_k v_s / sqrt(d)) W_v v_s"""
    phi_e, graph = edge_update(), ethanol().to_edge_list()
    _, edges = edges_by_hand(phi_e, graph)
    assert_same(phi_e.materialize(graph).e, edges)


def test_document_002_equation_14_8_edges_are_summed_into_their_receiver():
    """ebar_i = sum_k e'_k"""
    phi_e, graph = edge_update(), ethanol()
    listed = graph.to_edge_list()
    _, edges = edges_by_hand(phi_e, listed)
    sums = np.stack([edges[listed.receiver.numpy() == i].sum(0).reshape(-1) for i in range(3)])
    for messages in (phi_e.materialize(listed), phi_e(listed)):
        assert_same(sum_edges(messages), sums)
    assert_same(sum_edges(phi_e(graph))[0], sums)


def test_document_002_equation_14_9_the_sum_joins_the_heads_by_w_jhl():
    """ebar_il = sum_kjh e'_ikjh w_jhl;  the block's join has a bias besides."""
    block, graph = randomize(GraphNetBlock(NODE_DIM, HEADS)), ethanol()
    listed = graph.to_edge_list()
    _, edges = edges_by_hand(block.phi_e, listed.replace(v=block.norm_v(listed.v)))
    w_lhj, bias = array(block.join.linear.weight).reshape(NODE_DIM, HEADS, HEAD_DIM), array(block.join.linear.bias)
    ebar = np.stack([np.einsum("khj,lhj->l", edges[listed.receiver.numpy() == i], w_lhj) + bias for i in range(3)])
    assert_same(block.join(block.rho_ev(block.forward_with_messages(graph)[1]))[0], ebar)


def test_document_002_the_equations_are_the_case_where_edges_have_no_weight():
    """Keys and values of an edge are W_k v_s + W_ke e_k and W_v v_s + W_ve e_k: with W_ke = W_ve = 0, the book's."""
    phi_e, graph = edge_update(edge_dim=1), ethanol(edge_dim=1).to_edge_list()
    weights, edges = edges_by_hand(phi_e, graph)
    assert np.abs(array(phi_e.materialize(graph).e) - edges).max() > 1e-3
    with torch.no_grad():
        phi_e.w_ke.weight.zero_(), phi_e.w_ve.weight.zero_(), phi_e.w_be.weight.zero_()
    assert_same(phi_e.materialize(graph).weights, weights)
    assert_same(phi_e.materialize(graph).e, edges)


def test_document_002_molecules_are_fully_connected_with_distances_on_the_edges():
    assert ETHANOL.path_lengths.tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    graph = ethanol(edge_dim=1).to_edge_list()
    pairs = {(int(s), int(r)): float(e) for s, r, e in zip(graph.sender, graph.receiver, graph.e, strict=True)}
    assert pairs == {(j, i): abs(i - j) for i in range(3) for j in range(3)}  # all nine, an atom's own included
    methane = DenseGraph(random(1, 1, NODE_DIM), torch.ones(1, 1, dtype=torch.bool)).to_edge_list()
    assert (methane.sender.tolist(), methane.receiver.tolist()) == ([0], [0])


def test_document_002_the_distance_on_an_edge_moves_attention():
    """w_k = softmax_k(q . (W_k v_s + W_ke e_k) / sqrt(d) + w_be e_k),  e'_k = w_k (W_v v_s + W_ve e_k)"""
    phi_e, graph = edge_update(edge_dim=1), ethanol(edge_dim=1)
    v, distance = array(graph.v[0]), ETHANOL.path_lengths.astype(float)
    q, k, values = (linear(w, v).reshape(3, HEADS, HEAD_DIM) for w in (phi_e.w_q, phi_e.w_k, phi_e.w_v))
    w_ke, w_ve = (array(w.weight).reshape(HEADS, HEAD_DIM) for w in (phi_e.w_ke, phi_e.w_ve))
    for h in range(HEADS):
        keys = k[None, :, h] + distance[..., None] * w_ke[h]  # (i, j, d): what atom j is to atom i
        logits = np.einsum("id,ijd->ij", q[:, h], keys) / math.sqrt(HEAD_DIM) + array(phi_e.w_be.weight)[h] * distance
        weights = softmax(logits)
        assert_same(phi_e(graph).weights[0, h], weights)
        assert_same(phi_e.materialize(graph).weights[:, h].view(3, 3), weights)
        ebar = np.einsum("ij,ijd->id", weights, values[None, :, h] + distance[..., None] * w_ve[h])
        assert_same(sum_edges(phi_e(graph))[0, :, h * HEAD_DIM : (h + 1) * HEAD_DIM], ebar)


def test_document_002_bond_and_distance_of_every_pair_become_the_features_of_its_edge():
    """e_ij = B[bond_ij] + P[distance_ij]"""
    sizes = [f.size for f in BOND_FEATURES]
    bond = BondEncoding(torch.from_numpy(unpack_bond(range(BOND_SIZE))), sizes, 4)
    pairs = randomize(Sum([bond, PathEncoding(4, 8)]))
    e = pairs(collate([ETHANOL]))[0]
    starts = np.cumsum([0, *sizes])[:-1]
    table, path = (array(x) for x in (pairs.encodings[0].bond.table.weight, pairs.encodings[1].path.weight))
    for i in range(3):
        for j in range(3):
            codes = unpack_bond([ETHANOL.bond_codes[i, j]])[0]
            assert_same(e[i, j], table[starts + codes].sum(0) + path[ETHANOL.path_lengths[i, j]])


# Chapter 14's two models: distances mixed into the weights, and gated heads.


def test_document_002_molecule_attention_transformer_mixes_attention_distance_and_adjacency():
    """head_i = sum_j ( lambda_a softmax(q.k / sqrt(d)) + lambda_d exp(-D) + lambda_g A )_ij v_j"""
    phi_e = randomize(MixedEdgeUpdate(6, HEADS, HEAD_DIM, edge_dim=2, lambdas=(0.5, 0.3, 0.2)))
    distance = ETHANOL.path_lengths.astype(float)
    near = (distance <= 1).astype(float)
    fixed = np.stack([np.exp(-distance), near / near.sum(-1, keepdims=True)], axis=-1)
    v = random(3, 6)
    graph = DenseGraph(v[None], torch.ones(1, 3, dtype=torch.bool), torch.from_numpy(fixed)[None])
    q, k, values = (linear(w, array(v)).reshape(3, HEADS, HEAD_DIM) for w in (phi_e.w_q, phi_e.w_k, phi_e.w_v))
    for h in range(HEADS):
        attention = softmax(q[:, h] @ k[:, h].T / math.sqrt(HEAD_DIM))
        weights = 0.5 * attention + 0.3 * fixed[..., 0] + 0.2 * fixed[..., 1]
        messages = phi_e(graph)
        assert_same(messages.weights[0, h], weights)
        assert_same(sum_edges(messages)[0, :, h * HEAD_DIM : (h + 1) * HEAD_DIM], weights @ values[:, h])
        # exp(-D) is no distribution, and the weights say so.
        assert_same(messages.weights[0, h].sum(-1), 0.5 + 0.3 * fixed[..., 0].sum(-1) + 0.2)


def test_document_002_gated_attention_switches_heads_on_and_off():
    """y_i = W_o [x_i, g_i1 head_i1, ..., g_ih head_ih],   g_i = sigmoid(W_g [x_i, max_j W_m z_j, mean_j z_j])"""
    torch.manual_seed(0)
    block = randomize(gaan(BlockConfig(6, HEADS)))
    phi_e, rho, head_dim = block.phi_e, block.rho_ev, 6 // HEADS
    graph = DenseGraph(random(1, 3, 6), torch.ones(1, 3, dtype=torch.bool))
    x = array(graph.v[0])
    q, k = (linear(w, x).reshape(3, HEADS, head_dim) for w in (phi_e.w_q, phi_e.w_k))
    values = linear(phi_e.w_v, x).reshape(3, HEADS, head_dim)
    values = np.where(values > 0, values, 0.1 * values)
    heads = [softmax(q[:, h] @ k[:, h].T) @ values[:, h] for h in range(HEADS)]
    largest = linear(rho.w_m, x).max(0)
    seen = np.concatenate([x, np.tile(largest, (3, 1)), np.tile(x.mean(0), (3, 1))], axis=-1)
    gates = 1 / (1 + np.exp(-linear(rho.w_g, seen)))
    gated = np.concatenate([x, *(gates[:, h : h + 1] * heads[h] for h in range(HEADS))], axis=-1)
    assert_same(rho(phi_e(graph))[0], gated)
    assert_same(block.join(rho(phi_e(graph)))[0], linear(block.join, gated))
