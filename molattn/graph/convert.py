"""Conversion between `TensorDotConv` and PyG's `TransformerConv`."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import TransformerConv

from molattn.attention import scaled_dot, softmax
from molattn.graph.conv import TensorDotConv


def conv_from_pyg(layer: Any) -> TensorDotConv:
    """See `TensorDotConv.from_pyg`."""
    if not isinstance(layer, TransformerConv):
        raise TypeError(f"from_pyg takes a torch_geometric.nn.TransformerConv, not a {type(layer).__name__}")
    widths = layer.lin_key.in_channels, layer.lin_query.in_channels
    unsupported = {
        "several aggregations": not isinstance(layer.aggr, str),
        "lazily initialized weights": min(widths) < 1 or (layer.edge_dim or 0) < 0,
    }
    if any(unsupported.values()):
        names = ", ".join(name for name, has in unsupported.items() if has)
        raise ValueError(f"from_pyg cannot convert a layer with {names}")
    ours = TensorDotConv(
        widths if isinstance(layer.in_channels, tuple) or len(set(widths)) > 1 else widths[0],
        layer.out_channels,
        layer.heads,
        layer.concat,
        layer.beta,
        layer.dropout,
        layer.edge_dim,
        layer.lin_key.bias is not None,
        layer.root_weight,
        share_edge_weight=bool(layer.edge_dim),
        aggr=deepcopy(layer.aggr_module),
        flow=layer.flow,
    )
    ours.aggr = layer.aggr
    ours = ours.to(layer.lin_key.weight).train(layer.training)
    with torch.no_grad():
        for mine, theirs in _parameter_pairs(ours, layer):
            mine.copy_(theirs)
    return ours


def conv_to_pyg(layer: TensorDotConv) -> TransformerConv:
    """See `TensorDotConv.to_pyg`."""
    pair = layer.in_channels if isinstance(layer.in_channels, tuple) else (layer.in_channels,)
    if -1 in (*pair, layer.edge_dim):
        raise ValueError("to_pyg needs initialized weights: call the layer once, to infer its in_channels and edge_dim")
    w_ke, w_ve = layer.phi_e.w_ke, layer.phi_e.w_ve
    same_edge_weight = w_ke is None or w_ve is None or w_ke is w_ve or torch.equal(w_ke.weight, w_ve.weight)
    unsupported = {
        "graph features": layer.global_dim is not None,
        "edge roles other than keys and values": layer.edge_dim and {"keys", "values"} != set(layer.edge_roles),
        "a W_ve other than its W_ke": not same_edge_weight,
        "another score or normalizer": layer.phi_e.score is not scaled_dot or layer.phi_e.normalizer != softmax,
    }
    if any(unsupported.values()):
        names = ", ".join(name for name, has in unsupported.items() if has)
        raise ValueError(f"to_pyg cannot convert a layer with {names}")
    theirs = TransformerConv(
        layer.in_channels,
        layer.out_channels,
        layer.heads,
        layer.concat,
        layer.beta,
        layer.dropout,
        layer.edge_dim,
        layer.bias,
        layer.root_weight,
        aggr=deepcopy(layer.aggr_module),
        flow=layer.flow,
    )
    theirs.aggr = layer.aggr
    theirs = theirs.to(layer.phi_e.w_q.weight).train(layer.training)
    with torch.no_grad():
        for mine, other in _parameter_pairs(layer, theirs):
            other.copy_(mine)
    return theirs


def _parameter_pairs(ours: TensorDotConv, theirs: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs of a parameter of a TensorDotConv and the corresponding one of a TransformerConv, to copy either way."""
    phi_e = ours.phi_e
    pairs = [(phi_e.w_q, theirs.lin_query), (phi_e.w_k, theirs.lin_key), (phi_e.w_v, theirs.lin_value)]
    pairs += [(phi_e.w_ke, theirs.lin_edge), (ours.w_root, theirs.lin_skip), (ours.w_beta, theirs.lin_beta)]
    for mine, other in pairs:
        if mine is None:
            continue
        yield mine.weight, other.weight
        if mine.bias is not None:
            yield mine.bias, other.bias
    # TransformerConv resets the parameters of its aggregation when it is constructed.
    yield from zip(ours.aggr_module.parameters(), theirs.aggr_module.parameters(), strict=True)
