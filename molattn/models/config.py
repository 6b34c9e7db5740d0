"""What a model is made of, as plain data; importing it loads nothing heavy. The table at the foot names the kinds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GraphModelConfig:
    """Attention over all pairs of atoms, with bonds and path lengths on the edges.

    Attributes:
        kind: "graph".
        hidden_dim: channels of a node.
        num_layers: blocks.
        num_heads: heads of a block; they divide hidden_dim.
        edge_dim: channels of an edge.
        global_dim: channels of the graph features u; 0 leaves u out.
        feed_forward: channels inside the feed-forward steps, as a multiple of hidden_dim.
        max_path: longest path length, in bonds, that has a row of its own.
        readout: how the atoms become one vector: "mean", "sum" or "global" (u alone).
        dropout: probability, in training.
    """

    kind: str = "graph"
    hidden_dim: int = 64
    num_layers: int = 4
    num_heads: int = 8
    edge_dim: int = 16
    global_dim: int = 0
    feed_forward: int = 2
    max_path: int = 20
    readout: str = "mean"
    dropout: float = 0.1


@dataclass(frozen=True)
class SmilesModelConfig:
    """A Transformer encoder over the tokens of the canonical SMILES.

    Attributes:
        kind: "smiles-transformer".
        hidden_dim: channels of a token.
        num_layers: encoder layers.
        num_heads: heads of a layer; they divide hidden_dim.
        feed_forward: channels inside the feed-forward steps, as a multiple of hidden_dim.
        dropout: probability, in training.
    """

    kind: str = "smiles-transformer"
    hidden_dim: int = 64
    num_layers: int = 4
    num_heads: int = 8
    feed_forward: int = 2
    dropout: float = 0.1


ModelConfig = GraphModelConfig | SmilesModelConfig

CONFIGS: dict[str, type[GraphModelConfig] | type[SmilesModelConfig]] = {
    "graph": GraphModelConfig,
    "smiles-transformer": SmilesModelConfig,
}
