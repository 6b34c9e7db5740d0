"""The layers of a Transformer: feed-forward network, residual connection, encoder layer and decoder layer."""

from collections.abc import Callable
from typing import ClassVar, Literal, overload

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from molattn.attention import MultiHeadAttention
from molattn.attention.arguments import check_sizes, resolve_name
from molattn.attention.dropout import Dropout
from molattn.sequence.caches import DecoderLayerCache, KVCache
from molattn.sequence.embedding import zero_nonfinite_padding

Activation = Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu}
"""The activations of `FeedForward` by name."""


class FeedForward(nn.Module):
    """Position-wise feed-forward network: the same two linear layers at every position.

    y = f(x W_1 + b_1) W_2 + b_2

    Args:
        d_model: channels of input and output.
        hidden_dim: channels between the two layers.
        activation: f, a name in `ACTIVATIONS` or a function.
        dropout: dropout probability after f, in training.
        bias: whether the linear layers have biases b_1 and b_2.

    Raises:
        ValueError: the activation is unknown; a size is below 1; dropout is not in [0, 1].

    Shapes: (..., d_model) -> (..., d_model). Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.3.

    >>> import torch
    >>> from molattn.sequence import FeedForward
    >>> feed_forward, x = FeedForward(d_model=4, hidden_dim=16), torch.randn(2, 5, 4)
    >>> torch.allclose(feed_forward(x)[:, 3], feed_forward(x[:, 3]), atol=1e-5)  # independent of other positions
    True
    """

    def __init__(
        self,
        d_model: int,
        hidden_dim: int,
        activation: str | Activation = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ):
        super().__init__()
        check_sizes(d_model=d_model, hidden_dim=hidden_dim)
        self.activation = resolve_name(activation, ACTIVATIONS, "activation")
        self.linear_1 = nn.Linear(d_model, hidden_dim, bias=bias)
        self.linear_2 = nn.Linear(hidden_dim, d_model, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
        """y, (..., d_model), from `x`, (..., d_model)."""
        return self.linear_2(self.dropout(self.activation(self.linear_1(x))))


class Residual(nn.Module):
    """The residual connection and layer norm around a sublayer.

    post-norm:                y = norm(x + sublayer(x))
    pre-norm (`norm_first`):  y = x + sublayer(norm(x))

    Usage: y = residual.add_output(x, sublayer(residual.sublayer_input(x))).

    Args:
        d_model: channels.
        dropout: dropout probability of the sublayer output, in training.
        norm_first: pre-norm if True, post-norm if False.
        layer_norm_eps: eps of the layer norm, added to the variance.
        bias: whether the layer norm has a bias.

    Raises:
        ValueError: d_model is below 1; dropout is not in [0, 1].

    Shapes: (..., d_model) -> (..., d_model). Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1; pre-norm:
    Xiong et al. 2020, arXiv:2002.04745.

    >>> import torch
    >>> from molattn.sequence import FeedForward, Residual
    >>> residual, sublayer = Residual(d_model=4, norm_first=True), FeedForward(d_model=4, hidden_dim=16)
    >>> x = torch.randn(2, 5, 4)
    >>> y = residual.add_output(x, sublayer(residual.sublayer_input(x)))
    >>> torch.allclose(y, x + sublayer(residual.norm(x)))
    True
    """

    def __init__(
        self,
        d_model: int,
        dropout: float = 0.0,
        norm_first: bool = False,
        layer_norm_eps: float = 1e-5,
        bias: bool = True,
    ):
        super().__init__()
        check_sizes(d_model=d_model)
        self.norm = nn.LayerNorm(d_model, eps=layer_norm_eps, bias=bias)
        self.dropout = Dropout(dropout)
        self.norm_first = norm_first

    def sublayer_input(self, x: Tensor) -> Tensor:
        """The input of the sublayer: norm(x) if pre-norm, else x."""
        return self.norm(x) if self.norm_first else x

    def add_output(self, x: Tensor, output: Tensor) -> Tensor:
        """x + dropout(output), normalized if post-norm; `output` is that of the sublayer, of the shape of `x`."""
        x = x + self.dropout(output)
        return x if self.norm_first else self.norm(x)


class _Layer(nn.Module):
    """The sublayers of an encoder or decoder layer, each within a `Residual`."""

    has_cross_attention: ClassVar[bool] = False

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        hidden_dim: int | None = None,
        *,
        head_dim: int | None = None,
        activation: str | Activation = "relu",
        norm_first: bool = False,
        dropout: float = 0.0,
        layer_norm_eps: float = 1e-5,
        bias: bool = True,
    ):
        super().__init__()
        hidden_dim = 4 * d_model if hidden_dim is None else hidden_dim
        self.self_attention = MultiHeadAttention(d_model, num_heads, head_dim=head_dim, dropout=dropout, bias=bias)
        if self.has_cross_attention:
            self.cross_attention = MultiHeadAttention(d_model, num_heads, head_dim=head_dim, dropout=dropout, bias=bias)
        self.feed_forward = FeedForward(d_model, hidden_dim, activation, dropout, bias)
        self.self_attention_residual = Residual(d_model, dropout, norm_first, layer_norm_eps, bias)
        if self.has_cross_attention:
            self.cross_attention_residual = Residual(d_model, dropout, norm_first, layer_norm_eps, bias)
        self.feed_forward_residual = Residual(d_model, dropout, norm_first, layer_norm_eps, bias)

    def _add_feed_forward(self, x: Tensor) -> Tensor:
        """`x` after the feed-forward network and its residual connection."""
        return self.feed_forward_residual.add_output(x, self.feed_forward(self.feed_forward_residual.sublayer_input(x)))


class EncoderLayer(_Layer):
    """One layer of the encoder: self-attention and feed-forward network, each within a `Residual`.

    x = residual(x, self-attention);    x = residual(x, feed-forward)

    Args:
        d_model: channels.
        num_heads: number of attention heads.
        hidden_dim: hidden channels of the feed-forward network; 4 * d_model by default.
        head_dim: channels of one head; d_model / num_heads by default.
        activation: activation of the feed-forward network, a name in `ACTIVATIONS` or a function.
        norm_first: pre-norm if True, post-norm if False.
        dropout: dropout probability of attention weights, sublayer outputs and the hidden channels of the feed-forward
            network, in training.
        layer_norm_eps: eps of the layer norms, added to the variance.
        bias: whether the linear layers and the layer norms have biases.

    Raises:
        ValueError: the activation is unknown; head_dim is None and num_heads does not divide d_model; a size is below
            1; dropout is not in [0, 1).

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1.

    >>> import torch
    >>> from molattn.sequence import EncoderLayer, padding_mask
    >>> layer, x = EncoderLayer(d_model=8, num_heads=2), torch.randn(1, 3, 8)
    >>> y, weights = layer(x, padding_mask(torch.tensor([[True, True, False]])), return_weights=True)
    >>> tuple(y.shape), tuple(weights.shape), weights[..., 2].any().item()  # no token attends to the padding
    ((1, 3, 8), (1, 2, 3, 3), False)
    """

    @overload
    def forward(self, x: Tensor, mask: Tensor | None = None, return_weights: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(
        self, x: Tensor, mask: Tensor | None = None, *, return_weights: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...

    def forward(
        self, x: Float[Tensor, "b n d"], mask: Tensor | None = None, return_weights: bool = False
    ) -> Float[Tensor, "b n d"] | tuple[Float[Tensor, "b n d"], Float[Tensor, "b h n n"]]:
        """The output of the layer and, with `return_weights`, its attention weights.

        NaN and infinity in rows of x that no query attends to, such as padding, do not reach other rows or gradients.

        Args:
            x: (batch, n, d_model).
            mask: broadcastable to (batch, heads, n, n), of 2 or 4 dimensions; boolean, True where a query may attend,
                or float, added to the logits.
            return_weights: also return the weights of every head.

        Returns:
            (batch, n, d_model); with `return_weights` also the weights, (batch, heads, n, n).

        Raises:
            ValueError, TypeError: the mask is wrong, as for `MultiHeadAttention`.
        """
        x = zero_nonfinite_padding(x, mask)
        h, weights = self.self_attention_residual.sublayer_input(x), None
        if return_weights:
            output, weights = self.self_attention(h, mask=mask, return_weights=True)
        else:
            output = self.self_attention(h, mask=mask)
        x = self.self_attention_residual.add_output(x, output)
        x = self._add_feed_forward(x)
        return x if weights is None else (x, weights)

    @classmethod
    def from_torch(cls, layer: nn.TransformerEncoderLayer) -> "EncoderLayer":
        """A layer with the weights, settings, dtype, device and training mode of torch's.

        It is always batch-first, and its boolean mask is the negation of torch's, with the padding included:
        `padding_mask(~src_key_padding_mask) & ~src_mask`.

        Raises:
            TypeError: `layer` is not a `torch.nn.TransformerEncoderLayer`.
            ValueError: torch's layer has a feature that is not supported, such as a hook or a subclass; the message
                names it.
        """
        from molattn.sequence.convert import encoder_layer_from_torch

        return encoder_layer_from_torch(layer)


class DecoderLayer(_Layer):
    """One layer of the decoder: self-attention, cross-attention to the encoder output (memory), feed-forward network.

    x = residual(x, self-attention);    x = residual(x, cross-attention);    x = residual(x, feed-forward)

    It is not causal by default: pass a `causal_mask` or a `causal_padding_mask`.

    Args:
        d_model, num_heads, hidden_dim, head_dim, activation, norm_first, dropout, layer_norm_eps, bias: those of
            `EncoderLayer`, the same for both attentions.

    Raises:
        ValueError: as for `EncoderLayer`.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1.

    >>> import torch
    >>> from molattn.sequence import DecoderLayer, causal_mask
    >>> layer, x, memory = DecoderLayer(d_model=8, num_heads=2), torch.randn(1, 4, 8), torch.randn(1, 6, 8)
    >>> y, (self_weights, cross_weights) = layer(x, memory, causal_mask(4), return_weights=True)
    >>> torch.equal(self_weights, self_weights.tril()), tuple(cross_weights.shape)
    (True, (1, 2, 4, 6))
    """

    has_cross_attention = True
    cross_attention: MultiHeadAttention
    cross_attention_residual: Residual

    def init_cache(self, memory: Float[Tensor, "b m d"]) -> DecoderLayerCache:
        """The cache before the first target token, from the encoder output `memory`, (batch, m, d_model)."""
        projected = KVCache(*self.cross_attention.project_keys_and_values(memory))
        empty = KVCache(projected.k[..., :0, :], projected.v[..., :0, :])
        return DecoderLayerCache(self_attention=empty, cross_attention=projected)

    def forward_with_cache(
        self,
        x: Float[Tensor, "b n d"],
        cache: DecoderLayerCache,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "b n d"], DecoderLayerCache, tuple[Tensor, Tensor] | None]:
        """The output of the layer for the next n target tokens, after the j tokens in the cache.

        Args:
            x: (batch, n, d_model).
            cache: from `init_cache` or the previous call.
            mask: mask of the target, broadcastable to (batch, heads, n, j + n).
            memory_mask: mask of the source, broadcastable to (batch, heads, n, m).
            return_weights: also return the attention weights.

        Returns:
            (batch, n, d_model), the cache of all j + n tokens, and the weights of the two attentions,
            (batch, heads, n, j + n) and (batch, heads, n, m), or None without `return_weights`.

        Raises:
            ValueError, TypeError: a mask is wrong, as for `MultiHeadAttention`.
        """
        h = self.self_attention_residual.sublayer_input(x)
        new = KVCache(*self.self_attention.project_keys_and_values(h, offset=len(cache.self_attention)))
        past = cache.self_attention.append(new)
        output, self_weights = self.self_attention.attend_to(h, past.k, past.v, mask, return_weights=return_weights)
        x = self.self_attention_residual.add_output(x, output)
        h, memory = self.cross_attention_residual.sublayer_input(x), cache.cross_attention
        output, cross_weights = self.cross_attention.attend_to(
            h, memory.k, memory.v, memory_mask, return_weights=return_weights
        )
        x = self.cross_attention_residual.add_output(x, output)
        x = self._add_feed_forward(x)
        weights = None if self_weights is None or cross_weights is None else (self_weights, cross_weights)
        return x, DecoderLayerCache(past, memory), weights

    @overload
    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_weights: Literal[False] = False,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        *,
        return_weights: Literal[True],
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]: ...

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        memory: Float[Tensor, "b m d"],
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> Float[Tensor, "b n d"] | tuple[Float[Tensor, "b n d"], tuple[Tensor, Tensor]]:
        """The output of the layer for all target tokens: `forward_with_cache` from an empty cache.

        NaN and infinity in rows of x or memory that no query attends to, such as padding, do not reach other rows or
        gradients.

        Args:
            x: (batch, n, d_model).
            memory: the encoder output, (batch, m, d_model).
            mask: mask of the target, broadcastable to (batch, heads, n, n), of 2 or 4 dimensions; boolean, True where a
                query may attend, or float, added to the logits.
            memory_mask: mask of the source, broadcastable to (batch, heads, n, m), likewise.
            return_weights: also return the attention weights.

        Returns:
            (batch, n, d_model); with `return_weights` also the weights (batch, heads, n, n) and (batch, heads, n, m).

        Raises:
            ValueError, TypeError: a mask is wrong, as for `MultiHeadAttention`.
        """
        x, memory = zero_nonfinite_padding(x, mask), zero_nonfinite_padding(memory, memory_mask)
        x, _, weights = self.forward_with_cache(x, self.init_cache(memory), mask, memory_mask, return_weights)
        return x if weights is None else (x, weights)

    @classmethod
    def from_torch(cls, layer: nn.TransformerDecoderLayer) -> "DecoderLayer":
        """A layer with the weights, settings, dtype, device and training mode of torch's, as `EncoderLayer.from_torch`.

        Raises:
            TypeError: `layer` is not a `torch.nn.TransformerDecoderLayer`.
            ValueError: torch's layer has a feature that is not supported, such as a hook or a subclass; the message
                names it.
        """
        from molattn.sequence.convert import decoder_layer_from_torch

        return decoder_layer_from_torch(layer)
