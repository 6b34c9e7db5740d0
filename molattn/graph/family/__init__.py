"""The family: attention on graphs as published, each a few parts of the one block. The table names the members.

Their encodings (what the edges hold), virtual nodes and readouts are chosen where a model is built.
"""

from collections.abc import Callable

from molattn.graph.block import GraphNetBlock
from molattn.graph.family.gaan import GatedSum, gaan
from molattn.graph.family.graphormer import graphormer
from molattn.graph.family.grit import DegreeScaledSum, GritEdges, GritEdgeUpdate, grit
from molattn.graph.family.mat import MixedEdgeUpdate, mat
from molattn.graph.family.rmat import RelativeEdgeUpdate, rmat
from molattn.graph.family.sizes import BlockSizes
from molattn.graph.family.tensor_dot import molattn, tensor_dot

FAMILY: dict[str, Callable[[BlockSizes], GraphNetBlock]] = {
    "molattn": molattn,
    "tensor-dot": tensor_dot,
    "gaan": gaan,
    "mat": mat,
    "rmat": rmat,
    "graphormer": graphormer,
    "grit": grit,
}

__all__ = [
    "FAMILY",
    "BlockSizes",
    "DegreeScaledSum",
    "GatedSum",
    "GritEdgeUpdate",
    "GritEdges",
    "MixedEdgeUpdate",
    "RelativeEdgeUpdate",
    "gaan",
    "graphormer",
    "grit",
    "mat",
    "molattn",
    "rmat",
    "tensor_dot",
]
