"""Conversion between `TensorDotConv` and PyG's `TransformerConv`."""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch_geometric.nn import Linear, MessagePassing, TransformerConv

from molattn.attention import MeanHeads, scaled_dot, softmax
from molattn.attention.unmodified import check_convertible
from molattn.graph.conv import MESSAGE_HOOKS, TensorDotConv
from molattn.graph.edge_update import AttentionEdgeUpdate

_LINEAR = (nn.Linear, Linear)  # torch's and PyG's, with the same `forward`


def conv_from_pyg(layer: Any) -> TensorDotConv:
    """See `TensorDotConv.from_pyg`."""
    if not isinstance(layer, TransformerConv):
        raise TypeError(f"from_pyg takes a torch_geometric.nn.TransformerConv, not a {type(layer).__name__}")
    unsupported = {
        "several aggregations": not isinstance(layer.aggr, str),
        "lazily initialized weights": any(map(is_lazy, layer.parameters())) or (layer.edge_dim or 0) < 0,
    }
    if any(unsupported.values()):
        names = ", ".join(name for name, has in unsupported.items() if has)
        raise ValueError(f"from_pyg cannot convert a layer with {names}")
    _check_layer(layer, TransformerConv)
    names = ("lin_query", "lin_key", "lin_value", "lin_edge", "lin_skip", "lin_beta")
    check_convertible({name: getattr(layer, name) for name in names}, *_LINEAR)
    widths = layer.lin_key.weight.shape[1], layer.lin_query.weight.shape[1]
    converted = TensorDotConv(
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
    converted.aggr = layer.aggr
    converted = converted.to(layer.lin_key.weight).train(layer.training)
    _copy_parameters(_parameter_pairs(converted, layer))
    return converted


def conv_to_pyg(layer: TensorDotConv) -> TransformerConv:
    """See `TensorDotConv.to_pyg`."""
    pair = layer.in_channels if isinstance(layer.in_channels, tuple) else (layer.in_channels,)
    if -1 in (*pair, layer.edge_dim):
        raise ValueError("to_pyg needs initialized weights: call the layer once, to infer its in_channels and edge_dim")
    _check_layer(layer, TensorDotConv)
    check_convertible({"phi_e": layer.phi_e}, AttentionEdgeUpdate)
    check_convertible({"join": layer.join}, nn.Identity if layer.concat else MeanHeads)
    linears = {f"phi_e.{name}": getattr(layer.phi_e, name) for name in ("w_q", "w_k", "w_v", "w_ke", "w_ve")}
    check_convertible({**linears, "w_root": layer.w_root, "w_beta": layer.w_beta}, *_LINEAR)
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
    converted = TransformerConv(
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
    converted.aggr = layer.aggr
    converted = converted.to(layer.phi_e.w_q.weight).train(layer.training)
    _copy_parameters((new, old) for old, new in _parameter_pairs(layer, converted))
    return converted


def _check_layer(layer: Any, cls: type[MessagePassing]) -> None:
    """Checks that the layer is of `cls`, and has no hooks, neither torch's nor PyG's."""
    check_convertible({"the layer": layer}, cls)
    hooked = [hooks for hooks in MESSAGE_HOOKS if getattr(layer, hooks)]
    if hooked:
        step = hooked[0].split("_")[1]
        raise ValueError(f"the layer has a hook of its {step}: that is not supported")


def _copy_parameters(pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Copy to the first of each pair the numbers of the second, and whether it is frozen."""
    with torch.enable_grad():  # a parametrized weight is computed when it is read, and is frozen without gradients
        pairs = list(pairs)
    with torch.no_grad():
        for new, old in pairs:
            new.copy_(old).requires_grad_(old.requires_grad)


def _parameter_pairs(tensor_dot: TensorDotConv, transformer: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Each parameter of a TensorDotConv with the corresponding one of a TransformerConv."""
    phi_e = tensor_dot.phi_e
    layers = [
        (phi_e.w_q, transformer.lin_query),
        (phi_e.w_k, transformer.lin_key),
        (phi_e.w_v, transformer.lin_value),
        (phi_e.w_ke, transformer.lin_edge),
        (tensor_dot.w_root, transformer.lin_skip),
        (tensor_dot.w_beta, transformer.lin_beta),
    ]
    for first, second in layers:
        if first is None:
            continue
        yield first.weight, second.weight
        if first.bias is not None:
            yield first.bias, second.bias
    # TransformerConv resets the parameters of its aggregation when it is constructed.
    yield from zip(tensor_dot.aggr_module.parameters(), transformer.aggr_module.parameters(), strict=True)
