"""Conversion of torch's Transformer layers and stacks."""

from copy import deepcopy

import torch.nn.functional as F
from torch import nn

from molattn.attention import MultiHeadAttention
from molattn.attention.unmodified import check_convertible
from molattn.sequence.embedding import ChannelOrder
from molattn.sequence.layers import Activation, DecoderLayer, EncoderLayer, FeedForward, Residual
from molattn.sequence.stacks import Decoder, Encoder
from molattn.sequence.transformer import Transformer


def encoder_layer_from_torch(layer: nn.Module) -> EncoderLayer:
    """See `EncoderLayer.from_torch`."""
    if not isinstance(layer, nn.TransformerEncoderLayer):
        raise TypeError(
            f"EncoderLayer.from_torch takes a torch.nn.TransformerEncoderLayer, not a {type(layer).__name__}"
        )
    _check_layer(layer, nn.TransformerEncoderLayer)
    ours = EncoderLayer(
        layer.self_attn.embed_dim,
        layer.self_attn.num_heads,
        hidden_dim=1,  # of linear layers that are replaced
        activation=_activation(layer),
        norm_first=layer.norm_first,
    )
    ours.self_attention = MultiHeadAttention.from_torch(layer.self_attn)
    _copy_residual(ours.self_attention_residual, layer.norm1, layer.dropout1)
    _copy_residual(ours.feed_forward_residual, layer.norm2, layer.dropout2)
    _copy_feed_forward(ours.feed_forward, layer)
    return ours.train(layer.training)


def decoder_layer_from_torch(layer: nn.Module) -> DecoderLayer:
    """See `DecoderLayer.from_torch`."""
    if not isinstance(layer, nn.TransformerDecoderLayer):
        raise TypeError(
            f"DecoderLayer.from_torch takes a torch.nn.TransformerDecoderLayer, not a {type(layer).__name__}"
        )
    _check_layer(layer, nn.TransformerDecoderLayer)
    ours = DecoderLayer(
        layer.self_attn.embed_dim,
        layer.self_attn.num_heads,
        hidden_dim=1,  # of linear layers that are replaced
        activation=_activation(layer),
        norm_first=layer.norm_first,
    )
    ours.self_attention = MultiHeadAttention.from_torch(layer.self_attn)
    ours.cross_attention = MultiHeadAttention.from_torch(layer.multihead_attn)
    _copy_residual(ours.self_attention_residual, layer.norm1, layer.dropout1)
    _copy_residual(ours.cross_attention_residual, layer.norm2, layer.dropout2)
    _copy_residual(ours.feed_forward_residual, layer.norm3, layer.dropout3)
    _copy_feed_forward(ours.feed_forward, layer)
    return ours.train(layer.training)


def encoder_from_torch(stack: nn.Module) -> Encoder:
    """See `Encoder.from_torch`."""
    if not isinstance(stack, nn.TransformerEncoder):
        raise TypeError(f"Encoder.from_torch takes a torch.nn.TransformerEncoder, not a {type(stack).__name__}")
    check_convertible({"the stack": stack}, nn.TransformerEncoder)
    layers = [encoder_layer_from_torch(layer) for layer in stack.layers]
    ours = Encoder(0, *_sizes(layers))
    ours.layers, ours.norm = nn.ModuleList(layers), _final_norm(stack.norm)
    return ours.train(stack.training)


def decoder_from_torch(stack: nn.Module) -> Decoder:
    """See `Decoder.from_torch`."""
    if not isinstance(stack, nn.TransformerDecoder):
        raise TypeError(f"Decoder.from_torch takes a torch.nn.TransformerDecoder, not a {type(stack).__name__}")
    check_convertible({"the stack": stack}, nn.TransformerDecoder)
    layers = [decoder_layer_from_torch(layer) for layer in stack.layers]
    ours = Decoder(0, *_sizes(layers))
    ours.layers, ours.norm = nn.ModuleList(layers), _final_norm(stack.norm)
    return ours.train(stack.training)


def transformer_from_torch(
    model: nn.Module,
    source_vocab: int,
    target_vocab: int,
    *,
    channel_order: str | ChannelOrder = "concatenated",
    dropout: float = 0.0,
) -> Transformer:
    """See `Transformer.from_torch`."""
    if not isinstance(model, nn.Transformer):
        raise TypeError(f"Transformer.from_torch takes a torch.nn.Transformer, not a {type(model).__name__}")
    if not isinstance(model.encoder, nn.TransformerEncoder) or not isinstance(model.decoder, nn.TransformerDecoder):
        raise ValueError("a torch model with a custom_encoder or custom_decoder is not supported")
    check_convertible({"the model": model}, nn.Transformer)
    encoder, decoder = encoder_from_torch(model.encoder), decoder_from_torch(model.decoder)
    ours = Transformer(
        source_vocab,
        target_vocab,
        model.d_model,
        model.nhead,
        num_layers=0,
        channel_order=channel_order,
        dropout=dropout,
    )
    ours = ours.to(next(model.parameters()))
    ours.encoder, ours.decoder = encoder, decoder
    return ours.train(model.training)


def _sizes(layers: list[EncoderLayer] | list[DecoderLayer]) -> tuple[int, int]:
    """d_model and the number of heads."""
    if not layers:
        raise ValueError("the torch stack has no layers, so its sizes are unknown")
    attention = layers[0].self_attention
    return attention.embed_dim, attention.num_heads


def _check_layer(layer: nn.Module, cls: type[nn.TransformerEncoderLayer] | type[nn.TransformerDecoderLayer]) -> None:
    """Checks the modules of a layer whose settings or weights are read; linear layers and norms are copied whole."""
    check_convertible({"the layer": layer}, cls)
    modules = dict(layer.named_children())
    attentions = {name: module for name, module in modules.items() if name in ("self_attn", "multihead_attn")}
    check_convertible(attentions, nn.MultiheadAttention)
    check_convertible({name: module for name, module in modules.items() if name.startswith("dropout")}, nn.Dropout)


def _activation(layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> str | Activation:
    """The activation of a layer: its name, if it is relu or gelu, or the function itself."""
    f = layer.activation
    if f is F.relu or f is F.gelu:
        return "relu" if f is F.relu else "gelu"
    if isinstance(f, nn.Module) and next(f.parameters(), None) is not None:
        raise ValueError(f"an activation with weights, {type(f).__name__}, is not supported")
    return f


def _copy_feed_forward(ours: FeedForward, layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> None:
    ours.linear_1, ours.linear_2 = deepcopy(layer.linear1), deepcopy(layer.linear2)
    ours.dropout.p = layer.dropout.p


def _copy_residual(ours: Residual, norm: nn.Module, dropout: nn.Dropout) -> None:
    ours.norm, ours.dropout.p = _layer_norm(norm), dropout.p


def _final_norm(norm: nn.Module | None) -> nn.LayerNorm | nn.Identity:
    return nn.Identity() if norm is None else _layer_norm(norm)


def _layer_norm(norm: nn.Module) -> nn.LayerNorm:
    if not isinstance(norm, nn.LayerNorm):
        raise ValueError(f"a {type(norm).__name__} in place of a LayerNorm is not supported")
    return deepcopy(norm)
