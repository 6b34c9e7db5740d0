"""The distance between two atoms as features of their edge, and fixed attention weights by distance and adjacency."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from molattn.attention import DenseLayout
from molattn.attention.arguments import resolve_name
from molattn.graph.encodings.base import Encoding, Molecules, adjacency, pair_mask


def distances_of(molecules: Molecules, dtype: torch.dtype) -> Float[Tensor, "b n n"]:
    """The distances of `molecules` in `dtype`: (b, n, n) angstrom, inf between fragments, set to 0 in the padding.

    Raises:
        ValueError: molecules without distances.
    """
    if molecules.distances is None:
        raise ValueError("distances are required, but these molecules have no conformers: compute them when reading")
    return molecules.distances.to(dtype).masked_fill(~pair_mask(molecules), 0.0)


class RadialBases(nn.Module):
    """Basis functions of a distance: `forward` takes (...,) finite distances in angstrom, returns (..., num_bases).

    The base class of `Gaussians` and `Bessel`. A subclass sets `num_bases` and defines `forward`.

    >>> import torch
    >>> from molattn.graph.encodings import DistanceEncoding, RadialBases
    >>> class Inverse(RadialBases):
    ...     num_bases = 1
    ...     def forward(self, d):
    ...         return 1 / (1 + d.unsqueeze(-1))
    >>> Inverse()(torch.tensor([0.0, 1.0])).tolist()
    [[1.0], [0.5]]
    >>> encoding = DistanceEncoding(dim=8, bases=Inverse())
    """

    num_bases: int
    """The number of basis functions."""


class Gaussians(RadialBases):
    """Radial basis of Gaussians at evenly spaced centres, without learned parameters.

    g_n(d) = exp(-(d - mu_n)^2 / (2 s^2))        mu_n = n s,  s = cutoff / (N - 1),  n = 0, ..., N - 1

    Beyond the cutoff, they decay like the last Gaussian.

    Shapes: d (...,), finite -> (..., N).

    Args:
        num_bases: N, at least 2.
        cutoff: the centre of the last Gaussian; angstrom.

    Raises:
        ValueError: fewer than two bases, or a cutoff that is not positive and finite.

    Source: Schuett et al. 2017, arXiv:1706.08566.

    >>> import torch
    >>> from molattn.graph.encodings import Gaussians
    >>> g = Gaussians(num_bases=3, cutoff=2.0)(torch.tensor([0.0, 1.5]))  # centres at 0, 1 and 2 angstrom
    >>> [[round(x, 2) for x in row] for row in g.tolist()]
    [[1.0, 0.61, 0.14], [0.32, 0.88, 0.88]]
    """

    orders: Tensor

    def __init__(self, num_bases: int = 32, cutoff: float = 10.0):
        super().__init__()
        if num_bases < 2 or not 0 < cutoff < math.inf:
            raise ValueError(f"num_bases must be at least 2, and cutoff positive and finite: {num_bases=}, {cutoff=}")
        self.num_bases, self.width = num_bases, cutoff / (num_bases - 1)
        # Not the centres: whole numbers stay exact when the module is converted to float64.
        self.register_buffer("orders", torch.arange(float(num_bases)), persistent=False)

    def forward(self, d: Float[Tensor, "*pairs"]) -> Float[Tensor, "*pairs k"]:
        """g_n(d) of the finite distances `d`, (...,), in angstrom: (..., N)."""
        return torch.exp(-0.5 * (d.unsqueeze(-1) / self.width - self.orders).square())


class Bessel(RadialBases):
    """Radial Bessel basis with a smooth cutoff, without learned parameters.

    f_n(d) = sin(n pi x) / (n pi) (1/x + a x^(p-1) + b x^p + c x^(p+1))    for x = d / cutoff < 1, else 0; n = 1 ... N
           = sinc(n x) (1 + a x^p + b x^(p+1) + c x^(p+2))                 sinc(y) = sin(pi y) / (pi y), 1 at 0
    a = -(p + 1)(p + 2) / 2,  b = p (p + 2),  c = -p (p + 1) / 2

    The second form is the one computed: it is finite at d = 0, where f_n = 1. At the cutoff, the first two derivatives
    are zero.

    Shapes: d (...,), finite -> (..., N).

    Args:
        num_bases: N, at least 1.
        cutoff: the distance beyond which they are zero; angstrom.
        exponent: p, at least 1.

    Raises:
        ValueError: an argument out of its range.

    Source: Klicpera et al. 2020, arXiv:2003.03123, equations 7 and 8; each function is divided by its value at 0, so
    that none is large.

    >>> import torch
    >>> from molattn.graph.encodings import Bessel
    >>> f = Bessel(num_bases=2, cutoff=4.0)(torch.tensor([0.0, 1.0, 4.0, 9.0]))
    >>> f[0].tolist(), bool(f[1, 0] > f[1, 1]), int(f[2:].count_nonzero())  # at 0, at 1, and from the cutoff on
    ([1.0, 1.0], True, 0)
    """

    orders: Tensor

    def __init__(self, num_bases: int = 32, cutoff: float = 10.0, exponent: int = 6):
        super().__init__()
        if num_bases < 1 or not 0 < cutoff < math.inf or exponent < 1:
            raise ValueError(
                "num_bases and exponent must be at least 1, and cutoff positive and finite: "
                f"{num_bases=}, {cutoff=}, {exponent=}"
            )
        self.num_bases, self.cutoff, self.exponent = num_bases, cutoff, exponent
        self.register_buffer("orders", torch.arange(1.0, num_bases + 1), persistent=False)

    def forward(self, d: Float[Tensor, "*pairs"]) -> Float[Tensor, "*pairs k"]:
        """f_n(d) of the finite distances `d`, (...,), in angstrom: (..., N)."""
        x = (d / self.cutoff).clamp(max=1.0)
        p = self.exponent
        a, b, c = -(p + 1) * (p + 2) / 2, p * (p + 2), -p * (p + 1) / 2
        envelope = 1 + x**p * (a + x * (b + x * c))  # exactly 0 at x = 1
        return torch.sinc(self.orders * x.unsqueeze(-1)) * envelope.unsqueeze(-1)


class DistanceEncoding(Encoding):
    """A learned linear map of radial basis functions of the distance in space.

    e_ij = W g(d_ij)        where d_ij is finite
         = r                where it is infinite: the relative position of two fragments is not known

    Shapes: molecules of n atoms -> (b, n, n, dim).

    Args:
        dim: channels.
        bases: g, a `RadialBases`, such as `Gaussians` or `Bessel`; `Gaussians()` by default.

    Raises:
        ValueError: at a call, molecules without distances.

    Source: Schuett et al. 2017, arXiv:1706.08566, with `Gaussians`; Klicpera et al. 2020, arXiv:2003.03123, with
    `Bessel`.

    >>> from molattn.chem import ConformerOptions, molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import DistanceEncoding
    >>> ethanol = collate([molecule_graph("CCO", conformers=ConformerOptions())])
    >>> tuple(ethanol.distances.shape), tuple(DistanceEncoding(dim=8)(ethanol).shape)
    ((1, 3, 3), (1, 3, 3, 8))
    """

    def __init__(self, dim: int, bases: RadialBases | None = None):
        super().__init__()
        self.dim = dim
        self.bases = Gaussians() if bases is None else bases
        self.linear = nn.Linear(self.bases.num_bases, dim, bias=False)
        self.disconnected = nn.Parameter(torch.randn(dim))

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n d"]:
        """e_ij of every pair of atoms of `molecules`, which have distances: (b, n, n, dim).

        Raises:
            ValueError: molecules without distances.
        """
        d = distances_of(molecules, self.linear.weight.dtype)
        disconnected = d.isinf()
        e = self.linear(self.bases(d.masked_fill(disconnected, 0.0)))
        return torch.where(disconnected.unsqueeze(-1), self.disconnected, e)


Kernel = Callable[[Tensor, Tensor], Tensor]


def softmax_kernel(d: Float[Tensor, "b n n"], mask: Bool[Tensor, "b n n"]) -> Float[Tensor, "b n n"]:
    """The softmax of the negative distances `d`, (b, n, n), over the pairs in `mask`; rows sum to 1.

    w_ij = exp(-d_ij) / sum_j exp(-d_ij)        over the j with mask_ij
    """
    return DenseLayout(mask).softmax(-d)


def exp_kernel(d: Float[Tensor, "b n n"], mask: Bool[Tensor, "b n n"]) -> Float[Tensor, "b n n"]:
    """The exponential of the negative distances `d`, (b, n, n), for the pairs in `mask`; rows do not sum to 1.

    w_ij = exp(-d_ij)        where mask_ij, else 0
    """
    return DenseLayout(mask).zero_masked(torch.exp(-d))


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

    >>> import torch
    >>> from molattn.chem import ConformerOptions, molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import DistanceKernel
    >>> ethanol = collate([molecule_graph("CCO", conformers=ConformerOptions())])
    >>> w = DistanceKernel("softmax")(ethanol).squeeze(-1)
    >>> torch.allclose(w.sum(-1), torch.ones(1, 3)), bool(w[0, 0, 1] > w[0, 0, 2])  # the bonded atom is closer
    (True, True)
    """

    one: Tensor

    def __init__(self, kind: str | Kernel = "softmax"):
        super().__init__()
        self.dim = 1
        self.kernel = resolve_name(kind, KERNELS, "kernel")
        self.register_buffer("one", torch.ones(()), persistent=False)  # has the dtype of the module

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n 1"]:
        """w_ij of every pair of atoms of `molecules`, which have distances: (b, n, n, 1).

        Raises:
            ValueError: molecules without distances.
        """
        d = distances_of(molecules, self.one.dtype)
        return self.kernel(d, pair_mask(molecules) & ~d.isinf()).unsqueeze(-1)


class AdjacencyWeights(Encoding):
    """Equal weights for an atom and its neighbours, zero for others.

    w_ij = (A + I)_ij / sum_j (A + I)_ij

    Zero in the padding; an atom without bonds has weight 1 with itself.

    Shapes: molecules of n atoms -> (b, n, n, 1).

    Source: the adjacency of the Molecule Attention Transformer, Maziarka et al. 2020, arXiv:2002.08264, normalized
    as in the authors' code.

    >>> from molattn.chem import molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import AdjacencyWeights
    >>> w = AdjacencyWeights()(collate([molecule_graph("CCO")])).squeeze(-1)
    >>> [[round(x, 2) for x in row] for row in w[0].tolist()]
    [[0.5, 0.5, 0.0], [0.33, 0.33, 0.33], [0.0, 0.5, 0.5]]
    """

    one: Tensor

    def __init__(self):
        super().__init__()
        self.dim = 1
        self.register_buffer("one", torch.ones(()), persistent=False)  # has the dtype of the module

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n 1"]:
        """w_ij of every pair of atoms of `molecules`: (b, n, n, 1)."""
        self_loops = torch.eye(molecules.mask.shape[-1], dtype=torch.bool, device=molecules.mask.device)
        a = (adjacency(molecules) | (self_loops & pair_mask(molecules))).to(self.one.dtype)
        return (a / a.sum(-1, keepdim=True).clamp_min(1.0)).unsqueeze(-1)
