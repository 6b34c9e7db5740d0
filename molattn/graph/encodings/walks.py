"""Random walks along the bonds: the probability to reach atom j from atom i in k steps."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from molattn.graph.encodings.base import Encoding, Molecules, adjacency, pair_mask


def random_walks(molecules: Molecules, steps: int, dtype: torch.dtype | None = None) -> Float[Tensor, "b n n k"]:
    """R_ij = [I, M, M^2, ..., M^(K-1)]_ij        with M = D^-1 A, D the diagonal matrix of the degrees

    R_ijk is the probability that a walk from i is at j after k steps, each along a random bond. For an atom without
    bonds, the row of M is zero.

    Args:
        molecules: of n atoms.
        steps: K, the powers from 0 to K - 1.
        dtype: of the returned tensor; torch's default dtype if None.

    Returns:
        (b, n, n, K), zeros in the padding.

    Source: Ma et al. 2023, arXiv:2305.17589.
    """
    a = adjacency(molecules).to(dtype or torch.get_default_dtype())
    m = a / a.sum(-1, keepdim=True).clamp_min(1.0)
    powers = [torch.eye(a.shape[-1], dtype=a.dtype, device=a.device) * pair_mask(molecules)]
    for _ in range(steps - 1):
        powers.append(powers[-1] @ m)
    return torch.stack(powers, dim=-1)


class RandomWalkEncoding(Encoding):
    """Relative random-walk probabilities between pairs of atoms.

    e_ij = W R_ij + b
    R_ij = [I, M, M^2, ..., M^(K-1)]_ij        with M = D^-1 A

    Shapes: molecules of n atoms -> (b, n, n, dim).

    Args:
        steps: K, at least 1.
        dim: channels.

    Raises:
        ValueError: steps below 1.

    Source: the RRWP of GRIT, Ma et al. 2023, arXiv:2305.17589.
    """

    def __init__(self, steps: int, dim: int):
        super().__init__()
        self.dim, self.steps = dim, _check_steps(steps)
        self.linear = nn.Linear(steps, dim)

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n d"]:
        return self.linear(random_walks(molecules, self.steps, self.linear.weight.dtype))


class RandomWalkNodes(Encoding):
    """The return probabilities of random walks, as features of one atom.

    x_i = W R_ii + b        with R as in `random_walks`

    Shapes: molecules of n atoms -> (b, n, dim).

    Args:
        steps: K, at least 1.
        dim: channels.

    Raises:
        ValueError: steps below 1.

    Source: Ma et al. 2023, arXiv:2305.17589.
    """

    def __init__(self, steps: int, dim: int):
        super().__init__()
        self.dim, self.steps = dim, _check_steps(steps)
        self.linear = nn.Linear(steps, dim)

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n d"]:
        walks = random_walks(molecules, self.steps, self.linear.weight.dtype)
        return self.linear(walks.diagonal(dim1=1, dim2=2).mT)


def _check_steps(steps: int) -> int:
    if steps < 1:
        raise ValueError(f"the powers of M start at M^0: steps={steps} must be at least 1")
    return steps
