"""PyTorch's own tests of attention, restated for ours.

test/nn/test_multihead_attention.py, 15 tests: 12 are restated. Three do not apply: nested tensors; whether torch's fast
path is taken; a bias of another dtype than its weight. `bias_kv` and `add_zero_attn` are refused by name.

test/test_transformers.py, TestTransformers, 26 tests: 17 are restated. Nine do not apply: TorchScript (4), nested
tensors (1), whether the fast path is taken (2), fairseq (1), the kernels of a GPU (1).

The same file, TestSDPAFailureModes and TestSDPA, 29 tests: 14 are restated, some as what works here. Fifteen do
not apply: which kernel is chosen, and which inputs the kernels of a GPU refuse (10); nested tensors (4); two devices.
"""

import inspect

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from molattn.attention import MultiHeadAttention, attend, attention_weights, causal_mask, padding_mask
from molattn.sequence import Decoder, Encoder, EncoderLayer, Transformer
from tests.assertions import assert_close, assert_identical
from tests.sequence.torch_stacks import randomize

F64 = torch.float64


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def softmax_rows(logits, allowed):
    """Row by row, in numpy."""
    weights = np.zeros_like(logits)
    for place in np.ndindex(*logits.shape[:-1]):
        x = np.where(allowed[place], logits[place], -np.inf)
        e = np.exp(x - x.max())
        weights[place] = e / e.sum()
    return weights


def by_numpy(layer, query, key, allowed):
    """Output and weights of a layer, from its parameters, head by head."""
    h, d = layer.num_heads, layer.head_dim
    q, k, v = (
        (x.numpy() @ p.weight.detach().numpy().T + p.bias.detach().numpy()).reshape(*x.shape[:2], h, d)
        for x, p in ((query, layer.q_proj), (key, layer.k_proj), (key, layer.v_proj))
    )
    logits = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(d)
    weights = softmax_rows(logits, np.broadcast_to(allowed, logits.shape))
    heads = np.einsum("bhij,bjhd->bihd", weights, v).reshape(*query.shape[:2], h * d)
    last = layer.join.linear
    return heads @ last.weight.detach().numpy().T + last.bias.detach().numpy(), weights


# test_multihead_attention.py


@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("same_dim", [False, True])
def test_multihead_attention_against_numpy(padding, kept, same_dim):
    # Its nine cases without bias_kv and zero_attn: no mask but that of the queries, padding, and kept keys and values.
    random = np.random.default_rng(0)
    for _ in range(10):
        b, n = random.integers(2, 10, size=2)
        d, h = random.integers(3, 10), 2 * random.integers(2, 5)
        width = d * h if same_dim else random.integers(5, 20)
        theirs = nn.MultiheadAttention(int(d * h), int(h), kdim=int(width), vdim=int(width), dtype=F64)
        layer = MultiHeadAttention.from_torch(randomize(theirs))
        query, key = torch.rand(b, 1, d * h, dtype=F64), torch.rand(b, n, width, dtype=F64)
        mask = torch.from_numpy(random.integers(0, 2, size=(1, n)) == 1)
        mask[0, 0] = True
        if padding:
            there = torch.from_numpy(random.integers(0, 2, size=(b, n)) == 1)
            there[:, 0] = True
            mask = mask & padding_mask(there)
        expected, expected_weights = by_numpy(layer, query, key, mask.numpy())
        if kept:
            output, weights = layer.attend_to(query, *layer.project_keys_and_values(key), mask, return_weights=True)
        else:
            output, weights = layer(query, key, mask=mask, return_weights=True)
        assert weights is not None
        assert_close(output, torch.from_numpy(expected), 1e-10)
        assert_close(weights, torch.from_numpy(expected_weights), 1e-10)
        assert_close(weights.mean(1), torch.from_numpy(expected_weights.mean(1)), 1e-10)


@pytest.mark.parametrize("settings", [{"add_bias_kv": True}, {"add_zero_attn": True}])
def test_bias_kv_and_zero_attn_raise_by_name(settings):
    with pytest.raises(ValueError, match=r"add_bias_kv.*add_zero_attn"):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2, **settings))


def test_a_mask_per_item_equals_the_items_one_by_one():
    b, h, i, j = 8, 4, 2, 3
    layer = MultiHeadAttention(8, h).to(F64)
    query, key = torch.rand(b, i, 8, dtype=F64), torch.rand(b, j, 8, dtype=F64)
    allowed = torch.randint(0, 2, (b, i, j), generator=seeded()) == 1
    mask = torch.zeros(b, i, j, dtype=F64).masked_fill(~allowed, -torch.inf)
    together = layer(query, key, mask=mask.unsqueeze(1))
    for n in range(b):
        assert_close(layer(query[n : n + 1], key[n : n + 1], mask=mask[n])[0], together[n])
    with pytest.raises(ValueError, match="3 dimensions"):
        layer(query, key, mask=mask)


def test_without_bias_there_is_none_and_it_runs():
    layer = MultiHeadAttention(8, 4, bias=False)
    assert layer.q_proj.bias is layer.k_proj.bias is layer.v_proj.bias is layer.join.linear.bias is None
    assert layer.eval()(torch.rand(2, 2, 8)).isfinite().all()


@pytest.mark.parametrize("training", [True, False])
def test_mismatched_shapes_raise(training):
    layer = MultiHeadAttention(4, 4).train(training)
    # As users call it: without the shape checks that run under pytest.
    forward = inspect.unwrap(MultiHeadAttention.forward)
    batch, alone = torch.randn(4, 4, 4), torch.randn(4, 4)
    with torch.set_grad_enabled(training):
        for query, key, value in (
            (batch, alone, batch),
            (batch, batch, alone),
            (alone, batch, alone),
            (alone, alone, batch),
            (batch, batch[:1], batch[:1]),  # torch raises deep inside
            (batch, batch, batch[:, :3]),
            (batch[0, 0], alone, alone),
        ):
            with pytest.raises(ValueError, match="same batch, or all unbatched|every key needs one value"):
                forward(layer, query, key, value)
        for query, mask in (
            (batch, torch.ones(4)),
            (alone, torch.ones(4)),
            (alone, torch.ones(5, 4, 4)),
            (batch, torch.ones(8)),
        ):
            for each in (mask, mask.bool()):
                with pytest.raises(ValueError, match="mask"):
                    layer(query, mask=each)


def test_two_masks_combine_into_one():
    theirs = nn.MultiheadAttention(14, 7, batch_first=True, dtype=F64).eval()
    layer, x = MultiHeadAttention.from_torch(theirs), torch.rand(8, 5, 14, dtype=F64)
    hidden = torch.randint(0, 2, (5, 5), generator=seeded()).bool()
    padding = torch.randint(0, 2, (8, 5), generator=seeded(1)).bool()
    mask = padding_mask(~padding) & ~hidden
    with torch.no_grad():
        expected, _ = theirs(x, x, x, attn_mask=hidden, key_padding_mask=padding)
        output = layer(x, mask=mask)
    somebody = mask.any(-1)[:, 0]
    assert_close(output[somebody], expected[somebody])
    # Where torch has NaN, this has the bias of the output.
    assert_identical(output[~somebody], layer.join.linear.bias.detach().expand(int((~somebody).sum()), -1))


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16, torch.float, torch.double])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dims", [{}, {"key_dim": 2, "value_dim": 2}, {"bias": False}])
def test_the_output_has_the_shape_and_dtype_of_the_query(dtype, training, dims):
    layer = MultiHeadAttention(16, 8, **dims).to(dtype).train(training)
    query, key = torch.randn(3, 10, 16, dtype=dtype), torch.randn(3, 10, dims.get("key_dim", 16), dtype=dtype)
    output = layer(query, key)
    assert output.shape == query.shape and output.dtype == dtype


# test_transformers.py: layers and stacks


def encoder_pair(batch_first=True, activation="relu", num_layers=2, norm=None):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 16, 0.0, activation, batch_first=batch_first, dtype=F64)
    theirs = nn.TransformerEncoder(layer, num_layers, norm, enable_nested_tensor=False)
    with torch.no_grad():  # known weights
        for p in theirs.parameters():
            p.copy_(torch.cos(torch.arange(p.numel(), dtype=F64)).view(p.shape))
    return theirs, Encoder.from_torch(theirs)


@pytest.mark.parametrize("kind", [torch.bool, F64])
@pytest.mark.parametrize("dims", [None, 2, 4])
@pytest.mark.parametrize("padded", [False, True])
def test_training_and_evaluation_are_the_same_without_dropout_whatever_the_mask(kind, dims, padded):
    layer, x = MultiHeadAttention(8, 4).to(F64), torch.randn(2, 4, 8, dtype=F64)
    shape = {None: (1, 1), 2: (4, 4), 4: (2, 4, 4, 4)}[dims]
    mask = torch.randn(shape, generator=seeded(), dtype=F64)
    mask = mask if kind == F64 else mask > 0
    if padded:
        there = torch.tensor([[True, True, True, False], [True, False, False, False]])
        hidden = ~padding_mask(there)
        mask = mask.expand(2, 4 if dims == 4 else 1, 4, 4)
        mask = mask.masked_fill(hidden, -torch.inf if kind == F64 else False)
    with torch.no_grad():
        assert_identical(layer.eval()(x, mask=mask), layer.train()(x, mask=mask))
    if dims == 2:
        wide = mask.expand(2, 4, 4, 4)
        assert_close(layer(x, mask=wide), layer(x, mask=mask))


@pytest.mark.parametrize("heads", [1, 4, 8])
def test_a_mask_of_all_true_equals_no_mask(heads):
    layer, x = EncoderLayer(8, heads, 32).to(F64), torch.rand(2, 4, 8, dtype=F64)
    assert_close(layer(x, torch.ones(4, 4, dtype=torch.bool)), layer(x))
    assert_close(layer(x, torch.zeros(4, 4, dtype=F64)), layer(x))


@pytest.mark.parametrize("heads", [3, 4])
def test_hooks_of_the_attention_are_called_once(heads):
    layer, seen = EncoderLayer(12, heads, 12).eval(), []
    handle = layer.self_attention.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    with torch.inference_mode():
        layer(torch.rand(2, 4, 12))
    handle.remove()
    layer(torch.rand(2, 4, 12))
    assert len(seen) == 1 and seen[0].shape == (2, 4, 12)


@pytest.mark.parametrize("lengths", [[1, 1, 0], [98, 90], [257, 260]])
@pytest.mark.parametrize("autocast", [False, True])
def test_padding_does_not_change_the_tokens(lengths, autocast):
    # torch compares its fast path, which leaves padding out, with its slow one.
    encoder = randomize(Encoder(2, 12, 4, 12)).float()
    n = max(lengths) + 2
    there = torch.arange(n) < torch.tensor(lengths)[:, None]
    x = torch.rand(len(lengths), n, 12, generator=seeded())
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        together = encoder(x, padding_mask(there))
        assert together.isfinite().all()
        for row, length in enumerate(lengths):
            alone = encoder(x[row : row + 1, :length])
            assert_close(together[row, :length].float(), alone[0].float(), 0.1 if autocast else 1e-4)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("grad", [True, False])
def test_batch_size_equal_to_sequence_length(training, grad):
    theirs, ours = encoder_pair()
    theirs.train(training), ours.train(training)
    x = torch.arange(16, dtype=F64).view(2, 2, 4)
    hidden = torch.tensor([[False, True], [False, False]])
    with torch.set_grad_enabled(grad):
        assert_close(ours(x, ~hidden), theirs(x, hidden), 1e-10)


@pytest.mark.parametrize("num_layers", [1, 2, 6])
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_encoders_of_known_weights(num_layers, norm, training, batch_first):
    theirs, ours = encoder_pair(batch_first, "relu", num_layers, nn.LayerNorm(4, dtype=F64) if norm else None)
    theirs.train(training), ours.train(training)
    x = torch.rand(2, 5, 4, generator=seeded(), dtype=F64)
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[0, 1] = padding[1, 3] = padding[1, 4] = True

    def of_theirs(**masks):
        y = theirs(x if batch_first else x.transpose(0, 1), **masks)
        return y if batch_first else y.transpose(0, 1)

    assert_close(ours(x), of_theirs(), 1e-10)
    nothing = torch.zeros(5, 5, dtype=torch.bool)
    assert_close(ours(x, ~nothing), of_theirs(mask=nothing), 1e-10)
    assert_close(ours(x, padding_mask(torch.ones(2, 5, dtype=torch.bool))), of_theirs(), 1e-10)
    assert_close(ours(x, padding_mask(~padding)), of_theirs(src_key_padding_mask=padding), 1e-10)


def test_padding_and_causal_masks_in_both_stacks():
    there, past = torch.arange(3) < torch.tensor([[3], [2]]), causal_mask(3)
    x, memory = torch.randn(2, 3, 16), torch.randn(2, 3, 16)
    encoder, decoder = Encoder(2, 16, 2, 32, dropout=0.1), Decoder(2, 16, 2, 32, dropout=0.1)
    mask = padding_mask(there) & past
    assert encoder(x, mask).isfinite().all()
    assert decoder(x, memory, mask, padding_mask(there)).isfinite().all()


def test_a_float_causal_mask_equals_the_boolean_one():
    # torch also has a flag, is_causal; here there is only the mask.
    layer, x = EncoderLayer(3, 1, 6).eval(), torch.randn(1, 5, 3)
    added = nn.Transformer.generate_square_subsequent_mask(5)
    assert_close(layer(x, added), layer(x, causal_mask(5)), 1e-6)
    assert (layer(x) - layer(x, added)).abs().max() > 1e-4


def test_causal_attention_of_equal_tokens_is_their_value():
    layer = MultiHeadAttention(4, 1)
    with torch.no_grad():
        for p in layer.parameters():
            p.fill_(1.0) if p.dim() == 2 else p.zero_()
    assert_close(layer(torch.ones(1, 2, 4), mask=causal_mask(2)), torch.full((1, 2, 4), 16.0), 1e-6)


@pytest.mark.parametrize("heads", [1, 8])
@pytest.mark.parametrize("bias", [True, False])
def test_attention_with_a_padding_mask_of_all_true(heads, bias):
    layer, x = MultiHeadAttention(16, heads, bias=bias).eval(), torch.randn(8, 20, 16)
    with torch.no_grad():
        assert_close(layer(x, mask=padding_mask(torch.ones(8, 20, dtype=torch.bool))), layer(x), 1e-5)


def test_sequences_of_padding_only_keep_their_length_and_stay_finite():
    encoder, x = Encoder(3, 16, 4, 32, activation="gelu"), torch.randn(6, 10, 16)
    there = torch.zeros(6, 10, dtype=torch.bool)
    there[0] = True
    output = encoder(x, padding_mask(there))
    assert output.shape == x.shape and output.isfinite().all()


@pytest.mark.parametrize("mask", ["padding", "past"])
def test_training_with_masks(mask):
    torch.manual_seed(0)
    encoder = Encoder(2, 2, 2, 4, activation="gelu")
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1, momentum=0.9)
    layout = padding_mask(torch.tensor([[True, True, False, False]])) if mask == "padding" else causal_mask(4)
    for _ in range(20):
        x = torch.cat([torch.randn(1, 2, 2), torch.zeros(1, 2, 2)], dim=1)
        optimizer.zero_grad()
        loss = (encoder(x, layout)[:, :2] - x[:, :2]).square().mean()
        loss.backward()
        optimizer.step()
        assert loss.isfinite()
    with torch.no_grad():
        assert_identical(encoder.train()(x, layout), encoder.eval()(x, layout))
    for integers in (torch.uint8, torch.int64):
        with pytest.raises(TypeError, match="boolean"):
            encoder(x, layout.to(integers))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_models_without_bias():
    x = torch.randn(2, 3, 8, dtype=F64)
    theirs = nn.Transformer(8, 4, 1, 1, 16, bias=False, batch_first=True, dtype=F64).eval()
    ours = Transformer.from_torch(theirs, 5, 6)
    assert all("bias" not in name for name, _ in (*ours.encoder.named_parameters(), *ours.decoder.named_parameters()))
    assert_close(ours.decoder(x, ours.encoder(x)), theirs(x, x), 1e-10)


# test_transformers.py: scaled_dot_product_attention


@pytest.mark.parametrize("lead", [(5,), (5, 2)])
@pytest.mark.parametrize("mask", ["none", "one for all", "each its own"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [F64, torch.float])
def test_scaled_dot_product_attention(lead, mask, causal, dtype):
    q, k, v = (torch.randn(*lead, n, 6, generator=seeded(), dtype=dtype) for n in (4, 3, 3))
    shape = (4, 3) if mask == "one for all" else (*lead, 4, 3)
    allowed = torch.ones(shape, dtype=torch.bool).tril() if causal else torch.rand(shape, generator=seeded()) > 0.5
    if mask == "none":
        allowed = torch.ones(4, 3, dtype=torch.bool)
    logits = (q @ k.mT / 6**0.5).numpy()
    with np.errstate(invalid="ignore"):
        weights = np.nan_to_num(softmax_rows(logits, np.broadcast_to(allowed.numpy(), logits.shape)))
    expected = torch.from_numpy(weights) @ v
    tol = 1e-12 if dtype == F64 else 1e-5
    for layout in (
        allowed,
        torch.zeros(shape if mask != "none" else (4, 3), dtype=dtype).masked_fill(~allowed, -torch.inf),
    ):
        assert_close(attend(q, k, v, layout), expected, tol)
    if mask == "none":
        assert_close(attend(q, k, v), expected, tol)


@pytest.mark.parametrize("dropout", [0.2, 0.5])
def test_dropout_is_that_of_the_weights(dropout):
    q, k, v = (torch.randn(5, n, 6, generator=seeded(), dtype=F64) for n in (4, 3, 3))
    torch.manual_seed(1)
    found, weights = attend(q, k, v, dropout=dropout, return_weights=True)
    torch.manual_seed(1)
    assert_close(found, torch.dropout(weights, dropout, True) @ v)


@pytest.mark.parametrize("contiguous", [True, False])
def test_gradients_of_interleaved_heads(contiguous):
    packed = torch.randn(2, 4, 3 * 2 * 5, generator=seeded(), dtype=F64, requires_grad=True)

    def f(packed):
        q, k, v = (x.unflatten(-1, (2, 5)).transpose(1, 2) for x in packed.chunk(3, dim=-1))
        return attend(*((x.contiguous() if contiguous else x) for x in (q, k, v)))

    assert gradcheck(f, packed)


@pytest.mark.parametrize("dtype", [F64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [True, False])
def test_the_fused_kernel_is_the_sum_over_weights(dtype, causal):
    tol = {F64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}[dtype]
    of = {}
    for fused in (True, False):
        x = torch.randn(2, 3, 67, 24, generator=seeded(), dtype=F64).to(dtype).requires_grad_()
        q, k, v = x.chunk(3, dim=-1) if fused else x.to(F64).chunk(3, dim=-1)
        mask = causal_mask(67) if causal else None
        output = attend(q, k, v, mask) if fused else attention_weights(q, k, mask) @ v
        output.sum().backward()
        assert x.grad is not None
        of[fused] = output.detach().to(dtype), x.grad
    for fused, plain in zip(of[True], of[False], strict=True):
        assert_close(fused, plain, tol)


@pytest.mark.parametrize("kind", [torch.bool, torch.float32])
@pytest.mark.parametrize("shape", [(1, 1), (1, 34), (27, 1), (27, 34), (2, 1, 1, 34), (1, 3, 27, 1), (2, 3, 27, 34)])
def test_masks_of_every_shape_that_broadcasts(shape, kind):
    q, k, v = (torch.randn(2, 3, n, 8, generator=seeded(1), requires_grad=True) for n in (27, 34, 34))
    mask = torch.randn(shape, generator=seeded())
    mask = mask if kind == torch.float32 else mask > 0
    output = attend(q, k, v, mask)
    expected = attention_weights(q, k, mask) @ v
    assert_close(output, expected, 1e-4)
    for a, b in zip(
        torch.autograd.grad(output.sum(), (q, k, v)), torch.autograd.grad(expected.sum(), (q, k, v)), strict=True
    ):
        assert_close(a, b, 1e-4)


def test_a_band_of_minus_infinity():
    full = torch.full((90, 90), -torch.inf)
    mask = full.triu(1) + full.tril(-10)
    q, k, v = torch.randn(3, 1, 2, 90, 8, generator=seeded())
    band = causal_mask(90) & ~causal_mask(90).tril(-10)
    assert_close(attend(q, k, v, mask), attend(q, k, v, band), 1e-5)


def test_logits_of_any_size_and_sign():
    x = torch.randn(1, 3, 64, 64, generator=seeded(), dtype=F64)
    assert_close(attend(x * -1e4, x, x, score="dot"), torch.softmax(x @ x.mT * -1e4, -1) @ x)
    large = torch.full((1, 1, 1, 64), 133120.0, dtype=torch.bfloat16)
    assert attend(large, large, large).isfinite().all()


def test_inputs_that_gpu_kernels_reject_work_here():
    g = seeded()
    q, k, v = (torch.randn(2, 4, 3, 9, generator=g) for _ in range(3))
    assert_close(attend(q[0], k[0], v[0]), attend(q, k, v)[0], 1e-5)  # three dimensions
    assert_close(attend(q[:1], k, v), attend(q[:1].expand(2, -1, -1, -1), k, v), 1e-5)  # broadcasting
    strided = torch.randn(2, 4, 9, 3, generator=g).mT  # a last dimension that is not contiguous
    assert_close(attend(strided, k, v), attend(strided.contiguous(), k, v), 1e-5)
    no_keys = attend(q, k[:, :, :0], v[:, :, :0])
    assert no_keys.shape == (2, 4, 3, 9) and (no_keys == 0).all()
    assert attend(q[:, :, :0], k, v).shape == (2, 4, 0, 9)
    with torch.autocast("cpu", torch.bfloat16):
        assert_close(attend(q, k, v).float(), attend(q.double(), k.double(), v.double()).float(), 0.05)


def test_inputs_of_different_dtypes_raise():
    q = torch.randn(1, 4, 8, 16)
    k = v = torch.randn(1, 4, 8, 16, dtype=torch.float16)
    for return_weights in (False, True):
        with pytest.raises(RuntimeError):
            attend(q, k, v, return_weights=return_weights)
