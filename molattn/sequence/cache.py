"""Keys and values that are projected once and attended to often: what makes decoding token by token cheap."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from molattn.attention import MultiHeadAttention, attend, merge_heads, split_heads


@dataclass(frozen=True)
class KeyValues:
    """The keys and values of every head, as a value that is passed in and out; no module keeps it.

    Attributes:
        k: (batch, heads, j, head_dim).
        v: (batch, heads, j, head_dim).
    """

    k: Float[Tensor, "b h j d"]
    v: Float[Tensor, "b h j d"]

    def __len__(self) -> int:
        """j, how many tokens can be looked at."""
        return self.k.shape[-2]

    def append(self, later: "KeyValues") -> "KeyValues":
        """These, followed by those of later tokens."""
        if not len(self):
            return later
        return KeyValues(torch.cat([self.k, later.k], dim=-2), torch.cat([self.v, later.v], dim=-2))

    def select(self, rows: Int[Tensor, "m"]) -> "KeyValues":
        """Those of the given members of the batch, in that order; a member may come back several times."""
        return KeyValues(self.k[rows], self.v[rows])


def project(layer: MultiHeadAttention, x: Float[Tensor, "b j d"]) -> KeyValues:
    """The keys x W_k^h and the values x W_v^h of every head h of `layer`."""
    return KeyValues(split_heads(layer.k_proj(x), layer.num_heads), split_heads(layer.v_proj(x), layer.num_heads))


def attend_to(
    layer: MultiHeadAttention,
    query: Float[Tensor, "b i d"],
    seen: KeyValues,
    mask: Tensor | None = None,
    *,
    return_weights: bool = False,
) -> tuple[Float[Tensor, "b i d"], Float[Tensor, "b h i j"] | None]:
    """`layer(query, x, mask=mask)` where `seen` is `project(layer, x)`.

    Returns:
        (batch, i, d), and the weights (batch, heads, i, j), computed only with `return_weights`, None otherwise.
    """
    q = split_heads(layer.q_proj(query), layer.num_heads)
    dropout = layer.dropout if layer.training else 0.0
    if not return_weights:
        return layer.join(merge_heads(attend(q, seen.k, seen.v, mask, dropout=dropout))), None
    heads, weights = attend(q, seen.k, seen.v, mask, dropout=dropout, return_weights=True)
    return layer.join(merge_heads(heads)), weights
