"""The layers of a Transformer: feed-forward, the way around a sublayer, the encoder's layer and the decoder's."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, overload

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from molattn.attention import MultiHeadAttention
from molattn.attention.arguments import check_sizes
from molattn.attention.dropout import Dropout
from molattn.sequence.cache import KeyValues
from molattn.sequence.masks import without_garbage

Activation = Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu}


class FeedForward(nn.Module):
    """Point-wise feed-forward: the same two linear maps at every position.

    y = f(x W_1 + b_1) W_2 + b_2

    Args:
        d_model: channels in and out.
        hidden_dim: channels between the two.
        activation: f, a name in `ACTIVATIONS` or a function.
        dropout: after f, in training.
        bias: whether there are b_1 and b_2.

    Raises:
        ValueError: an unknown activation; a size below 1.

    Shapes: (..., d_model) -> (..., d_model). Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.3.
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
        if isinstance(activation, str) and activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise ValueError(f"unknown activation {activation!r}: choose one of {known}, or pass a function")
        self.f = ACTIVATIONS[activation] if isinstance(activation, str) else activation
        self.linear_1 = nn.Linear(d_model, hidden_dim, bias=bias)
        self.linear_2 = nn.Linear(hidden_dim, d_model, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
        return self.linear_2(self.dropout(self.f(self.linear_1(x))))


class Residual(nn.Module):
    """The way around a sublayer: a residual connection, and where the layer norm stands.

    post-norm:                y = norm(x + sublayer(x))
    pre-norm (`norm_first`):  y = x + sublayer(norm(x))

    A sublayer is called between `before` and `after`: y = after(x, sublayer(before(x))).

    Args:
        d_model: channels.
        dropout: on what the sublayer adds, in training.
        norm_first: pre-norm if True, post-norm if False.
        layer_norm_eps: what the layer norm adds to the variance.
        bias: whether the layer norm has one.

    Shapes: (..., d_model) -> (..., d_model). Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1; pre-norm:
    Xiong et al. 2020, arXiv:2002.04745.
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
        self.norm = nn.LayerNorm(d_model, eps=layer_norm_eps, bias=bias)
        self.dropout = Dropout(dropout)
        self.norm_first = norm_first

    def before(self, x: Tensor) -> Tensor:
        """What the sublayer sees."""
        return self.norm(x) if self.norm_first else x

    def after(self, x: Tensor, update: Tensor) -> Tensor:
        """x and what the sublayer made of it, together."""
        x = x + self.dropout(update)
        return x if self.norm_first else self.norm(x)


class EncoderLayer(nn.Module):
    """One block of the encoder.

    x = around(x, self-attention);    x = around(x, feed-forward)        around: `Residual`

    Args:
        d_model: channels.
        num_heads: heads of the attention.
        hidden_dim: channels inside the feed-forward; 4 * d_model by default.
        head_dim: channels of one head; d_model / num_heads by default.
        activation: of the feed-forward, a name in `ACTIVATIONS` or a function.
        norm_first: pre-norm if True, post-norm if False.
        dropout: on weights, on what each sublayer adds and inside the feed-forward, in training.
        layer_norm_eps: what the layer norms add to the variance.
        bias: whether the linear maps and the layer norms have one.

    Raises:
        ValueError: an unknown activation; no head_dim and num_heads does not divide d_model; a size below 1; a dropout
            that is not from 0 to below 1.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1.
    """

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
        self.feed_forward = FeedForward(d_model, hidden_dim, activation, dropout, bias)
        self.around_self = Residual(d_model, dropout, norm_first, layer_norm_eps, bias)
        self.around_feed_forward = Residual(d_model, dropout, norm_first, layer_norm_eps, bias)

    @overload
    def forward(self, x: Tensor, mask: Tensor | None = None, return_weights: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(
        self, x: Tensor, mask: Tensor | None = None, *, return_weights: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...

    def forward(
        self, x: Float[Tensor, "b n d"], mask: Tensor | None = None, return_weights: bool = False
    ) -> Float[Tensor, "b n d"] | tuple[Float[Tensor, "b n d"], Float[Tensor, "b h n n"]]:
        """The block's output and, with `return_weights`, its weights, (batch, heads, n, n).

        Args:
            x: (batch, n, d_model).
            mask: broadcastable to (batch, heads, n, n); boolean, True where a query may attend, or float, added.
            return_weights: also return the weights of every head.

        NaN and infinity in a row of x that nobody may look at, as padding, reach no other row and no gradient.
        """
        x = without_garbage(x, mask)
        seen, weights = self.around_self.before(x), None
        if return_weights:
            update, weights = self.self_attention(seen, mask=mask, return_weights=True)
        else:
            update = self.self_attention(seen, mask=mask)
        x = self.around_self.after(x, update)
        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x if weights is None else (x, weights)

    @classmethod
    def from_torch(cls, layer: nn.TransformerEncoderLayer) -> "EncoderLayer":
        """The layer with the weights, settings, dtype, device and mode of torch's.

        This one always puts the batch first, and takes the opposite of torch's boolean masks, padding with them:
        `padding_mask(~src_key_padding_mask) & ~src_mask`.

        Raises:
            ValueError: torch's layer does what this one does not; the message says what.
        """
        from molattn.sequence.convert import encoder_layer_from_torch

        return encoder_layer_from_torch(layer)


@dataclass(frozen=True)
class LayerCache:
    """What one block of the decoder remembers from token to token.

    Attributes:
        own: keys and values of the target tokens so far, for the self-attention.
        memory: keys and values of the encoder's output, for the cross-attention; projected once.
    """

    own: KeyValues
    memory: KeyValues

    def select(self, rows: Int[Tensor, "m"]) -> "LayerCache":
        """That of the given members of the batch, in that order."""
        return LayerCache(self.own.select(rows), self.memory.select(rows))


class DecoderLayer(nn.Module):
    """One block of the decoder.

    x = around(x, self-attention);    x = around(x, cross-attention to the memory);    x = around(x, feed-forward)

    Args:
        d_model, num_heads, hidden_dim, head_dim, activation, norm_first, dropout, layer_norm_eps, bias: those of
            `EncoderLayer`, for both attentions.

    Raises:
        ValueError: as `EncoderLayer`.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1.
    """

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
        self.cross_attention = MultiHeadAttention(d_model, num_heads, head_dim=head_dim, dropout=dropout, bias=bias)
        self.feed_forward = FeedForward(d_model, hidden_dim, activation, dropout, bias)
        self.around_self = Residual(d_model, dropout, norm_first, layer_norm_eps, bias)
        self.around_cross = Residual(d_model, dropout, norm_first, layer_norm_eps, bias)
        self.around_feed_forward = Residual(d_model, dropout, norm_first, layer_norm_eps, bias)

    def begin(self, memory: Float[Tensor, "b m d"]) -> LayerCache:
        """The cache before the first target token."""
        seen = KeyValues(*self.cross_attention.project_keys_and_values(memory))
        return LayerCache(own=KeyValues(seen.k[..., :0, :], seen.v[..., :0, :]), memory=seen)

    def extend(
        self,
        x: Float[Tensor, "b n d"],
        cache: LayerCache,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> tuple[Float[Tensor, "b n d"], LayerCache, tuple[Tensor, Tensor] | None]:
        """n more target tokens after the j that `cache` remembers.

        Args:
            x: (batch, n, d_model).
            cache: from `begin` or from the call before.
            mask: over the target, broadcastable to (batch, heads, n, j + n).
            memory_mask: over the source, broadcastable to (batch, heads, n, m).
            return_weights: whether the weights are computed.

        Returns:
            (batch, n, d_model), the cache of all j + n tokens, and the weights of the two attentions,
            (batch, heads, n, j + n) and (batch, heads, n, m), None unless asked for.
        """
        seen = self.around_self.before(x)
        new = KeyValues(*self.self_attention.project_keys_and_values(seen, offset=len(cache.own)))
        cache = LayerCache(cache.own.append(new), cache.memory)
        update, own = self.self_attention.attend_to(seen, cache.own.k, cache.own.v, mask, return_weights=return_weights)
        x = self.around_self.after(x, update)
        seen = self.around_cross.before(x)
        update, cross = self.cross_attention.attend_to(
            seen, cache.memory.k, cache.memory.v, memory_mask, return_weights=return_weights
        )
        x = self.around_cross.after(x, update)
        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, cache, None if own is None or cross is None else (own, cross)

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
        """The whole target at once: `extend` from an empty cache.

        NaN and infinity in a row of x or of the memory that nobody may look at, as padding, reach no other row and no
        gradient.

        Returns:
            (batch, n, d_model); with `return_weights` also the weights (batch, heads, n, n) and (batch, heads, n, m).
        """
        x, memory = without_garbage(x, mask), without_garbage(memory, memory_mask)
        x, _, weights = self.extend(x, self.begin(memory), mask, memory_mask, return_weights)
        return x if weights is None else (x, weights)

    @classmethod
    def from_torch(cls, layer: nn.TransformerDecoderLayer) -> "DecoderLayer":
        """The layer with the weights, settings, dtype, device and mode of torch's; as `EncoderLayer.from_torch`.

        Raises:
            ValueError: torch's layer does what this one does not; the message says what.
        """
        from molattn.sequence.convert import decoder_layer_from_torch

        return decoder_layer_from_torch(layer)
