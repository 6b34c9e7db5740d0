"""The base class of encodings, and their input: a batch of molecules."""

from typing import Protocol, runtime_checkable

from jaxtyping import Bool
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
