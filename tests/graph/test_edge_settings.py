"""Edge roles, scores, biases and activations of `AttentionEdgeUpdate`: compared with loops, in every form; errors."""

from itertools import combinations

import pytest
import torch
from torch import nn

from molattn.attention import Softmax
from molattn.graph import AttentionEdgeUpdate, sum_edges
from molattn.graph.edge_update import EDGE_ROLES
from tests.assertions import assert_close
from tests.graph.graphs import EDGE_DIM, F64, GLOBAL_DIM, NODE_DIM, double, gradients, inputs_of, random_graphs

SIZES = [4, 1, 3, 1, 5]
HEADS, HEAD_DIM = 2, 4
WAYS = [names for size in range(len(EDGE_ROLES) + 1) for names in combinations(EDGE_ROLES, size)]
LOGITS = {
    "scaled_dot": lambda _, q, k: q @ k / HEAD_DIM**0.5,
    "dot": lambda _, q, k: q @ k,
    "general": lambda score, q, k: (score.w.weight @ q) @ k,
    "additive": lambda score, q, k: score.w.weight[0] @ (score.w_q(q) + score.w_k(k)).tanh(),
}
WITH_EDGES_IN_KEYS = [(score, ("keys", "values", "bias")) for score in LOGITS]
WITHOUT = [(score, edge_roles) for score in LOGITS for edge_roles in (("values", "bias"), ("logits",))]


def sparsemax(logits):
    """The projection to the simplex by its definition: tau such that the parts above it sum to 1."""
    z = logits.sort(descending=True).values
    k = torch.arange(1, len(z) + 1, dtype=z.dtype)
    taus = (z.cumsum(0) - 1) / k
    return (logits - taus[z > taus][-1]).clamp_min(0)


NORMALIZERS = {
    "softmax": lambda logits: logits.softmax(0),
    "hardmax": lambda logits: (logits == logits.max()).double() / (logits == logits.max()).sum(),
    "sparsemax": sparsemax,
    Softmax(0.5): lambda logits: (2 * logits).softmax(0),
}


def by_loops(phi_e, graph, score, activation, normalizer="softmax"):
    """The weights, (m, h), and ebar, (n, h * d), one receiver and one head at a time."""
    weights = torch.zeros(len(graph.sender), HEADS, dtype=F64)
    ebar = torch.zeros(len(graph.v), HEADS, HEAD_DIM, dtype=F64)

    def of_head(linear, x, h):
        if linear is None or x is None:
            return torch.zeros(HEAD_DIM, dtype=F64)
        rows = slice(h * HEAD_DIM, (h + 1) * HEAD_DIM)
        y = linear.weight[rows] @ x
        return y if linear.bias is None else y + linear.bias[rows]

    for r in range(len(graph.v)):
        incoming = [k for k in range(len(graph.sender)) if graph.receiver[k] == r]
        u = None if graph.u is None else graph.u[graph.node_graph[r]]
        for h in range(HEADS if incoming else 0):
            q = of_head(phi_e.w_q, graph.v[r], h) + of_head(phi_e.w_qu, u, h)
            logits, values = [], []
            for k in incoming:
                v_s, e_k = graph.v[graph.sender[k]], graph.e[k]
                key = of_head(phi_e.w_k, v_s, h) + of_head(phi_e.w_ku, u, h) + of_head(phi_e.w_ke, e_k, h)
                value = activation(of_head(phi_e.w_v, v_s, h) + of_head(phi_e.w_vu, u, h)) + of_head(phi_e.w_ve, e_k, h)
                logit = LOGITS[score](phi_e.score, q, key)
                if phi_e.w_be is not None:
                    logit = logit + phi_e.w_be.weight[h] @ e_k
                if phi_e.adds_edges_to_logits:
                    logit = logit + e_k[h]
                logits.append(logit)
                values.append(value)
            won = NORMALIZERS[normalizer](torch.stack(logits))
            weights[incoming, h] = won.detach()
            ebar[r, h] = (won[:, None] * torch.stack(values)).sum(0).detach()
    return weights, ebar.flatten(-2)


def check(phi_e, edge_dim, score, density, activation=lambda x: x, globals_=True, normalizer="softmax"):
    """Compare all three forms with the loops, and with each other including their gradients."""
    graph = random_graphs(SIZES, edge_dim=edge_dim, density=density, globals_=globals_, requires_grad=True)
    listed = graph.to_edge_list()
    b, i, j = graph.edges.nonzero(as_tuple=True)
    dense, sparse, materialized = phi_e(graph), phi_e(listed), phi_e.materialize(graph)
    totals = [sum_edges(messages) for messages in (dense, sparse, materialized)]  # before the weights are accessed
    with torch.no_grad():
        weights, ebar = by_loops(phi_e, listed, score, activation, normalizer)
    results = []
    for messages, total, of_edges in zip(
        (dense, sparse, materialized),
        totals,
        (dense.weights[b, :, i, j], sparse.weights, materialized.weights),
        strict=True,
    ):
        total = total[graph.node_mask] if messages is dense else total
        assert_close(of_edges, weights)
        assert_close(total, ebar)
        loss = total.sin().sum() + of_edges.cos().sum()
        results.append(gradients(loss, [*phi_e.parameters(), *inputs_of(graph)]))
    for by_dense, by_list, by_materialized in zip(*results, strict=True):
        assert by_dense.isfinite().all()
        assert_close(by_list, by_dense)
        assert_close(by_materialized, by_dense)


@pytest.mark.parametrize("edge_roles", WAYS, ids=lambda names: "+".join(names) or "nothing")
@pytest.mark.parametrize("density", [None, 0.4])
def test_edge_roles_in_every_form(edge_roles, density):
    edge_dim = HEADS if "logits" in edge_roles else EDGE_DIM
    phi_e = double(AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, edge_dim, GLOBAL_DIM, edge_roles=edge_roles))
    assert [w is not None for w in (phi_e.w_ke, phi_e.w_ve, phi_e.w_be)] == [
        name in edge_roles for name in ("keys", "values", "bias")
    ]
    check(phi_e, edge_dim, "scaled_dot", density)


@pytest.mark.parametrize(("score", "edge_roles"), WITHOUT + WITH_EDGES_IN_KEYS)
@pytest.mark.parametrize("bias", [False, True])
def test_any_score_of_content_holds_in_every_form(score, bias, edge_roles):
    edge_dim = HEADS if "logits" in edge_roles else EDGE_DIM
    phi_e = double(
        AttentionEdgeUpdate(
            NODE_DIM, HEADS, HEAD_DIM, edge_dim, GLOBAL_DIM, edge_roles=edge_roles, score=score, bias=bias
        )
    )
    biased = {name for name, layer in phi_e.named_children() if name.startswith("w_") and layer.bias is not None}
    assert biased == ({"w_q", "w_k", "w_v"} if bias else set())
    check(phi_e, edge_dim, score, 0.5)


@pytest.mark.parametrize("normalizer", NORMALIZERS, ids=str)
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_any_normalizer_holds_in_every_form(normalizer, score):
    phi_e = double(
        AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, EDGE_DIM, GLOBAL_DIM, score=score, normalizer=normalizer)
    )
    check(phi_e, EDGE_DIM, score, 0.5, normalizer=normalizer)


def test_a_score_of_positions_raises():
    with pytest.raises(ValueError, match="positions, which the nodes of a graph do not have"):
        AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, score="location")
    with pytest.raises(ValueError, match="unknown normalizer 'hard'"):
        AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, normalizer="hard")


@pytest.mark.parametrize("activation", [nn.LeakyReLU(0.1), nn.Tanh()], ids=["leaky relu", "tanh"])
@pytest.mark.parametrize(
    "edge_roles", [("keys", "bias"), ("logits",), ()], ids=lambda names: "+".join(names) or "nothing"
)
def test_an_activation_is_applied_to_the_values_in_every_form(activation, edge_roles):
    edge_dim = HEADS if "logits" in edge_roles else EDGE_DIM
    phi_e = double(
        AttentionEdgeUpdate(
            NODE_DIM, HEADS, HEAD_DIM, edge_dim, GLOBAL_DIM, edge_roles=edge_roles, bias=True, activation=activation
        )
    )
    check(phi_e, edge_dim, "scaled_dot", 0.5, activation)


def test_a_large_negative_logit_masks_an_edge():
    phi_e = double(AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, HEADS, edge_roles=("logits",)))
    graph = random_graphs([3], edge_dim=HEADS, globals_=False)
    e = graph.e.clone()
    e[0, 1, 2, 0] = -1e9  # head 0 of the edge from 2 to 1
    for messages in (phi_e(graph.replace(e=e)), phi_e(graph.replace(e=e).to_edge_list())):
        weights = (
            messages.weights if messages.weights.dim() == 2 else messages.weights[0].permute(1, 2, 0).flatten(0, 1)
        )
        assert weights[1 * 3 + 2, 0] == 0
        assert weights[1 * 3 + 2, 1] > 0


def test_a_score_module_is_used_as_it_is():
    score = double(AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, score="general")).score
    phi_e = double(AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, score=score), seed=1)
    assert phi_e.score is score
    graph = random_graphs([4, 2], edges=False, globals_=False)
    assert_close(sum_edges(phi_e(graph))[graph.node_mask], sum_edges(phi_e.materialize(graph)))


def test_edge_roles_have_no_effect_without_edge_features():
    graph = random_graphs([4, 2], edges=False, globals_=False)
    results = []
    for edge_roles in (("keys", "values", "bias"), ("logits",), ()):
        phi_e = double(AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, edge_roles=edge_roles))
        results.append(sum_edges(phi_e(graph)))
    assert_close(results[1], results[0])
    assert_close(results[2], results[0])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"edge_roles": ("keys", "colours")}, "unknown edge role 'colours': choose one of keys, values, bias, logits"),
        ({"edge_roles": ("logits",)}, "one channel per head: 2, not 3"),
        ({"activation": nn.ReLU()}, "the edge role 'values' cannot be combined with an activation"),
        ({"score": "cosine"}, "unknown score 'cosine'"),
        ({"score": "location"}, "positions"),
    ],
)
def test_incompatible_settings_raise(given, message):
    with pytest.raises(ValueError, match=message):
        AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, EDGE_DIM, **given)


@pytest.mark.parametrize(
    "given", [{"score": "general"}, {"score": "additive"}, {"activation": nn.ReLU()}, {"edge_roles": ("logits",)}]
)
def test_settings_of_edges_have_no_effect_without_edge_features(given):
    AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, **given)
