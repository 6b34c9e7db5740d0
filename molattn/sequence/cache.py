"""Keys and values that are projected once and attended to often: what makes decoding token by token cheap."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class KeyValues:
    """The keys and values of every head, as a value that is passed in and out; no module keeps it.

    From `MultiHeadAttention.project_keys_and_values`, for `MultiHeadAttention.attend_to`.

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
