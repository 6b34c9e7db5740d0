"""The encodings of edges and nodes that a model configuration can name.

To add your own, in a plugin (`molattn.plugins`): `EDGE_ENCODINGS["mine"] = lambda config: Mine(config.edge_dim)`, and
`--set model.edges='["bond", "path", "mine"]'` uses it.
"""

from collections.abc import Callable, Collection

import torch

from molattn.chem import BOND_FEATURES, BOND_SIZE, unpack_bond
from molattn.errors import unknown_choice
from molattn.graph.encodings import (
    AdjacencyWeights,
    AttentionBias,
    Bessel,
    BondEncoding,
    BondOneHot,
    Concat,
    DegreeEncoding,
    DistanceEncoding,
    DistanceKernel,
    Encoding,
    Gaussians,
    PathEdgeEncoding,
    PathEncoding,
    PathOneHot,
    RandomWalkEncoding,
    RandomWalkNodes,
    Sum,
)
from molattn.models.config import GraphModelConfig

_BOND_SIZES = [feature.size for feature in BOND_FEATURES]
_MAX_DEGREE = 8


def _bond_parts() -> torch.Tensor:
    return torch.from_numpy(unpack_bond(range(BOND_SIZE)))


def _distance(config: GraphModelConfig) -> Encoding:
    check_choice("radial_bases", config.radial_bases, RADIAL_BASES)
    return DistanceEncoding(config.edge_dim, RADIAL_BASES[config.radial_bases](config.num_bases, config.cutoff))


def check_choice(setting: str, value: str, choices: Collection[str]) -> None:
    """Raise ValueError unless the value of a setting of a model is one of `choices`."""
    if value not in choices:
        raise ValueError(unknown_choice(setting, value, choices))


RADIAL_BASES = {"gaussian": Gaussians, "bessel": Bessel}

EDGE_ENCODINGS: dict[str, Callable[[GraphModelConfig], Encoding]] = {
    "bond": lambda c: BondEncoding(_bond_parts(), _BOND_SIZES, c.edge_dim),
    "path": lambda c: PathEncoding(c.edge_dim, c.max_path),
    "head-table": lambda c: AttentionBias(c.max_path + 2, c.num_heads),
    "path-edges": lambda c: PathEdgeEncoding(_bond_parts(), _BOND_SIZES, c.edge_dim, c.path_edges),
    "random-walks": lambda c: RandomWalkEncoding(c.walk_steps, c.edge_dim),
    "distance": _distance,
    "distance-kernel": lambda c: DistanceKernel(c.distance_kernel),
    "adjacency": lambda c: AdjacencyWeights(),  # noqa: ARG005
    "bond-one-hot": lambda c: BondOneHot(_bond_parts(), _BOND_SIZES),  # noqa: ARG005
    "neighbourhood": lambda c: PathOneHot(c.max_path),  # as R-MAT calls the path length
}

NODE_ENCODINGS: dict[str, Callable[[GraphModelConfig], Encoding]] = {
    "degree": lambda c: DegreeEncoding(c.hidden_dim, _MAX_DEGREE),
    "random-walks": lambda c: RandomWalkNodes(c.walk_steps, c.hidden_dim),
}

JOIN_EDGES = {"sum": Sum, "concat": Concat}


def edge_encoding(config: GraphModelConfig) -> Encoding | None:
    """The encoding of the edges, or None if edges have no features.

    Raises:
        ValueError: an unknown name, or encodings that cannot be joined in this way.
    """
    if not config.edges:
        return None
    check_choice("join_edges", config.join_edges, JOIN_EDGES)
    for name in config.edges:
        check_choice("edge encoding", name, EDGE_ENCODINGS)
    return JOIN_EDGES[config.join_edges]([EDGE_ENCODINGS[name](config) for name in config.edges])


def node_encodings(config: GraphModelConfig) -> list[Encoding]:
    """The encodings that are added to the embeddings of the nodes.

    Raises:
        ValueError: an unknown name.
    """
    for name in config.nodes:
        check_choice("node encoding", name, NODE_ENCODINGS)
    return [NODE_ENCODINGS[name](config) for name in config.nodes]
