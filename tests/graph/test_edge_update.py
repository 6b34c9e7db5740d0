"""phi_e: three forms with the same numbers, compared with loops in numpy and with PyG."""

import math

import numpy as np
import pytest
import torch
from torch_geometric.nn import TransformerConv

from molattn.attention import record_backends
from molattn.graph import AttentionEdgeUpdate, DenseGraph, Graph, MaterializedMessages, sum_edges
from tests.assertions import assert_close, assert_identical
from tests.graph.graphs import EDGE_DIM, F64, GLOBAL_DIM, NODE_DIM, double, inputs_of, random_graphs

SIZES = [4, 1, 3, 1, 5]
HEADS, HEAD_DIM = 2, 3


def edge_update(edges=True, globals_=True, dropout=0.0):
    return double(
        AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, EDGE_DIM if edges else 0, GLOBAL_DIM if globals_ else 0, dropout)
    )


@pytest.mark.parametrize("edges", [True, False])
@pytest.mark.parametrize("globals_", [True, False])
@pytest.mark.parametrize("density", [None, 0.4, 0.0])
def test_materialized_edge_list_and_dense_are_the_same_values_and_gradients(edges, globals_, density):
    phi_e = edge_update(edges, globals_)
    graph = random_graphs(SIZES, edges=edges, globals_=globals_, density=density, requires_grad=True)
    listed = graph.to_edge_list()
    b, i, j = graph.edges.nonzero(as_tuple=True)
    dense, sparse, materialized = phi_e(graph), phi_e(listed), phi_e.materialize(graph)

    assert_close(sparse.weights, dense.weights[b, :, i, j])
    assert_close(materialized.weights, sparse.weights)
    everything = dense.weights.transpose(1, -1).transpose(1, 2)  # (b, i, j, h)
    assert (everything[~graph.edges] == 0).all()

    sums = sum_edges(dense)[graph.node_mask], sum_edges(sparse), sum_edges(materialized)
    assert_close(sums[1], sums[0])
    assert_close(sums[2], sums[0])

    learned = [*phi_e.parameters(), *inputs_of(graph)]
    probe = torch.randn(sums[0].shape, generator=torch.Generator().manual_seed(1), dtype=F64)
    gradients = [torch.autograd.grad((x * probe).sum(), learned) for x in sums]
    for by_dense, by_list, by_materialized in zip(*gradients, strict=True):
        assert_close(by_list, by_dense)
        assert_close(by_materialized, by_dense)


def test_nodes_without_incoming_edges_get_zeros_and_stay_finite():
    phi_e = edge_update()
    graph = random_graphs(SIZES, density=0.3, requires_grad=True)
    reached = graph.edges.any(-1)
    assert not reached[graph.node_mask].all()
    ebar = sum_edges(phi_e(graph))
    assert ebar.isfinite().all()
    assert (ebar[~reached] == 0).all()
    assert (ebar[reached].abs().amax(-1) > 0).all()
    for gradient in torch.autograd.grad(ebar.square().sum(), [*phi_e.parameters(), *inputs_of(graph)]):
        assert gradient.isfinite().all()


def test_methane_is_one_atom_attending_to_itself():
    phi_e = edge_update()
    graph = random_graphs([1])
    messages = phi_e(graph)
    assert_identical(messages.weights, torch.ones(1, HEADS, 1, 1, dtype=F64))
    assert graph.e is not None and graph.u is not None
    assert_close(
        sum_edges(messages)[0, 0], phi_e.w_v(graph.v[0, 0]) + phi_e.w_ve(graph.e[0, 0, 0]) + phi_e.w_vu(graph.u[0])
    )


def head(linear, h, size):
    return linear.weight.detach().numpy()[h * size : (h + 1) * size]


def in_numpy(phi_e, graph, with_edges, with_u):
    """Weights (m, h), e' (m, h, d) and ebar (n, h, d), by loops over receivers, heads and edges."""
    v = graph.v.detach().numpy()
    e = graph.e.detach().numpy() if with_edges else None
    u = graph.u.detach().numpy()[graph.node_graph.numpy()] if with_u else None
    sender, receiver = graph.sender.tolist(), graph.receiver.tolist()
    d = phi_e.head_dim
    weights = np.zeros((len(sender), phi_e.num_heads))
    messages = np.zeros((len(sender), phi_e.num_heads, d))
    sums = np.zeros((len(v), phi_e.num_heads, d))
    for r in range(len(v)):
        incoming = [k for k in range(len(receiver)) if receiver[k] == r]
        for h in range(phi_e.num_heads):
            q = head(phi_e.w_q, h, d) @ v[r]
            if u is not None:
                q = q + head(phi_e.w_qu, h, d) @ u[r]
            logits, values = [], []
            for k in incoming:
                key = head(phi_e.w_k, h, d) @ v[sender[k]]
                value = head(phi_e.w_v, h, d) @ v[sender[k]]
                if u is not None:
                    key = key + head(phi_e.w_ku, h, d) @ u[r]
                    value = value + head(phi_e.w_vu, h, d) @ u[r]
                if e is not None:
                    key = key + head(phi_e.w_ke, h, d) @ e[k]
                    value = value + head(phi_e.w_ve, h, d) @ e[k]
                logit = float(q @ key) / math.sqrt(d)
                if e is not None:
                    logit += float(head(phi_e.w_be, h, 1)[0] @ e[k])
                logits.append(logit)
                values.append(value)
            total = sum(math.exp(x) for x in logits)
            for k, logit, value in zip(incoming, logits, values, strict=True):
                weights[k, h] = math.exp(logit) / total
                messages[k, h] = weights[k, h] * value
                sums[r, h] += messages[k, h]
    return weights, messages, sums


def check_against_numpy(phi_e, graph, with_edges, with_u):
    graph = graph.replace(e=graph.e if phi_e.w_ke else None, u=graph.u if phi_e.w_qu else None)
    weights, messages, sums = (torch.from_numpy(x) for x in in_numpy(phi_e, graph, with_edges, with_u))
    materialized, fast = phi_e.materialize(graph), phi_e(graph)
    assert_close(materialized.weights, weights)
    assert_close(materialized.e, messages)
    assert_close(fast.weights, weights)
    assert_close(sum_edges(materialized), sums.flatten(1))
    assert_close(sum_edges(fast), sums.flatten(1))


def graph_lists():
    complete = random_graphs([4, 1, 3], seed=3).to_edge_list()
    sparse = random_graphs([4, 1, 3], density=0.5, seed=3).to_edge_list()
    g = torch.Generator().manual_seed(4)
    directed = Graph.from_edge_index(  # with a duplicate edge and a node without incoming edges
        torch.randn(4, NODE_DIM, generator=g, dtype=F64),
        torch.tensor([[0, 0, 1, 3, 2], [1, 1, 2, 2, 3]]),
        torch.randn(5, EDGE_DIM, generator=g, dtype=F64),
        torch.randn(1, GLOBAL_DIM, generator=g, dtype=F64),
    )
    return {"complete": complete, "sparse": sparse, "directed": directed}


GRAPHS = graph_lists()


@pytest.mark.parametrize("kind", GRAPHS)
def test_phi_e_without_edge_features_is_equations_14_2_to_14_8(kind):
    phi_e = edge_update(edges=False, globals_=False)
    check_against_numpy(phi_e, GRAPHS[kind], with_edges=False, with_u=False)


@pytest.mark.parametrize("kind", GRAPHS)
def test_phi_e_with_zero_edge_weights_is_equations_14_2_to_14_8(kind):
    phi_e = edge_update(globals_=False)
    with torch.no_grad():
        for linear in (phi_e.w_ke, phi_e.w_ve, phi_e.w_be):
            linear.weight.zero_()
    check_against_numpy(phi_e, GRAPHS[kind], with_edges=False, with_u=False)


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("with_u", [False, True])
@pytest.mark.parametrize("with_edges", [False, True])
def test_the_equation_of_phi_e_holds_with_edges_and_graph_features(kind, with_edges, with_u):
    phi_e = edge_update(with_edges, with_u)
    check_against_numpy(phi_e, GRAPHS[kind], with_edges, with_u)


@pytest.mark.parametrize("density", [None, 0.4])
@pytest.mark.parametrize("with_edges", [False, True])
def test_it_equals_pygs_transformer_conv_with_one_edge_weight(density, with_edges):
    theirs = TransformerConv(
        NODE_DIM, HEAD_DIM, HEADS, root_weight=False, bias=False, edge_dim=EDGE_DIM if with_edges else None
    ).to(F64)
    ours = edge_update(with_edges, globals_=False)
    with torch.no_grad():
        for linear, other in ((ours.w_q, theirs.lin_query), (ours.w_k, theirs.lin_key), (ours.w_v, theirs.lin_value)):
            linear.weight.copy_(other.weight)
        if with_edges:
            ours.w_ke.weight.copy_(theirs.lin_edge.weight)
            ours.w_ve.weight.copy_(theirs.lin_edge.weight)
            ours.w_be.weight.zero_()
    graph = random_graphs([6, 1, 4], edges=with_edges, globals_=False, density=density, seed=5)
    listed = graph.to_edge_list()
    edge_index = torch.stack([listed.sender, listed.receiver])
    expected, (_, weights) = theirs(listed.v, edge_index, listed.e, return_attention_weights=True)
    assert_close(sum_edges(ours(listed)), expected, 1e-10)
    assert_close(sum_edges(ours(graph))[graph.node_mask], expected, 1e-10)
    assert_close(ours(listed).weights, weights, 1e-10)


def test_the_order_of_an_edge_list_does_not_matter():
    phi_e, graph = edge_update(), GRAPHS["sparse"]
    order = torch.randperm(len(graph.sender), generator=torch.Generator().manual_seed(6))
    assert graph.e is not None
    shuffled = graph.replace(sender=graph.sender[order], receiver=graph.receiver[order], e=graph.e[order])
    assert_close(phi_e(shuffled).weights, phi_e(graph).weights[order])
    assert_close(sum_edges(phi_e(shuffled)), sum_edges(phi_e(graph)))
    assert_close(phi_e.materialize(shuffled).e, phi_e.materialize(graph).e[order])


def test_a_graph_without_any_edge_gets_zeros():
    none = torch.zeros(2, 0, dtype=torch.long)
    graph = Graph.from_edge_index(torch.randn(3, NODE_DIM, dtype=F64), none, torch.zeros(0, EDGE_DIM, dtype=F64))
    phi_e = edge_update(globals_=False)
    for messages in (phi_e(graph), phi_e.materialize(graph)):
        assert messages.weights.shape == (0, HEADS)
        assert_identical(sum_edges(messages), torch.zeros(3, HEADS * HEAD_DIM, dtype=F64))


def test_huge_logits_do_not_overflow_in_any_form():
    phi_e = edge_update()
    graph = random_graphs([3, 2])
    graph = graph.replace(v=graph.v * 1e4)
    for messages in (phi_e(graph), phi_e(graph.to_edge_list()), phi_e.materialize(graph)):
        assert messages.weights.isfinite().all()
        assert sum_edges(messages).isfinite().all()


FORMS = {
    "dense": lambda phi_e, graph: phi_e(graph),
    "edge list": lambda phi_e, graph: phi_e(graph.to_edge_list()),
    "materialized": lambda phi_e, graph: phi_e.materialize(graph),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("density", [None, 0.4])
def test_gradients_agree_with_finite_differences(form, density):
    phi_e = edge_update()
    graph = random_graphs([3, 1], density=density, requires_grad=True)
    names, parameters = zip(*phi_e.named_parameters(), strict=True)

    def f(v, e, u, *values):
        given = DenseGraph(v, graph.node_mask, e, u, graph.edge_mask)
        return torch.func.functional_call(Form(phi_e, FORMS[form]), dict(zip(names, values, strict=True)), given)

    assert torch.autograd.gradcheck(f, (graph.v, graph.e, graph.u, *parameters), fast_mode=True)


class Form(torch.nn.Module):
    """An edge update whose `forward` is the sum of the messages of one form, under the same parameter names."""

    def __init__(self, phi_e, form):
        super().__init__()
        self._modules.update(phi_e._modules)
        self.call = lambda graph: sum_edges(form(phi_e, graph))

    def forward(self, graph):
        return self.call(graph)


def test_dropout_drops_in_training_and_the_returned_weights_are_those_before_it():
    phi_e = edge_update(dropout=0.25)
    graph = random_graphs([6, 5])
    torch.manual_seed(7)
    for form in FORMS.values():
        quiet = form(phi_e.eval(), graph)
        noisy = form(phi_e.train(), graph)
        assert_identical(noisy.weights, quiet.weights)
        assert (sum_edges(noisy) - sum_edges(quiet)).abs().max() > 1e-3
    messages = phi_e.eval()(graph)
    assert_identical(messages.weights_after_dropout, messages.weights)
    messages = phi_e.train()(graph)
    kept = messages.weights_after_dropout != 0
    assert_close(messages.weights_after_dropout[kept], messages.weights[kept] / 0.75)
    assert 0.1 < 1 - kept[messages.weights != 0].float().mean() < 0.4


@pytest.mark.parametrize("form", FORMS)
def test_training_without_dropout_draws_no_random_numbers(form):
    phi_e, graph = edge_update(dropout=0.0).train(), random_graphs([4, 2])
    state = torch.get_rng_state()
    with record_backends() as calls:
        messages = FORMS[form](phi_e, graph)
        total = sum_edges(messages)
    assert "dropout mask" not in {call.operation for call in calls}
    assert_identical(torch.get_rng_state(), state)
    assert_close(total, sum_edges(FORMS[form](phi_e.eval(), graph)))


@pytest.mark.parametrize("form", FORMS)
def test_dropout_leaves_the_expectation(form):
    phi_e = edge_update(dropout=0.3)
    one, draws = random_graphs([3], seed=8), 2000
    many = DenseGraph(
        one.v.expand(draws, -1, -1), one.node_mask.expand(draws, -1), one.e.expand(draws, -1, -1, -1),
        one.u.expand(draws, -1),
    )  # fmt: skip
    torch.manual_seed(9)
    ebar = sum_edges(FORMS[form](phi_e.train(), many)).detach().view(draws, 3, -1)
    quiet = sum_edges(phi_e.eval()(one))[0]
    assert ((ebar.mean(0) - quiet).abs() < 5 * ebar.std(0) / draws**0.5).all()


class Doubled(AttentionEdgeUpdate):
    """A subclass that overrides one part."""

    def _transform_weights(self, weights, graph):  # noqa: ARG002
        return 2 * weights


def test_a_dense_graph_is_one_operation_if_nothing_is_overridden():
    graph = random_graphs([4, 2], globals_=False)

    def taken(phi_e):
        with record_backends() as calls:
            phi_e(graph).sum()
        return [call.backend for call in calls if call.operation == "attention"]

    plain = edge_update(globals_=False)
    assert taken(plain) == ["chunked"]  # in float64
    for given in (
        {"edge_roles": ("keys",)},
        {"edge_roles": ("values",)},
        {"score": "dot"},
        {"normalizer": "sparsemax"},
    ):
        other = double(AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, EDGE_DIM, **given))
        assert taken(other) == ["reference"]
    changed = double(Doubled(NODE_DIM, HEADS, HEAD_DIM, EDGE_DIM))
    changed.load_state_dict(plain.state_dict())
    assert not taken(changed)
    for form in FORMS.values():
        assert_close(sum_edges(form(changed, graph)), 2 * sum_edges(form(plain, graph)))


@pytest.mark.parametrize("form", [form for form in FORMS if form != "materialized"])
def test_a_sum_after_an_access_to_the_weights_uses_them(form):
    phi_e, graph = edge_update(dropout=0.3), random_graphs([4, 2], density=0.7)
    messages = FORMS[form](phi_e.train(), graph)
    wanted = (messages.weights_after_dropout, messages.per_edge())
    with record_backends() as calls:
        total = sum_edges(messages)
    assert not [call for call in calls if call.operation == "attention"]
    assert_close(total, sum_edges(MaterializedMessages(messages.graph, wanted[0], wanted[1])))


@pytest.mark.parametrize(
    ("edge_dim", "global_dim", "message"),
    [
        (0, 3, "4 features in e, the layer was made with edge_dim=0"),
        (5, 3, "4 features in e, the layer was made with edge_dim=5"),
        (4, 0, "3 features in u, the layer was made with global_dim=0"),
    ],
)
def test_features_of_another_size_than_the_layers_raise(edge_dim: int, global_dim: int, message: str) -> None:
    layer = AttentionEdgeUpdate(6, num_heads=2, head_dim=3, edge_dim=edge_dim, global_dim=global_dim)
    graph = DenseGraph(
        torch.randn(1, 2, 6), torch.ones(1, 2, dtype=torch.bool), e=torch.randn(1, 2, 2, 4), u=torch.randn(1, 3)
    )
    for way in (layer, layer.materialize):
        with pytest.raises(ValueError, match=message):
            way(graph)


def test_the_sum_of_messages_is_computed_once():
    graph = random_graphs(SIZES)
    for form in (graph, graph.to_edge_list()):
        messages = edge_update()(form)
        assert messages.sum() is messages.sum()


def test_keys_and_values_can_share_the_weights_of_edges():
    phi_e = double(AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, EDGE_DIM, edge_roles=("keys", "values")))
    phi_e.w_ve = phi_e.w_ke
    graph = random_graphs(SIZES, globals_=False, density=0.6)
    materialized = sum_edges(phi_e.materialize(graph))
    assert_close(sum_edges(phi_e(graph))[graph.node_mask], materialized)
    assert_close(sum_edges(phi_e(graph.to_edge_list())), materialized)
    without = sum_edges(phi_e.materialize(graph.replace(e=torch.zeros_like(graph.e))))
    assert (materialized - without).abs().max() > 0.1


@pytest.mark.parametrize("score", ["dot", "scaled_dot"])
def test_logits_are_the_product_of_queries_and_keys_times_the_scale(score):
    phi_e = double(AttentionEdgeUpdate(NODE_DIM, HEADS, HEAD_DIM, score=score))
    graph = random_graphs([4], edges=False, globals_=False)
    q, k = (w(graph.v[0]).view(4, HEADS, HEAD_DIM).transpose(0, 1) for w in (phi_e.w_q, phi_e.w_k))
    assert_close(phi_e(graph).weights[0], (phi_e.scale * q @ k.mT).softmax(-1))
