"""The base class of encodings, their input `Molecules`, and combinations of encodings."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from molattn.attention.unmodified import are_unmodified
from molattn.graph.stack import EdgeEmbedding


@runtime_checkable
class Molecules(Protocol):
    """The interface of a batch of molecules, the input of encodings: b molecules, padded to n atoms each.

    Values in the padding are never read.

    >>> from molattn.chem import molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import Molecules
    >>> molecules = collate([molecule_graph("CCO"), molecule_graph("C")])
    >>> isinstance(molecules, Molecules), molecules.mask.tolist()
    (True, [[True, True, True], [True, False, False]])
    >>> molecules.path_lengths[0].tolist()
    [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    """

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
    """The pairs of atoms: (b, n, n) True where both i and j are atoms, not padding.

    Args:
        molecules: of n atoms.

    >>> from molattn.chem import molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import pair_mask
    >>> molecules = collate([molecule_graph("CO"), molecule_graph("C")])
    >>> pair_mask(molecules).tolist()
    [[[True, True], [True, True]], [[True, False], [False, False]]]
    """
    return molecules.mask.unsqueeze(-1) & molecules.mask.unsqueeze(-2)


def adjacency(molecules: Molecules) -> Bool[Tensor, "b n n"]:
    """A: (b, n, n) True where i and j are bonded, that is, where the shortest path between them has length 1.

    Args:
        molecules: of n atoms.

    >>> from molattn.chem import molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import adjacency
    >>> adjacency(collate([molecule_graph("CCO")])).int().tolist()
    [[[0, 1, 0], [1, 0, 1], [0, 1, 0]]]
    """
    return (molecules.path_lengths == 1) & pair_mask(molecules)


class Encoding(nn.Module):
    """The base class of edge and node features: `forward(molecules)` returns (b, n, n, dim) or (b, n, dim).

    It does not read values in the padding of the molecules; the features that it returns for the padding are finite.
    A subclass sets `dim`, the number of channels, and defines `forward`.

    >>> from molattn.chem import molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import Encoding, adjacency
    >>> class Bonded(Encoding):  # 1 for bonded atoms
    ...     dim = 1
    ...     def forward(self, molecules):
    ...         return adjacency(molecules).float().unsqueeze(-1)
    >>> Bonded()(collate([molecule_graph("CCO")])).squeeze(-1).tolist()
    [[[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]]
    """

    dim: int
    """Channels."""

    def edge_embedding(self, molecules: Molecules) -> EdgeEmbedding | None:  # noqa: ARG002
        """The edge features of `molecules` as embeddings, not yet looked up; None if they are not embeddings."""
        return None

    def edge_embedding_of_forward(self, molecules: Molecules) -> EdgeEmbedding | None:
        """`edge_embedding`; None if a call of this module would not give the same, as it has a hook or a new `forward`.

        A subclass that defines `forward` inherits an `edge_embedding` that does not know of it.
        """
        cls = type(self)
        first = next(c for c in cls.__mro__ if "edge_embedding" in vars(c) or "forward" in vars(c))
        same = "edge_embedding" in vars(first) and are_unmodified(cls, self)
        return self.edge_embedding(molecules) if same else None


class Sum(Encoding):
    """The sum of encodings that all describe edges or all describe nodes.

    e = e_1 + ... + e_m

    Shapes: molecules of n atoms -> (..., dim), the same shape as that of each encoding.

    Args:
        encodings: e_1, ..., e_m, of the same `dim`; at least one.

    Raises:
        ValueError: no encodings, or encodings of different `dim`.

    >>> from molattn.chem import molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import PathEncoding, RandomWalkEncoding, Sum
    >>> encoding = Sum([PathEncoding(dim=8, max_path=10), RandomWalkEncoding(steps=4, dim=8)])
    >>> tuple(encoding(collate([molecule_graph("CCO")])).shape)
    (1, 3, 3, 8)
    """

    def __init__(self, encodings: Sequence[Encoding]):
        super().__init__()
        dims = _dims(encodings)
        if len(set(dims)) > 1:
            raise ValueError(f"encodings of {', '.join(map(str, dims))} channels cannot be added")
        self.dim = dims[0]
        self.encodings = nn.ModuleList(encodings)

    def forward(self, molecules: Molecules) -> Float[Tensor, "*items d"]:
        """The sum of the features of `molecules`: (b, n, n, dim), or (b, n, dim) of encodings of nodes."""
        first, *others = self.encodings
        total = first(molecules)
        for encoding in others:
            total = total + encoding(molecules)
        return total

    def edge_embedding(self, molecules: Molecules) -> EdgeEmbedding | None:
        """The embeddings of all encodings of `molecules`; None if one of them is not an embedding."""
        total = None
        for encoding in self.encodings:
            embedding = encoding.edge_embedding_of_forward(molecules)  # pyright: ignore[reportCallIssue]
            if embedding is None:
                return None
            total = embedding if total is None else total + embedding
        return total


class Concat(Encoding):
    """The concatenation of encodings that all describe edges or all describe nodes.

    e = [e_1, ..., e_m]

    Shapes: molecules of n atoms -> (..., dim), dim being the sum of the encodings' dims.

    Args:
        encodings: e_1, ..., e_m; at least one.

    Raises:
        ValueError: no encodings.

    >>> from molattn.chem import molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import AdjacencyWeights, Concat, PathEncoding
    >>> encoding = Concat([PathEncoding(dim=8, max_path=10), AdjacencyWeights()])
    >>> tuple(encoding(collate([molecule_graph("CCO")])).shape)
    (1, 3, 3, 9)
    """

    def __init__(self, encodings: Sequence[Encoding]):
        super().__init__()
        self.dim = sum(_dims(encodings))
        self.encodings = nn.ModuleList(encodings)

    def forward(self, molecules: Molecules) -> Float[Tensor, "*items d"]:
        """The features of `molecules`, concatenated: (b, n, n, dim), or (b, n, dim) of encodings of nodes."""
        return torch.cat([encoding(molecules) for encoding in self.encodings], dim=-1)


def _dims(encodings: Sequence[Encoding]) -> list[int]:
    if not encodings:
        raise ValueError("at least one encoding is needed")
    return [encoding.dim for encoding in encodings]
