"""What every encoding is, and what it looks at: a batch of molecules as it comes, its pairs and its bonds."""

from typing import Protocol, runtime_checkable

from jaxtyping import Bool
from torch import Tensor, nn

from molattn.graph.stack import EdgeEmbedding


@runtime_checkable
class Molecules(Protocol):
    """b molecules padded to n atoms each. What stands in the padding is never read."""

    @property
    def atom_codes(self) -> Tensor:
        """(b, n, F) bytes: the codes of every atom."""
        ...

    @property
    def bond_codes(self) -> Tensor:
        """(b, n, n) bytes: [b, i, j] is what joins the receiver i to the sender j."""
        ...

    @property
    def path_lengths(self) -> Tensor:
        """(b, n, n) bytes: bonds on the shortest path; 0 on the diagonal, 255 between fragments."""
        ...

    @property
    def mask(self) -> Tensor:
        """(b, n) True where there is an atom."""
        ...

    @property
    def distances(self) -> Tensor | None:
        """(b, n, n) angstrom; 0 on the diagonal, inf between fragments; None where nothing is known of 3D."""
        ...


def pairs(molecules: Molecules) -> Bool[Tensor, "b n n"]:
    """(b, n, n) True where both i and j are atoms."""
    return molecules.mask.unsqueeze(-1) & molecules.mask.unsqueeze(-2)


def adjacency(molecules: Molecules) -> Bool[Tensor, "b n n"]:
    """A: (b, n, n) True where a bond joins i and j, that is, where the shortest path between them is one bond."""
    return (molecules.path_lengths == 1) & pairs(molecules)


class Encoding(nn.Module):
    """A piece of what edges or nodes say to attention: `forward(molecules)` returns (b, n, n, dim) or (b, n, dim).

    It does not read what stands in the padding of the molecules; what it returns there is finite.
    """

    dim: int
    """Channels."""

    def edge_embedding(self, molecules: Molecules) -> EdgeEmbedding | None:  # noqa: ARG002
        """What `forward` returns of edges as rows of tables; None where it is not that."""
        return None
