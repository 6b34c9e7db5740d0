"""Padding masks and causal masks, separately and combined."""

import inspect

import pytest
import torch

from molattn.attention import (
    MultiHeadAttention,
    attend,
    attention_weights,
    causal_mask,
    causal_padding_mask,
    padding_mask,
)
from tests.assertions import assert_close, assert_identical

F64 = torch.float64


def test_a_causal_mask_masks_later_keys():
    assert causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert_identical(causal_mask(2, 5), causal_mask(5)[3:])
    with pytest.raises(ValueError, match="3 queries cannot be the last of 2"):
        causal_mask(3, 2)


def test_changing_a_later_row_changes_no_earlier_output_bit_for_bit():
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2).to(F64)
    x = torch.randn(2, 5, 8, dtype=F64)
    later = x.clone()
    later[:, 3:] = torch.randn(2, 2, 8, dtype=F64)
    for return_weights in (False, True):
        one, other = (layer(z, mask=causal_mask(5), return_weights=return_weights) for z in (x, later))
        if return_weights:
            assert_identical(one[1][:, :, :3], other[1][:, :, :3])
            one, other = one[0], other[0]
        assert_identical(one[:, :3], other[:, :3])
        assert (one[:, 3:] - other[:, 3:]).abs().min() > 0


def test_masks_combine_and_broadcast_over_heads_and_queries():
    real = torch.tensor([[True, True, False, False], [True] * 4, [False, True, True, False]])
    q = torch.randn(3, 2, 4, 8, generator=torch.Generator().manual_seed(0), dtype=F64)
    weights = attention_weights(q, q, padding_mask(real) & causal_mask(4))
    for b in range(3):
        for i in range(4):
            allowed = [j for j in range(i + 1) if real[b, j]]
            for h in range(2):
                if allowed:
                    assert_close(weights[b, h, i, allowed].sum(), torch.tensor(1.0, dtype=F64))
                others = [j for j in range(4) if j not in allowed]
                assert (weights[b, h, i, others] == 0).all()
    assert (weights[2, :, 0] == 0).all()


def test_causal_padding_mask():
    valid = torch.tensor([[4, 2, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]]) != 0
    mask = causal_padding_mask(valid)
    assert mask.shape == (3, 1, 4, 4)
    for b in range(3):
        for i in range(4):
            for j in range(4):
                assert mask[b, 0, i, j].item() == (j <= i and valid[b, j].item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("separate", [False, True])
def test_the_lowest_number_as_a_bias_does_not_reach_masked_keys(dtype, separate):
    """A float mask with `finfo.min` for pairs that are not to be attended to, as is common, beside minus infinity."""
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True).to(dtype)
    ours, low = MultiHeadAttention.from_torch(theirs), torch.finfo(dtype).min
    x, mask = torch.randn(1, 3, 8).to(dtype), torch.zeros(3, 3, dtype=dtype)
    mask[0] = torch.tensor([low, low, -torch.inf], dtype=dtype)
    mask[1] = torch.tensor([low, 0.0, low], dtype=dtype)
    masks = {"mask": mask > -torch.inf, "bias": mask.clamp(min=low)} if separate else {"mask": mask}
    output, weights = ours(x, **masks, return_weights=True)
    expected, their_weights = theirs(x, x, x, attn_mask=mask, average_attn_weights=False)
    tolerance = 1e-5 if dtype in (torch.float32, F64) else 0.02
    assert_close(weights, their_weights, tol=tolerance)
    assert_close(output, expected, tol=tolerance)
    # Fused attention adds the bias in float32: in float16 it tells apart logits that are equal once they are rounded.
    first = 1 if dtype == torch.float16 else 0
    assert_close(ours(x, **masks)[:, first:], expected[:, first:], tol=tolerance)
    changed = x.clone()
    changed[0, 2] += 100
    assert_close(ours(changed, **masks)[:, 0], ours(x, **masks)[:, 0], tol=tolerance)


@pytest.mark.parametrize("return_weights", [False, True])
def test_a_bias_is_floating_point_and_may_have_another_dtype(return_weights):
    layer, x, bias = MultiHeadAttention(8, 2).bfloat16(), torch.randn(2, 5, 8).bfloat16(), torch.randn(5, 5)
    for keywords in ({"bias": bias}, {"mask": bias.masked_fill(bias < -0.5, -torch.inf)}):
        found = layer(x, **keywords, return_weights=return_weights)
        assert (found[0] if return_weights else found).dtype == torch.bfloat16
    for wrong in (bias > 0, bias.long()):
        with pytest.raises(TypeError, match=r"bias is added to the logits: it has to be floating-point, not torch\."):
            layer(x, bias=wrong, return_weights=return_weights)


@pytest.mark.parametrize("return_weights", [False, True])
def test_a_bias_beyond_the_range_of_the_layer_is_not_a_mask(return_weights):
    """The same number added to all logits changes nothing, also -1e5, which is minus infinity in float16."""
    torch.manual_seed(0)
    layer, x, bias = MultiHeadAttention(8, 2), torch.randn(2, 3, 8), torch.zeros(3, 3)
    bias[1] = -1e5
    found = layer.half()(x.half(), bias=bias, return_weights=return_weights)
    if return_weights:
        assert_close(found[1].float().sum(-1), torch.ones(2, 2, 3), tol=1e-3)
        found = found[0]
    expected = layer.float()(x, bias=torch.zeros(3, 3))
    assert_close(found[:, [0, 2]].float(), expected[:, [0, 2]], tol=1e-2)
    # The weights of the second row depend on the precision of numbers that large, but it attends to its keys.
    assert found.isfinite().all() and (found[:, 1].float() - layer.join.linear.bias).abs().max() > 0.05


@pytest.mark.parametrize("batches", [(1, 3), (3, 1), (2, 3)])
def test_queries_and_cached_keys_of_different_batches_raise(batches):
    layer = MultiHeadAttention(8, 2)
    attend_to = inspect.unwrap(MultiHeadAttention.attend_to)  # without the check of types, which would raise first
    k, v = layer.project_keys_and_values(torch.randn(batches[1], 4, 8))
    with pytest.raises(ValueError, match=r"queries of batch \(\d,\), but keys and values of batch \(\d,\)"):
        attend_to(layer, torch.randn(batches[0], 2, 8), k, v)


def test_a_mask_that_is_no_tensor_is_refused():
    q, k, v = torch.randn(3, 2, 5, 4)
    call = inspect.unwrap(attend)
    for mask, kind in ((causal_mask(5).numpy(), "ndarray"), ([[True]], "list")):
        with pytest.raises(
            TypeError, match=f"the mask is a tensor or a layout, not of type {kind}: pass torch.as_tensor"
        ):
            call(q, k, v, mask)
