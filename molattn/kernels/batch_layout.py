"""Padded graphs whose nodes are rows, and which of them may attend to which."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from molattn.kernels.tensor_checks import all_true

# As many weights of all heads as are worked on at a time: what belongs to them stays in a CPU's second-level cache.
_CHUNK = 2**18
VECTOR = 16
"""The floats of a vector register: torch's softmax of shorter rows goes one by one, ten times slower."""


@dataclass(frozen=True)
class BatchLayout:
    """b dense graphs of n nodes, whose nodes are b n rows one after another, and what their masks mean.

    Attributes:
        b, n: how many graphs, of how many nodes.
        like: a tensor of the dtype and on the device of the logits.
        node_mask: (b, n), True where there is a node; None where there is one everywhere.
        edge_mask: (b, n, n), True where there is an edge; None where every pair of nodes has one.
    """

    b: int
    n: int
    like: Tensor
    node_mask: Tensor | None = None
    edge_mask: Tensor | None = None

    @classmethod
    def of(
        cls, like: Tensor, shape: tuple[int, int], node_mask: Tensor | None, edge_mask: Tensor | None
    ) -> "BatchLayout":
        """The layout of b graphs of n nodes, `shape`, with these masks."""
        if node_mask is not None and edge_mask is None and all_true(node_mask):
            node_mask = None
        return cls(*shape, like.detach()[:0], node_mask, edge_mask)

    # For `ChunkedEdgeAttention`, in torch's operations.

    @property
    def m(self) -> int:
        """How many keys a query sees: n, or more where short rows are padded."""
        return max(self.n, VECTOR) if self.like.device.type == "cpu" else self.n

    @cached_property
    def allowed(self) -> Tensor | None:
        """True where i may attend to j, broadcastable to (b, n, n); None where every node may attend to all."""
        if self.edge_mask is None:
            return None if self.node_mask is None else self.node_mask.unsqueeze(1)
        if self.node_mask is None:
            return self.edge_mask
        return self.edge_mask & self.node_mask.unsqueeze(-1) & self.node_mask.unsqueeze(-2)

    @cached_property
    def has_valid_key(self) -> Tensor | None:
        """(b, n), True for receivers that may attend to a sender; None where all may."""
        return self.node_mask if self.edge_mask is None or self.allowed is None else self.allowed.any(-1)

    @cached_property
    def bound(self) -> Tensor | None:
        """What logits may not exceed, broadcastable to (h, b, n, m); None where nothing is forbidden.

        The smaller of the logit and the lowest number there is takes a pair out of the softmax, in a fifth of the
        time of `masked_fill`.
        """
        lowest = torch.finfo(self.like.dtype).min
        if self.allowed is not None:
            bound = self.like.new_full((*self.allowed.shape[:-1], self.m), lowest)
            bound[..., : self.n].masked_fill_(self.allowed, torch.inf)
            return bound
        if self.m == self.n:
            return None
        bound = self.like.new_full((1, 1, self.m), torch.inf)
        bound[..., self.n :] = lowest
        return bound

    @cached_property
    def row_mask(self) -> Tensor | None:
        """(b, n, 1), 1 for receivers that may attend to a sender and 0 for the others; None where all may."""
        return None if self.has_valid_key is None else self.has_valid_key.unsqueeze(-1).to(self.like.dtype)

    @cached_property
    def empty_rows(self) -> Tensor | None:
        """The rows of the receivers that may attend to no sender."""
        return None if self.has_valid_key is None else (~self.has_valid_key).flatten().nonzero().squeeze(-1)

    def chunks(self, num_heads: int, on_cpu: bool) -> Iterator[tuple[slice, slice, int]]:
        """The graphs a few at a time: which of the b, which rows, how many."""
        if not self.b:
            return
        graphs = max(1, _CHUNK // max(1, num_heads * self.n * self.m)) if on_cpu else self.b
        size = -(-self.b // -(-self.b // graphs))
        for first in range(0, self.b, size):
            c = min(size, self.b - first)
            row = first * self.n
            yield slice(first, first + c), slice(row, row + c * self.n), c

    def lower_(self, logits: Tensor, here: slice) -> None:
        """Take the pairs that may not be out of logits (h, c, n, m)."""
        if self.bound is not None:
            torch.minimum(logits, self.bound if len(self.bound) == 1 else self.bound[here], out=logits)

    # For `edge_attention`.

    @cached_property
    def sizes(self) -> Tensor | None:
        """(b,) the nodes of each graph where they stand first and all attend to each other, else None."""
        if self.node_mask is None or self.edge_mask is not None:
            return None
        sizes = self.node_mask.sum(-1)
        first = torch.arange(self.n, device=sizes.device) < sizes.unsqueeze(-1)
        return sizes if torch.equal(first, self.node_mask) else None

    @cached_property
    def pairs(self) -> Tensor | None:
        """`allowed` as (b, n, n) bytes; None where `sizes` says it all, or everything is allowed."""
        pairs = self.allowed
        if pairs is None or self.sizes is not None:
            return None
        if self.edge_mask is None and self.node_mask is not None:  # padding attends to nothing
            pairs = pairs & self.node_mask.unsqueeze(-1)
        return pairs.expand(self.b, self.n, self.n).contiguous().view(torch.uint8)
