"""Combinations of encodings: their sum and their concatenation."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from molattn.graph.encodings.base import Encoding, Molecules
from molattn.graph.stack import EdgeEmbedding


class Sum(Encoding):
    """e = e_1 + ... + e_m, of encodings that all describe edges or all describe nodes.

    Shapes: molecules of n atoms -> (..., dim), the same shape as that of each encoding.

    Args:
        encodings: e_1, ..., e_m, of the same `dim`; at least one.

    Raises:
        ValueError: no encodings, or encodings of different `dim`.
    """

    def __init__(self, encodings: Sequence[Encoding]):
        super().__init__()
        dims = _dims(encodings)
        if len(set(dims)) > 1:
            raise ValueError(f"encodings of {', '.join(map(str, dims))} channels cannot be added")
        self.dim = dims[0]
        self.encodings = nn.ModuleList(encodings)

    def forward(self, molecules: Molecules) -> Float[Tensor, "*items d"]:
        first, *others = self.encodings
        total = first(molecules)
        for encoding in others:
            total = total + encoding(molecules)
        return total

    def edge_embedding(self, molecules: Molecules) -> EdgeEmbedding | None:
        """The embeddings of all encodings; None if one of them is not an embedding."""
        total = None
        for encoding in self.encodings:
            embedding = encoding.edge_embedding(molecules)  # pyright: ignore[reportCallIssue]
            if embedding is None:
                return None
            total = embedding if total is None else total + embedding
        return total


class Concat(Encoding):
    """e = [e_1, ..., e_m], of encodings that all describe edges or all describe nodes.

    Shapes: molecules of n atoms -> (..., dim), dim being the sum of the encodings' dims.

    Args:
        encodings: e_1, ..., e_m; at least one.

    Raises:
        ValueError: no encodings.
    """

    def __init__(self, encodings: Sequence[Encoding]):
        super().__init__()
        self.dim = sum(_dims(encodings))
        self.encodings = nn.ModuleList(encodings)

    def forward(self, molecules: Molecules) -> Float[Tensor, "*items d"]:
        return torch.cat([encoding(molecules) for encoding in self.encodings], dim=-1)


def _dims(encodings: Sequence[Encoding]) -> list[int]:
    if not encodings:
        raise ValueError("at least one encoding is needed")
    return [encoding.dim for encoding in encodings]
