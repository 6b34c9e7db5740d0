"""What edges and nodes say to attention: small pieces, each from molecules to features, to be put together.

| piece                | says of a pair of atoms (of one atom)          | known from                    |
|----------------------|------------------------------------------------|-------------------------------|
| `BondEncoding`       | the bond, a learned row                        |                               |
| `BondOneHot`         | the bond, ones and zeros                       | R-MAT                         |
| `PathEncoding`       | the length of the shortest path, a learned row | Graphormer                    |
| `NeighbourhoodOrder` | that length, ones and zeros                    | R-MAT                         |
| `HeadTable`          | that length, a learned number per head         | Graphormer's spatial encoding |
| `PathEdgeEncoding`   | the bonds along the shortest paths             | Graphormer's edge encoding    |
| `RandomWalkEncoding` | where random walks lead                        | GRIT                          |
| `DistanceEncoding`   | the distance in space                          | SchNet, DimeNet, R-MAT        |
| `DistanceKernel`     | a weight by distance, not learned              | MAT                           |
| `AdjacencyWeights`   | a weight by bonds, not learned                 | MAT                           |
| `DegreeEncoding`     | (the number of neighbours)                     | Graphormer's centrality       |
| `RandomWalkNodes`    | (where random walks come back)                 | GRIT                          |

Each is an `Encoding`, a module with `dim` channels; `forward(molecules)` takes a batch of `Molecules` and returns
(b, n, n, dim), or (b, n, dim) for the last two. What stands in the padding of the molecules is never read; what is
returned there is finite, and zero for the weights. `Sum` and `Concat` put several together.
"""

from molattn.graph.encodings.bonds import BondEncoding, BondOneHot
from molattn.graph.encodings.combine import Concat, Sum
from molattn.graph.encodings.distances import Bessel, DistanceEncoding, Gaussians, RadialBases
from molattn.graph.encodings.molecules import Encoding, Molecules, adjacency, pairs
from molattn.graph.encodings.nodes import DegreeEncoding
from molattn.graph.encodings.paths import HeadTable, NeighbourhoodOrder, PathEdgeEncoding, PathEncoding, path_codes
from molattn.graph.encodings.walks import RandomWalkEncoding, RandomWalkNodes, random_walks
from molattn.graph.encodings.weights import AdjacencyWeights, DistanceKernel

__all__ = [
    "AdjacencyWeights",
    "Bessel",
    "BondEncoding",
    "BondOneHot",
    "Concat",
    "DegreeEncoding",
    "DistanceEncoding",
    "DistanceKernel",
    "Encoding",
    "Gaussians",
    "HeadTable",
    "Molecules",
    "NeighbourhoodOrder",
    "PathEdgeEncoding",
    "PathEncoding",
    "RadialBases",
    "RandomWalkEncoding",
    "RandomWalkNodes",
    "Sum",
    "adjacency",
    "pairs",
    "path_codes",
    "random_walks",
]
