"""The published blocks at small sizes, and graphs that they accept."""

from typing import Any

from molattn.graph.blocks import BLOCKS, BlockConfig
from tests.graph.graphs import EDGE_DIM, GLOBAL_DIM, NODE_DIM, double, random_graphs

HEADS = 2
NAMES = tuple(BLOCKS)
WITHOUT_U = ("grit",)


def edge_dim(name: str) -> int:
    """d_e of the tests: what the block prescribes, otherwise `EDGE_DIM`."""
    return {"mat": 2, "graphormer": HEADS}.get(name, EDGE_DIM)


def config(name: str, *, globals_: bool = True, dropout: float = 0.0) -> BlockConfig:
    global_dim = GLOBAL_DIM if globals_ and name not in WITHOUT_U else 0
    return BlockConfig(NODE_DIM, HEADS, edge_dim(name), global_dim, hidden_dim=6, dropout=dropout)


def make_block(name: str, *, globals_: bool = True, dropout: float = 0.0) -> Any:
    return double(BLOCKS[name](config(name, globals_=globals_, dropout=dropout)))


def graphs_for(name: str, of_sizes: list[int], *, globals_: bool = True, **how) -> Any:
    """`random_graphs` with the features that the block takes, and with degrees."""
    return random_graphs(
        of_sizes, globals_=globals_ and name not in WITHOUT_U, edge_dim=edge_dim(name), degree=True, **how
    )
