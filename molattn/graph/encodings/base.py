"""The base class of encodings, their input `Molecules`, and combinations of encodings."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from molattn.graph.stack import EdgeEmbedding


@runtime_checkable
class Molecules(Protocol):
    """b molecules padded to n atoms each. Values in the padding are never read."""

    @property
    def atom_codes(self) -> Tensor:
        """(b, n, F) bytes: the codes of every atom."""
        ...

    @property
    def bond_codes(self) -> Tensor:
        """(b, n, n) bytes: [b, i, j] is the bond between the receiver i and the sender j."""
        ...

    @property
    def path_lengths(self) -> Tensor:
        """(b, n, n) bytes: the number of bonds on the shortest path; 0 on the diagonal, 255 between fragments."""
        ...

    @property
    def mask(self) -> Tensor:
        """(b, n) True where there is an atom."""
        ...

    @property
    def distances(self) -> Tensor | None:
        """(b, n, n) angstrom; 0 on the diagonal, inf between fragments; None without 3D coordinates."""
        ...


def pair_mask(molecules: Molecules) -> Bool[Tensor, "b n n"]:
    """(b, n, n) True where both i and j are atoms."""
    return molecules.mask.unsqueeze(-1) & molecules.mask.unsqueeze(-2)


def adjacency(molecules: Molecules) -> Bool[Tensor, "b n n"]:
    """A: (b, n, n) True where i and j are bonded, that is, where the shortest path between them has length 1."""
    return (molecules.path_lengths == 1) & pair_mask(molecules)


class Encoding(nn.Module):
    """The base class of edge and node features: `forward(molecules)` returns (b, n, n, dim) or (b, n, dim).

    It does not read values in the padding of the molecules; the features that it returns for the padding are finite.
    """

    dim: int
    """Channels."""

    def edge_embedding(self, molecules: Molecules) -> EdgeEmbedding | None:  # noqa: ARG002
        """The edge features of `forward` as embeddings, not yet looked up; None if they are not embeddings."""
        return None


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
