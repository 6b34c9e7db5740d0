"""Multi-head attention as a layer: project, attend in every head, join."""

from typing import Literal, overload

from jaxtyping import Float
from torch import Tensor, nn

from molattn.attention.attend import attend
from molattn.attention.heads import ConcatHeads, merge_heads, split_heads


class MultiHeadAttention(nn.Module):
    """Multi-head scaled dot-product attention.

    head_h = attend(x W_q^h, y W_k^h, z W_v^h);    output = [head_1, ..., head_H] W_o

    Args:
        embed_dim: channels of the queries and of the output.
        num_heads: H.
        head_dim: channels of one head; embed_dim / num_heads by default.
        key_dim, value_dim: channels of the keys and the values given to `forward`; embed_dim by default.
        bias: whether the four projections have one.
        dropout: probability of dropping a weight, in training.

    Raises:
        ValueError: head_dim is not given and num_heads does not divide embed_dim.

    Source: Vaswani et al. 2017, arXiv:1706.03762.

    >>> import torch
    >>> layer = MultiHeadAttention(embed_dim=12, num_heads=3)
    >>> output, weights = layer(torch.randn(2, 5, 12), return_weights=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 5, 12), (2, 3, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        head_dim: int | None = None,
        key_dim: int | None = None,
        value_dim: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__()
        if head_dim is None:
            if embed_dim % num_heads:
                raise ValueError(f"{num_heads} heads do not divide embed_dim {embed_dim}: give head_dim")
            head_dim = embed_dim // num_heads
        self.num_heads, self.dropout = num_heads, dropout
        self.q_proj = nn.Linear(embed_dim, num_heads * head_dim, bias=bias)
        self.k_proj = nn.Linear(key_dim or embed_dim, num_heads * head_dim, bias=bias)
        self.v_proj = nn.Linear(value_dim or embed_dim, num_heads * head_dim, bias=bias)
        self.join = ConcatHeads(num_heads, head_dim, embed_dim, bias=bias)

    @overload
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        return_weights: Literal[False] = False,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        *,
        return_weights: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...

    def forward(
        self,
        query: Float[Tensor, "b i d_q"],
        key: Float[Tensor, "b j d_k"] | None = None,
        value: Float[Tensor, "b j d_v"] | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        return_weights: bool = False,
    ) -> Float[Tensor, "b i d_q"] | tuple[Float[Tensor, "b i d_q"], Float[Tensor, "b h i j"]]:
        """Attend from `query` to `key` and return the values found there.

        Args:
            query: (batch, i, embed_dim).
            key: (batch, j, key_dim); the query by default (self-attention).
            value: (batch, j, value_dim); the key by default.
            mask: broadcastable to (batch, H, i, j); boolean, True where a query may attend, or float, added.
            bias: finite, broadcastable to (batch, H, i, j), added to the logits.
            return_weights: also return the weights of every head, (batch, H, i, j).

        Returns:
            (batch, i, embed_dim); a query with nobody to attend to gets the output bias, never NaN.
        """
        key = query if key is None else key
        value = key if value is None else value
        q = split_heads(self.q_proj(query), self.num_heads)
        k = split_heads(self.k_proj(key), self.num_heads)
        v = split_heads(self.v_proj(value), self.num_heads)
        dropout = self.dropout if self.training else 0.0
        if return_weights:
            heads, weights = attend(q, k, v, mask, bias=bias, dropout=dropout, return_weights=True)
            return self.join(merge_heads(heads)), weights
        return self.join(merge_heads(attend(q, k, v, mask, bias=bias, dropout=dropout)))
