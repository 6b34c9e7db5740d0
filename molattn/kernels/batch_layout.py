"""A batch of padded graphs: which nodes exist, and which may attend to which."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from molattn.kernels.operations import FLOATS_PER_VECTOR, all_true

# The largest number of attention weights, over all heads, in a chunk of graphs: its tensors fit into the L2 cache.
_MAX_CHUNK_WEIGHTS = 2**18


def valid_pairs(node_mask: Tensor | None, edge_mask: Tensor | None) -> Tensor | None:
    """(b, n, n), True where node i may attend to node j; None if there is neither node_mask nor edge_mask."""
    if node_mask is None:
        return edge_mask
    pairs = node_mask.unsqueeze(-1) & node_mask.unsqueeze(-2)
    return pairs if edge_mask is None else pairs & edge_mask


@dataclass(frozen=True)
class PaddedBatch:
    """A batch of b graphs, padded to n nodes each, whose nodes are b n consecutive rows, and its masks.

    Attributes:
        b: the number of graphs.
        n: the number of nodes per graph, with padding.
        dtype, device: those of the logits.
        node_mask: (b, n), True for nodes; None if there is no padding.
        edge_mask: (b, n, n), True where i may attend to j; None if all pairs of nodes are valid.
    """

    b: int
    n: int
    dtype: torch.dtype
    device: torch.device
    node_mask: Tensor | None = None
    edge_mask: Tensor | None = None

    @classmethod
    def from_queries(cls, q: Tensor, node_mask: Tensor | None, edge_mask: Tensor | None) -> "PaddedBatch":
        """The batch of queries q, (b, n, ...), with these masks; a node mask without padding becomes None."""
        if node_mask is not None and edge_mask is None and all_true(node_mask):
            node_mask = None
        b, n, *_ = q.shape
        return cls(b, n, q.dtype, q.device, node_mask, edge_mask)

    # Used by `chunked_edge_attention`.

    @property
    def num_keys(self) -> int:
        """m, the number of keys with padding: n, or more if the rows of the softmax are padded to a vector.

        torch's softmax does not vectorize shorter rows, and is then ten times slower.
        """
        return max(self.n, FLOATS_PER_VECTOR) if self.device.type == "cpu" else self.n

    @cached_property
    def allowed(self) -> Tensor | None:
        """True where i may attend to j, broadcastable to (b, n, n); None if every node may attend to all.

        Without an edge mask it is (b, 1, n), the same for receivers in the padding: see `has_valid_key`.
        """
        if self.edge_mask is None and self.node_mask is not None:
            return self.node_mask.unsqueeze(1)
        return valid_pairs(self.node_mask, self.edge_mask)

    @cached_property
    def has_valid_key(self) -> Tensor | None:
        """(b, n), True for receivers that may attend to at least one sender; None if all may."""
        return self.node_mask if self.edge_mask is None or self.allowed is None else self.allowed.any(-1)

    @cached_property
    def bound(self) -> Tensor | None:
        """The upper bound of the logits, broadcastable to (h, b, n, m); None if nothing is masked.

        It is infinity for a valid pair and the lowest float for a masked one, whose weight is then 0. `torch.minimum`
        of logits and bound takes a fifth of the time of `masked_fill`.
        """
        lowest = torch.finfo(self.dtype).min
        if self.allowed is not None:
            bound = self._full((*self.allowed.shape[:-1], self.num_keys), lowest)
            bound[..., : self.n].masked_fill_(self.allowed, torch.inf)
            return bound
        if self.num_keys == self.n:
            return None
        bound = self._full((1, 1, self.num_keys), torch.inf)
        bound[..., self.n :] = lowest
        return bound

    def _full(self, shape: tuple[int, ...], value: float) -> Tensor:
        return torch.full(shape, value, dtype=self.dtype, device=self.device)

    @cached_property
    def row_mask(self) -> Tensor | None:
        """`has_valid_key` as floats, (b, n, 1); None if all receivers have a valid key."""
        return None if self.has_valid_key is None else self.has_valid_key.unsqueeze(-1).to(self.dtype)

    @cached_property
    def empty_rows(self) -> Tensor | None:
        """The indices of the rows of receivers without a valid key; None if all have one."""
        return None if self.has_valid_key is None else (~self.has_valid_key).flatten().nonzero().squeeze(-1)

    def chunks(self, num_heads: int, on_cpu: bool) -> Iterator[tuple[slice, slice, int]]:
        """A few graphs at a time: their slice of the b graphs, their slice of the b n rows, and their number."""
        if not self.b:
            return
        graphs = max(1, _MAX_CHUNK_WEIGHTS // max(1, num_heads * self.n * self.num_keys)) if on_cpu else self.b
        size = -(-self.b // -(-self.b // graphs))
        for first in range(0, self.b, size):
            c = min(size, self.b - first)
            row = first * self.n
            yield slice(first, first + c), slice(row, row + c * self.n), c

    def mask_logits_(self, logits: Tensor, graphs: slice) -> None:
        """Set the logits, (h, c, n, m), of masked pairs to the lowest float in place."""
        if self.bound is not None:
            torch.minimum(logits, self.bound if len(self.bound) == 1 else self.bound[graphs], out=logits)

    # Used by `edge_attention`.

    @cached_property
    def sizes(self) -> Tensor | None:
        """(b,), the number of nodes of each graph; None without a node mask, with an edge mask, or if a node follows
        padding, in which cases these numbers are not enough to tell which pairs are valid."""
        if self.node_mask is None or self.edge_mask is not None:
            return None
        sizes = self.node_mask.sum(-1)
        first = torch.arange(self.n, device=sizes.device) < sizes.unsqueeze(-1)
        return sizes if torch.equal(first, self.node_mask) else None

    @cached_property
    def allowed_bytes(self) -> Tensor | None:
        """`valid_pairs` as uint8, (b, n, n); None if `sizes` is enough or every node may attend to all."""
        pairs = None if self.sizes is not None else valid_pairs(self.node_mask, self.edge_mask)
        return None if pairs is None else pairs.contiguous().view(torch.uint8)
