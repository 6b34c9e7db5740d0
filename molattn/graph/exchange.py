"""Tensor-dot attention from and to PyG's `TransformerConv`."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import TransformerConv

from molattn.graph.conv import TensorDotConv


def conv_from_pyg(layer: Any) -> TensorDotConv:
    """`TensorDotConv.from_pyg`."""
    if not isinstance(layer, TransformerConv):
        raise TypeError(f"from_pyg reads a torch_geometric.nn.TransformerConv, not a {type(layer).__name__}")
    widths = {layer.lin_key.in_channels, layer.lin_query.in_channels}
    beyond = {
        "beta=True": layer.beta,
        "an aggregation other than 'add'": layer.aggr not in ("add", "sum"),
        "the flow 'target_to_source'": layer.flow != "source_to_target",
        "senders and receivers of different widths": len(widths) > 1,
        "sizes unknown before its first call": min(widths) < 1,
    }
    if any(beyond.values()):
        raise ValueError(f"no TensorDotConv has {', '.join(what for what, holds in beyond.items() if holds)}")
    ours = TensorDotConv(
        widths.pop(),
        layer.out_channels,
        layer.heads,
        layer.concat,
        layer.dropout,
        layer.edge_dim,
        bias=layer.lin_key.bias is not None,
        root_weight=layer.root_weight,
        share_edge_weight=bool(layer.edge_dim),
    )
    ours = ours.to(layer.lin_key.weight).train(layer.training)
    with torch.no_grad():
        for mine, theirs in _same_numbers(ours, layer):
            mine.copy_(theirs)
    return ours


def conv_to_pyg(layer: TensorDotConv) -> TransformerConv:
    """`TensorDotConv.to_pyg`."""
    w_ke, w_ve = layer.phi_e.w_ke, layer.phi_e.w_ve
    one = w_ke is None or w_ve is None or w_ke is w_ve or torch.equal(w_ke.weight, w_ve.weight)
    beyond = {
        "graph features": layer.global_dim is not None,
        "edges as anything but keys and values": layer.edge_dim and {"keys", "values"} != set(layer.edges_as),
        "a W_ve other than its W_ke": not one,
    }
    if any(beyond.values()):
        raise ValueError(f"no TransformerConv has {', '.join(what for what, holds in beyond.items() if holds)}")
    theirs = TransformerConv(
        layer.in_channels,
        layer.out_channels,
        layer.heads,
        layer.concat,
        dropout=layer.dropout,
        edge_dim=layer.edge_dim,
        bias=layer.bias,
        root_weight=layer.root_weight,
    )
    theirs = theirs.to(layer.phi_e.w_q.weight).train(layer.training)
    with torch.no_grad():
        for mine, other in _same_numbers(layer, theirs):
            other.copy_(mine)
    return theirs


def _same_numbers(ours: TensorDotConv, theirs: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Each of our parameters with the one of TransformerConv that holds the same numbers, to read or to write."""
    phi_e = ours.phi_e
    pairs = [(phi_e.w_q, theirs.lin_query), (phi_e.w_k, theirs.lin_key), (phi_e.w_v, theirs.lin_value)]
    pairs += [(phi_e.w_ke, theirs.lin_edge), (ours.w_root, theirs.lin_skip)]
    for mine, other in pairs:
        if mine is None:
            continue
        yield mine.weight, other.weight
        if mine.bias is not None:
            yield mine.bias, other.bias
