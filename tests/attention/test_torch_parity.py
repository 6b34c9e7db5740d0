"""MultiHeadAttention from and to torch.nn.MultiheadAttention, in every setting.

The layer computed by hand is in tests/documents.
"""

import pytest
import torch
from torch import nn
from torch.ao.nn.quantized.dynamic import Linear as DynamicallyQuantized
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from molattn.attention import ConcatHeads, MultiHeadAttention, Softmax
from tests.adapters import Wrapped
from tests.assertions import assert_close, assert_identical

F64 = torch.float64
TOL = 1e-12
MASKS = ["none", "boolean", "float", "padding", "boolean and padding", "causal"]


def torch_layer(embed_dim, heads, **settings):
    """torch's layer with nonzero biases (torch initializes them with zeros)."""
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(embed_dim, heads, dtype=F64, **settings).eval()
    if layer.in_proj_bias is not None:
        nn.init.normal_(layer.in_proj_bias)
        nn.init.normal_(layer.out_proj.bias)
    return layer


def ask_theirs(layer, q, k, v, **masks):
    """Outputs with the batch first, and the weights of every head."""
    if not layer.batch_first:
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    output, weights = layer(q, k, v, average_attn_weights=False, **masks)
    return (output if layer.batch_first else output.transpose(0, 1)), weights


def masks_for(kind, heads, batch, i, j):
    """The same mask as ours (True or a finite number where allowed) and as torch's, with a valid key in each row."""
    g = torch.Generator().manual_seed(1)
    allowed = torch.rand(i, j, generator=g) > 0.4
    allowed[:, 0] = True
    real = torch.arange(j) < torch.tensor([2, j, 3])[:batch, None]
    padding = real[:, None, None, :]
    past = torch.ones(i, j, dtype=torch.bool).tril()
    if kind == "boolean":
        return allowed, {"attn_mask": ~allowed}
    if kind == "float":
        added = torch.randn(batch, heads, i, j, generator=g, dtype=F64).masked_fill(~allowed, -torch.inf)
        return added, {"attn_mask": added.flatten(0, 1)}
    if kind == "padding":
        return padding, {"key_padding_mask": ~real}
    if kind == "boolean and padding":
        return allowed & padding, {"attn_mask": ~allowed, "key_padding_mask": ~real}
    if kind == "causal":
        return past, {"attn_mask": ~past}
    return None, {}


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("dims", [{}, {"kdim": 5, "vdim": 7}, {"kdim": 5}], ids=["same", "kdim vdim", "kdim"])
@pytest.mark.parametrize("mask", MASKS)
def test_torch_parity_both_ways(heads, bias, batch_first, dims, mask):
    theirs = torch_layer(8, heads, bias=bias, batch_first=batch_first, **dims)
    ours = MultiHeadAttention.from_torch(theirs)
    q, k, v = (torch.randn(3, n, c, dtype=F64) for n, c in ((4, 8), (5, dims.get("kdim", 8)), (5, dims.get("vdim", 8))))
    our_mask, their_masks = masks_for(mask, heads, 3, 4, 5)
    expected, expected_weights = ask_theirs(theirs, q, k, v, **their_masks)
    output, weights = ours(q, k, v, our_mask, return_weights=True)
    assert_close(output, expected, TOL)
    assert_close(weights, expected_weights, TOL)
    assert_close(ours(q, k, v, our_mask), expected, TOL)
    back = ours.to_torch()
    assert back.batch_first
    for there, here in zip(theirs.state_dict().items(), back.state_dict().items(), strict=True):
        assert there[0] == here[0]
        assert_identical(here[1], there[1])
    assert_close(ask_theirs(back, q, k, v, **their_masks)[0], output, TOL)


def test_an_input_without_a_batch_as_torch_takes_it():
    theirs = torch_layer(8, 2)
    x, y = torch.randn(4, 8, dtype=F64), torch.randn(5, 8, dtype=F64)
    expected, expected_weights = theirs(x, y, y, average_attn_weights=False)
    output, weights = MultiHeadAttention.from_torch(theirs)(x, y, return_weights=True)
    assert_close(output, expected)
    assert_close(weights, expected_weights)


def test_it_has_the_gradients_of_torch():
    theirs = torch_layer(8, 2, batch_first=True)
    ours = MultiHeadAttention.from_torch(theirs)
    x = torch.randn(2, 4, 8, dtype=F64, requires_grad=True)
    of_theirs = torch.autograd.grad(theirs(x, x, x)[0].sin().sum(), [x, *theirs.parameters()])
    projections = [ours.q_proj, ours.k_proj, ours.v_proj]
    last = ours.join.linear
    wanted = [x, *[p.weight for p in projections], *[p.bias for p in projections], last.weight, last.bias]
    of_ours = torch.autograd.grad(ours(x).sin().sum(), wanted)
    by_name = dict(zip([name for name, _ in theirs.named_parameters()], of_theirs[1:], strict=True))
    assert_close(of_ours[0], of_theirs[0])
    assert_close(torch.cat(of_ours[1:4]), by_name["in_proj_weight"])
    assert_close(torch.cat(of_ours[4:7]), by_name["in_proj_bias"])
    assert_close(of_ours[7], by_name["out_proj.weight"])
    assert_close(of_ours[8], by_name["out_proj.bias"])


def test_dropout_dtype_and_mode_are_converted_and_the_weights_are_copies():
    theirs = nn.MultiheadAttention(8, 2, dropout=0.25)
    ours = MultiHeadAttention.from_torch(theirs)
    assert ours.dropout == 0.25 and ours.training and ours.q_proj.weight.dtype == torch.float32
    back = ours.eval().to_torch()
    assert back.dropout == 0.25 and not back.training
    assert not MultiHeadAttention.from_torch(back).training
    with torch.no_grad():
        ours.q_proj.weight.zero_()
    assert theirs.in_proj_weight[:8].abs().min() > 0 and back.in_proj_weight[:8].abs().min() > 0


@pytest.mark.parametrize("dims", [{}, {"kdim": 6, "vdim": 5}])
def test_frozen_parameters_stay_frozen(dims):
    theirs = nn.MultiheadAttention(8, 2, **dims)
    theirs.out_proj.weight.requires_grad_(False)
    (theirs.in_proj_weight if not dims else theirs.q_proj_weight).requires_grad_(False)
    ours = MultiHeadAttention.from_torch(theirs)
    assert not ours.q_proj.weight.requires_grad and not ours.join.linear.weight.requires_grad
    assert ours.k_proj.weight.requires_grad == bool(dims) and ours.q_proj.bias.requires_grad
    frozen = {name: p.requires_grad for name, p in theirs.named_parameters()}
    assert {name: p.requires_grad for name, p in ours.to_torch().named_parameters()} == frozen


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("parametrization", [weight_norm, spectral_norm])
def test_a_parametrized_weight_stays_trainable_or_frozen(parametrization, frozen):
    ours = MultiHeadAttention(8, 2).to(F64).eval()
    x = torch.randn(2, 3, 8, dtype=F64)
    for linear in (ours.k_proj, ours.join.linear):
        parametrization(linear).requires_grad_(not frozen)
    for projection in (ours.q_proj, ours.v_proj):
        projection.requires_grad_(not frozen)
    with torch.no_grad():  # whether gradients are on is not the layer's business
        theirs = ours.to_torch()
    assert_close(theirs(x, x, x)[0], ours(x))
    assert all(p.requires_grad is not frozen for p in theirs.parameters())
    parametrization(theirs, "in_proj_weight")
    parametrization(theirs.out_proj)
    theirs.requires_grad_(not frozen)
    back = MultiHeadAttention.from_torch(theirs)
    assert_close(back(x), theirs(x, x, x)[0])
    assert all(p.requires_grad is not frozen for p in back.parameters())


@pytest.mark.parametrize("target", ["to_torch", "to_keras"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_bias_of_the_projections_or_of_the_join_alone_raises(target, bias):
    layer = MultiHeadAttention(8, 2, bias=bias, join=ConcatHeads(2, 4, 8, bias=not bias))
    with pytest.raises(ValueError, match=f"a bias of {'the projections' if bias else 'the join'} alone"):
        getattr(layer, target)()


class Adapted(nn.Linear):
    """A linear layer with an adapter of rank 1, as of LoRA."""

    def __init__(self, linear):
        super().__init__(linear.in_features, linear.out_features)
        self.load_state_dict(linear.state_dict())
        self.a, self.b = nn.Parameter(torch.ones(1, self.in_features)), nn.Parameter(torch.ones(self.out_features, 1))

    def forward(self, x):
        return super().forward(x) + x @ self.a.T @ self.b.T


class DoubledHeads(ConcatHeads):
    def forward(self, x):
        return 2 * super().forward(x)


class DoubledAttention(MultiHeadAttention):
    def forward(self, *inputs, **settings):
        return 2 * super().forward(*inputs, **settings)


class DoubledTheirs(nn.MultiheadAttention):
    def forward(self, *inputs, **settings):
        return 2 * super().forward(*inputs, **settings)[0], None


def quantized(linear):
    return DynamicallyQuantized(linear.in_features, linear.out_features)


def change(layer, name, how):
    """Replace the submodule `name`, or change it in place; the layer itself has no name."""
    module = layer.get_submodule(name)
    if how == "a hook":
        module.register_forward_hook(lambda _module, _inputs, output: 2 * output)
    elif how == "a hook before":
        module.register_forward_pre_hook(lambda _module, inputs: (2 * inputs[0],))
    elif how == "a forward":
        forward = module.forward
        module.forward = lambda *inputs, **settings: 2 * forward(*inputs, **settings)
    else:
        parent, _, last = name.rpartition(".")
        setattr(layer.get_submodule(parent), last, how(module))
    return layer


CHANGES = ["a hook", "a hook before", "a forward"]


@pytest.mark.parametrize("target", ["to_torch", "to_keras"])
@pytest.mark.parametrize(
    ("name", "how"),
    [(name, how) for name in ("q_proj", "v_proj", "join.linear") for how in (*CHANGES, Adapted, Wrapped, quantized)]
    + [(name, how) for name in ("", "join") for how in CHANGES],
)
def test_a_layer_whose_weights_are_not_all_of_it_raises_by_name(target, name, how):
    what = "has a hook or a forward" if isinstance(how, str) else "is a (Adapted|Wrapped|Linear), not a Linear"
    with pytest.raises(ValueError, match=f"^{name or 'the layer'} {what}.*not supported"):
        getattr(change(MultiHeadAttention(8, 2), name, how), target)()


@pytest.mark.parametrize("target", ["to_torch", "to_keras"])
def test_a_subclass_raises_by_name(target):
    with pytest.raises(ValueError, match="join is a DoubledHeads, not a ConcatHeads"):
        getattr(MultiHeadAttention(8, 2, join=DoubledHeads(2, 4, 8)), target)()
    with pytest.raises(ValueError, match="the layer is a DoubledAttention, not a MultiHeadAttention"):
        getattr(DoubledAttention(8, 2), target)()


@pytest.mark.parametrize("how", [*CHANGES, Adapted, Wrapped, quantized])
def test_a_layer_of_torch_whose_weights_are_not_all_of_it_raises_by_name(how):
    theirs = change(nn.MultiheadAttention(8, 2), "out_proj", how)
    with pytest.raises(ValueError, match=r"^out_proj (is a (Adapted|Wrapped|Linear), not a Linear|has a hook)"):
        MultiHeadAttention.from_torch(theirs)
    if isinstance(how, str):
        with pytest.raises(ValueError, match="^the layer has a hook or a forward"):
            MultiHeadAttention.from_torch(change(nn.MultiheadAttention(8, 2), "", how))
    with pytest.raises(ValueError, match="the layer is a DoubledTheirs, not a MultiheadAttention"):
        MultiHeadAttention.from_torch(DoubledTheirs(8, 2))


def test_pruned_weights_are_converted():
    ours, x = MultiHeadAttention(8, 2).to(F64).eval(), torch.randn(2, 3, 8, dtype=F64)
    for linear in (ours.q_proj, ours.join.linear):
        prune.l1_unstructured(linear, "weight", 0.5)
    prune.random_unstructured(ours.q_proj, "weight", 0.5)
    theirs = ours.to_torch()
    assert_close(theirs(x, x, x)[0], ours(x))
    prune.l1_unstructured(theirs, "in_proj_weight", 0.7)
    prune.l1_unstructured(theirs.out_proj, "weight", 0.7)
    assert_close(MultiHeadAttention.from_torch(theirs)(x), theirs(x, x, x)[0])


@pytest.mark.parametrize("setting", ["add_bias_kv", "add_zero_attn"])
def test_keys_that_torch_adds_are_refused(setting):
    with pytest.raises(ValueError, match=setting):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(8, 2, **{setting: True}))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head_dim": 3}, "embed_dim / num_heads"),
        ({"value_head_dim": 3}, "value_head_dim equal to head_dim"),
        ({"output_dim": 5}, "an output of embed_dim"),
        ({"score": "dot"}, "score"),
        ({"normalizer": Softmax(2.0)}, "normalizer"),
        ({"join": "mean"}, "concatenation"),
        ({"key_bias": "per_position", "max_length": 4}, "per position"),
    ],
)
def test_settings_that_torch_lacks_raise_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(8, 2, **settings).to_torch()
