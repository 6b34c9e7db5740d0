"""torch's stacks and ours, with the same weights."""

import torch
from torch import nn

from molattn.sequence import Decoder, Encoder

F64 = torch.float64


def randomize(module):
    """No bias is zero and no scale is one, so that a swapped or missing one is detected."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module.to(F64).eval()


def copy_attention(theirs, ours):
    q, k, v = theirs.in_proj_weight.chunk(3)
    q_bias, k_bias, v_bias = theirs.in_proj_bias.chunk(3)
    with torch.no_grad():
        for projection, weight, bias in (
            (ours.q_proj, q, q_bias),
            (ours.k_proj, k, k_bias),
            (ours.v_proj, v, v_bias),
            (ours.join.linear, theirs.out_proj.weight, theirs.out_proj.bias),
        ):
            projection.weight.copy_(weight)
            projection.bias.copy_(bias)


def copy_layer(theirs, ours, decoder):
    copy_attention(theirs.self_attn, ours.self_attention)
    ours.self_attention_residual.norm.load_state_dict(theirs.norm1.state_dict())
    if decoder:
        copy_attention(theirs.multihead_attn, ours.cross_attention)
        ours.cross_attention_residual.norm.load_state_dict(theirs.norm2.state_dict())
    last = theirs.norm3 if decoder else theirs.norm2
    ours.feed_forward_residual.norm.load_state_dict(last.state_dict())
    ours.feed_forward.linear_1.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.linear_2.load_state_dict(theirs.linear2.state_dict())


def pair_of_stacks(decoder, norm_first, activation, num_layers=2, d_model=8, heads=2, hidden=12):
    torch.manual_seed(0)
    layer, stack, of_ours = (
        (nn.TransformerDecoderLayer, nn.TransformerDecoder, Decoder)
        if decoder
        else (nn.TransformerEncoderLayer, nn.TransformerEncoder, Encoder)
    )
    more = {} if decoder else {"enable_nested_tensor": False}
    theirs = stack(
        layer(d_model, heads, hidden, 0.0, activation, batch_first=True, norm_first=norm_first),
        num_layers,
        nn.LayerNorm(d_model) if norm_first else None,
        **more,
    )
    theirs = randomize(theirs)
    ours = of_ours(num_layers, d_model, heads, hidden, activation=activation, norm_first=norm_first).to(F64).eval()
    for their_layer, our_layer in zip(theirs.layers, ours.layers, strict=True):
        copy_layer(their_layer, our_layer, decoder)
    if norm_first:
        ours.norm.load_state_dict(theirs.norm.state_dict())
    return theirs, ours
