"""Encodings: modules that compute edge or node features of molecules, and can be combined.

| encoding             | feature of a pair of atoms (of one atom)       | source                        |
|----------------------|------------------------------------------------|-------------------------------|
| `BondEncoding`       | the bond, a learned embedding                  |                               |
| `BondOneHot`         | the bond, one-hot                              | R-MAT                         |
| `PathEncoding`       | the shortest path length, a learned embedding  | Graphormer                    |
| `PathOneHot`         | that length, one-hot                           | R-MAT                         |
| `AttentionBias`      | that length, a learned number per head         | Graphormer's spatial encoding |
| `PathEdgeEncoding`   | the bonds along the shortest paths             | Graphormer's edge encoding    |
| `RandomWalkEncoding` | random-walk probabilities                      | GRIT                          |
| `DistanceEncoding`   | the distance in space                          | SchNet, DimeNet, R-MAT        |
| `DistanceKernel`     | a weight by distance, not learned              | MAT                           |
| `AdjacencyWeights`   | a weight by bonds, not learned                 | MAT                           |
| `DegreeEncoding`     | (the number of neighbours)                     | Graphormer's centrality       |
| `RandomWalkNodes`    | (return probabilities of random walks)         | GRIT                          |

Each is an `Encoding`, a module with `dim` channels; `forward(molecules)` takes a batch of `Molecules` and returns
(b, n, n, dim), or (b, n, dim) for the last two. Values in the padding of the molecules are never read; the returned
features are finite there, and zero for `DistanceKernel` and `AdjacencyWeights`. `Sum` and `Concat` combine encodings.
"""

from molattn.graph.encodings.base import Concat, Encoding, Molecules, Sum, adjacency, pair_mask
from molattn.graph.encodings.bonds import BondEncoding, BondOneHot, DegreeEncoding
from molattn.graph.encodings.distances import (
    AdjacencyWeights,
    Bessel,
    DistanceEncoding,
    DistanceKernel,
    Gaussians,
    RadialBases,
)
from molattn.graph.encodings.paths import (
    AttentionBias,
    PathEdgeEncoding,
    PathEncoding,
    PathOneHot,
    RandomWalkEncoding,
    RandomWalkNodes,
    path_codes,
    random_walks,
)

__all__ = [
    "AdjacencyWeights",
    "AttentionBias",
    "Bessel",
    "BondEncoding",
    "BondOneHot",
    "Concat",
    "DegreeEncoding",
    "DistanceEncoding",
    "DistanceKernel",
    "Encoding",
    "Gaussians",
    "Molecules",
    "PathEdgeEncoding",
    "PathEncoding",
    "PathOneHot",
    "RadialBases",
    "RandomWalkEncoding",
    "RandomWalkNodes",
    "Sum",
    "adjacency",
    "pair_mask",
    "path_codes",
    "random_walks",
]
