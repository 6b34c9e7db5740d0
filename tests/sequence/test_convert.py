"""Conversion of torch's Transformer layers and stacks, in every setting."""

import inspect

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from molattn.attention import MultiHeadAttention, causal_mask
from molattn.sequence import Decoder, DecoderLayer, Encoder, EncoderLayer, FeedForward, Transformer, padding_mask
from tests.adapters import Wrapped
from tests.assertions import assert_close, assert_identical
from tests.sequence.torch_stacks import F64, randomize

SOURCE = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0], [5, 0, 0, 0, 0]])
TARGET = torch.tensor([[2, 7, 1, 8], [2, 8, 1, 0], [8, 4, 0, 0]])
SETTINGS = [
    {},
    {"norm_first": True},
    {"activation": "gelu", "layer_norm_eps": 0.1},
    {"activation": torch.tanh, "bias": False},
    {"activation": nn.SiLU(), "norm_first": True, "layer_norm_eps": 1e-3, "bias": False},
]
over_settings = pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: ",".join(settings) or "none")


def layer_of(kind, settings, batch_first=True):
    torch.manual_seed(0)
    return kind(8, 2, 12, dropout=0.0, batch_first=batch_first, **settings)


def inputs():
    g = torch.Generator().manual_seed(1)
    return torch.randn(3, 4, 8, generator=g, dtype=F64), torch.randn(3, 5, 8, generator=g, dtype=F64)


@over_settings
@pytest.mark.parametrize("final_norm", [None, nn.LayerNorm(8, eps=0.2)])
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("batch_first", [True, False])
def test_encoders(settings, final_norm, num_layers, batch_first):
    layer = layer_of(nn.TransformerEncoderLayer, settings, batch_first)
    theirs = randomize(nn.TransformerEncoder(layer, num_layers, final_norm, enable_nested_tensor=False))
    ours = Encoder.from_torch(theirs)
    _, x = inputs()
    padding = padding_mask(SOURCE != 0)
    expected = theirs(x if batch_first else x.transpose(0, 1), ~causal_mask(5), SOURCE == 0)
    assert_close(ours(x, padding & causal_mask(5)), expected if batch_first else expected.transpose(0, 1), 1e-10)
    one = theirs.layers[0]
    expected = one(x if batch_first else x.transpose(0, 1))
    assert_close(EncoderLayer.from_torch(one)(x), expected if batch_first else expected.transpose(0, 1), 1e-10)


@over_settings
@pytest.mark.parametrize("final_norm", [None, nn.LayerNorm(8, eps=0.2)])
def test_decoders(settings, final_norm):
    theirs = nn.TransformerDecoder(layer_of(nn.TransformerDecoderLayer, settings), 2, final_norm)
    theirs = randomize(theirs)
    ours = Decoder.from_torch(theirs)
    x, memory = inputs()
    expected = theirs(x, memory, ~causal_mask(4), tgt_key_padding_mask=TARGET == 0, memory_key_padding_mask=SOURCE == 0)
    assert_close(
        ours(x, memory, padding_mask(TARGET != 0) & causal_mask(4), padding_mask(SOURCE != 0)), expected, 1e-10
    )
    assert_close(DecoderLayer.from_torch(theirs.layers[0])(x, memory), theirs.layers[0](x, memory), 1e-10)


@over_settings
def test_a_manually_built_stack_takes_the_same_weights(settings):
    theirs = randomize(nn.TransformerEncoder(layer_of(nn.TransformerEncoderLayer, settings), 2, None, False))
    by_hand = Encoder(2, 8, 2, 12, final_norm=False, **settings).to(F64).eval()
    by_hand.load_state_dict(Encoder.from_torch(theirs).state_dict())
    _, x = inputs()
    assert_close(by_hand(x), theirs(x), 1e-10)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [False, True])
def test_a_transformer_is_built_around_the_two_stacks(norm_first):
    # torch's has a final layer norm in both stacks, pre-norm or not.
    torch.manual_seed(0)
    theirs = randomize(nn.Transformer(8, 2, 2, 1, 12, batch_first=True, norm_first=norm_first))
    ours = Transformer.from_torch(theirs, 10, 11)
    assert not ours.training and ours.output.weight.dtype == F64
    x, y = ours.embed_source(SOURCE), ours.embed_target(TARGET)
    causal = ~causal_mask(4)
    of_theirs = theirs(
        x,
        y,
        tgt_mask=causal,
        src_key_padding_mask=SOURCE == 0,
        tgt_key_padding_mask=TARGET == 0,
        memory_key_padding_mask=SOURCE == 0,
    )
    assert_close(ours(SOURCE, TARGET), ours.output(of_theirs), 1e-10)


def test_dropout_mode_and_dtype_are_converted_and_the_weights_are_copies():
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.25, batch_first=True)
    layer.dropout1.p, layer.dropout.p, layer.dropout2.p = 0.1, 0.2, 0.3
    ours = EncoderLayer.from_torch(layer)
    assert ours.training and ours.self_attention.dropout == 0.25
    assert (
        ours.self_attention_residual.dropout.p,
        ours.feed_forward.dropout.p,
        ours.feed_forward_residual.dropout.p,
    ) == (
        0.1,
        0.2,
        0.3,
    )
    before = [p.clone() for p in ours.parameters()]
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(1.0)
    for p, old in zip(ours.parameters(), before, strict=True):
        assert_identical(p, old)
    assert not EncoderLayer.from_torch(layer.eval()).training


def test_a_frozen_layer_stays_frozen():
    layer = nn.TransformerDecoderLayer(8, 2, 12, batch_first=True).requires_grad_(False)
    assert not any(p.requires_grad for p in DecoderLayer.from_torch(layer).parameters())


def test_unsupported_features_raise_by_name():
    layer = nn.TransformerEncoderLayer(8, 2, 12)
    layer.norm1 = nn.RMSNorm(8)
    with pytest.raises(ValueError, match="RMSNorm"):
        EncoderLayer.from_torch(layer)
    with pytest.raises(ValueError, match="PReLU"):
        DecoderLayer.from_torch(nn.TransformerDecoderLayer(8, 2, 12, activation=nn.PReLU()))
    layer = nn.TransformerDecoderLayer(8, 2, 12)
    layer.multihead_attn = nn.MultiheadAttention(8, 2, add_bias_kv=True)
    with pytest.raises(ValueError, match="add_bias_kv"):
        DecoderLayer.from_torch(layer)
    stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12), 1, nn.BatchNorm1d(8), False)
    with pytest.raises(ValueError, match="BatchNorm1d"):
        Encoder.from_torch(stack)
    stack.layers = nn.ModuleList()
    with pytest.raises(ValueError, match="no layers"):
        Encoder.from_torch(stack)
    with pytest.raises(ValueError, match="custom_encoder"):
        Transformer.from_torch(nn.Transformer(8, 2, custom_encoder=nn.Identity()), 5, 5)


class DoubledLayer(nn.TransformerEncoderLayer):
    def forward(self, *inputs, **settings):
        return 2 * super().forward(*inputs, **settings)


class DoubledStack(nn.TransformerEncoder):
    def forward(self, *inputs, **settings):
        return 2 * super().forward(*inputs, **settings)


class DoubledAttention(nn.MultiheadAttention):
    def forward(self, *inputs, **settings):
        return 2 * super().forward(*inputs, **settings)[0], None


class DoubledModel(nn.Transformer):
    def forward(self, *inputs, **settings):
        return 2 * super().forward(*inputs, **settings)


def doubled(_module, _inputs, output):
    return (2 * output[0], None) if isinstance(output, tuple) else 2 * output


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_what_the_weights_do_not_include_raises_by_name():
    layer = nn.TransformerDecoderLayer(8, 2, 12)
    for name in ("", "self_attn", "multihead_attn", "dropout2", "multihead_attn.out_proj"):
        hook = layer.get_submodule(name).register_forward_hook(doubled)
        named = name.removeprefix("multihead_attn.") or "the layer"
        for convert, theirs in (
            (DecoderLayer.from_torch, layer),
            (Decoder.from_torch, nn.TransformerDecoder(layer, 2)),
        ):
            with pytest.raises(ValueError, match=f"^{named} has a hook or a forward of its own"):
                convert(theirs)
        hook.remove()
    DecoderLayer.from_torch(layer)
    layer.multihead_attn = DoubledAttention(8, 2)
    with pytest.raises(ValueError, match="multihead_attn is a DoubledAttention, not a MultiheadAttention"):
        DecoderLayer.from_torch(layer)
    layer = nn.TransformerEncoderLayer(8, 2, 12)
    layer.dropout1 = nn.Identity()
    with pytest.raises(ValueError, match="dropout1 is a Identity, not a Dropout"):
        EncoderLayer.from_torch(layer)
    with pytest.raises(ValueError, match="the layer is a DoubledLayer, not a TransformerEncoderLayer"):
        Encoder.from_torch(nn.TransformerEncoder(DoubledLayer(8, 2, 12), 1))
    with pytest.raises(ValueError, match="the stack is a DoubledStack, not a TransformerEncoder"):
        Encoder.from_torch(DoubledStack(nn.TransformerEncoderLayer(8, 2, 12), 1))
    with pytest.raises(ValueError, match="the model is a DoubledModel, not a Transformer"):
        Transformer.from_torch(DoubledModel(8, 2, 1, 1, 12), 5, 5)
    model = nn.Transformer(8, 2, 1, 1, 12)
    model.decoder.register_forward_hook(doubled)
    with pytest.raises(ValueError, match="the stack has a hook"):
        Transformer.from_torch(model, 5, 5)


@pytest.mark.parametrize("change", ["a hook", "a wrapper", "a parametrization"])
def test_linear_layers_and_norms_are_copied_with_what_was_added_to_them(change):
    theirs = randomize(nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)).train()
    if change == "a wrapper":
        theirs.linear1, theirs.linear2 = Wrapped(theirs.linear1), Wrapped(theirs.linear2)
    for module in (theirs.linear1, theirs.norm1) if change == "a hook" else ():
        module.register_forward_hook(doubled)
    if change == "a parametrization":
        weight_norm(theirs.linear1)
        weight_norm(theirs.self_attn, "in_proj_weight")
    _, x = inputs()
    assert_close(EncoderLayer.from_torch(theirs)(x), theirs(x), 1e-10)


@pytest.mark.parametrize("kind", [MultiHeadAttention, EncoderLayer, DecoderLayer, Encoder, Decoder, Transformer])
def test_another_module_than_the_one_of_torch_raises_a_type_error(kind):
    vocabularies = (5, 5) if kind is Transformer else ()
    convert = inspect.unwrap(kind.from_torch.__func__)  # whose annotations are not checked
    with pytest.raises(TypeError, match=rf"{kind.__name__}.from_torch takes a torch.nn.\w+, not a Linear"):
        convert(kind, nn.Linear(8, 8), *vocabularies)


@pytest.mark.parametrize(
    ("kind", "stack", "layer"),
    [
        (Encoder, nn.TransformerEncoder, nn.TransformerEncoderLayer),
        (Decoder, nn.TransformerDecoder, nn.TransformerDecoderLayer),
    ],
)
def test_another_layer_in_a_stack_of_torch_raises_a_type_error(kind, stack, layer):
    theirs = stack(layer(8, 2, 12, batch_first=True), 1)
    theirs.layers.append(nn.Linear(8, 8))
    with pytest.raises(TypeError, match=f"a torch.nn.{layer.__name__}, not a Linear"):
        kind.from_torch(theirs)


def test_sizes_are_checked():
    for settings in ({"hidden_dim": 0}, {"hidden_dim": -1}, {"dropout": 1.0}):
        with pytest.raises(ValueError, match=r"at least 1|from 0 to below 1"):
            EncoderLayer(8, 2, **settings)
    with pytest.raises(ValueError, match="d_model"):
        FeedForward(0, 4)


def test_a_misspelled_setting_is_one_of_from_torch():
    with pytest.raises(TypeError, match=r"Transformer.from_torch\(\)"):
        inspect.unwrap(Transformer.from_torch.__func__)(Transformer, nn.Transformer(8, 2, 1, 1), 5, 5, dropuot=0.1)
