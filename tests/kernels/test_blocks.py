"""A sequence of blocks as one operation: outputs and gradients agree with the separate blocks."""

import copy
import weakref

import pytest
import torch

from molattn.attention import OPERATIONS, backend, record_backends
from molattn.attention.dropout import draw_dropout_mask
from molattn.graph import (
    AttentionEdgeUpdate,
    DenseGraph,
    EdgeEmbedding,
    GraphNetBlock,
    fused_unsupported_reason,
    run_blocks,
    stack,
)
from molattn.graph.blocks import BlockConfig, tensor_dot
from molattn.kernels.blocks import LIBRARY
from tests.assertions import assert_close, assert_identical

F32, F64 = torch.float32, torch.float64

pytestmark = pytest.mark.skipif(LIBRARY.loaded is None, reason=f"no compiled blocks: {LIBRARY.unavailable_reason()}")


def run_compiled(blocks, graph, edges=None):
    """The nodes after the blocks as one operation; None if they run one by one."""
    if OPERATIONS["blocks"].unsupported_reason("compiled", stack._BlockCall(blocks, graph, edges)):
        return None
    with record_backends() as calls:
        after = run_blocks(blocks, graph, edges)
    assert ("blocks", "compiled") in calls
    return after.v


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def make_blocks(count=2, *, node_dim=32, num_heads=4, edge_dim=5, hidden_dim=48, dropout=0.0, seed=0):
    torch.manual_seed(seed)
    blocks = [
        GraphNetBlock(node_dim, num_heads, edge_dim, hidden_dim=hidden_dim, dropout=dropout).double()
        for _ in range(count)
    ]
    for parameter in (p for b in blocks for p in b.parameters()):
        parameter.data += 0.1 * torch.randn_like(parameter)
    return blocks


def make_graph(sizes, *, node_dim=32, edge_dim=5, density=None, seed=0):
    b, n = len(sizes), max(sizes)
    mask = torch.arange(n) < torch.tensor(sizes).unsqueeze(-1)
    edges = None if density is None else torch.rand(b, n, n, generator=torch.Generator().manual_seed(seed)) < density
    return DenseGraph(randn(b, n, node_dim, seed=seed), mask, randn(b, n, n, edge_dim, seed=seed + 1), edge_mask=edges)


def outputs_and_gradients(blocks, graph, dtype, seed=None):
    """The nodes after the blocks, and the gradients of nodes, edges and weights."""
    blocks = [copy.deepcopy(block).to(dtype) for block in blocks]
    v, e = (x.to(dtype).requires_grad_() for x in (graph.v, graph.e))
    graph = graph.replace(v=v, e=e)
    if seed is not None:
        torch.manual_seed(seed)
    whole = run_blocks(blocks, graph).v
    probe = randn(*whole.shape, seed=9).to(dtype) * graph.node_mask.unsqueeze(-1)
    wanted = [v, e, *(p for block in blocks for p in block.parameters())]
    return [whole * graph.node_mask.unsqueeze(-1), *torch.autograd.grad((whole * probe).sum(), wanted)]


def check_against_reference(blocks, graph, tolerance=1e-5, **options):
    ours = outputs_and_gradients(blocks, graph, F32, **options)
    for x, exact in zip(ours, outputs_and_gradients(blocks, graph, F64), strict=True):
        error = (x.double() - exact).abs().max()
        assert error <= tolerance * max(1.0, float(exact.detach().abs().max()))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("density", [None, 0.4])
@pytest.mark.parametrize("sizes", [(1,), (17,), (5, 16, 33, 2), (40,) * 9])
def test_outputs_and_gradients_agree_with_the_equations(sizes, density, count):
    check_against_reference(make_blocks(count), make_graph(sizes, density=density))


@pytest.mark.parametrize(
    "sizes",
    [{"edge_dim": 16}, {"edge_dim": 1}, {"node_dim": 64, "hidden_dim": 16}, {"num_heads": 1}, {"num_heads": 32}],
)
def test_any_number_of_channels(sizes):
    graph = make_graph((6, 21, 9), node_dim=sizes.get("node_dim", 32), edge_dim=sizes.get("edge_dim", 5))
    check_against_reference(make_blocks(**sizes), graph)


def test_without_edge_bias():
    torch.manual_seed(0)
    block = tensor_dot(BlockConfig(node_dim=32, num_heads=4, edge_dim=5, hidden_dim=64)).double()
    check_against_reference([block], make_graph((6, 21, 9)))


def test_two_threads_give_the_same_numbers():
    blocks, graph = make_blocks(), make_graph((30,) * 50)
    one = outputs_and_gradients(blocks, graph, F32)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        two = outputs_and_gradients(blocks, graph, F32)
    finally:
        torch.set_num_threads(threads)
    assert_identical(one[0], two[0])
    for a, b in zip(one, two, strict=True):
        assert_close(a, b, 1e-5 * max(1.0, float(a.detach().abs().max())))


def test_products_in_bfloat16_have_sixteen_bits():
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        check_against_reference(make_blocks(hidden_dim=64), make_graph((6, 21, 9)), tolerance=1e-4)
    finally:
        torch.set_float32_matmul_precision(precision)


def test_dropout_masks_are_those_of_the_separate_layers():
    blocks, graph = make_blocks(dropout=0.3), make_graph((6, 21, 9))
    if draw_dropout_mask(torch.zeros(1), (2,), 0.5).dtype != F32:
        pytest.skip("dropout is not compiled")
    ours = outputs_and_gradients(blocks, graph, F32, seed=3)
    blocks[0].norm_v = Opaque(blocks[0].norm_v)  # so they run one by one
    blocks[1].norm_v = Opaque(blocks[1].norm_v)
    parts = outputs_and_gradients(blocks, graph, F32, seed=3)
    for a, b in zip(ours, parts, strict=True):
        assert_close(a, b, 1e-5 * max(1.0, float(b.detach().abs().max())))
    other = outputs_and_gradients(blocks, graph, F32, seed=4)
    assert (ours[0] - other[0]).abs().max() > 0.1


class Opaque(torch.nn.Module):
    """A wrapper that hides the type of a layer."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        return self.part(x)


def test_batch_invariance():
    blocks = [block.float() for block in make_blocks()]
    graph = make_graph((6, 21, 9)).replace()
    graph = graph.replace(v=graph.v.float(), e=graph.e.float())
    whole = run_compiled(blocks, graph)
    for g, n in enumerate((6, 21, 9)):
        alone = DenseGraph(graph.v[g : g + 1, :n], graph.node_mask[g : g + 1, :n], graph.e[g : g + 1, :n, :n])
        assert_identical(run_compiled(blocks, alone)[0], whole[g, :n])


def test_padding_is_not_read_and_zero_in_the_output():
    blocks = [block.float() for block in make_blocks()]
    graph = make_graph((6, 21, 9))
    graph = graph.replace(v=graph.v.float(), e=graph.e.float())
    clean = run_compiled(blocks, graph)
    assert not clean[~graph.node_mask].any()
    pairs = graph.node_mask.unsqueeze(-1) & graph.node_mask.unsqueeze(-2)
    v = graph.v.masked_fill(~graph.node_mask.unsqueeze(-1), torch.nan).requires_grad_()
    e = graph.e.masked_fill(~pairs.unsqueeze(-1), torch.nan).requires_grad_()
    dirty = run_compiled(blocks, graph.replace(v=v, e=e))
    assert_identical(clean, dirty)
    gradients = torch.autograd.grad(dirty.sum(), [v, e, *blocks[0].parameters()])
    assert all(bool(torch.isfinite(x).all()) for x in gradients)
    assert not gradients[0][~graph.node_mask].any() and not gradients[1][~pairs].any()


@pytest.mark.parametrize("f", [5, 16])
def test_coded_edges_are_sums_of_table_rows(f):
    blocks = [block.float() for block in make_blocks(edge_dim=f)]
    graph = make_graph((6, 21, 9), edge_dim=f)
    b, n = graph.node_mask.shape
    rows = [randn(count, f, seed=count).float().requires_grad_() for count in (7, 256)]
    codes = [torch.randint(len(x), (b, n, n), dtype=torch.uint8) for x in rows]
    e = sum(x[c.long()] for x, c in zip(rows, codes, strict=True))
    bare = DenseGraph(graph.v.float(), graph.node_mask)
    coded = run_compiled(blocks, bare, EdgeEmbedding(tuple(rows), tuple(codes)))
    featured = run_compiled(blocks, bare.replace(e=e))
    assert_close(coded, featured, 1e-5)
    probe = randn(*coded.shape, seed=9).float()
    wanted = [*rows, *(p for block in blocks for p in block.parameters())]
    of_coded = torch.autograd.grad((coded * probe).sum(), wanted)
    of_featured = torch.autograd.grad((featured * probe).sum(), wanted)
    for x, y in zip(of_coded, of_featured, strict=True):
        assert_close(x, y, 2e-5 * max(1.0, float(y.detach().abs().max())))


def test_codes_out_of_range_are_rejected_except_in_padding():
    blocks = [block.float() for block in make_blocks()]
    graph = make_graph((3, 5))
    codes = torch.zeros(2, 5, 5, dtype=torch.uint8)
    codes[0, 4, 4] = 9
    edges = EdgeEmbedding((torch.zeros(4, 5),), (codes,))
    bare = DenseGraph(graph.v.float(), graph.node_mask)
    assert run_compiled(blocks, bare, edges) is not None
    codes[1, 4, 4] = 4
    with pytest.raises(IndexError, match="a code without a row in its table"):
        run_compiled(blocks, bare, edges)


def single(graph):
    return graph.replace(v=graph.v.float(), e=graph.e.float())


def test_a_single_block_uses_the_compiled_operation():
    (block,) = (block.float() for block in make_blocks(1))
    graph = single(make_graph((6, 21, 9)))
    whole = block(graph)
    assert_identical(whole.v, run_compiled([block], graph))
    assert whole.e is graph.e
    with backend("reference"):
        error = (block(graph).v - whole.v) * graph.node_mask.unsqueeze(-1)
    assert 0 < error.abs().max() < 1e-5


def test_unsupported_blocks_run_one_by_one():
    blocks, graph = make_blocks(), make_graph((6, 21, 9))
    assert run_compiled(blocks, graph) is None  # in float64
    blocks = [block.float() for block in blocks]
    graph = single(graph)
    assert run_compiled(blocks, graph) is not None
    assert run_compiled(blocks, graph.replace(e=None)) is None
    assert run_compiled([*blocks, Opaque(blocks[0])], graph) is None
    assert fused_unsupported_reason([*blocks, Opaque(blocks[0])], 5) == "Opaque is not a GraphNetBlock"
    assert run_compiled([GraphNetBlock(24, 4, 5)], graph.replace(v=graph.v[..., :24])) is None  # no whole vectors
    other = DenseGraph(graph.v, graph.node_mask.flip(-1), graph.e)  # nodes behind padding
    assert run_compiled(blocks, other) is None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert run_compiled(blocks, graph) is None
    blocks[0].join = torch.nn.Identity()
    assert run_compiled(blocks, graph) is None


def test_blocks_with_hooks_run_one_by_one():
    blocks = [block.float() for block in make_blocks()]
    seen = []
    handle = blocks[1].phi_v.register_forward_hook(lambda *_: seen.append(1))
    graph = single(make_graph((6, 21, 9)))
    assert run_compiled(blocks, graph) is None
    for block in blocks:
        graph = block(graph)
    assert seen == [1]
    handle.remove()
    assert run_compiled(blocks, graph) is not None
    blocks[0].register_forward_hook(lambda *_: seen.append(2))
    assert run_compiled(blocks, graph) is None


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_double_backward(coded, dropout):
    second_gradients = []
    for dtype, fused in ((F32, True), (F32, False), (F64, False)):
        blocks = [block.to(dtype) for block in make_blocks(dropout=dropout)]
        graph = make_graph((6, 9), density=0.7)
        v, e, rows = (x.to(dtype).requires_grad_() for x in (graph.v, graph.e, randn(4, 5)))
        codes = torch.arange(2 * 9 * 9, dtype=torch.uint8).view(2, 9, 9) % 4
        graph = graph.replace(v=v, e=None if coded else e)
        learned = [v, rows if coded else e, *(p for block in blocks for p in block.parameters())]
        edges = EdgeEmbedding((rows,), (codes,)) if coded else None
        torch.manual_seed(3)
        with record_backends() as calls:
            if fused:
                out = run_blocks(blocks, graph, edges).v
            else:
                for block in blocks:
                    block.norm_v = Opaque(block.norm_v)
                out = run_blocks(blocks, graph, edges).v
        assert (("blocks", "compiled") in calls) is fused
        out = (out * graph.node_mask.unsqueeze(-1)).tanh().sum()
        gradients = torch.autograd.grad(out, learned, create_graph=True)
        second_gradients.append(
            torch.autograd.grad(sum(x.square().sum() for x in gradients), learned, allow_unused=True)
        )
    if dropout:  # which draws other numbers in float64
        second_gradients[2] = second_gradients[1]
    for ours, _, exact in zip(*second_gradients, strict=True):
        assert_close(ours.double(), exact.double(), 5e-3 * max(1.0, float(exact.abs().max())))


def test_out_of_memory_raises_memory_error(monkeypatch):
    class Nothing:
        def molattn_blocks_forward(self, *_):
            return 1

    blocks, graph = [block.float() for block in make_blocks()], single(make_graph((6, 9)))
    monkeypatch.setattr(LIBRARY, "loaded", Nothing())
    with torch.no_grad(), pytest.raises(MemoryError, match="no memory is left"):
        run_compiled(blocks, graph)


def test_saved_activations_are_seen_by_hooks_of_saved_tensors_and_freed_after_the_gradient():
    class Box:
        def __init__(self, x):
            self.x = x

    boxes, sizes = [], []

    def pack(x):
        box = Box(x)
        boxes.append(weakref.ref(box))
        sizes.append(x.numel())
        return box

    blocks, graph = [block.float() for block in make_blocks()], single(make_graph((6, 9)))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda box: box.x):
        whole = run_compiled(blocks, graph)
    assert max(sizes) > max(x.numel() for x in (graph.v, graph.e, *blocks[0].parameters()))
    whole.sum().backward()
    assert whole.grad_fn is not None and not any(box() for box in boxes)


def test_weights_modified_before_backward_are_detected():
    blocks, graph = [block.float() for block in make_blocks()], single(make_graph((6, 9)))
    whole = run_compiled(blocks, graph)
    with torch.no_grad():
        blocks[0].phi_e.w_q.weight.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        whole.sum().backward()


def test_no_dropout_in_evaluation():
    blocks, graph = [block.float() for block in make_blocks(dropout=0.3)], single(make_graph((6, 21, 9)))
    without = [block.float() for block in make_blocks()]  # of the same weights
    noisy = run_compiled(blocks, graph)
    for block in blocks:
        block.eval()
    assert_identical(run_compiled(blocks, graph), run_compiled(without, graph))
    assert (noisy - run_compiled(without, graph)).abs().max() > 0.1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, ""),
        ({"edge_roles": ("keys", "values")}, ""),
        ({"edge_roles": ("values", "bias")}, "edges that are not part of keys and values"),
        ({"edge_roles": ("keys", "bias")}, "edges that are not part of keys and values"),
        ({"edge_roles": ("keys", "values", "logits")}, "edges that are not part of keys and values"),
        ({"score": "dot"}, "a score other than scaled_dot, or a normalizer other than softmax"),
        ({"normalizer": "sparsemax"}, "a score other than scaled_dot, or a normalizer other than softmax"),
        ({"bias": True}, "a bias of w_q"),
        ({"global_dim": 3}, "graph features (global_dim)"),
    ],
    ids=str,
)
def test_only_the_default_attention_is_fused(options, reason):
    phi_e = AttentionEdgeUpdate(32, 4, 8, 4, **options)
    assert phi_e.fused_unsupported_reason() == reason
    block = GraphNetBlock(32, 4, 4, phi_e=phi_e)
    assert block.fused_unsupported_reason(4) == fused_unsupported_reason([block], 4) == reason
    assert block.fused_unsupported_reason(5)  # edges of other channels
