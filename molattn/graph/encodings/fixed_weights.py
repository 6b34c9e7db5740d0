"""Fixed attention weights: by the distance of two atoms, and by adjacency."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from molattn.attention import DenseLayout
from molattn.graph.encodings.base import Encoding, Molecules, adjacency, pair_mask
from molattn.graph.encodings.distances import distances_of

Kernel = Callable[[Tensor, Tensor], Tensor]


def softmax_kernel(d: Float[Tensor, "b n n"], near: Bool[Tensor, "b n n"]) -> Float[Tensor, "b n n"]:
    """w_ij = exp(-d_ij) / sum_j exp(-d_ij)        over the j with near_ij; rows sum to 1"""
    return DenseLayout(near).softmax(-d)


def exp_kernel(d: Float[Tensor, "b n n"], near: Bool[Tensor, "b n n"]) -> Float[Tensor, "b n n"]:
    """w_ij = exp(-d_ij)        where near_ij; rows do not sum to 1"""
    return DenseLayout(near).zero_masked(torch.exp(-d))


KERNELS: dict[str, Kernel] = {"softmax": softmax_kernel, "exp": exp_kernel}


class DistanceKernel(Encoding):
    """Weights that decrease with the distance in space: w_ij = g(d_ij).

    g = softmax_j(-d_ij)  or  exp(-d_ij),    d in angstrom

    The weight is zero between fragments, where the distance is infinite, and in the padding. An atom is at distance 0
    from itself, so every atom has a nonzero weight.

    Shapes: molecules of n atoms -> (b, n, n, 1).

    Args:
        kind: "softmax", whose rows sum to 1; "exp", whose rows do not; or a function, like those in `KERNELS`, of the
            distances and a mask that is True for pairs of atoms in the same fragment.

    Raises:
        ValueError: an unknown kind; at a call, molecules without distances.

    Source: the two choices of g of the Molecule Attention Transformer, Maziarka et al. 2020, arXiv:2002.08264.
    """

    one: Tensor

    def __init__(self, kind: str | Kernel = "softmax"):
        super().__init__()
        self.dim = 1
        if isinstance(kind, str):
            if kind not in KERNELS:
                raise ValueError(f"unknown kernel {kind!r}: choose one of {', '.join(KERNELS)}, or pass a function")
            kind = KERNELS[kind]
        self.kernel = kind
        self.register_buffer("one", torch.ones(()), persistent=False)  # for its dtype

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n 1"]:
        d = distances_of(molecules, self.one.dtype)
        return self.kernel(d, pair_mask(molecules) & ~d.isinf()).unsqueeze(-1)


class AdjacencyWeights(Encoding):
    """Equal weights for an atom and its neighbours, zero for others.

    w_ij = (A + I)_ij / sum_j (A + I)_ij

    Zero in the padding; an atom without bonds has weight 1 with itself.

    Shapes: molecules of n atoms -> (b, n, n, 1).

    Source: the adjacency of the Molecule Attention Transformer, Maziarka et al. 2020, arXiv:2002.08264, normalised
    as in the authors' code.
    """

    one: Tensor

    def __init__(self):
        super().__init__()
        self.dim = 1
        self.register_buffer("one", torch.ones(()), persistent=False)  # for its dtype

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n 1"]:
        self_loops = torch.eye(molecules.mask.shape[-1], dtype=torch.bool, device=molecules.mask.device)
        a = (adjacency(molecules) | (self_loops & pair_mask(molecules))).to(self.one.dtype)
        return (a / a.sum(-1, keepdim=True).clamp_min(1.0)).unsqueeze(-1)
