"""Model configurations, as plain data, without torch. `CONFIGS` lists the kinds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GraphModelConfig:
    """Attention over all pairs of atoms, or over bonded ones, with edge features.

    Attributes:
        kind: "graph".
        attention: the block, a name in `molattn.graph.blocks.BLOCKS`.
        hidden_dim: channels of a node.
        num_layers: the number of blocks.
        num_heads: heads of a block; the number must divide hidden_dim.
        edges: the features of each pair of atoms, names in `molattn.models.encodings.EDGE_ENCODINGS`.
        join_edges: whether the edge encodings are added ("sum") or concatenated ("concat").
        edge_dim: channels of an edge, or of each learned encoding in it.
        nodes: what is added to the embeddings of the atoms, names in `molattn.models.encodings.NODE_ENCODINGS`.
        neighbours: the atoms that an atom may attend to: "all", or "bonded" ones and itself.
        virtual_node: whether each molecule gets one extra node, connected to all atoms.
        global_dim: channels of the graph features u; 0 for none.
        feed_forward: channels inside the feed-forward steps, as a multiple of hidden_dim.
        readout: how the vectors of the atoms are pooled into one, a name in `molattn.graph.READOUTS`.
        dropout: probability, in training.
        max_path: path lengths of this many bonds or more share one embedding. Training from scratch uses 6 unless it
            is set.
        path_edges: for "path-edges": the length, in bonds, of the longest path whose bonds it reads.
        walk_steps: for "random-walks": the number of powers of the random walk.
        radial_bases, num_bases, cutoff: for "distance": "gaussian" or "bessel", number, and cutoff in angstrom.
        distance_kernel: for "distance-kernel": "exp" or "softmax".
        lambdas: for MAT: the weights of attention, distance and adjacency; they sum to 1.
        score: for the attentions "molattn" and "tensor-dot": a name in `molattn.attention.SCORES` or
            `SCORES_WITH_WEIGHTS`.
        normalizer, join: of the same two attentions: names in `molattn.attention.NORMALIZERS` and `JOINS`.
        temperature: of the softmax of the same two attentions; 0 is hard attention.
    """

    kind: str = "graph"
    attention: str = "molattn"
    hidden_dim: int = 64
    num_layers: int = 4
    num_heads: int = 8
    edges: tuple[str, ...] = ("bond", "path")
    join_edges: str = "sum"
    edge_dim: int = 16
    nodes: tuple[str, ...] = ()
    neighbours: str = "all"
    virtual_node: bool = False
    global_dim: int = 0
    feed_forward: int = 2
    readout: str = "mean"
    dropout: float = 0.1
    max_path: int = 20
    path_edges: int = 5
    walk_steps: int = 16
    radial_bases: str = "gaussian"
    num_bases: int = 32
    cutoff: float = 10.0
    distance_kernel: str = "exp"
    lambdas: tuple[float, ...] = (1 / 3, 1 / 3, 1 / 3)
    score: str = "scaled_dot"
    normalizer: str = "softmax"
    join: str = "concat"
    temperature: float = 1.0

    @property
    def needs_3d(self) -> bool:
        """Whether an encoding reads distances, which need conformers."""
        return any(name.startswith("distance") for name in self.edges)


@dataclass(frozen=True)
class SmilesModelConfig:
    """A Transformer encoder over the tokens of the canonical SMILES.

    Attributes:
        kind: "smiles-transformer".
        hidden_dim: channels of a token.
        num_layers: the number of encoder layers.
        num_heads: heads of a layer; the number must divide hidden_dim.
        feed_forward: channels inside the feed-forward steps, as a multiple of hidden_dim.
        dropout: probability, in training.
    """

    kind: str = "smiles-transformer"
    hidden_dim: int = 64
    num_layers: int = 4
    num_heads: int = 8
    feed_forward: int = 2
    dropout: float = 0.1

    @property
    def needs_3d(self) -> bool:
        """False: SMILES have no distances."""
        return False


ModelConfig = GraphModelConfig | SmilesModelConfig

CONFIGS: dict[str, type[GraphModelConfig] | type[SmilesModelConfig]] = {
    "graph": GraphModelConfig,
    "smiles-transformer": SmilesModelConfig,
}
