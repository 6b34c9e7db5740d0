"""Caches of the keys and values of a decoder, which are reused at later steps."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class KVCache:
    """Cached keys and values of every head, an argument and a result of each step: no module stores them.

    `MultiHeadAttention.project_keys_and_values` computes them, and `MultiHeadAttention.attend_to` uses them.

    Attributes:
        k: (batch, heads, j, head_dim).
        v: (batch, heads, j, head_dim).

    >>> import torch
    >>> from molattn.attention import MultiHeadAttention
    >>> from molattn.sequence import KVCache
    >>> attention, x = MultiHeadAttention(embed_dim=8, num_heads=2), torch.randn(1, 4, 8)
    >>> cache = KVCache(*attention.project_keys_and_values(x[:, :3]))
    >>> cache = cache.append(KVCache(*attention.project_keys_and_values(x[:, 3:])))
    >>> last, _ = attention.attend_to(x[:, 3:], cache.k, cache.v)
    >>> len(cache), torch.allclose(last, attention(x)[:, 3:], atol=1e-5)
    (4, True)
    """

    k: Float[Tensor, "b h j d"]
    v: Float[Tensor, "b h j d"]

    def __len__(self) -> int:
        """j, the number of cached tokens."""
        return self.k.shape[-2]

    def append(self, later: "KVCache") -> "KVCache":
        """This cache, followed by the keys and values of the tokens in `later`, which has the same batch and heads."""
        if not len(self):
            return later
        return KVCache(torch.cat([self.k, later.k], dim=-2), torch.cat([self.v, later.v], dim=-2))

    def select(self, rows: Int[Tensor, "m"]) -> "KVCache":
        """The cache of these `rows` of the batch, (m,) integers, in that order; rows may be repeated."""
        return KVCache(self.k[rows], self.v[rows])


@dataclass(frozen=True)
class DecoderLayerCache:
    """The cached keys and values of one decoder layer.

    Attributes:
        self_attention: of the target tokens so far.
        cross_attention: of the encoder output, projected once.

    >>> import torch
    >>> from molattn.sequence import DecoderLayer
    >>> layer, memory = DecoderLayer(d_model=8, num_heads=2), torch.randn(1, 5, 8)
    >>> _, cache, _ = layer.forward_with_cache(torch.randn(1, 1, 8), layer.init_cache(memory))
    >>> len(cache.self_attention), len(cache.cross_attention)
    (1, 5)
    """

    self_attention: KVCache
    cross_attention: KVCache

    def select(self, rows: Int[Tensor, "m"]) -> "DecoderLayerCache":
        """The cache of these `rows` of the batch, (m,) integers, in that order; rows may be repeated."""
        return DecoderLayerCache(self.self_attention.select(rows), self.cross_attention.select(rows))
