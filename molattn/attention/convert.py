"""Conversion of `MultiHeadAttention` from and to the layers of torch and Keras."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from molattn.attention.heads import ConcatHeads
from molattn.attention.multihead import MultiHeadAttention
from molattn.attention.normalize import softmax
from molattn.attention.score import scaled_dot
from molattn.attention.unmodified import check_convertible
from molattn.errors import MissingExtra, UsageError

_LINEAR = (nn.Linear, NonDynamicallyQuantizableLinear)  # the second is torch's out_proj, with the same `forward`


def from_torch(layer: nn.Module) -> MultiHeadAttention:
    """See `MultiHeadAttention.from_torch`."""
    if not isinstance(layer, nn.MultiheadAttention):
        raise TypeError(
            f"MultiHeadAttention.from_torch takes a torch.nn.MultiheadAttention, not a {type(layer).__name__}"
        )
    check_convertible({"the layer": layer}, nn.MultiheadAttention)
    check_convertible({"out_proj": layer.out_proj}, *_LINEAR)
    if layer.bias_k is not None or layer.add_zero_attn:
        raise ValueError(
            "torch's add_bias_kv and add_zero_attn, which add a key that is not in the input, are not supported"
        )
    ours = MultiHeadAttention(
        layer.embed_dim,
        layer.num_heads,
        key_dim=layer.kdim,
        value_dim=layer.vdim,
        bias=layer.in_proj_bias is not None,
        dropout=layer.dropout,
    )
    ours = ours.to(layer.out_proj.weight).train(layer.training)
    with torch.enable_grad():  # a parametrized weight is computed when it is read, and is frozen without gradients
        pairs = list(_parameter_pairs(ours, layer))
    with torch.no_grad():
        for parameter, source, whole in pairs:
            parameter.copy_(source)
            parameter.requires_grad_(whole.requires_grad)
    return ours


def to_torch(layer: MultiHeadAttention) -> nn.MultiheadAttention:
    """See `MultiHeadAttention.to_torch`."""
    join = _concat_join(layer, "torch")
    requirements = {
        "heads of embed_dim / num_heads channels": layer.num_heads * layer.head_dim == layer.embed_dim,
        "value_head_dim equal to head_dim": layer.value_head_dim == layer.head_dim,
        "an output of embed_dim channels": join.linear.out_features == layer.embed_dim,
    }
    if not all(requirements.values()):
        unmet = ", ".join(requirement for requirement, holds in requirements.items() if not holds)
        raise ValueError(f"torch's layer needs {unmet}")
    weight = join.linear.weight
    theirs = nn.MultiheadAttention(
        layer.embed_dim,
        layer.num_heads,
        dropout=layer.dropout,
        bias=layer.q_proj.bias is not None,
        kdim=layer.k_proj.in_features,
        vdim=layer.v_proj.in_features,
        batch_first=True,
        device=weight.device,
        dtype=weight.dtype,
    ).train(layer.training)
    theirs.requires_grad_(False)
    with torch.enable_grad():  # as in from_torch
        pairs = list(_parameter_pairs(layer, theirs))
    with torch.no_grad():
        for parameter, target, whole in pairs:
            target.copy_(parameter)
            # torch has the projections of queries, keys and values in one parameter.
            whole.requires_grad_(whole.requires_grad or parameter.requires_grad)
    return theirs


def from_keras(layer: Any) -> MultiHeadAttention:
    """See `MultiHeadAttention.from_keras`."""
    keras = _import_keras("converting a Keras layer")
    if not isinstance(layer, keras.layers.MultiHeadAttention):
        raise TypeError(f"from_keras takes a keras.layers.MultiHeadAttention, not a {type(layer).__name__}")
    if not layer.built:
        raise ValueError("the Keras layer has no weights yet: call it or build it first")
    config = layer.get_config()
    unsupported = [name for name in ("use_gate", "sliding_window") if config.get(name)]
    if tuple(config["attention_axes"] or (1,)) != (1,):
        unsupported.append("attention_axes")
    if len(config["output_shape"] or (1,)) != 1:
        unsupported.append("output_shape of several dimensions")
    if type(layer) is not keras.layers.MultiHeadAttention:
        unsupported.append(f"the class {type(layer).__name__}")
    unsupported += _changed_kernels(layer, keras.layers.EinsumDense)
    if unsupported:
        raise ValueError(f"a Keras layer with {', '.join(unsupported)} is not supported")
    # Kernels (in, h, d) and biases (h, d) of queries, keys and values, then (h, d, out) and (out,) of the output.
    arrays = [_from_numpy(array) for array in layer.get_weights()]
    kernels = arrays[::2] if config["use_bias"] else arrays
    q, k, v, out = kernels
    ours = MultiHeadAttention(
        q.shape[0],
        q.shape[1],
        head_dim=q.shape[2],
        value_head_dim=v.shape[2],
        key_dim=k.shape[0],
        value_dim=v.shape[0],
        output_dim=out.shape[2],
        bias=config["use_bias"],
        dropout=config["dropout"],
    ).to(q.dtype)
    weights = [kernel.flatten(1).T for kernel in (q, k, v)] + [out.flatten(0, 1).T]
    biases = [bias.flatten() for bias in arrays[1::2]] if config["use_bias"] else [None] * 4
    with torch.no_grad():
        for linear, weight, bias in zip(_linears(ours), weights, biases, strict=True):
            linear.weight.copy_(weight)
            if bias is not None:
                linear.bias.copy_(bias)
    return ours


def to_keras(layer: MultiHeadAttention) -> Any:
    """See `MultiHeadAttention.to_keras`."""
    keras = _import_keras("converting to a Keras layer")
    join = _concat_join(layer, "Keras")
    output_dim = join.linear.out_features
    theirs = keras.layers.MultiHeadAttention(
        num_heads=layer.num_heads,
        key_dim=layer.head_dim,
        value_dim=layer.value_head_dim,
        dropout=layer.dropout,
        use_bias=layer.q_proj.bias is not None,
        output_shape=None if output_dim == layer.embed_dim else output_dim,
        dtype=str(join.linear.weight.dtype).removeprefix("torch."),
    )
    shape = {linear: (None, None, linear.in_features) for linear in (layer.q_proj, layer.k_proj, layer.v_proj)}
    theirs.build(shape[layer.q_proj], shape[layer.v_proj], shape[layer.k_proj])
    arrays = []
    for linear in (layer.q_proj, layer.k_proj, layer.v_proj):
        arrays.append(linear.weight.T.unflatten(1, (layer.num_heads, -1)))
        if linear.bias is not None:
            arrays.append(linear.bias.unflatten(0, (layer.num_heads, -1)))
    arrays.append(join.linear.weight.T.unflatten(0, (layer.num_heads, -1)))
    if join.linear.bias is not None:
        arrays.append(join.linear.bias)
    # numpy has no bfloat16; Keras converts to the dtype of its layer.
    numbers = [array.float() if array.dtype == torch.bfloat16 else array for array in arrays]
    theirs.set_weights([array.detach().cpu().numpy() for array in numbers])
    return theirs


def _changed_kernels(layer: Any, dense: type) -> list[str]:
    """What the sublayers of a Keras layer compute other than the product with their kernel."""
    found = []
    for name in ("query", "key", "value", "output"):
        sublayer = getattr(layer, f"_{name}_dense")
        if type(sublayer) is not dense:
            found.append(f"a {type(sublayer).__name__} as its {name} projection")
        elif getattr(sublayer, "lora_enabled", False):
            found.append(f"LoRA in its {name} projection")
        elif getattr(sublayer, "quantization_mode", None) is not None:
            found.append(f"a quantized {name} projection")
    return found


def _from_numpy(array: np.ndarray) -> Tensor:
    """A tensor of the dtype of an array, which may be the bfloat16 that Keras adds to numpy."""
    if array.dtype.name == "bfloat16":
        return torch.tensor(array.astype(np.float32)).bfloat16()
    return torch.tensor(array)


def _concat_join(layer: MultiHeadAttention, target: str) -> ConcatHeads:
    """The `ConcatHeads` of a layer; a ValueError lists all features of the layer that `target` does not support."""
    unsupported = {
        "a score other than scaled_dot": layer.score is not scaled_dot,
        "a normalizer other than softmax": layer.normalizer != softmax,
        "a key bias per position": layer.key_bias is not None,
        "a join other than concatenation": not isinstance(layer.join, ConcatHeads),
    }
    if any(unsupported.values()) or not isinstance(layer.join, ConcatHeads):
        raise ValueError(
            f"{target} has no layer with {', '.join(what for what, holds in unsupported.items() if holds)}"
        )
    check_convertible({"the layer": layer}, MultiHeadAttention)
    check_convertible({"join": layer.join}, ConcatHeads)
    linears = {f"{name}_proj": getattr(layer, f"{name}_proj") for name in "qkv"}
    check_convertible({**linears, "join.linear": layer.join.linear}, *_LINEAR)
    if (layer.join.linear.bias is None) != (layer.q_proj.bias is None):
        where = "the projections" if layer.join.linear.bias is None else "the join"
        raise ValueError(
            f"{target} has no layer with a bias of {where} alone: all four linear layers have one, or none"
        )
    return layer.join


def _linears(layer: MultiHeadAttention) -> tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear]:
    assert isinstance(layer.join, ConcatHeads)
    return layer.q_proj, layer.k_proj, layer.v_proj, layer.join.linear


def _parameter_pairs(
    ours: MultiHeadAttention, theirs: nn.MultiheadAttention
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Each of our parameters, a view of the matching part of one of torch's parameters, and that parameter."""
    *projections, output = _linears(ours)
    for i, linear in enumerate(projections):
        if theirs.in_proj_weight is not None:
            yield linear.weight, theirs.in_proj_weight.chunk(3)[i], theirs.in_proj_weight
        else:
            weight = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)[i]
            yield linear.weight, weight, weight
        if theirs.in_proj_bias is not None:
            yield linear.bias, theirs.in_proj_bias.chunk(3)[i], theirs.in_proj_bias
    yield output.weight, theirs.out_proj.weight, theirs.out_proj.weight
    if theirs.out_proj.bias is not None:
        yield output.bias, theirs.out_proj.bias, theirs.out_proj.bias


def _import_keras(purpose: str) -> ModuleType:
    try:
        import keras
    except ModuleNotFoundError as error:
        if error.name == "keras":
            raise MissingExtra("Keras", "keras", purpose) from error
        raise UsageError(
            f"Keras cannot start without its backend, {error.name}: set KERAS_BACKEND=torch in the environment"
        ) from error
    return keras
