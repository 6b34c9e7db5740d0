"""Attention over edge lists by C: outputs and gradients agree with the reference, for edges in any order."""

import pytest
import torch

from molattn.attention import EdgeListLayout, EdgeTerms, attend, backend, implementations, record_backends
from molattn.kernels import dispatch
from molattn.kernels.segments import LIBRARY, segment_attention
from tests.assertions import assert_identical

F32, F64 = torch.float32, torch.float64

pytestmark = pytest.mark.skipif(LIBRARY.loaded is None, reason=f"no compiled segments: {LIBRARY.unavailable_reason()}")


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def lists(receivers, senders, edges, seed=0):
    g = torch.Generator().manual_seed(seed)
    # Most edges go into few nodes, and into some go none.
    receiver = (torch.rand(edges, generator=g) ** 3 * receivers).long()
    return torch.randint(senders, (edges,), generator=g), receiver


def make_terms(
    receivers=9, senders=7, edges=60, *, h=2, d=16, f=8, roles=("keys", "values", "bias"), dropout=False, seed=0
):
    learned = {
        "q": randn(receivers, h, d, seed=seed),
        "k": randn(senders, h, d, seed=seed + 1),
        "v": randn(senders, h, d, seed=seed + 2),
    }
    if f:
        learned["e"] = randn(edges, f, seed=seed + 3)
        learned |= {"w_ke": randn(h, d, f, seed=seed + 4)} if "keys" in roles else {}
        learned |= {"w_ve": randn(h, d, f, seed=seed + 5)} if "values" in roles else {}
        learned |= {"w_be": randn(h, f, seed=seed + 6)} if "bias" in roles else {}
    dropout_mask = (randn(edges, h, seed=seed + 7) > -0.5).double() * 1.5 if dropout else None
    return learned, (*lists(receivers, senders, edges, seed), dropout_mask)


def outputs_and_gradients(learned, edge_list, dtype, *backends):
    ours = {name: x.to(dtype).requires_grad_() for name, x in learned.items()}
    sender, receiver, dropout_mask = edge_list
    edges = EdgeTerms(ours["e"], *(ours.get(name) for name in ("w_ke", "w_ve", "w_be"))) if "e" in ours else None
    with backend(*backends), record_backends() as calls:
        output = attend(
            ours["q"], ours["k"], ours["v"], EdgeListLayout(sender, receiver, len(ours["q"])), edges=edges,
            dropout_mask=None if dropout_mask is None else dropout_mask.to(dtype),
        )  # fmt: skip
    assert [call.backend for call in calls] == [backends[0]]
    probe = randn(*output.shape, seed=9).to(dtype)
    return [output, *torch.autograd.grad((output * probe).sum(), list(ours.values()), allow_unused=True)]


def check_against_reference(learned, edge_list, tolerance=2e-5):
    ours, exact = (
        outputs_and_gradients(learned, edge_list, F32, "compiled"),
        outputs_and_gradients(learned, edge_list, F64, "reference"),
    )
    for x, y in zip(ours, exact, strict=True):
        if x is None or y is None:
            assert (x is None or not x.any()) and y is None
            continue
        error = (x.double() - y).abs().max() if x.numel() else torch.tensor(0.0)
        assert error <= tolerance * max(1.0, float(y.detach().abs().max()) if y.numel() else 1.0)


@pytest.mark.parametrize(
    "roles", [("keys", "values", "bias"), ("keys",), ("values",), ("bias",), ("keys", "values")], ids="+".join
)
@pytest.mark.parametrize("dropout", [False, True])
def test_outputs_and_gradients_agree_with_the_reference_for_all_edge_roles(roles, dropout):
    check_against_reference(*make_terms(roles=roles, dropout=dropout))


@pytest.mark.parametrize(
    ("h", "d", "f"), [(1, 1, 1), (3, 5, 3), (4, 16, 16), (2, 16, 17), (1, 40, 33), (2, 32, 0), (4, 8, 0)]
)
def test_any_number_of_heads_and_channels(h, d, f):
    check_against_reference(*make_terms(h=h, d=d, f=f))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 1, 40), (5, 3, 0), (3, 5, 16), (3, 5, 17), (200, 300, 5000)], ids=str)
def test_any_number_of_nodes_and_edges(sizes):
    check_against_reference(*make_terms(*sizes))


def test_edges_in_any_order():
    learned, (sender, receiver, _) = make_terms()
    one = outputs_and_gradients(learned, (sender, receiver, None), F32, "compiled")
    order = torch.randperm(len(sender), generator=torch.Generator().manual_seed(1))
    two = outputs_and_gradients(
        {**learned, "e": learned["e"][order]}, (sender[order], receiver[order], None), F32, "compiled"
    )
    torch.testing.assert_close(one[0], two[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(one[4][order], two[4], rtol=1e-4, atol=1e-4)


def test_results_are_deterministic_and_independent_of_the_number_of_threads():
    learned, edge_list = make_terms(300, 300, 6000)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 3, 3, 64):
            torch.set_num_threads(threads)
            results.append(outputs_and_gradients(learned, edge_list, F32, "compiled"))
    finally:
        torch.set_num_threads(before)
    one, three, three_again, many = results
    for a, b in zip(three, three_again, strict=True):
        assert_identical(a, b)
    for other in (three, many):
        for a, b in zip(one[:5], other[:5], strict=True):  # what no two threads share
            assert_identical(a, b)
        for a, b in zip(one[5:], other[5:], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-3)


def test_huge_logits_do_not_overflow_and_nan_propagates_to_its_receivers():
    learned, (sender, receiver, _) = make_terms()
    big = {**learned, "q": learned["q"] * 1e6}
    assert outputs_and_gradients(big, (sender, receiver, None), F32, "compiled")[0].isfinite().all()
    learned["k"][0] = torch.nan
    reached = torch.zeros(9, dtype=torch.bool).index_fill(0, receiver[sender == 0], True)
    output = outputs_and_gradients(learned, (sender, receiver, None), F32, "compiled")[0]
    assert output[reached].isnan().all() and output[~reached].isfinite().all()


def test_a_receiver_without_edges_gets_zeros():
    learned, (sender, receiver, _) = make_terms()
    output = outputs_and_gradients(learned, (sender, receiver.clamp(max=4), None), F32, "compiled")[0]
    assert not output[5:].any() and output[:5].any()


@pytest.mark.parametrize(("which", "index"), [(0, 7), (0, -1), (1, 9), (1, -1), (1, 2**40)])
def test_node_indices_out_of_range_are_rejected(which, index):
    learned, (sender, receiver, _) = make_terms()
    (sender, receiver)[which][3] = index
    with pytest.raises(IndexError, match="refers to a node that does not exist"):
        segment_attention(
            *(learned[name].float() for name in ("q", "k", "v")), sender, receiver, None, None, None, None, None
        )  # fmt: skip


def test_double_backward():
    learned, edge_list = make_terms(dropout=True)
    second_gradients = []
    for dtype, name in ((F32, "compiled"), (F64, "reference")):
        ours = {key: x.to(dtype).requires_grad_() for key, x in learned.items()}
        sender, receiver, dropout_mask = edge_list
        edges = EdgeTerms(ours["e"], ours["w_ke"], ours["w_ve"], ours["w_be"])
        with backend(name):
            output = attend(
                ours["q"],
                ours["k"],
                ours["v"],
                EdgeListLayout(sender, receiver, 9),
                edges=edges,
                dropout_mask=dropout_mask.to(dtype),
            )
            gradients = torch.autograd.grad(output.tanh().sum(), list(ours.values()), create_graph=True)
        second_gradients.append(torch.autograd.grad(sum(x.square().sum() for x in gradients), list(ours.values())))
    for a, b in zip(*second_gradients, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-3, atol=2e-3 * float(b.abs().max()))


def test_double_backward_does_not_change_the_allowed_backends(monkeypatch):
    seen, compute = [], implementations.compute_weights

    def compute_and_record(*arguments):
        seen.append(dispatch._allowed)
        return compute(*arguments)

    monkeypatch.setattr(implementations, "compute_weights", compute_and_record)
    learned, (sender, receiver, _) = make_terms()
    q, k, v = (learned[name].float().requires_grad_() for name in ("q", "k", "v"))
    output = attend(q, k, v, EdgeListLayout(sender, receiver, 9))
    torch.autograd.grad(output.tanh().sum(), q, create_graph=True)
    assert seen == [None]  # the reference ran, and the allowed backends are unchanged
