"""Stacks of blocks: edges that are not looked up yet, and when blocks run one by one."""

import pytest
import torch

from molattn.attention import record_backends
from molattn.graph import DenseGraph, EdgeEmbedding, GraphNetBlock, fused_unsupported_reason, run_blocks
from tests.assertions import assert_close


def embedding(codes, seed):
    g = torch.Generator().manual_seed(seed)
    table = torch.randn(codes, 8, generator=g)
    return EdgeEmbedding((table,), (torch.randint(codes, (2, 6, 6), generator=g, dtype=torch.uint8),))


def graph_of(e=None):
    v = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(0))
    return DenseGraph(v, torch.arange(6) < torch.tensor([[6], [4]]), e)


def test_the_features_of_a_sum_of_edge_embeddings_are_the_sum_of_theirs():
    parts = [embedding(codes, seed) for seed, codes in enumerate((3, 7, 2))]
    total = parts[0] + parts[1] + parts[2]
    assert [len(table) for table in total.tables] == [3, 7, 2]
    assert_close(total.features(), sum(part.features() for part in parts), 1e-6)


def test_codes_in_the_padding_count_as_0_which_every_table_has():
    mask, table = graph_of().node_mask, torch.randn(1, 8)
    padding = ~(mask.unsqueeze(-1) & mask.unsqueeze(-2))
    edges = EdgeEmbedding((table,), (255 * padding.to(torch.uint8),))
    assert_close(edges.features(mask), table.expand(2, 6, 6, 8), 0.0)
    with pytest.raises(IndexError):
        edges.features()


def test_no_blocks_return_the_graph_and_are_not_fused():
    graph, edges = graph_of(), embedding(3, 0)
    assert run_blocks([], graph) is graph
    after = run_blocks([], graph, edges)
    assert after.v is graph.v and after.e is not None
    assert_close(after.e, edges.features(graph.node_mask))
    assert fused_unsupported_reason([], 8) == "there are no blocks"


def test_a_hook_of_a_block_is_a_reason_against_fusion():
    blocks = [GraphNetBlock(32, 4, 8) for _ in range(2)]
    blocks[1].register_forward_hook(lambda *_: None)
    assert fused_unsupported_reason(blocks, 8) == "a hook of a block"


def test_blocks_run_one_by_one_for_a_compiler_to_trace(monkeypatch):
    torch.manual_seed(0)
    blocks = [GraphNetBlock(32, 4, 8) for _ in range(2)]
    graph = graph_of(torch.randn(2, 6, 6, 8, generator=torch.Generator().manual_seed(1)))
    after = run_blocks(blocks, graph).v[graph.node_mask]
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with record_backends() as calls:
        traced = run_blocks(blocks, graph)
    assert {call.backend for call in calls if call.operation == "blocks"} == {"reference"}
    assert_close(traced.v[graph.node_mask], after, 1e-5)
