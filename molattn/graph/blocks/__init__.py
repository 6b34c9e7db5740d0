"""Published attention layers on graphs, each a `GraphNetBlock` with custom parts. `BLOCKS` lists them by name.

Edge encodings, virtual nodes and readouts are not part of a block: the model chooses them.
"""

from collections.abc import Callable

from molattn.graph.block import GraphNetBlock
from molattn.graph.blocks.config import BlockConfig
from molattn.graph.blocks.gaan import GatedSum, gaan
from molattn.graph.blocks.grit import DegreeScaledSum, GritEdges, GritEdgeUpdate, grit
from molattn.graph.blocks.mat import MixedEdgeUpdate, RelativeEdgeUpdate, mat, rmat
from molattn.graph.blocks.tensor_dot import graphormer, tensor_dot, tensor_dot_with_bias

BLOCKS: dict[str, Callable[[BlockConfig], GraphNetBlock]] = {
    "molattn": tensor_dot_with_bias,
    "tensor-dot": tensor_dot,
    "gaan": gaan,
    "mat": mat,
    "rmat": rmat,
    "graphormer": graphormer,
    "grit": grit,
}
"""The blocks by name: functions from a `BlockConfig` to a new block."""

__all__ = [
    "BLOCKS",
    "BlockConfig",
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
    "rmat",
    "tensor_dot",
    "tensor_dot_with_bias",
]
